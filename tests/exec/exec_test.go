// Package exec_test reads the output of commands, waits for them and subscribes to their events with
// the real daemon, also when that daemon is killed and replaced. The rules themselves are tested in
// internal/service, in memory.
package exec_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience limits a whole test; no test takes that long when all is well.
const patience = 5 * time.Minute

// start starts a daemon and a client of it, with a context that limits the whole test.
func start(t *testing.T) (*trltest.Daemon, *client.Client, context.Context) {
	t.Helper()
	d := trltest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return d, d.Client(t), ctx
}

func num(n int64) *int64     { return &n }
func sec(s float64) *float64 { return &s }

// until reads pushes up to the first of a type.
func until(t *testing.T, st api.Stream, last string) []api.StreamEvent {
	t.Helper()
	var list []api.StreamEvent
	for {
		ev, err := st.Recv()
		if err != nil {
			t.Fatalf("after %d pushes: %v", len(list), err)
		}
		if list = append(list, ev); ev.Type == last {
			return list
		}
	}
}

// TestNothingIsLost kills the daemon while a command prints, with readers of its output and of the
// events; they read the rest from the next daemon.
func TestNothingIsLost(t *testing.T) {
	d, c, ctx := start(t)
	build := testkit.Must(c.SessionCreate(ctx, api.SessionCreateParams{Name: "build"}))(t)
	doomed := testkit.Must(c.SessionCreate(ctx, api.SessionCreateParams{Name: "doomed"}))(t)
	zero := int64(0)
	events := testkit.Must(c.EventSubscribe(ctx, api.EventSubscribeParams{AfterSeq: &zero}))(t)
	text := `i=0; while [ $i -lt 2000 ]; do echo "line $i é"; i=$((i+1)); done; echo half; sleep 2; echo end; exit_code() { return 7; }; exit_code`
	st := testkit.Must(c.ExecStream(ctx, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: "build", Command: text}}))(t)
	var out strings.Builder
	var seq int64
	take := func(ev api.StreamEvent) {
		t.Helper()
		if ev.Seq <= seq {
			t.Errorf("number %d after %d", ev.Seq, seq)
		}
		if seq = ev.Seq; ev.Type == api.EventStdout {
			if *ev.Offset != int64(out.Len()) {
				t.Errorf("offset %d, have %d", *ev.Offset, out.Len())
			}
			out.WriteString(ev.Data)
		}
	}
	for !strings.Contains(out.String(), "half\n") {
		take(testkit.Must(st.Recv())(t))
	}
	exec := st.Start().ExecID
	seen := until(t, events, api.EventExecRunning)
	details := testkit.Must(c.SessionInfo(ctx, api.SessionInfoParams{SessionID: "doomed"}))(t)

	d.Kill9()
	if err := syscall.Kill(details.RunnerPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.Restart(t)
	c = d.Client(t)
	st = testkit.Must(c.ExecStream(ctx, api.ExecStreamParams{ExecID: exec, AfterSeq: seq}))(t)
	for _, ev := range until(t, st, api.EventExit) {
		if take(ev); ev.Type == api.EventExit && ev.ExitCode != 7 {
			t.Errorf("exit code %d", ev.ExitCode)
		}
	}
	var want strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&want, "line %d é\n", i)
	}
	want.WriteString("half\nend\n")
	if out.String() != want.String() {
		t.Error("the pushes of two daemons do not make the output of one command")
	}
	read := testkit.Must(c.ExecOutput(ctx, api.ExecOutputParams{ExecID: exec}))(t)
	if read.Data != want.String() || !read.Complete {
		t.Errorf("exec.output has %d bytes of %d", len(read.Data), want.Len())
	}
	list := testkit.Must(c.ExecList(ctx, api.ExecListParams{SessionID: "build"}))(t)
	if len(list.Execs) != 1 || list.Execs[0].Outcome == nil || list.Execs[0].Outcome.ExitCode != 7 {
		t.Errorf("exec.list: %+v", list)
	}

	last := seen[len(seen)-1].Seq
	events = testkit.Must(c.EventSubscribe(ctx, api.EventSubscribeParams{AfterSeq: &last}))(t)
	next := seen
	has := func(kind string) bool {
		return slices.ContainsFunc(next, func(ev api.StreamEvent) bool { return ev.Type == kind })
	}
	for !has(api.EventExecClosed) || !has(api.EventSessionTerminated) { // in either order
		next = append(next, testkit.Must(events.Recv())(t))
	}
	count := map[string]int{}
	for i, ev := range next {
		if ev.Seq != int64(i)+1 {
			t.Errorf("event %d has number %d", i+1, ev.Seq)
		}
		count[ev.Type+" "+ev.SessionID]++
	}
	for _, key := range []string{
		"session.created " + build.SessionID, "session.created " + doomed.SessionID, "session.terminated " + doomed.SessionID,
		"exec.running " + build.SessionID, "exec.exited " + build.SessionID, "exec.closed " + build.SessionID,
	} {
		if count[key] != 1 {
			t.Errorf("%s was published %d times", key, count[key])
		}
	}
	_, err := c.EventSubscribe(ctx, api.EventSubscribeParams{AfterSeq: num(1 << 40)})
	testkit.WantError(t, err, api.CodeInvalidParams, "params.after_seq")
}

