package dialogue_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/trl-dev/trl/api"
)

// A daemon may die when it has started an agent and not yet noted it. The next one ends
// it: nobody knows of it. One that another daemon has here is left alone.
func TestStraySession(t *testing.T) {
	w := start(t)
	session := func(id string) string {
		return must(w.SessionCreate(w.ctx, api.SessionCreateParams{Kind: api.KindProgram, Command: []string{"sleep", "1000"}, Tags: []string{api.TagDialogue, id}}))(w).SessionID
	}
	begun, resumed, elsewhere := session("d-0000000001"), "", session("d-0000000002")
	d := w.create(fake())
	w.terminate(d.DialogueID)
	resumed = session(d.DialogueID)
	living := w.create(fake())
	dir := filepath.Join(w.daemon.StateDir, "dialogues", "d-0000000001")
	w.restart(func() {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	})
	for _, id := range []string{begun, resumed} {
		must(w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: id, Exit: true}))(w)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("what was being made is still there: %v", err)
	}
	for _, id := range []string{elsewhere, living.SessionID} {
		if info := must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: id}))(w); info.State == api.SessionTerminated {
			t.Errorf("session %s is %s", id, info.State)
		}
	}
	must(w.SessionDestroy(w.ctx, api.SessionDestroyParams{SessionID: elsewhere, Force: true}))(w)
	w.terminate(living.DialogueID)
}
