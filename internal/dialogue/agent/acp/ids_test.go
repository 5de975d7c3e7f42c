package acp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
)

func TestRepeatedCalls(t *testing.T) {
	ended := `{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`
	call := func(update, status, command, out string) string {
		s := `"sessionUpdate":"` + update + `","toolCallId":"call_0","kind":"execute","status":"` + status + `"`
		if command != "" {
			s += `,"rawInput":{"command":"` + command + `"}`
		}
		if out != "" {
			s += `,"content":[{"type":"content","content":{"type":"text","text":"` + out + `"}}]`
		}
		return agenttest.ACPUpdate(s)
	}
	asks := func(id int, command string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":"S","toolCall":{"toolCallId":"call_0","kind":"execute","rawInput":{"command":%q}},"options":[{"optionId":"1","name":"Yes","kind":"allow_once"},{"optionId":"3","name":"No","kind":"reject_once"}]}}`, id, command)
	}
	for name, c := range map[string]struct {
		lines []string // allow and deny answer the last request
		want  []string
	}{
		"one after the other": {[]string{call("tool_call", "in_progress", "a", ""), call("tool_call_update", "completed", "", "1"), call("tool_call", "pending", "b", ""), call("tool_call_update", "failed", "", "2")},
			[]string{"call_0 a > 1 completed", "call_0 b > 2 failed"}},
		"without updates": {[]string{call("tool_call", "completed", "a", "1"), call("tool_call", "completed", "a", "1")}, []string{"call_0 a > 1 completed", "call_0 a > 1 completed"}},
		"only updates":    {[]string{call("tool_call_update", "in_progress", "a", ""), call("tool_call_update", "completed", "", "1"), call("tool_call_update", "in_progress", "b", ""), call("tool_call_update", "completed", "", "2")}, []string{"call_0 a > 1 completed", "call_0 b > 2 completed"}},
		"without an end":  {[]string{call("tool_call", "in_progress", "a", ""), call("tool_call", "in_progress", "b", "")}, []string{"call_0 a >  cancelled", "call_0 b >  cancelled"}},
		"told twice":      {[]string{call("tool_call", "pending", "a", ""), call("tool_call", "in_progress", "a", ""), call("tool_call_update", "completed", "", "1")}, []string{"call_0 a > 1 completed"}},
		"told before its input": {[]string{
			agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"call_0","kind":"execute","status":"pending","title":"Terminal","rawInput":{}`),
			agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"call_0","kind":"execute","status":"pending","title":"` + "`a`" + `","rawInput":{"command":"a"}`),
			asks(1, "a"), "allow", call("tool_call_update", "completed", "", "1")}, []string{"call_0 a > 1 completed"}}, // claude-code-acp
		"without an input, and running": {[]string{
			agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"call_0","kind":"execute","status":"in_progress","title":"List","rawInput":{}`),
			agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"call_0","kind":"execute","status":"pending","title":"Run","rawInput":{"command":"a"}`),
			call("tool_call_update", "completed", "", "1")}, []string{"call_0  >  cancelled", "call_0 a > 1 completed"}},
		"without an input, of another kind": {[]string{
			agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"call_0","kind":"read","status":"pending","title":"List","rawInput":{}`),
			agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"call_0","kind":"execute","status":"pending","title":"Run","rawInput":{"command":"a"}`),
			call("tool_call_update", "completed", "", "1")}, []string{"call_0  >  cancelled", "call_0 a > 1 completed"}},
		"another is asked": {[]string{
			agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"call_0","kind":"execute","status":"in_progress","title":"a","rawInput":{"command":"a"}`),
			`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"S","toolCall":{"toolCallId":"call_0","kind":"execute","title":"b"},"options":[{"optionId":"1","name":"Yes","kind":"allow_once"}]}}`,
			"allow", call("tool_call_update", "completed", "", "1")}, []string{"call_0 a >  cancelled", "call_0  > 1 completed"}},
		"told, then asked":  {[]string{call("tool_call", "pending", "a", ""), asks(1, "a"), "allow", call("tool_call_update", "completed", "", "1")}, []string{"call_0 a > 1 completed"}},
		"asked, then told":  {[]string{asks(1, "a"), "allow", call("tool_call", "in_progress", "a", ""), call("tool_call_update", "completed", "", "1")}, []string{"call_0 a > 1 completed"}},
		"asked and done":    {[]string{asks(1, "a"), "allow", call("tool_call_update", "completed", "", "1"), asks(2, "b"), "allow", call("tool_call_update", "completed", "", "2")}, []string{"call_0 a > 1 completed", "call_0 b > 2 completed"}},
		"asked and denied":  {[]string{asks(1, "a"), "deny", asks(1, "b"), "allow", call("tool_call_update", "completed", "", "2")}, []string{"call_0 a >  cancelled", "call_0 b > 2 completed"}},
		"asked at once":     {[]string{asks(1, "a"), asks(2, "b"), "allow"}, []string{"call_0 a >  cancelled", "call_0 b >  cancelled"}},
		"more when it ends": {[]string{call("tool_call", "in_progress", "a", ""), call("tool_call_update", "completed", "", "1"), call("tool_call_update", "completed", "", "12")}, []string{"call_0 a > 12 completed"}},
	} {
		k := agenttest.ACPReady(t)
		k.Send("m1", "go")
		for _, line := range c.lines {
			if line != "allow" && line != "deny" {
				k.Hears(line)
			} else if err := k.Respond(api.DialogueRespondParams{RequestID: k.Last(api.DialogueEventRequestOpened).Request.RequestID, Decision: line}); err != nil {
				t.Fatal(err)
			}
		}
		k.Hears(ended)
		k.Ran(name, c.want...)
	}
	// The ids of messages may repeat in the next turn and in the next process.
	k := agenttest.ACPReady(t)
	for n := range 2 {
		k.Send(fmt.Sprint("m", n), "go")
		k.Hears(agenttest.ACPUpdate(fmt.Sprintf(`"sessionUpdate":"agent_message_chunk","messageId":"0","content":{"type":"text","text":"answer %d"}`, n)), strings.Replace(ended, "3", fmt.Sprint(3+n), 1))
	}
	if items := k.Tree.Result().Items; len(items) != 4 || items[1].Parts[0].Text != "answer 0" || items[3].Parts[0].Text != "answer 1" {
		t.Errorf("messages: %s", agenttest.Show(items))
	}
}
