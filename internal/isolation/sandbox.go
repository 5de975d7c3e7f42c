package isolation

import (
	"slices"
	"strconv"
	"strings"

	"github.com/trl-dev/trl/api"
)

// macSystem are the directories that every program on macOS may read.
var macSystem = []string{
	"/System", "/Library", "/usr", "/bin", "/sbin", "/opt", "/dev", "/private/etc", "/private/var/db/timezone", "/private/var/select", "/Applications/Xcode.app",
}

// profile returns the profile for sandbox-exec(1). The last rule that matches counts.
func profile(r Request, p paths) string {
	var b strings.Builder
	b.WriteString("(version 1)\n(allow default)\n")
	rule := func(what string, paths ...string) {
		if len(paths) == 0 {
			return
		}
		b.WriteString("(" + what)
		for _, path := range paths {
			b.WriteString("\n  (subpath " + strconv.Quote(path) + ")")
		}
		b.WriteString(")\n")
	}
	if r.limited() {
		b.WriteString("(deny file-read* file-write*)\n(allow file-read-metadata (literal \"/\"))\n")
		rule("allow file-read* file-map-executable", macSystem...)
		rule("allow file-read* file-map-executable", p.readable...)
		rule("allow file-read* file-write*", existingNames(r.Private, r.Channel, p.writable)...)
		b.WriteString("(allow file-write* (literal \"/dev/null\") (literal \"/dev/tty\") (regex #\"^/dev/ttys[0-9]+$\"))\n")
		rule("deny file-write*", p.readOnly...)
		rule("deny file-read* file-write*", slices.Concat(p.hidden, p.secrets)...)
		b.WriteString("(deny network-outbound (remote unix-socket))\n")
		rule("allow network-outbound", p.writable...)
	} else {
		rule("deny file-read* file-write* network-outbound", realPaths(append([]string{r.Runner}, r.Secrets...))...)
		rule("allow file-read* file-write*", realPaths([]string{r.Channel})...)
	}
	if r.Isolation.Network == api.NetworkNone || r.Isolation.Network == api.NetworkAllow {
		b.WriteString("(deny network-outbound (remote ip))\n(deny network-bind (local ip))\n")
	}
	if r.Isolation.Processes == api.ProcessesOwn {
		b.WriteString("(deny signal)\n(allow signal (target same-sandbox))\n(deny mach-task-name mach-priv-task-port)\n")
	}
	return b.String()
}

// existingNames returns the paths that are not empty.
func existingNames(private, channel string, writable []string) []string {
	return slices.DeleteFunc(append([]string{private, channel}, writable...), func(p string) bool { return p == "" })
}
