package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// answered returns the problems and the answer that result from lines typed at a request.
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
	always := bash // offers only permanent answers
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
		{fixed, []string{"e", "n"}, `(the agent does not accept a changed input) {"dialogue_id":"","request_id":"r","decision":"deny"}`},
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
			fmt.Fprint(p, k.describe(p)+k.prompt(p))
		})
	}
	long := strings.Repeat("line\\n", 30)
	for _, c := range []struct {
		request api.DialogueRequest
		want    string
	}{
		{api.DialogueRequest{Kind: "permission", Tool: "Edit", Subject: "/a", Title: "Edit a", Reason: "outside\x1b[0m", Editable: true, Input: json.RawMessage(`{"file_path":"/a","old_string":"x","new_string":"y\nz"}`),
			Options: []api.DialogueOption{{Kind: "allow"}, {Kind: "deny"}}},
			"? The agent wants to use Edit: /a\n  Edit a\n  outside\\x1b[0m\n  /a\n  - x\n  + y\n  + z\n  y(es), e(dit), n(o), or what to do instead: "},
		// A diff does not say all: whether all places change, and the edits of one call as the agent wrote them.
		{api.DialogueRequest{Kind: "permission", Tool: "Edit", Subject: "/a", Input: json.RawMessage(`{"file_path":"/a","old_string":"same\nx","new_string":"same\ny","replace_all":true}`)},
			"? The agent wants to use Edit: /a\n  /a\n  - x\n  + y\n  replace_all: true\n  y(es), a(lways), n(o), or what to do instead: "},
		{api.DialogueRequest{Kind: "permission", Tool: "MultiEdit", Subject: "/a", Input: json.RawMessage(`{"file_path":"/a","edits":[{"old_string":"one","new_string":"1"},{"old_string":"two\n","new_string":"","replace_all":true}]}`)},
			"? The agent wants to use MultiEdit: /a\n  /a\n  - one\n  + 1\n  /a\n  - two\n" +
				`  edits: [{"old_string":"one","new_string":"1"},{"old_string":"two\n","new_string":"","replace_all":true}]` + "\n  y(es), a(lways), n(o), or what to do instead: "},
		{api.DialogueRequest{Kind: "permission", Tool: "Edit", Subject: "/a", Input: json.RawMessage(`{"file_path":"/a","old_string":"","new_string":"` + strings.Repeat("line\\n", 50) + `"}`)},
			"? The agent wants to use Edit: /a\n  /a\n" + strings.Repeat("  + line\n", 40) + "  … 10 lines more\n  y(es), a(lways), n(o), or what to do instead: "},
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
