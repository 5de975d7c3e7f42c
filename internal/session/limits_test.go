package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestLimitsOfAPlaceAreUndone: a place gets its old limits back if an older runner ignores the change, and
// if the engine cannot carry out all of it.
func TestLimitsOfAPlaceAreUndone(t *testing.T) {
	twoRuntimes(t, session.Config{}, func(t *testing.T, w world, far *sessiontest.Runtime) {
		var steps []string
		errs := map[string]error{}
		far.SetLimit = func(_ context.Context, limit string, value float64) error {
			steps = append(steps, fmt.Sprintf("%s=%v", limit, value))
			return errs[limit]
		}
		w.create(api.SessionCreateParams{Name: "there", Runtime: "docker:alpine"})
		set := func(mode api.LimitsMode) (string, error) {
			steps = nil
			p := api.SessionSetParams{Limits: &api.Limits{MemoryBytes: new(int64(10)), Pids: new(int64(20)), OpenFiles: new(int64(30))}, LimitsMode: mode}
			_, err := w.Set(t.Context(), w.get("there"), p)
			return strings.Join(steps, " "), err
		}
		if got, err := set(""); got != "memory_bytes=10 pids=20 memory_bytes=0 pids=0" || err != nil {
			t.Errorf("with an older runner: %s, %v", got, err)
		}
		errs[api.LimitPids] = api.Errorf(api.CodeLimitUnavailable, "not so few")
		got, err := set("")
		testkit.WantError(t, err, api.CodeLimitUnavailable, "not so few")
		if got != "memory_bytes=10 pids=20 memory_bytes=0" {
			t.Errorf("with an engine that refuses: %s", got)
		}
		errs[api.LimitPids] = api.Errorf(api.CodeRuntimeUnavailable, "no engine")
		got, err = set(api.LimitsBestEffort)
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, "no engine")
		if got != "memory_bytes=10 pids=20 memory_bytes=0 pids=0" { // the engine may have changed it
			t.Errorf("with an engine that cannot be reached: %s", got)
		}
	})
}

