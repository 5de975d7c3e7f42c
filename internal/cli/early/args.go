package early

import (
	"errors"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/place"
)

// Parse recognises `trl run -s NAME [--] WORD...` in the arguments of the program, with the other ways
// to write -s. It accepts only what the flag parser of the usual path understands in the same way,
// and rejects everything else, also if it is valid.
func Parse(args []string) (session string, words []string, ok bool) {
	if len(args) < 4 || args[1] != "run" || strings.Contains(path.Base(args[0]), "runner") {
		return "", nil, false
	}
	flag, rest := args[2], args[3:]
	switch {
	case flag == "-s" || flag == "--session":
		session, rest = rest[0], rest[1:]
	case strings.HasPrefix(flag, "--session="):
		session = strings.TrimPrefix(flag, "--session=")
	case strings.HasPrefix(flag, "-s"):
		session = flag[len("-s"):]
	}
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	} else if len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
		return "", nil, false // another flag
	}
	if session == "" || session[0] == '-' || session[0] == '=' || !utf8.ValidString(session) {
		return "", nil, false
	}
	return session, rest, len(rest) > 0 && rest[0] != "" && utf8.ValidString(strings.Join(rest, " "))
}

// harmless are the variables of TRL that do not matter to a command in an existing session.
var harmless = map[string]bool{api.SessionMarker: true, api.ExecMarker: true, "TRL_AUTH_TOKEN": true}

// Sockets returns where the usual path looks for the daemon in an environment, best first. It returns
// none if the settings are not plain: they may be wrong or name another kind of daemon, and only the
// usual path can read them.
func Sockets(environ []string) []string {
	env := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case name == "HOME" || strings.HasPrefix(name, "XDG_"):
		case !strings.HasPrefix(name, "TRL_") || value == "" || harmless[name]:
			continue
		case name != "TRL_SOCKET_PATH" && name != "TRL_STATE_DIR" && name != "TRL_RUNTIME_DIR" || !plainPath(value):
			return nil
		}
		env[name] = value
	}
	getenv := func(name string) string { return env[name] }
	// A file may have any setting.
	if file := place.ConfigFile(getenv); file != "" {
		if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
			return nil
		}
	}
	if socket := env["TRL_SOCKET_PATH"]; socket != "" {
		return []string{socket}
	}
	dir := env["TRL_STATE_DIR"]
	if dir == "" {
		dir = place.StateDir(getenv)
	}
	return place.Find(dir)
}

// plainPath reports whether a path is valid for every setting, and is not changed by reading it.
func plainPath(p string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_.-"
	return len(p) <= 80 && path.IsAbs(p) && path.Clean(p) == p && strings.Trim(p, letters) == ""
}
