package cli

import (
	"os"
	"strings"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
)

// notInherited are variables of the caller's shell that say nothing about
// another one: each shell makes its own.
var notInherited = map[string]bool{
	"_": true, "PWD": true, "OLDPWD": true, "SHLVL": true,
	api.SessionMarker: true, // says that the caller itself runs in a session
}

// callerEnv is the environment a session begins with: the caller's. What the wire
// cannot carry (bash's exported functions, values that are not UTF-8) is left out.
func callerEnv() map[string]string {
	environ := os.Environ()
	env := make(map[string]string, len(environ))
	for _, kv := range environ {
		key, value, ok := strings.Cut(kv, "=")
		if ok && !notInherited[key] && isName(key) && utf8.ValidString(value) {
			env[key] = value
		}
	}
	return env
}

// isName reports whether every shell can have a variable of that name.
func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || '9' < r) {
			return false
		}
	}
	return s != ""
}
