package claude_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
	"github.com/trl-dev/trl/internal/dialogue/agent/claude"
)

const asksQuestion = `{"type":"control_request","request_id":"r-1","request":{"subtype":"can_use_tool","tool_name":"AskUserQuestion","tool_use_id":"t-1","input":{"questions":[` +
	`{"question":"Which color?","header":"Color","options":[{"label":"Red"},{"label":"Blue"}],"multiSelect":false}]}}}`

const wantsBash = `{"type":"control_request","request_id":"r-1","request":{"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"t-1","agent_id":"a-1",` +
	`"decision_reason":"\u001b[31mrisky\u001b[0m","input":{"command":"rm x","n":1},"permission_suggestions":[{"type":"setMode","mode":"acceptEdits"}]}}`

func TestRequests(t *testing.T) {
	const answer = `{"type":"control_response","response":{"subtype":"success","request_id":"r-1","response":%s}}`
	for name, tc := range map[string]struct {
		request string
		with    api.DialogueRespondParams
		want    string
	}{
		"allow":       {wantsBash, api.DialogueRespondParams{Decision: "allow"}, `{"behavior":"allow","updatedInput":{"command":"rm x","n":1}}`},
		"other input": {wantsBash, api.DialogueRespondParams{Decision: "allow", Input: []byte(`{"command":"ls"}`)}, `{"behavior":"allow","updatedInput":{"command":"ls"}}`},
		"option":      {wantsBash, api.DialogueRespondParams{Option: "allow"}, `{"behavior":"allow","updatedInput":{"command":"rm x","n":1}}`},
		"remember":    {wantsBash, api.DialogueRespondParams{Option: "allow_always"}, `{"behavior":"allow","updatedInput":{"command":"rm x","n":1},"updatedPermissions":[{"type":"setMode","mode":"acceptEdits"}]}`},
		"remember, where it cannot": {strings.Replace(wantsBash, "permission_suggestions", "no_suggestions", 1), api.DialogueRespondParams{Decision: "allow", Remember: true},
			`{"behavior":"allow","updatedInput":{"command":"rm x","n":1}}`},
		"deny":         {wantsBash, api.DialogueRespondParams{Decision: "deny", Message: "no", Interrupt: true}, `{"behavior":"deny","message":"no","interrupt":true}`},
		"deny, silent": {wantsBash, api.DialogueRespondParams{Option: "deny"}, `{"behavior":"deny","message":"This was denied.","interrupt":false}`},
		"answer by id": {asksQuestion, api.DialogueRespondParams{Answers: map[string]string{"q1": "Blue"}},
			`{"behavior":"allow","updatedInput":{"answers":{"Which color?":"Blue"},"questions":[{"question":"Which color?","header":"Color","options":[{"label":"Red"},{"label":"Blue"}],"multiSelect":false}]}}`},
		"answer by option": {asksQuestion, api.DialogueRespondParams{Option: "Red"},
			`{"behavior":"allow","updatedInput":{"answers":{"Which color?":"Red"},"questions":[{"question":"Which color?","header":"Color","options":[{"label":"Red"},{"label":"Blue"}],"multiSelect":false}]}}`},
		"form": {`{"type":"control_request","request_id":"r-1","request":{"subtype":"elicitation","mcp_server_name":"x","message":"Who?","requested_schema":{"type":"object"}}}`,
			api.DialogueRespondParams{Decision: "allow", Input: []byte(`{"name":"me"}`)}, `{"action":"accept","content":{"name":"me"}}`},
		"form, declined": {`{"type":"control_request","request_id":"r-1","request":{"subtype":"elicitation","mcp_server_name":"x","message":"Who?"}}`,
			api.DialogueRespondParams{Decision: "deny"}, `{"action":"decline"}`},
		"dialog": {`{"type":"control_request","request_id":"r-1","request":{"subtype":"request_user_dialog","dialog_kind":"k","payload":{}}}`,
			api.DialogueRespondParams{Decision: "deny"}, `{"behavior":"cancelled"}`},
	} {
		t.Run(name, func(t *testing.T) {
			k := ready(t)
			k.Says(`{"type":"assistant","message":{"id":"msg","content":[{"type":"tool_use","id":"t-1","name":"Bash","input":{}}]}}`)
			k.Hear([]byte(tc.request))
			k.Hear([]byte(tc.request)) // repeated: it is one request
			if n := k.Count(api.DialogueEventRequestOpened); n != 1 {
				t.Fatalf("%d requests were opened", n)
			}
			tc.with.RequestID = "r-1"
			if err := k.Respond(tc.with); err != nil {
				t.Fatal(err)
			}
			agenttest.WantJSON(t, k.LastWrite(), fmt.Sprintf(answer, tc.want))
			if q := k.Last(api.DialogueEventRequestClosed).Request; q.How != "answered" || q.By != "client" || q.Decision == "" {
				t.Errorf("closed %s", agenttest.Show(q))
			}
			if err := k.Respond(tc.with); err == nil || err.Code != api.CodeConflict {
				t.Errorf("a second answer: %v", err)
			}
		})
	}
}

