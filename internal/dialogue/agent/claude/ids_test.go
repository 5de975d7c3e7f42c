package claude_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
	"github.com/trl-dev/trl/internal/dialogue/agent/claude"
)

// A resumed Claude reports how a task of its earlier process ended. A task that it starts is
// another one, even with the same id.
func TestEarlierTasks(t *testing.T) {
	const hello = `{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{"claude_code_version":"2.1.325"}}}`
	const started = `{"type":"system","subtype":"task_started","task_id":"a","task_type":"local_agent","tool_use_id":"call_0"}`
	const ended = `{"type":"system","subtype":"task_notification","task_id":"a","status":"stopped","summary":"not finished","tool_use_id":"call_0"}`

	k := agenttest.Resumed(t, claude.Agent{}, "s-1", hello)
	k.Says(ended)
	if task := k.Last(api.DialogueEventTask).Task; task.TaskID != "k2.1" || task.ToolCallID != "i2.1" || task.Kind != "agent" || task.Status != "cancelled" || task.Summary != "not finished" {
		t.Errorf("the end of an earlier task: %s", agenttest.Show(task))
	}
	k.Says(`{"type":"system","subtype":"task_progress","task_id":"b","summary":"goes on","parent_task_id":"a"}`)
	if task := k.Last(api.DialogueEventTask).Task; task.TaskID != "k2.2" || task.Status != "running" || task.ParentID != "k2.1" {
		t.Errorf("an earlier task that goes on: %s", agenttest.Show(task))
	}

	k = agenttest.Resumed(t, claude.Agent{}, "s-1", hello)
	k.Says(started, ended)
	if task := k.Last(api.DialogueEventTask).Task; task.TaskID != "k3.1" || task.ToolCallID == "i2.1" || task.Status != "cancelled" {
		t.Errorf("a task of this process with the id of an earlier one: %s", agenttest.Show(task))
	}
}

// A model server may number the calls of every answer anew: all commands are in the transcript.
func TestRepeatedCalls(t *testing.T) {
	use := func(message, id, tool, input, scope string) []string {
		block := `{"type":"tool_use","id":"` + id + `","name":"` + tool + `","input":`
		at := `,"parent_tool_use_id":` + scope + `}`
		return []string{
			`{"type":"stream_event","event":{"type":"message_start","message":{"id":"` + message + `"}}` + at,
			`{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":` + block + `{}}}` + at,
			`{"type":"assistant","message":{"id":"` + message + `","content":[` + block + input + `}]}` + at,
			`{"type":"stream_event","event":{"type":"content_block_stop","index":0}` + at,
		}
	}
	bash := func(message, id, command string) []string {
		return use(message, id, "Bash", `{"command":"`+command+`"}`, "null")
	}
	gives := func(id, text, scope string) string {
		return `{"type":"user","parent_tool_use_id":` + scope + `,"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"` + text + `"}]}}`
	}
	const done = `{"type":"result","subtype":"success"}`
	for _, message := range []string{"msg-%d", "msg"} { // the ids of messages may repeat too
		k := ready(t)
		for n := range 4 {
			k.Says(bash(strings.ReplaceAll(message, "%d", fmt.Sprint(n)), "call_0", fmt.Sprint("c", n))...)
			k.Says(gives("call_0", fmt.Sprint("o", n), "null"))
			if n == 1 {
				k.Says(done)
			}
		}
		k.Says(done)
		k.Ran(message, "call_0 c0 > o0 completed", "call_0 c1 > o1 completed", "call_0 c2 > o2 completed", "call_0 c3 > o3 completed")
	}

	k := ready(t) // two at once: results come in the order of the calls
	k.Says(`{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"x","name":"Bash","input":{"command":"a"}},{"type":"tool_use","id":"x","name":"Bash","input":{"command":"b"}}]}}`,
		gives("x", "1", "null"), gives("x", "2", "null"), done)
	k.Ran("at once", "x a > 1 completed", "x b > 2 completed")

	k = ready(t) // a subagent counts from 0 too
	k.Says(use("m1", "call_0", "Agent", `{"description":"look"}`, "null")...)
	k.Says(`{"type":"system","subtype":"task_started","task_id":"a1","task_type":"local_agent","tool_use_id":"call_0"}`)
	for n := range 2 {
		k.Says(use(fmt.Sprint("s", n), "call_0", "Bash", fmt.Sprintf(`{"command":"c%d"}`, n), `"call_0"`)...)
		k.Says(gives("call_0", fmt.Sprint("o", n), `"call_0"`))
	}
	k.Says(gives("call_0", "seen", "null"), `{"type":"system","subtype":"task_notification","task_id":"a1","status":"completed"}`)
	k.Says(bash("m2", "call_0", "after")...)
	k.Says(gives("call_0", "end", "null"), done)
	k.Ran("in a subagent", "call_0 look > seen completed", "call_0 c0 > o0 completed", "call_0 c1 > o1 completed", "call_0 after > end completed")

	k = ready(t) // each has a request, and each answer reaches its own call
	for n, decision := range []string{"allow", "deny"} {
		k.Says(bash("m", "call_0", fmt.Sprint("c", n))...)
		k.Says(fmt.Sprintf(`{"type":"control_request","request_id":"r-%d","request":{"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"call_0","input":{"command":"c%d"}}}`, n, n))
		q := k.Last(api.DialogueEventRequestOpened).Request
		if q.ToolCallID != k.Call("call_0") || q.Subject != fmt.Sprint("c", n) {
			t.Errorf("asked %s", agenttest.Show(q))
		}
		if err := k.Respond(api.DialogueRespondParams{RequestID: q.RequestID, Decision: decision}); err != nil {
			t.Fatal(err)
		}
		k.Says(gives("call_0", decision, "null"))
	}
	k.Says(done)
	k.Ran("asked for", "call_0 c0 > allow completed", "call_0 c1 > deny completed")
}
