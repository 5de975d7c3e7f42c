package codex_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
	"github.com/trl-dev/trl/internal/dialogue/agent/codex"
)

// TestRecordings plays recordings of the real program.
func TestRecordings(t *testing.T) { agenttest.Replays(t, codex.Agent{}) }

// TestCutAnywhere ends every recording after every line: everything open can be closed.
func TestCutAnywhere(t *testing.T) { agenttest.CutAnywhere(t, codex.Agent{}) }

// TestModes tries the words for the permission mode, at the start and later.
func TestModes(t *testing.T) {
	a := codex.Agent{}
	for mode, want := range map[string][2]any{
		"":                           {nil, nil},
		"untrusted":                  {"untrusted", nil},
		"never":                      {"never", nil},
		"read-only":                  {nil, "read-only"},
		"on-request/workspace-write": {"on-request", "workspace-write"},
		"danger-full-access/never":   {"never", "danger-full-access"},
	} {
		if _, _, err := a.Command(agent.Options{PermissionMode: mode}); err != nil {
			t.Errorf("%q: %v", mode, err)
		}
		k := agenttest.NewTalk(t, codex.Agent{}, agent.Options{PermissionMode: mode})
		k.Hears(`{"id":1,"result":{}}`)
		if w := k.LastWritten(); w.Method != "thread/start" || w.Params["approvalPolicy"] != want[0] || w.Params["sandbox"] != want[1] {
			t.Errorf("%q: %+v", mode, w)
		}
	}
	if _, _, err := a.Command(agent.Options{PermissionMode: "acceptEdits"}); err == nil || !strings.Contains(err.Error(), "acceptEdits") {
		t.Errorf("a mode of another agent: %v", err)
	}
	argv, _, err := a.Command(agent.Options{Argv: []string{"/opt/codex", "-c", "x=1"}})
	if err != nil || !slices.Equal(argv, []string{"/opt/codex", "-c", "x=1", "app-server"}) {
		t.Errorf("argv %q, %v", argv, err)
	}
	k := agenttest.CodexReady(t)
	k.Do(agent.Call{ID: "set", Set: &agent.Setting{PermissionMode: "plan"}})
	if err := k.Answers["set"]; err == nil || err.Code != api.CodeInvalidParams {
		t.Errorf("setting an unknown mode: %v", err)
	}
}

// TestSubjects checks the subject of a request. The policy compares its rules with it, so it must
// never look like less than the command or the change.
func TestSubjects(t *testing.T) {
	for command, want := range map[string]string{
		`/bin/bash -lc 'git status'`:                `git status`,
		`/bin/bash -lc ls`:                          `ls`,
		`bash -c "echo \"a\" 'b'"`:                  `echo "a" 'b'`,
		`/bin/zsh -lc 'echo '\''x'\'''`:             `echo 'x'`,
		`/bin/bash -lc 'git status' ; rm -rf /`:     `/bin/bash -lc 'git status' ; rm -rf /`,
		`/bin/bash -lc 'git status' x`:              `/bin/bash -lc 'git status' x`,
		`/bin/bash -lc "echo $(id)"`:                `/bin/bash -lc "echo $(id)"`,
		`/bin/bash -lc 'git`:                        `/bin/bash -lc 'git`,
		`/bin/bash -lc git;id`:                      `/bin/bash -lc git;id`,
		`python -c 'print(1)'`:                      `python -c 'print(1)'`,
		`git status`:                                `git status`,
		`/bin/bash -lc 'git status && rm -rf /tmp'`: `git status && rm -rf /tmp`,
	} {
		k := agenttest.CodexReady(t)
		q, _ := json.Marshal(command)
		k.Hears(fmt.Sprintf(`{"method":"item/commandExecution/requestApproval","id":7,"params":{"threadId":"T","turnId":"turn1","itemId":"i","command":%s}}`, q))
		if got := k.Last(api.DialogueEventRequestOpened).Request.Subject; got != want {
			t.Errorf("%s is about %q", command, got)
		}
	}
	for paths, want := range map[string]string{
		`/w/a.go`: `/w/a.go`, `/w/a.go /w/b/c.go`: `/w/`, `/w/src/a /etc/passwd`: `/`, `/w/src/a /w/src2/b`: `/w/`, `src/a src/b`: `src/`, `src/a other`: `./`,
		`/w/src/../../etc/x /w/src/y`: `/`,
	} {
		k := agenttest.CodexReady(t)
		var changes []string
		for _, p := range strings.Fields(paths) {
			changes = append(changes, fmt.Sprintf(`{"path":%q,"kind":{"type":"add"},"diff":"x"}`, p))
		}
		k.Hears(agenttest.CodexTurn, `{"method":"item/started","params":{"threadId":"T","turnId":"turn1","item":{"type":"fileChange","id":"i","status":"inProgress","changes":[`+strings.Join(changes, ",")+`]}}}`,
			`{"method":"item/fileChange/requestApproval","id":7,"params":{"threadId":"T","turnId":"turn1","itemId":"i"}}`)
		r := k.Last(api.DialogueEventRequestOpened).Request
		if r.Subject != want {
			t.Errorf("%s is about %q, not %q", paths, r.Subject, want)
		}
		// The policy compares each file, not only their directory.
		if len(changes) > 1 && len(r.Paths) != len(changes) || len(changes) == 1 && r.Paths != nil {
			t.Errorf("%s: paths %q", paths, r.Paths)
		}
	}
}