// TestWaitingAcrossDaemons: a command whose caller died with the daemon goes on,
// and the next daemon reports its end.
func TestWaitingAcrossDaemons(t *testing.T) {
	d, c, ctx := start(t)
	testkit.Must(c.SessionCreate(ctx, api.SessionCreateParams{Name: "a"}))(t)
	caller, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := make(chan error, 1)
	go func() {
		_, err := c.ExecRun(caller, api.ExecParams{SessionID: "a", Command: "sleep 3; echo done"})
		gone <- err
	}()
	other := d.Client(t)
	events := testkit.Must(other.EventSubscribe(ctx, api.EventSubscribeParams{AfterSeq: num(0)}))(t)
	seen := until(t, events, api.EventExecRunning)
	exec := seen[len(seen)-1].ExecID
	d.Kill9()
	cancel()
	<-gone
	d.Restart(t)
	c = d.Client(t)
	r := testkit.Must(c.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{exec}}))(t)
	if len(r.Happened) != 1 || r.Happened[0].Outcome == nil || r.Happened[0].Outcome.ExitCode != 0 || r.Happened[0].Outcome.Cancelled {
		t.Errorf("%+v", r)
	}
	events = testkit.Must(c.EventSubscribe(ctx, api.EventSubscribeParams{AfterSeq: &seen[len(seen)-1].Seq}))(t)
	if list := until(t, events, api.EventExecClosed); list[len(list)-1].ExecID != exec {
		t.Errorf("%+v", list)
	}
}

