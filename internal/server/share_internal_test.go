package server

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// eventList is a stream of these pushes.
type eventList []api.StreamEvent

func (p *eventList) Start() api.StreamStart { return api.StreamStart{StreamID: "events/1"} }
func (p *eventList) Close() error           { return nil }
func (p *eventList) Recv() (api.StreamEvent, error) {
	if len(*p) == 0 {
		return api.StreamEvent{}, io.EOF
	}
	ev := (*p)[0]
	*p = (*p)[1:]
	return ev, nil
}

// TestSharesHaveOnePage: a share cannot page through a list, whose cursors name what is not shared.
func TestSharesHaveOnePage(t *testing.T) {
	only := &share{SessionID: "s-1"}
	for _, name := range []string{"session.list", "dialogue.list"} {
		m, _ := api.FindMethod(name)
		params, refused := only.pin(m, json.RawMessage(`{"limit":1,"after":"1.s-2","newest_first":true}`))
		if refused != nil || string(params) != `{"newest_first":true}` {
			t.Errorf("%s: %s, %v", name, params, refused)
		}
		if params, refused = only.pin(m, nil); refused != nil || params != nil {
			t.Errorf("%s: %s, %v", name, params, refused)
		}
	}
}

// TestSharesHaveNoLabel: the viewers of a terminal cannot be deceived about who watches.
func TestSharesHaveNoLabel(t *testing.T) {
	m, _ := api.FindMethod("session.attach")
	params, refused := (&share{SessionID: "s-1"}).pin(m, json.RawMessage(`{"session_id":"s-1","label":"root@box"}`))
	if refused != nil || string(params) != `{"session_id":"s-1"}` {
		t.Errorf("%s, %v", params, refused)
	}
}

// TestSharesHideLabels: a share sees how many viewers there are and what was answered, not the labels of
// viewers and clients.
func TestSharesHideLabels(t *testing.T) {
	list := []api.Viewer{{ViewerID: "v-1", Label: "cli@box", Cols: 80, Owner: true}, {ViewerID: "v-2", Label: "phone"}}
	events := eventList{{Seq: 1, Type: api.EventViewers, Viewers: list}}
	ev, err := (&share{SessionID: "s-1"}).trim(&events).(api.Stream).Recv()
	if want := []api.Viewer{{ViewerID: "v-1", Cols: 80, Owner: true}, {ViewerID: "v-2"}}; err != nil || !slices.Equal(ev.Viewers, want) {
		t.Errorf("%+v, %v", ev.Viewers, err)
	}
	if list[0].Label != "cli@box" {
		t.Error("the labels are gone for the others, too")
	}
	request := api.DialogueRequest{RequestID: "r1.1", Decision: "allow", AnsweredBy: &api.DialogueAnswerer{Label: "cli@box"}}
	only := &share{DialogueID: "d-1"}
	events = eventList{{Seq: 1, Type: api.EventDialogue, DialogueID: "d-1", Event: &api.DialogueEvent{Request: &request}}}
	ev, err = only.trim(&events).(api.Stream).Recv()
	if err != nil || ev.Event.Request.Decision != "allow" || ev.Event.Request.AnsweredBy != nil {
		t.Errorf("%+v, %v", ev.Event.Request, err)
	}
	r := only.trim(api.DialogueTranscriptResult{Requests: []api.DialogueRequest{request}}).(api.DialogueTranscriptResult)
	if r.Requests[0].Decision != "allow" || r.Requests[0].AnsweredBy != nil {
		t.Errorf("%+v", r.Requests[0])
	}
	if request.AnsweredBy == nil {
		t.Error("the one who answered is gone for the others, too")
	}
}

