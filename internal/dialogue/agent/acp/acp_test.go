package acp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/acp"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
)

// TestRecordings plays recordings of a real program.
func TestRecordings(t *testing.T) { agenttest.Replays(t, acp.Agent{}) }

// TestCutAnywhere ends every recording after every line: everything open can be closed.
func TestCutAnywhere(t *testing.T) { agenttest.CutAnywhere(t, acp.Agent{}) }

func FuzzLines(f *testing.F) { agenttest.Fuzz(f, acp.Agent{}, agenttest.RPCMoves) }

const asks = `{"jsonrpc":"2.0","id":"p1","method":"session/request_permission","params":{"sessionId":"S","toolCall":{"toolCallId":"c1","kind":"execute","title":"run","rawInput":{"command":["git","push"]}},` +
	`"options":[{"optionId":"1","name":"Yes","kind":"allow_once"},{"optionId":"2","name":"Always","kind":"allow_always"},{"optionId":"3","name":"No","kind":"reject_once"}]}}`

// TestCommand: the caller must name the program, because there is no default one.
func TestCommand(t *testing.T) {
	a := acp.Agent{}
	if _, _, err := a.Command(agent.Options{}); err == nil || !strings.Contains(err.Error(), "argv") {
		t.Errorf("without a program: %v", err)
	}
	if argv, _, err := a.Command(agent.Options{Argv: []string{"x", "acp"}}); err != nil || !slices.Equal(argv, []string{"x", "acp"}) {
		t.Errorf("argv %q, %v", argv, err)
	}
}

// TestDoesNotOpen tries the failures that keep a conversation from opening.
func TestDoesNotOpen(t *testing.T) {
	resume := agent.Options{Resume: "S0"}
	for name, c := range map[string]struct {
		options agent.Options
		lines   []string
		want    string
	}{
		"refused":    {agent.Options{}, []string{`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":{"details":"no home"}}}`}, "no home"},
		"version 2":  {agent.Options{}, []string{`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}`}, `version "2"`},
		"no version": {agent.Options{}, []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}, "version"},
		"no auth":    {agent.Options{}, []string{agenttest.ACPHello, `{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Authentication required"}}`}, "signed in, which TRL does not do; sign in with its own program first (it offers: Log in)"},
		"no session": {agent.Options{}, []string{agenttest.ACPHello, `{"jsonrpc":"2.0","id":2,"result":{}}`}, "names no session"},
		"no load":    {resume, []string{`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}`}, "cannot resume"},
		"gone":       {resume, []string{agenttest.ACPHello, `{"jsonrpc":"2.0","id":2,"error":{"code":-32002,"message":"Resource not found"}}`}, "acp session/load: Resource not found"},
		"mode":       {agent.Options{PermissionMode: "yolo"}, []string{agenttest.ACPHello, `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"S"}}`, `{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"Invalid mode"}}`}, `acp session/set_mode "yolo": Invalid mode`},
	} {
		t.Run(name, func(t *testing.T) {
			k := agenttest.NewTalk(t, acp.Agent{}, c.options)
			k.Hears(c.lines...)
			if k.Ready || !strings.Contains(k.Failed, c.want) {
				t.Errorf("ready %v, failed %q", k.Ready, k.Failed)
			}
		})
	}
}

