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

// TestACPRecordings plays what a real program wrote.
func TestACPRecordings(t *testing.T) { replays(t, "acp") }

// TestACPCutAnywhere ends every recording behind every line: what is open can be closed.
func TestACPCutAnywhere(t *testing.T) { cutAnywhere(t, "acp") }

func FuzzACP(f *testing.F) { fuzz(f, "acp", rpcMoves) }

const acpHello = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"a","version":"9"},"agentCapabilities":{"loadSession":true},"authMethods":[{"id":"login","name":"Log in"}]}}`

// acpTalk is a dialogue with an agent that has a session.
func acpTalk(t testing.TB) *talk {
	k := newTalk(t, "acp", agent.Options{WorkingDir: "/w"})
	k.hears(acpHello, `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"S","modes":{"currentModeId":"ask","availableModes":[]}}}`)
	if !k.ready || k.failed != "" {
		t.Fatalf("not ready: %s", k.failed)
	}
	return k
}

func acpTold(update string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"S","update":{` + update + `}}}`
}

func acpChunk(kind, text string) string {
	return acpTold(fmt.Sprintf(`"sessionUpdate":"%s_chunk","content":{"type":"text","text":%q}`, kind, text))
}

const acpAsks = `{"jsonrpc":"2.0","id":"p1","method":"session/request_permission","params":{"sessionId":"S","toolCall":{"toolCallId":"c1","kind":"execute","title":"run","rawInput":{"command":["git","push"]}},` +
	`"options":[{"optionId":"1","name":"Yes","kind":"allow_once"},{"optionId":"2","name":"Always","kind":"allow_always"},{"optionId":"3","name":"No","kind":"reject_once"}]}}`

// TestACPCommand needs a program: there is no default one.
func TestACPCommand(t *testing.T) {
	acp, _ := agent.Find("acp")
	if _, _, err := acp.Command(agent.Options{}); err == nil || !strings.Contains(err.Error(), "argv") {
		t.Errorf("without a program: %v", err)
	}
	if argv, _, err := acp.Command(agent.Options{Argv: []string{"x", "acp"}}); err != nil || !slices.Equal(argv, []string{"x", "acp"}) {
		t.Errorf("argv %q, %v", argv, err)
	}
}

// TestACPDoesNotOpen tries what keeps a conversation from being opened.
func TestACPDoesNotOpen(t *testing.T) {
	resume := agent.Options{Resume: "S0"}
	for name, c := range map[string]struct {
		options agent.Options
		lines   []string
		want    string
	}{
		"refused":    {agent.Options{}, []string{`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":{"details":"no home"}}}`}, "no home"},
		"version 2":  {agent.Options{}, []string{`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}`}, `version "2"`},
		"no version": {agent.Options{}, []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}, "version"},
		"no auth":    {agent.Options{}, []string{acpHello, `{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Authentication required"}}`}, "signed in, which TRL does not do; sign in with its own program first (it offers: Log in)"},
		"no session": {agent.Options{}, []string{acpHello, `{"jsonrpc":"2.0","id":2,"result":{}}`}, "names no session"},
		"no load":    {resume, []string{`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}`}, "cannot go on with an earlier session"},
		"gone":       {resume, []string{acpHello, `{"jsonrpc":"2.0","id":2,"error":{"code":-32002,"message":"Resource not found"}}`}, "acp session/load: Resource not found"},
		"mode":       {agent.Options{PermissionMode: "yolo"}, []string{acpHello, `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"S"}}`, `{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"Invalid mode"}}`}, `acp session/set_mode "yolo": Invalid mode`},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTalk(t, "acp", c.options)
			k.hears(c.lines...)
			if k.ready || !strings.Contains(k.failed, c.want) {
				t.Errorf("ready %v, failed %q", k.ready, k.failed)
			}
		})
	}
}

