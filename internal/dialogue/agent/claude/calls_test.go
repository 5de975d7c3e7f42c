package claude_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
	"github.com/trl-dev/trl/internal/dialogue/agent/claude"
)

// ready is a talk with a program that has answered the first step.
func ready(t testing.TB) *agenttest.Talk {
	t.Helper()
	k := agenttest.NewTalk(t, claude.Agent{}, agent.Options{})
	k.Hear([]byte(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{"claude_code_version":"2.1.325","current_permission_mode":"default"}}}`))
	if !k.Ready {
		t.Fatal("not ready after the answer to initialize")
	}
	return k
}

func TestCommand(t *testing.T) {
	a := claude.Agent{}
	argv, env, err := a.Command(agent.Options{})
	if err != nil || argv[0] != "claude" || env["CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"] != "1" {
		t.Fatalf("%q %v %v", argv, env, err)
	}
	for _, flag := range argv[1:] {
		// An old version exits at an unknown flag.
		if strings.HasPrefix(flag, "-") && !slices.Contains([]string{"-p", "--input-format", "--output-format", "--verbose", "--permission-prompt-tool", "--include-partial-messages", "--replay-user-messages"}, flag) {
			t.Errorf("flag %s is not known to be in old versions", flag)
		}
	}
	own := []string{"/opt/claude", "--add-dir", "/srv"}
	argv, _, _ = a.Command(agent.Options{Argv: own, Model: "opus", PermissionMode: "plan", Resume: "s-1"})
	if got := strings.Join(argv, " "); !strings.HasPrefix(got, "/opt/claude --add-dir /srv -p ") || !strings.HasSuffix(got, " --model opus --permission-mode plan --resume s-1") {
		t.Errorf("argv %q", argv)
	}
	if len(own) != 3 {
		t.Error("the caller's argv was changed")
	}
}

func TestStart(t *testing.T) {
	k := agenttest.NewTalk(t, claude.Agent{}, agent.Options{})
	if len(k.Wrote) != 2 || k.Ready {
		t.Fatalf("wrote %q, ready %v", k.Wrote, k.Ready)
	}
	agenttest.WantJSON(t, string(k.Wrote[0]), `{"type":"control_request","request_id":"trl-1","request":{"subtype":"initialize","forwardSubagentText":true,"perTaskStopAffordance":true}}`)
	// Answers come in any order, and an old version does not know its own version.
	k.Says(`{"type":"control_response","response":{"subtype":"error","request_id":"trl-2","error":"Unsupported control request subtype: get_binary_version"}}`)
	if k.Ready || k.Failed != "" {
		t.Errorf("ready %v, failed %q", k.Ready, k.Failed)
	}
	k.Says(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{"claude_code_version":"2.1.325"}}}`)
	if o := k.Last(api.DialogueEventOpened).Opened; !k.Ready || o.Agent != "claude" || o.Version != "2.1.325" || k.Last(api.DialogueEventState).State != api.DialogueIdle {
		t.Errorf("ready %v, events %s", k.Ready, agenttest.Show(k.Events))
	}

	k = agenttest.NewTalk(t, claude.Agent{}, agent.Options{})
	k.Says(`{"type":"control_response","response":{"subtype":"error","request_id":"trl-1","error":"no"}}`)
	if k.Ready || k.Failed != "initialize: no" {
		t.Errorf("ready %v, failed %q", k.Ready, k.Failed)
	}
	k = agenttest.NewTalk(t, claude.Agent{}, agent.Options{Resume: "s-0"})
	k.Says(`{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found with session ID: s-0"]}`)
	if k.Failed != "No conversation found with session ID: s-0" || k.Count(api.DialogueEventTurnStarted) != 0 {
		t.Errorf("failed %q, events %s", k.Failed, agenttest.Show(k.Events))
	}
}

