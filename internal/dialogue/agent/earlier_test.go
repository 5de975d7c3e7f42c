package agent_test

import (
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// resumed is a process that goes on with a conversation in which tasks were lost.
func resumed(t *testing.T, name, session, hello string) *talk {
	t.Helper()
	lost := func(id, native, call string) api.DialogueTask {
		return api.DialogueTask{TaskID: id, NativeID: native, ToolCallID: call, Kind: "agent", Name: "look", Background: true, Status: "lost"}
	}
	k := newTalk(t, name, agent.Options{Resume: session, Epoch: 3, Tasks: []api.DialogueTask{lost("k1.1", "a", "i1.1"), lost("k2.1", "a", "i2.1"), lost("k2.2", "b", "i2.2")}})
	k.hear([]byte(hello))
	return k
}

// A resumed Claude reports how a task of its earlier process ended. A task that it starts is
// another one, whatever its id.
func TestEarlierTasksOfClaude(t *testing.T) {
	const hello = `{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{"claude_code_version":"2.1.325"}}}`
	const started = `{"type":"system","subtype":"task_started","task_id":"a","task_type":"local_agent","tool_use_id":"call_0"}`
	const ended = `{"type":"system","subtype":"task_notification","task_id":"a","status":"stopped","summary":"not finished","tool_use_id":"call_0"}`

	k := resumed(t, "claude", "s-1", hello)
	k.says(ended)
	if task := k.last(api.DialogueEventTask).Task; task.TaskID != "k2.1" || task.ToolCallID != "i2.1" || task.Kind != "agent" || task.Status != "cancelled" || task.Summary != "not finished" {
		t.Errorf("the end of an earlier task: %s", show(task))
	}
	k.says(`{"type":"system","subtype":"task_progress","task_id":"b","summary":"goes on","parent_task_id":"a"}`)
	if task := k.last(api.DialogueEventTask).Task; task.TaskID != "k2.2" || task.Status != "running" || task.ParentID != "k2.1" {
		t.Errorf("an earlier task that goes on: %s", show(task))
	}

	k = resumed(t, "claude", "s-1", hello)
	k.says(started, ended)
	if task := k.last(api.DialogueEventTask).Task; task.TaskID != "k3.1" || task.ToolCallID == "i2.1" || task.Status != "cancelled" {
		t.Errorf("a task of this process with the id of an earlier one: %s", show(task))
	}
}

func TestEarlierTasksOfCodex(t *testing.T) {
	call := func(step, tool, thread, states string) string {
		return `{"method":"item/` + step + `","params":{"threadId":"T","turnId":"turn1","item":{"type":"collabAgentToolCall","id":"c","tool":"` + tool + `","status":"completed","receiverThreadIds":[` + thread + `],"prompt":"p","agentsStates":{` + states + `}}}}`
	}
	open := func() *talk {
		k := resumed(t, "codex", "T", `{"id":1,"result":{"userAgent":"x"}}`)
		k.hear([]byte(`{"id":2,"result":{"thread":{"id":"T"}}}`))
		k.hears(codexTurn)
		return k
	}
	k := open()
	k.hears(call("completed", "wait", "", `"a":{"status":"completed","message":"seen"}`))
	if task := k.last(api.DialogueEventTask).Task; task.TaskID != "k2.1" || task.ToolCallID != "i2.1" || task.Status != "completed" || task.Summary != "seen" {
		t.Errorf("the end of an earlier subagent: %s", show(task))
	}
	k = open()
	k.hears(call("completed", "spawnAgent", `"a"`, ""))
	if task := k.last(api.DialogueEventTask).Task; task.TaskID != "k3.1" || task.Status != "running" || task.Name != "p" {
		t.Errorf("a subagent of this process with the id of an earlier one: %s", show(task))
	}
}
