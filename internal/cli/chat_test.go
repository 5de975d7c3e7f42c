package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// answered is what comes of lines that a person types at a request.
func answered(r api.DialogueRequest, lines ...string) string {
	k := &asker{request: r}
	var said []string
	for _, line := range lines {
		p, done, problem := k.answer(line)
		if problem != "" {
			said = append(said, "("+problem+")")
		}
		if done {
			b, _ := json.Marshal(p)
			return strings.Join(append(said, string(b)), " ")
		}
	}
	return strings.Join(append(said, "…"), " ")
}

func TestAsker(t *testing.T) {
	bash := api.DialogueRequest{RequestID: "r", Kind: "permission", Tool: "Bash", Subject: "rm x", Input: json.RawMessage(`{"command":"rm x","n":1}`), Editable: true}
	fixed := bash
	fixed.Editable = false
	write := api.DialogueRequest{RequestID: "r", Tool: "Write", Subject: "/b", Input: json.RawMessage(`{"file_path":"/a/../b"}`), Editable: true}
	options := bash
	options.Options = []api.DialogueOption{{ID: "o1", Label: "Once", Kind: "allow"}, {ID: "o2", Label: "Here", Kind: "allow"}, {ID: "o3", Label: "No", Kind: "deny"}}
	always := bash // there is no answer that is not for ever
	always.Options = []api.DialogueOption{{ID: "o1", Label: "Always", Kind: "allow_always"}, {ID: "o2", Label: "Never", Kind: "deny_always"}}
	question := api.DialogueRequest{RequestID: "r", Kind: "question", Questions: []api.DialogueQuestion{
		{Question: "Which?", Options: []api.DialogueOption{{Label: "Red"}, {Label: "Blue"}}},
		{ID: "q2", Question: "Where?", Multiple: true, Options: []api.DialogueOption{{Label: "Here"}, {Label: "There"}}},
	}}
	for _, c := range []struct {
		request api.DialogueRequest
		lines   []string
		want    string
	}{
		{bash, []string{"", "  Y "}, `{"dialogue_id":"","request_id":"r","decision":"allow"}`},
		{bash, []string{"always"}, `{"dialogue_id":"","request_id":"r","decision":"allow","remember":true}`},
		{bash, []string{"n"}, `{"dialogue_id":"","request_id":"r","decision":"deny"}`},
		{bash, []string{"yse"}, `{"dialogue_id":"","request_id":"r","decision":"deny","message":"yse"}`},
		{bash, []string{"1"}, `{"dialogue_id":"","request_id":"r","decision":"deny","message":"1"}`},
		{bash, []string{"e", "ls <x>"}, `{"dialogue_id":"","request_id":"r","decision":"allow","input":{"command":"ls \u003cx\u003e","n":1}}`},
		{bash, []string{"e", `{"command":1`, `{"command":"ls"}`}, `(this is not JSON) {"dialogue_id":"","request_id":"r","decision":"allow","input":{"command":"ls"}}`},
		{bash, []string{"e", "", "y"}, `{"dialogue_id":"","request_id":"r","decision":"allow"}`},
		{write, []string{"e", "/tmp/x"}, `{"dialogue_id":"","request_id":"r","decision":"allow","input":{"file_path":"/tmp/x"}}`},
		{fixed, []string{"e", "n"}, `(the agent does not let this be changed) {"dialogue_id":"","request_id":"r","decision":"deny"}`},
		{options, []string{"a", "y"}, `(the agent does not offer to remember this) {"dialogue_id":"","request_id":"r","decision":"allow"}`},
		{always, []string{"y", "1"}, `(the agent does not offer to allow this once) {"dialogue_id":"","request_id":"r","option":"o1"}`},
		{always, []string{"a"}, `{"dialogue_id":"","request_id":"r","decision":"allow","remember":true}`},
		{api.DialogueRequest{RequestID: "r", Editable: true, Input: json.RawMessage(`{"a":1}`)}, []string{"e", "x"}, `(give all of the input, as JSON: {"a":1}) …`},
		{options, []string{"4", "2"}, `(there is no 4) {"dialogue_id":"","request_id":"r","option":"o2"}`},
		{question, []string{"2", "1, 2"}, `{"dialogue_id":"","request_id":"r","answers":{"Which?":"Blue","q2":"Here, There"}}`},
		{question, []string{"7", "my own", "2, else"}, `(there is no 7) {"dialogue_id":"","request_id":"r","answers":{"Which?":"my own","q2":"There, else"}}`},
		{question, []string{"1", "0"}, `{"dialogue_id":"","request_id":"r","decision":"deny"}`},
	} {
		got := answered(c.request, c.lines...)
		if got != c.want {
			t.Errorf("%q: answers %s, want %s", c.lines, got, c.want)
		}
		if at := strings.Index(got, "{\"dialogue_id"); at >= 0 {
			var p api.DialogueRespondParams
			if err := json.Unmarshal([]byte(got[at:]), &p); err != nil {
				t.Fatal(err)
			}
			if p.DialogueID = "d"; p.Check() != nil {
				t.Errorf("%q: the daemon refuses %s: %s", c.lines, got, p.Check())
			}
		}
	}
}