func TestSend(t *testing.T) {
	k := ready(t)
	k.Do(agent.Call{ID: "c", Send: &agent.Message{ID: "m-1", Content: []api.DialogueContent{
		{Type: "text", Text: "look"}, {Type: "image", MediaType: "image/png", DataBase64: "aGk="},
	}}})
	agenttest.WantJSON(t, k.LastWrite(), `{"type":"user","uuid":"m-1","session_id":"","parent_tool_use_id":null,"message":{"role":"user","content":[
		{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}}`)
	if it := k.Last(api.DialogueEventItem).Item; it.ItemID != "m-1" || it.Kind != "user" || len(it.Parts) != 2 || k.Last(api.DialogueEventMessage).Message.State != "sent" {
		t.Errorf("events %s", agenttest.Show(k.Events))
	}
	if err, ok := k.Answers["c"]; !ok || err != nil {
		t.Errorf("answer %v %v", err, ok)
	}
	k.Send("m-1", "again")
	if err := k.Answers["send-m-1"]; err == nil || err.Code != api.CodeConflict {
		t.Errorf("a message that was sent before: %v", err)
	}
}

// The agent is running from the moment a message is sent, in any order of the program's reports
// on the message.
func TestStateAfterSend(t *testing.T) {
	busy := []string{
		`{"type":"system","subtype":"session_state_changed","state":"running"}`,
		`{"type":"command_lifecycle","command_uuid":"m-1","state":"queued"}`,
		`{"type":"command_lifecycle","command_uuid":"m-1","state":"started"}`,
		`{"type":"system","subtype":"init","cwd":"/w","model":"m"}`,
	}
	done := []string{
		`{"type":"result","subtype":"success","result":"ok"}`,
		`{"type":"command_lifecycle","command_uuid":"m-1","state":"completed"}`,
		`{"type":"system","subtype":"session_state_changed","state":"idle"}`,
	}
	for name, order := range map[string][]int{"as the program does": {0, 1, 2, 3}, "queued first": {1, 0, 2, 3}, "state last": {1, 2, 3, 0}} {
		k := ready(t)
		k.Says(`{"type":"system","subtype":"session_state_changed","state":"idle"}`)
		k.Send("m-1", "go")
		for _, i := range order {
			k.Says(busy[i])
		}
		if n := k.Count(api.DialogueEventState); n != 2 || k.Last(api.DialogueEventState).State != api.DialogueRunning {
			t.Errorf("%s: %s", name, agenttest.Show(k.Events))
		}
		k.Says(done...)
		if n := k.Count(api.DialogueEventState); n != 3 || k.Last(api.DialogueEventState).State != api.DialogueIdle {
			t.Errorf("%s, then: %s", name, agenttest.Show(k.Events))
		}
	}
	// A message that is cancelled before it started leaves the agent idle.
	k := ready(t)
	k.Send("m-1", "go")
	k.Says(`{"type":"command_lifecycle","command_uuid":"m-1","state":"cancelled"}`)
	if k.Last(api.DialogueEventState).State != api.DialogueIdle || k.Last(api.DialogueEventMessage).Message.State != "cancelled" {
		t.Errorf("taken back: %s", agenttest.Show(k.Events))
	}
}

// A background subagent keeps the agent running, and a background command does not. The end of
// either starts a turn. Old versions report that they are idle all the time.
func TestDerivedState(t *testing.T) {
	for kind, want := range map[string]api.DialogueState{"local_agent": api.DialogueRunning, "local_bash": api.DialogueIdle} {
		for _, word := range []string{"", `{"type":"system","subtype":"session_state_changed","state":"idle"}`} {
			k := ready(t)
			k.Says(`{"type":"system","subtype":"init"}`,
				`{"type":"system","subtype":"task_started","task_id":"a","task_type":"`+kind+`","is_backgrounded":true}`,
				`{"type":"result","subtype":"success"}`)
			if word != "" {
				k.Says(word)
			}
			if got, n := k.Last(api.DialogueEventState).State, k.Tracker.Background(); got != want || n != 1 {
				t.Errorf("%s %s: %s after the turn, %d in the background", kind, word, got, n)
			}
			k.Says(`{"type":"system","subtype":"task_notification","task_id":"a","status":"completed"}`)
			if got, n := k.Last(api.DialogueEventState).State, k.Tracker.Background(); got != api.DialogueRunning || n != 0 {
				t.Errorf("%s %s: %s after the task, %d in the background", kind, word, got, n)
			}
			k.Says(`{"type":"system","subtype":"init"}`, `{"type":"result","subtype":"success"}`)
			if got := k.Last(api.DialogueEventState).State; got != api.DialogueIdle {
				t.Errorf("%s %s: %s after the report", kind, word, got)
			}
		}
	}
	// There is no turn for stopped tasks.
	for kind := range map[string]bool{"local_agent": true, "local_bash": true} {
		k := ready(t)
		k.Says(`{"type":"system","subtype":"init"}`,
			`{"type":"system","subtype":"task_started","task_id":"a","task_type":"`+kind+`","is_backgrounded":true}`,
			`{"type":"result","subtype":"success"}`)
		k.Says(`{"type":"system","subtype":"task_notification","task_id":"a","status":"stopped"}`)
		if got := k.Last(api.DialogueEventState).State; got != api.DialogueIdle {
			t.Errorf("%s: %s after the task", kind, got)
		}
	}
}

