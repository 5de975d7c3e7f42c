package dialogue_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// edit changes a file.
func edit(t *testing.T, path, from, to string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), from) {
		t.Fatalf("%s: %v", text, err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A daemon may die when it has started an agent and not yet recorded it. The next daemon ends that
// agent, because it belongs to no dialogue. An agent of another daemon is left alone.
func TestStraySession(t *testing.T) {
	w := start(t)
	session := func(id string) string {
		return testkit.Must(w.SessionCreate(w.ctx, api.SessionCreateParams{Kind: api.KindProgram, Command: []string{"sleep", "1000"}, Tags: []string{api.TagDialogue, id}}))(w).SessionID
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
		edit(t, about, `"created": true`, `"created": false`)
	})
	if _, err := w.DialogueInfo(w.ctx, api.DialogueInfoParams{DialogueID: half.DialogueID}); !errors.Is(err, api.ErrDialogueNotFound) {
		t.Errorf("a dialogue that was half made: %v", err)
	}
	for _, id := range []string{begun, resumed, half.SessionID} {
		testkit.Must(w.SessionWait(w.ctx, api.SessionWaitParams{SessionID: id, Exit: true}))(w)
	}
	testkit.Eventually(t, "what was being made is gone", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
	for _, id := range []string{elsewhere, living.SessionID} {
		if info := testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: id}))(w); info.State == api.SessionTerminated {
			t.Errorf("session %s is %s", id, info.State)
		}
	}
	testkit.Must(w.SessionDestroy(w.ctx, api.SessionDestroyParams{SessionID: elsewhere, Force: true}))(w)
	w.terminate(living.DialogueID)
}

// TestRemoteStraySession: the same with agents on another daemon, which may not be there
// when it is asked for the first time.
func TestRemoteStraySession(t *testing.T) {
	a := startAway(t)
	dialogues := filepath.Join(a.daemon.StateDir, "dialogues")
	begun := make(chan error, 1)
	go func() {
		_, err := a.DialogueCreate(a.ctx, a.fake("-silent"))
		begun <- err
	}()
	testkit.Eventually(t, "the agent runs", func() bool {
		list := testkit.Must(a.SessionList(a.ctx, api.SessionListParams{}))(a.world).Sessions
		return len(list) == 1 && list[0].State == api.SessionRunning
	})
	a.restart(func() {
		if err := <-begun; err == nil {
			t.Error("it began")
		}
		a.proxy.Refuse()
		a.proxy.Cut()
	})
	if list := testkit.Must(a.DialogueList(a.ctx, api.DialogueListParams{}))(a.world).Dialogues; len(list) != 0 {
		t.Errorf("a dialogue that was half made: %+v", list)
	}
	if list := a.farSessions(); len(list) != 1 {
		t.Errorf("over there are %+v", list)
	}
	a.restart(func() { a.proxy.Listen() })
	testkit.Eventually(t, "nothing is left over there", func() bool { return len(a.farSessions()) == 0 })
	testkit.Eventually(t, "nothing is left here", func() bool {
		left, err := os.ReadDir(dialogues)
		return err == nil && len(left) == 0
	})

	// One that died while it was resumed: no dialogue owns the session.
	d := a.create(a.fake())
	a.terminate(d.DialogueID)
	session := func(id string) string {
		place := a.fake().Remote.Options()
		return testkit.Must(a.SessionCreate(a.ctx, api.SessionCreateParams{
			Runtime: "trl", Place: &place, Kind: api.KindProgram, Command: []string{"sleep", "1000"}, Tags: []string{api.TagDialogue, id},
		}))(a.world).SessionID
	}
	stray, other := session(d.DialogueID), session("d-0000000001")
	a.restart(nil)
	info := testkit.Must(a.DialogueResume(a.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID}))(a.world)
	var left []string
	for _, s := range a.farSessions() {
		left = append(left, s.SessionID)
	}
	if want := []string{other, info.SessionID}; !slices.Equal(left, want) {
		t.Errorf("over there are %q, want %q without %q", left, want, stray)
	}
	testkit.Must(a.SessionDestroy(a.ctx, api.SessionDestroyParams{SessionID: other, Force: true}))(a.world)
	a.terminate(d.DialogueID)
}
