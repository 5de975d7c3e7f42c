package soak_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// outside is a file that no isolated session may make, in a directory that it can see.
const outside = "/usr/trl-soak-outside"

const tryOutside = "(echo x > " + outside + ") 2>/dev/null || echo refused"

// TestIsolated: a session with workspace isolation is as sturdy as any other. Cancelling ends processes
// that hide and ignore SIGTERM; the session outlives a daemon and a shell that are killed, with the
// same isolation; a terminal has its size and its screen.
func TestIsolated(t *testing.T) {
	t.Cleanup(func() { os.Remove(outside) })
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "1"))
	service := daemon.Client(t)
	ctx := context.Background()
	isolation := &api.Isolation{Profile: api.ProfileWorkspace}
	s := create(t, service, api.SessionCreateParams{WorkingDir: t.TempDir(), Isolation: isolation}).SessionID
	run(t, service, s, "V=kept")

	stream := begin(t, daemon, s, orphans("28.6"))
	defer stream.Close()
	testkit.EventuallyNoProblem(t, func() string {
		if n := len(matching(`^sleep 28\.6$`)); n < 4 {
			return fmt.Sprintf("only %d processes have started", n)
		}
		return ""
	})
	if _, err := service.ExecCancel(ctx, api.ExecCancelParams{SessionID: s}); err != nil {
		t.Errorf("exec.cancel: %s", err)
	}
	gone(t, `sleep 28\.6$`)
	says(t, service, s, "echo $V; "+tryOutside, "kept\nrefused\n")

	terminal := create(t, service, api.SessionCreateParams{
		Kind: api.KindTerminal, WorkingDir: t.TempDir(), Isolation: isolation,
		Command: []string{"sh", "-c", "trap 'echo size $(stty size)' WINCH; " + tryOutside + "; while :; do read -r line && echo got $line; done"},
	}).SessionID
	shows := func(text string) {
		t.Helper()
		if _, err := service.SessionWait(ctx, api.SessionWaitParams{SessionID: terminal, Text: text}); err != nil {
			t.Errorf("the screen does not show %s: %s", text, err)
		}
	}
	shows("^refused$")

	service = daemon.Crash(t, nil)
	says(t, service, s, "echo $V; "+tryOutside, "kept\nrefused\n")
	if _, err := service.SessionResize(ctx, api.SessionResizeParams{SessionID: terminal, Cols: 91, Rows: 17}); err != nil {
		t.Error(err)
	}
	if _, err := service.SessionInput(ctx, api.SessionInputParams{SessionID: terminal, Text: "words\r"}); err != nil {
		t.Error(err)
	}
	shows("^size 17 91$")
	shows("^got words$")

	if r := run(t, service, s, "kill -9 $$"); !r.ShellRestarted {
		t.Errorf("the shell was not restarted: %+v", r)
	}
	says(t, service, s, "echo $V; "+tryOutside, "kept\nrefused\n")
	info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: s})
	if err != nil || info.Isolation == nil || info.Isolation.Files != api.FilesWorkspace {
		t.Errorf("isolation: %+v, %v", info.Isolation, err)
	}
	destroy(t, service, terminal)
	destroy(t, service, s)
	if _, err := os.Lstat(outside); err == nil {
		t.Error("a session wrote outside")
	}
}
