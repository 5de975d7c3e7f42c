package claude_test

import (
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
)

// An input that an answer sets instead of the model's is published beside it: in the request, in
// the tool call, and in all later events of the call.
func TestEditedInput(t *testing.T) {
	const model, edited = `{"command":"rm x"}`, `{"command":"rm y"}`
	call := `{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":` + model + `}]}}`
	ask := `{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"t","input":` + model + `}}`
	for name, lines := range map[string][]string{"in order": {call, ask}, "asked before it is told": {ask, call}} {
		k := ready(t)
		answer := func() {
			q := k.Last(api.DialogueEventRequestOpened).Request
			if err := k.Respond(api.DialogueRespondParams{RequestID: q.RequestID, Decision: "allow", Input: []byte(edited)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, line := range lines {
			k.Says(line)
			if line == ask {
				answer()
			}
		}
		closed := k.Last(api.DialogueEventRequestClosed).Request
		if string(closed.Input) != model || string(closed.EffectiveInput) != edited || closed.Subject != "rm x" {
			t.Errorf("%s: event %s", name, agenttest.Show(closed))
		}
		k.Says(`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"done"}]}}`, `{"type":"result","subtype":"success"}`)
		r := k.Tree.Result()
		if q := r.Requests[0]; string(q.Input) != model || string(q.EffectiveInput) != edited {
			t.Errorf("%s: request %s", name, agenttest.Show(q))
		}
		tool := r.Items[0].Tool
		if len(r.Items) != 1 || string(tool.Input) != model || string(tool.EffectiveInput) != edited || tool.Subject != "rm y" || tool.Status != "completed" {
			t.Errorf("%s: items %s", name, agenttest.Show(r.Items))
		}
		k.Check()
	}
	k := ready(t) // an equal input is no change
	k.Says(call, ask)
	if err := k.Respond(api.DialogueRespondParams{RequestID: "q", Decision: "allow", Input: []byte(`{ "command": "rm x" }`)}); err != nil {
		t.Fatal(err)
	}
	if q := k.Last(api.DialogueEventRequestClosed).Request; q.EffectiveInput != nil {
		t.Errorf("closed %s", agenttest.Show(q))
	}
}
