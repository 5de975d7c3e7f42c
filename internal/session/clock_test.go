package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
)

// TestSteppedClock: the clock of the machine is set, forwards or backwards. No session ends
// sooner or later for that, in this daemon or the next.
func TestSteppedClock(t *testing.T) {
	for _, step := range []time.Duration{-48 * time.Hour, 48 * time.Hour} {
		for _, restart := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				rt := &sessiontest.Runtime{}
				c := session.Config{IdleTimeout: time.Hour, Lifetime: 3 * time.Hour}
				w := world{newRegistry(c, rt), rt, t}
				began := time.Now()
				idle := w.create(api.SessionCreateParams{}).SessionID
				used := w.create(api.SessionCreateParams{}).SessionID
				time.Sleep(30 * time.Minute)
				for _, id := range []string{idle, used} {
					rt.Runner(id).Skew(step)
				}
				if restart {
					w.Leave()
					w = world{newRegistry(c, rt), rt, t}
					if err := w.Recover(t.Context(), false); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := w.get(used).Run(t.Context(), api.ExecParams{Command: "true"}); err != nil {
					t.Fatal(err)
				}
				if in := w.get(idle).Info().EndsInS; in == nil || *in != 1800 {
					t.Errorf("ends in %v", in)
				}
				w.wantEnd(idle, began.Add(time.Hour), "idle for 1h0m0s (idle_timeout_s)")
				w.wantEnd(used, began.Add(90*time.Minute), "idle for 1h0m0s (idle_timeout_s)")
				w.Close(nil)
			})
		}
	}
}

// TestLastOfTwoClocks: of two ended sessions of a name, the later one is read, although the clocks of their
// places say otherwise.
func TestLastOfTwoClocks(t *testing.T) {
	in(t, session.Config{Archive: newShelf(t).open(t)}, &sessiontest.Runtime{Command: talk}, func(t *testing.T, w world) {
		var last string
		for _, skew := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
			last = w.create(terminal("build")).SessionID
			w.rt.Runner(last).Skew(skew)
			s := w.get(last)
			w.typed(last, "exit")
			<-s.Done()
			if ahead := time.Until(*s.Info().TerminatedAt); (ahead - skew).Abs() > time.Minute {
				t.Errorf("the clock of the place is %s ahead, not %s", ahead, skew)
			}
			time.Sleep(time.Second)
		}
		if s, err := w.Look("build"); err != nil || s.ID() != last {
			t.Errorf("%v, %v; want %s", s, err, last)
		}
	})
}

// TestOthersKeepASession: a session in which something besides the shell runs is not idle.
func TestOthersKeepASession(t *testing.T) {
	in(t, session.Config{IdleTimeout: time.Hour}, &sessiontest.Runtime{}, func(t *testing.T, w world) {
		id := w.create(api.SessionCreateParams{}).SessionID
		if info := w.get(id).Info(); info.EndsInS == nil || *info.EndsInS != 3600 || info.EndsWhy != "idle for 1h0m0s (idle_timeout_s)" {
			t.Errorf("%+v", info)
		}
		w.rt.Runner(id).SetOthers(api.Process{PID: 7, Command: "sleep"})
		time.Sleep(10*time.Hour + time.Second)
		if info := w.get(id).Info(); info.State != api.SessionIdle || info.EndsInS != nil {
			t.Errorf("%+v", info)
		}
		w.rt.Runner(id).SetOthers()
		ended := time.Now()
		<-w.get(id).Done()
		if took := time.Since(ended); took < time.Hour || took > 2*time.Hour {
			t.Errorf("ended after %s", took)
		}
	})
}
