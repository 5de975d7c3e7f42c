package agent_test

import (
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// Nothing is allowed by an answer that does not say so.
func TestClaudeAnswersRefused(t *testing.T) {
	plan := strings.Replace(claudeWantsBash, `"Bash"`, `"ExitPlanMode"`, 1)
	for name, tc := range map[string]struct {
		request string
		with    api.DialogueRespondParams
	}{
		"answers to a permission":              {claudeWantsBash, api.DialogueRespondParams{Answers: map[string]string{"q1": "no, do not"}}},
		"answers to a permission, and allowed": {claudeWantsBash, api.DialogueRespondParams{Decision: "allow", Answers: map[string]string{"q1": "no, do not"}}},
		"answers to a plan":                    {plan, api.DialogueRespondParams{Answers: map[string]string{"q1": "no"}}},
		"nothing":                              {claudeWantsBash, api.DialogueRespondParams{}},
		"two decisions":                        {claudeWantsBash, api.DialogueRespondParams{Decision: "deny", Option: "allow"}},
		"a question without answers":           {claudeAsks, api.DialogueRespondParams{Decision: "allow"}},
		"a question with none in its input":    {claudeAsks, api.DialogueRespondParams{Decision: "allow", Input: []byte(`{"questions":[],"answers":{}}`)}},
		"a question and nothing":               {claudeAsks, api.DialogueRespondParams{}},
	} {
		t.Run(name, func(t *testing.T) {
			k := claudeReady(t)
			k.says(tc.request)
			wrote := len(k.wrote)
			tc.with.RequestID = "r-1"
			if err := k.respond(tc.with); err == nil || err.Code != api.CodeInvalidParams {
				t.Errorf("it was answered with %v", err)
			}
			if len(k.wrote) != wrote || len(k.tracker.Pending()) != 1 {
				t.Errorf("it does not wait any more; wrote %q", k.wrote[wrote:])
			}
			// It can still be answered.
			if err := k.respond(api.DialogueRespondParams{RequestID: "r-1", Decision: "deny"}); err != nil {
				t.Error(err)
			}
		})
	}
	k := claudeReady(t)
	k.says(claudeAsks)
	if err := k.respond(api.DialogueRespondParams{RequestID: "r-1", Decision: "allow", Input: []byte(`{"answers":{"Which color?":"Red"}}`)}); err != nil {
		t.Errorf("answers in the input: %v", err)
	}
}

// The program waits for the answer to whatever it gives an id.
func TestClaudeOddRequest(t *testing.T) {
	for _, request := range []string{``, `,"request":null`, `,"request":7`, `,"request":{}`, `,"request":{"subtype":7}`, `,"request":{"subtype":""}`, `,"request":{"subtype":["can_use_tool"],"tool_name":"Bash"}`} {
		k := claudeReady(t)
		line := `{"type":"control_request","request_id":"r-1"` + request + `}`
		k.says(line)
		if k.last(api.DialogueEventUnparsed).Unparsed.Why != "bad_shape" || len(k.tracker.Pending()) != 0 {
			t.Errorf("%s: %s", line, show(k.events))
		}
		wantJSON(t, k.sent(), `{"type":"control_response","response":{"subtype":"error","request_id":"r-1","error":"unsupported request: it has no subtype"}}`)
		wrote := len(k.wrote)
		if k.says(line); len(k.wrote) != wrote {
			t.Errorf("it was answered twice: %q", k.wrote[wrote:])
		}
	}
}