func TestRequestTold(t *testing.T) {
	k := ready(t)
	k.Says(`{"type":"assistant","message":{"id":"msg","content":[{"type":"tool_use","id":"t-1","name":"Bash","input":{"command":"rm x"}}]}}`)
	k.Hear([]byte(wantsBash))
	q := k.Last(api.DialogueEventRequestOpened).Request
	if q.Kind != "permission" || q.Tool != "Bash" || q.ToolCallID != k.Call("t-1") || q.TaskID == "" || q.NativeID != "r-1" || q.Subject != "rm x" || q.Reason != "risky" || len(q.Options) != 3 {
		t.Errorf("request %s", agenttest.Show(q))
	}
	if it := k.Last(api.DialogueEventItem).Item; it.NativeID != "t-1" || it.Tool.Status != "awaiting_approval" {
		t.Errorf("tool %s", agenttest.Show(it))
	}
	if err := k.Respond(api.DialogueRespondParams{RequestID: "r-1", Option: "perhaps"}); err == nil || err.Code != api.CodeInvalidParams {
		t.Errorf("an option that it has not: %v", err)
	}
	k.Says(`{"type":"control_cancel_request","request_id":"r-1"}`)
	if q := k.Last(api.DialogueEventRequestClosed).Request; q.How != "withdrawn" || q.By != "agent" {
		t.Errorf("closed %s", agenttest.Show(q))
	}
	// If the request has no plan, the plan of the tool call counts.
	k.Says(`{"type":"assistant","message":{"id":"msg","content":[{"type":"tool_use","id":"t-2","name":"ExitPlanMode","input":{"plan":"do it"}}]}}`,
		`{"type":"control_request","request_id":"r-2","request":{"subtype":"can_use_tool","tool_name":"ExitPlanMode","tool_use_id":"t-2","input":{}}}`)
	if q := k.Last(api.DialogueEventRequestOpened).Request; q.Kind != "plan" || string(q.Input) != `{"plan":"do it"}` {
		t.Errorf("request %s", agenttest.Show(q))
	}
	if err := k.Respond(api.DialogueRespondParams{RequestID: "r-2", Decision: "allow"}); err != nil {
		t.Fatal(err)
	}
	agenttest.WantJSON(t, k.LastWrite(), `{"type":"control_response","response":{"subtype":"success","request_id":"r-2","response":{"behavior":"allow","updatedInput":{}}}}`)
}

// A request of an unknown kind is rejected, because an open one blocks the turn.
func TestUnknownRequest(t *testing.T) {
	for _, subtype := range []string{"hook_callback", "mcp_message", "something_new"} {
		k := ready(t)
		k.Says(`{"type":"control_request","request_id":"r-1","request":{"subtype":"` + subtype + `"}}`)
		agenttest.WantJSON(t, k.LastWrite(), `{"type":"control_response","response":{"subtype":"error","request_id":"r-1","error":"unsupported request: `+subtype+`"}}`)
		if n := k.Last(api.DialogueEventNotice).Notice; n.Code != "unknown_request" || n.Level != "warning" {
			t.Errorf("notice %s", agenttest.Show(n))
		}
	}
}