// TestSharesSeeOnlyTheirOwn: events and lists have nothing of other sessions and dialogues.
func TestSharesSeeOnlyTheirOwn(t *testing.T) {
	all := eventList{
		{Seq: 1, Type: api.EventSessionCreated, SessionID: "s-1"}, {Seq: 2, Type: api.EventSessionCreated, SessionID: "s-2"},
		{Seq: 3, Type: api.EventExecExited, SessionID: "s-1"}, {Seq: 4, Type: api.EventDialogueState, SessionID: "s-1", DialogueID: "d-1"},
		{Seq: 5, Type: api.EventDialogueState, SessionID: "s-2", DialogueID: "d-2"}, {Seq: 6, Type: api.EventDialogueRequestOpened, DialogueID: "d-1"},
		{Seq: 7, Type: api.EventSessionTerminated}, {Seq: 8, Type: api.EventMissed},
	}
	for _, c := range []struct {
		only share
		want []int64
	}{{share{SessionID: "s-1"}, []int64{1, 3, 8}}, {share{DialogueID: "d-1"}, []int64{4, 6, 8}}, {share{}, []int64{8}}} {
		events := slices.Clone(all)
		s := c.only.trim(&events).(api.Stream)
		var got []int64
		for ev, err := s.Recv(); err == nil; ev, err = s.Recv() {
			got = append(got, ev.Seq)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.only, got, c.want)
		}
		for _, result := range []any{
			api.SessionListResult{Sessions: []api.SessionInfo{{SessionID: "s-1", Tags: []string{"secret"}}, {SessionID: "s-2", Name: "secret"}, {Name: "secret"}}},
			api.SessionDetails{SessionInfo: api.SessionInfo{Tags: []string{"secret"}}, EnvKeys: []string{"secret"}},
			api.DialogueListResult{Dialogues: []api.DialogueInfo{{DialogueID: "d-1", Tags: []string{"secret"}, Remote: "secret"}, {DialogueID: "d-2", Name: "secret"}, {Name: "secret"}}},
			api.DialogueInfo{Tags: []string{"secret"}, Remote: "secret"},
			api.DialogueRequestsResult{Requests: []api.DialogueWaiting{{DialogueID: "d-1"}, {DialogueID: "d-2", Name: "secret"}, {Name: "secret"}}, Recovering: []string{"secret"}},
		} {
			text, err := json.Marshal(c.only.trim(result))
			if err != nil || strings.Contains(string(text), "secret") || strings.Contains(string(text), "null,") && strings.Contains(string(text), `"sessions":null`) {
				t.Errorf("%+v: %s, %v", c.only, text, err)
			}
		}
	}
}

// TestTokensAreFoundByTheirNames: the share of a caller ends with the token of which the caller's
// record has only the name.
func TestTokensAreFoundByTheirNames(t *testing.T) {
	const token = "0123456789abcdef"
	tokens, err := NewTokens(TokensConfig{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	scope, digest := tokens.Find(token)
	name := tokenName(token)
	if scope != ScopeFull || len(name) != tokenNameLength || !strings.HasPrefix(digest, name) {
		t.Fatalf("%s: %s, %s", name, scope, digest)
	}
	for _, known := range []string{name, digest} {
		if !tokens.Holds(known) {
			t.Errorf("%q: not found", known)
		}
	}
	for _, other := range []string{"", name[:tokenNameLength-1], tokenName("another token of 24 bytes"), digest + "0"} {
		if tokens.Holds(other) {
			t.Errorf("%q: found", other)
		}
	}
}

// TestTokensOfAnUnreadableFileAreNotGone: no caller can use them, and logins and shares do not end.
func TestTokensOfAnUnreadableFileAreNotGone(t *testing.T) {
	const token = "0123456789abcdef"
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		next := path + ".next"
		if err := errors.Join(os.WriteFile(next, []byte(text), mode), os.Chmod(next, mode), os.Rename(next, path)); err != nil {
			t.Fatal(err)
		}
	}
	write(token, 0o600)
	tokens, err := NewTokens(TokensConfig{File: path})
	if err != nil {
		t.Fatal(err)
	}
	look := func(state string, valid, holds bool) {
		t.Helper()
		if got := tokens.scopeOf(token) != ""; got != valid {
			t.Errorf("%s: valid is %v", state, got)
		}
		for range 2 {
			if got := tokens.Holds(tokenName(token)); got != holds {
				t.Errorf("%s: holds is %v", state, got)
			}
		}
	}
	look("at first", true, true)
	write("# being written", 0o600)
	look("without any token", false, true)
	write("# others may read it\n"+token, 0o644)
	look("with a wrong mode", false, true)
	write("# and back\n"+token+"\n", 0o600)
	look("back", true, true)
	write("# half a token\n"+token[:8]+"\n", 0o600)
	look("half written", false, true)
	write("# another token\nfedcba9876543210\n", 0o600)
	look("removed", false, false)
	write("# still removed\n", 0o600)
	look("removed, and unreadable", false, false)
	write("# once more\n"+token+"\n\n", 0o600)
	look("back again", true, true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look("without a file", false, false)
}