// TestLoads continues a session: its earlier items are published once.
func TestLoads(t *testing.T) {
	old := []string{
		agenttest.ACPChunk("user_message", "hi"), agenttest.ACPChunk("agent_message", "hel"), agenttest.ACPChunk("agent_message", "lo"),
		agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"c0","title":"ls","kind":"execute","status":"completed"`),
	}
	k := agenttest.NewTalk(t, acp.Agent{}, agent.Options{Resume: "S", Epoch: 1})
	k.Hears(agenttest.ACPHello)
	if w := k.LastWritten(); w.Method != "session/load" || w.Params["sessionId"] != "S" {
		t.Fatalf("wrote %+v", w)
	}
	k.Hears(old...)
	k.Hears(`{"jsonrpc":"2.0","id":2,"result":null}`)
	r := k.Tree.Result()
	if !k.Ready || len(r.Items) != 3 || len(r.Turns) != 0 || r.Items[0].Kind != "user" || r.Items[1].Parts[0].Text != "hello" || r.State != api.DialogueIdle {
		t.Errorf("ready %v: %s", k.Ready, agenttest.Show(r))
	}
	again := agenttest.NewTalk(t, acp.Agent{}, agent.Options{Resume: "S", Epoch: 2})
	again.Hears(agenttest.ACPHello)
	again.Hears(old...)
	again.Hears(`{"jsonrpc":"2.0","id":2,"result":null}`)
	if r := again.Tree.Result(); !again.Ready || len(r.Items) != 0 {
		t.Errorf("the dialogue that knows it all has %s", agenttest.Show(r.Items))
	}
	again.Send("m1", "go")
	again.Hears(agenttest.ACPChunk("agent_message", "new"))
	if r := again.Tree.Result(); len(r.Items) != 2 {
		t.Errorf("what is new is not heard: %s", agenttest.Show(r.Items))
	}
	resumes := agenttest.NewTalk(t, acp.Agent{}, agent.Options{Resume: "S", Epoch: 2})
	resumes.Hears(strings.Replace(agenttest.ACPHello, `"loadSession":true`, `"loadSession":true,"sessionCapabilities":{"resume":{}}`, 1))
	if w := resumes.LastWritten(); w.Method != "session/resume" {
		t.Errorf("wrote %+v", w)
	}
}

// TestTexts groups chunks without ids.
func TestTexts(t *testing.T) {
	k := agenttest.ACPReady(t)
	k.Send("m1", "go on")
	k.Hears(
		agenttest.ACPChunk("user_message", "go on"), // an echo
		agenttest.ACPChunk("agent_thought", "hm"), agenttest.ACPChunk("agent_thought", "m"), agenttest.ACPChunk("agent_message", "a"),
		agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"c1","title":"Look","status":"pending"`),
		agenttest.ACPChunk("agent_message", "b"),
		agenttest.ACPUpdate(`"sessionUpdate":"tool_call_update","toolCallId":"c1","kind":"read","status":"completed","locations":[{"path":"/w/x"}],"rawOutput":{"n":1},"content":[{"type":"diff","path":"/w/x","oldText":null,"newText":"y"},{"type":"terminal","terminalId":"t"}]`),
		agenttest.ACPChunk("agent_message", "c"),
		agenttest.ACPUpdate(`"sessionUpdate":"agent_message_chunk","content":{"type":"image","mimeType":"image/png","data":"eA=="}`),
		agenttest.ACPChunk("agent_message", "d"),
		agenttest.ACPUpdate(`"sessionUpdate":"plan","entries":[{"content":"one","status":"completed"},{"content":"two","status":"in_progress"}]`),
		`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":3,"outputTokens":2,"thoughtTokens":1,"totalTokens":6}}}`,
	)
	k.Check()
	var got []string
	for _, it := range k.Tree.Result().Items {
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
	turn := k.Last(api.DialogueEventTurnEnded).Turn
	if turn.TurnID != "t1.1" || turn.Outcome != "completed" || turn.Text != "bcd" || turn.Usage.OutputTokens != 3 {
		t.Errorf("%s", agenttest.Show(turn))
	}
	tool := k.Tree.Result().Items[3].Tool
	if tool.Kind != "read" || tool.Name != "read" || tool.Subject != "/w/x" || tool.Title != "Look" || len(tool.Output) != 2 || string(tool.Structured) != `{"n":1}` {
		t.Errorf("%s", agenttest.Show(tool))
	}
}

