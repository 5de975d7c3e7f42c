package server_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

// watched is a listener whose socket is watched, and that greets who connects.
func watched(t *testing.T, path string, log io.Writer) *server.Listener {
	t.Helper()
	ln := mustListen(t, path)
	ln.Watch(server.WatchConfig{
		Logger: slog.New(slog.NewTextHandler(log, nil)), Elsewhere: func() string { return "" }, Moved: func(string) {},
	})
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = nc.Write([]byte("hello"))
			nc.Close()
		}
	}()
	return ln
}

// greeted connects until a server greets: the socket reappears a moment after its removal.
func greeted(t *testing.T, path string) {
	t.Helper()
	testkit.EventuallyNoProblem(t, func() string {
		nc, err := net.Dial("unix", path)
		if err != nil {
			return err.Error()
		}
		defer nc.Close()
		if text, err := io.ReadAll(nc); string(text) != "hello" {
			return fmt.Sprintf("%s: reads %q, %v", path, text, err)
		}
		return ""
	})
}

func TestRemovedSocketComesBack(t *testing.T) {
	for _, tt := range []struct {
		name   string
		remove func(path string) error
	}{
		{"the socket", os.Remove},
		{"the socket and the lock", func(path string) error { return errors.Join(os.Remove(path+".lock"), os.Remove(path)) }},
		{"the directory", func(path string) error { return os.RemoveAll(filepath.Dir(path)) }},
		{"the directory, renamed", func(path string) error {
			_ = os.RemoveAll(filepath.Dir(path) + ".moved")
			return os.Rename(filepath.Dir(path), filepath.Dir(path)+".moved")
		}},
		{"renamed", func(path string) error { return os.Rename(path, path+".old") }},
		{"replaced by a dead socket", func(path string) error {
			dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path + ".dead", Net: "unix"})
			if err != nil {
				return err
			}
			dead.SetUnlinkOnClose(false)
			return errors.Join(dead.Close(), os.Rename(path+".dead", path))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(testkit.Dir(t), "run", "trl.sock")
			ln := watched(t, path, io.Discard)
			for range 3 { // not only once
				greeted(t, path)
				_ = tt.remove(path) // a directory may be filled again while it is removed
			}
			greeted(t, path)
			if _, err := server.Listen(path); !errors.Is(err, server.ErrRunning) {
				t.Errorf("a second one: %v", err)
			}
			if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
				t.Errorf("%v, %v", info, err)
			}
			if err := ln.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// TestReplacedSocketIsNotTaken: a file that another process put in the place of the socket stays.
func TestReplacedSocketIsNotTaken(t *testing.T) {
	path := filepath.Join(testkit.Dir(t), "trl.sock")
	log := &testkit.Buffer{}
	watched(t, path, log)
	if err := os.WriteFile(path+".new", []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	testkit.EventuallyNoProblem(t, func() string {
		if text := log.String(); !strings.Contains(text, "cannot be created again") {
			return "nothing is reported: " + text
		}
		return ""
	})
	if text, err := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
	// When it is removed, the daemon makes the socket again.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	greeted(t, path)
}

// TestSocketMoves: where the directory cannot be made again, there is another place.
func TestSocketMoves(t *testing.T) {
	base := testkit.Dir(t)
	path, other := filepath.Join(base, "up", "run", "trl.sock"), filepath.Join(base, "tmp", "trl.sock")
	for _, err := range []error{
		os.Mkdir(base+"/real", 0o700), os.WriteFile(base+"/file", nil, 0o600), os.Symlink("real", base+"/up"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ln := mustListen(t, path)
	moved := make(chan string, 1)
	ln.Watch(server.WatchConfig{
		Logger: slog.New(slog.DiscardHandler), Elsewhere: func() string { return other }, Moved: func(path string) { moved <- path },
	})
	// In one step the directory above is a file: a watcher that finds the place empty makes it again.
	if err := os.Symlink("file", base+"/next"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(base+"/next", base+"/up"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(base + "/real/run/trl.sock"); err != nil { // which is noticed
		t.Fatal(err)
	}
	if got := <-moved; got != other {
		t.Errorf("moved to %s", got)
	}
	nc, err := net.Dial("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if _, err := server.Listen(other); !errors.Is(err, server.ErrRunning) {
		t.Errorf("a second one: %v", err)
	}
}

// TestStickyDirectory: only its owner can replace a socket there.
func TestStickyDirectory(t *testing.T) {
	dir := filepath.Join(testkit.Dir(t), "tmp")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "trl.sock")
	ln := mustListen(t, path)
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info, err)
	}
	ln.Close()
	if os.Geteuid() != 0 {
		return
	}
	// There another user can make the files first, and may own the directory.
	if err := os.Chown(path+".lock", 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Listen(path); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("lock of somebody else: %v", err)
	}
	os.Remove(path + ".lock")
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Listen(path); err == nil || !strings.Contains(err.Error(), "belongs to uid 65534") {
		t.Errorf("directory of somebody else: %v", err)
	}
}
