package session_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// resolve finds places without a configuration.
func resolve(word string, over *api.PlaceOptions) (session.Target, error) {
	if word == "" {
		word = "host"
	}
	kind, o, err := api.ParsePlace(word)
	if over != nil {
		o = o.With(*over)
	}
	return session.Target{Word: word, Kind: kind.Kind, Options: o}, err
}

// twoRuntimes runs f with a registry over the host and a runtime of containers, both in memory.
func twoRuntimes(t *testing.T, c session.Config, f func(t *testing.T, w world, far *sessiontest.Runtime)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near := &sessiontest.Runtime{Called: "host"}
		far := &sessiontest.Runtime{Called: "far", Places: []api.PlaceKind{api.PlaceDocker, api.PlaceContainer}}
		c.Resolve = resolve
		r := newRegistry(c, near, far)
		f(t, world{r, near, t}, far)
		r.Close(nil)
		if n := len(near.Runners()) + len(far.Runners()); n > 0 {
			t.Errorf("%d runners left after Close", n)
		}
	})
}

func TestPlaceOfASession(t *testing.T) {
	twoRuntimes(t, session.Config{}, func(t *testing.T, w world, far *sessiontest.Runtime) {
		here := w.create(api.SessionCreateParams{})
		if here.Runtime != "host" || here.Place == nil || here.Place.Kind != api.PlaceHost || w.rt.Runner(here.SessionID) == nil {
			t.Errorf("without a place: %+v, %+v", here, here.Place)
		}
		there := w.create(api.SessionCreateParams{
			Name: "first", Runtime: "docker:alpine", Place: &api.PlaceOptions{Network: "none"}, CreateTimeoutS: new(float64), CreateID: "c1",
		})
		if there.Runtime != "docker:alpine" || there.Place == nil || there.Place.Kind != api.PlaceDocker {
			t.Errorf("info = %+v, %+v", there, there.Place)
		}
		r := far.Runner(there.SessionID)
		if spec := r.Spec; spec.Target.Options.Image != "alpine" || spec.Target.Options.Network != "none" || spec.Beside != nil || spec.About.Word != "docker:alpine" {
			t.Errorf("spec = %+v", spec)
		}
		if p := r.Created().Params; p.Runtime != "" || p.Place != nil || p.CreateTimeoutS != nil || p.CreateID != "" || r.Created().Runtime != "docker:alpine" {
			t.Errorf("the runner got %+v, runtime %q", p, r.Created().Runtime)
		}
		// A report of the runner changes neither.
		s := w.get("first")
		if _, err := s.Details(t.Context()); err != nil {
			t.Fatal(err)
		}
		if info := s.Info(); info.Runtime != "docker:alpine" || info.Place == nil {
			t.Errorf("after a report: %+v", info)
		}
		second := w.create(api.SessionCreateParams{Beside: "first"})
		if spec := far.Runner(second.SessionID).Spec; spec.Beside != session.Runner(r) || spec.Target.Word != "docker:alpine" || second.Runtime != "docker:alpine" {
			t.Errorf("beside: %+v, %+v", spec, second)
		}
		w.create(api.SessionCreateParams{Beside: there.SessionID, Runtime: "docker:alpine"})
		_, err := w.Create(t.Context(), api.SessionCreateParams{Beside: "first", Runtime: "host"})
		testkit.WantError(t, err, api.CodeInvalidParams, `params.runtime: "host": session "first" of beside is in docker:alpine`)
		_, err = w.Create(t.Context(), api.SessionCreateParams{Beside: "nobody"})
		testkit.WantError(t, err, api.CodeSessionNotFound, `session "nobody": not found`)
		if _, err := w.Destroy(t.Context(), there.SessionID, false); err != nil {
			t.Fatal(err)
		}
		_, err = w.Create(t.Context(), api.SessionCreateParams{Beside: there.SessionID})
		testkit.WantError(t, err, api.CodeSessionTerminated, `session "first": has ended: destroyed`)
		_, err = w.Create(t.Context(), api.SessionCreateParams{Runtime: "ssh:build"})
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, "runtime ssh: this daemon cannot create sessions in places of this kind")
		_, err = w.Create(t.Context(), api.SessionCreateParams{Runtime: "nowhere"})
		testkit.WantError(t, err, api.CodeInvalidParams, `there is no place "nowhere"`)
	})
}

