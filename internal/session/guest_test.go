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

// TestOwnerLost: a guest ends when its owner does not connect to it in time, and not while the owner
// is connected.
func TestOwnerLost(t *testing.T) {
	mute := &sessiontest.Runtime{OnStart: func(r *sessiontest.Runner) error { r.Mute = true; return nil }}
	in(t, session.Config{}, mute, func(t *testing.T, w world) {
		const id, limit = "s-0000000001", time.Hour
		connect := func() *session.GuestConnection {
			t.Helper()
			return testkit.Must(w.ConnectGuest(t.Context(), "owner", id))(t)
		}
		testkit.Must(w.StartGuest(t.Context(), api.GuestStartParams{OwnerID: "owner", SessionID: id, OwnerLostS: new(limit.Seconds())}))(t)
		time.Sleep(limit - time.Second)
		first := connect()
		time.Sleep(3 * limit)
		second := connect()
		first.Close()
		time.Sleep(3 * limit)
		second.Close()
		time.Sleep(limit - time.Second)
		connect().Close() // the time begins again
		time.Sleep(limit - time.Second)
		if n := len(w.Guests("owner")); n != 1 {
			t.Fatalf("%d guests before the time is over", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(w.Guests("owner")); n != 0 {
			t.Errorf("%d guests after the time is over", n)
		}
		_, err := w.ConnectGuest(t.Context(), "owner", id)
		testkit.WantError(t, err, api.CodeSessionTerminated, "did not connect to it for owner_lost_s")
	})
}
