package dialogue

import (
	"cmp"
	"encoding/json"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// action is the action of the rule that decides a request; empty if a person decides.
func action(p *api.DialoguePolicy, tool, kind, subject string) string {
	rule := decide(p, api.DialogueRequest{Kind: "permission", Tool: tool, SubjectKind: kind, Subject: subject}, "")
	if rule == nil {
		return ""
	}
	return rule.Action
}

func TestPolicy(t *testing.T) {
	policy := &api.DialoguePolicy{Rules: []api.DialogueRule{
		{Tool: "Bash", Pattern: "rm *", Action: "deny"},
		{Tool: "Bash", Pattern: "git *", Action: "allow"},
		{Tool: "Bash", Pattern: "make", Action: "allow"},
		{Tool: "Write", Pattern: "/etc/*", Action: "ask"},
		{Tool: "Write", Action: "allow"},
		{Tool: "mcp__*", Pattern: "*", Action: "allow"},
	}}
	for _, c := range []struct{ tool, subject, want string }{
		{"Bash", "git status", "allow"},
		{"Bash", "git", ""},
		{"Bash", "make", "allow"},
		{"Bash", "make install", ""},
		{"Bash", "rm x; y", "deny"},
		{"Write", "/etc/passwd", ""},
		{"Write", "/tmp/x", "allow"},
		{"mcp__a__b", "x;y", "allow"},
		{"bash", "make", ""},
	} {
		if got := action(policy, c.tool, "", c.subject); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.tool, c.subject, got, c.want)
		}
	}
	if decide(policy, api.DialogueRequest{Kind: "question", Tool: "Write"}, "") != nil || decide(nil, api.DialogueRequest{Kind: "permission"}, "") != nil {
		t.Error("a question, or a request without policy, was answered")
	}
}

