package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestDialogueStates tries every pair of states.
func TestDialogueStates(t *testing.T) {
	all := []api.DialogueState{api.DialogueStarting, api.DialogueIdle, api.DialogueRunning, api.DialogueRequiresAction, api.DialogueError, api.DialogueEnded}
	// From a row's state, to each of the columns above.
	allowed := map[api.DialogueState]string{
		api.DialogueStarting:       "-xxxxx",
		api.DialogueIdle:           "--xxxx",
		api.DialogueRunning:        "-x-xxx",
		api.DialogueRequiresAction: "-xx-xx",
		api.DialogueError:          "-xxx-x",
		api.DialogueEnded:          "x-----",
	}
	for _, from := range all {
		for i, to := range all {
			if got := from.CanBecome(to); got != (allowed[from][i] == 'x') {
				t.Errorf("%s → %s: %v", from, to, got)
			}
		}
	}
}

// TestDialogueCreateCheck: bad input, one parameter at a time.
func TestDialogueCreateCheck(t *testing.T) {
	f := func(x float64) *float64 { return &x }
	for _, tc := range []struct {
		change func(p *api.DialogueCreateParams)
		field  string // "" = fine
	}{
		{func(*api.DialogueCreateParams) {}, ""},
		{func(p *api.DialogueCreateParams) { p.Agent = "" }, "agent"},
		{func(p *api.DialogueCreateParams) { p.Name = "review-1" }, ""},
		{func(p *api.DialogueCreateParams) { p.Name = "a b" }, "name"},
		{func(p *api.DialogueCreateParams) { p.Name = "d-1" }, "name"},
		{func(p *api.DialogueCreateParams) { p.Name = "s-1" }, "name"},
		{func(p *api.DialogueCreateParams) { p.Argv = []string{"/opt/agent", "--flag"} }, ""},
		{func(p *api.DialogueCreateParams) { p.Argv = []string{} }, "argv"},
		{func(p *api.DialogueCreateParams) { p.Argv = []string{""} }, "argv"},
		{func(p *api.DialogueCreateParams) { p.Argv = []string{"agent", "a\x00b"} }, "argv"},
		{func(p *api.DialogueCreateParams) { p.Model = "--dangerous" }, "model"},
		{func(p *api.DialogueCreateParams) { p.Model = "a\x00b" }, "model"},
		{func(p *api.DialogueCreateParams) { p.PermissionMode = "-x" }, "permission_mode"},
		{func(p *api.DialogueCreateParams) { p.Resume = "-x" }, "resume"},
		{func(p *api.DialogueCreateParams) { p.Runtime = "host" }, ""},
		{func(p *api.DialogueCreateParams) { p.Runtime = "two words" }, "runtime"},
		{func(p *api.DialogueCreateParams) { p.Runtime = "remote" }, "remote"},
		{func(p *api.DialogueCreateParams) { p.Runtime, p.Remote = "remote", &api.DialogueRemote{} }, "remote"},
		{func(p *api.DialogueCreateParams) {
			p.Runtime, p.Remote = "remote", &api.DialogueRemote{Address: "grpcs://box:7331"}
		}, ""},
		{func(p *api.DialogueCreateParams) { p.Remote = &api.DialogueRemote{Address: "grpcs://box:7331"} }, "remote"},
		{func(p *api.DialogueCreateParams) { p.Tags = []string{"mine"} }, ""},
		{func(p *api.DialogueCreateParams) { p.Tags = []string{""} }, "tags"},
		{func(p *api.DialogueCreateParams) { p.Tags = []string{api.TagDialogue} }, "tags"},
		{func(p *api.DialogueCreateParams) { p.Tags = []string{"d-3f9a1c02de"} }, "tags"},
		{func(p *api.DialogueCreateParams) { p.Env = map[string]string{"A-B": ""} }, "env"},
		{func(p *api.DialogueCreateParams) { p.WorkingDir = "a\x00" }, "working_dir"},
		{func(p *api.DialogueCreateParams) { p.StallS = f(0) }, ""},
		{func(p *api.DialogueCreateParams) { p.StallS = f(-1) }, "stall_s"},
		{func(p *api.DialogueCreateParams) { p.StallS = f(math.NaN()) }, "stall_s"},
		{func(p *api.DialogueCreateParams) { p.Policy = &api.DialoguePolicy{DenyAfterS: f(-1)} }, "policy.deny_after_s"},
		{func(p *api.DialogueCreateParams) {
			p.Policy = &api.DialoguePolicy{Rules: []api.DialogueRule{{Tool: "Bash", Pattern: "git *", Action: "allow"}}}
		}, ""},
		{func(p *api.DialogueCreateParams) {
			p.Policy = &api.DialoguePolicy{Rules: []api.DialogueRule{{Tool: "Bash", Action: "maybe"}}}
		}, "policy"},
		{func(p *api.DialogueCreateParams) {
			p.Policy = &api.DialoguePolicy{Rules: []api.DialogueRule{{Action: "deny"}}}
		}, "policy"},
		{func(p *api.DialogueCreateParams) {
			p.Policy = &api.DialoguePolicy{Rules: make([]api.DialogueRule, 1001)}
		}, "policy"},
	} {
		p := api.DialogueCreateParams{Agent: "claude"}
		tc.change(&p)
		complains(t, p, tc.field)
	}
}

