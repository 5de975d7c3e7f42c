package dialogue

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// TestDeepJSON: JSON of an agent that is too deep for some clients is a string with its text, in every
// field; the rules still find their patterns in it.
func TestDeepJSON(t *testing.T) {
	nested := func(n int, inner string) json.RawMessage {
		return json.RawMessage(strings.Repeat(`{"a":[`, n/2) + inner + strings.Repeat(`]}`, n/2))
	}
	quoted := json.RawMessage(`"` + strings.Repeat(`[{\\\"`, 9000) + `"`)
	for _, c := range []struct {
		raw  json.RawMessage
		deep bool
	}{
		{nil, false}, {json.RawMessage(`{}`), false}, {quoted, false}, {nested(mostDepth, `"]"`), false}, {nested(mostDepth+2, `"]\\"]"`), true}, {nested(9990, "1"), true},
		{json.RawMessage("[" + strings.Repeat("[],", 9000) + "[]]"), false},
	} {
		given := []api.DialoguePart{{Type: "data", Data: c.raw}}
		d, p := quiet(t, t.TempDir()+"/d-1", true)
		tool := api.DialogueToolCall{Name: "x", Input: c.raw, EffectiveInput: c.raw, Structured: c.raw, Output: given}
		d.mu.Lock()
		d.applyStepLocked(p, agent.Step{Events: []api.DialogueEvent{
			{Type: api.DialogueEventItem, Item: &api.DialogueItem{ItemID: "i", Kind: "tool_call", Status: "final", Tool: &tool, Parts: given}},
			{Type: api.DialogueEventRequestOpened, Request: &api.DialogueRequest{RequestID: "r", Kind: "permission", Tool: "x", Input: c.raw}},
		}}, nil)
		d.flushLocked()
		asked := d.tracker.Pending()[0].Input
		d.mu.Unlock()
		text, _ := json.Marshal(string(c.raw))
		want := c.raw
		if c.deep {
			want = text
		}
		if string(asked) != string(want) {
			t.Errorf("request: %.40s, want %.40s", asked, want)
		}
		got := flat(api.DialogueEvent{Item: &api.DialogueItem{Tool: &tool, Parts: given}}).Item
		for _, raw := range []json.RawMessage{got.Parts[0].Data, got.Tool.Output[0].Data, got.Tool.Input, got.Tool.EffectiveInput, got.Tool.Structured} {
			if string(raw) != string(want) {
				t.Errorf("item: %.40s, want %.40s", raw, want)
			}
		}
		if string(given[0].Data) != string(c.raw) {
			t.Error("the part of the protocol has changed")
		}
	}
	r := api.DialogueRequest{Kind: "permission", Tool: "execute", Input: asText(nested(2000, `"rm -rf x"`))}
	if got := decided(rulesOf("deny execute rm*\nallow execute *"), r, ""); got != "deny" {
		t.Errorf("%q", got)
	}
}
