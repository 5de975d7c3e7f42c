package dialogue_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	half := w.create(fake()) // as it is while its creator waits
	about := filepath.Join(w.daemon.StateDir, "dialogues", half.DialogueID, "dialogue.json")
	dir := filepath.Join(w.daemon.StateDir, "dialogues", "d-0000000001")
	w.restart(func() {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(about)
		if err != nil || !strings.Contains(string(text), `"created": true`) {
			t.Fatalf("%s: %v", text, err)
		}
		if err := os.WriteFile(about, []byte(strings.Replace(string(text), `"created": true`, `"created": false`, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := w.DialogueInfo(w.ctx, api.DialogueInfoParams{DialogueID: half.DialogueID}); !errors.Is(err, api.ErrDialogueNotFound) {
		t.Errorf("a dialogue that was half made: %v", err)
	}
	for _, id := range []string{begun, resumed, half.SessionID} {
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