// complains compares what Check says with the field that is wrong, "" for none.
func complains(t *testing.T, p interface{ Check() error }, field string) {
	t.Helper()
	err := p.Check()
	switch {
	case field == "" && err != nil:
		t.Errorf("%+v: %v", p, err)
	case field != "" && (!errors.Is(err, api.ErrInvalidParams) || api.AsError(err).Details["field"] != field):
		t.Errorf("%+v: %v, want a complaint about %s", p, err, field)
	}
}

func TestDialogueCheck(t *testing.T) {
	n := func(x int64) *int64 { return &x }
	const uuid = "0b6a2f44-9d1c-4a6f-8e55-2f1f4f0b7c11"
	text := func(s string) api.DialogueContent { return api.DialogueContent{Type: "text", Text: s} }
	for _, tc := range []struct {
		check interface{ Check() error }
		field string // "" = fine
	}{
		{api.DialogueSendParams{DialogueID: "d", Text: "hello", MessageID: uuid}, ""},
		{api.DialogueSendParams{DialogueID: "d", Content: []api.DialogueContent{text("a"), {Type: "image", DataBase64: "YQ==", MediaType: "image/png"}}}, ""},
		{api.DialogueSendParams{Text: "hello"}, "dialogue_id"},
		{api.DialogueSendParams{DialogueID: "d"}, "text"},
		{api.DialogueSendParams{DialogueID: "d", Text: "a", Content: []api.DialogueContent{text("b")}}, "text"},
		{api.DialogueSendParams{DialogueID: "d", Text: "a", MessageID: "1"}, "message_id"},
		{api.DialogueSendParams{DialogueID: "d", Text: "a", MessageID: strings.ToUpper(uuid)}, "message_id"},
		{api.DialogueSendParams{DialogueID: "d", Text: "a", MessageID: strings.ReplaceAll(uuid, "-", "_")}, "message_id"},
		{api.DialogueSendParams{DialogueID: "d", Content: []api.DialogueContent{text("")}}, "content"},
		{api.DialogueSendParams{DialogueID: "d", Content: []api.DialogueContent{{Type: "sound", Text: "x"}}}, "content"},
		{api.DialogueSendParams{DialogueID: "d", Content: []api.DialogueContent{{Type: "image", MediaType: "image/png"}}}, "content"},
		{api.DialogueSendParams{DialogueID: "d", Content: []api.DialogueContent{{Type: "image", DataBase64: "YQ==", MediaType: "text/html"}}}, "content"},
		{api.DialogueSendParams{DialogueID: "d", Content: []api.DialogueContent{{Type: "image", DataBase64: "?", MediaType: "image/png"}}}, "content"},

		{api.DialogueRespondParams{DialogueID: "d", RequestID: "r", Decision: "allow", Input: json.RawMessage(`{}`), Remember: true}, ""},
		{api.DialogueRespondParams{DialogueID: "d", RequestID: "r", Decision: "deny", Message: "no", Interrupt: true}, ""},
		{api.DialogueRespondParams{DialogueID: "d", RequestID: "r", Option: "o"}, ""},
		{api.DialogueRespondParams{DialogueID: "d", RequestID: "r", Answers: map[string]string{"q": "a"}}, ""},
		{api.DialogueRespondParams{RequestID: "r", Decision: "allow"}, "dialogue_id"},
		{api.DialogueRespondParams{DialogueID: "d", Decision: "allow"}, "request_id"},
		{api.DialogueRespondParams{DialogueID: "d", RequestID: "r"}, "decision"},
		{api.DialogueRespondParams{DialogueID: "d", RequestID: "r", Decision: "perhaps"}, "decision"},
		{api.DialogueRespondParams{DialogueID: "d", RequestID: "r", Decision: "deny", Remember: true}, "decision"},
		{api.DialogueRespondParams{DialogueID: "d", RequestID: "r", Decision: "deny", Input: json.RawMessage(`{}`)}, "decision"},
		{api.DialogueRespondParams{DialogueID: "d", RequestID: "r", Decision: "deny", Answers: map[string]string{"q": "a"}}, "decision"},
		{api.DialogueRespondParams{DialogueID: "d", RequestID: "r", Decision: "allow", Input: json.RawMessage(`[]`)}, "input"},
		{api.DialogueRespondParams{DialogueID: "d", RequestID: "r", Decision: "allow", Input: json.RawMessage(``)}, "input"},

		{api.DialogueSetParams{DialogueID: "d", Model: "m"}, ""},
		{api.DialogueSetParams{DialogueID: "d", Policy: &api.DialoguePolicy{}}, ""},
		{api.DialogueSetParams{Model: "m"}, "dialogue_id"},
		{api.DialogueSetParams{DialogueID: "d"}, "model"},
		{api.DialogueSetParams{DialogueID: "d", Model: "-x"}, "model"},
		{api.DialogueSetParams{DialogueID: "d", PermissionMode: "--x"}, "permission_mode"},
		{api.DialogueSetParams{DialogueID: "d", Policy: &api.DialoguePolicy{Rules: []api.DialogueRule{{Tool: "Bash"}}}}, "policy"},

		{api.DialogueEventsParams{DialogueID: "d", AfterSeq: 1, NoFollow: true, NoDeltas: true}, ""},
		{api.DialogueEventsParams{}, "dialogue_id"},
		{api.DialogueEventsParams{DialogueID: "d", AfterSeq: -1}, "after_seq"},

		{api.DialogueRawParams{DialogueID: "d", Stream: "stdin", Epoch: 1, Offset: 1, Limit: n(4 << 20)}, ""},
		{api.DialogueRawParams{}, "dialogue_id"},
		{api.DialogueRawParams{DialogueID: "d", Stream: "stderr"}, "stream"},
		{api.DialogueRawParams{DialogueID: "d", Offset: -1}, "offset"},
		{api.DialogueRawParams{DialogueID: "d", Epoch: -1}, "offset"},
		{api.DialogueRawParams{DialogueID: "d", Limit: n(0)}, "limit"},
		{api.DialogueRawParams{DialogueID: "d", Limit: n(4<<20 + 1)}, "limit"},

		{api.DialogueResumeParams{DialogueID: "d", Env: map[string]string{"A": "b"}}, ""},
		{api.DialogueResumeParams{}, "dialogue_id"},
		{api.DialogueResumeParams{DialogueID: "d", Env: map[string]string{"A=B": ""}}, "env"},
	} {
		complains(t, tc.check, tc.field)
	}
}