// TestTurnsEnd checks the outcome of each stop reason.
func TestTurnsEnd(t *testing.T) {
	for reason, want := range map[string]string{"end_turn": "completed", "max_tokens": "limit", "max_turn_requests": "limit", "refusal": "failed", "cancelled": "interrupted", "someday": "completed"} {
		k := agenttest.ACPReady(t)
		k.Send("m1", "go")
		k.Hears(agenttest.ACPChunk("agent_message", "a"), `{"jsonrpc":"2.0","id":3,"result":{"stopReason":"`+reason+`","usage":{"inputTokens":-5,"outputTokens":9223372036854775807}}}`)
		if turn := k.Last(api.DialogueEventTurnEnded).Turn; turn.Outcome != want || turn.Native != reason || turn.Usage != nil {
			t.Errorf("%s: %s", reason, agenttest.Show(turn))
		}
		item := k.Tree.Result().Items[1]
		if aborted := item.Status == "aborted"; aborted != (reason == "cancelled") {
			t.Errorf("%s: the text is %s", reason, item.Status)
		}
	}
	k := agenttest.ACPReady(t)
	k.Send("m1", "go")
	k.Hears(agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"c1","title":"x","status":"in_progress"`))
	s := k.Protocol.Line([]byte(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`))
	if ev := s.Events[0]; ev.Item == nil || ev.Item.Tool.Status != "cancelled" {
		t.Errorf("a tool call without an end: %s", agenttest.Show(s.Events))
	}
	k = agenttest.ACPReady(t)
	k.Send("m1", "go")
	k.Hears(`{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"Internal error","data":{"message":"no model"}}}`)
	if turn := k.Last(api.DialogueEventTurnEnded).Turn; turn.Outcome != "failed" || turn.Text != "Internal error: no model" {
		t.Errorf("%s", agenttest.Show(turn))
	}
	if ev := k.Last(api.DialogueEventState); ev.State != api.DialogueIdle {
		t.Errorf("state %s", ev.State)
	}
}

// TestQueues sends while a turn runs: one prompt at a time, and none lost.
func TestQueues(t *testing.T) {
	k := agenttest.ACPReady(t)
	prompts := func() (n int) {
		for _, w := range k.Wrote {
			n += strings.Count(string(w), `"session/prompt"`)
		}
		return n
	}
	for i := range 4 {
		k.Send(fmt.Sprint("m", i), "go")
	}
	if prompts() != 1 {
		t.Fatalf("%d prompts at once", prompts())
	}
	k.Hears(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`)
	if prompts() != 2 || k.Last(api.DialogueEventTurnStarted).Turn.TurnID != "t1.2" || k.Last(api.DialogueEventState).State != api.DialogueRunning {
		t.Errorf("%d prompts, state %s", prompts(), k.Last(api.DialogueEventState).State)
	}
	k.Do(agent.Call{ID: "i", Interrupt: &agent.Interrupt{All: true}})
	if w := k.LastWritten(); w.Method != "session/cancel" || w.ID != nil {
		t.Errorf("wrote %+v", w)
	}
	k.Hears(`{"jsonrpc":"2.0","id":4,"error":{"code":-32800,"message":"aborted"}}`)
	if turn := k.Last(api.DialogueEventTurnEnded).Turn; turn.Outcome != "interrupted" {
		t.Errorf("%s", agenttest.Show(turn))
	}
	if prompts() != 2 || k.Last(api.DialogueEventState).State != api.DialogueIdle {
		t.Errorf("what was queued runs: %d prompts", prompts())
	}
	states := map[string]string{}
	for _, ev := range k.Events {
		if ev.Message != nil {
			states[ev.Message.MessageID] += " " + ev.Message.State
		}
	}
	if want := map[string]string{"m0": " sent started done", "m1": " sent queued started done", "m2": " sent queued cancelled", "m3": " sent queued cancelled"}; agenttest.Show(states) != agenttest.Show(want) {
		t.Errorf("%s", agenttest.Show(states))
	}
}

// TestUnsend: a message whose turn has not started is dropped, and no other.
func TestUnsend(t *testing.T) {
	k := agenttest.ACPReady(t)
	k.Send("m0", "go")
	k.Send("m1", "go")
	k.Send("m2", "go")
	for id, want := range map[string]string{"m0": "has already started", "m1": "", "nosuch": "has processed it"} {
		k.Do(agent.Call{ID: "u-" + id, Unsend: &agent.Unsend{MessageID: id}})
		err := k.Answers["u-"+id]
		if want == "" && err != nil || want != "" && (err == nil || err.Code != api.CodeConflict || !strings.Contains(err.Message, want)) {
			t.Errorf("%s: %v", id, err)
		}
	}
	k.Hears(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`)
	if turn := k.Last(api.DialogueEventTurnStarted).Turn; agenttest.Show(turn.Messages) != agenttest.Show([]string{"m2"}) {
		t.Errorf("next is %s", agenttest.Show(turn))
	}
	n := 0
	for _, ev := range k.Events {
		if ev.Message != nil && ev.Message.State == "cancelled" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d messages were cancelled", n)
	}
}