// TestWaiting talks to a program that asks, as an agent would.
func TestWaiting(t *testing.T) {
	_, c, ctx := start(t)
	testkit.Must(c.SessionCreate(ctx, api.SessionCreateParams{Name: "a"}))(t)
	x := testkit.Must(c.ExecStart(ctx, api.ExecParams{SessionID: "a", Command: `printf 'name? '; read n; echo "hello $n"; read m; echo bye >&2`, StdinOpen: true}))(t)
	wait := func(p api.ExecWaitParams) api.WaitEvent {
		t.Helper()
		p.ExecIDs, p.TimeoutS = []string{x.ExecID}, sec(patience.Seconds())
		r := testkit.Must(c.ExecWait(ctx, p))(t)
		if len(r.Happened) != 1 {
			t.Fatalf("%+v", r)
		}
		return r.Happened[0]
	}
	if e := wait(api.ExecWaitParams{Until: api.Words{api.UntilWaitingForInput}}); e.Reason != api.UntilWaitingForInput || e.Process == nil {
		t.Fatalf("%+v", e)
	}
	if e := wait(api.ExecWaitParams{OutputMatch: `^name\? $`}); e.Reason != api.UntilOutputMatch || e.Match.Text != "name? " {
		t.Fatalf("%+v", e)
	}
	testkit.Must(c.ExecInput(ctx, api.ExecInputParams{ExecID: x.ExecID, Data: "bob\n", WriteID: "1"}))(t)
	if r := testkit.Must(c.ExecInput(ctx, api.ExecInputParams{ExecID: x.ExecID, Data: "bob\n", WriteID: "1"}))(t); !r.Repeated {
		t.Errorf("%+v", r)
	}
	if e := wait(api.ExecWaitParams{OutputMatch: "hello bob$"}); e.Reason != api.UntilOutputMatch || e.Stream != api.EventStdout {
		t.Fatalf("%+v", e)
	}
	if e := wait(api.ExecWaitParams{IdleS: sec(0.2)}); e.Reason != api.UntilIdle {
		t.Fatalf("%+v", e)
	}
	testkit.Must(c.ExecInput(ctx, api.ExecInputParams{ExecID: x.ExecID, Close: true}))(t)
	if e := wait(api.ExecWaitParams{OutputMatch: "never"}); e.Reason != api.UntilExit || e.Outcome.ExitCode != 0 {
		t.Fatalf("%+v", e)
	}
	_, err := c.ExecInput(ctx, api.ExecInputParams{ExecID: x.ExecID, Data: "late\n"})
	testkit.WantError(t, err, api.CodeConflict, "has ended")
	out := testkit.Must(c.ExecOutput(ctx, api.ExecOutputParams{ExecID: x.ExecID, Grep: "hello"}))(t)
	if len(out.Lines) != 1 || out.Lines[0].Text != "name? hello bob" || !out.Complete {
		t.Errorf("%+v", out)
	}
	// A session that dies ends the wait for what runs in it.
	x = testkit.Must(c.ExecStart(ctx, api.ExecParams{SessionID: "a", Command: "sleep 1000"}))(t)
	details := testkit.Must(c.SessionInfo(ctx, api.SessionInfoParams{SessionID: "a"}))(t)
	time.AfterFunc(100*time.Millisecond, func() { _ = syscall.Kill(details.RunnerPID, syscall.SIGKILL) })
	if e := wait(api.ExecWaitParams{}); e.Reason != api.ReasonTerminated {
		t.Errorf("%+v", e)
	}
}

// TestManyReaders: all readers of one command read the same bytes.
func TestManyReaders(t *testing.T) {
	_, c, ctx := start(t)
	testkit.Must(c.SessionCreate(ctx, api.SessionCreateParams{Name: "a"}))(t)
	st := testkit.Must(c.ExecStream(ctx, api.ExecStreamParams{ExecParams: api.ExecParams{
		SessionID: "a", Command: `i=0; while [ $i -lt 20000 ]; do echo "this is line number $i of many"; i=$((i+1)); done`,
	}}))(t)
	exec := st.Start().ExecID
	read := func(st api.Stream) string {
		var out strings.Builder
		for {
			ev, err := st.Recv()
			switch {
			case err == io.EOF:
				return out.String()
			case err != nil:
				return err.Error()
			case ev.Type == api.EventStdout && *ev.Offset == int64(out.Len()):
				out.WriteString(ev.Data)
			case ev.Type != api.EventExit:
				return fmt.Sprintf("%+v", ev)
			}
		}
	}
	got := make(chan string)
	for range 20 {
		again := testkit.Must(c.ExecStream(ctx, api.ExecStreamParams{ExecID: exec}))(t)
		go func() { got <- read(again) }()
	}
	first := read(st)
	if strings.Count(first, "\n") != 20000 {
		t.Fatalf("%d bytes: %.200s", len(first), first)
	}
	for range 20 {
		if other := <-got; other != first {
			t.Errorf("another reader has %d bytes, not %d: %.200s", len(other), len(first), other)
		}
	}
}
