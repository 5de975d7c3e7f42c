package dialogue_test

import (
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

func seconds(s float64) *float64 { return &s }

// TestPolicy: the first rule that matches answers at once, with or without a client.
func TestPolicy(t *testing.T) {
	w := start(t)
	p := fake()
	p.Policy = &api.DialoguePolicy{Rules: []api.DialogueRule{
		{Tool: "Bash", Pattern: "git push*", Action: "ask"},
		{Tool: "Bash", Pattern: "git *", Action: "allow"},
		{Tool: "Bash", Pattern: "rm *", Action: "deny", Message: "nothing is removed here"},
		{Tool: "Read", Action: "allow"},
		{Tool: "Web*", Pattern: "https://example.com/*", Action: "allow"},
		{Tool: "Edit", Pattern: "/tmp/*", Action: "allow"},
	}}
	d := w.create(p)
	for _, c := range []struct{ ask, how string }{
		{"Bash git status", "allow"},
		{"Bash git log --oneline", "allow"},
		{"Bash rm -rf x", "deny"},
		{"Read /etc/passwd", "allow"},
		{"WebFetch https://example.com/x", "allow"},
		{"WebFetch https://example.com/?a=1&b=(2)", "allow"},
		{"Edit /tmp/a/b", "allow"},
		{"Edit /tmp/(a)/$b&c", "allow"},
		{"Bash git push origin", "ask"},
		{"Bash git  push origin", "ask"},
		{"Bash git status && rm -rf x", "deny"}, // a rule that denies looks at each command
		{"Bash git $(rm -rf x)", "deny"},
		{"Bash git status | sh", "ask"}, // one that allows means a single command
		{"Bash git status && git log", "ask"},
		{"Bash ls", "ask"},
		{"WebFetch https://example.org/x", "ask"},
		{"Edit /etc/passwd", "ask"},
		{"Edit /tmp/../etc/passwd", "ask"},
		{"Unheard of", "ask"},
	} {
		before := w.info(d.DialogueID).Seq
		w.send(d.DialogueID, "ask "+c.ask)
		f := w.follow(d.DialogueID, before)
		opened := f.until(api.DialogueEventRequestOpened).Request
		if c.how == "ask" {
			f.state(api.DialogueRequiresAction)
			if err := w.respond(d.DialogueID, opened.RequestID, "allow"); err != nil {
				t.Errorf("%s: %v", c.ask, err)
			}
		}
		closed := f.until(api.DialogueEventRequestClosed).Request
		f.until(api.DialogueEventTurnEnded)
		by, decision := "policy", c.how
		if c.how == "ask" {
			by, decision = "client", "allow"
		}
		if closed.RequestID != opened.RequestID || closed.By != by || closed.Decision != decision || closed.How != "answered" {
			t.Errorf("%s: %+v", c.ask, closed)
		}
		tool := w.lastTool(d.DialogueID)
		if failed := tool.Status != "completed"; failed != (decision == "deny") {
			t.Errorf("%s: %+v", c.ask, tool)
		}
		if decision == "deny" && tool.Output[0].Text != "nothing is removed here" {
			t.Errorf("%s: %+v", c.ask, tool)
		}
		f.state(api.DialogueIdle)
		f.close()
	}
	// A question is for people: no rule answers it.
	testkit.Must(w.DialogueSet(w.ctx, api.DialogueSetParams{DialogueID: d.DialogueID, Policy: allowAll}))(w)
	r := w.send(d.DialogueID, "ask Bash rm everything; question Which colour?")
	f := w.follow(d.DialogueID, r.Seq)
	if closed := f.until(api.DialogueEventRequestClosed).Request; closed.By != "policy" || closed.Decision != "allow" {
		t.Errorf("%+v", closed)
	}
	question := f.until(api.DialogueEventRequestOpened).Request
	f.state(api.DialogueRequiresAction)
	if info := w.info(d.DialogueID); info.Requests != 1 {
		t.Errorf("%+v", info)
	}
	if err := w.respond(d.DialogueID, question.RequestID, "deny"); err != nil {
		t.Error(err)
	}
	f.until(api.DialogueEventTurnEnded)
}

// TestPolicyAnswersWhatWaits: a new policy looks at what is open, and one that was set
// survives the daemon.
func TestPolicyAnswersWhatWaits(t *testing.T) {
	w := start(t)
	d := w.create(fake())
	r := w.send(d.DialogueID, "ask Bash ls; ask Bash pwd")
	f := w.follow(d.DialogueID, r.Seq)
	f.until(api.DialogueEventRequestOpened)
	f.state(api.DialogueRequiresAction)
	rules := &api.DialoguePolicy{Rules: []api.DialogueRule{{Tool: "Bash", Pattern: "ls", Action: "allow"}}}
	info := testkit.Must(w.DialogueSet(w.ctx, api.DialogueSetParams{DialogueID: d.DialogueID, Policy: rules}))(w)
	if closed := f.until(api.DialogueEventRequestClosed).Request; closed.By != "policy" || closed.Subject != "ls" {
		t.Errorf("%+v, %+v", closed, info)
	}
	waiting := f.until(api.DialogueEventRequestOpened).Request
	w.restart(nil)
	if got := w.info(d.DialogueID); got.State != api.DialogueRequiresAction || got.Requests != 1 {
		t.Errorf("%+v", got)
	}
	if err := w.respond(d.DialogueID, waiting.RequestID, "allow"); err != nil {
		t.Error(err)
	}
	f = w.follow(d.DialogueID, f.after)
	f.until(api.DialogueEventTurnEnded)
	r = w.send(d.DialogueID, "ask Bash ls")
	f = w.follow(d.DialogueID, r.Seq)
	if closed := f.until(api.DialogueEventRequestClosed).Request; closed.By != "policy" {
		t.Errorf("after a restart: %+v", closed)
	}
	_, err := w.DialogueSet(w.ctx, api.DialogueSetParams{DialogueID: d.DialogueID, Policy: &api.DialoguePolicy{Rules: []api.DialogueRule{{Tool: "x", Action: "perhaps"}}}})
	testkit.WantError(t, err, api.CodeInvalidParams, "perhaps")
}

// TestDenyAfter: a request is denied when no client has followed the dialogue for long enough, and
// not while one follows it.
func TestDenyAfter(t *testing.T) {
	w := start(t)
	p := fake()
	p.Policy = &api.DialoguePolicy{DenyAfterS: seconds(0.2), Rules: []api.DialogueRule{{Tool: "Read", Action: "allow"}}}
	d := w.create(p)
	r := w.send(d.DialogueID, "ask Bash rm; say on")
	testkit.Eventually(t, "the turn is over", func() bool {
		info := w.info(d.DialogueID)
		return info.State == api.DialogueIdle && info.Turns == 1
	})
	var closed *api.DialogueRequest
	for _, ev := range w.events(d.DialogueID) {
		if ev.Type == api.DialogueEventRequestClosed {
			closed = ev.Request
		}
	}
	if closed == nil || closed.Decision != "deny" || closed.By != "policy" {
		t.Errorf("%+v", closed)
	}
	if tool := w.lastTool(d.DialogueID); tool.Status != "failed" || !strings.Contains(tool.Output[0].Text, "answered in time") {
		t.Errorf("%+v", tool)
	}
	// While a client follows the dialogue, the request waits for its answer, several times that long.
	f := w.follow(d.DialogueID, r.Seq)
	w.send(d.DialogueID, "ask Bash rm -r; say on")
	opened := f.until(api.DialogueEventRequestOpened, func(ev *api.DialogueEvent) bool { return ev.Request.Subject == "rm -r" }).Request
	slow := w.create(fake())
	w.says(slow.DialogueID, "silence 700ms")
	if err := w.respond(d.DialogueID, opened.RequestID, "allow"); err != nil {
		t.Error(err)
	}
	f.until(api.DialogueEventTurnEnded, func(ev *api.DialogueEvent) bool { return ev.Turn.TurnID == "t1.2" })
	// When the last one leaves, the time begins; also for what was open before a restart.
	w.send(d.DialogueID, "ask Bash rmdir; say on")
	f.until(api.DialogueEventRequestOpened)
	w.restart(nil)
	f.close()
	testkit.Eventually(t, "it is denied", func() bool {
		info := w.info(d.DialogueID)
		return info.State == api.DialogueIdle && info.Turns == 3
	})
}

// TestStalled: an event reports an agent that works and is silent, once for each silence.
func TestStalled(t *testing.T) {
	w := start(t)
	p := fake()
	p.StallS = seconds(0.3)
	d := w.create(p)
	f := w.follow(d.DialogueID, 0)
	w.send(d.DialogueID, "say x; hang")
	notice := f.until(api.DialogueEventNotice).Notice
	if notice.Code != "stalled" || notice.Level != "warning" {
		t.Errorf("%+v", notice)
	}
	testkit.Eventually(t, "it works and is silent", func() bool { // the notice may be about the time before its first word
		info := w.info(d.DialogueID)
		return info.StalledAt != nil && info.State == api.DialogueRunning
	})
	testkit.Must(w.DialogueInterrupt(w.ctx, api.DialogueInterruptParams{DialogueID: d.DialogueID}))(w)
	f.state(api.DialogueIdle)
	if info := w.info(d.DialogueID); info.StalledAt != nil {
		t.Errorf("it speaks again: %+v", info)
	}
	w.says(d.DialogueID, "silence 1s; say y; silence 1s; say z")
	f.until(api.DialogueEventTurnEnded)
	told, heard := 0, true
	for _, ev := range f.events {
		if ev.Type == api.DialogueEventNotice {
			if told++; !heard {
				t.Errorf("told again without a word of the agent in between:\n%s", brief(f.events))
			}
		}
		heard = ev.Offset != nil || ev.Type != api.DialogueEventNotice && heard
	}
	if told < 3 { // more, when the machine is slow
		t.Errorf("told %d times:\n%s", told, brief(f.events))
	}
	// One that waits for an answer, or for a message, is not silent.
	w.send(d.DialogueID, "ask Bash ls")
	opened := f.until(api.DialogueEventRequestOpened)
	q := fake()
	q.StallS = seconds(0)
	never := w.create(q)
	w.says(never.DialogueID, "silence 1s")
	waited := w.info(d.DialogueID).Seq
	if err := w.respond(d.DialogueID, opened.Request.RequestID, "allow"); err != nil {
		t.Error(err)
	}
	f.until(api.DialogueEventTurnEnded)
	for _, id := range []string{d.DialogueID, never.DialogueID} {
		for _, ev := range w.events(id) {
			if ev.Type == api.DialogueEventNotice && (id == never.DialogueID || ev.Seq > opened.Seq && ev.Seq <= waited) {
				t.Errorf("%s", untimed(ev))
			}
		}
	}
}
