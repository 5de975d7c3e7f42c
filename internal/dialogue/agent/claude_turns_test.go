package agent_test

import (
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// What was being written and will not be finished is taken back, at once: when the model
// is called again, when it begins anew, and when the turn is over.
func TestClaudePartialsTakenBack(t *testing.T) {
	for name, line := range map[string]string{
		"retry":  `{"type":"system","subtype":"api_retry","attempt":1,"max_retries":3,"retry_delay_ms":500.5,"error_status":529,"error":"overloaded"}`,
		"anew":   `{"type":"stream_event","event":{"type":"message_start","message":{"id":"msg-2"}}}`,
		"result": `{"type":"result","subtype":"success"}`,
	} {
		k := claudeReady(t)
		k.says(`{"type":"stream_event","event":{"type":"message_start","message":{"id":"msg-1"}}}`,
			`{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}}`,
			`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}}`,
			`{"type":"assistant","message":{"id":"msg-1","content":[{"type":"thinking","thinking":"hm"}]}}`,
			`{"type":"stream_event","event":{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}}`,
			`{"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"half"}}}`,
			`{"type":"stream_event","event":{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t-1","name":"Bash","input":{}}}}`)
		if d := k.last(api.ToldDelta).Delta; d.ItemID != "msg-1/1" || d.Field != "text" || d.Text != "half" {
			t.Errorf("%s: delta %s", name, show(d))
		}
		k.says(line)
		if got := strings.Join(k.last(api.ToldRetracted).Retracted, " "); got != "msg-1/1 t-1" || k.count(api.ToldRetracted) != 1 {
			t.Errorf("%s: retracted %q", name, got)
		}
		if items := k.tree.Result().Items; len(items) != 1 || items[0].ItemID != "msg-1/0" || items[0].Kind != "reasoning" {
			t.Errorf("%s: left are %s", name, show(items))
		}
		if name == "retry" {
			if r := k.last(api.ToldRetry).Retry; r.Attempt != 1 || r.Most != 3 || r.DelayMS != 500 || r.Cause != "overloaded (HTTP 529)" {
				t.Errorf("retry %s", show(r))
			}
		}
	}
}

func TestClaudeOutcomes(t *testing.T) {
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
		k := claudeReady(t)
		k.says(`{"type":"system","subtype":"init"}`)
		k.says(tc.lines...)
		if turn := k.last(api.ToldTurnEnded).Turn; turn.TurnID != "t1.1" || turn.Outcome != tc.outcome || turn.Native != tc.native || turn.Text != tc.text {
			t.Errorf("%s: %s", name, show(turn))
		}
	}
}

// A request is settled with its tool call, whatever settled that, and at the latest with
// its turn; one of a subagent in the background outlives the turn.
func TestClaudeRequestsSettled(t *testing.T) {
	ask := func(id, tool, task string) string {
		return `{"type":"control_request","request_id":"` + id + `","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{},"tool_use_id":"` + tool + `","agent_id":"` + task + `"}}`
	}
	k := claudeReady(t)
	k.says(`{"type":"system","subtype":"init"}`, ask("r-1", "t-1", ""), ask("r-2", "", ""), ask("r-3", "t-3", "a-1"))
	k.says(`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t-1","is_error":true,"content":"AbortError"}]}}`)
	if n := k.count(api.ToldRequestClosed); n != 1 || k.last(api.ToldRequestClosed).Request.RequestID != "r-1" {
		t.Errorf("%d were closed with the tool call", n)
	}
	k.says(`{"type":"result","subtype":"success"}`)
	if n := k.count(api.ToldRequestClosed); n != 2 || k.last(api.ToldRequestClosed).Request.RequestID != "r-2" {
		t.Errorf("%d were closed with the turn", n)
	}
	if waiting := k.tracker.Pending(); len(waiting) != 1 || waiting[0].RequestID != "r-3" {
		t.Errorf("waiting: %s", show(waiting))
	}
}