// TestAnswers checks the line for Codex for each answer to each kind of request.
func TestAnswers(t *testing.T) {
	command := `{"method":"item/commandExecution/requestApproval","id":"q","params":{"threadId":"T","turnId":"turn1","itemId":"i","command":"x","availableDecisions":["accept",{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["x"]}},"cancel"]}}`
	file := `{"method":"item/fileChange/requestApproval","id":"q","params":{"threadId":"T","turnId":"turn1","itemId":"i"}}`
	more := `{"method":"item/permissions/requestApproval","id":"q","params":{"threadId":"T","turnId":"turn1","itemId":"i","permissions":{"network":{"enabled":true},"fileSystem":null}}}`
	form := `{"method":"mcpServer/elicitation/request","id":"q","params":{"threadId":"T","turnId":null,"serverName":"s","mode":"form","message":"Who?","requestedSchema":{"type":"object"}}}`
	ask := `{"method":"item/tool/requestUserInput","id":"q","params":{"threadId":"T","turnId":"turn1","itemId":"i","questions":[{"id":"a","header":"A","question":"Which?","options":[{"label":"x","description":"y"}]},{"id":"b","header":"B","question":"Why?","options":null}]}}`
	type answer = api.DialogueRespondParams
	for _, c := range []struct {
		request string
		answer  answer
		want    string // the result, or the code of the error
	}{
		{command, answer{Decision: "allow"}, `{"decision":"accept"}`},
		{command, answer{Decision: "allow", Remember: true}, `{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["x"]}}}`},
		{command, answer{Decision: "deny"}, `{"decision":"decline"}`},
		{command, answer{Decision: "deny", Interrupt: true}, `{"decision":"cancel"}`},
		{command, answer{Option: "acceptWithExecpolicyAmendment"}, `{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["x"]}}}`},
		{command, answer{Option: "cancel"}, `{"decision":"cancel"}`},
		{command, answer{Option: "acceptForSession"}, "INVALID_PARAMS"},
		{command, answer{Decision: "deny", Option: "accept"}, "INVALID_PARAMS"},
		{command, answer{Decision: "deny", Option: "decline"}, `{"decision":"decline"}`},
		{command, answer{Decision: "allow", Input: json.RawMessage(`{}`)}, "INVALID_PARAMS"},
		{file, answer{Decision: "allow", Remember: true}, `{"decision":"acceptForSession"}`},
		{file, answer{Decision: "deny"}, `{"decision":"decline"}`},
		{more, answer{Decision: "allow"}, `{"permissions":{"network":{"enabled":true}},"scope":"turn"}`},
		{more, answer{Decision: "allow", Remember: true}, `{"permissions":{"network":{"enabled":true}},"scope":"session"}`},
		{more, answer{Decision: "deny"}, `{"permissions":{},"scope":"turn"}`},
		{form, answer{Decision: "allow", Input: json.RawMessage(`{"name":"Ada"}`)}, `{"action":"accept","content":{"name":"Ada"},"_meta":null}`},
		{form, answer{Answers: map[string]string{"name": "Ada"}}, `{"action":"accept","content":{"name":"Ada"},"_meta":null}`},
		{form, answer{Decision: "deny"}, `{"action":"decline","content":null,"_meta":null}`},
		{form, answer{Decision: "deny", Interrupt: true}, `{"action":"cancel","content":null,"_meta":null}`},
		{ask, answer{Answers: map[string]string{"Which?": "x", "b": "so"}}, `{"answers":{"a":{"answers":["x"]},"b":{"answers":["so"]}}}`},
		{ask, answer{Decision: "deny"}, `{"answers":{}}`},
		{ask, answer{Decision: "allow"}, "INVALID_PARAMS"},
		{ask, answer{Answers: map[string]string{"Where?": "x"}}, "INVALID_PARAMS"},
		{ask, answer{Answers: map[string]string{"a": "x"}, Input: json.RawMessage(`{}`)}, "INVALID_PARAMS"},
		{strings.Replace(ask, `,{"id":"b","header":"B","question":"Why?","options":null}`, "", 1), answer{Option: "x"}, `{"answers":{"a":{"answers":["x"]}}}`},
		{file, answer{Answers: map[string]string{"a": "no"}}, "INVALID_PARAMS"},
		{more, answer{Answers: map[string]string{"a": "no"}}, "INVALID_PARAMS"},
		{more, answer{Option: "deny"}, "INVALID_PARAMS"},
		{form, answer{Option: "decline"}, "INVALID_PARAMS"},
	} {
		k := agenttest.CodexReady(t)
		k.Hears(agenttest.CodexTurn, c.request)
		asked := k.Last(api.DialogueEventRequestOpened).Request
		id := asked.RequestID
		if id != "r1.1" || asked.NativeID != "q" {
			t.Errorf("request %s", agenttest.Show(asked))
		}
		c.answer.RequestID = id
		err := k.Respond(c.answer)
		if err != nil {
			if string(err.Code) != c.want {
				t.Errorf("%+v: %v", c.answer, err)
			}
			if again := k.Respond(answer{RequestID: id, Decision: "deny"}); again != nil {
				t.Errorf("after an answer that could not be, it can no longer be answered: %v", again)
			}
			continue
		}
		w := k.Wrote[len(k.Wrote)-1]
		if want := `{"id":"q","result":` + c.want + `}`; !agenttest.SameJSON(t, []byte(want), w) {
			t.Errorf("%+v: wrote %s, not %s", c.answer, w, want)
		}
		if how := k.Last(api.DialogueEventRequestClosed).Request; how.How != "answered" || how.By != "client" {
			t.Errorf("closed %+v", how)
		}
		if err := k.Respond(c.answer); err == nil || err.Code != api.CodeConflict {
			t.Errorf("a second answer: %v", err)
		}
	}
}

