package place_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trl-dev/trl/internal/place"
)

func TestLockNamesItsHolder(t *testing.T) {
	dir := t.TempDir()
	if h, ok := place.ReadHolder(dir); ok {
		t.Errorf("without a lock: %+v", h)
	}
	l, err := place.TakeLock(dir, "/run/some where/trl.sock")
	if err != nil {
		t.Fatal(err)
	}
	want := place.Holder{PID: os.Getpid(), Socket: "/run/some where/trl.sock"}
	if h, held := place.FindHolder(dir); !held || h != want {
		t.Errorf("%+v, %v", h, held)
	}
	if paths := place.Find(dir); !slices.Contains(paths, want.Socket) {
		t.Errorf("%q", paths)
	}
	if _, err := place.TakeLock(dir, ""); !errors.Is(err, place.ErrInUse) {
		t.Errorf("second: %v", err)
	}
	l.Stopping()
	want.Stopping = true
	if h, held := place.FindHolder(dir); !held || h != want {
		t.Errorf("stopping: %+v, %v", h, held)
	}
	l.Release()
	if _, held := place.FindHolder(dir); held {
		t.Error("held after Release")
	}
	if l, err = place.TakeLock(dir, ""); err != nil {
		t.Fatal(err)
	}
	if h, held := place.FindHolder(dir); !held || h != (place.Holder{PID: os.Getpid()}) {
		t.Errorf("%+v, %v", h, held)
	}
	l.Release()
}

// TestLockOfSomebodyElse: a lock file that is malformed or belongs to another user directs no client
// to a socket.
func TestLockOfSomebodyElse(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "running", "running x /s", "running -1 /s", "walking 5 /s"} {
		if err := os.WriteFile(filepath.Join(dir, "lock"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if h, ok := place.ReadHolder(dir); ok {
			t.Errorf("%q: %+v", text, h)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("only root can make a file of another user")
	}
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte("running 5 /s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h, ok := place.ReadHolder(dir); !ok || h.Socket != "/s" {
		t.Fatalf("own: %+v, %v", h, ok)
	}
	if err := os.Chown(filepath.Join(dir, "lock"), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if h, ok := place.ReadHolder(dir); ok {
		t.Errorf("of another user: %+v", h)
	}
}
