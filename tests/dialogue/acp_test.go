package dialogue_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// acpAgent is a dialogue with the fake agent, which speaks the Agent Client Protocol.
func acpAgent(flags ...string) api.DialogueCreateParams {
	return api.DialogueCreateParams{Agent: "acp", Argv: append([]string{fakeAgent(), "-acp"}, flags...), WorkingDir: "/"}
}

// TestACP: an agent of the other kind does the same in the same words.
func TestACP(t *testing.T) {
	w := start(t)
	d := w.create(acpAgent())
	if d.State != api.DialogueIdle || d.Version != "1.0.0" || d.NativeSession == "" {
		t.Errorf("%+v", d)
	}
	id := d.DialogueID
	f := w.follow(id, 0)
	if end := w.says(id, "think about it; say hello, world; tool Read /etc/motd; plan look, leap; say bye").Turn; end.Outcome != "completed" {
		t.Errorf("%+v", end)
	}
	kinds := map[string]string{}
	for _, item := range w.transcript(id).Items {
		text := ""
		if len(item.Parts) > 0 {
			text = item.Parts[0].Text
		}
		if item.Tool != nil {
			text = item.Tool.Kind + " " + item.Tool.Status
		}
		kinds[item.Kind] += text + "."
	}
	if kinds["reasoning"] != "about it." || kinds["agent"] != "hello, world.bye." || kinds["tool_call"] != "read completed." || kinds["plan"] == "" {
		t.Errorf("%v", kinds)
	}
	f.until(api.DialogueEventTurnEnded)

	// What it asks for is answered with one of its own options.
	for decision, want := range map[string]string{"allow": "done with yes: rm", "deny": `not allowed`} {
		w.send(id, "ask Bash rm; say on")
		r := f.until(api.DialogueEventRequestOpened).Request
		if r.Kind != "permission" || len(r.Options) != 3 || !strings.Contains(r.Subject+r.Title, "rm") {
			t.Errorf("%+v", r)
		}
		f.state(api.DialogueRequiresAction)
		if err := w.respond(id, r.RequestID, decision); err != nil {
			t.Error(err)
		}
		f.until(api.DialogueEventTurnEnded)
		if tool := w.lastTool(id); len(tool.Output) == 0 || !strings.Contains(tool.Output[0].Text, want) {
			t.Errorf("%s: %+v", decision, tool)
		}
		testkit.WantError(t, w.respond(id, r.RequestID, "allow"), api.CodeConflict, "answered")
	}
	w.send(id, "ask Bash rm")
	r := f.until(api.DialogueEventRequestOpened).Request
	testkit.Must(w.DialogueRespond(w.ctx, api.DialogueRespondParams{DialogueID: id, RequestID: r.RequestID, Option: "always"}))(w)
	f.until(api.DialogueEventTurnEnded)
	if tool := w.lastTool(id); !strings.Contains(tool.Output[0].Text, "done with always") {
		t.Errorf("%+v", tool)
	}

	// An interrupt ends the turn, and what it asks for.
	for _, script := range []string{"hang", "ask Bash rm; say not reached"} {
		sent := w.send(id, script)
		f.until(api.DialogueEventTurnStarted, func(ev *api.DialogueEvent) bool { return ev.Seq > sent.Seq-10 })
		if strings.HasPrefix(script, "ask") {
			f.until(api.DialogueEventRequestOpened)
		}
		testkit.Must(w.DialogueInterrupt(w.ctx, api.DialogueInterruptParams{DialogueID: id}))(w)
		if end := f.until(api.DialogueEventTurnEnded).Turn; end.Outcome != "interrupted" {
			t.Errorf("%s: %+v", script, end)
		}
		if open := openIn(w.transcript(id)); len(open) > 0 {
			t.Errorf("%s: open: %q", script, open)
		}
	}
	for script, outcome := range map[string]string{"fail it broke": "failed", "fail max_tokens": "limit"} {
		if end := w.says(id, script).Turn; end.Outcome != outcome {
			t.Errorf("%s: %+v", script, end)
		}
	}
	if end := w.says(id, "garbage; blank; unknown-type; crlf so; unknown-request; say fine").Turn; end.Outcome != "completed" {
		t.Errorf("%+v", end)
	}
	if n := len(unparsedIn(w.events(id))); n < 2 {
		t.Errorf("%d lines are told as unparsed", n)
	}
	testkit.Must(w.DialogueSet(w.ctx, api.DialogueSetParams{DialogueID: id, PermissionMode: "plan"}))(w)
	w.says(id, "settings")
	if !strings.HasSuffix(w.said(id), " plan") {
		t.Errorf("%q", w.said(id))
	}
	w.terminate(id)
	w.ended(w.info(id), "closed")
}