// TestLimitsWithUnknownOutcome: the answer to a change of limits is lost, or its caller does not wait for
// it. When the runner is reached again, its limits and those of the place are the same: the new ones, or
// the old ones if the runner refuses the change.
func TestLimitsWithUnknownOutcome(t *testing.T) {
	lose := func(how func(*sessiontest.Runner, string)) func(*sessiontest.Runner) {
		return func(r *sessiontest.Runner) { r.Deny(true); how(r, link.Set.Name) }
	}
	admit := func(r *sessiontest.Runner) { r.Deny(false) }
	refused := api.Errorf(api.CodeLimitUnavailable, "not so few")
	for _, c := range []struct {
		name       string
		lose, back func(*sessiontest.Runner)
		patience   time.Duration // of the caller
		refused    error         // by the runner
		next       string        // a name that the next caller sets at once
	}{
		{"the answer is lost", lose((*sessiontest.Runner).LoseAnswer), admit, time.Hour, nil, ""},
		{"the request is lost", lose((*sessiontest.Runner).LoseRequest), admit, time.Hour, nil, ""},
		{"the request is lost, and another follows", lose((*sessiontest.Runner).LoseRequest), admit, time.Hour, nil, "c"},
		{"the refusal is lost", lose((*sessiontest.Runner).LoseAnswer), admit, time.Hour, refused, ""},
		{"the runner is stopped", (*sessiontest.Runner).Freeze, (*sessiontest.Runner).Thaw, time.Hour, nil, ""},
		{"the runner is stopped and refuses", (*sessiontest.Runner).Freeze, (*sessiontest.Runner).Thaw, time.Hour, refused, "c"},
		{"the caller leaves first", lose((*sessiontest.Runner).LoseAnswer), admit, time.Second, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			twoRuntimes(t, session.Config{}, func(t *testing.T, w world, far *sessiontest.Runtime) {
				place := map[string]float64{}
				far.SetLimit = func(_ context.Context, limit string, value float64) error {
					place[limit] = value
					return nil
				}
				var refused error
				far.OnStart = func(r *sessiontest.Runner) error {
					r.Limit = func(link.SetParams) error { return refused }
					return nil
				}
				s := w.get(w.create(api.SessionCreateParams{Name: "a", Runtime: "docker:alpine"}).SessionID)
				runner, name, pids := far.Runner(s.ID()), "b", int64(10)
				wantName, wantPids := name, pids
				if c.refused != nil {
					wantName, wantPids = "a", 5
				}
				if _, err := w.Set(t.Context(), s, api.SessionSetParams{Limits: &api.Limits{Pids: new(int64(5))}}); err != nil {
					t.Fatal(err)
				}
				before := w.Journal().Last()
				refused = c.refused
				// The place changes and then the link breaks, after the runner has reported the old limits.
				far.SetLimit = func(_ context.Context, limit string, value float64) error {
					if place[limit] = value; value == float64(pids) {
						c.lose(runner)
					}
					return nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				if _, err := w.Set(ctx, s, api.SessionSetParams{Name: &name, Limits: &api.Limits{Pids: &pids}}); err == nil {
					t.Error("a runner that cannot be reached has answered")
				}
				c.back(runner)
				if c.next != "" {
					wantName = c.next
					if _, err := w.Set(t.Context(), s, api.SessionSetParams{Name: &c.next}); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(time.Minute)
				d, err := s.Details(t.Context())
				if err != nil || d.Limits == nil || d.Limits.Pids != wantPids || place[api.LimitPids] != float64(wantPids) {
					t.Errorf("the runner has %+v, the place %v; want %d: %v", d.Limits, place, wantPids, err)
				}
				if d.Name != wantName || runner.Name() != wantName {
					t.Errorf("the session has the name %q, its runner %q; want %q", d.Name, runner.Name(), wantName)
				}
				if _, err := w.Create(t.Context(), api.SessionCreateParams{Name: name}); (err == nil) != (wantName != name) {
					t.Errorf("a second session %s: %v", name, err)
				}
				synctest.Wait()
				updated := slices.ContainsFunc(published(w.Journal(), before), func(ev string) bool { return strings.HasSuffix(ev, "session.updated "+wantName) })
				if updated != (wantName != "a") {
					t.Errorf("session.updated was published: %v; %q", updated, published(w.Journal(), before))
				}
			})
		})
	}
}

// TestChangeThatNeverBegan: the runner cannot be asked for its limits, so nothing of the change is made,
// also not later.
func TestChangeThatNeverBegan(t *testing.T) {
	twoRuntimes(t, session.Config{}, func(t *testing.T, w world, far *sessiontest.Runtime) {
		far.SetLimit = func(_ context.Context, limit string, value float64) error {
			t.Errorf("%s=%v", limit, value)
			return nil
		}
		s := w.get(w.create(api.SessionCreateParams{Name: "a", Runtime: "docker:alpine"}).SessionID)
		runner, name := far.Runner(s.ID()), "b"
		runner.Freeze()
		if _, err := w.Set(t.Context(), s, api.SessionSetParams{Name: &name, Limits: &api.Limits{Pids: new(int64(10))}}); !session.IsUnreachable(err) {
			t.Errorf("%v", err)
		}
		runner.Thaw()
		time.Sleep(time.Minute)
		if got := s.Info().Name; got != "a" || runner.Name() != "a" {
			t.Errorf("the session has the name %q, its runner %q", got, runner.Name())
		}
		w.create(api.SessionCreateParams{Name: name})
	})
}

// TestLimitsWhileTheDaemonLeaves: the daemon leaves a session before its runner has answered. The runner
// makes the change, so the place keeps it.
func TestLimitsWhileTheDaemonLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := &sessiontest.Runtime{Called: "host"}, &sessiontest.Runtime{Called: "far", Places: []api.PlaceKind{api.PlaceDocker}}
		w := world{newRegistry(session.Config{Resolve: resolve}, near, far), near, t}
		s := w.get(w.create(api.SessionCreateParams{Runtime: "docker:alpine"}).SessionID)
		runner, place := far.Runner(s.ID()), 0.0
		far.SetLimit = func(_ context.Context, _ string, value float64) error {
			place = value
			runner.Freeze()
			return nil
		}
		answered := make(chan error)
		go func() {
			_, err := w.Set(t.Context(), s, api.SessionSetParams{Limits: &api.Limits{Pids: new(int64(10))}})
			answered <- err
		}()
		synctest.Wait()
		w.Leave()
		if err := <-answered; err == nil || place != 10 {
			t.Errorf("the place has %v; %v", place, err)
		}
		runner.Thaw()
		next := newRegistry(session.Config{Resolve: resolve}, near, far)
		if err := next.Recover(t.Context(), true); err != nil {
			t.Error(err)
		}
		next.Close(nil)
	})
}