// TestDecisions checks the published decision of each chosen option.
func TestDecisions(t *testing.T) {
	network := func(host, action string) string {
		return fmt.Sprintf(`{"applyNetworkPolicyAmendment":{"network_policy_amendment":{"host":%q,"action":%q}}}`, host, action)
	}
	asks := `{"method":"item/commandExecution/requestApproval","id":7,"params":{"threadId":"T","turnId":"turn1","itemId":"i","command":"curl x","availableDecisions":["accept","accept",` +
		network("deny", "allow") + `,` + network("x", "deny") + `,"decline"]}}`
	kinds := map[string]string{}
	for _, c := range []struct{ option, kind, decision, told string }{
		{"accept", "allow", "allow", `"accept"`},
		{"applyNetworkPolicyAmendment", "allow_always", "allow", network("deny", "allow")},
		{"applyNetworkPolicyAmendment-2", "deny_always", "deny", network("x", "deny")},
		{"decline", "deny", "deny", `"decline"`},
		{"cancel", "deny", "deny", `"cancel"`},
	} {
		k := agenttest.CodexReady(t)
		k.Hears(agenttest.CodexTurn, asks)
		q := k.Last(api.DialogueEventRequestOpened).Request
		for _, o := range q.Options {
			kinds[o.ID] = o.Kind
		}
		if kinds[c.option] != c.kind || len(q.Options) != 5 {
			t.Errorf("%s: offered %s", c.option, agenttest.Show(q.Options))
		}
		if err := k.Respond(api.DialogueRespondParams{RequestID: q.RequestID, Option: c.option}); err != nil {
			t.Errorf("%s: %v", c.option, err)
		}
		if closed := k.Last(api.DialogueEventRequestClosed).Request; closed.Decision != c.decision {
			t.Errorf("%s: recorded %s", c.option, agenttest.Show(closed))
		}
		agenttest.WantJSON(t, k.LastWrite(), `{"id":7,"result":{"decision":`+c.told+`}}`)
	}
}

