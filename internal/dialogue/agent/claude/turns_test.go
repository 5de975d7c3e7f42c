package claude_test

import (
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
)

// An unfinished item is retracted at once when the model is called again, when it begins another
// message, and when the turn ends.
func TestPartialsTakenBack(t *testing.T) {
	for name, line := range map[string]string{
		"retry":  `{"type":"system","subtype":"api_retry","attempt":1,"max_retries":3,"retry_delay_ms":500.5,"error_status":529,"error":"overloaded"}`,
		"anew":   `{"type":"stream_event","event":{"type":"message_start","message":{"id":"msg-2"}}}`,
		"result": `{"type":"result","subtype":"success"}`,
	} {
		k := ready(t)
		k.Says(`{"type":"stream_event","event":{"type":"message_start","message":{"id":"msg-1"}}}`,
			`{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}}`,
			`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}}`,
			`{"type":"assistant","message":{"id":"msg-1","content":[{"type":"thinking","thinking":"hm"}]}}`,
			`{"type":"stream_event","event":{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}}`,
			`{"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"half"}}}`,
			`{"type":"stream_event","event":{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t-1","name":"Bash","input":{}}}}`)
		if d := k.Last(api.DialogueEventDelta).Delta; d.ItemID != "i1.2" || d.Field != "text" || d.Text != "half" {
			t.Errorf("%s: delta %s", name, agenttest.Show(d))
		}
		k.Says(line)
		if got := strings.Join(k.Last(api.DialogueEventRetracted).Retracted, " "); got != "i1.2 i1.3" || k.Count(api.DialogueEventRetracted) != 1 {
			t.Errorf("%s: retracted %q", name, got)
		}
		if items := k.Tree.Result().Items; len(items) != 1 || items[0].ItemID != "i1.1" || items[0].NativeID != "msg-1" || items[0].Kind != "reasoning" {
			t.Errorf("%s: left are %s", name, agenttest.Show(items))
		}
		if name == "retry" {
			if r := k.Last(api.DialogueEventRetry).Retry; r.Attempt != 1 || r.Most != 3 || r.DelayMS != 500 || r.Cause != "overloaded (HTTP 529)" {
				t.Errorf("retry %s", agenttest.Show(r))
			}
		}
	}
}

// Old versions do not report that a text was cut off; the missing end of its block shows it.
func TestCutOffText(t *testing.T) {
	piece := func(event string) string { return `{"type":"stream_event","event":` + event + `}` }
	const (
		begins = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
		ends   = `{"type":"content_block_stop","index":0}`
		whole  = `{"type":"assistant","message":{"id":"msg-1","content":[{"type":"text","text":"half"}]}}`
		cut    = `{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]}}`
		result = `{"type":"result","subtype":"error_during_execution","is_error":true}`
	)
	for name, tc := range map[string]struct {
		lines  []string
		status string
		told   int // how often the text was published
	}{
		"cut off":         {[]string{piece(begins), whole, cut, piece(ends), result}, "aborted", 3},
		"it says so":      {[]string{piece(begins), strings.Replace(whole, `{`, `{"aborted":true,`, 1), cut, piece(ends), result}, "aborted", 2},
		"later":           {[]string{piece(begins), whole, piece(ends), cut, result}, "final", 2},
		"ended before":    {[]string{piece(begins), piece(ends), whole, cut, result}, "final", 2},
		"in the next one": {[]string{piece(begins), whole, piece(ends), piece(`{"type":"message_start","message":{"id":"msg-2"}}`), piece(begins), cut, result}, "final", 2},
	} {
		k := ready(t)
		k.Says(piece(`{"type":"message_start","message":{"id":"msg-1"}}`))
		k.Says(tc.lines...)
		told := 0
		for _, ev := range k.Events {
			if ev.Type == api.DialogueEventItem && ev.Item.ItemID == "i1.1" {
				told++
			}
		}
		item := k.Tree.Result().Items[0]
		if item.ItemID != "i1.1" || item.Status != tc.status || item.TurnID != "t1.1" || told != tc.told {
			t.Errorf("%s: told %d times, %s", name, told, agenttest.Show(item))
		}
	}
}

