package dialogue

import (
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
)

// rulesOf returns rules that are written as "deny edit /etc/*", one in a line.
func rulesOf(lines string) *api.DialoguePolicy {
	p := &api.DialoguePolicy{}
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		p.Rules = append(p.Rules, api.DialogueRule{Action: words[0], Tool: words[1], Pattern: words[2]})
	}
	return p
}

// decided is the action of the rule that decides a request; empty if a person decides.
func decided(p *api.DialoguePolicy, r api.DialogueRequest, dir string) string {
	if rule := decide(p, r, dir); rule != nil {
		return rule.Action
	}
	return ""
}

// acpRequest is the request of an ACP agent for a tool call with these fields.
func acpRequest(t *testing.T, call string) api.DialogueRequest {
	k := agenttest.ACPReady(t)
	k.Send("m1", "go")
	k.Hears(`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"S","toolCall":{"toolCallId":"c1",` + call + `},"options":[{"optionId":"1","name":"Yes","kind":"allow_once"}]}}`)
	return *k.Last(api.DialogueEventRequestOpened).Request
}

// TestPolicySeveralPaths: a request for several files does not get around a rule for one of them,
// wherever the request names it; a rule that allows must match them all.
func TestPolicySeveralPaths(t *testing.T) {
	diff := func(path string) string { return `{"type":"diff","path":"` + path + `","newText":"x"}` }
	for name, c := range map[string]struct{ rules, call, want string }{
		"locations":             {"deny edit /etc/shadow\nallow edit *", `"kind":"edit","locations":[{"path":"/tmp/a"},{"path":"/etc/shadow"}]`, "deny"},
		"differences":           {"deny * *.env\nallow * *", `"kind":"edit","content":[` + diff("/tmp/a") + `,` + diff("/tmp/.env") + `]`, "deny"},
		"keys of the changes":   {"deny * *.env\nallow * *", `"kind":"edit","title":"Edit","rawInput":{"changes":{"/tmp/a":{"add":{}},"/tmp/.env":{"add":{}}}}`, "deny"},
		"moved by the changes":  {"deny * *.env\nallow * *", `"kind":"edit","title":"Edit","locations":[{"path":"/tmp/a"}],"rawInput":{"changes":{"/tmp/a":{"update":{"move_path":"/tmp/.env"}}}}`, "deny"},
		"beside the location":   {"deny * *.env\nallow * *", `"kind":"edit","locations":[{"path":"/tmp/a"}],"content":[` + diff("/etc/.env") + `]`, "deny"},
		"asked":                 {"ask edit /etc/*\nallow edit *", `"kind":"edit","locations":[{"path":"/tmp/a"},{"path":"/etc/.env"}]`, ""},
		"an input and location": {"deny * *.env\nallow * *", `"kind":"edit","locations":[{"path":"/tmp/a"}],"rawInput":{"file_path":"/tmp/.env"}`, "deny"},
		"a list in the input":   {"deny * *.env\nallow * *", `"kind":"read","locations":[{"path":"/tmp/a"}],"rawInput":{"paths":["/tmp/a","/tmp/.env"]}`, "deny"},
		"deep in the input":     {"deny * *.env\nallow * *", `"kind":"edit","locations":[{"path":"/tmp/a"}],"rawInput":{"edits":[{"oldFile":"/tmp/.env"}]}`, "deny"},
		"where it is moved to":  {"deny * *.env\nallow * *", `"kind":"move","locations":[{"path":"/tmp/a"}],"rawInput":{"source":"/tmp/a","destination":"/tmp/.env"}`, "deny"},
		"two inputs":            {"deny * /etc/*\nallow * *", `"kind":"edit","rawInput":{"path":"/tmp/a","file_path":"/etc/shadow"},"content":[` + diff("/tmp/a") + `]`, "deny"},
		"beside a command":      {"deny * /etc/*\nallow * *", `"kind":"execute","rawInput":{"command":"ls"},"locations":[{"path":"/etc/shadow"}]`, "deny"},
		"unclear":               {"deny * /etc/*\nallow * *", `"kind":"other","rawInput":{"command":"x"},"locations":[{"path":"/etc/shadow"}]`, "deny"},
		"the first rule":        {"allow edit *\ndeny edit *.env", `"kind":"edit","locations":[{"path":"/tmp/a"},{"path":"/tmp/.env"}]`, "allow"},
		"other files":           {"deny * *.env\nallow * *", `"kind":"edit","locations":[{"path":"/tmp/a"},{"path":"/tmp/b"}]`, "allow"},
		"all in a directory":    {"allow edit /tmp/*", `"kind":"edit","locations":[{"path":"/tmp/a"},{"path":"/tmp/b/c"}]`, "allow"},
		"not all are allowed":   {"allow edit /tmp/*", `"kind":"edit","locations":[{"path":"/tmp/a"}],"content":[` + diff("/etc/x") + `]`, ""},
		"only one is allowed":   {"allow edit /tmp/a", `"kind":"edit","locations":[{"path":"/tmp/a"},{"path":"/tmp/b"}]`, ""},
		"the same file":         {"allow edit /w/src/*", `"kind":"edit","locations":[{"path":"/w/src/a"}],"rawInput":{"path":"src/a"},"content":[` + diff("./src/a") + `]`, "allow"},
		"another of that name":  {"allow edit /w/src/*", `"kind":"edit","locations":[{"path":"/w/src/a"}],"rawInput":{"path":"a"}`, ""},
		"a name alone":          {"allow edit /w/src/*", `"kind":"edit","locations":[{"path":"/w/src/a"}],"content":[` + diff("a") + `]`, "allow"}, // Gemini CLI
		"a name alone, denied":  {"deny edit /w/src/a\nallow edit *", `"kind":"edit","locations":[{"path":"/w/src/a"}],"content":[` + diff("a") + `]`, "deny"},
		"another file":          {"deny edit /w/a\nallow edit *", `"kind":"edit","locations":[{"path":"/w/src/a"}],"content":[` + diff("a") + `]`, "allow"},
		"no listed file":        {"deny edit /w/a\nallow edit *", `"kind":"edit","locations":[{"path":"/w/src/b"}],"content":[` + diff("a") + `]`, "deny"},
		"where it runs":         {"allow execute touch*", `"kind":"execute","title":"touch a","content":[{"type":"content","content":{"type":"text","text":"[current working directory /w/x]"}}]`, "allow"},
		"more than where":       {"allow execute touch*", `"kind":"execute","title":"touch a","content":[{"type":"content","content":{"type":"text","text":"[current working directory /w/x]\nrm b"}}]`, ""},
		"a command in /tmp":     {"allow execute git*", `"kind":"execute","rawInput":{"command":"git log"},"locations":[{"path":"/tmp"}]`, "allow"},
		"a relative path":       {"allow edit ./*\nallow edit src*", `"kind":"edit","locations":[{"path":"src/a"},{"path":"/etc/shadow"}]`, ""},
		"text of a file":        {"allow edit /tmp/*", `"kind":"edit","locations":[{"path":"/tmp/a"}],"rawInput":{"source":"a/b\nc","content":"/etc/x","profile":"p"}`, "allow"},
	} {
		if got := decided(rulesOf(c.rules), acpRequest(t, c.call), "/w"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPolicyGrantOfDirectory: a request of Codex for a whole directory does not get around a rule for
// a file in it: people decide.
func TestPolicyGrantOfDirectory(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	for _, c := range []struct{ root, rules, want string }{
		{"/", "deny fileChange /etc/*\nallow fileChange *", ""},
		{"/home/me", "deny fileChange /home/me/.ssh/*\nallow fileChange /home/me/*", ""},
		{"/home/me", "deny fileChange ~/.ssh/*\nallow fileChange /home/me/*", ""},
		{"/home/me/", "ask * *.env\nallow fileChange *", ""},
		{"/home/me", "deny fileChange /home/*/.ssh/*\nallow fileChange *", ""},
		{"/w", "deny fileChange secrets/*\nallow fileChange *", ""},
		{"/etc", "deny fileChange /etc/*\nallow fileChange *", "deny"},
		{"/etc/x", "deny fileChange /etc/*\nallow fileChange *", "deny"},
		{"/w", "deny fileChange /w/a\nallow fileChange *", "deny"}, // the file that it changes now
		{"/w", "deny fileChange /etc/*\nallow fileChange /w/*", "allow"},
		{"/w", "deny commandExecution *.env\nallow fileChange /w/*", "allow"},
		{"/w", "allow fileChange /w/*\ndeny fileChange *.env", "allow"},
		{"/", "allow fileChange /w/*", ""},
	} {
		k := agenttest.CodexReady(t)
		k.Hears(agenttest.CodexTurn, `{"method":"item/started","params":{"threadId":"T","turnId":"turn1","item":{"type":"fileChange","id":"f","status":"inProgress","changes":[{"path":"/w/a","kind":{"type":"add"},"diff":"x"}]}}}`,
			`{"method":"item/fileChange/requestApproval","id":7,"params":{"threadId":"T","turnId":"turn1","itemId":"f","grantRoot":"`+c.root+`"}}`)
		if got := decided(rulesOf(c.rules), *k.Last(api.DialogueEventRequestOpened).Request, "/w"); got != c.want {
			t.Errorf("%s, %q: %q, want %q", c.root, c.rules, got, c.want)
		}
	}
}

// TestPolicyRepeatedID: a request is not decided by the input of an earlier call with the same id.
func TestPolicyRepeatedID(t *testing.T) {
	k := agenttest.ACPReady(t)
	k.Send("m1", "go")
	k.Hears(agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"call_0","kind":"execute","status":"in_progress","title":"ls","rawInput":{"command":"ls"}`),
		`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"S","toolCall":{"toolCallId":"call_0","kind":"execute","title":"rm -rf x"},"options":[{"optionId":"1","name":"Yes","kind":"allow_once"}]}}`)
	r := *k.Last(api.DialogueEventRequestOpened).Request
	if got := decided(rulesOf("deny execute rm*\nallow execute *"), r, "/w"); got != "deny" {
		t.Errorf("%q, subject %q", got, r.Subject)
	}
}

// TestRequestPaths: a request has the paths that were compared, beside the subject.
func TestRequestPaths(t *testing.T) {
	for call, want := range map[string][]string{
		`"kind":"edit","locations":[{"path":"/tmp/a"},{"path":"/etc/../etc/shadow"},{"path":"/tmp/a"}]`:             {"/tmp/a", "/etc/shadow"},
		`"kind":"edit","locations":[{"path":"/tmp/a"}],"content":[{"type":"diff","path":"/tmp/./a","newText":"x"}]`: nil,
		`"kind":"edit","locations":[{"path":"/tmp/a"}],"content":[{"type":"diff","path":"/tmp/b","newText":"x"}]`:   {"/tmp/a", "/tmp/b"},
		`"kind":"read","rawInput":{"file_path":"/tmp/a"}`:                                                           nil,
		`"kind":"edit","title":"Edit","rawInput":{"changes":{"b":{},"a":{}}}`:                                       {"a", "b"},
		`"kind":"execute","rawInput":{"command":"ls","path":"/tmp"}`:                                                nil,
	} {
		if r := acpRequest(t, call); !slices.Equal(r.Paths, want) {
			t.Errorf("%s: %q", call, r.Paths)
		}
	}
}