// TestAnswers checks the line for the agent for each answer to a request.
func TestAnswers(t *testing.T) {
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
		k := agenttest.ACPReady(t)
		k.Send("m1", "go")
		asks := asks
		if c.drop != "" {
			asks = strings.Replace(asks, c.drop, "unheard_of", 1)
		}
		k.Hears(asks)
		q := k.Last(api.DialogueEventRequestOpened).Request
		if q.Subject != "git push" || q.Tool != "execute" || q.ToolCallID != k.Call("c1") {
			t.Errorf("asked %s", agenttest.Show(q))
		}
		c.answer.RequestID = q.RequestID
		if err := k.Respond(c.answer); err != nil {
			if string(err.Code) != c.want {
				t.Errorf("%+v: %v", c.answer, err)
			}
			continue
		}
		agenttest.WantJSON(t, k.LastWrite(), `{"jsonrpc":"2.0","id":"p1","result":`+c.want+`}`)
		if closed := k.Last(api.DialogueEventRequestClosed).Request; closed.Decision != c.decision || closed.How != "answered" {
			t.Errorf("closed %s", agenttest.Show(closed))
		}
		if err := k.Respond(c.answer); err == nil || err.Code != api.CodeConflict {
			t.Errorf("a second answer: %v", err)
		}
	}
}

// TestInterruptsARequest: an interrupt answers the open requests, as the protocol demands.
func TestInterruptsARequest(t *testing.T) {
	k := agenttest.ACPReady(t)
	k.Send("m1", "go")
	k.Hears(asks)
	k.Do(agent.Call{ID: "i", Interrupt: &agent.Interrupt{}})
	if n := len(k.Wrote); !strings.Contains(string(k.Wrote[n-2]), `"session/cancel"`) {
		t.Errorf("wrote %s", k.Wrote[n-2])
	}
	agenttest.WantJSON(t, k.LastWrite(), `{"jsonrpc":"2.0","id":"p1","result":{"outcome":{"outcome":"cancelled"}}}`)
	if closed := k.Last(api.DialogueEventRequestClosed).Request; closed.How != "withdrawn" {
		t.Errorf("closed %s", agenttest.Show(closed))
	}
	k.Hears(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}`,
		agenttest.ACPUpdate(`"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"failed"`)) // late
	k.Check()
	if tool := k.Tree.Result().Items[1].Tool; tool.Status != "failed" || tool.Subject != "git push" {
		t.Errorf("%s", agenttest.Show(tool))
	}
	k.Send("m2", "go")
	k.Hears(strings.Replace(asks, `"p1"`, `"p2"`, 1), `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"p2"}}`)
	if closed := k.Last(api.DialogueEventRequestClosed).Request; closed.How != "withdrawn" || closed.By != "agent" {
		t.Errorf("closed %s", agenttest.Show(closed))
	}
	agenttest.WantJSON(t, k.LastWrite(), `{"jsonrpc":"2.0","id":"p2","result":{"outcome":{"outcome":"cancelled"}}}`)
	k.Hears(strings.Replace(asks, `"p1"`, `"p3"`, 1), `{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}`)
	agenttest.WantJSON(t, k.LastWrite(), `{"jsonrpc":"2.0","id":"p3","result":{"outcome":{"outcome":"cancelled"}}}`)
}

// TestOtherSession: a request in another session is rejected.
func TestOtherSession(t *testing.T) {
	for _, other := range []string{`"other"`, `null`, `7`, `""`} {
		k := agenttest.ACPReady(t)
		k.Send("m1", "go")
		k.Hears(strings.Replace(asks, `"S"`, other, 1))
		if w := k.LastWritten(); w.Error == nil || string(w.ID) != `"p1"` || k.Count(api.DialogueEventRequestOpened) != 0 {
			t.Errorf("session %s: wrote %s", other, k.LastWrite())
		}
		if len(k.Tree.Result().Items) != 1 {
			t.Errorf("session %s: %s", other, agenttest.Show(k.Tree.Result().Items))
		}
	}
}