// TestSubjectKinds checks the kind of each subject, because a rule for one kind must not decide
// about another.
func TestSubjectKinds(t *testing.T) {
	for name, c := range map[string]struct{ method, params, tool, subject, kind, source string }{
		"command":     {"item/commandExecution/requestApproval", `"kind":"command","command":"ls"`, "commandExecution", "ls", "command", "request"},
		"no command":  {"item/commandExecution/requestApproval", `"command":null`, "commandExecution", "", "", ""},
		"commands":    {"item/commandExecution/requestApproval", `"command":["rm","-rf"]`, "commandExecution", "", "", ""},
		"stdin":       {"item/commandExecution/requestApproval", `"kind":"writeStdin","command":"git status"`, "writeStdin", "", "", ""},
		"network":     {"item/commandExecution/requestApproval", `"command":"git fetch","networkApprovalContext":{"host":"example.org","protocol":"https"}`, "network", "https://example.org", "address", "request"},
		"file":        {"item/fileChange/requestApproval", `"itemId":"f"`, "fileChange", "/w/a", "path", "input"},
		"root":        {"item/fileChange/requestApproval", `"itemId":"f","grantRoot":"/w/../etc"`, "fileChange", "/etc/", "path", "request"},
		"no file":     {"item/fileChange/requestApproval", `"itemId":"g"`, "fileChange", "", "", ""},
		"permissions": {"item/permissions/requestApproval", `"cwd":"/w","permissions":{"network":{"enabled":true}}`, "permissions", "", "", ""},
		"form":        {"mcpServer/elicitation/request", `"serverName":"s","mode":"form","message":"Who?"`, "mcp__s", "", "", ""},
		"page":        {"mcpServer/elicitation/request", `"serverName":"s","mode":"url","message":"Who?","url":"https://example.org"`, "mcp__s", "https://example.org", "address", "request"},
		"question":    {"item/tool/requestUserInput", `"questions":[]`, "requestUserInput", "", "", ""},
	} {
		k := agenttest.CodexReady(t)
		k.Hears(agenttest.CodexTurn, `{"method":"item/started","params":{"threadId":"T","turnId":"turn1","item":{"type":"fileChange","id":"f","status":"inProgress","changes":[{"path":"/w/a","kind":{"type":"add"},"diff":"x"}]}}}`,
			`{"method":"`+c.method+`","id":7,"params":{"threadId":"T","turnId":"turn1",`+c.params+`}}`)
		q := k.Last(api.DialogueEventRequestOpened).Request
		if q.Tool != c.tool || q.Subject != c.subject || q.SubjectKind != c.kind || q.SubjectSource != c.source || q.Editable {
			t.Errorf("%s: %s", name, agenttest.Show(q))
		}
	}
}

// TestFigures: the usage before this process is not counted again, and its own usage is, in the
// thread of the dialogue and in the threads of subagents.
func TestFigures(t *testing.T) {
	used := func(thread string, total, last int) string {
		return fmt.Sprintf(`{"method":"thread/tokenUsage/updated","params":{"threadId":%q,"tokenUsage":{"total":{"inputTokens":%d,"cachedInputTokens":0,"outputTokens":1},"last":{"inputTokens":%d,"outputTokens":1}}}}`, thread, total, last)
	}
	answer := `{"id":2,"result":{"thread":{"id":"T"},"model":"m"}}`
	for name, c := range map[string]struct {
		resume string
		lines  []string
		want   int64
	}{
		"new":                   {"", []string{agenttest.CodexTurn, used("T", 10, 10), used("T", 30, 20)}, 30},
		"new, with a subagent":  {"", []string{agenttest.CodexTurn, used("T", 10, 10), used("child", 5, 5), used("child", 8, 3), used("T", 11, 1)}, 19},
		"resumed":               {"T", []string{used("T", 100, 40), agenttest.CodexTurn, used("T", 110, 10), used("T", 115, 5)}, 15},
		"resumed, told late":    {"T", []string{agenttest.CodexTurn, used("T", 110, 10), used("T", 115, 5)}, 15},
		"an old subagent":       {"T", []string{used("T", 100, 40), agenttest.CodexTurn, used("child", 70, 7), used("T", 101, 1)}, 8},
		"taken back":            {"T", []string{used("T", 100, 40), agenttest.CodexTurn, used("T", 60, 1), used("T", 103, 1)}, 3},
		"more cached than read": {"", []string{agenttest.CodexTurn, strings.Replace(used("T", 10, 10), `"cachedInputTokens":0`, `"cachedInputTokens":99`, 1)}, 0},
	} {
		k := agenttest.NewTalk(t, codex.Agent{}, agent.Options{Resume: c.resume, Epoch: 2})
		k.Hears(`{"id":1,"result":{}}`, answer)
		k.Hears(c.lines...)
		if u := k.Last(api.DialogueEventUsage).Usage; u.InputTokens != c.want {
			t.Errorf("%s: %s", name, agenttest.Show(u))
		}
	}
}

// TestMessageWithoutID: Codex reports a message without the id from TRL.
func TestMessageWithoutID(t *testing.T) {
	k := agenttest.CodexReady(t)
	k.Send("m1", "go")
	said := func(text, step string) string {
		return fmt.Sprintf(`{"method":"item/%s","params":{"threadId":"T","turnId":"turn1","item":{"type":"userMessage","id":"u-%s","clientId":null,"content":[{"type":"text","text":%q,"text_elements":[]}]}}}`, step, text, text)
	}
	k.Hears(`{"id":3,"result":{"turn":{"id":"turn1"}}}`, agenttest.CodexTurn, said("go", "started"), said("go", "completed"), said("more", "started"), said("more", "completed"))
	var texts []string
	for _, it := range k.Tree.Result().Items {
		texts = append(texts, it.ItemID+it.NativeID+" "+it.Parts[0].Text)
	}
	if want := []string{"m1 go", "i1.1u-more more"}; !slices.Equal(texts, want) {
		t.Errorf("%q", texts)
	}
	if m := k.Last(api.DialogueEventMessage).Message; m.MessageID != "m1" || m.State != "started" {
		t.Errorf("%s", agenttest.Show(m))
	}
}

