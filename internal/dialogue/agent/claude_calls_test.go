package agent_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// ready is a talk with a program that has answered.
func claudeReady(t testing.TB) *talk {
	t.Helper()
	k := newTalk(t, "claude", agent.Options{})
	k.hear([]byte(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{"claude_code_version":"2.1.325","current_permission_mode":"default"}}}`))
	if !k.ready {
		t.Fatal("not ready after the answer to initialize")
	}
	return k
}

// says gives lines to the protocol; each gets an id of its own, unless it has one.
func (k *talk) says(lines ...string) {
	k.t.Helper()
	for _, line := range lines {
		if !strings.Contains(line, `"uuid"`) && !strings.Contains(line, `"control_`) {
			line = fmt.Sprintf(`{"uuid":"u-%d","session_id":"s-1",%s`, len(k.events)*1000+len(line), line[1:])
		}
		k.hear([]byte(line))
	}
}

// last is the last event of a type.
func (k *talk) last(kind api.DialogueEventType) api.DialogueEvent {
	k.t.Helper()
	for _, ev := range slices.Backward(k.events) {
		if ev.Type == kind {
			return ev
		}
	}
	k.t.Fatalf("no event %s in %s", kind, show(k.events))
	return api.DialogueEvent{}
}

func (k *talk) count(kind api.DialogueEventType) (n int) {
	for _, ev := range k.events {
		if ev.Type == kind {
			n++
		}
	}
	return n
}

// sent is the last line for the program.
func (k *talk) sent() string {
	k.t.Helper()
	if len(k.wrote) == 0 {
		k.t.Fatal("nothing was written")
	}
	return strings.TrimSuffix(string(k.wrote[len(k.wrote)-1]), "\n")
}

func (k *talk) send(id, text string) {
	k.do(agent.Call{ID: "send-" + id, Send: &agent.Message{ID: id, Content: []api.DialogueContent{{Type: "text", Text: text}}}})
}

func (k *talk) respond(p api.DialogueRespondParams) *api.Error {
	k.t.Helper()
	id := fmt.Sprintf("respond-%d", len(k.answers))
	k.do(agent.Call{ID: id, Respond: &agent.Response{DialogueRespondParams: p, By: "client"}})
	err, answered := k.answers[id]
	if !answered {
		k.t.Fatal("respond was not answered at once")
	}
	return err
}

func wantJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%q: %v", got, err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%q: %v", want, err)
	}
	if show(g) != show(w) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestClaudeCommand(t *testing.T) {
	a, _ := agent.Find("claude")
	argv, env, err := a.Command(agent.Options{})
	if err != nil || argv[0] != "claude" || env["CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"] != "1" {
		t.Fatalf("%q %v %v", argv, env, err)
	}
	for _, flag := range argv[1:] {
		// An old version ends itself at a flag that it does not know.
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

func TestClaudeStart(t *testing.T) {
	k := newTalk(t, "claude", agent.Options{})
	if len(k.wrote) != 2 || k.ready {
		t.Fatalf("wrote %q, ready %v", k.wrote, k.ready)
	}
	wantJSON(t, string(k.wrote[0]), `{"type":"control_request","request_id":"trl-1","request":{"subtype":"initialize","forwardSubagentText":true,"perTaskStopAffordance":true}}`)
	// Answers come in any order, and an old version does not know its own version.
	k.says(`{"type":"control_response","response":{"subtype":"error","request_id":"trl-2","error":"Unsupported control request subtype: get_binary_version"}}`)
	if k.ready || k.failed != "" {
		t.Errorf("ready %v, failed %q", k.ready, k.failed)
	}
	k.says(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{"claude_code_version":"2.1.325"}}}`)
	if o := k.last(api.DialogueEventOpened).Opened; !k.ready || o.Agent != "claude" || o.Version != "2.1.325" || k.last(api.DialogueEventState).State != api.DialogueIdle {
		t.Errorf("ready %v, events %s", k.ready, show(k.events))
	}

	k = newTalk(t, "claude", agent.Options{})
	k.says(`{"type":"control_response","response":{"subtype":"error","request_id":"trl-1","error":"no"}}`)
	if k.ready || k.failed != "initialize: no" {
		t.Errorf("ready %v, failed %q", k.ready, k.failed)
	}
	k = newTalk(t, "claude", agent.Options{Resume: "s-0"})
	k.says(`{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found with session ID: s-0"]}`)
	if k.failed != "No conversation found with session ID: s-0" || k.count(api.DialogueEventTurnStarted) != 0 {
		t.Errorf("failed %q, events %s", k.failed, show(k.events))
	}
}

func TestClaudeSend(t *testing.T) {
	k := claudeReady(t)
	k.do(agent.Call{ID: "c", Send: &agent.Message{ID: "m-1", Content: []api.DialogueContent{
		{Type: "text", Text: "look"}, {Type: "image", MediaType: "image/png", DataBase64: "aGk="},
	}}})
	wantJSON(t, k.sent(), `{"type":"user","uuid":"m-1","session_id":"","parent_tool_use_id":null,"message":{"role":"user","content":[
		{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}}`)
	if it := k.last(api.DialogueEventItem).Item; it.ItemID != "m-1" || it.Kind != "user" || len(it.Parts) != 2 || k.last(api.DialogueEventMessage).Message.State != "sent" {
		t.Errorf("events %s", show(k.events))
	}
	if err, ok := k.answers["c"]; !ok || err != nil {
		t.Errorf("answer %v %v", err, ok)
	}
	k.send("m-1", "again")
	if err := k.answers["send-m-1"]; err == nil || err.Code != api.CodeConflict {
		t.Errorf("a message that was sent before: %v", err)
	}
}

// A message makes the agent work from the moment it is sent, in whatever order the program
// tells what becomes of it.
func TestClaudeStateAfterSend(t *testing.T) {
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
		k := claudeReady(t)
		k.says(`{"type":"system","subtype":"session_state_changed","state":"idle"}`)
		k.send("m-1", "go")
		for _, i := range order {
			k.says(busy[i])
		}
		if n := k.count(api.DialogueEventState); n != 2 || k.last(api.DialogueEventState).State != api.DialogueRunning {
			t.Errorf("%s: %s", name, show(k.events))
		}
		k.says(done...)
		if n := k.count(api.DialogueEventState); n != 3 || k.last(api.DialogueEventState).State != api.DialogueIdle {
			t.Errorf("%s, then: %s", name, show(k.events))
		}
	}
	// One that was taken back before it began leaves the agent at rest.
	k := claudeReady(t)
	k.send("m-1", "go")
	k.says(`{"type":"command_lifecycle","command_uuid":"m-1","state":"cancelled"}`)
	if k.last(api.DialogueEventState).State != api.DialogueIdle || k.last(api.DialogueEventMessage).Message.State != "cancelled" {
		t.Errorf("taken back: %s", show(k.events))
	}
}

// A subagent in the background keeps the agent at work, and a command does not; with the
// end of either there is more to come. Old versions call themselves idle all the while.
func TestClaudeDerivedState(t *testing.T) {
	for kind, want := range map[string]api.DialogueState{"local_agent": api.DialogueRunning, "local_bash": api.DialogueIdle} {
		for _, word := range []string{"", `{"type":"system","subtype":"session_state_changed","state":"idle"}`} {
			k := claudeReady(t)
			k.says(`{"type":"system","subtype":"init"}`,
				`{"type":"system","subtype":"task_started","task_id":"a","task_type":"`+kind+`","is_backgrounded":true}`,
				`{"type":"result","subtype":"success"}`)
			if word != "" {
				k.says(word)
			}
			if got, n := k.last(api.DialogueEventState).State, k.tracker.Background(); got != want || n != 1 {
				t.Errorf("%s %s: %s after the turn, %d in the background", kind, word, got, n)
			}
			k.says(`{"type":"system","subtype":"task_notification","task_id":"a","status":"completed"}`)
			if got, n := k.last(api.DialogueEventState).State, k.tracker.Background(); got != api.DialogueRunning || n != 0 {
				t.Errorf("%s %s: %s after the task, %d in the background", kind, word, got, n)
			}
			k.says(`{"type":"system","subtype":"init"}`, `{"type":"result","subtype":"success"}`)
			if got := k.last(api.DialogueEventState).State; got != api.DialogueIdle {
				t.Errorf("%s %s: %s after the report", kind, word, got)
			}
		}
	}
	// What was stopped is not reported.
	for kind := range map[string]bool{"local_agent": true, "local_bash": true} {
		k := claudeReady(t)
		k.says(`{"type":"system","subtype":"init"}`,
			`{"type":"system","subtype":"task_started","task_id":"a","task_type":"`+kind+`","is_backgrounded":true}`,
			`{"type":"result","subtype":"success"}`)
		k.says(`{"type":"system","subtype":"task_notification","task_id":"a","status":"stopped"}`)
		if got := k.last(api.DialogueEventState).State; got != api.DialogueIdle {
			t.Errorf("%s: %s after the task", kind, got)
		}
	}
}

func TestClaudeInterrupt(t *testing.T) {
	k := claudeReady(t)
	k.says(`{"type":"system","subtype":"init"}`,
		`{"type":"system","subtype":"task_started","task_id":"a","task_type":"local_agent","is_backgrounded":true}`,
		`{"type":"system","subtype":"task_started","task_id":"b","task_type":"local_bash","is_backgrounded":false}`)
	k.do(agent.Call{ID: "one", Interrupt: &agent.Interrupt{}})
	wantJSON(t, k.sent(), `{"type":"control_request","request_id":"trl-3","request":{"subtype":"interrupt"}}`)
	if _, ok := k.answers["one"]; ok {
		t.Error("answered before the program did")
	}
	k.says(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-3","response":{"still_queued":[]}}}`)
	if err, ok := k.answers["one"]; !ok || err != nil {
		t.Errorf("answer %v %v", err, ok)
	}

	k.do(agent.Call{ID: "all", Interrupt: &agent.Interrupt{All: true}})
	wantJSON(t, string(k.wrote[len(k.wrote)-2]), `{"type":"control_request","request_id":"trl-4","request":{"subtype":"interrupt","cancel_queued":true}}`)
	wantJSON(t, k.sent(), `{"type":"control_request","request_id":"trl-5","request":{"subtype":"stop_task","task_id":"a"}}`)
	k.says(`{"type":"control_response","response":{"subtype":"error","request_id":"trl-4","error":"not now"}}`, `{"type":"result","subtype":"success"}`)
	if err := k.answers["all"]; err == nil || err.Code != api.CodeAgentFailed || err.Message != "interrupt: claude: not now" {
		t.Errorf("answer %v", err)
	}
	// The program tells the model of what was stopped: nobody wants that turn.
	before := len(k.wrote)
	k.says(`{"type":"system","subtype":"init"}`)
	if len(k.wrote) != before+1 || !strings.Contains(k.sent(), `"subtype":"interrupt"`) {
		t.Errorf("wrote %q", k.wrote[before:])
	}
	k.says(`{"type":"result","subtype":"success"}`)
	k.send("m-1", "go on")
	before = len(k.wrote)
	k.says(`{"type":"command_lifecycle","command_uuid":"m-1","state":"started"}`, `{"type":"system","subtype":"init"}`)
	if len(k.wrote) != before || k.last(api.DialogueEventTurnStarted).Turn.Trigger != "user" {
		t.Errorf("wrote %q", k.wrote[before:])
	}
}

func TestClaudeSet(t *testing.T) {
	k := claudeReady(t)
	k.do(agent.Call{ID: "s", Set: &agent.Setting{Model: "opus", PermissionMode: "nonsense"}})
	k.says(`{"type":"control_response","response":{"subtype":"error","request_id":"trl-4","error":"Cannot set permission mode"}}`)
	if _, ok := k.answers["s"]; ok {
		t.Error("answered before both were")
	}
	k.says(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-3","response":{"model":"claude-opus-5-5"}}}`)
	if err := k.answers["s"]; err == nil || err.Code != api.CodeInvalidParams || k.last(api.DialogueEventOpened).Opened.Model != "claude-opus-5-5" {
		t.Errorf("answer %v, events %s", err, show(k.events))
	}
}

// What is answered is what a host that was recorded answered.
func TestClaudeAnswersAsRecorded(t *testing.T) {
	answers := 0
	for _, r := range recordings(t, "claude") {
		k := newTalk(t, "claude", claudeOptions(r))
		k.play(claudeMoves(t, r))
		var wrote []string
		for _, line := range k.wrote {
			wrote = append(wrote, normalised(t, line))
		}
		for _, in := range r.in {
			var w claudeWritten
			if err := json.Unmarshal(in.Line, &w); err != nil {
				t.Fatal(err)
			}
			if w.Type != "control_response" || w.Response.Response.Behavior == "" || w.Response.Response.Message == "late" {
				continue
			}
			answers++
			if !slices.Contains(wrote, normalised(t, in.Line)) {
				t.Errorf("%s: the host wrote %s; we wrote\n%s", r.name, in.Line, strings.Join(wrote, "\n"))
			}
		}
	}
	if answers < 8 {
		t.Errorf("only %d answers were compared", answers)
	}
}

// normalised is a line with its keys in order, without what may as well be absent.
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

// That the program has answered is told, also of an old one, which says nothing of itself.
func TestClaudeReadyTold(t *testing.T) {
	k := newTalk(t, "claude", agent.Options{Resume: "s-1"})
	k.says(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{}}}`)
	if o := k.last(api.DialogueEventOpened).Opened; !k.ready || o.Agent != "claude" || o.Version != "" {
		t.Errorf("ready %v, told %s", k.ready, show(o))
	}
}