// TestCost: the cost of a session before this process is not counted again.
func TestCost(t *testing.T) {
	cost := func(amount string) string {
		return agenttest.ACPUpdate(`"sessionUpdate":"usage_update","used":1,"size":9,"cost":{"amount":` + amount + `,"currency":"USD"}`)
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
		k := agenttest.NewTalk(t, acp.Agent{}, agent.Options{Resume: c.resume, Epoch: 2})
		k.Hears(agenttest.ACPHello)
		for i, line := range c.lines {
			if line == "" {
				k.Send(fmt.Sprint("m", i), "go")
			} else {
				k.Hears(line)
			}
		}
		var got []float64
		for _, ev := range k.Events {
			if ev.Usage != nil && ev.Usage.CostUSD != nil {
				got = append(got, *ev.Usage.CostUSD)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestForgetsTools has more tool calls in a turn than the protocol keeps: the open ones are closed
// all the same.
func TestForgetsTools(t *testing.T) {
	k := agenttest.ACPReady(t)
	k.Send("m1", "go")
	k.Hears(agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"open","title":"x","status":"in_progress"`))
	for i := range 300 {
		k.Hears(agenttest.ACPUpdate(fmt.Sprintf(`"sessionUpdate":"tool_call","toolCallId":"c%d","title":"x","status":"completed"`, i)))
	}
	k.Hears(agenttest.ACPUpdate(`"sessionUpdate":"tool_call_update","toolCallId":"c299","rawOutput":{"n":1}`), agenttest.ACPUpdate(`"sessionUpdate":"tool_call_update","toolCallId":"open","kind":"read"`),
		`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`)
	k.Check()
	items := k.Tree.Result().Items
	if open, late := items[1].Tool, items[len(items)-1].Tool; open.Status != "cancelled" || open.Title != "x" || late.Status != "completed" || late.Title != "x" {
		t.Errorf("%s %s", agenttest.Show(open), agenttest.Show(late))
	}
}

// TestRefuses: the protocol rejects requests that it does not know, so that the agent does not
// wait.
func TestRefuses(t *testing.T) {
	for _, method := range []string{"fs/read_text_file", "fs/write_text_file", "terminal/create", "elicitation/create", "_x/y"} {
		k := agenttest.ACPReady(t)
		k.Hears(`{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{}}`)
		if w := k.LastWritten(); w.Error == nil || w.Error.Code != -32601 || string(w.ID) != "7" {
			t.Errorf("%s: %s", method, k.LastWrite())
		}
		if n := k.Last(api.DialogueEventNotice).Notice; n.Code != "unknown_request" || !strings.Contains(n.Text, method) {
			t.Errorf("%s", agenttest.Show(n))
		}
	}
}

// TestSettings changes the mode and the model, in both ways that agents offer.
func TestSettings(t *testing.T) {
	k := agenttest.ACPReady(t)
	k.Do(agent.Call{ID: "s", Set: &agent.Setting{Model: "big", PermissionMode: "plan"}})
	agenttest.WantJSON(t, k.LastWrite(), `{"jsonrpc":"2.0","id":3,"method":"session/set_mode","params":{"sessionId":"S","modeId":"plan"}}`)
	k.Hears(`{"jsonrpc":"2.0","id":3,"result":{}}`)
	agenttest.WantJSON(t, k.LastWrite(), `{"jsonrpc":"2.0","id":4,"method":"session/set_model","params":{"sessionId":"S","modelId":"big"}}`)
	k.Hears(`{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"Method not found"}}`)
	if err := k.Answers["s"]; err == nil || err.Code != api.CodeInvalidParams || !strings.Contains(err.Message, `session/set_model "big"`) {
		t.Errorf("refused: %v", err)
	}
	if o := k.Last(api.DialogueEventOpened).Opened; o.PermissionMode != "plan" || o.Model != "" {
		t.Errorf("one of two was done: %s", agenttest.Show(o))
	}
	k.Hears(agenttest.ACPUpdate(`"sessionUpdate":"current_mode_update","currentModeId":"code"`))
	if o := k.Last(api.DialogueEventOpened).Opened; o.PermissionMode != "code" {
		t.Errorf("%s", agenttest.Show(o))
	}
	k.Hears(agenttest.ACPUpdate(`"sessionUpdate":"config_option_update","configOptions":[{"id":"mdl","category":"model","currentValue":"small"}]`))
	k.Do(agent.Call{ID: "c", Set: &agent.Setting{Model: "big"}})
	agenttest.WantJSON(t, k.LastWrite(), `{"jsonrpc":"2.0","id":5,"method":"session/set_config_option","params":{"sessionId":"S","configId":"mdl","value":"big"}}`)
	k.Hears(`{"jsonrpc":"2.0","id":5,"result":{"configOptions":[{"id":"mdl","category":"model","currentValue":"big"}]}}`)
	if err, done := k.Answers["c"]; !done || err != nil || k.Last(api.DialogueEventOpened).Opened.Model != "big" {
		t.Errorf("%v %v: %s", done, err, agenttest.Show(k.Last(api.DialogueEventOpened)))
	}
}

// TestLines checks the events of single lines.
func TestLines(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"unknown update": {agenttest.ACPUpdate(`"sessionUpdate":"hologram"`), `"why": "unknown_subtype"`},
		"no update":      {`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"S"}}`, `"why": "bad_shape"`},
		"no tool id":     {agenttest.ACPUpdate(`"sessionUpdate":"tool_call","title":"x"`), `"why": "bad_shape"`},
		"unknown method": {`{"jsonrpc":"2.0","method":"session/hologram","params":{}}`, `"why": "unknown_type"`},
		"not json":       {`Listening on stdio`, `"why": "not_json"`},
		"cost":           {agenttest.ACPUpdate(`"sessionUpdate":"usage_update","used":10,"size":100,"cost":{"amount":0.25,"currency":"USD"}`), `"cost_usd": 0.25`},
		"notice":         {agenttest.ACPUpdate(`"sessionUpdate":"notice","severity":"warning","title":"Careful","description":"hot"`), `Careful: hot`},
		"compacted":      {agenttest.ACPUpdate(`"sessionUpdate":"compaction_update","compactionId":"c","status":"completed"`), `"type": "compacted"`},
		"asked for less": {`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{}}`, `unknown_request`},
	} {
		k := agenttest.ACPReady(t)
		k.Send("m1", "go")
		k.Hears(c.line)
		if !strings.Contains(agenttest.Show(k.Events), c.want) {
			t.Errorf("%s: no event has %s: %s", name, c.want, agenttest.Show(k.Events))
		}
	}
	k := agenttest.ACPReady(t)
	before := len(k.Events)
	k.Hears(strings.Replace(agenttest.ACPChunk("agent_message", "x"), `"S"`, `"other"`, 1), agenttest.ACPUpdate(`"sessionUpdate":"available_commands_update","availableCommands":[]`), agenttest.ACPUpdate(`"sessionUpdate":"session_info_update"`), `{"jsonrpc":"2.0","method":"_x/y"}`)
	if len(k.Events) != before {
		t.Errorf("told %s", agenttest.Show(k.Events[before:]))
	}
	title := agenttest.ACPUpdate(`"sessionUpdate":"session_info_update","title":"Fix the build"`)
	if k.Hears(title, title); len(k.Events) != before+1 || k.Events[before].Opened == nil || k.Events[before].Opened.Title != "Fix the build" {
		t.Errorf("a title, twice: %s", agenttest.Show(k.Events[before:]))
	}
}

// TestDescribe: an agent can change the models and modes that it lists.
func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		reported api.DialogueOpened
		want     string
	}{
		{api.DialogueOpened{}, "remember unsend"},
		{api.DialogueOpened{Capabilities: []string{"load_session", "image"}, Models: []string{"m"}, Modes: []string{"ask"}}, "remember unsend images set_model set_mode"},
	} {
		o := c.reported
		if (acp.Agent{}).Describe(&o); strings.Join(o.Capabilities, " ") != c.want || len(o.Modes) != len(c.reported.Modes) {
			t.Errorf("%+v: %+v", c.reported, o)
		}
	}
}

func TestUniqueIDs(t *testing.T) {
	agenttest.UniqueIDs(t, acp.Agent{}, agenttest.RPC)
}

func TestLinesOfOthers(t *testing.T) { agenttest.LinesOfOthers(t, acp.Agent{}) }