func TestAskerText(t *testing.T) {
	ask := func(r api.DialogueRequest) string {
		return shown(t, true, false, func(p *ui.Printer) {
			k := &asker{request: r}
			fmt.Fprint(p, k.text(p)+k.prompt(p))
		})
	}
	long := strings.Repeat("line\\n", 30)
	for _, c := range []struct {
		request api.DialogueRequest
		want    string
	}{
		{api.DialogueRequest{Kind: "permission", Tool: "Edit", Subject: "/a", Title: "Edit a", Reason: "outside\x1b[0m", Editable: true, Input: json.RawMessage(`{"file_path":"/a","old_string":"x","new_string":"y\nz"}`),
			Options: []api.DialogueOption{{Kind: "allow"}, {Kind: "deny"}}},
			"? The agent wants to use Edit: /a\n  Edit a\n  outside\\x1b[0m\n  old_string: x\n  new_string:\n    y\n    z\n  y(es), e(dit), n(o), or what to do instead: "},
		{api.DialogueRequest{Kind: "permission", Tool: "Write", Subject: "/a", Input: json.RawMessage(`{"content":"` + long + `"}`)},
			"? The agent wants to use Write: /a\n  content:\n" + strings.Repeat("    line\n", 20) + "    … 10 lines more\n  y(es), a(lways), n(o), or what to do instead: "},
		{api.DialogueRequest{Kind: "plan", Tool: "ExitPlanMode", Input: json.RawMessage(`{"plan":"first\nthen"}`)},
			"? The agent has a plan\n  plan:\n    first\n    then\n  go ahead? y(es), n(o), or what to change: "},
		{api.DialogueRequest{Kind: "question", Questions: []api.DialogueQuestion{{Header: "Colour", Question: "Which?", Options: []api.DialogueOption{{Label: "Red", Description: "warm"}, {Label: "Blue"}}}}},
			"? The agent asks\n  Colour: Which?\n  1. Red – warm\n  2. Blue\n  number, or your own words, or 0 for none: "},
		{api.DialogueRequest{Kind: "permission", Tool: "x", Options: []api.DialogueOption{{Label: "Once", Kind: "allow"}, {Label: "Never", Kind: "deny_always"}}},
			"? The agent wants to use x\n  1. Once\n  2. Never\n  number, y(es), or what to do instead: "},
		{api.DialogueRequest{Kind: "permission", Tool: "x", Options: []api.DialogueOption{{Label: "Always", Kind: "allow_always"}, {Label: "No", Kind: "deny"}}},
			"? The agent wants to use x\n  1. Always\n  2. No\n  number, a(lways), n(o), or what to do instead: "},
	} {
		if got := ask(c.request); got != c.want {
			t.Errorf("asks\n%s\nwant\n%s", got, c.want)
		}
	}
}

func TestRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(file, []byte(`{"rules":[{"tool":"*","action":"ask"}],"deny_after_s":5}`), 0o600); err != nil {
		t.Fatal(err)
	}
	f := policyFlags{file: file}
	allow, deny := &ruleFlag{&f.rules, "allow"}, &ruleFlag{&f.rules, "deny"}
	for _, err := range []error{deny.Set("Bash(rm (x) *)"), allow.Set("Bash(git *)"), allow.Set(" Read ")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	five := 5.0
	want := &api.DialoguePolicy{DenyAfterS: &five, Rules: []api.DialogueRule{
		{Tool: "Bash", Pattern: "rm (x) *", Action: "deny"}, {Tool: "Bash", Pattern: "git *", Action: "allow"}, {Tool: "Read", Action: "allow"}, {Tool: "*", Action: "ask"},
	}}
	if got, err := f.policy(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "(x)", "Bash(git"} {
		if allow.Set(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if err := os.WriteFile(file, []byte(`{"rule":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.policy(); err == nil {
		t.Error("a policy with a typo is taken")
	}
}

// TestCourse: an answer is over when the agent rests after it, not when a turn ends, and
// what belongs to an earlier message is no answer.
func TestCourse(t *testing.T) {
	turn := func(typ api.DialogueEventType, id, outcome string, messages ...string) api.DialogueEvent {
		trigger := "user"
		if id == "2" {
			trigger = "agent"
		}
		return api.DialogueEvent{Type: typ, Turn: &api.DialogueTurn{TurnID: id, Trigger: trigger, Outcome: outcome, Messages: messages}}
	}
	state := func(s api.DialogueState) api.DialogueEvent {
		return api.DialogueEvent{Type: api.DialogueEventState, State: s}
	}
	message := func(id, s string) api.DialogueEvent {
		return api.DialogueEvent{Type: api.DialogueEventMessage, Message: &api.DialogueMessage{MessageID: id, State: s}}
	}
	task := func(status string) api.DialogueEvent {
		return api.DialogueEvent{Type: api.DialogueEventTask, Task: &api.DialogueTask{TaskID: "k", Status: status, Background: true}}
	}
	began, ended := api.DialogueEventTurnStarted, api.DialogueEventTurnEnded
	for name, events := range map[string][]api.DialogueEvent{
		"plain":            {message("m", "sent"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed", "m"), state("idle")},
		"idle comes first": {message("m", "sent"), turn(began, "1", ""), state("idle"), turn(ended, "1", "completed", "m")},
		"late end":         {turn(ended, "0", "failed"), message("old", "done"), state("idle"), message("m", "sent"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed", "m"), state("idle")},
		"flicker":          {message("m", "sent"), state("running"), message("m", "queued"), state("idle"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed", "m"), state("idle")},
		"background":       {message("m", "sent"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed", "m"), message("m", "done"), turn(began, "2", ""), turn(ended, "2", "completed"), state("idle")},
		"a command":        {message("m", "sent"), state("running"), turn(began, "1", ""), task("running"), turn(ended, "1", "completed", "m"), state("idle"), state("running"), task("completed"), turn(began, "2", ""), turn(ended, "2", "completed"), state("idle")},
		"an earlier one":   {turn(began, "0", "", "old"), message("m", "sent"), state("running"), turn(ended, "0", "interrupted", "old"), state("idle"), state("running"), turn(began, "1", "", "m"), turn(ended, "1", "completed", "m"), state("idle")},
		"one not seen":     {message("m", "sent"), turn(ended, "0", "failed", "old"), state("idle"), message("m", "started"), turn(began, "1", "", "m"), turn(ended, "1", "completed", "m")},
		"taken in":         {turn(began, "0", "", "old"), message("m", "sent"), state("running"), message("m", "started"), message("m", "done"), turn(ended, "0", "completed", "old", "m"), state("idle")},
		"others' work":     {task("running"), message("m", "sent"), state("running"), turn(began, "1", "", "m"), turn(ended, "1", "completed", "m"), state("idle")},
		"no turn":          {message("m", "sent"), state("running"), message("m", "done"), state("idle")},
	} {
		c := course{state: api.DialogueIdle}
		c.expect("m")
		for i, ev := range events {
			c.take(ev)
			if last := i == len(events)-1; c.settled() != last {
				t.Errorf("%s: settled is %v after event %d of %d", name, c.settled(), i+1, len(events))
			}
		}
		if c.status() != 0 || c.busy() {
			t.Errorf("%s: status %d, busy %v", name, c.status(), c.busy())
		}
	}
	// While something runs in the background the agent waits for a message, but not before it
	// has answered the last.
	c := course{state: api.DialogueRunning, tasks: map[string]whose{"t": others}}
	for i, ev := range []api.DialogueEvent{{}, message("m", "sent"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed", "m")} {
		if c.take(ev); c.free() != (i == 0 || i == 4) {
			t.Errorf("in the background: free is %v after event %d", c.free(), i)
		}
		if i == 0 {
			c.expect("m")
		}
	}
	for outcome, want := range map[string]int{"completed": 0, "failed": 1, "limit": 1, "lost": 1, "interrupted": 130} {
		if got := (&course{outcome: outcome}).status(); got != want {
			t.Errorf("%s: status %d, want %d", outcome, got, want)
		}
	}
}

// TestStuck: the next step fits the reason, and what gets over by itself needs none.
func TestStuck(t *testing.T) {
	ch := &chat{info: api.DialogueInfo{DialogueID: "d-1"}}
	for reason, want := range map[string]string{
		"unreachable":   "`trl dialogue retry d-1` looks for it again",
		"refused":       "`trl dialogue retry d-1` looks for it again",
		"auth_rejected": "renew the credentials, then `trl dialogue retry d-1`",
		"session_gone":  "`trl chat --resume d-1` starts the agent again",
		"disk":          "",
	} {
		fault := api.DialogueFault{Code: "reconnect_failed", Reason: reason, Message: "why"}
		if reason == "disk" {
			fault.Code = recordFailed
		}
		err := ch.stuck(fault)
		if got := ui.HintFor(err); got != want || !strings.Contains(err.Error(), "why") || ui.StatusOf(err) != ui.ExitBroken {
			t.Errorf("%s: %s, status %d, hint %q, want %q", reason, err, ui.StatusOf(err), got, want)
		}
	}
}

// TestTroubled: an agent is neither ended nor given up because the disk is full, and told
// once; one that cannot be reached is left for whoever looks for it again.
func TestTroubled(t *testing.T) {
	shows := shown(t, false, false, func(p *ui.Printer) {
		r := (&chat{app: &app{Streams: ui.Streams{Stdout: p, Stderr: p}}, ours: true}).newReply()
		full, lost := &api.DialogueFault{Code: recordFailed, Message: "no space"}, &api.DialogueFault{Code: "reconnect_failed", Reason: "refused"}
		idle := api.DialogueEvent{Type: api.DialogueEventState, State: api.DialogueIdle}
		if r.goesOn(idle) || r.troubled(nil) != nil || r.troubled(full) != nil || r.troubled(full) != nil || !r.ours || !r.goesOn(api.DialogueEvent{Type: api.DialogueEventDelta}) || r.goesOn(idle) {
			t.Error("a full disk is taken for something else")
		}
		if r.troubled(lost) == nil || r.ours || r.goesOn(api.DialogueEvent{Type: api.DialogueEventDelta}) || !r.goesOn(idle) {
			t.Error("an agent out of reach is taken for something else")
		}
	})
	if strings.Count(shows, "no space") != 1 {
		t.Errorf("tells %s", shows)
	}
}

// TestTalkReplies: what is typed while an answer is on its way is a message when that was
// taken, and nothing when it was refused: nobody knows then what it is. What was typed before
// a question came is no answer to it.
func TestTalkReplies(t *testing.T) {
	var talking *talk
	now := time.Now()
	at := func(later time.Duration, text string) { talking.line(typed{text: text, at: now.Add(later)}) }
	begin := func(p *ui.Printer) {
		talking = &talk{chat: &chat{app: &app{Streams: ui.Streams{Stdout: p}}}, view: newDialogueView(p), ask: time.NewTimer(time.Hour), calls: make(chan call, 8)}
		talking.course.requests = []api.DialogueRequest{{RequestID: "r", Kind: "permission", Tool: "Bash"}}
		talking.askNext()
	}
	for _, c := range []struct {
		name   string
		err    error
		closed bool // somebody else answers meanwhile
		calls  int
		asks   bool
		shows  string
	}{
		{"taken", nil, false, 2, false, ""},
		{"too late", api.Errorf(api.CodeConflict, "is closed"), false, 2, false, "is closed"},
		{"refused", api.Errorf(api.CodeInvalidParams, "no"), false, 1, true, "not sent: meanwhile"},
		{"refused and closed", api.Errorf(api.CodeInvalidParams, "no"), true, 2, false, "no"},
	} {
		shows := shown(t, true, false, func(p *ui.Printer) {
			begin(p)
			at(time.Minute, "y")
			at(time.Minute, "meanwhile")
			if len(talking.calls) != 1 {
				t.Errorf("%s: %d calls", c.name, len(talking.calls))
			}
			if c.closed {
				talking.answered(api.DialogueRequest{RequestID: "r", How: "withdrawn"})
			}
			talking.replied(c.err)
			if len(talking.calls) != c.calls || (talking.asking != nil) != c.asks || talking.answering != nil || talking.held != nil {
				t.Errorf("%s: %d calls, asks %v", c.name, len(talking.calls), talking.asking)
			}
			if c.asks { // another line from before
				at(0, "y")
				if len(talking.calls) != c.calls {
					t.Errorf("%s: an old line is an answer", c.name)
				}
			}
		})
		if !strings.Contains(shows, c.shows) {
			t.Errorf("%s: shows %s, want %s", c.name, shows, c.shows)
		}
	}
	shown(t, true, false, func(p *ui.Printer) {
		begin(p)
		talking.asking.shown = now
		at(-time.Second, "y")
		if len(talking.calls) != 1 || talking.asking == nil || talking.awaited == "" {
			t.Error("what was typed before the question is not taken as a message")
		}
	})
}