// TestForgetsThreads has more subagents than the protocol keeps: their figures stay, and so do
// the running ones.
func TestForgetsThreads(t *testing.T) {
	k := agenttest.CodexReady(t)
	k.Hears(agenttest.CodexTurn, `{"method":"turn/started","params":{"threadId":"works","turn":{"id":"w"}}}`)
	for i := range 1500 {
		id := fmt.Sprint("child", i)
		k.Hears(fmt.Sprintf(`{"method":"turn/started","params":{"threadId":%q,"turn":{"id":"c"}}}`, id),
			fmt.Sprintf(`{"method":"thread/tokenUsage/updated","params":{"threadId":%q,"tokenUsage":{"total":{"inputTokens":2},"last":{"inputTokens":2}}}}`, id),
			fmt.Sprintf(`{"method":"turn/completed","params":{"threadId":%q,"turn":{"id":"c","status":"completed"}}}`, id))
	}
	if u := k.Last(api.DialogueEventUsage).Usage; u.InputTokens != 3000 {
		t.Errorf("%s", agenttest.Show(u))
	}
	tasks := k.Count(api.DialogueEventTask)
	k.Hears(`{"method":"turn/completed","params":{"threadId":"works","turn":{"id":"w","status":"completed"}}}`)
	if task := k.Last(api.DialogueEventTask).Task; k.Count(api.DialogueEventTask) != tasks+1 || task.NativeID != "works" || task.Status != "completed" {
		t.Errorf("%s", agenttest.Show(task))
	}
}

// TestLines checks the events of single lines.
func TestLines(t *testing.T) {
	in := func(method, params string) string {
		return `{"method":"` + method + `","params":{"threadId":"T","turnId":"turn1",` + params + `}}`
	}
	for name, c := range map[string]struct {
		lines []string
		want  string // in the last event, as JSON
	}{
		"plan":            {[]string{in("turn/plan/updated", `"explanation":"why","plan":[{"step":"one","status":"completed"},{"step":"two","status":"inProgress"},{"step":"three","status":"pending"}]`)}, `why\n\n- [x] one\n- [~] two\n- [ ] three\n`},
		"unknown":         {[]string{in("thread/somethingNew", `"x":1`)}, `"why": "unknown_type"`},
		"unknown item":    {[]string{in("item/started", `"item":{"type":"hologram","id":"h"}`)}, `"why": "unknown_subtype"`},
		"no item id":      {[]string{in("item/started", `"item":{"type":"plan"}`)}, `"why": "bad_shape"`},
		"not json":        {[]string{`Segmentation fault`}, `"why": "not_json"`},
		"not an object":   {[]string{`[1]`}, `"why": "bad_shape"`},
		"nothing":         {[]string{`{}`}, `"why": "bad_shape"`},
		"stray answer":    {[]string{`{"id":99,"result":{}}`}, `"why": "unknown_type"`},
		"unknown request": {[]string{`{"id":5,"method":"attestation/generate","params":{}}`}, `unknown_request`},
		"rerouted":        {[]string{in("model/rerouted", `"fromModel":"a","toModel":"b"`)}, `model_fallback`},
		"rate limit":      {[]string{`{"method":"account/rateLimits/updated","params":{"rateLimits":{"rateLimitReachedType":"primary"}}}`}, `rate_limit`},
		"compacted once":  {[]string{in("item/completed", `"item":{"type":"contextCompaction","id":"c"}`), in("thread/compacted", `"x":1`)}, `"type": "compacted"`},
		"limit":           {[]string{in("turn/completed", `"turn":{"id":"turn1","status":"failed","error":{"message":"too long","codexErrorInfo":"contextWindowExceeded"}}`)}, `"outcome": "limit"`},
		"no exit code": {[]string{in("item/completed", `"item":{"type":"commandExecution","id":"x","command":"ls","status":"failed","exitCode":1e99}`)}, `"status": "failed"
  }`},
		"mcp":    {[]string{in("item/completed", `"item":{"type":"mcpToolCall","id":"m","server":"s","tool":"t","status":"failed","arguments":{"a":1},"result":{"content":[{"type":"image","data":"eA==","mimeType":"image/png"}],"structuredContent":{"b":2}},"error":{"message":"no"}}`)}, `"structured": {`},
		"search": {[]string{in("item/completed", `"item":{"type":"webSearch","id":"w","query":"q","action":{"type":"openPage","url":"https://example.org"}}`)}, `"subject": "https://example.org"`},
		"moved":  {[]string{in("item/completed", `"item":{"type":"fileChange","id":"f","status":"completed","changes":[{"path":"/w/a","kind":{"type":"update","move_path":"/w/b"},"diff":"@@ -1 +1 @@\n-x\n+y\n\\ No newline at end of file\n@@ -9 +9 @@\n z\n+q\n"}]}`)}, `"old": "z\n"`},
	} {
		t.Run(name, func(t *testing.T) {
			k := agenttest.CodexReady(t)
			k.Hears(agenttest.CodexTurn)
			k.Hears(c.lines...)
			found := slices.ContainsFunc(k.Events, func(ev api.DialogueEvent) bool { return strings.Contains(agenttest.Show(ev), c.want) })
			if !found {
				t.Errorf("no event has %s: %s", c.want, agenttest.Show(k.Events))
			}
			if name == "compacted once" && strings.Count(agenttest.Show(k.Events), `"type": "compacted"`) != 1 {
				t.Error("told twice")
			}
			if name == "unknown request" && !bytes.Contains(k.Wrote[len(k.Wrote)-1], []byte(`"error":{"code":-32601`)) {
				t.Errorf("it was not refused: %s", k.Wrote[len(k.Wrote)-1])
			}
			k.End()
			k.Check()
		})
	}
}