// TestACPLoads finds a session again: what the agent tells of it is heard once.
func TestACPLoads(t *testing.T) {
	old := []string{
		acpChunk("user_message", "hi"), acpChunk("agent_message", "hel"), acpChunk("agent_message", "lo"),
		acpTold(`"sessionUpdate":"tool_call","toolCallId":"c0","title":"ls","kind":"execute","status":"completed"`),
	}
	k := newTalk(t, "acp", agent.Options{Resume: "S", Epoch: 1})
	k.hears(acpHello)
	if w := k.written(); w.Method != "session/load" || w.Params["sessionId"] != "S" {
		t.Fatalf("wrote %+v", w)
	}
	k.hears(old...)
	k.hears(`{"jsonrpc":"2.0","id":2,"result":null}`)
	r := k.tree.Result()
	if !k.ready || len(r.Items) != 3 || len(r.Turns) != 0 || r.Items[0].Kind != "user" || r.Items[1].Parts[0].Text != "hello" || r.State != api.DialogueIdle {
		t.Errorf("ready %v: %s", k.ready, show(r))
	}
	again := newTalk(t, "acp", agent.Options{Resume: "S", Epoch: 2})
	again.hears(acpHello)
	again.hears(old...)
	again.hears(`{"jsonrpc":"2.0","id":2,"result":null}`)
	if r := again.tree.Result(); !again.ready || len(r.Items) != 0 {
		t.Errorf("the dialogue that knows it all has %s", show(r.Items))
	}
	again.send("m1", "go")
	again.hears(acpChunk("agent_message", "new"))
	if r := again.tree.Result(); len(r.Items) != 2 {
		t.Errorf("what is new is not heard: %s", show(r.Items))
	}
	resumes := newTalk(t, "acp", agent.Options{Resume: "S", Epoch: 2})
	resumes.hears(strings.Replace(acpHello, `"loadSession":true`, `"loadSession":true,"sessionCapabilities":{"resume":{}}`, 1))
	if w := resumes.written(); w.Method != "session/resume" {
		t.Errorf("wrote %+v", w)
	}
}

