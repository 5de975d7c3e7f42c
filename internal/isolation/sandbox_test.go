package isolation_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/isolation"
)

// The profile for macOS, which no test can run on Linux.
func TestSandboxProfile(t *testing.T) {
	r := isolation.Request{
		Isolation: api.Isolation{Files: api.FilesWorkspace, Network: api.NetworkNone, Processes: api.ProcessesOwn},
		Private:   "/private/tmp/p", Channel: "/private/tmp/sh",
	}
	got := isolation.Profile(r, []string{"/Users/u/w"}, []string{`/Users/u/"q"`}, []string{"/Users/u/w/h"}, []string{"/Users/u/w/r"})
	const want = `(version 1)
(allow default)
(deny file-read* file-write*)
(allow file-read-metadata (literal "/"))
(allow file-read* file-map-executable
  (subpath "/System")
  (subpath "/Library")
  (subpath "/usr")
  (subpath "/bin")
  (subpath "/sbin")
  (subpath "/opt")
  (subpath "/dev")
  (subpath "/private/etc")
  (subpath "/private/var/db/timezone")
  (subpath "/private/var/select")
  (subpath "/Applications/Xcode.app"))
(allow file-read* file-map-executable
  (subpath "/Users/u/\"q\""))
(allow file-read* file-write*
  (subpath "/private/tmp/p")
  (subpath "/private/tmp/sh")
  (subpath "/Users/u/w"))
(allow file-write* (literal "/dev/null") (literal "/dev/tty") (regex #"^/dev/ttys[0-9]+$"))
(deny file-write*
  (subpath "/Users/u/w/r"))
(deny file-read* file-write*
  (subpath "/Users/u/w/h"))
(deny network-outbound (remote unix-socket))
(allow network-outbound
  (subpath "/Users/u/w"))
(deny network-outbound (remote ip))
(deny network-bind (local ip))
(deny signal)
(allow signal (target same-sandbox))
(deny mach-task-name mach-priv-task-port)
`
	if got != want {
		t.Errorf("%s", got)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	daemon := "(version 1)\n(allow default)\n(deny file-read* file-write* network-outbound\n  (subpath " + strconv.Quote(dir) + "))\n(deny network-outbound (remote ip))\n(deny network-bind (local ip))\n"
	if got := isolation.Profile(isolation.Request{Isolation: api.Isolation{Network: api.NetworkNone}, Secrets: []string{dir, dir + "/absent"}}, nil, nil, nil, nil); got != daemon {
		t.Errorf("with all files: %s", got)
	}
	if got := isolation.Profile(isolation.Request{}, nil, nil, nil, nil); got != "(version 1)\n(allow default)\n" {
		t.Errorf("without isolation: %s", got)
	}
}