func TestInterrupt(t *testing.T) {
	k := ready(t)
	k.Says(`{"type":"system","subtype":"init"}`,
		`{"type":"system","subtype":"task_started","task_id":"a","task_type":"local_agent","is_backgrounded":true}`,
		`{"type":"system","subtype":"task_started","task_id":"b","task_type":"local_bash","is_backgrounded":false}`)
	k.Do(agent.Call{ID: "one", Interrupt: &agent.Interrupt{}})
	agenttest.WantJSON(t, k.LastWrite(), `{"type":"control_request","request_id":"trl-3","request":{"subtype":"interrupt"}}`)
	if _, ok := k.Answers["one"]; ok {
		t.Error("answered before the program did")
	}
	k.Says(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-3","response":{"still_queued":[]}}}`)
	if err, ok := k.Answers["one"]; !ok || err != nil {
		t.Errorf("answer %v %v", err, ok)
	}

	k.Do(agent.Call{ID: "all", Interrupt: &agent.Interrupt{All: true}})
	agenttest.WantJSON(t, string(k.Wrote[len(k.Wrote)-2]), `{"type":"control_request","request_id":"trl-4","request":{"subtype":"interrupt","cancel_queued":true}}`)
	agenttest.WantJSON(t, k.LastWrite(), `{"type":"control_request","request_id":"trl-5","request":{"subtype":"stop_task","task_id":"a"}}`)
	k.Says(`{"type":"control_response","response":{"subtype":"error","request_id":"trl-4","error":"not now"}}`, `{"type":"result","subtype":"success"}`)
	if err := k.Answers["all"]; err == nil || err.Code != api.CodeAgentFailed || err.Message != "interrupt: claude: not now" {
		t.Errorf("answer %v", err)
	}
	// The program reports the stopped tasks to the model; that turn is interrupted.
	before := len(k.Wrote)
	k.Says(`{"type":"system","subtype":"init"}`)
	if len(k.Wrote) != before+1 || !strings.Contains(k.LastWrite(), `"subtype":"interrupt"`) {
		t.Errorf("wrote %q", k.Wrote[before:])
	}
	k.Says(`{"type":"result","subtype":"success"}`)
	k.Send("m-1", "go on")
	before = len(k.Wrote)
	k.Says(`{"type":"command_lifecycle","command_uuid":"m-1","state":"started"}`, `{"type":"system","subtype":"init"}`)
	if len(k.Wrote) != before || k.Last(api.DialogueEventTurnStarted).Turn.Trigger != "user" {
		t.Errorf("wrote %q", k.Wrote[before:])
	}
}

// TestUnsend: the program decides whether a message can be taken back.
func TestUnsend(t *testing.T) {
	k := ready(t)
	k.Send("m-1", "one")
	k.Send("m-2", "two")
	k.Send("m-3", "three")
	unsend := func(message, answer string) *api.Error {
		t.Helper()
		k.Do(agent.Call{ID: "u-" + message, Unsend: &agent.Unsend{MessageID: message}})
		var w struct {
			RequestID string `json:"request_id"`
		}
		if err := json.Unmarshal([]byte(k.LastWrite()), &w); err != nil {
			t.Fatal(err)
		}
		agenttest.WantJSON(t, k.LastWrite(), `{"type":"control_request","request_id":"`+w.RequestID+`","request":{"subtype":"cancel_async_message","message_uuid":"`+message+`"}}`)
		k.Says(strings.ReplaceAll(answer, "ID", w.RequestID))
		return k.Answers["u-"+message]
	}
	const done = `{"type":"control_response","response":{"subtype":"success","request_id":"ID","response":{"cancelled":`
	if err := unsend("m-1", done+`false}}}`); err == nil || err.Code != api.CodeConflict {
		t.Errorf("a message that has started: %v", err)
	}
	if err := unsend("m-2", done+`true}}}`); err != nil || k.Last(api.DialogueEventMessage).Message.State != "cancelled" {
		t.Errorf("a queued message: %v", err)
	}
	if err := unsend("m-3", `{"type":"control_response","response":{"subtype":"error","request_id":"ID","error":"not supported"}}`); err == nil || !strings.Contains(err.Message, "not supported") {
		t.Errorf("an old program: %v", err)
	}
	before := len(k.Events)
	k.Says(`{"type":"command_lifecycle","command_uuid":"m-2","state":"cancelled"}`)
	if len(k.Events) != before {
		t.Errorf("cancelled twice: %s", agenttest.Show(k.Events[before:]))
	}
	k.Do(agent.Call{ID: "again", Unsend: &agent.Unsend{MessageID: "m-2"}})
	if err := k.Answers["again"]; err == nil || err.Code != api.CodeConflict {
		t.Errorf("again: %v", err)
	}
}

func TestSet(t *testing.T) {
	k := ready(t)
	k.Do(agent.Call{ID: "s", Set: &agent.Setting{Model: "opus", PermissionMode: "nonsense"}})
	k.Says(`{"type":"control_response","response":{"subtype":"error","request_id":"trl-4","error":"Cannot set permission mode"}}`)
	if _, ok := k.Answers["s"]; ok {
		t.Error("answered before both were")
	}
	k.Says(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-3","response":{"model":"claude-opus-5-5"}}}`)
	if err := k.Answers["s"]; err == nil || err.Code != api.CodeInvalidParams || k.Last(api.DialogueEventOpened).Opened.Model != "claude-opus-5-5" {
		t.Errorf("answer %v, events %s", err, agenttest.Show(k.Events))
	}
}

// The answers are the same as those of the recorded host.
func TestAnswersAsRecorded(t *testing.T) {
	answers := 0
	for _, r := range agenttest.Recordings(t, ".") {
		k := agenttest.NewTalk(t, claude.Agent{}, optionsOf(r))
		k.Play(movesOf(t, r))
		var wrote []string
		for _, line := range k.Wrote {
			wrote = append(wrote, normalised(t, line))
		}
		for _, in := range r.In {
			var w written
			if err := json.Unmarshal(in.Line, &w); err != nil {
				t.Fatal(err)
			}
			if w.Type != "control_response" || w.Response.Response.Behavior == "" || w.Response.Response.Message == "late" {
				continue
			}
			answers++
			if !slices.Contains(wrote, normalised(t, in.Line)) {
				t.Errorf("%s: the host wrote %s; we wrote\n%s", r.Name, in.Line, strings.Join(wrote, "\n"))
			}
		}
	}
	if answers < 8 {
		t.Errorf("only %d answers were compared", answers)
	}
}

// normalised is a line with sorted keys, without fields that may be absent.
func normalised(t *testing.T, line []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(line, &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), `,"interrupt":false`, "")
}

// The answer of the program is published, even that of an old version, which has no facts.
func TestReadyTold(t *testing.T) {
	k := agenttest.NewTalk(t, claude.Agent{}, agent.Options{Resume: "s-1"})
	k.Says(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{}}}`)
	if o := k.Last(api.DialogueEventOpened).Opened; !k.Ready || o.Agent != "claude" || o.Version != "" {
		t.Errorf("ready %v, told %s", k.Ready, agenttest.Show(o))
	}
}
