package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/service"
	"github.com/trl-dev/trl/internal/service/servicetest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
)

// frozen is a service with sessions, some of whose runners do not answer.
type frozen struct {
	*service.Service
	t  *testing.T
	rt *sessiontest.Runtime
}

func inFrozen(t *testing.T, f func(f frozen)) {
	t.Helper()
	rt := &sessiontest.Runtime{Command: sessiontest.Script}
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		f(frozen{s, t, rt})
		for _, r := range rt.Runners() {
			r.Thaw()
		}
	})
}

// start starts a command in a session of its own, whose runner then stops if frozen is set.
func (f frozen) start(text string, freeze bool) (exec string, runner *sessiontest.Runner) {
	f.t.Helper()
	id := servicetest.Create(f.t, f.Service, api.SessionCreateParams{})
	exec = servicetest.Start(f.t, f.Service, id, text)
	synctest.Wait()
	runner = f.rt.Runner(id)
	if freeze {
		runner.Freeze()
	}
	return exec, runner
}

// wait expects an answer after the time took; "unreachable" stands for that error, which comes before.
func (f frozen) wait(p api.ExecWaitParams, want string, took time.Duration) {
	f.t.Helper()
	began := time.Now()
	r, err := f.ExecWait(f.t.Context(), p)
	got, after := showWait(r, p.ExecIDs...), time.Since(began)
	if want == "unreachable" {
		if !session.IsUnreachable(err) || after > took {
			f.t.Errorf("got %s, %v after %s, want an error within %s", got, err, after, took)
		}
	} else if err != nil || got != want || after != took {
		f.t.Errorf("got  %s, %v after %s\nwant %s after %s", got, err, after, want, took)
	}
}

// TestWaitForFrozen: a wait ends at its timeout although the runner does not answer. Without a timeout
// it fails.
func TestWaitForFrozen(t *testing.T) {
	for _, p := range []api.ExecWaitParams{
		{},
		{OutputMatch: "x", IdleS: new(500.0), Until: api.Words{api.UntilWaitingForInput}},
	} {
		inFrozen(t, func(f frozen) {
			x, runner := f.start("99", true)
			wait := func(timeout *float64, want string, took time.Duration) {
				t.Helper()
				p.ExecIDs, p.TimeoutS = []string{x}, timeout
				f.wait(p, want, took)
			}
			wait(new(0.0), "1 pending, timed out", time.Second)
			time.Sleep(4 * time.Second) // the first wait has made the daemon ask whether the runner is there
			wait(new(0.0), "1 pending, timed out", 0)
			wait(new(0.1), "1 pending, timed out", 100*time.Millisecond)
			runner.Thaw()
			synctest.Wait()
			wait(new(0.1), "1 pending, timed out", 100*time.Millisecond)
			runner.Freeze()
			wait(new(2.0), "1 pending, timed out", 2*time.Second)
			wait(new(20.0), "1 pending, timed out", 20*time.Second)
			wait(nil, "unreachable", 10*time.Second)
		})
	}
}

// TestWaitForFrozenAmongOthers: what happens to other commands is reported when it happens.
func TestWaitForFrozenAmongOthers(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		name   string
		other  string
		before time.Duration // how long it runs before the wait begins
		p      api.ExecWaitParams
		want   string
		took   time.Duration
	}{
		{"the other exits", "1", 0, api.ExecWaitParams{TimeoutS: new(3.0)}, "1:exit@1 code 9, 1 pending", second},
		{"the other exits, no timeout", "1", 0, api.ExecWaitParams{}, "1:exit@1 code 9, 1 pending", second},
		{"the other prints", "1 a_ 9", 0, api.ExecWaitParams{OutputMatch: "a"}, `1:output_match@1 stdout 0 "a", 1 pending`, second},
		{"the other exited before", "1", 2 * second, api.ExecWaitParams{}, "1:exit@1 code 9, 1 pending", second / 5},
		{"the other exits late", "100", 0, api.ExecWaitParams{}, "1:exit@1 code 9, 1 pending", 100 * second},
		{"neither", "9", 0, api.ExecWaitParams{TimeoutS: new(3.0)}, "2 pending, timed out", 3 * second},
		{"look once", "1", 2 * second, api.ExecWaitParams{TimeoutS: new(0.0)}, "1:exit@1 code 9, 1 pending", second / 5},
		{"look once at all", "1", 2 * second, api.ExecWaitParams{All: true, TimeoutS: new(0.0)}, "1:exit@1 code 9, 1 pending, timed out", second},
		{"all", "1", 0, api.ExecWaitParams{All: true, TimeoutS: new(40.0)}, "1:exit@1 code 9, 1 pending, timed out", 40 * second},
		{"all, no timeout", "1", 0, api.ExecWaitParams{All: true}, "unreachable", 10 * second},
		{"all, no timeout, the other exits late", "20", 0, api.ExecWaitParams{All: true}, "unreachable", 20 * second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFrozen(t, func(f frozen) {
				x, _ := f.start("999", true)
				y, _ := f.start(c.other, false)
				time.Sleep(c.before)
				c.p.ExecIDs = []string{x, y}
				f.wait(c.p, c.want, c.took)
			})
		})
	}
}

