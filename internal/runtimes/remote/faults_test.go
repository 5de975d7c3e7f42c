package remote_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/remote/remotetest"
	"github.com/trl-dev/trl/internal/session"
)

func spec(n int, kind api.PlaceKind) session.Spec {
	return session.Spec{
		About:  session.About{SessionID: fmt.Sprintf("s-%010x", n), Kind: api.KindShell, CreatedAt: time.Now()},
		Target: session.Target{Word: string(kind), Kind: kind},
	}
}

func mustStart(t *testing.T, rt *remote.Runtime, s session.Spec) session.Runner {
	t.Helper()
	r, err := rt.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestProgramVanishes: a cleaner has emptied the cache in the place.
func TestProgramVanishes(t *testing.T) {
	s := newSite(t)
	rt, _, leave := s.open()
	defer leave()
	r := mustStart(t, rt, spec(1, api.PlaceSSH))
	vanish := func() {
		t.Helper()
		cached, _ := filepath.Glob(filepath.Join(filepath.Dir(s.state), "w", "machine", "trl-runner-*"))
		if len(cached) != 1 {
			t.Fatalf("cache: %v", cached)
		}
		if err := os.Remove(cached[0]); err != nil {
			t.Fatal(err)
		}
	}
	vanish()
	c, err := r.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	vanish()
	r.Kill()
	<-r.Done()
	vanish()
	r.Remove(false)
	s.wantEmpty()
}

// TestSlowPlace: the context bounds a start and a dial in a place that takes its time, and nothing
// is left of what was given up.
func TestSlowPlace(t *testing.T) {
	s := newSite(t)
	rt, _, leave := s.open()
	defer leave()
	r := mustStart(t, rt, spec(1, api.PlaceDocker))
	s.world.Delay(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := rt.Start(ctx, spec(2, api.PlaceDocker)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("start: %v", err)
	}
	if _, err := r.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial: %v", err)
	}
	s.world.Delay(20 * time.Millisecond)
	c, err := r.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	r.Kill()
	<-r.Done()
	r.Remove(false)
	s.wantEmpty()
}

// TestStartIsCut: connections break at random moments of a start. Sooner or later nothing is left of
// those that failed.
func TestStartIsCut(t *testing.T) {
	for _, kind := range []api.PlaceKind{api.PlaceDocker, api.PlaceSSH} {
		s := newSite(t)
		rt, _, leave := s.open()
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(rand.N(300 * time.Millisecond)):
					s.world.Cut()
				}
			}
		}()
		failed := 0
		for i := range 20 {
			r, err := rt.Start(t.Context(), spec(i+1, kind))
			if err != nil {
				failed++
				continue
			}
			r.Kill()
			r.Remove(false)
		}
		close(stop)
		<-stopped
		t.Logf("%s: %d of 20 starts failed", kind, failed)
		if _, pending, err := rt.Prune(t.Context()); err != nil || len(pending) > 0 {
			t.Errorf("prune: %v, %v", pending, err)
		}
		leave() // waits for what Kill has begun
		s.wantEmpty()
	}
}

// TestUnreachableIsNotDead: a runner that cannot be reached has not ended, as far as is known.
func TestUnreachableIsNotDead(t *testing.T) {
	s := newSite(t)
	rt, _, leave := s.open()
	defer leave()
	r := mustStart(t, rt, spec(1, api.PlaceDocker))
	restore := s.world.Lose()
	if _, err := r.Dial(t.Context()); !errors.Is(err, remotetest.ErrNetwork) {
		t.Errorf("dial: %v", err)
	}
	select {
	case <-r.Done():
		t.Error("the runner counts as ended")
	default:
	}
	restore()
	c, err := r.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	// The engine ends the place.
	s.world.End(r.Place().Info.Host, "container x was OOM-killed")
	if _, err := r.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "OOM-killed") {
		t.Errorf("dial: %v", err)
	}
	<-r.Done()
	if _, err := rt.Start(t.Context(), session.Spec{About: spec(2, api.PlaceDocker).About, Beside: r}); api.AsError(err).Code != api.CodeSessionTerminated {
		t.Errorf("beside a session whose place has ended: %v", err)
	}
	if got := r.Remove(false); got.Cause != "container x was OOM-killed" || !got.PlaceEnded {
		t.Errorf("remains: %+v", got)
	}
	s.wantEmpty()
}

// TestRecordsThatCannotBeUsed: a damaged record is moved aside, and one without a place is dropped.
func TestRecordsThatCannotBeUsed(t *testing.T) {
	s := newSite(t)
	_, _, leave := s.open()
	leave()
	for id, text := range map[string]string{
		"s-00000000f1": `{"session_id":"s-00000000f1","runtime":"remotetest","owner":"s-00000000f1"}`,
		"s-00000000f2": `{"session_id":"s-00000000f2","runtime":"remotetest","site":"not a place"}`,
	} {
		if err := os.WriteFile(filepath.Join(s.state, "sessions", id+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rt, _, leave := s.open()
	if list, err := rt.Recover(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("found %v, %v", list, err)
	}
	leave()
	bad := filepath.Join(s.state, "sessions", "s-00000000f2.json.bad")
	if err := os.Remove(bad); err != nil {
		t.Error(err)
	}
	s.wantEmpty()
}