func TestOutcomes(t *testing.T) {
	const cut = `{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]}}`
	for name, tc := range map[string]struct {
		lines   []string
		outcome string
		native  string
		text    string
	}{
		"completed":              {[]string{`{"type":"result","subtype":"success","terminal_reason":"completed","result":"done"}`}, "completed", "completed", "done"},
		"completed, old":         {[]string{`{"type":"result","subtype":"success","result":"done"}`}, "completed", "success", "done"},
		"failed as success":      {[]string{`{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","result":"API Error"}`}, "failed", "api_error", "API Error"},
		"failed":                 {[]string{`{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["a","b"]}`}, "failed", "error_during_execution", "a; b"},
		"interrupted":            {[]string{`{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools","errors":["x"]}`}, "interrupted", "aborted_tools", ""},
		"interrupted, in words":  {[]string{cut, `{"type":"result","subtype":"error_during_execution","is_error":true}`}, "interrupted", "error_during_execution", ""},
		"too many steps":         {[]string{`{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum"]}`}, "limit", "error_max_turns", "Reached maximum"},
		"too expensive":          {[]string{`{"type":"result","subtype":"error_max_budget_usd","is_error":true}`}, "limit", "error_max_budget_usd", ""},
		"words of another scope": {[]string{strings.Replace(cut, `{"type"`, `{"parent_tool_use_id":"t-1","type"`, 1), `{"type":"result","subtype":"error_during_execution","is_error":true}`}, "failed", "error_during_execution", ""},
	} {
		k := ready(t)
		k.Says(`{"type":"system","subtype":"init"}`)
		k.Says(tc.lines...)
		if turn := k.Last(api.DialogueEventTurnEnded).Turn; turn.TurnID != "t1.1" || turn.Outcome != tc.outcome || turn.Native != tc.native || turn.Text != tc.text {
			t.Errorf("%s: %s", name, agenttest.Show(turn))
		}
	}
}

// An impossible figure counts as none, so that clients can read every figure.
func TestHugeFigures(t *testing.T) {
	k := ready(t)
	for _, session := range []string{"s-1", "s-2", "s-3"} { // each counts from 0
		k.Says(`{"type":"result","subtype":"success","uuid":"u","session_id":"` + session + `","duration_ms":1e300,"num_turns":9223372036854775807,` +
			`"total_cost_usd":1e308,"modelUsage":{"x":{"inputTokens":9223372036854775807,"costUSD":1e308},"y":{"inputTokens":9223372036854775807,"costUSD":1e308}}}`)
	}
	agenttest.Show(k.Events) // panics if JSON has no form of a number
	turn, usage := k.Last(api.DialogueEventTurnEnded).Turn, k.Last(api.DialogueEventUsage).Usage
	if turn.DurationMS != 0 || turn.Steps != 0 || usage.InputTokens != 0 || *usage.CostUSD != 0 {
		t.Errorf("turn %s\nusage %s", agenttest.Show(turn), agenttest.Show(usage))
	}
}

// A request ends with its tool call, and at the latest with its turn. The request of a background
// subagent outlives the turn.
func TestRequestsSettled(t *testing.T) {
	ask := func(id, tool, task string) string {
		return `{"type":"control_request","request_id":"` + id + `","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{},"tool_use_id":"` + tool + `","agent_id":"` + task + `"}}`
	}
	k := ready(t)
	k.Says(`{"type":"system","subtype":"init"}`, ask("r-1", "t-1", ""), ask("r-2", "", ""), ask("r-3", "t-3", "a-1"))
	k.Says(`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t-1","is_error":true,"content":"AbortError"}]}}`)
	if n := k.Count(api.DialogueEventRequestClosed); n != 1 || k.Last(api.DialogueEventRequestClosed).Request.NativeID != "r-1" {
		t.Errorf("%d were closed with the tool call", n)
	}
	k.Says(`{"type":"result","subtype":"success"}`)
	if n := k.Count(api.DialogueEventRequestClosed); n != 2 || k.Last(api.DialogueEventRequestClosed).Request.NativeID != "r-2" {
		t.Errorf("%d were closed with the turn", n)
	}
	if waiting := k.Tracker.Pending(); len(waiting) != 1 || waiting[0].NativeID != "r-3" {
		t.Errorf("waiting: %s", agenttest.Show(waiting))
	}
}

