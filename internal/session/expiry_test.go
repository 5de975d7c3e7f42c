package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
)

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