// A message that comes while the agent works is taken into the turn.
func TestClaudeMessagesOfTurns(t *testing.T) {
	k := claudeReady(t)
	k.send("m-1", "go")
	k.says(`{"type":"command_lifecycle","command_uuid":"m-1","state":"queued"}`, `{"type":"command_lifecycle","command_uuid":"m-1","state":"started"}`, `{"type":"system","subtype":"init"}`)
	k.send("m-2", "also")
	k.says(`{"type":"command_lifecycle","command_uuid":"m-2","state":"queued"}`, `{"type":"command_lifecycle","command_uuid":"m-2","state":"started"}`)
	k.send("m-3", "later")
	k.says(`{"type":"command_lifecycle","command_uuid":"m-3","state":"queued"}`, `{"type":"result","subtype":"success"}`)
	if turn := k.last(api.ToldTurnEnded).Turn; strings.Join(turn.Messages, " ") != "m-1 m-2" {
		t.Errorf("the turn answers %q", turn.Messages)
	}
	k.says(`{"type":"command_lifecycle","command_uuid":"m-3","state":"started"}`, `{"type":"system","subtype":"init"}`)
	if turn := k.last(api.ToldTurnStarted).Turn; turn.TurnID != "t1.2" || turn.Trigger != "user" || strings.Join(turn.Messages, " ") != "m-3" {
		t.Errorf("the next turn is %s", show(turn))
	}

	// An old version only echoes what it has begun with.
	k = claudeReady(t)
	k.send("m-1", "go")
	k.says(`{"type":"system","subtype":"init"}`, `{"type":"user","isReplay":true,"uuid":"m-1","session_id":"s-1","message":{"role":"user","content":"go"}}`)
	if m := k.last(api.ToldMessage).Message; m.State != "started" {
		t.Errorf("after the echo it is %s", m.State)
	}
	k.says(`{"type":"result","subtype":"success"}`)
	if turn := k.last(api.ToldTurnEnded).Turn; k.last(api.ToldMessage).Message.State != "done" || strings.Join(turn.Messages, " ") != "m-1" {
		t.Errorf("events %s", show(k.events))
	}
	if n := k.count(api.ToldItem); n != 1 {
		t.Errorf("the echo made another item: %d", n)
	}
}

// The list of what runs in the background is complete: what is not on it is gone.
func TestClaudeBackgroundList(t *testing.T) {
	k := claudeReady(t)
	k.says(`{"type":"system","subtype":"task_started","task_id":"a","task_type":"local_agent","is_backgrounded":true}`,
		`{"type":"system","subtype":"task_started","task_id":"b","task_type":"local_bash","is_backgrounded":false}`,
		`{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b"}]}`)
	tasks := k.tree.Result().Tasks
	if len(tasks) != 2 || tasks[0].Status != "lost" || tasks[1].Status != "running" || !tasks[1].Background {
		t.Errorf("tasks %s", show(tasks))
	}
	k.says(`{"type":"system","subtype":"task_notification","task_id":"a","status":"failed","summary":"broken"}`)
	if task := k.last(api.ToldTask).Task; task.Status != "failed" || task.Summary != "broken" {
		t.Errorf("task %s", show(task))
	}
}

// A task that ended turns ago may be taken up again; then it can be stopped again, too.
func TestClaudeTaskTakenUp(t *testing.T) {
	started := `{"type":"system","subtype":"task_started","task_id":"a","task_type":"local_agent","is_backgrounded":true}`
	k := claudeReady(t)
	k.says(`{"type":"system","subtype":"init"}`, started, `{"type":"system","subtype":"task_notification","task_id":"a","status":"completed"}`, `{"type":"result","subtype":"success"}`)
	for _, uuid := range []string{"u-1", "u-2"} {
		k.says(`{"type":"system","subtype":"init","uuid":"`+uuid+`"}`, `{"type":"result","subtype":"success","uuid":"`+uuid+`"}`)
	}
	k.do(agent.Call{ID: "c-1", Interrupt: &agent.Interrupt{All: true}})
	if s := k.sent(); !strings.Contains(s, `"interrupt"`) {
		t.Errorf("nothing runs, but the last line is %s", s)
	}
	k.says(`{"type":"system","subtype":"init","uuid":"u-3"}`, strings.Replace(started, `{`, `{"uuid":"u-4",`, 1))
	k.do(agent.Call{ID: "c-2", Interrupt: &agent.Interrupt{All: true}})
	if s := k.sent(); !strings.Contains(s, `"stop_task"`) || !strings.Contains(s, `"a"`) {
		t.Errorf("the task runs, but the last line is %s", s)
	}
}
