package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
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
	bash := api.DialogueRequest{RequestID: "r", Kind: "permission", Tool: "Bash", Subject: "rm x", Input: json.RawMessage(`{"command":"rm x","n":1}`)}
	options := bash
	options.Options = []api.DialogueOption{{ID: "o1", Label: "Once", Kind: "allow"}, {ID: "o2", Label: "Here", Kind: "allow"}, {ID: "o3", Label: "No", Kind: "deny"}}
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
		{api.DialogueRequest{RequestID: "r", Input: json.RawMessage(`{"a":1}`)}, []string{"e", "x"}, `(give all of the input, as JSON: {"a":1}) …`},
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
		return shown(t, true, false, func(p *printer) {
			k := &asker{request: r}
			fmt.Fprint(p, k.text(p)+k.prompt(p))
		})
	}
	long := strings.Repeat("line\\n", 30)
	for _, c := range []struct {
		request api.DialogueRequest
		want    string
	}{
		{api.DialogueRequest{Kind: "permission", Tool: "Edit", Subject: "/a", Title: "Edit a", Reason: "outside\x1b[0m", Input: json.RawMessage(`{"file_path":"/a","old_string":"x","new_string":"y\nz"}`),
			Options: []api.DialogueOption{{Kind: "allow"}, {Kind: "deny"}}},
			"? The agent wants to use Edit: /a\n  Edit a\n  outside\\x1b[0m\n  old_string: x\n  new_string:\n    y\n    z\n  y(es), e(dit), n(o), or what to do instead: "},
		{api.DialogueRequest{Kind: "permission", Tool: "Write", Subject: "/a", Input: json.RawMessage(`{"content":"` + long + `"}`)},
			"? The agent wants to use Write: /a\n  content:\n" + strings.Repeat("    line\n", 20) + "    … 10 lines more\n  y(es), a(lways), e(dit), n(o), or what to do instead: "},
		{api.DialogueRequest{Kind: "plan", Tool: "ExitPlanMode", Input: json.RawMessage(`{"plan":"first\nthen"}`)},
			"? The agent has a plan\n  plan:\n    first\n    then\n  go ahead? y(es), n(o), or what to change: "},
		{api.DialogueRequest{Kind: "question", Questions: []api.DialogueQuestion{{Header: "Colour", Question: "Which?", Options: []api.DialogueOption{{Label: "Red", Description: "warm"}, {Label: "Blue"}}}}},
			"? The agent asks\n  Colour: Which?\n  1. Red – warm\n  2. Blue\n  number, or your own words, or 0 for none: "},
		{api.DialogueRequest{Kind: "permission", Tool: "x", Options: []api.DialogueOption{{Label: "Once", Kind: "allow"}, {Label: "Never", Kind: "deny_always"}}},
			"? The agent wants to use x\n  1. Once\n  2. Never\n  number, y(es), n(o), or what to do instead: "},
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
	turn := func(typ api.DialogueEventType, id, outcome string) api.DialogueEvent {
		return api.DialogueEvent{Type: typ, Turn: &api.DialogueTurn{TurnID: id, Outcome: outcome}}
	}
	state := func(s api.DialogueState) api.DialogueEvent { return api.DialogueEvent{Type: api.ToldState, State: s} }
	message := func(id, s string) api.DialogueEvent {
		return api.DialogueEvent{Type: api.ToldMessage, Message: &api.DialogueMessage{MessageID: id, State: s}}
	}
	began, ended := api.ToldTurnStarted, api.ToldTurnEnded
	for name, events := range map[string][]api.DialogueEvent{
		"plain":            {message("m", "sent"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed"), state("idle")},
		"idle comes first": {message("m", "sent"), turn(began, "1", ""), state("idle"), turn(ended, "1", "completed")},
		"late end":         {turn(ended, "0", "failed"), message("old", "done"), state("idle"), message("m", "sent"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed"), state("idle")},
		"flicker":          {message("m", "sent"), state("running"), message("m", "queued"), state("idle"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed"), state("idle")},
		"background":       {message("m", "sent"), state("running"), turn(began, "1", ""), turn(ended, "1", "completed"), message("m", "done"), turn(began, "2", ""), turn(ended, "2", "completed"), state("idle")},
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
	for outcome, want := range map[string]int{"completed": 0, "failed": 1, "limit": 1, "lost": 1, "interrupted": 130} {
		if got := (&course{outcome: outcome}).status(); got != want {
			t.Errorf("%s: status %d, want %d", outcome, got, want)
		}
	}
}
