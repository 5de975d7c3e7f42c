package cli

import (
	"os"
	"strings"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
)

// notInherited are the variables of the caller's shell that a session does not get: each shell
// sets its own.
var notInherited = map[string]bool{
	"_": true, "PWD": true, "OLDPWD": true, "SHLVL": true,
	api.SessionMarker: true, // marks a caller that runs in a session itself
	api.ExecMarker:    true,
}

// callerEnv returns the caller's environment, for a new session, without variables that JSON
// cannot carry: bash's exported functions, and values that are not UTF-8.
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

// isName reports whether s can be the name of a variable in every shell.
func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || '9' < r) {
			return false
		}
	}
	return s != ""
}
