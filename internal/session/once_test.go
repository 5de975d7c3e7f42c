package session_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestCommandRunsOnceOverABrokenLink: whether the link breaks before the runner has a
// request or before it has answered it, the command runs once and its caller gets the answer.
func TestCommandRunsOnceOverABrokenLink(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		calls := map[string]func(*session.Session, api.ExecParams) error{
			link.ExecRun.Name:   func(s *session.Session, p api.ExecParams) error { _, err := s.Run(t.Context(), p); return err },
			link.ExecStart.Name: func(s *session.Session, p api.ExecParams) error { _, err := s.Start(t.Context(), p); return err },
		}
		for name, call := range calls {
			for _, runID := range []string{"", "mine"} {
				for _, lose := range []func(*sessiontest.Runner, string){(*sessiontest.Runner).LoseRequest, (*sessiontest.Runner).LoseAnswer} {
					id := w.create(api.SessionCreateParams{}).SessionID
					s := w.get(id)
					lose(w.rt.Runner(id), name)
					if err := call(s, api.ExecParams{Command: "true", RunID: runID}); err != nil {
						t.Errorf("%s with run_id %q: %v", name, runID, err)
					}
					if list, err := s.ExecList(t.Context()); err != nil || len(list) != 1 || w.rt.Runner(id).Dials() != 2 {
						t.Errorf("%s with run_id %q: ran %+v, %v", name, runID, list, err)
					}
				}
			}
		}
	})
}

// TestOlderRunnerIsNotAskedForLater: a call that its protocol does not have is not sent to it.
func TestOlderRunnerIsNotAskedForLater(t *testing.T) {
	var runner *sessiontest.Runner
	rt := &sessiontest.Runtime{OnStart: func(r *sessiontest.Runner) error { r.Protocol, runner = link.MinProtocol, r; return nil }}
	in(t, session.Config{}, rt, func(t *testing.T, w world) {
		_, err := w.Create(t.Context(), api.SessionCreateParams{Isolation: &api.Isolation{Profile: api.ProfileWorkspace}})
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, `its runner (version memory) is older and cannot isolate a session; create a new session`)
		if n := runner.Asked(link.Create.Name); n != 0 {
			t.Errorf("it got the call create %d times", n)
		}
	})
}

// TestCallerLeavesWhileTheLinkIsBroken: the runner hears of it when it is reached again, and
// stops the command unless it is detached. A request that it never had is not made.
func TestCallerLeavesWhileTheLinkIsBroken(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{Command: untilCancelled}, func(t *testing.T, w world) {
		for _, detach := range []bool{false, true} {
			for _, arrives := range []bool{false, true} {
				id := w.create(api.SessionCreateParams{}).SessionID
				s, runner := w.get(id), w.rt.Runner(id)
				ctx, leave := context.WithCancel(t.Context())
				if !arrives {
					runner.LoseRequest(link.ExecRun.Name)
					runner.Deny(true)
				}
				var all sync.WaitGroup
				all.Go(func() {
					if _, err := s.Run(ctx, api.ExecParams{Command: "hang", Detach: &detach}); !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
				synctest.Wait()
				runner.Deny(true)
				runner.Break()
				time.Sleep(2 * time.Second)
				leave()
				all.Wait()
				runner.Deny(false)
				time.Sleep(time.Minute)
				list, err := s.ExecList(t.Context())
				switch {
				case err != nil || len(list) != 1 && arrives || len(list) != 0 && !arrives:
					t.Errorf("detach %v, arrives %v: %+v, %v", detach, arrives, list, err)
				case arrives && (list[0].State == api.ExecRunning) != detach:
					t.Errorf("detach %v: %+v", detach, list[0])
				}
			}
		}
	})
}

// TestWaitsOutliveALongBreak: calls that wait for something to happen wait for a runner that
// cannot be reached for 20 s.
func TestWaitsOutliveALongBreak(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{Command: untilCancelled}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		s, runner := w.get(id), w.rt.Runner(id)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // bounded, if a call is lost
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			if r, err := s.Run(ctx, api.ExecParams{Command: "hang"}); err != nil || !r.Cancelled {
				t.Errorf("exec.run: %+v, %v", r, err)
			}
		})
		synctest.Wait()
		x := s.Info().ExecID
		for name, call := range map[string]func() error{
			"exec.wait":  func() error { _, _, err := s.AwaitEnd(ctx, x); return err },
			"exec.await": func() error { _, err := s.AwaitInput(ctx, x); return err },
			"exec.read":  func() error { _, _, err := s.Read(ctx, link.ReadParams{ExecID: x, Wait: true}); return err },
			"exec.output": func() error {
				_, err := s.OutputBytes(ctx, api.ExecOutputParams{ExecID: x}, true)
				return err
			},
		} {
			all.Go(func() {
				if err := call(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		synctest.Wait()
		runner.Deny(true)
		runner.Break()
		time.Sleep(20 * time.Second)
		runner.Deny(false)
		time.Sleep(5 * time.Second)
		runner.LoseRequest(link.ExecCancel.Name)
		if _, err := s.Cancel(t.Context(), api.ExecCancelParams{ExecID: x}); err != nil {
			t.Errorf("exec.cancel: %v", err)
		}
		all.Wait()
	})
}