// TestPolicyInDoubt: a request with an unclear subject does not get around a rule that denies or
// asks, with any rule after it.
func TestPolicyInDoubt(t *testing.T) {
	type request = api.DialogueRequest
	policy := &api.DialoguePolicy{Rules: []api.DialogueRule{
		{Tool: "read", Action: "allow"},
		{Tool: "*", Pattern: "rm *", Action: "deny"},
		{Tool: "*", Pattern: "git push", Action: "deny"},
		{Tool: "*", Pattern: "/etc/*", Action: "ask"},
		{Tool: "make", Pattern: "make *", Action: "allow"},
		{Tool: "execute", Pattern: "*", Action: "allow"},
	}}
	titled := func(title string) request {
		return request{Tool: "execute", Title: title, Subject: title, SubjectKind: "command", SubjectSource: "title"}
	}
	for name, c := range map[string]struct {
		request request
		want    string
	}{
		"in the title":            {titled("rm -rf x"), "deny"},
		"with a remark":           {titled("rm -rf x [current working directory /w] (clean up)"), "deny"},
		"whole, with a remark":    {titled("git push [current working directory /w]"), "deny"},
		"behind words":            {titled("Run rm -rf x"), "deny"},
		"behind a colon":          {titled("Shell:rm -rf x"), "deny"},
		"in code":                 {titled("Run `rm -rf x`"), "deny"},
		"in brackets":             {titled("Bash(rm -rf x)"), "deny"},
		"in quotes":               {titled("sh -c 'rm -rf x'"), "deny"},
		"with quotes in it":       {titled(`Run r''m -rf x`), "deny"},
		"behind another":          {titled("ls && rm -rf x"), "deny"},
		"in the next line":        {titled("Shell\nrm -rf x"), "deny"},
		"with blanks":             {titled("Run   git \t push now"), "deny"},
		"a path that is asked":    {titled("cat /src/../etc/passwd"), ""},
		"a word that ends so":     {titled("format x"), "allow"},
		"something else":          {titled("ls [current working directory /w]"), "allow"},
		"unknown":                 {request{Tool: "execute"}, ""},
		"unknown, but allowed":    {request{Tool: "read"}, "allow"},
		"unknown, with a title":   {request{Tool: "execute", Title: "Run rm -rf x"}, "deny"},
		"in a field":              {request{Tool: "execute", Input: json.RawMessage(`{"script":"rm -rf x"}`)}, "deny"},
		"in a list":               {request{Tool: "execute", Input: json.RawMessage(`{"run":{"argv":["rm","-rf","x"]}}`)}, "deny"},
		"in a field, with a name": {request{Tool: "execute", Subject: "look", SubjectSource: "title", Input: json.RawMessage(`{"script":"rm -rf x"}`)}, "deny"},
		"no JSON":                 {request{Tool: "execute", Input: json.RawMessage(`{`)}, ""},
		"a pattern that allows":   {request{Tool: "make"}, ""},
		"known":                   {request{Tool: "execute", Title: "rm -rf x", Subject: "ls", SubjectKind: "command", SubjectSource: "input"}, "allow"},
	} {
		c.request.Kind = "permission"
		got := ""
		if rule := decide(policy, c.request, ""); rule != nil {
			got = rule.Action
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	allow := &api.DialoguePolicy{Rules: []api.DialogueRule{{Tool: "*", Pattern: "git *", Action: "allow"}}}
	for title, want := range map[string]bool{"git status": true, "git status; rm -rf x": false, "Run git status": false, "git log (all)": false, "git log\nrm x": false} {
		r := titled(title)
		r.Kind = "permission"
		if got := decide(allow, r, "") != nil; got != want {
			t.Errorf("git * allows the title %q: %v", title, got)
		}
	}
}

// TestPolicyOtherFields: a tool of an MCP server may use any field of its input, so a rule that denies
// looks at all of them. A person decides on what it finds beside the subject.
func TestPolicyOtherFields(t *testing.T) {
	rules := &api.DialoguePolicy{Rules: []api.DialogueRule{{Tool: "mcp__fs__*", Pattern: "/etc/*", Action: "deny"}, {Tool: "*", Action: "allow"}}}
	for name, c := range map[string]struct{ tool, subject, input, want string }{
		"subject":          {"mcp__fs__read", "/etc/shadow", `{"path":"/etc/shadow"}`, "deny"},
		"harmless":         {"mcp__fs__read", "/src/x", `{"path":"/src/x","n":1}`, "allow"},
		"further down":     {"mcp__fs__read", "/work/etc/x", `{"path":"/work/etc/x"}`, "allow"},
		"no subject":       {"mcp__fs__read", "", `{"command":"x","path":"/etc/shadow"}`, "deny"},
		"nothing found":    {"mcp__fs__read", "", `{"command":"x","path":"/src"}`, ""},
		"list":             {"mcp__fs__read", "/src/x", `{"path":"/src/x","paths":["/etc/shadow"]}`, ""},
		"another name":     {"mcp__fs__move", "/src/x", `{"path":"/src/x","source":"/src/../etc/shadow"}`, ""},
		"a tool TRL knows": {"Write", "/src/x", `{"file_path":"/src/x","content":"see /etc/hosts"}`, "allow"},
	} {
		r := api.DialogueRequest{Kind: "permission", Tool: c.tool, Subject: c.subject, Input: json.RawMessage(c.input)}
		if c.subject != "" {
			r.SubjectKind, r.SubjectSource = "path", "input"
		}
		got := ""
		if rule := decide(rules, r, ""); rule != nil {
			got = rule.Action
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPolicyUnknownTool: an agent that does not say which tool it wants to use does not get
// around the rules for one tool. Where they say nothing of the subject, people decide.
func TestPolicyUnknownTool(t *testing.T) {
	type request = api.DialogueRequest
	rule := func(tool, pattern, action string) api.DialogueRule {
		return api.DialogueRule{Tool: tool, Pattern: pattern, Action: action}
	}
	all := rule("*", "*", "allow")
	titled := func(title string) request { return request{Title: title, Subject: title, SubjectSource: "title"} }
	command := func(text string) request {
		return request{Subject: text, SubjectKind: "command", SubjectSource: "input"}
	}
	for name, c := range map[string]struct {
		rules   []api.DialogueRule
		request request
		want    string
	}{
		"title":                     {[]api.DialogueRule{rule("execute", "rm *", "deny"), all}, titled("rm -rf /"), "deny"},
		"part of a title":           {[]api.DialogueRule{rule("execute", "rm *", "deny"), all}, titled("Run `rm -rf /`"), "deny"},
		"command":                   {[]api.DialogueRule{rule("execute", "rm *", "deny"), all}, command("rm -rf /"), "deny"},
		"part of a command":         {[]api.DialogueRule{rule("execute", "rm *", "deny"), all}, command("cd /; rm -rf /"), "deny"},
		"asked":                     {[]api.DialogueRule{rule("execute", "rm *", "ask"), all}, command("rm -rf /"), ""},
		"another field":             {[]api.DialogueRule{rule("execute", "rm *", "deny"), all}, request{Subject: "/tmp", SubjectKind: "path", SubjectSource: "input", Input: json.RawMessage(`{"path":"/tmp","script":"rm -rf /"}`)}, "deny"},
		"another subject":           {[]api.DialogueRule{rule("execute", "rm *", "deny"), all}, titled("ls"), "allow"},
		"no subject":                {[]api.DialogueRule{rule("execute", "rm *", "deny"), all}, request{}, ""},
		"every subject":             {[]api.DialogueRule{rule("execute", "*", "deny"), all}, titled("ls"), ""},
		"no pattern":                {[]api.DialogueRule{rule("execute", "", "deny"), all}, titled("ls"), ""},
		"allowed before":            {[]api.DialogueRule{all, rule("execute", "rm *", "deny")}, titled("rm -rf /"), "allow"},
		"allowed for another tool":  {[]api.DialogueRule{rule("execute", "ls", "allow")}, titled("ls"), ""},
		"denied behind every other": {[]api.DialogueRule{rule("execute", "", "deny"), rule("*", "rm *", "deny"), all}, titled("rm -rf /"), "deny"},
	} {
		for _, tool := range []string{"", "other"} {
			c.request.Kind, c.request.Tool = "permission", tool
			got := ""
			if rule := decide(&api.DialoguePolicy{Rules: c.rules}, c.request, ""); rule != nil {
				got = rule.Action
			}
			if got != c.want {
				t.Errorf("%s, tool %q: %q, want %q", name, tool, got, c.want)
			}
		}
	}
	rules := []api.DialogueRule{rule("execute", "rm *", "deny"), all}
	if got := action(&api.DialoguePolicy{Rules: rules}, "read", "path", "rm -rf x"); got != "allow" {
		t.Errorf("a tool that is known: %q", got)
	}
}

// TestPolicyCommandLines: a rule that denies or asks also looks at each command of a command
// line, and at the script of a shell; a rule that allows only at the whole.
func TestPolicyCommandLines(t *testing.T) {
	rules := func(first string) *api.DialoguePolicy {
		return &api.DialoguePolicy{Rules: []api.DialogueRule{
			{Tool: "execute", Pattern: "rm *", Action: first}, {Tool: "execute", Pattern: "git push", Action: first}, {Tool: "*", Action: "allow"},
		}}
	}
	for _, line := range []string{
		"rm -rf /", "cd /; rm -rf /", "cd /;rm -rf /", "true\nrm -rf /", "true\r\n\trm  -rf /", "true && rm -rf /", "true || rm -rf /", "yes | rm -rf /", "sleep 1 & rm -rf /",
		"cd x && git push", "git push; ls", "git push && ls", "cd x;git  push|cat", "cd x &&\\\ngit push", "git \\\n  push",
		"(rm -rf /)", "(cd x; git push)", "echo $(rm -rf /)", "echo `git push`", "if true; then rm -rf /; fi", "for f in *; do git push; done",
		"bash -lc rm -rf /", "bash -c 'rm -rf /'", `/bin/sh -c "git push"`, "zsh -c 'cd x; git push'", "dash -c 'rm -rf /' x", "bash -euo pipefail -c 'git push'",
		"bash -c'git push'", "sudo bash -c 'rm -rf /'", "cd x; sh -c 'rm -rf /'", `bash -c "sh -c 'git push'"`, "sh -c sh -c rm -rf /", `"bash" "-c" "rm -rf /"`,
		// What stands before a command.
		"A=1 rm -rf /", "A='x y' B= git push", "cd x && GIT_DIR=x git push", "bash -c 'A=1 rm -rf /'", "sudo rm -rf /", "sudo -E -u root rm -rf /", "sudo -n rm -rf /",
		"env A=1 git push", "env -i A=1 B=2 rm -rf /", "env -c rm -rf /", "env -S 'rm -rf /'", "nohup git push", "timeout 5s rm -rf /", "timeout -s KILL 5 rm -rf /", "timeout --signal=KILL 5 git push",
		"nice -n 10 rm -rf /", "sudo nice rm -rf /", "time rm -rf /", "! git push", "{ rm -rf /; }", "f() { git push; }", "if rm -rf /; then ls; fi", "exec rm -rf /", "eval 'rm -rf /'",
		"ls | xargs rm -rf", "ls | xargs -0 -n 1 rm -rf", "</dev/null rm -rf /", "2> x rm -rf /", "command git push", "su -c 'rm -rf /'", "su me -c 'git push'",
		// Other spellings of its name.
		"/bin/rm -rf /", "cd x; /usr/bin/git push", "sudo /usr/bin/git push", "../x/rm -rf /", `\rm -rf /`, "r''m -rf /", `'rm' -rf /`, `"/bin/rm" -rf /`, `g\it pu"s"h`, `"sudo" rm -rf /`, "$'rm' -rf /", "bash -c $'rm -rf /'",
	} {
		for does, want := range map[string]string{"deny": "deny", "ask": ""} {
			if got := action(rules(does), "execute", "command", line); got != want {
				t.Errorf("%s %q: %q", does, line, got)
			}
		}
		if r := (api.DialogueRule{Pattern: "rm *", Action: "allow"}); line != "rm -rf /" && describes(r, "command", line) {
			t.Errorf("rm * allows %q", line)
		}
	}
	for _, line := range []string{"ls", "docker run --rm x", "cd farm && ls", "echo rm -rf /", "git pushx", "git push origin", "cd x; git status", "bash build.sh", "bash -lc ls", "sh --norc -x",
		"A=rm make", "sudo ls rm -rf /", "sudo -u me ls rm -rf /", "/rm/ls -rf /", "echo 'git' 'push'", "make A=1 rm x", "git /bin/push"} {
		if got := action(rules("deny"), "execute", "command", line); got != "allow" {
			t.Errorf("%q: %q", line, got)
		}
	}
	// A part of a path is no command.
	if got := action(rules("deny"), "execute", "path", "/tmp/a;rm -rf /"); got != "allow" {
		t.Errorf("a path: %q", got)
	}
}

// TestPatterns: whether a pattern matches a subject of each kind, in a rule that allows and in one
// that does not. The kind "" is that of an unknown subject.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		kinds, pattern, subject string
		allow, deny             bool
	}{
		// What joins commands.
		{"command,", "git *", "git status", true, true},
		{"command,", "git *", "git status; rm -rf /", false, true},
		{"command,", "git *", "git status && x", false, true},
		{"command,", "git *", "git log $(x)", false, true},
		{"command,", "git *", "git log `x`", false, true},
		{"command,", "git *", "git log > x", false, true},
		{"command,", "git *", "git log\nx", false, true},
		{"command,", "git * | head", "git log | head", true, true},
		{"path,address", "*/(auth)/*", "/src/(auth)/$id&b;c.ts", true, true},
		{"path", "/src/*", "/src/(auth)/$id&b;c.ts", true, true},
		{"", "/src/*", "/src/(auth)/$id&b;c.ts", false, true},
		{"address", "https://example.com/*", "https://example.com/?a=1&b=(2)", true, true},
		{"", "https://example.com/*", "https://example.com/?a=1&b=(2)", false, true},
		// Blanks in commands.
		{"command,", "git push*", "git  push", false, true},
		{"command,", "git push*", " git\t push origin", false, true},
		{"command,", "git push", "git push ", false, true},
		{"command,", "echo 'a  b'", "echo 'a  b'", true, true},
		{"command,", "git *", "git  status", true, true},
		{"path,address", "a b*", "a  b", false, false},
		// Ways around in paths.
		{"path,", "/src/*", "/src/a/b", true, true},
		{"path,", "/src/*", "/src/a/../b", true, true},
		{"path,", "/src/*", "/src/./a//b", true, true},
		{"path,address,", "/src/*", "/src/../home/x", false, true},
		{"path,", "/src/*", "/src/a/../../home/x", false, true},
		{"path,", "/src/*", "/src/..", false, true},
		{"path,", "/src/*", "/src/..a", true, true},
		{"path,", "/src/*", "/home/../src/a", false, true},
		{"path,", "/src/*", "/src/", true, true}, // several files in it
		{"path,", "/src/*", "/src", false, true}, // a search in it
		{"path,", "/src/*.go", "/src", false, false},
		{"path,", "/src/*", "/", false, false},
		{"path,", "/src/*", "/srcs", false, false},
		{"path,", "/etc/*", "/src/../etc/passwd", false, true},
		{"path,", "/etc/*", "//etc/passwd", false, true},
		{"path,", "secrets/*", "./secrets/x", false, true},
		{"path,", "./secrets/*", "secrets/x", false, true},
		{"path,", "./src/*", "./src/x", true, true},
		{"path,", "./*", "/home/x", false, true},
		{"path,", "src/*", "~/../src/x", false, true},
		{"path,", "~/*", "~/../x", false, true},
		{"path,", "*.go", "a/x.go", true, true},
		{"path,", "*.go", "../x.go", false, true},
		{"path,", "*.go", "a/../../x.go", false, true},
		{"path,", "a*", "a/../..", false, true},
		{"path,", "../*", "../x", true, true},
		{"path,", "../*", "../../x", false, true},
		{"path,", "../*", "../..", false, true},
		{"path,", "../../*", "../../x", true, true},
		{"path,", "*/x", "..a/x", true, true},
		{"command", "cat *", "cat /src/../x", true, true}, // is no path
		{"address", "https://example.com/docs/*", "https://example.com/docs/../admin", false, true},
		{"address", "https://*.example.com/*", "https://docs.example.com/a/b", true, true},
		{"address", "https://*.example.com/*", "https://evil.org/x.example.com/", false, true},
		{"address", "https://*.example.com/*", `https://evil.org\.example.com/`, false, true},
		{"address", "https://*example.com/*", "https://me@example.com/", false, true},
		{"address", "https://*", "https://evil.org/x", true, true},
		{"address", "https://example.com/docs/*", "https://example.com/docs/a?b=../c", true, true},
		// Everything.
		{"command,path,address,", "*", "../x; y", true, true},
		{"command,path,address,", "", "../x; y", true, true},
	} {
		for kind := range strings.SplitSeq(c.kinds, ",") {
			for does, want := range map[string]bool{"allow": c.allow, "deny": c.deny} {
				if got := describes(api.DialogueRule{Pattern: c.pattern, Action: does}, kind, c.subject); got != want {
					t.Errorf("%s %q: %s %q = %v", does, c.pattern, cmp.Or(kind, "unknown"), c.subject, got)
				}
			}
			if describes(api.DialogueRule{Pattern: c.pattern, Action: "ask"}, kind, c.subject) != c.deny {
				t.Errorf("ask %q: %s %q is not as deny", c.pattern, cmp.Or(kind, "unknown"), c.subject)
			}
		}
	}
}

// TestPolicyExample: the policy in the documentation does what the documentation says.
func TestPolicyExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/dialogues.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## Requests and policy\n")
	_, text, _ = strings.Cut(text, "```json\n")
	text, _, _ = strings.Cut(text, "```\n")
	var policy api.DialoguePolicy
	if err := json.Unmarshal([]byte(text), &policy); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	for _, c := range []struct{ tool, kind, subject, want string }{
		{"Read", "path", "/src/.env", "deny"},
		{"Write", "path", "/src/x/../.env", "deny"},
		{"Bash", "command", "cat .env", "deny"},
		{"Read", "path", "/src/main.go", "allow"},
		{"Read", "path", "/etc/passwd", ""},
		{"Read", "path", "/src/../home/me/.netrc", ""},
		{"Write", "path", "/src/main.go", "allow"},
		{"Write", "path", "/src/.github/workflows/ci.yaml", ""},
		{"Write", "path", "/src/x/../.github/workflows/ci.yaml", ""},
		{"Bash", "command", "git status --short", "allow"},
		{"Bash", "command", "git status; rm -rf ~", ""},
		{"Bash", "command", "git  push", ""},
		{"Bash", "command", "git -C . push", ""},
		{"Bash", "command", `cat .e"n"v`, "deny"},
	} {
		if got := action(&policy, c.tool, c.kind, c.subject); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.tool, c.subject, got, c.want)
		}
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		pattern, s, forbidden string
		want                  bool
	}{
		{"", "", "", true}, {"", "x", "", false}, {"*", "", "", true}, {"a*c", "abbc", "", true}, {"a*c", "abb", "", false},
		{"*a*a*a*a*b", strings.Repeat("a", 5000), "", false}, {"a;*", "a;b", ";", true}, {"a*", "a;b", ";", false}, {"*;*", "a;b", ";", true},
	} {
		if got := fits(c.pattern, c.s, c.forbidden); got != c.want {
			t.Errorf("fits(%q, %.20q, %q) = %v", c.pattern, c.s, c.forbidden, got)
		}
	}
}