// TestACPDeny: an agent that sends the command only in the title of its request, or nowhere,
// or inside another command, or does not send the kind of its tool, does not get around a rule
// that denies.
func TestACPDeny(t *testing.T) {
	w := start(t)
	p := acpAgent()
	p.Policy = &api.DialoguePolicy{Rules: []api.DialogueRule{{Tool: "execute", Pattern: "rm *", Action: "deny"}, {Tool: "*", Pattern: "*", Action: "allow"}}}
	d := w.create(p)
	for _, c := range []struct{ script, source, decision, by string }{
		{"ask Bash rm -rf x", "input", "deny", "policy"},
		{"ask Bash ls", "input", "allow", "policy"},
		{"ask-titled rm -rf x", "title", "deny", "policy"},
		{"ask-titled Run `rm -rf x`", "title", "deny", "policy"},
		{"ask-titled ls && rm -rf x", "title", "deny", "policy"},
		{"ask-titled ls", "title", "allow", "policy"},
		{"ask-untitled rm -rf x", "", "deny", "client"},
		{`ask-call {"title":"rm -rf /"}`, "title", "deny", "policy"},
		{`ask-call {"title":"rm -rf /","kind":"other"}`, "title", "deny", "policy"},
		{`ask-call {"title":"rm -rf /","kind":"shell"}`, "title", "deny", "policy"},
		{`ask-call {"title":"ls"}`, "title", "allow", "policy"},
		{`ask-call {"title":"look"}`, "title", "allow", "policy"},
		{`ask-call {"title":"look","rawInput":{"command":"rm -rf /"}}`, "input", "deny", "policy"},
		{`ask-call {"title":"look","rawInput":{"path":"/tmp","script":"rm -rf /"}}`, "input", "deny", "policy"},
		{`ask-call {}`, "", "deny", "client"},
		{`ask-call {"kind":"execute","rawInput":{"command":"cd /\u003b rm -rf /"}}`, "input", "deny", "policy"},
		{`ask-call {"kind":"execute","rawInput":{"command":"true\nrm -rf /"}}`, "input", "deny", "policy"},
		{`ask-call {"kind":"execute","rawInput":{"command":["bash","-lc","rm -rf /"]}}`, "input", "deny", "policy"},
		{`ask-call {"kind":"execute","rawInput":{"command":"rm","args":["-rf","/"]}}`, "input", "deny", "policy"},
		{`ask-call {"kind":"execute","rawInput":{"command":["ls","-l"]}}`, "input", "allow", "policy"},
	} {
		sent := w.send(d.DialogueID, c.script)
		f := w.follow(d.DialogueID, sent.Seq)
		opened := f.until(api.DialogueEventRequestOpened).Request
		if c.by == "client" {
			f.state(api.DialogueRequiresAction)
			if err := w.respond(d.DialogueID, opened.RequestID, c.decision); err != nil {
				t.Errorf("%s: %v", c.script, err)
			}
		}
		closed := f.until(api.DialogueEventRequestClosed).Request
		f.until(api.DialogueEventTurnEnded)
		f.close()
		if opened.SubjectSource != c.source || closed.By != c.by || closed.Decision != c.decision {
			t.Errorf("%s: %+v, %+v", c.script, opened, closed)
		}
		if tool := w.lastTool(d.DialogueID); (tool.Status == "completed") != (c.decision == "allow") {
			t.Errorf("%s: %+v", c.script, tool)
		}
	}
}