func TestRetraction(t *testing.T) {
	said := func(uuid, message, text, more string) string {
		return `{"type":"assistant","uuid":"` + uuid + `","session_id":"s-1","message":{"id":"` + message + `","content":[{"type":"text","text":"` + text + `"}]}` + more + `}`
	}
	for name, taken := range map[string]string{
		"superseded":    said("u-3", "msg-2", "better", `,"supersedes":["u-1","u-2"]`),
		"by a notice":   `{"type":"system","subtype":"model_refusal_fallback","retracted_message_uuids":["u-1","u-2"],"content":"another model"}`,
		"asked again":   `{"type":"user","isSynthetic":true,"retracted_message_uuids":["u-1","u-2"],"message":{"role":"user","content":"again"}}`,
		"named unknown": said("u-3", "msg-2", "better", `,"supersedes":["u-1","u-2","u-9"]`),
	} {
		k := ready(t)
		k.Says(said("u-0", "msg-0", "stays", ""), said("u-1", "msg-1", "no", ""),
			`{"type":"assistant","uuid":"u-2","session_id":"s-1","message":{"id":"msg-1","content":[{"type":"tool_use","id":"t-1","name":"Read","input":{}}]}}`, taken)
		if got := strings.Join(k.Last(api.DialogueEventRetracted).Retracted, " "); got != "i1.2 i1.3" {
			t.Errorf("%s: retracted %q", name, got)
		}
		if first := k.Tree.Result().Items[0]; first.NativeID != "msg-0" {
			t.Errorf("%s: first is %s", name, agenttest.Show(first))
		}
	}

	// A retracted line may be from an earlier turn. Its items are retracted once.
	k := ready(t)
	k.Says(said("u-1", "msg-1", "no", ""), `{"type":"result","subtype":"success","uuid":"u-2"}`,
		said("u-3", "msg-3", "stays", ""), `{"type":"result","subtype":"success","uuid":"u-4"}`,
		said("u-5", "msg-5", "better", `,"supersedes":["u-1"]`), said("u-6", "msg-6", "best", `,"supersedes":["u-1"]`))
	if items := k.Tree.Result().Items; len(items) != 3 || items[0].NativeID != "msg-3" || k.Count(api.DialogueEventRetracted) != 1 {
		t.Errorf("%d retractions, left are %s", k.Count(api.DialogueEventRetracted), agenttest.Show(items))
	}
}

// The parent of a heartbeat is the tool itself, so it makes no sub-transcript.
func TestHeartbeat(t *testing.T) {
	k := ready(t)
	k.Says(`{"type":"assistant","message":{"id":"msg","content":[{"type":"tool_use","id":"t-1","name":"Bash","input":{"command":"sleep 99"}}]}}`)
	before := len(k.Events)
	k.Says(`{"type":"tool_progress","tool_use_id":"t-1-heartbeat-1","parent_tool_use_id":"t-1","tool_name":"Bash","elapsed_time_seconds":30,"heartbeat":true}`)
	if len(k.Events) != before {
		t.Errorf("it made %s", agenttest.Show(k.Events[before:]))
	}
}

// Old versions report a task before the call that started it.
func TestTaskBeforeItsCall(t *testing.T) {
	k := ready(t)
	k.Says(`{"type":"system","subtype":"init"}`,
		`{"type":"system","subtype":"task_started","task_id":"a","task_type":"local_agent","tool_use_id":"t-1","description":"d"}`,
		`{"type":"assistant","parent_tool_use_id":"t-1","message":{"id":"msg-2","content":[{"type":"text","text":"early"}]}}`,
		`{"type":"assistant","message":{"id":"msg-1","content":[{"type":"tool_use","id":"t-1","name":"Task","input":{}}]}}`)
	items := k.Tree.Result().Items
	if len(items) != 1 || items[0].Tool.TaskID != "k1.1" || items[0].NativeID != "t-1" || items[0].Tool.Kind != "agent" || len(items[0].Tool.Items) != 1 {
		t.Errorf("items %s", agenttest.Show(items))
	}
}

