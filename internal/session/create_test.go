package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// asksNext reports whether a client that gets this error of a creation asks the next daemon.
func asksNext(err error) bool { return errors.Is(err, api.ErrDaemonEnding) && !api.SessionsEnded(err) }

// TestCreatedWhileTheDaemonEnds: a creation that the end of the daemon cancels has an error after which
// a client asks the next daemon, but not if the program may have begun: it would run twice. Nothing has
// begun before the runner is asked to create, and neither a shell nor an agent does anything by itself.
func TestCreatedWhileTheDaemonEnds(t *testing.T) {
	before := func(r *sessiontest.Runner) error { // the runner never says hello
		r.Mute = true
		return nil
	}
	during := func(r *sessiontest.Runner) error { // and this one never answers create
		r.Creating = func(ctx context.Context) { <-ctx.Done() }
		return nil
	}
	program, agent := []string{"make", "install"}, []string{api.TagDialogue}
	for _, c := range []struct {
		name  string
		p     api.SessionCreateParams
		start func(*sessiontest.Runner) error
		again bool
	}{
		{"no kind", api.SessionCreateParams{}, during, true},
		{"shell", api.SessionCreateParams{Kind: api.KindShell}, during, true},
		{"program", api.SessionCreateParams{Kind: api.KindProgram, Command: program}, during, false},
		{"terminal", api.SessionCreateParams{Kind: api.KindTerminal, Command: program}, during, false},
		{"another tag", api.SessionCreateParams{Kind: api.KindProgram, Command: program, Tags: []string{"x"}}, during, false},
		{"agent", api.SessionCreateParams{Kind: api.KindProgram, Command: program, Tags: agent}, during, true},
		{"shell before", api.SessionCreateParams{}, before, true},
		{"program before", api.SessionCreateParams{Kind: api.KindProgram, Command: program}, before, true},
		{"terminal before", api.SessionCreateParams{Kind: api.KindTerminal, Command: program}, before, true},
	} {
		for _, stops := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				rt := &sessiontest.Runtime{OnStart: c.start}
				r := newRegistry(session.Config{}, rt)
				failed := make(chan error, 1)
				go func() {
					_, err := r.Create(t.Context(), c.p)
					failed <- err
				}()
				synctest.Wait()
				for _, runner := range rt.Runners() {
					if asked := runner.Asked(link.Create.Name) > 0; asked == runner.Mute {
						t.Errorf("%s: asked to create: %v", c.name, asked)
					}
				}
				if stops {
					r.Close(nil)
				} else {
					r.Leave()
				}
				err := <-failed
				testkit.WantError(t, err, api.CodeRuntimeUnavailable, "the daemon is shutting down")
				if got := asksNext(err); got != (c.again && !stops) {
					t.Errorf("%s, stops %v: the client asks the next daemon: %v (%v)", c.name, stops, got, err)
				}
				if !c.again {
					testkit.WantError(t, err, api.CodeRuntimeUnavailable, "the program may have begun")
					if errors.Is(err, api.ErrDaemonEnding) {
						t.Errorf("%s, stops %v: %v", c.name, stops, err)
					}
				}
				if len(r.List())+len(rt.Runners()) != 0 {
					t.Errorf("%s: %d sessions and %d runners left", c.name, len(r.List()), len(rt.Runners()))
				}
			})
		}
	}
}

// TestRefusedWhileTheDaemonEnds: a creation that comes while the daemon ends its sessions has the error
// after which no client asks the next daemon; one that comes while it leaves them has the other.
func TestRefusedWhileTheDaemonEnds(t *testing.T) {
	for _, stops := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rt := &sessiontest.Runtime{OnStart: func(r *sessiontest.Runner) error { r.Stubborn = true; return nil }}
			w := world{newRegistry(session.Config{}, rt), rt, t}
			w.create(api.SessionCreateParams{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if stops {
					w.Close(nil)
				} else {
					w.Leave()
				}
			}()
			synctest.Wait()
			for range 2 { // while it ends, and afterwards
				_, err := w.Create(t.Context(), api.SessionCreateParams{})
				_, guestErr := w.StartGuest(t.Context(), api.GuestStartParams{SessionID: "s-0123456789", OwnerID: "o", Runtime: "host"})
				for _, err := range []error{err, guestErr} {
					if !errors.Is(err, api.ErrDaemonEnding) || asksNext(err) == stops {
						t.Errorf("stops %v: %v", stops, err)
					}
				}
				<-ended
			}
			for _, r := range rt.Runners() {
				r.Kill()
			}
		})
	}
}
