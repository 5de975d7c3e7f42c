package session_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
)

// TestRenameWithUnknownOutcome: the answer to a rename is lost, or its caller does not wait for it.
// Until the runner is reached, no other session can get either name; then the session and its runner
// have the new name, and the old one is free.
func TestRenameWithUnknownOutcome(t *testing.T) {
	lose := func(how func(*sessiontest.Runner, string)) func(*sessiontest.Runner) {
		return func(r *sessiontest.Runner) { r.Deny(true); how(r, link.Set.Name) }
	}
	admit := func(r *sessiontest.Runner) { r.Deny(false) }
	for _, c := range []struct {
		name       string
		before     string // the name before the change
		lose, back func(*sessiontest.Runner)
		patience   time.Duration // of the caller
	}{
		{"the answer is lost", "a", lose((*sessiontest.Runner).LoseAnswer), admit, time.Hour},
		{"the first name", "", lose((*sessiontest.Runner).LoseAnswer), admit, time.Hour},
		{"the request is lost", "a", lose((*sessiontest.Runner).LoseRequest), admit, time.Hour},
		{"the runner is stopped", "a", (*sessiontest.Runner).Freeze, (*sessiontest.Runner).Thaw, time.Hour},
		{"the caller leaves", "a", (*sessiontest.Runner).Freeze, (*sessiontest.Runner).Thaw, time.Second},
		{"the caller leaves first", "a", lose((*sessiontest.Runner).LoseAnswer), admit, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, session.Config{}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
				s := w.get(w.create(api.SessionCreateParams{Name: c.before}).SessionID)
				runner, name := w.rt.Runner(s.ID()), "b"
				synctest.Wait()
				before := w.Journal().Last()
				c.lose(runner)
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				if _, err := w.Set(ctx, s, api.SessionSetParams{Name: &name}); err == nil {
					t.Error("a runner that cannot be reached has answered")
				}
				for _, reserved := range []string{c.before, name} {
					if _, err := w.Create(t.Context(), api.SessionCreateParams{Name: reserved}); err == nil && reserved != "" {
						t.Errorf("another session has the name %q", reserved)
					}
				}
				c.back(runner)
				time.Sleep(time.Minute)
				got := s.Info().Name
				if got != name || got != runner.Name() || got != runner.About().Name {
					t.Errorf("the session has the name %q, its runner %q, its record %q; want %q", got, runner.Name(), runner.About().Name, name)
				}
				if found, err := w.Get(got); found != s {
					t.Errorf("%q: %v", got, err)
				}
				if _, err := w.Create(t.Context(), api.SessionCreateParams{Name: "a"}); err != nil {
					t.Error(err)
				}
				if news := published(w.Journal(), before); !slices.ContainsFunc(news, func(ev string) bool { return strings.HasSuffix(ev, "session.updated b") }) {
					t.Errorf("session.updated was not published: %q", news)
				}
			})
		})
	}
}

// TestChangedSettingsAreNotMissed: a daemon is killed after a runner has accepted new settings, and
// before session.updated is published. The next daemon publishes it, once.
func TestChangedSettingsAreNotMissed(t *testing.T) {
	lifetime := 3600.0
	for name, change := range map[string]func(*sessiontest.Runner){
		"tags":     func(r *sessiontest.Runner) { r.Say(func(info *api.SessionInfo) { info.Tags = []string{"ci"} }) },
		"name":     func(r *sessiontest.Runner) { r.Say(func(info *api.SessionInfo) { info.Name = "build" }) },
		"lifetime": func(r *sessiontest.Runner) { r.Created().Params.LifetimeS = &lifetime },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events")
			synctest.Test(t, func(t *testing.T) {
				rt := &sessiontest.Runtime{}
				first := newRegistry(session.Config{Journal: open(t, path)}, rt)
				info, err := first.Create(t.Context(), api.SessionCreateParams{Name: "build", Tags: []string{"old"}})
				if err != nil {
					t.Fatal(err)
				}
				if name == "name" {
					other := "other"
					s, _ := first.Get("build")
					if _, err := first.Set(t.Context(), s, api.SessionSetParams{Name: &other}); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				first.Leave()
				before := first.Journal().Last()
				change(rt.Runner(info.SessionID))
				for range 2 { // the second time there is no news
					next := newRegistry(session.Config{Journal: open(t, path)}, rt)
					if err := next.Recover(t.Context(), false); err != nil {
						t.Fatal(err)
					}
					var news []string
					events, _ := next.Journal().Read(before, 100)
					for _, ev := range events {
						news = append(news, ev.Type+" "+ev.Name)
					}
					want(t, news, "session.updated build")
					next.Leave()
				}
				last := newRegistry(session.Config{Journal: open(t, path)}, rt)
				if err := last.Recover(t.Context(), true); err != nil {
					t.Fatal(err)
				}
				last.Close(nil)
			})
		})
	}
}

// TestRenameOfASlowRunner: a session is renamed before its runner has answered this daemon. Neither name is
// lost when it does.
func TestRenameOfASlowRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &sessiontest.Runtime{}
		w := world{newRegistry(session.Config{}, rt), rt, t}
		id := w.create(api.SessionCreateParams{Name: "a"}).SessionID
		w.Leave()
		runner := w.rt.Runner(id)
		runner.Freeze()
		next := newRegistry(session.Config{}, w.rt)
		if err := next.Recover(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		s, err := next.Get("a")
		if err != nil {
			t.Fatal(err)
		}
		name := "b"
		if _, err := next.Set(t.Context(), s, api.SessionSetParams{Name: &name}); !session.IsUnreachable(err) {
			t.Errorf("%v", err)
		}
		runner.Thaw()
		time.Sleep(time.Minute)
		if found, err := next.Get(name); found != s || runner.Name() != name {
			t.Errorf("%v; the runner has the name %q", err, runner.Name())
		}
		if _, err := next.Create(t.Context(), api.SessionCreateParams{Name: name}); err == nil {
			t.Error("another session has the same name")
		}
		next.Close(nil)
	})
}