func TestReset(t *testing.T) {
	k := ready(t)
	k.Says(`{"type":"system","subtype":"init","uuid":"a","session_id":"s-1"}`, `{"type":"result","subtype":"success","uuid":"b","session_id":"s-1"}`,
		`{"type":"conversation_reset","new_conversation_id":"no session","uuid":"c","session_id":"s-1"}`,
		`{"type":"system","subtype":"init","uuid":"d","session_id":"s-2"}`)
	if o := k.Last(api.DialogueEventReset).Opened; o.NativeSession != "s-2" || o.Why != "cleared" || k.Count(api.DialogueEventReset) != 1 {
		t.Errorf("reset %s", agenttest.Show(o))
	}
	k = agenttest.NewTalk(t, claude.Agent{}, agent.Options{Resume: "s-1"})
	k.Says(`{"type":"system","subtype":"init","uuid":"a","session_id":"s-2"}`)
	if o := k.Last(api.DialogueEventReset).Opened; o.NativeSession != "s-2" || o.Why != "forked" {
		t.Errorf("reset %s", agenttest.Show(o))
	}
}

// Totals are never added up. Old versions report only totals: some begin with the totals of the
// resumed conversation, and some count from 0 after the conversation is cleared.
func TestTotals(t *testing.T) {
	const began = `{"type":"control_response","response":{"subtype":"success","request_id":"trl-3","response":{"session":{"total_cost_usd":%d,"model_usage":%s}}}}`
	hello := `{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{"claude_code_version":"2.1.309"}}}`
	uses := func(n int) string {
		return fmt.Sprintf(`{"x":{"inputTokens":%d,"outputTokens":%d},"y":{"inputTokens":%d}}`, n, n, n)
	}
	result := func(uuid, session string, n int) string {
		return fmt.Sprintf(`{"type":"result","subtype":"success","uuid":"%s","session_id":"%s","total_cost_usd":%d,"modelUsage":%s}`, uuid, session, n, uses(n))
	}
	none := `{"type":"result","subtype":"error_during_execution","uuid":"n","session_id":"s-1","total_cost_usd":0,"modelUsage":{}}`
	said := `{"type":"assistant","uuid":"s","session_id":"s-1","message":{"id":"msg","content":[{"type":"text","text":"x"}]}}`
	for name, tc := range map[string]struct {
		resume string
		lines  []string
		want   int64
	}{
		"new":                           {"", []string{hello, result("a", "s-1", 1), result("b", "s-1", 3)}, 3},
		"cleared, anew":                 {"", []string{hello, result("a", "s-1", 3), result("b", "s-2", 0), result("c", "s-2", 10)}, 13},
		"cleared, going on":             {"", []string{hello, result("a", "s-1", 3), result("b", "s-2", 3), result("c", "s-2", 10)}, 10},
		"a result without":              {"", []string{hello, result("a", "s-1", 3), none, result("b", "s-1", 4)}, 4},
		"resumed with earlier ones":     {"s-1", []string{hello, fmt.Sprintf(began, 5, uses(5)), result("a", "s-1", 6), result("b", "s-1", 8)}, 3},
		"the same, forked":              {"s-0", []string{hello, fmt.Sprintf(began, 5, uses(5)), result("a", "s-1", 6), result("b", "s-1", 8)}, 3},
		"the same, cleared":             {"s-1", []string{hello, fmt.Sprintf(began, 5, uses(5)), result("a", "s-1", 6), result("b", "s-2", 0), result("c", "s-2", 10)}, 11},
		"the same, without a result":    {"s-1", []string{hello, fmt.Sprintf(began, 5, uses(5)), none, result("b", "s-1", 8)}, 3},
		"resumed without earlier ones":  {"s-1", []string{hello, fmt.Sprintf(began, 0, `{}`), result("a", "s-1", 6), result("b", "s-1", 8)}, 8},
		"resumed, told too late":        {"s-1", []string{hello, said, fmt.Sprintf(began, 6, uses(6)), result("a", "s-1", 6)}, 6},
		"resumed, and it does not tell": {"s-1", []string{hello, `{"type":"control_response","response":{"subtype":"error","request_id":"trl-3","error":"Unsupported control request subtype: get_usage"}}`, result("a", "s-1", 6)}, 6},
	} {
		k := agenttest.NewTalk(t, claude.Agent{}, agent.Options{Resume: tc.resume})
		k.Says(tc.lines...)
		if u := k.Last(api.DialogueEventUsage).Usage; u.InputTokens != 2*tc.want || u.OutputTokens != tc.want || *u.CostUSD != float64(tc.want) {
			t.Errorf("%s: %s, want %d", name, agenttest.Show(u), tc.want)
		}
	}
}

