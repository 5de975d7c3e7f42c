package client_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// TestSocketOfSomebodyElse: it is sent nothing, not even a connection.
func TestSocketOfSomebodyElse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a socket of somebody else")
	}
	ln, path := listen(t)
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	_, err := client.Dial(t.Context(), path)
	if !errors.Is(err, api.ErrRuntimeUnavailable) || err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v", err)
	}
	if want := "daemon at " + path + ": belongs to another user: to uid 65534, and you are uid 0"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if err := ln.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if nc, err := ln.Accept(); err == nil {
		nc.Close()
		t.Error("somebody connected")
	}
}
