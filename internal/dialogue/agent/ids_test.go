package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// commands are the tool calls of a transcript, at any depth: what each ran, what it gave,
// and how it ended.
func (k *talk) commands() (all []string) {
	var walk func([]api.DialogueItem)
	walk = func(items []api.DialogueItem) {
		for _, it := range items {
			if it.Tool == nil {
				continue
			}
			out := ""
			for _, part := range it.Tool.Output {
				out += part.Text
			}
			all = append(all, fmt.Sprintf("%s %s > %s %s", it.NativeID, it.Tool.Subject, out, it.Tool.Status))
			walk(it.Tool.Items)
		}
	}
	walk(k.tree.Result().Items)
	return all
}

func (k *talk) ran(what string, want ...string) {
	k.t.Helper()
	if got := k.commands(); !slices.Equal(got, want) {
		k.t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	k.check()
}

// A model server may number the calls of every answer anew: all commands that ran are told.
func TestRepeatedCallsOfClaude(t *testing.T) {
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
	for _, message := range []string{"msg-%d", "msg"} { // the ids of messages may be no better
		k := claudeReady(t)
		for n := range 4 {
			k.says(bash(strings.ReplaceAll(message, "%d", fmt.Sprint(n)), "call_0", fmt.Sprint("c", n))...)
			k.says(gives("call_0", fmt.Sprint("o", n), "null"))
			if n == 1 {
				k.says(done)
			}
		}
		k.says(done)
		k.ran(message, "call_0 c0 > o0 completed", "call_0 c1 > o1 completed", "call_0 c2 > o2 completed", "call_0 c3 > o3 completed")
	}

	k := claudeReady(t) // two at once: results come in the order of the calls
	k.says(`{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"x","name":"Bash","input":{"command":"a"}},{"type":"tool_use","id":"x","name":"Bash","input":{"command":"b"}}]}}`,
		gives("x", "1", "null"), gives("x", "2", "null"), done)
	k.ran("at once", "x a > 1 completed", "x b > 2 completed")

	k = claudeReady(t) // a subagent counts from 0 as well
	k.says(use("m1", "call_0", "Agent", `{"description":"look"}`, "null")...)
	k.says(`{"type":"system","subtype":"task_started","task_id":"a1","task_type":"local_agent","tool_use_id":"call_0"}`)
	for n := range 2 {
		k.says(use(fmt.Sprint("s", n), "call_0", "Bash", fmt.Sprintf(`{"command":"c%d"}`, n), `"call_0"`)...)
		k.says(gives("call_0", fmt.Sprint("o", n), `"call_0"`))
	}
	k.says(gives("call_0", "seen", "null"), `{"type":"system","subtype":"task_notification","task_id":"a1","status":"completed"}`)
	k.says(bash("m2", "call_0", "after")...)
	k.says(gives("call_0", "end", "null"), done)
	k.ran("in a subagent", "call_0 look > seen completed", "call_0 c0 > o0 completed", "call_0 c1 > o1 completed", "call_0 after > end completed")

	k = claudeReady(t) // each is asked for, and each answer reaches its own
	for n, decision := range []string{"allow", "deny"} {
		k.says(bash("m", "call_0", fmt.Sprint("c", n))...)
		k.says(fmt.Sprintf(`{"type":"control_request","request_id":"r-%d","request":{"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"call_0","input":{"command":"c%d"}}}`, n, n))
		q := k.last(api.DialogueEventRequestOpened).Request
		if q.ToolCallID != k.call("call_0") || q.Subject != fmt.Sprint("c", n) {
			t.Errorf("asked %s", show(q))
		}
		if err := k.respond(api.DialogueRespondParams{RequestID: q.RequestID, Decision: decision}); err != nil {
			t.Fatal(err)
		}
		k.says(gives("call_0", decision, "null"))
	}
	k.says(done)
	k.ran("asked for", "call_0 c0 > allow completed", "call_0 c1 > deny completed")
}

func TestRepeatedCallsOfACP(t *testing.T) {
	ended := `{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`
	call := func(update, status, command, out string) string {
		s := `"sessionUpdate":"` + update + `","toolCallId":"call_0","kind":"execute","status":"` + status + `"`
		if command != "" {
			s += `,"rawInput":{"command":"` + command + `"}`
		}
		if out != "" {
			s += `,"content":[{"type":"content","content":{"type":"text","text":"` + out + `"}}]`
		}
		return acpTold(s)
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
		"without updates":   {[]string{call("tool_call", "completed", "a", "1"), call("tool_call", "completed", "a", "1")}, []string{"call_0 a > 1 completed", "call_0 a > 1 completed"}},
		"only updates":      {[]string{call("tool_call_update", "in_progress", "a", ""), call("tool_call_update", "completed", "", "1"), call("tool_call_update", "in_progress", "b", ""), call("tool_call_update", "completed", "", "2")}, []string{"call_0 a > 1 completed", "call_0 b > 2 completed"}},
		"without an end":    {[]string{call("tool_call", "in_progress", "a", ""), call("tool_call", "in_progress", "b", "")}, []string{"call_0 a >  cancelled", "call_0 b >  cancelled"}},
		"told twice":        {[]string{call("tool_call", "pending", "a", ""), call("tool_call", "in_progress", "a", ""), call("tool_call_update", "completed", "", "1")}, []string{"call_0 a > 1 completed"}},
		"told, then asked":  {[]string{call("tool_call", "pending", "a", ""), asks(1, "a"), "allow", call("tool_call_update", "completed", "", "1")}, []string{"call_0 a > 1 completed"}},
		"asked, then told":  {[]string{asks(1, "a"), "allow", call("tool_call", "in_progress", "a", ""), call("tool_call_update", "completed", "", "1")}, []string{"call_0 a > 1 completed"}},
		"asked and done":    {[]string{asks(1, "a"), "allow", call("tool_call_update", "completed", "", "1"), asks(2, "b"), "allow", call("tool_call_update", "completed", "", "2")}, []string{"call_0 a > 1 completed", "call_0 b > 2 completed"}},
		"asked and denied":  {[]string{asks(1, "a"), "deny", asks(1, "b"), "allow", call("tool_call_update", "completed", "", "2")}, []string{"call_0 a >  cancelled", "call_0 b > 2 completed"}},
		"asked at once":     {[]string{asks(1, "a"), asks(2, "b"), "allow"}, []string{"call_0 a >  cancelled", "call_0 b >  cancelled"}},
		"more when it ends": {[]string{call("tool_call", "in_progress", "a", ""), call("tool_call_update", "completed", "", "1"), call("tool_call_update", "completed", "", "12")}, []string{"call_0 a > 12 completed"}},
	} {
		k := acpTalk(t)
		k.send("m1", "go")
		for _, line := range c.lines {
			if line != "allow" && line != "deny" {
				k.hears(line)
			} else if err := k.respond(api.DialogueRespondParams{RequestID: k.last(api.DialogueEventRequestOpened).Request.RequestID, Decision: line}); err != nil {
				t.Fatal(err)
			}
		}
		k.hears(ended)
		k.ran(name, c.want...)
	}
	// Messages: their ids may come again in the next turn, and in the next process.
	k := acpTalk(t)
	for n := range 2 {
		k.send(fmt.Sprint("m", n), "go")
		k.hears(acpTold(fmt.Sprintf(`"sessionUpdate":"agent_message_chunk","messageId":"0","content":{"type":"text","text":"answer %d"}`, n)), strings.Replace(ended, "3", fmt.Sprint(3+n), 1))
	}
	if items := k.tree.Result().Items; len(items) != 4 || items[1].Parts[0].Text != "answer 0" || items[3].Parts[0].Text != "answer 1" {
		t.Errorf("messages: %s", show(items))
	}
}

func TestRepeatedCallsOfCodex(t *testing.T) {
	item := func(step, status, command, out string) string {
		return fmt.Sprintf(`{"method":"item/%s","params":{"threadId":"T","turnId":"turn1","item":{"type":"commandExecution","id":"call_0","status":%q,"command":%q,"cwd":"/w","aggregatedOutput":%q}}}`, step, status, command, out)
	}
	for name, commands := range map[string][]string{"others": {"a", "b", "c"}, "the same": {"a", "a", "a"}} {
		k := codexTalk(t)
		k.hears(codexTurn)
		var want []string
		for n, command := range commands {
			k.hears(item("started", "inProgress", command, ""), `{"method":"item/commandExecution/outputDelta","params":{"threadId":"T","turnId":"turn1","itemId":"call_0","delta":"x"}}`, item("completed", "completed", command, "x"))
			want = append(want, "call_0 "+commands[n]+" > x completed")
		}
		k.hears(item("completed", "completed", commands[2], "x")) // comes again
		k.hears(`{"method":"turn/completed","params":{"threadId":"T","turn":{"id":"turn1","status":"completed"}}}`)
		k.ran(name, want...)
	}
}

// The ids of a dialogue are its own: a later process makes none that an earlier one made.
func TestIDsOfLaterProcesses(t *testing.T) {
	for _, name := range []string{"claude", "codex", "acp"} {
		seen := map[string]int{}
		for epoch := 1; epoch <= 3; epoch++ {
			for _, r := range recordings(t, name)[:20%len(recordings(t, name))+1] {
				moves, o := rpcOrClaude(t, name, r)
				o.Epoch = epoch
				k := newTalk(t, name, o)
				k.loose = true
				k.play(moves)
				for _, ev := range k.events {
					for _, id := range idsIn(ev) {
						if was := seen[id]; was != 0 && was != epoch {
							t.Fatalf("%s: %s is of the processes %d and %d", r.name, id, was, epoch)
						}
						seen[id] = epoch
					}
				}
			}
		}
	}
}

func idsIn(ev api.DialogueEvent) (ids []string) {
	switch {
	case ev.Item != nil && ev.Item.NativeID != "":
		ids = append(ids, ev.Item.ItemID)
	case ev.Task != nil:
		ids = append(ids, ev.Task.TaskID)
	case ev.Request != nil:
		ids = append(ids, ev.Request.RequestID)
	case ev.Turn != nil:
		ids = append(ids, ev.Turn.TurnID)
	}
	return ids
}

func rpcOrClaude(t *testing.T, name string, r recording) ([]move, agent.Options) {
	if name == "claude" {
		return claudeMoves(t, r), claudeOptions(r)
	}
	return rpcMoves(t, r), rpcOptions(t, r)
}