// Only an old version that resumes a conversation gets a question for its totals, because the
// answer may take long.
func TestTotalsAsked(t *testing.T) {
	for _, tc := range []struct {
		version, resume string
		asked           bool
	}{{"", "s-1", true}, {"2.1.99", "s-1", true}, {"2.1.309", "s-1", true}, {"2.1.310", "s-1", false}, {"2.2.0", "s-1", false}, {"2.1.309", "", false}} {
		k := agenttest.NewTalk(t, claude.Agent{}, agent.Options{Resume: tc.resume})
		k.Says(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{"claude_code_version":"` + tc.version + `"}}}`)
		if asked := strings.Contains(k.LastWrite(), `"get_usage"`); asked != tc.asked {
			t.Errorf("%+v: asked %v", tc, asked)
		}
	}
}

func TestUnparsed(t *testing.T) {
	long := strings.Repeat("é", 5000)
	for line, why := range map[string]string{
		"\x1b[?25h":                       "not_json",
		`{"type":"assistant"`:             "not_json",
		long:                              "not_json",
		`null`:                            "bad_shape",
		`[1]`:                             "bad_shape",
		`{"type":7}`:                      "bad_shape",
		`{"type":"assistant","uuid":"u"}`: "bad_shape",
		`{"type":"user","message":{"content":"hi"}}`: "bad_shape", // a terminal's echo has no id
		`{"type":"control_request"}`:                 "bad_shape",
		`{"type":"system","subtype":"task_started"}`: "bad_shape",
		`{"type":"brand_new","uuid":"u"}`:            "unknown_type",
		`{"type":"system","subtype":"brand_new"}`:    "unknown_subtype",
	} {
		k := ready(t)
		k.Hear([]byte(line))
		if u := k.Last(api.DialogueEventUnparsed).Unparsed; u.Why != why || u.Bytes != int64(len(line)) || len(u.Text) > 4100 {
			t.Errorf("%.60q: %s", line, agenttest.Show(u))
		}
	}
}

// Each line makes its notice.
func TestNotices(t *testing.T) {
	for line, code := range map[string]string{
		`{"type":"system","subtype":"informational","content":"x","level":"warning"}`:                   "informational",
		`{"type":"system","subtype":"hook_response","hook_name":"h","outcome":"error","stderr":"boom"}`: "hook",
		`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected"}}`:                           "rate_limit",
		`{"type":"auth_status","isAuthenticating":false,"error":"expired"}`:                             "auth",
		`{"type":"system","subtype":"model_refusal_no_fallback","content":"refused"}`:                   "model_refusal",
		`{"type":"system","subtype":"session_writes_lost","error_code":"ENOSPC"}`:                       "session_writes_lost",
	} {
		k := ready(t)
		k.Says(line)
		if n := k.Last(api.DialogueEventNotice).Notice; n.Code != code || n.Text == "" {
			t.Errorf("%s: %s", line, agenttest.Show(n))
		}
	}
	k := ready(t)
	before := len(k.Events)
	k.Says(`{"type":"rate_limit_event","rate_limit_info":{"status":"allowed"}}`, `{"type":"system","subtype":"hook_response","outcome":"success"}`,
		`{"type":"keep_alive"}`, `{"type":"system","subtype":"thinking_tokens"}`)
	if len(k.Events) != before {
		t.Errorf("nothing to tell, but %s", agenttest.Show(k.Events[before:]))
	}
}

// Lines in any order, with any left out: everything can still be closed.
func TestShuffled(t *testing.T) {
	for i, r := range agenttest.Recordings(t, ".") {
		moves := movesOf(t, r)
		for seed := range uint64(5) {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			mixed := append([]agenttest.Move(nil), moves...)
			random.Shuffle(len(mixed), func(a, b int) { mixed[a], mixed[b] = mixed[b], mixed[a] })
			k := agenttest.NewTalk(t, claude.Agent{}, optionsOf(r))
			k.Play(mixed[:len(mixed)-random.IntN(len(mixed))])
			k.End()
			k.Check()
			if t.Failed() {
				t.Fatalf("%s, seed %d", r.Name, seed)
			}
		}
	}
}
