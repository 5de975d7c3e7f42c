package claude_test

import (
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
)

// Only an answer that allows something allows it.
func TestAnswersRefused(t *testing.T) {
	plan := strings.Replace(wantsBash, `"Bash"`, `"ExitPlanMode"`, 1)
	for name, tc := range map[string]struct {
		request string
		with    api.DialogueRespondParams
	}{
		"answers to a permission":              {wantsBash, api.DialogueRespondParams{Answers: map[string]string{"q1": "no, do not"}}},
		"answers to a permission, and allowed": {wantsBash, api.DialogueRespondParams{Decision: "allow", Answers: map[string]string{"q1": "no, do not"}}},
		"answers to a plan":                    {plan, api.DialogueRespondParams{Answers: map[string]string{"q1": "no"}}},
		"nothing":                              {wantsBash, api.DialogueRespondParams{}},
		"two decisions":                        {wantsBash, api.DialogueRespondParams{Decision: "deny", Option: "allow"}},
		"a question without answers":           {asksQuestion, api.DialogueRespondParams{Decision: "allow"}},
		"a question with none in its input":    {asksQuestion, api.DialogueRespondParams{Decision: "allow", Input: []byte(`{"questions":[],"answers":{}}`)}},
		"a question and nothing":               {asksQuestion, api.DialogueRespondParams{}},
	} {
		t.Run(name, func(t *testing.T) {
			k := ready(t)
			k.Says(tc.request)
			wrote := len(k.Wrote)
			tc.with.RequestID = "r-1"
			if err := k.Respond(tc.with); err == nil || err.Code != api.CodeInvalidParams {
				t.Errorf("it was answered with %v", err)
			}
			if len(k.Wrote) != wrote || len(k.Tracker.Pending()) != 1 {
				t.Errorf("it does not wait any more; wrote %q", k.Wrote[wrote:])
			}
			// It can still be answered.
			if err := k.Respond(api.DialogueRespondParams{RequestID: "r-1", Decision: "deny"}); err != nil {
				t.Error(err)
			}
		})
	}
	k := ready(t)
	k.Says(asksQuestion)
	if err := k.Respond(api.DialogueRespondParams{RequestID: "r-1", Decision: "allow", Input: []byte(`{"answers":{"Which color?":"Red"}}`)}); err != nil {
		t.Errorf("answers in the input: %v", err)
	}
}

// The program waits for an answer to every request with an id.
func TestOddRequest(t *testing.T) {
	for _, request := range []string{``, `,"request":null`, `,"request":7`, `,"request":{}`, `,"request":{"subtype":7}`, `,"request":{"subtype":""}`, `,"request":{"subtype":["can_use_tool"],"tool_name":"Bash"}`} {
		k := ready(t)
		line := `{"type":"control_request","request_id":"r-1"` + request + `}`
		k.Says(line)
		if k.Last(api.DialogueEventUnparsed).Unparsed.Why != "bad_shape" || len(k.Tracker.Pending()) != 0 {
			t.Errorf("%s: %s", line, agenttest.Show(k.Events))
		}
		agenttest.WantJSON(t, k.LastWrite(), `{"type":"control_response","response":{"subtype":"error","request_id":"r-1","error":"unsupported request: it has no subtype"}}`)
		wrote := len(k.Wrote)
		if k.Says(line); len(k.Wrote) != wrote {
			t.Errorf("it was answered twice: %q", k.Wrote[wrote:])
		}
	}
}
