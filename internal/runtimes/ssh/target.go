package ssh

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
)

// target is a destination and the options of the connections to it. Targets that are equal share a
// connection.
type target struct {
	Destination string   `json:"destination"`
	Identity    string   `json:"identity,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// fixed are the options of ssh_config that the driver relies on, in lower case.
var fixed = map[string]bool{
	"batchmode": true, "controlmaster": true, "controlpath": true, "controlpersist": true, "escapechar": true,
	"forkafterauthentication": true, "loglevel": true, "remotecommand": true, "requesttty": true, "sessiontype": true,
	"stdinnull": true,
}

// newTarget checks what comes from a caller. Some of it ends in an argument list or, by way of
// ProxyCommand, in a shell.
func newTarget(t session.Target) (target, error) {
	o := t.Options
	for _, name := range o.Set() {
		switch name {
		case "destination", "identity", "ssh_options":
		default:
			return target{}, invalid(name, "a place of kind %s has no such option; it has destination, identity and ssh_options", api.PlaceSSH)
		}
	}
	if problem := badDestination(o.Destination); problem != "" {
		return target{}, invalid("destination", "%q: %s; write HOST, USER@HOST, ssh://USER@HOST:PORT or a name from ssh_config", o.Destination, problem)
	}
	if o.Identity != "" && (!strings.HasPrefix(o.Identity, "/") && !strings.HasPrefix(o.Identity, "~/") || strings.ContainsFunc(o.Identity, unicode.IsControl)) {
		return target{}, invalid("identity", "%q: is not an absolute path, and does not begin with ~/", o.Identity)
	}
	for _, option := range o.SSHOptions {
		key, value, ok := strings.Cut(option, "=")
		switch {
		case !ok || key == "" || value == "" || strings.ContainsFunc(key, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) }):
			return target{}, invalid("ssh_options", "%q: is not KEY=VALUE, such as Port=2222", option)
		case strings.ContainsFunc(option, unicode.IsControl):
			return target{}, invalid("ssh_options", "%q: contains a control character", option)
		case fixed[strings.ToLower(key)]:
			return target{}, invalid("ssh_options", "%s: is set by TRL, which relies on its value", key)
		}
	}
	return target{o.Destination, o.Identity, o.SSHOptions}, nil
}

func invalid(option, format string, args ...any) error {
	return api.InvalidParam("place."+option, format, args...)
}

// badDestination says what is wrong with a destination. The characters are those that ssh refuses
// since 9.6 because users put %h and %r into commands of their ssh_config without quotes.
func badDestination(s string) string {
	switch {
	case s == "":
		return "is missing"
	case len(s) > 1024:
		return "is too long"
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case s[0] == '-' || strings.Contains(s, "@-") || strings.Contains(s, "//-"):
		return "begins with a hyphen, which ssh would take for an option"
	case strings.HasSuffix(s, "@") || strings.HasSuffix(s, `\`) || strings.Contains(s, `\@`):
		return "names no host"
	}
	for _, r := range s {
		if unicode.IsControl(r) || unicode.IsSpace(r) {
			return "contains a space or a control character"
		}
		if strings.ContainsRune("'`\"$;&<>|(){}*?!#^", r) {
			return "contains " + string(r) + ", which means something to a shell"
		}
	}
	return ""
}

// key names the target in the name of a control socket, which must be short.
func (t target) key() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings always have a form in JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// args are the arguments of the ssh that opens a shared connection. For most options, ssh takes the
// first value: that of TRL where it relies on it, then that of the place, then a default of TRL. What
// none of them says comes from the user's ssh_config.
func (t target) args(socket string) []string {
	args := []string{"ssh", "-N", "-S", quoteOption(socket)}
	for _, o := range []string{
		"ControlMaster=yes", "ControlPersist=no", // ssh stays in the foreground, a child of the daemon
		"BatchMode=yes", // never asks for a password or about a host key
		"LogLevel=INFO", // with the reason why a connection broke
	} {
		args = append(args, "-o", o)
	}
	if t.Identity != "" {
		args = append(args, "-i", t.Identity, "-o", "IdentitiesOnly=yes")
	}
	for _, o := range t.Options {
		args = append(args, "-o", o)
	}
	for _, o := range []string{
		"ServerAliveInterval=15", "ServerAliveCountMax=3", // a dead connection is noticed within a minute
		"ConnectTimeout=20",
		"ClearAllForwardings=yes", "ForwardX11=no", "ForwardAgent=no", // they would end with the connection, the session does not
	} {
		args = append(args, "-o", o)
	}
	return append(args, "--", t.Destination)
}

// quoteOption protects a path from the expansion of % in ControlPath.
func quoteOption(path string) string { return strings.ReplaceAll(path, "%", "%%") }
