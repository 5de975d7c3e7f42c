package trltest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// recorder is a test that collects its errors.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// newSession starts a session with a process that stays.
func newSession(t *testing.T, d *Daemon) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := d.Client(t)
	info, err := c.SessionCreate(ctx, api.SessionCreateParams{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.ExecRun(ctx, api.ExecParams{SessionID: info.SessionID, Command: "sleep 1000 & true"}); err != nil || len(r.LeftRunning) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	return info.SessionID
}

func TestCrashAndRestart(t *testing.T) {
	d := Start(t)
	id := newSession(t, d)
	d.Kill9()
	if left := d.left([]string{id}); len(left) < 3 {
		t.Fatalf("runner, shell and sleep should be there: %v", left)
	}
	d.Restart(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if info, err := d.Client(t).SessionInfo(ctx, api.SessionInfoParams{SessionID: id}); err != nil || info.State != api.SessionIdle {
		t.Fatalf("%+v, %v", info.State, err)
	}
	d.Stop(t)
	if left := d.left([]string{id}); len(left) > 0 {
		t.Fatalf("left: %v", left)
	}
}

func TestCrashWithoutRestart(t *testing.T) {
	d := Start(t)
	id := newSession(t, d)
	d.Kill9()
	d.Stop(t)
	if left := d.left([]string{id}); len(left) > 0 {
		t.Fatalf("left: %v", left)
	}
}

// TestFaultsAreSeen: what Stop looks for, it finds.
func TestFaultsAreSeen(t *testing.T) {
	d := Start(t)
	id := newSession(t, d)
	d.cmd.Process.Kill() // as if it had crashed by itself: killed is not set
	<-d.exited
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(d.root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("race.1", "WARNING: DATA RACE\n")
	write("stderr", "panic: oops\n\ngoroutine 1 [running]:\n")
	r := &recorder{TB: t}
	d.Stop(r)
	all := strings.Join(r.errors, "\n")
	for _, want := range []string{"process left behind", "sleep 1000", "the socket is left behind", "data race", "panic: oops", "ended with signal: killed"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q was not reported:\n%s", want, all)
		}
	}
	if left := d.left([]string{id}); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	write("stderr", "")
	if err := os.Remove(filepath.Join(d.root, "race.1")); err != nil {
		t.Error(err)
	}
}

func TestStdio(t *testing.T) {
	d := Start(t, Stdio())
	if _, err := d.Stdin.Write([]byte(`{"id":1,"method":"system.ping"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 200)
	if n, err := d.Stdout.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), `{"id":1,"ok":true`) {
		t.Errorf("%q, %v", buf[:n], err)
	}
}
