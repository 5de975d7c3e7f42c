package claude_test

import (
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// The policy compares its rules with the subject of a request, so the subject is exactly the input
// that the tool uses, whichever other fields the model sets.
func TestSubjects(t *testing.T) {
	for name, tc := range map[string]struct{ tool, input, subject, kind string }{
		"command":                {"Bash", `{"command":"git  status","description":"look"}`, "git  status", "command"},
		"command, and a path":    {"Bash", `{"command":"rm x","file_path":"/src/x"}`, "rm x", "command"},
		"no command":             {"Bash", `{"description":"git status"}`, "", ""},
		"path":                   {"Read", `{"file_path":"/src/a.go"}`, "/src/a.go", "path"},
		"path that leads away":   {"Read", `{"file_path":"/src/../etc/./passwd"}`, "/src/../etc/./passwd", "path"},
		"path, and a command":    {"Write", `{"command":"git status","file_path":"/etc//x/"}`, "/etc//x/", "path"},
		"notebook":               {"NotebookEdit", `{"notebook_path":"a/../../n.ipynb"}`, "a/../../n.ipynb", "path"},
		"directory":              {"LS", `{"path":"/src/.."}`, "/src/..", "path"},
		"search":                 {"Grep", `{"pattern":"/src/x","path":"/etc/ssl/.."}`, "/etc/ssl/..", "path"},
		"search here":            {"Grep", `{"pattern":"passw"}`, ".", "path"},
		"search, path is a list": {"Grep", `{"pattern":"passw","path":["/src"]}`, ".", "path"},
		"files":                  {"Glob", `{"pattern":"**/*.go","path":"/src"}`, "/src", "path"},
		"files here":             {"Glob", `{"pattern":"**/*.go"}`, ".", "path"},
		"files elsewhere":        {"Glob", `{"pattern":"/etc/../root/.s*/**","path":"/src"}`, "/etc/../root/", "path"},
		"address":                {"WebFetch", `{"url":"https://x/?a=1&b=2","prompt":"p","command":"ls"}`, "https://x/?a=1&b=2", "address"},
		"words":                  {"WebSearch", `{"query":"go maps","path":"/src"}`, "go maps", ""},
		"skill":                  {"Skill", `{"skill":"pdf","command":"ls"}`, "pdf", ""},
		"subagent":               {"Agent", `{"description":"look around","prompt":"p","command":"ls"}`, "look around", ""},
		"other, with a path":     {"mcp__fs__read", `{"path":"/a/../b"}`, "/a/../b", "path"},
		"other, with a command":  {"mcp__sh__run", `{"command":"ls","path":"","n":1}`, "ls", "command"},
		"other, with an address": {"mcp__web__get", `{"url":"https://x"}`, "https://x", "address"},
		"other, with two":        {"mcp__fs__read", `{"command":"x","path":"/etc/shadow"}`, "", ""},
		"other, with two paths":  {"mcp__fs__read", `{"file_path":"/src/a","path":"/etc/shadow"}`, "", ""},
		"other, with all":        {"mcp__fs__read", `{"url":"https://x","notebook_path":"/n","description":"look around"}`, "", ""},
		"other, and a list":      {"mcp__fs__read", `{"command":"x","path":["/etc/shadow"]}`, "", ""},
		"other, only a list":     {"mcp__fs__read", `{"path":["/etc/shadow"],"query":"x"}`, "", ""},
		"other, with nothing":    {"mcp__x__y", `{"n":1}`, "", ""},
		"other, with words":      {"mcp__x__y", `{"n":1,"description":"look around"}`, "look around", ""},
		"command is a list":      {"Bash", `{"command":["rm","-rf","x"]}`, "", ""},
		"command is empty":       {"Bash", `{"command":""}`, "", ""},
		"no input":               {"Read", `null`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := ready(t)
			k.Says(`{"type":"assistant","message":{"id":"msg","content":[{"type":"tool_use","id":"t-1","name":"` + tc.tool + `","input":` + tc.input + `}]}}`)
			if tool := k.Last(api.DialogueEventItem).Item.Tool; tool.Subject != tc.subject {
				t.Errorf("the call is about %q", tool.Subject)
			}
			k.Says(`{"type":"control_request","request_id":"r-1","request":{"subtype":"can_use_tool","tool_name":"` + tc.tool + `","tool_use_id":"t-1","input":` + tc.input + `}}`)
			q := k.Last(api.DialogueEventRequestOpened).Request
			if q.Subject != tc.subject || q.SubjectKind != tc.kind || !q.Editable {
				t.Errorf("the request is about %q, which is %q; editable %v", q.Subject, q.SubjectKind, q.Editable)
			}
			source := "input"
			switch {
			case tc.subject == "":
				source = ""
			case tc.subject == "look around":
				source = "title"
			}
			if q.SubjectSource != source {
				t.Errorf("the subject comes from %q", q.SubjectSource)
			}
		})
	}
	// The title has the pattern of a search, for people.
	k := ready(t)
	k.Says(`{"type":"control_request","request_id":"r-0","request":{"subtype":"can_use_tool","tool_name":"Grep","input":{"pattern":"passw","path":"/src"}}}`)
	if q := k.Last(api.DialogueEventRequestOpened).Request; q.Title != "passw" {
		t.Errorf("the request has the title %q", q.Title)
	}
	k.Says(`{"type":"control_request","request_id":"r-1","request":{"subtype":"can_use_tool","tool_name":"mcp__x__y","input":{},"blocked_path":"/a/../b"}}`)
	if q := k.Last(api.DialogueEventRequestOpened).Request; q.Subject != "/a/../b" || q.SubjectKind != "path" || q.SubjectSource != "request" {
		t.Errorf("the request is about %q, which is %q", q.Subject, q.SubjectKind)
	}
	k.Says(`{"type":"control_request","request_id":"r-3","request":{"subtype":"can_use_tool","tool_name":"mcp__x__y","input":{"command":"x","path":"/a"},"blocked_path":"/a"}}`)
	if q := k.Last(api.DialogueEventRequestOpened).Request; q.Subject != "" || q.SubjectSource != "" {
		t.Errorf("the request is about %q, though its input has two texts", q.Subject)
	}
	k.Says(`{"type":"control_request","request_id":"r-2","request":{"subtype":"elicitation","url":"https://x"}}`)
	if q := k.Last(api.DialogueEventRequestOpened).Request; q.Subject != "https://x" || q.SubjectKind != "address" {
		t.Errorf("the request is about %q, which is %q", q.Subject, q.SubjectKind)
	}
	for _, ask := range []string{asksQuestion, strings.Replace(asksQuestion, "AskUserQuestion", "ExitPlanMode", 1)} {
		k := ready(t)
		k.Says(ask)
		if q := k.Last(api.DialogueEventRequestOpened).Request; q.Editable {
			t.Errorf("a %s is not editable", q.Kind)
		}
	}
}
