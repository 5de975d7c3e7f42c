package dialogue

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
)

// TestSessionEndsWhileAway: the session of an agent that cannot be reached ends. The dialogue is in
// state error, and ends too, although no client calls dialogue.retry.
func TestSessionEndsWhileAway(t *testing.T) {
	agents["parrot"] = parrot{}
	defer delete(agents, "parrot")
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		place := &sessiontest.Runtime{Command: squawk, Places: []api.PlaceKind{api.PlaceTRL}}
		log := slog.New(slog.DiscardHandler)
		sessions := session.NewRegistry(session.Config{
			Runtimes: []session.Runtime{place}, Logger: log, MaxSessions: 1, DefaultShell: "/bin/sh",
			Resolve: func(word string, _ *api.PlaceOptions) (session.Target, error) {
				return session.Target{Word: word, Kind: api.PlaceTRL}, nil
			},
		})
		defer sessions.Close(nil)
		r := New(Config{Sessions: sessions, Logger: log, Dir: dir, StartTimeout: time.Minute, Grace: time.Minute, LineBytes: 1 << 20, Reconnect: 10 * time.Second})
		defer r.Close(nil)
		info, err := r.Create(t.Context(), api.DialogueCreateParams{Agent: "parrot", Name: "polly", Runtime: "trl:box"})
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.Get("polly")
		if err != nil {
			t.Fatal(err)
		}
		runner := place.Runner(info.SessionID)
		runner.Deny(true)
		runner.Break()
		time.Sleep(time.Minute)
		if got := d.Info(); got.State != api.DialogueError {
			t.Errorf("%+v", got)
		}
		runner.Crash("its place was removed")
		time.Sleep(time.Minute)
		if got := d.Info(); got.State != api.DialogueEnded || got.Ended == nil || got.Error != nil {
			t.Errorf("%+v", got)
		}
	})
}