// TestWaitForThawed: a runner that answers again, long after it was given up, reports its commands.
func TestWaitForThawed(t *testing.T) {
	inFrozen(t, func(f frozen) {
		x, runner := f.start("50", true)
		y, _ := f.start("100", false)
		time.AfterFunc(40*time.Second, runner.Thaw)
		f.wait(api.ExecWaitParams{ExecIDs: []string{x, y}}, "0:exit@1 code 9, 1 pending", 50*time.Second)
		f.wait(api.ExecWaitParams{ExecIDs: []string{x, y}, All: true}, "0:exit@1 code 9, 1:exit@1 code 9", 50*time.Second)
	})
	inFrozen(t, func(f frozen) { // it freezes during the wait
		x, runner := f.start("50", false)
		y, _ := f.start("100", false)
		time.AfterFunc(time.Second, runner.Freeze)
		time.AfterFunc(60*time.Second, runner.Thaw)
		f.wait(api.ExecWaitParams{ExecIDs: []string{x, y}, All: true}, "0:exit@1 code 9, 1:exit@1 code 9", 100*time.Second)
	})
}

// TestWaitForTwoFrozen fails once neither can be reached, however far apart that is found out.
func TestWaitForTwoFrozen(t *testing.T) {
	inFrozen(t, func(f frozen) {
		x, _ := f.start("999", true)
		y, runner := f.start("999", false)
		time.AfterFunc(20*time.Second, runner.Freeze)
		f.wait(api.ExecWaitParams{ExecIDs: []string{x, y}}, "unreachable", 90*time.Second)
	})
}

// TestWaitForFrozenSession: the runner cannot say which command the session runs.
func TestWaitForFrozenSession(t *testing.T) {
	inFrozen(t, func(f frozen) {
		x, runner := f.start("99", true)
		y, other := f.start("1", false)
		idle, silent := f.start("0", false)
		time.Sleep(2 * time.Second)
		silent.Freeze()
		refs := []string{runner.Spec.SessionID, other.Spec.SessionID, silent.Spec.SessionID, runner.Spec.SessionID}
		r, err := f.ExecWait(f.t.Context(), api.ExecWaitParams{ExecIDs: []string{x, y}, SessionIDs: refs, All: true, TimeoutS: new(3.0)})
		if err != nil || len(r.Happened) != 1 || r.Happened[0].ExecID != y {
			t.Errorf("%+v, %v", r, err)
		}
		if want := []string{x, silent.Spec.SessionID}; len(r.Pending) != 2 || r.Pending[0] != want[0] || r.Pending[1] != want[1] {
			t.Errorf("pending: %q, want %q; %s is unknown", r.Pending, want, idle)
		}
	})
}

// TestWaitForFrozenIsGivenUp: the caller leaves before the runner has answered. (The bubble complains
// about goroutines that are left.)
func TestWaitForFrozenIsGivenUp(t *testing.T) {
	inFrozen(t, func(f frozen) {
		x, _ := f.start("99", true)
		ctx, gone := context.WithTimeout(f.t.Context(), time.Second)
		defer gone()
		began := time.Now()
		_, err := f.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{x}, TimeoutS: new(9.0)})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}