// TestACPResume: the agent loads the conversation and sends it again, and the transcript has it
// once.
func TestACPResume(t *testing.T) {
	w := start(t)
	d := w.create(acpAgent())
	f := w.follow(d.DialogueID, 0)
	w.says(d.DialogueID, "say first")
	w.send(d.DialogueID, "kill9")
	f.drain()
	w.ended(d, "unexpected_exit")
	native := w.info(d.DialogueID).NativeSession
	info := testkit.Must(w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: d.DialogueID, Prompt: "say second"}))(w)
	if info.Epoch != 2 || info.NativeSession != native {
		t.Errorf("%+v", info)
	}
	testkit.Eventually(t, "the turn is over", func() bool { return w.info(d.DialogueID).State == api.DialogueIdle && w.said(d.DialogueID) == "second" })
	for _, item := range w.transcript(d.DialogueID).Items {
		if len(item.Parts) > 0 && strings.Contains(item.Parts[0].Text, "before") {
			t.Errorf("told again: %+v", item)
		}
	}
	_, err := w.DialogueCreate(w.ctx, api.DialogueCreateParams{Agent: "acp", Argv: append(acpAgent().Argv, "-fail-resume"), WorkingDir: "/", Resume: "nowhere"})
	testkit.WantError(t, err, api.CodeAgentFailed, "nowhere")
}

// TestACPDaemonDies: also with ACP, a new daemon continues where the old one stopped.
func TestACPDaemonDies(t *testing.T) {
	w := start(t)
	run := func(die func()) tale {
		g := newGates(t)
		d := w.create(acpAgent("-seed", "acp", "-gates", g.dir))
		testkit.Must(w.DialogueSend(w.ctx, api.DialogueSendParams{DialogueID: d.DialogueID, Text: "say hello; split line cut in two; tool Bash ls; gate turn; ask Bash rm; say end", MessageID: messageID}))(w)
		for _, gate := range []string{"line", "turn"} {
			g.reached(gate)
			die()
			g.open(gate)
		}
		f := w.follow(d.DialogueID, 0)
		r := f.until(api.DialogueEventRequestOpened).Request
		die()
		if err := w.respond(d.DialogueID, r.RequestID, "allow"); err != nil {
			t.Error(err)
		}
		die()
		f = w.follow(d.DialogueID, f.after)
		f.until(api.DialogueEventTurnEnded)
		f.state(api.DialogueIdle)
		got := w.tale(d.DialogueID)
		w.terminate(d.DialogueID)
		return got
	}
	want := run(func() {})
	run(func() { w.restart(nil) }).equals(t, "restarted", want)
}

// TestACPSameConversationID: another program may have a conversation with the same id; the same program
// has only one.
func TestACPSameConversationID(t *testing.T) {
	w := start(t)
	other := acpAgent()
	other.Argv[0] = filepath.Join(t.TempDir(), "other")
	if err := os.Symlink(fakeAgent(), other.Argv[0]); err != nil {
		t.Fatal(err)
	}
	var first api.DialogueInfo
	for _, p := range []api.DialogueCreateParams{acpAgent(), other} {
		p.Resume = "session-1"
		d := w.create(p)
		if d.NativeSession != "session-1" {
			t.Errorf("%+v", d)
		}
		if first.DialogueID == "" {
			first = d
		}
		_, err := w.DialogueCreate(w.ctx, p)
		testkit.WantError(t, err, api.CodeConflict, `conversation "session-1" of acp is taken by `+d.DialogueID)
	}
	launched := acpAgent()
	launched.Argv, launched.Resume = append([]string{"env", "-u", "X"}, launched.Argv...), "session-1"
	w.create(launched)
	testkit.Must(w.DialogueTerminate(w.ctx, api.DialogueTerminateParams{DialogueID: first.DialogueID}))(w)
	again := testkit.Must(w.DialogueResume(w.ctx, api.DialogueResumeParams{DialogueID: first.DialogueID}))(w)
	if again.State != api.DialogueIdle || again.NativeSession != "session-1" {
		t.Errorf("%+v", again)
	}
}