// A message that arrives during a turn joins the turn.
func TestMessagesOfTurns(t *testing.T) {
	k := ready(t)
	k.Send("m-1", "go")
	k.Says(`{"type":"command_lifecycle","command_uuid":"m-1","state":"queued"}`, `{"type":"command_lifecycle","command_uuid":"m-1","state":"started"}`, `{"type":"system","subtype":"init"}`)
	k.Send("m-2", "also")
	k.Says(`{"type":"command_lifecycle","command_uuid":"m-2","state":"queued"}`, `{"type":"command_lifecycle","command_uuid":"m-2","state":"started"}`)
	k.Send("m-3", "later")
	k.Says(`{"type":"command_lifecycle","command_uuid":"m-3","state":"queued"}`, `{"type":"result","subtype":"success"}`)
	if turn := k.Last(api.DialogueEventTurnEnded).Turn; strings.Join(turn.Messages, " ") != "m-1 m-2" {
		t.Errorf("the turn answers %q", turn.Messages)
	}
	k.Says(`{"type":"command_lifecycle","command_uuid":"m-3","state":"started"}`, `{"type":"system","subtype":"init"}`)
	if turn := k.Last(api.DialogueEventTurnStarted).Turn; turn.TurnID != "t1.2" || turn.Trigger != "user" || strings.Join(turn.Messages, " ") != "m-3" {
		t.Errorf("the next turn is %s", agenttest.Show(turn))
	}

	// A message that goes back to the queue belongs to the turn that takes it next.
	k.Send("m-4", "back")
	k.Says(`{"type":"command_lifecycle","command_uuid":"m-4","state":"started"}`, `{"type":"command_lifecycle","command_uuid":"m-4","state":"queued"}`, `{"type":"result","subtype":"success"}`)
	if turn := k.Last(api.DialogueEventTurnEnded).Turn; turn.TurnID != "t1.2" || strings.Join(turn.Messages, " ") != "m-3" {
		t.Errorf("the turn answers %q", turn.Messages)
	}
	k.Says(`{"type":"command_lifecycle","command_uuid":"m-4","state":"started"}`, `{"type":"system","subtype":"init"}`, `{"type":"result","subtype":"success"}`)
	if turn := k.Last(api.DialogueEventTurnEnded).Turn; turn.TurnID != "t1.3" || strings.Join(turn.Messages, " ") != "m-4" {
		t.Errorf("the turn after it is %s", agenttest.Show(turn))
	}

	// An old version only echoes a message when it has begun with it.
	k = ready(t)
	k.Send("m-1", "go")
	k.Says(`{"type":"system","subtype":"init"}`, `{"type":"user","isReplay":true,"uuid":"m-1","session_id":"s-1","message":{"role":"user","content":"go"}}`)
	if m := k.Last(api.DialogueEventMessage).Message; m.State != "started" {
		t.Errorf("after the echo it is %s", m.State)
	}
	k.Says(`{"type":"result","subtype":"success"}`)
	if turn := k.Last(api.DialogueEventTurnEnded).Turn; k.Last(api.DialogueEventMessage).Message.State != "done" || strings.Join(turn.Messages, " ") != "m-1" {
		t.Errorf("events %s", agenttest.Show(k.Events))
	}
	if n := k.Count(api.DialogueEventItem); n != 1 {
		t.Errorf("the echo made another item: %d", n)
	}
}

// The list of background tasks is complete: a task that is not on it has ended.
func TestBackgroundList(t *testing.T) {
	k := ready(t)
	k.Says(`{"type":"system","subtype":"task_started","task_id":"a","task_type":"local_agent","is_backgrounded":true}`,
		`{"type":"system","subtype":"task_started","task_id":"b","task_type":"local_bash","is_backgrounded":false}`,
		`{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b"}]}`)
	tasks := k.Tree.Result().Tasks
	if len(tasks) != 2 || tasks[0].Status != "lost" || tasks[1].Status != "running" || !tasks[1].Background {
		t.Errorf("tasks %s", agenttest.Show(tasks))
	}
	k.Says(`{"type":"system","subtype":"task_notification","task_id":"a","status":"failed","summary":"broken"}`)
	if task := k.Last(api.DialogueEventTask).Task; task.Status != "failed" || task.Summary != "broken" {
		t.Errorf("task %s", agenttest.Show(task))
	}
}