// TestKnowsItsNotifications passes every notification that Codex 0.166.0 declares.
func TestKnowsItsNotifications(t *testing.T) {
	for _, method := range agenttest.Lines(t, "testdata/codex-0.166.0/notifications.txt") {
		k := agenttest.CodexReady(t)
		k.Hears(fmt.Sprintf(`{"method":%q,"params":{"threadId":"T","turnId":"turn1","item":{"type":"plan","id":"p"},"turn":{"id":"turn1"},"error":{"message":"x"},"message":"m"}}`, method))
		if agenttest.Show(k.Events); slices.ContainsFunc(k.Events, func(ev api.DialogueEvent) bool { return ev.Type == api.DialogueEventUnparsed }) {
			t.Errorf("%s is not known", method)
		}
	}
}

// TestInterrupts interrupts an idle agent, a turn that has not begun, and a turn that refuses it.
func TestInterrupts(t *testing.T) {
	k := agenttest.CodexReady(t)
	k.Do(agent.Call{ID: "idle", Interrupt: &agent.Interrupt{}})
	if err, answered := k.Answers["idle"]; !answered || err != nil {
		t.Errorf("at rest: %v, %v", answered, err)
	}
	k.Send("m1", "go")
	k.Do(agent.Call{ID: "early", Interrupt: &agent.Interrupt{}})
	if w := k.LastWritten(); w.Method != "turn/start" {
		t.Errorf("before there is a turn, it wrote %s", w.Method)
	}
	k.Hears(`{"id":3,"result":{"turn":{"id":"turn1"}}}`, agenttest.CodexTurn)
	if w := k.LastWritten(); w.Method != "turn/interrupt" || w.Params["turnId"] != "turn1" {
		t.Errorf("with the turn, it wrote %+v", w)
	}
	k.Hears(`{"id":4,"error":{"code":-32600,"message":"busy"}}`)
	if err := k.Answers["early"]; err == nil || err.Code != api.CodeConflict || !strings.Contains(err.Message, "busy") {
		t.Errorf("refused: %v", err)
	}
	// A turn that never begins leaves nothing to interrupt.
	k.Hears(`{"method":"turn/completed","params":{"threadId":"T","turn":{"id":"turn1","status":"completed"}}}`)
	k.Send("m2", "go")
	k.Do(agent.Call{ID: "never", Interrupt: &agent.Interrupt{}})
	k.Hears(`{"id":5,"error":{"code":-32600,"message":"no such model"}}`)
	if err, answered := k.Answers["never"]; !answered || err != nil {
		t.Errorf("for a turn that never began: %v, %v", answered, err)
	}
	if m := k.Last(api.DialogueEventMessage).Message; m.MessageID != "m2" || m.State != "cancelled" {
		t.Errorf("the message is %+v", m)
	}
	if ev := k.Last(api.DialogueEventState); ev.State != api.DialogueIdle {
		t.Errorf("state %s", ev.State)
	}
}

