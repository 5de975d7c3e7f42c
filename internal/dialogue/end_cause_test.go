package dialogue

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/trl-dev/trl/api"
)

// mortal is a program whose session can be destroyed, by the dialogue or by another client.
type mortal struct {
	speaker
	mu    sync.Mutex
	cause string // guarded by mu; why the session has ended
}

func (m *mortal) kill(context.Context) error {
	m.mu.Lock()
	m.cause = "destroyed"
	m.mu.Unlock()
	return nil
}

func (m *mortal) endCause() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cause
}

// TestCauseOfTheEnd: a session that another client destroyed is the cause of the end, even if the
// dialogue is terminated before it receives the exit; a session that the dialogue destroyed is not.
func TestCauseOfTheEnd(t *testing.T) {
	for _, c := range []struct {
		name            string
		destroyed       bool // by another client
		terminate, hard bool
		want            string
	}{
		{"destroyed", true, false, false, "session_destroyed"},
		{"destroyed, then terminated", true, true, false, "session_destroyed"},
		{"destroyed, then terminated by force", true, true, true, "session_destroyed"},
		{"terminated", false, true, false, "closed"},
		{"terminated by force", false, true, true, "closed"},
		{"exited", false, false, false, "exited"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, p := begin(t, filepath.Join(t.TempDir(), "d-1"))
				m := &mortal{speaker: speaker{pieces: make(chan piece)}}
				if c.destroyed {
					m.cause = "destroyed"
				}
				p.program = m
				p.opening.to(openAnswered, "")
				go d.readOutput(p)
				if c.terminate {
					go func() { _, _ = d.Terminate(t.Context(), api.DialogueTerminateParams{Force: c.hard}) }()
				}
				synctest.Wait()
				m.pieces <- piece{exit: &api.ExecOutcome{}}
				<-p.done
				if info := d.Info(); info.Ended == nil || info.Ended.Cause != c.want {
					t.Errorf("%+v, want the cause %s", info.Ended, c.want)
				}
				d.registry.tasks.Wait()
			})
		})
	}
}
