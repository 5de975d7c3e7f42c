package exec_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestProgramsBesideTheShellOutliveTheDaemon kills the daemon while programs run beside a busy
// shell: the next daemon knows them, with their process ids, and their output is complete, also
// after the end of the session.
func TestProgramsBesideTheShellOutliveTheDaemon(t *testing.T) {
	d, c, ctx := start(t)
	s := testkit.Must(c.SessionCreate(ctx, api.SessionCreateParams{Name: "build"}))(t)
	testkit.Must(c.ExecStart(ctx, api.ExecParams{SessionID: "build", Command: "sleep 300"}))(t)
	gate := filepath.Join(t.TempDir(), "gate")
	const n = 8
	var before [n]api.ExecInfo
	for i := range n {
		before[i] = testkit.Must(c.ExecStart(ctx, api.ExecParams{SessionID: "build", Argv: []string{
			"sh", "-c", `while ! [ -e "$1" ]; do sleep 0.05; done; i=0; while [ $i -lt 5000 ]; do echo "$2 line $i"; i=$((i+1)); done; exit $2`, "sh", gate, fmt.Sprint(i),
		}}))(t)
	}
	doomed := testkit.Must(c.ExecStart(ctx, api.ExecParams{SessionID: "build", Argv: []string{"sleep", "300"}}))(t)
	d.Kill9()
	d.Restart(t)
	c = d.Client(t)
	if got := testkit.Must(c.SessionInfo(ctx, api.SessionInfoParams{SessionID: "build"}))(t); got.Parallel != n+1 || got.State != api.SessionRunning {
		t.Errorf("%d programs run, state %s", got.Parallel, got.State)
	}
	testkit.Must(c.ExecRun(ctx, api.ExecParams{SessionID: "build", Argv: []string{"touch", gate}}))(t)
	for i, x := range before {
		testkit.Must(c.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{x.ExecID}}))(t)
		after := testkit.Must(c.ExecInfo(ctx, api.ExecInfoParams{ExecID: x.ExecID}))(t)
		if after.PID != x.PID || after.PID == 0 || after.Outcome == nil || after.Outcome.ExitCode != i {
			t.Errorf("%d: process %d, before %d; %+v", i, after.PID, x.PID, after.Outcome)
		}
	}
	if err := syscall.Kill(doomed.PID, 0); err != nil {
		t.Errorf("the last program: %v", err)
	}
	ended := testkit.Must(c.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: s.SessionID, Force: true}))(t)
	if len(ended.Killed) < 2 {
		t.Errorf("killed: %+v", ended.Killed)
	}
	for i, x := range before {
		var want strings.Builder
		for k := range 5000 {
			fmt.Fprintf(&want, "%d line %d\n", i, k)
		}
		if read := testkit.Must(c.ExecOutput(ctx, api.ExecOutputParams{ExecID: x.ExecID, Limit: num(1 << 20)}))(t); read.Data != want.String() || !read.Complete {
			t.Errorf("%d: %d bytes of %d", i, len(read.Data), want.Len())
		}
	}
	last := testkit.Must(c.ExecInfo(ctx, api.ExecInfoParams{ExecID: doomed.ExecID}))(t)
	if last.State != api.ExecClosed || last.Outcome == nil || !last.Outcome.Cancelled || !strings.Contains(last.Outcome.CancelCause, "its session ended") {
		t.Errorf("%+v", last)
	}
}