// TestACPTexts groups chunks without ids.
func TestACPTexts(t *testing.T) {
	k := acpTalk(t)
	k.send("m1", "go on")
	k.hears(
		acpChunk("user_message", "go on"), // an echo
		acpChunk("agent_thought", "hm"), acpChunk("agent_thought", "m"), acpChunk("agent_message", "a"),
		acpTold(`"sessionUpdate":"tool_call","toolCallId":"c1","title":"Look","status":"pending"`),
		acpChunk("agent_message", "b"),
		acpTold(`"sessionUpdate":"tool_call_update","toolCallId":"c1","kind":"read","status":"completed","locations":[{"path":"/w/x"}],"rawOutput":{"n":1},"content":[{"type":"diff","path":"/w/x","oldText":null,"newText":"y"},{"type":"terminal","terminalId":"t"}]`),
		acpChunk("agent_message", "c"),
		acpTold(`"sessionUpdate":"agent_message_chunk","content":{"type":"image","mimeType":"image/png","data":"eA=="}`),
		acpChunk("agent_message", "d"),
		acpTold(`"sessionUpdate":"plan","entries":[{"content":"one","status":"completed"},{"content":"two","status":"in_progress"}]`),
		`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":3,"outputTokens":2,"thoughtTokens":1,"totalTokens":6}}}`,
	)
	k.check()
	var got []string
	for _, it := range k.tree.Result().Items {
		text := it.Kind + ":"
		for _, p := range it.Parts {
			text += " " + p.Type + " " + p.Text
		}
		got = append(got, text)
	}
	want := []string{"user: text go on", "reasoning: text hmm", "agent: text a", "tool_call:", "agent: text bc image  text d", "plan: text - [x] one\n- [~] two\n"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	turn := k.last(api.DialogueEventTurnEnded).Turn
	if turn.TurnID != "t1.1" || turn.Outcome != "completed" || turn.Text != "bcd" || turn.Usage.OutputTokens != 3 {
		t.Errorf("%s", show(turn))
	}
	tool := k.tree.Result().Items[3].Tool
	if tool.Kind != "read" || tool.Name != "read" || tool.Subject != "/w/x" || tool.Title != "Look" || len(tool.Output) != 2 || string(tool.Structured) != `{"n":1}` {
		t.Errorf("%s", show(tool))
	}
}

// TestACPTurnsEnd checks how each reason to stop is told.
func TestACPTurnsEnd(t *testing.T) {
	for reason, want := range map[string]string{"end_turn": "completed", "max_tokens": "limit", "max_turn_requests": "limit", "refusal": "failed", "cancelled": "interrupted", "someday": "completed"} {
		k := acpTalk(t)
		k.send("m1", "go")
		k.hears(acpChunk("agent_message", "a"), `{"jsonrpc":"2.0","id":3,"result":{"stopReason":"`+reason+`","usage":{"inputTokens":-5,"outputTokens":9223372036854775807}}}`)
		if turn := k.last(api.DialogueEventTurnEnded).Turn; turn.Outcome != want || turn.Native != reason || turn.Usage != nil {
			t.Errorf("%s: %s", reason, show(turn))
		}
		item := k.tree.Result().Items[1]
		if aborted := item.Status == "aborted"; aborted != (reason == "cancelled") {
			t.Errorf("%s: the text is %s", reason, item.Status)
		}
	}
	k := acpTalk(t)
	k.send("m1", "go")
	k.hears(acpTold(`"sessionUpdate":"tool_call","toolCallId":"c1","title":"x","status":"in_progress"`))
	s := k.protocol.Line([]byte(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`))
	if ev := s.Events[0]; ev.Item == nil || ev.Item.Tool.Status != "cancelled" {
		t.Errorf("a tool call without an end: %s", show(s.Events))
	}
	k = acpTalk(t)
	k.send("m1", "go")
	k.hears(`{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"Internal error","data":{"message":"no model"}}}`)
	if turn := k.last(api.DialogueEventTurnEnded).Turn; turn.Outcome != "failed" || turn.Text != "Internal error: no model" {
		t.Errorf("%s", show(turn))
	}
	if ev := k.last(api.DialogueEventState); ev.State != api.DialogueIdle {
		t.Errorf("state %s", ev.State)
	}
}

// TestACPQueues sends while a turn runs: one prompt at a time, and none lost.
func TestACPQueues(t *testing.T) {
	k := acpTalk(t)
	prompts := func() (n int) {
		for _, w := range k.wrote {
			n += strings.Count(string(w), `"session/prompt"`)
		}
		return n
	}
	for i := range 4 {
		k.send(fmt.Sprint("m", i), "go")
	}
	if prompts() != 1 {
		t.Fatalf("%d prompts at once", prompts())
	}
	k.hears(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`)
	if prompts() != 2 || k.last(api.DialogueEventTurnStarted).Turn.TurnID != "t1.2" || k.last(api.DialogueEventState).State != api.DialogueRunning {
		t.Errorf("%d prompts, state %s", prompts(), k.last(api.DialogueEventState).State)
	}
	k.do(agent.Call{ID: "i", Interrupt: &agent.Interrupt{All: true}})
	if w := k.written(); w.Method != "session/cancel" || w.ID != nil {
		t.Errorf("wrote %+v", w)
	}
	k.hears(`{"jsonrpc":"2.0","id":4,"error":{"code":-32800,"message":"aborted"}}`)
	if turn := k.last(api.DialogueEventTurnEnded).Turn; turn.Outcome != "interrupted" {
		t.Errorf("%s", show(turn))
	}
	if prompts() != 2 || k.last(api.DialogueEventState).State != api.DialogueIdle {
		t.Errorf("what was queued runs: %d prompts", prompts())
	}
	states := map[string]string{}
	for _, ev := range k.events {
		if ev.Message != nil {
			states[ev.Message.MessageID] += " " + ev.Message.State
		}
	}
	if want := map[string]string{"m0": " sent started done", "m1": " sent queued started done", "m2": " sent queued cancelled", "m3": " sent queued cancelled"}; show(states) != show(want) {
		t.Errorf("%s", show(states))
	}
}

// TestACPAnswers checks what an agent is told for each answer to a request.
func TestACPAnswers(t *testing.T) {
	type answer = api.DialogueRespondParams
	chosen := func(id string) string { return `{"outcome":{"outcome":"selected","optionId":"` + id + `"}}` }
	for _, c := range []struct {
		drop     string // an option that is not offered
		answer   answer
		want     string // the result, or the code of the error
		decision string
	}{
		{"", answer{Decision: "allow"}, chosen("1"), "allow"},
		{"", answer{Decision: "allow", Remember: true}, chosen("2"), "allow"},
		{"allow_always", answer{Decision: "allow", Remember: true}, chosen("1"), "allow"},
		{"allow_once", answer{Decision: "allow"}, "INVALID_PARAMS", ""},
		{"", answer{Decision: "deny"}, chosen("3"), "deny"},
		{"reject_once", answer{Decision: "deny"}, `{"outcome":{"outcome":"cancelled"}}`, "deny"},
		{"", answer{Option: "3"}, chosen("3"), "deny"},
		{"", answer{Option: "2"}, chosen("2"), "allow"},
		{"", answer{Option: "9"}, "INVALID_PARAMS", ""},
		{"", answer{Decision: "deny", Option: "1"}, "INVALID_PARAMS", ""},
		{"", answer{Decision: "allow", Option: "3"}, "INVALID_PARAMS", ""},
		{"allow_once", answer{Option: "1"}, chosen("1"), "allow"},
		{"", answer{Decision: "allow", Input: json.RawMessage(`{}`)}, "INVALID_PARAMS", ""},
	} {
		k := acpTalk(t)
		k.send("m1", "go")
		asks := acpAsks
		if c.drop != "" {
			asks = strings.Replace(asks, c.drop, "unheard_of", 1)
		}
		k.hears(asks)
		q := k.last(api.DialogueEventRequestOpened).Request
		if q.Subject != "git push" || q.Tool != "execute" || q.ToolCallID != k.call("c1") {
			t.Errorf("asked %s", show(q))
		}
		c.answer.RequestID = q.RequestID
		if err := k.respond(c.answer); err != nil {
			if string(err.Code) != c.want {
				t.Errorf("%+v: %v", c.answer, err)
			}
			continue
		}
		wantJSON(t, k.sent(), `{"jsonrpc":"2.0","id":"p1","result":`+c.want+`}`)
		if closed := k.last(api.DialogueEventRequestClosed).Request; closed.Decision != c.decision || closed.How != "answered" {
			t.Errorf("closed %s", show(closed))
		}
		if err := k.respond(c.answer); err == nil || err.Code != api.CodeConflict {
			t.Errorf("a second answer: %v", err)
		}
	}
}

// TestACPInterruptsARequest answers what waits, as the protocol demands.
func TestACPInterruptsARequest(t *testing.T) {
	k := acpTalk(t)
	k.send("m1", "go")
	k.hears(acpAsks)
	k.do(agent.Call{ID: "i", Interrupt: &agent.Interrupt{}})
	if n := len(k.wrote); !strings.Contains(string(k.wrote[n-2]), `"session/cancel"`) {
		t.Errorf("wrote %s", k.wrote[n-2])
	}
	wantJSON(t, k.sent(), `{"jsonrpc":"2.0","id":"p1","result":{"outcome":{"outcome":"cancelled"}}}`)
	if closed := k.last(api.DialogueEventRequestClosed).Request; closed.How != "withdrawn" {
		t.Errorf("closed %s", show(closed))
	}
	k.hears(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}`,
		acpTold(`"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"failed"`)) // late
	k.check()
	if tool := k.tree.Result().Items[1].Tool; tool.Status != "failed" || tool.Subject != "git push" {
		t.Errorf("%s", show(tool))
	}
	k.send("m2", "go")
	k.hears(strings.Replace(acpAsks, `"p1"`, `"p2"`, 1), `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"p2"}}`)
	if closed := k.last(api.DialogueEventRequestClosed).Request; closed.How != "withdrawn" || closed.By != "agent" {
		t.Errorf("closed %s", show(closed))
	}
	wantJSON(t, k.sent(), `{"jsonrpc":"2.0","id":"p2","result":{"outcome":{"outcome":"cancelled"}}}`)
	k.hears(strings.Replace(acpAsks, `"p1"`, `"p3"`, 1), `{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}`)
	wantJSON(t, k.sent(), `{"jsonrpc":"2.0","id":"p3","result":{"outcome":{"outcome":"cancelled"}}}`)
}

// TestACPOtherSession is asked in a session that is not ours: that nobody here can answer.
func TestACPOtherSession(t *testing.T) {
	for _, other := range []string{`"other"`, `null`, `7`, `""`} {
		k := acpTalk(t)
		k.send("m1", "go")
		k.hears(strings.Replace(acpAsks, `"S"`, other, 1))
		if w := k.written(); w.Error == nil || string(w.ID) != `"p1"` || k.told(api.DialogueEventRequestOpened) != 0 {
			t.Errorf("session %s: wrote %s", other, k.sent())
		}
		if len(k.tree.Result().Items) != 1 {
			t.Errorf("session %s: %s", other, show(k.tree.Result().Items))
		}
	}
}

// TestACPCost checks that what a session cost before the process is not counted again.
func TestACPCost(t *testing.T) {
	cost := func(amount string) string {
		return acpTold(`"sessionUpdate":"usage_update","used":1,"size":9,"cost":{"amount":` + amount + `,"currency":"USD"}`)
	}
	loaded := `{"jsonrpc":"2.0","id":2,"result":null}`
	ended := `{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`
	for name, c := range map[string]struct {
		resume string
		lines  []string // an empty one sends a message
		want   []float64
	}{
		"new":              {"", []string{`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"S"}}`, "", cost("0.25"), cost("0.5"), ended}, []float64{0.25, 0.5}},
		"told at once":     {"S", []string{loaded, cost("1.5"), "", cost("1.5"), cost("2"), ended}, []float64{0.5}},
		"told in a turn":   {"S", []string{loaded, "", cost("1.5"), cost("1.75"), ended}, []float64{0.25}},
		"told after it":    {"S", []string{loaded, "", ended, cost("1.5"), "", cost("2.5")}, []float64{1}},
		"told twice":       {"S", []string{loaded, cost("1"), cost("1.5"), "", cost("2")}, []float64{0.5}},
		"less than before": {"S", []string{loaded, cost("1.5"), "", cost("2"), cost("1"), cost("2.5")}, []float64{0.5, 0, 1}},
		"no number":        {"", []string{`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"S"}}`, "", cost("0.5"), cost(`"1"`), cost("1e999"), cost("null")}, []float64{0.5}},
	} {
		k := newTalk(t, "acp", agent.Options{Resume: c.resume, Epoch: 2})
		k.hears(acpHello)
		for i, line := range c.lines {
			if line == "" {
				k.send(fmt.Sprint("m", i), "go")
			} else {
				k.hears(line)
			}
		}
		var got []float64
		for _, ev := range k.events {
			if ev.Usage != nil && ev.Usage.CostUSD != nil {
				got = append(got, *ev.Usage.CostUSD)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestACPForgetsTools has more tool calls in a turn than are remembered: those that are open
// are closed all the same.
func TestACPForgetsTools(t *testing.T) {
	k := acpTalk(t)
	k.send("m1", "go")
	k.hears(acpTold(`"sessionUpdate":"tool_call","toolCallId":"open","title":"x","status":"in_progress"`))
	for i := range 300 {
		k.hears(acpTold(fmt.Sprintf(`"sessionUpdate":"tool_call","toolCallId":"c%d","title":"x","status":"completed"`, i)))
	}
	k.hears(acpTold(`"sessionUpdate":"tool_call_update","toolCallId":"c299","rawOutput":{"n":1}`), acpTold(`"sessionUpdate":"tool_call_update","toolCallId":"open","kind":"read"`),
		`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`)
	k.check()
	items := k.tree.Result().Items
	if open, late := items[1].Tool, items[len(items)-1].Tool; open.Status != "cancelled" || open.Title != "x" || late.Status != "completed" || late.Title != "x" {
		t.Errorf("%s %s", show(open), show(late))
	}
}

// TestACPRefuses answers what it cannot do, instead of leaving the agent to wait.
func TestACPRefuses(t *testing.T) {
	for _, method := range []string{"fs/read_text_file", "fs/write_text_file", "terminal/create", "elicitation/create", "_x/y"} {
		k := acpTalk(t)
		k.hears(`{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{}}`)
		if w := k.written(); w.Error == nil || w.Error.Code != -32601 || string(w.ID) != "7" {
			t.Errorf("%s: %s", method, k.sent())
		}
		if n := k.last(api.DialogueEventNotice).Notice; n.Code != "unknown_request" || !strings.Contains(n.Text, method) {
			t.Errorf("%s", show(n))
		}
	}
}

// TestACPSettings changes mode and model, in the ways in which agents offer them.
func TestACPSettings(t *testing.T) {
	k := acpTalk(t)
	k.do(agent.Call{ID: "s", Set: &agent.Setting{Model: "big", PermissionMode: "plan"}})
	wantJSON(t, k.sent(), `{"jsonrpc":"2.0","id":3,"method":"session/set_mode","params":{"sessionId":"S","modeId":"plan"}}`)
	k.hears(`{"jsonrpc":"2.0","id":3,"result":{}}`)
	wantJSON(t, k.sent(), `{"jsonrpc":"2.0","id":4,"method":"session/set_model","params":{"sessionId":"S","modelId":"big"}}`)
	k.hears(`{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"Method not found"}}`)
	if err := k.answers["s"]; err == nil || err.Code != api.CodeInvalidParams || !strings.Contains(err.Message, `session/set_model "big"`) {
		t.Errorf("refused: %v", err)
	}
	if o := k.last(api.DialogueEventOpened).Opened; o.PermissionMode != "plan" || o.Model != "" {
		t.Errorf("one of two was done: %s", show(o))
	}
	k.hears(acpTold(`"sessionUpdate":"current_mode_update","currentModeId":"code"`))
	if o := k.last(api.DialogueEventOpened).Opened; o.PermissionMode != "code" {
		t.Errorf("%s", show(o))
	}
	k.hears(acpTold(`"sessionUpdate":"config_option_update","configOptions":[{"id":"mdl","category":"model","currentValue":"small"}]`))
	k.do(agent.Call{ID: "c", Set: &agent.Setting{Model: "big"}})
	wantJSON(t, k.sent(), `{"jsonrpc":"2.0","id":5,"method":"session/set_config_option","params":{"sessionId":"S","configId":"mdl","value":"big"}}`)
	k.hears(`{"jsonrpc":"2.0","id":5,"result":{"configOptions":[{"id":"mdl","category":"model","currentValue":"big"}]}}`)
	if err, done := k.answers["c"]; !done || err != nil || k.last(api.DialogueEventOpened).Opened.Model != "big" {
		t.Errorf("%v %v: %s", done, err, show(k.last(api.DialogueEventOpened)))
	}
}

// TestACPLines gives single lines, and looks for what they must make.
func TestACPLines(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"unknown update": {acpTold(`"sessionUpdate":"hologram"`), `"why": "unknown_subtype"`},
		"no update":      {`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"S"}}`, `"why": "bad_shape"`},
		"no tool id":     {acpTold(`"sessionUpdate":"tool_call","title":"x"`), `"why": "bad_shape"`},
		"unknown method": {`{"jsonrpc":"2.0","method":"session/hologram","params":{}}`, `"why": "unknown_type"`},
		"not json":       {`Listening on stdio`, `"why": "not_json"`},
		"cost":           {acpTold(`"sessionUpdate":"usage_update","used":10,"size":100,"cost":{"amount":0.25,"currency":"USD"}`), `"cost_usd": 0.25`},
		"notice":         {acpTold(`"sessionUpdate":"notice","severity":"warning","title":"Careful","description":"hot"`), `Careful: hot`},
		"compacted":      {acpTold(`"sessionUpdate":"compaction_update","compactionId":"c","status":"completed"`), `"type": "compacted"`},
		"asked for less": {`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{}}`, `unknown_request`},
	} {
		k := acpTalk(t)
		k.send("m1", "go")
		k.hears(c.line)
		if !strings.Contains(show(k.events), c.want) {
			t.Errorf("%s: no event has %s: %s", name, c.want, show(k.events))
		}
	}
	k := acpTalk(t)
	before := len(k.events)
	k.hears(strings.Replace(acpChunk("agent_message", "x"), `"S"`, `"other"`, 1), acpTold(`"sessionUpdate":"available_commands_update","availableCommands":[]`), acpTold(`"sessionUpdate":"session_info_update","title":"x"`), `{"jsonrpc":"2.0","method":"_x/y"}`)
	if len(k.events) != before {
		t.Errorf("told %s", show(k.events[before:]))
	}
}