// TestPlaceAfterARestart: a later daemon knows the word and the kind of the place.
func TestPlaceAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &sessiontest.Runtime{Called: "far", Places: []api.PlaceKind{api.PlaceDocker}}
		near := &sessiontest.Runtime{Called: "host"}
		r := newRegistry(session.Config{Resolve: resolve}, near, far)
		info, err := r.Create(t.Context(), api.SessionCreateParams{Runtime: "docker:alpine", Name: "build"})
		if err != nil {
			t.Fatal(err)
		}
		r.Leave()
		r = newRegistry(session.Config{Resolve: resolve}, near, far)
		if err := r.Recover(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		s, err := r.Get(info.SessionID)
		if err != nil {
			t.Fatal(err)
		}
		if info := s.Info(); info.Runtime != "docker:alpine" || info.Place == nil || info.Place.Kind != api.PlaceDocker {
			t.Errorf("info = %+v, %+v", info, info.Place)
		}
		again, err := r.Create(t.Context(), api.SessionCreateParams{Beside: "build"})
		if err != nil || far.Runner(again.SessionID).Spec.Target.Kind != api.PlaceDocker {
			t.Errorf("beside a session of an earlier daemon: %+v, %v", again, err)
		}
		r.Close(nil)
	})
}

func TestDefaultShellElsewhere(t *testing.T) {
	twoRuntimes(t, session.Config{}, func(t *testing.T, w world, far *sessiontest.Runtime) {
		there := w.create(api.SessionCreateParams{Runtime: "docker:alpine", PreferShell: "bash"})
		if p := far.Runner(there.SessionID).Created().Params; p.Shell != api.DefaultShell || p.PreferShell != "/bin/sh" {
			t.Errorf("shell %q, prefers %q", p.Shell, p.PreferShell)
		}
	})
}

// TestProgress: slow steps are events, at most four in a second, and the bound of the creation
// names the step that was under way. Nothing is left.
func TestProgress(t *testing.T) {
	twoRuntimes(t, session.Config{CreateTimeout: 10 * time.Second}, func(t *testing.T, w world, far *sessiontest.Runtime) {
		far.OnStart = func(r *sessiontest.Runner) error {
			r.Starting = func(ctx context.Context) {
				for i := range int64(1100) {
					r.Spec.Progress(api.PlaceProgress{Step: "pull", Message: "pulling alpine", Done: i, Total: 1100})
					select {
					case <-time.After(10 * time.Millisecond):
					case <-ctx.Done():
						return
					}
				}
				r.Spec.Progress(api.PlaceProgress{Step: "start", Message: "starting the container"})
				<-ctx.Done()
			}
			return nil
		}
		begin := time.Now()
		_, err := w.Create(t.Context(), api.SessionCreateParams{Name: "slow", Runtime: "docker:alpine", CreateID: "c1"})
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, `session "slow": was not ready after 10s (create_timeout_s), while pulling alpine`)
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("took %s", took)
		}
		events, _ := w.Journal().Read(0, 1000)
		if len(events) < 30 || len(events) > 45 {
			t.Errorf("%d events", len(events))
		}
		for _, e := range events {
			if e.Type != api.EventSessionProgress || e.CreateID != "c1" || e.Name != "slow" || e.Progress.Step != "pull" {
				t.Errorf("event %+v, %+v", e, e.Progress)
			}
		}
		longer := 12.0
		_, err = w.Create(t.Context(), api.SessionCreateParams{Runtime: "docker:alpine", CreateTimeoutS: &longer})
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, "was not ready after 12s (create_timeout_s), while starting the container")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = w.Create(ctx, api.SessionCreateParams{Runtime: "docker:alpine"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that went away: %v", err)
		}
		if left := w.Present(); len(left) > 0 || len(far.Runners()) > 0 {
			t.Errorf("left: %d sessions, %d runners", len(left), len(far.Runners()))
		}
		w.create(api.SessionCreateParams{Name: "slow"}) // the name is free, and the host has no such bound
	})
}

// TestCreatingIsListed: a session that is being created is listed with its place.
func TestCreatingIsListed(t *testing.T) {
	twoRuntimes(t, session.Config{}, func(t *testing.T, w world, far *sessiontest.Runtime) {
		ready := make(chan struct{})
		far.OnStart = func(r *sessiontest.Runner) error {
			r.Starting = func(context.Context) { <-ready }
			return nil
		}
		done := make(chan error)
		go func() {
			_, err := w.Create(t.Context(), api.SessionCreateParams{Name: "slow", Runtime: "docker:alpine"})
			done <- err
		}()
		synctest.Wait()
		i := slices.IndexFunc(w.Present(), func(s *session.Session) bool { return s.Info().Name == "slow" })
		if i < 0 {
			t.Fatal("is not listed")
		}
		if info := w.Present()[i].Info(); info.State != api.SessionCreating || info.Runtime != "docker:alpine" || info.Place != nil {
			t.Errorf("info = %+v", info)
		}
		_, err := w.Create(t.Context(), api.SessionCreateParams{Beside: "slow"})
		testkit.WantError(t, err, api.CodeConflict, `session "slow": is being created`)
		close(ready)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// TestKinds: the registry names the kinds of all its runtimes.
func TestKinds(t *testing.T) {
	twoRuntimes(t, session.Config{}, func(t *testing.T, w world, _ *sessiontest.Runtime) {
		var words []string
		for _, k := range w.Kinds() {
			words = append(words, string(k))
		}
		if got := strings.Join(words, " "); got != "host docker container" {
			t.Errorf("kinds: %s", got)
		}
	})
}