// TestDialogueParams: bad parameters give INVALID_PARAMS, and the message names the field.
func TestDialogueParams(t *testing.T) {
	for _, tc := range []struct{ method, params, want string }{
		{"dialogue.create", `{"agent":5}`, "params.agent: must be a string, not number"},
		{"dialogue.create", `{"agnet":"claude"}`, "params.agnet: unknown field"},
		{"dialogue.create", `{"policy":[]}`, "params.policy: must be an object, not array"},
		{"dialogue.create", `{"policy":{"rules":{}}}`, "params.policy.rules: must be a list, not object"},
		{"dialogue.send", `{"message":"x"}`, "params.message: unknown field"},
		{"dialogue.send", `{"content":"x"}`, "params.content: must be a list, not string"},
		{"dialogue.respond", `{"descision":"allow"}`, "params.descision: unknown field"},
		{"dialogue.respond", `{"answers":[]}`, "params.answers: must be an object, not array"},
		{"dialogue.events", `{"after":5}`, "params.after: unknown field"},
		{"dialogue.raw", `{"offset":"5"}`, "params.offset: must be a whole number, not string"},
		{"dialogue.terminate", `{"kill":true}`, "params.kill: unknown field"},
	} {
		m, _ := api.FindMethod(tc.method)
		_, err := m.Call(context.Background(), nil, json.RawMessage(tc.params))
		if !errors.Is(err, api.ErrInvalidParams) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s %s: %v, want %q", tc.method, tc.params, err, tc.want)
		}
	}
}

// TestDialogueEventTypes: a stream has the types that it asks for, and unknown ones are refused.
func TestDialogueEventTypes(t *testing.T) {
	p := api.DialogueEventsParams{DialogueID: "d", Types: []api.DialogueEventType{api.DialogueEventItem, api.DialogueEventDelta}, NoDeltas: true}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	for kind, want := range map[api.DialogueEventType]bool{api.DialogueEventItem: true, api.DialogueEventDelta: false, api.DialogueEventState: false} {
		if p.Selects(kind) != want {
			t.Errorf("%s is selected: %v", kind, !want)
		}
	}
	for _, kind := range api.DialogueEventTypes {
		if !(api.DialogueEventsParams{}).Selects(kind) {
			t.Errorf("%s is omitted", kind)
		}
	}
	p.Types = append(p.Types, "nosuch")
	if err := p.Check(); err == nil {
		t.Error("an unknown type is accepted")
	}
}
