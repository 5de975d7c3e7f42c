package codex_test

import (
	"fmt"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
	"github.com/trl-dev/trl/internal/dialogue/agent/codex"
)

func TestEarlierTasks(t *testing.T) {
	call := func(step, tool, thread, states string) string {
		return `{"method":"item/` + step + `","params":{"threadId":"T","turnId":"turn1","item":{"type":"collabAgentToolCall","id":"c","tool":"` + tool + `","status":"completed","receiverThreadIds":[` + thread + `],"prompt":"p","agentsStates":{` + states + `}}}}`
	}
	open := func() *agenttest.Talk {
		k := agenttest.Resumed(t, codex.Agent{}, "T", `{"id":1,"result":{"userAgent":"x"}}`)
		k.Hear([]byte(`{"id":2,"result":{"thread":{"id":"T"}}}`))
		k.Hears(agenttest.CodexTurn)
		return k
	}
	k := open()
	k.Hears(call("completed", "wait", "", `"a":{"status":"completed","message":"seen"}`))
	if task := k.Last(api.DialogueEventTask).Task; task.TaskID != "k2.1" || task.ToolCallID != "i2.1" || task.Status != "completed" || task.Summary != "seen" {
		t.Errorf("the end of an earlier subagent: %s", agenttest.Show(task))
	}
	k = open()
	k.Hears(call("completed", "spawnAgent", `"a"`, ""))
	if task := k.Last(api.DialogueEventTask).Task; task.TaskID != "k3.1" || task.Status != "running" || task.Name != "p" {
		t.Errorf("a subagent of this process with the id of an earlier one: %s", agenttest.Show(task))
	}
}

func TestRepeatedCalls(t *testing.T) {
	item := func(step, status, command, out string) string {
		return fmt.Sprintf(`{"method":"item/%s","params":{"threadId":"T","turnId":"turn1","item":{"type":"commandExecution","id":"call_0","status":%q,"command":%q,"cwd":"/w","aggregatedOutput":%q}}}`, step, status, command, out)
	}
	for name, commands := range map[string][]string{"others": {"a", "b", "c"}, "the same": {"a", "a", "a"}} {
		k := agenttest.CodexReady(t)
		k.Hears(agenttest.CodexTurn)
		var want []string
		for n, command := range commands {
			k.Hears(item("started", "inProgress", command, ""), `{"method":"item/commandExecution/outputDelta","params":{"threadId":"T","turnId":"turn1","itemId":"call_0","delta":"x"}}`, item("completed", "completed", command, "x"))
			want = append(want, "call_0 "+commands[n]+" > x completed")
		}
		k.Hears(item("completed", "completed", commands[2], "x")) // repeated
		k.Hears(`{"method":"turn/completed","params":{"threadId":"T","turn":{"id":"turn1","status":"completed"}}}`)
		k.Ran(name, want...)
	}
}
