package client_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// places gives a daemon that is started by the client directories of its own.
func places(t *testing.T) {
	t.Helper()
	dir := testkit.Dir(t)
	for _, name := range []string{"STATE", "RUNTIME"} {
		sub := filepath.Join(dir, strings.ToLower(name))
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TRL_"+name+"_DIR", sub)
	}
	t.Setenv("GORACE", "atexit_sleep_ms=0")
}

func TestSpawn(t *testing.T) {
	places(t)
	c, err := client.Spawn(timeout(t), trltest.Binary(t), "serve", "--stdio", "--log-level", "error")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.SessionCreate(timeout(t), api.SessionCreateParams{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.SessionInfo(timeout(t), api.SessionInfoParams{SessionID: s.SessionID})
	if err != nil {
		t.Fatal(err)
	}
	// Streams share the pipes.
	st, err := c.ExecStream(timeout(t), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: s.SessionID, Command: "echo out; read x; sleep 100"}})
	if err != nil {
		t.Fatal(err)
	}
	recv(t, st, 1, "out\n")
	pid, ok := c.PeerPID()
	if system, err := c.SystemInfo(timeout(t), api.SystemInfoParams{}); err != nil || !ok || system.PID != pid {
		t.Errorf("pid %d, %d, %v", pid, system.PID, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-c.Done()
	for _, pid := range []int{pid, info.ShellPID, info.RunnerPID} {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d is left", pid)
		}
	}
	if _, err := st.Recv(); !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Errorf("the stream: %v", err)
	}
	if _, err := c.SystemPing(timeout(t), api.SystemPingParams{}); !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Errorf("after Close: %v", err)
	}
}

func TestSpawnErrors(t *testing.T) {
	places(t)
	for _, test := range []struct {
		argv []string
		want string
	}{
		{[]string{"/nowhere/trl", "serve"}, `daemon "/nowhere/trl serve": fork/exec /nowhere/trl: no such file or directory`},
		{[]string{"sh", "-c", "exit 3"}, `(exit status 3)`},
		{[]string{"echo", "hello"}, `a line that is not a JSON object`},
	} {
		_, err := client.Spawn(timeout(t), test.argv...)
		if !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v", test.argv, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := client.Spawn(ctx, "cat"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
