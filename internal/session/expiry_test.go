package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
)

// TestViewersKeepATerminal: a terminal does not end while it has a viewer, even one that only reads.
// Its idle time begins anew when the last viewer leaves, and when the daemon restarts.
func TestViewersKeepATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &sessiontest.Runtime{Command: talk}
		w := world{newRegistry(session.Config{}, rt), rt, t}
		idle := 600.0
		p := terminal("read")
		p.IdleTimeoutS = &idle
		attach := func(id string, readOnly bool) *session.Viewer {
			t.Helper()
			v, err := w.get(id).Attach(t.Context(), api.SessionAttachParams{SessionID: id, ReadOnly: readOnly})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		id := w.create(p).SessionID
		first := attach(id, false)
		time.Sleep(9 * time.Minute)
		second := attach(id, true)
		time.Sleep(time.Hour)
		first.Leave()
		time.Sleep(time.Hour)
		if info := w.get(id).Info(); info.State != api.SessionRunning || info.EndsInS != nil {
			t.Fatalf("%+v", info)
		}
		second.Leave()
		if info := w.get(id).Info(); info.EndsInS == nil || *info.EndsInS != 600 {
			t.Errorf("%+v", info)
		}
		w.wantEnd(id, time.Now().Add(10*time.Minute), "idle for 10m0s (idle_timeout_s)")

		p.Name = "restart"
		id = w.create(p).SessionID
		p.Name = "alone"
		alone := w.create(p).SessionID
		attach(id, false)
		attach(alone, false)
		time.Sleep(time.Hour)
		w.Leave()
		w = world{newRegistry(session.Config{}, rt), rt, t}
		if err := w.Recover(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		time.Sleep(5 * time.Second)
		again := attach(id, false)
		w.wantEnd(alone, back.Add(10*time.Minute), "idle for 10m0s (idle_timeout_s)")
		time.Sleep(time.Hour)
		again.Leave()
		w.wantEnd(id, time.Now().Add(10*time.Minute), "idle for 10m0s (idle_timeout_s)")
		w.Close(nil)
	})
}

// TestEndsOfOneSession: a session has the limits that were asked for it, also those of
// session.set, in this daemon and the next.
func TestEndsOfOneSession(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rt := &sessiontest.Runtime{Command: untilCancelled}
			c := session.Config{IdleTimeout: time.Hour, Lifetime: 5 * time.Hour}
			w := world{newRegistry(c, rt), rt, t}
			began := time.Now()
			s := func(seconds float64) *float64 { return &seconds }
			short := w.create(api.SessionCreateParams{IdleTimeoutS: s(600)}).SessionID
			long := w.create(api.SessionCreateParams{IdleTimeoutS: s(0), LifetimeS: s(10 * 3600)}).SessionID
			never := w.create(api.SessionCreateParams{IdleTimeoutS: s(0), LifetimeS: s(0)}).SessionID
			set := w.create(api.SessionCreateParams{}).SessionID
			program := w.create(api.SessionCreateParams{Kind: api.KindProgram, Command: []string{"hang"}}).SessionID
			if info := w.get(program).Info(); info.EndsInS == nil || *info.EndsInS != 5*3600 {
				t.Errorf("%+v", info)
			}
			info, err := w.Set(t.Context(), w.get(set), api.SessionSetParams{LifetimeS: s(1200)})
			if err != nil || info.EndsInS == nil || *info.EndsInS != 1200 || info.EndsWhy != "lived for 20m0s (lifetime_s)" {
				t.Errorf("%+v, %v", info, err)
			}
			time.Sleep(time.Minute)
			if restart {
				w.Leave()
				w = world{newRegistry(c, rt), rt, t}
				if err := w.Recover(t.Context(), false); err != nil {
					t.Fatal(err)
				}
			}
			w.wantEnd(short, began.Add(10*time.Minute), "idle for 10m0s (idle_timeout_s)")
			w.wantEnd(set, began.Add(20*time.Minute), "lived for 20m0s (lifetime_s)")
			w.wantEnd(program, began.Add(5*time.Hour), "lived for 5h0m0s (lifetime_s)")
			w.wantEnd(long, began.Add(10*time.Hour), "lived for 10h0m0s (lifetime_s)")
			if info := w.get(never).Info(); info.State != api.SessionIdle || info.EndsInS != nil {
				t.Errorf("%+v", info)
			}
			w.Close(nil)
		})
	}
}
