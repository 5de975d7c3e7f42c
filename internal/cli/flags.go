package cli

import (
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/api"
)

// secondsFlag is a duration: 30, 1.5, 90s, 2m. 0 is none; not given is nil.
type secondsFlag struct{ s *float64 }

func (f *secondsFlag) Type() string { return "DURATION" }

func (f *secondsFlag) String() string {
	if f.s == nil {
		return ""
	}
	return seconds(*f.s)
}

func (f *secondsFlag) Set(text string) error {
	s, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d, durationErr := time.ParseDuration(text)
		if durationErr != nil {
			return fmt.Errorf("not a duration such as 30, 1.5s or 2m")
		}
		s = d.Seconds()
	}
	if !(s >= 0) || math.IsInf(s, 0) {
		return fmt.Errorf("must be 0 or more")
	}
	f.s = &s
	return nil
}

// limitFlags say when a new session ends by itself.
type limitFlags struct{ lifetime, idleTimeout secondsFlag }

func (f *limitFlags) register(flags *pflag.FlagSet, session string) {
	flags.Var(&f.lifetime, "lifetime", "end "+session+" after this time, also when it is in use (0 is never)")
	flags.Var(&f.idleTimeout, "idle-timeout", "end "+session+" when it has been idle for this time (0 is never)")
}

func (f *limitFlags) fill(p *api.SessionCreateParams) {
	p.LifetimeS, p.IdleTimeoutS = f.lifetime.s, f.idleTimeout.s
}

// given returns the name of the first flag that the user set, "" for none.
func (f *limitFlags) given() string {
	switch {
	case f.lifetime.s != nil:
		return "--lifetime"
	case f.idleTimeout.s != nil:
		return "--idle-timeout"
	}
	return ""
}

// nameFlag is the name or id of a session. Given as "", which a script does by mistake, it
// is refused: without a name the command would mean something else.
type nameFlag string

func (f *nameFlag) Type() string   { return "NAME" }
func (f *nameFlag) String() string { return string(*f) }

func (f *nameFlag) Set(text string) error {
	if text == "" {
		return fmt.Errorf("the name of a session must not be empty")
	}
	*f = nameFlag(text)
	return nil
}

// envFlag collects K=V. K alone takes the caller's value, so that a secret need
// not stand in an argument list.
type envFlag map[string]string

func (f *envFlag) Type() string { return "KEY[=VALUE]" }

func (f *envFlag) String() string {
	keys := make([]string, 0, len(*f))
	for k := range *f {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return strings.Join(keys, ",")
}

func (f *envFlag) Set(text string) error {
	key, value, given := strings.Cut(text, "=")
	if key == "" {
		return fmt.Errorf("no name before the =")
	}
	if !given {
		if value, given = os.LookupEnv(key); !given {
			return fmt.Errorf("%s is not set here; give a value with %s=VALUE", key, key)
		}
	}
	if !utf8.ValidString(value) {
		return fmt.Errorf("the value of %s is not UTF-8", key)
	}
	if *f == nil {
		*f = envFlag{}
	}
	(*f)[key] = value
	return nil
}

// checkText refuses what the wire would change: JSON is UTF-8, and a command with a
// replacement character in it is another command.
func checkText(what, s string) error {
	if utf8.ValidString(s) {
		return nil
	}
	return withHint(fmt.Errorf("%s: is not UTF-8: %s", what, printable(s)), "write the bytes as escapes, as in printf '\\377', or give them on stdin with -i")
}

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