// TestQueues sends during a turn that takes no messages.
func TestQueues(t *testing.T) {
	k := agenttest.CodexReady(t)
	k.Hears(agenttest.CodexTurn)
	k.Send("m1", "go")
	k.Hears(`{"id":3,"error":{"code":-32600,"message":"the turn is a review"}}`)
	if m := k.Last(api.DialogueEventMessage).Message; m.State != "queued" {
		t.Errorf("the message is %s", m.State)
	}
	k.Hears(`{"method":"turn/completed","params":{"threadId":"T","turn":{"id":"turn1","status":"completed"}}}`)
	if w := k.LastWritten(); w.Method != "turn/start" || w.Params["clientUserMessageId"] != "m1" {
		t.Errorf("wrote %+v", w)
	}
	if ev := k.Last(api.DialogueEventState); ev.State != api.DialogueRunning {
		t.Errorf("state %s", ev.State)
	}
	k.Hears(`{"id":4,"error":{"code":-32600,"message":"no"}}`)
	if m := k.Last(api.DialogueEventMessage).Message; m.State != "cancelled" || k.Last(api.DialogueEventNotice).Notice.Code != "send_refused" {
		t.Errorf("the message is %s", m.State)
	}
}

// TestUnsend: a message that Codex has refused for now is dropped; one that it has is not given back.
func TestUnsend(t *testing.T) {
	k := agenttest.CodexReady(t)
	k.Hears(agenttest.CodexTurn)
	k.Send("m1", "go")
	k.Do(agent.Call{ID: "early", Unsend: &agent.Unsend{MessageID: "m1"}})
	if err := k.Answers["early"]; err == nil || err.Code != api.CodeConflict {
		t.Errorf("Codex has it: %v", err)
	}
	k.Hears(`{"id":3,"error":{"code":-32600,"message":"the turn is a review"}}`)
	k.Do(agent.Call{ID: "now", Unsend: &agent.Unsend{MessageID: "m1"}})
	if err, ok := k.Answers["now"]; !ok || err != nil || k.Last(api.DialogueEventMessage).Message.State != "cancelled" {
		t.Errorf("%v, the message is %s", err, k.Last(api.DialogueEventMessage).Message.State)
	}
	before := len(k.Wrote)
	k.Hears(`{"method":"turn/completed","params":{"threadId":"T","turn":{"id":"turn1","status":"completed"}}}`)
	if len(k.Wrote) != before || k.Last(api.DialogueEventState).State != api.DialogueIdle {
		t.Errorf("it was sent again: %q, state %s", k.Wrote[before:], k.Last(api.DialogueEventState).State)
	}
}

// TestEndOfTurn: the end of a turn closes its requests and items before it is published.
func TestEndOfTurn(t *testing.T) {
	k := agenttest.CodexReady(t)
	k.Hears(agenttest.CodexTurn, `{"method":"item/started","params":{"threadId":"T","turnId":"turn1","item":{"type":"fileChange","id":"i","status":"inProgress","changes":[]}}}`,
		`{"method":"item/fileChange/requestApproval","id":7,"params":{"threadId":"T","turnId":"turn1","itemId":"i"}}`)
	s := k.Protocol.Line([]byte(`{"method":"turn/completed","params":{"threadId":"T","turn":{"id":"turn1","status":"interrupted"}}}`))
	var told []string
	for _, ev := range s.Events {
		switch {
		case ev.Item != nil:
			told = append(told, ev.Item.Tool.Status)
		case ev.Request != nil:
			told = append(told, ev.Request.How+" by "+ev.Request.By)
		default:
			told = append(told, string(ev.Type))
		}
	}
	if want := []string{"cancelled", "withdrawn by agent", "turn_ended", "state"}; !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
	if err := k.Respond(api.DialogueRespondParams{RequestID: "r1.1", Decision: "allow"}); err == nil || err.Code != api.CodeConflict {
		t.Errorf("answered after the turn: %v", err)
	}
}