// FuzzPolicy: no subject gets around a rule.
func FuzzPolicy(f *testing.F) {
	f.Add("git *", "git  status; x")
	f.Add("/src/*", "/src/../x")
	f.Add("../*", "../../x")
	f.Fuzz(func(t *testing.T, pattern, subject string) {
		for _, title := range []string{subject, "Run " + subject, "`" + subject + "`", subject + " [in /tmp]"} {
			r := api.DialogueRequest{Kind: "permission", Tool: "x", Subject: title, SubjectSource: "title"}
			rules := []api.DialogueRule{{Tool: "x", Pattern: pattern, Action: "deny"}, {Tool: "x", Action: "allow"}}
			if rule := decide(&api.DialoguePolicy{Rules: rules}, r, ""); fits(pattern, subject, "") && (rule == nil || rule.Action != "deny") && subject != "" {
				t.Errorf("%q does not deny the title %q", pattern, title)
			}
		}
		for _, kind := range []string{"command", "path", "address", ""} {
			allows := describes(api.DialogueRule{Pattern: pattern, Action: "allow"}, kind, subject)
			if allows && !describes(api.DialogueRule{Pattern: pattern, Action: "deny"}, kind, subject) {
				t.Errorf("%q allows %s %q, but does not deny it", pattern, kind, subject)
			}
			if pattern == subject && !strings.Contains(pattern, "*") && !allows {
				t.Errorf("%q does not allow %s %q", pattern, kind, subject)
			}
		}
		for _, kind := range []string{"command", ""} {
			for _, line := range []string{"cd x; " + subject, "cd x\n" + subject, subject + " && ls", "sh -c '" + subject + "'"} {
				if fits(pattern, subject, "") && !strings.ContainsAny(subject, "\r\n\\") && !describes(api.DialogueRule{Pattern: pattern, Action: "deny"}, kind, line) {
					t.Errorf("%q does not deny %q", pattern, line)
				}
			}
			if describes(api.DialogueRule{Pattern: "git *", Action: "allow"}, kind, "git "+subject) && strings.ContainsAny(subject, joins) {
				t.Errorf("git * allows %q", subject)
			}
		}
		for _, kind := range []string{"path", ""} {
			if at := "/src/" + subject; describes(api.DialogueRule{Pattern: "/src/*", Action: "allow"}, kind, at) && path.Clean(at) != "/src" && !strings.HasPrefix(path.Clean(at), "/src/") {
				t.Errorf("/src/* allows %q", at)
			}
			if describes(api.DialogueRule{Pattern: "*x", Action: "allow"}, kind, subject) && strings.HasPrefix(path.Join("/a/b", subject), "/a/x") && !path.IsAbs(subject) {
				t.Errorf("*x allows %q", subject)
			}
		}
	})
}