// A task that ended turns ago may continue; then it can be stopped again.
func TestTaskTakenUp(t *testing.T) {
	started := `{"type":"system","subtype":"task_started","task_id":"a","task_type":"local_agent","is_backgrounded":true}`
	k := ready(t)
	k.Says(`{"type":"system","subtype":"init"}`, started, `{"type":"system","subtype":"task_notification","task_id":"a","status":"completed"}`, `{"type":"result","subtype":"success"}`)
	for _, uuid := range []string{"u-1", "u-2"} {
		k.Says(`{"type":"system","subtype":"init","uuid":"`+uuid+`"}`, `{"type":"result","subtype":"success","uuid":"`+uuid+`"}`)
	}
	k.Do(agent.Call{ID: "c-1", Interrupt: &agent.Interrupt{All: true}})
	if s := k.LastWrite(); !strings.Contains(s, `"interrupt"`) {
		t.Errorf("nothing runs, but the last line is %s", s)
	}
	k.Says(`{"type":"system","subtype":"init","uuid":"u-3"}`, strings.Replace(started, `{`, `{"uuid":"u-4",`, 1))
	k.Do(agent.Call{ID: "c-2", Interrupt: &agent.Interrupt{All: true}})
	if s := k.LastWrite(); !strings.Contains(s, `"stop_task"`) || !strings.Contains(s, `"a"`) {
		t.Errorf("the task runs, but the last line is %s", s)
	}
}

// Pieces of several blocks are separate, even if a version gives them the same uuid.
func TestPiecesOfOneID(t *testing.T) {
	piece := func(event string) string {
		return `{"type":"stream_event","uuid":"u-1","session_id":"s-1","event":` + event + `}`
	}
	k := ready(t)
	k.Says(piece(`{"type":"message_start","message":{"id":"msg-1"}}`),
		piece(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		piece(`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`))
	one, two := piece(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"one"}}`), piece(`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"two"}}`)
	k.Says(one, two, one, two)
	if items := k.Tree.Result().Items; len(items) != 2 || items[0].Parts[0].Text != "one" || items[1].Parts[0].Text != "two" {
		t.Errorf("items %s", agenttest.Show(items))
	}
}

// A late piece or a repeated start retracts no finished item.
func TestPiecesOutOfOrder(t *testing.T) {
	began := `{"type":"stream_event","event":{"type":"message_start","message":{"id":"msg-1"}}}`
	piece := func(uuid, index, block string) string {
		return `{"type":"stream_event","uuid":"` + uuid + `","session_id":"s-1","event":{"type":"content_block_start","index":` + index + `,"content_block":` + block + `}}`
	}
	const call, text = `{"type":"tool_use","id":"t-1","name":"Bash","input":{}}`, `{"type":"text","text":""}`
	result := `{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t-1","content":"x"}]}}`

	k := ready(t)
	k.Says(`{"type":"assistant","message":{"id":"msg-0","content":[`+call+`]}}`, result, `{"type":"result","subtype":"success"}`, began, piece("u-1", "0", call), `{"type":"result","subtype":"success"}`)
	if items := k.Tree.Result().Items; len(items) != 1 || items[0].Tool.Status != "completed" {
		t.Errorf("a call of an earlier turn: %s", agenttest.Show(items))
	}

	k = ready(t)
	k.Says(began, piece("u-1", "0", call), piece("u-2", "1", text), result, piece("u-3", "2", text), `{"type":"result","subtype":"success"}`)
	if got := strings.Join(k.Last(api.DialogueEventRetracted).Retracted, " "); got != "i1.2" {
		t.Errorf("retracted %q", got)
	}

	k = ready(t)
	k.Says(began, piece("u-1", "0", text), `{"type":"assistant","parent_tool_use_id":"t-9","message":{"id":"msg-1","content":[{"type":"text","text":"whole"}]}}`, `{"type":"result","subtype":"success"}`)
	if items := k.Tree.Result().Items; len(items) != 1 || items[0].Parts[0].Text != "whole" {
		t.Errorf("a message of another scope with the same id: %s", agenttest.Show(items))
	}
}
