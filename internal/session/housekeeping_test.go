package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// wantEnd waits for a session's end and checks when and why it came.
func (w world) wantEnd(id string, at time.Time, cause string) {
	w.t.Helper()
	s := w.get(id)
	<-s.Done()
	info := s.Info()
	if late := time.Since(at); late < 0 || late > 10*time.Millisecond || info.Cause != cause {
		w.t.Errorf("ended %s late, %q; want %q", late, info.Cause, cause)
	}
}

func TestIdleTimeout(t *testing.T) {
	in(t, session.Config{IdleTimeout: time.Hour}, &sessiontest.Runtime{Command: untilCancelled}, func(t *testing.T, w world) {
		idle := w.create(api.SessionCreateParams{}).SessionID
		used := w.create(api.SessionCreateParams{}).SessionID
		began := time.Now()

		// A command makes it young again, also while it runs.
		time.Sleep(40 * time.Minute)
		x, err := w.get(used).Start(t.Context(), api.ExecParams{Command: "hang"})
		if err != nil {
			t.Fatal(err)
		}
		w.wantEnd(idle, began.Add(time.Hour), "idle for 1h0m0s (idle_timeout_s)")
		time.Sleep(5 * time.Hour)
		if w.state(used) != api.SessionRunning {
			t.Fatal("ended while it ran")
		}
		if _, err := w.get(used).Cancel(t.Context(), api.ExecCancelParams{ExecID: x.ExecID}); err != nil {
			t.Fatal(err)
		}
		w.wantEnd(used, time.Now().Add(time.Hour), "idle for 1h0m0s (idle_timeout_s)")
	})
}

func TestIdleTimeoutMovesWithEveryCommand(t *testing.T) {
	in(t, session.Config{IdleTimeout: time.Minute}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		for range 10 {
			time.Sleep(50 * time.Second)
			if _, err := w.get(id).Run(t.Context(), api.ExecParams{Command: "true"}); err != nil {
				t.Fatal(err)
			}
		}
		w.wantEnd(id, time.Now().Add(time.Minute), "idle for 1m0s (idle_timeout_s)")
	})
}

func TestLifetime(t *testing.T) {
	in(t, session.Config{IdleTimeout: time.Hour, Lifetime: 2 * time.Hour}, &sessiontest.Runtime{Command: untilCancelled}, func(t *testing.T, w world) {
		began := time.Now()
		id := w.create(api.SessionCreateParams{}).SessionID
		if _, err := w.get(id).Start(t.Context(), api.ExecParams{Command: "hang"}); err != nil {
			t.Fatal(err)
		}
		w.wantEnd(id, began.Add(2*time.Hour), "lived for 2h0m0s (lifetime_s)")
	})
}

func TestRetention(t *testing.T) {
	in(t, session.Config{Retention: 10 * time.Minute}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{Name: "build"}).SessionID
		if _, err := w.Destroy(t.Context(), id, false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Minute - time.Second)
		if w.state(id) != api.SessionTerminated || len(w.Past()) != 1 {
			t.Error("forgotten too early")
		}
		_, err := w.Get("build")
		testkit.WantError(t, err, api.CodeSessionNotFound, `session "build": not found`)
		time.Sleep(2 * time.Second)
		_, err = w.Get(id)
		testkit.WantError(t, err, api.CodeSessionNotFound, "not found")
		if len(w.Past()) != 0 {
			t.Error("kept for too long")
		}
	})
}

func TestPastIsBounded(t *testing.T) {
	in(t, session.Config{Retention: 24 * time.Hour}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		var first string
		for range 1030 {
			id := w.create(api.SessionCreateParams{}).SessionID
			if first == "" {
				first = id
			}
			if _, err := w.Destroy(t.Context(), id, false); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := len(w.Past()); n != 1024 {
			t.Errorf("%d kept", n)
		}
		_, err := w.Get(first)
		testkit.WantError(t, err, api.CodeSessionNotFound, "not found")
	})
}

func TestNothingIsDueWithoutLimits(t *testing.T) {
	in(t, session.Config{}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		time.Sleep(1000 * time.Hour)
		if w.state(id) != api.SessionIdle {
			t.Error("ended by itself")
		}
	})
}

func TestAutoExit(t *testing.T) {
	in(t, session.Config{AutoExit: time.Minute}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		unused := func() bool {
			synctest.Wait()
			select {
			case <-w.Unused():
				return true
			default:
				return false
			}
		}
		release, err := w.Hold()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if unused() {
			t.Fatal("unused while a connection is there")
		}
		id := w.create(api.SessionCreateParams{}).SessionID
		release()
		release()
		time.Sleep(time.Hour)
		if unused() {
			t.Fatal("unused while a session is there")
		}
		if _, err := w.Destroy(t.Context(), id, false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		if release, err := w.Hold(); err == nil {
			release()
		}
		time.Sleep(59 * time.Second)
		if unused() {
			t.Fatal("unused a moment after it was used")
		}
		time.Sleep(2 * time.Second)
		if !unused() {
			t.Fatal("not unused")
		}
		// A caller that comes too late gets an error, instead of a daemon that ends.
		_, err = w.Hold()
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, "the daemon is shutting down")
		_, err = w.Create(t.Context(), api.SessionCreateParams{})
		testkit.WantError(t, err, api.CodeRuntimeUnavailable, "the daemon is shutting down")
	})
}

func TestAutoExitWithoutAnyUse(t *testing.T) {
	in(t, session.Config{AutoExit: time.Minute}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		began := time.Now()
		<-w.Unused()
		if time.Since(began) != time.Minute {
			t.Errorf("after %s", time.Since(began))
		}
	})
}
