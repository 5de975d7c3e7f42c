package server_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

func mustListen(t *testing.T, path string) *server.Listener {
	t.Helper()
	ln, err := server.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func TestListenIsPrivate(t *testing.T) {
	old := syscall.Umask(0) // the umask that protects nothing
	defer syscall.Umask(old)
	path := filepath.Join(testkit.Dir(t), "new", "trl", "trl.sock")
	mustListen(t, path)
	for file, want := range map[string]os.FileMode{
		filepath.Dir(path): os.ModeDir | 0o700, path: os.ModeSocket | 0o600, path + ".lock": 0o600,
	} {
		if info, err := os.Lstat(file); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", file, info.Mode(), err, want)
		}
	}
}

func TestListenOncePerPath(t *testing.T) {
	path := filepath.Join(testkit.Dir(t), "trl.sock")
	first := mustListen(t, path)
	_, err := server.Listen(path)
	if !errors.Is(err, server.ErrRunning) || err.Error() != "daemon: already running on "+path {
		t.Errorf("second: %v", err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("the first one was disturbed: %s", err)
	} else {
		conn.Close()
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := first.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := os.Lstat(path + ".lock"); err != nil {
		t.Errorf("the lock file: %v", err)
	}
	mustListen(t, path)
}

func TestListenReplacesTheStale(t *testing.T) {
	path := filepath.Join(testkit.Dir(t), "trl.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	mustListen(t, path)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// TestListenNeverStealsTheLiving: Listen does not take the socket of a live daemon, not even of one
// whose lock file was removed.
func TestListenNeverStealsTheLiving(t *testing.T) {
	path := filepath.Join(testkit.Dir(t), "trl.sock")
	mustListen(t, path)
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Listen(path); !errors.Is(err, server.ErrRunning) {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

// TestCloseRemovesOnlyItsOwn: Close leaves the socket that another daemon made after ours was
// removed.
func TestCloseRemovesOnlyItsOwn(t *testing.T) {
	path := filepath.Join(testkit.Dir(t), "trl.sock")
	first := mustListen(t, path)
	os.Remove(path)
	os.Remove(path + ".lock")
	mustListen(t, path)
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of the other is gone: %s", err)
	}
}

func TestListenRefuses(t *testing.T) {
	base := testkit.Dir(t)
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(base, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o770); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(base, link); err != nil {
		t.Fatal(err)
	}
	limit := 107
	if runtime.GOOS == "darwin" {
		limit = 103
	}
	tests := []struct{ path, message string }{
		{filepath.Join(base, strings.Repeat("x", limit)), fmt.Sprintf("this system allows at most %d", limit)},
		{file, "the file is not a socket"},
		{open, "the file is not a socket"},
		{filepath.Join(file, "trl.sock"), "not a directory"},
		{filepath.Join(open, "trl.sock"), "others may write to it (mode 0770)"},
		{filepath.Join(link, "trl.sock"), "is not a directory"},
	}
	if os.Geteuid() == 0 {
		foreign := filepath.Join(base, "foreign")
		if err := os.Mkdir(foreign, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(foreign, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		tests = append(tests, struct{ path, message string }{filepath.Join(foreign, "trl.sock"), "belongs to uid 65534, not to 0"})
	}
	for _, tt := range tests {
		_, err := server.Listen(tt.path)
		if err == nil || !strings.Contains(err.Error(), tt.message) {
			t.Errorf("%s: %v; want %q", tt.path, err, tt.message)
		}
	}
	if text, err := os.ReadFile(file); string(text) != "precious" {
		t.Errorf("the file was touched: %q, %v", text, err)
	}
	// The longest path that is allowed works.
	mustListen(t, filepath.Join(base, strings.Repeat("x", limit-len(base)-1)))
}

// TestOthersAreRefused opens everything the file system protects, so that only
// the credentials of the peer are left.
func TestOthersAreRefused(t *testing.T) {
	d := start(t, server.Config{})
	conn, err := dialAs(t, d.socket, 65534)
	if err != nil {
		t.Fatal(err)
	}
	p := d.newPeer(t, conn)
	if a := p.refused(`null`, api.CodeForbidden); !strings.Contains(a.Error.Message, "uid 65534 may not use the daemon of uid 0") {
		t.Errorf("%s", a.Error.Message)
	}
	p.eof()
	d.dial(t).ping()
}