// TestSubagentBeforeItsCall: lines of a subagent come before its call names its thread.
func TestSubagentBeforeItsCall(t *testing.T) {
	k := agenttest.CodexReady(t)
	k.Hears(agenttest.CodexTurn,
		`{"method":"item/started","params":{"threadId":"T","turnId":"turn1","item":{"type":"collabAgentToolCall","id":"spawn","tool":"spawnAgent","status":"inProgress","receiverThreadIds":[],"prompt":"look"}}}`,
		`{"method":"turn/started","params":{"threadId":"child","turn":{"id":"c1"}}}`,
		`{"method":"item/completed","params":{"threadId":"child","turnId":"c1","item":{"type":"agentMessage","id":"m","text":"seen"}}}`)
	if ev := k.Last(api.DialogueEventItem); ev.Scope != k.Call("spawn") || ev.Item.NativeID != "m" {
		t.Errorf("%s", agenttest.Show(ev))
	}
	k.Hears(`{"method":"item/completed","params":{"threadId":"T","turnId":"turn1","item":{"type":"collabAgentToolCall","id":"spawn","tool":"spawnAgent","status":"completed","receiverThreadIds":["child"],"prompt":"look"}}}`,
		`{"method":"turn/completed","params":{"threadId":"T","turn":{"id":"turn1","status":"completed"}}}`)
	if ev := k.Last(api.DialogueEventState); ev.State != api.DialogueRunning {
		t.Errorf("while the subagent works: %s", ev.State)
	}
	k.Do(agent.Call{ID: "all", Interrupt: &agent.Interrupt{All: true}})
	if w := k.LastWritten(); w.Method != "turn/interrupt" || w.Params["threadId"] != "child" {
		t.Errorf("wrote %+v", w)
	}
	k.Hears(`{"method":"turn/completed","params":{"threadId":"child","turn":{"id":"c1","status":"interrupted"}}}`)
	if task := k.Last(api.DialogueEventTask).Task; task.Status != "cancelled" || task.ToolCallID != k.Call("spawn") || task.NativeID != "child" || k.Last(api.DialogueEventState).State != api.DialogueIdle {
		t.Errorf("%s", agenttest.Show(task))
	}
}

// TestSubagentStarts: the turn of a subagent begins after that of its parent has ended. Codex works
// until then, and an interrupt of everything reaches that turn.
func TestSubagentStarts(t *testing.T) {
	spawn := []string{agenttest.CodexTurn,
		`{"method":"item/started","params":{"threadId":"T","turnId":"turn1","item":{"type":"collabAgentToolCall","id":"spawn","tool":"spawnAgent","status":"inProgress","receiverThreadIds":[],"prompt":"look"}}}`,
		`{"method":"item/completed","params":{"threadId":"T","turnId":"turn1","item":{"type":"collabAgentToolCall","id":"spawn","tool":"spawnAgent","status":"completed","receiverThreadIds":["child"],"prompt":"look","agentsStates":{"child":{"status":"pendingInit"}}}}}`,
		`{"method":"turn/completed","params":{"threadId":"T","turn":{"id":"turn1","status":"completed"}}}`,
		`{"method":"thread/status/changed","params":{"threadId":"child","status":{"type":"idle"}}}`}
	state := func(k *agenttest.Talk, want api.DialogueState) {
		t.Helper()
		if ev := k.Last(api.DialogueEventState); ev.State != want {
			t.Errorf("it is %s, must be %s", ev.State, want)
		}
	}
	k := agenttest.CodexReady(t)
	k.Hears(spawn...)
	state(k, api.DialogueRunning)
	k.Do(agent.Call{ID: "all", Interrupt: &agent.Interrupt{All: true}})
	k.Hears(`{"method":"turn/started","params":{"threadId":"child","turn":{"id":"c1"}}}`)
	if w := k.LastWritten(); w.Method != "turn/interrupt" || w.Params["threadId"] != "child" || w.Params["turnId"] != "c1" {
		t.Errorf("wrote %+v", w)
	}
	state(k, api.DialogueRunning)
	k.Hears(`{"method":"turn/completed","params":{"threadId":"child","turn":{"id":"c1","status":"interrupted"}}}`)
	state(k, api.DialogueIdle)

	// A subagent that cannot start is no work.
	for _, end := range []string{
		`{"method":"thread/status/changed","params":{"threadId":"child","status":{"type":"systemError"}}}`,
		`{"method":"item/completed","params":{"threadId":"T","turnId":"turn1","item":{"type":"collabAgentToolCall","id":"wait","tool":"wait","status":"completed","receiverThreadIds":["child"],"agentsStates":{"child":{"status":"errored"}}}}}`,
	} {
		k := agenttest.CodexReady(t)
		k.Hears(spawn...)
		state(k, api.DialogueRunning)
		k.Do(agent.Call{ID: "all", Interrupt: &agent.Interrupt{All: true}})
		k.Hears(end)
		state(k, api.DialogueIdle)
		before := len(k.Wrote)
		k.Hears(`{"method":"turn/started","params":{"threadId":"child","turn":{"id":"c1"}}}`)
		if len(k.Wrote) != before {
			t.Errorf("a later turn was interrupted: %s", k.Wrote[before:])
		}
	}
}

func FuzzLines(f *testing.F) { agenttest.Fuzz(f, codex.Agent{}, agenttest.RPCMoves) }

func TestUniqueIDs(t *testing.T) {
	agenttest.UniqueIDs(t, codex.Agent{}, agenttest.RPC)
}

func TestLinesOfOthers(t *testing.T) { agenttest.LinesOfOthers(t, codex.Agent{}) }
