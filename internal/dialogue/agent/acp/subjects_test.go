package acp_test

import (
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
)

// TestSubjects checks the subject of a request, its kind and its source. The subject is the input
// of the tool in the request, not in an earlier update. A text for people is the subject only if
// there is nothing else.
func TestSubjects(t *testing.T) {
	text := func(s string) string { return `{"type":"content","content":{"type":"text","text":"` + s + `"}}` }
	for name, c := range map[string]struct{ call, subject, kind, source string }{
		"command":            {`"kind":"execute","title":"look","rawInput":{"command":"ls -l"}`, "ls -l", "command", "input"},
		"words":              {`"kind":"execute","rawInput":{"cmd":["git","push"]}`, "git push", "command", "input"},
		"arguments":          {`"kind":"execute","rawInput":{"command":"rm","args":["-rf","/"]}`, "rm -rf /", "command", "input"},
		"no arguments":       {`"kind":"execute","rawInput":{"command":"ls","args":[]}`, "ls", "command", "input"},
		"odd arguments":      {`"kind":"execute","title":"t","rawInput":{"command":"rm","args":["-rf",7]}`, "t", "command", "title"},
		"one command twice":  {`"kind":"execute","rawInput":{"command":"ls","cmd":["ls"]}`, "ls", "command", "input"},
		"two commands":       {`"kind":"execute","title":"look","rawInput":{"command":"ls","cmd":"rm -rf /"}`, "look", "command", "title"},
		"gemini":             {`"kind":"execute","title":"rm -rf x [current working directory /w] (clean up)","content":[],"locations":[]`, "rm -rf x [current working directory /w] (clean up)", "command", "title"},
		"title":              {`"kind":"execute","title":"ls"`, "ls", "command", "title"},
		"title in code":      {"\"kind\":\"execute\",\"title\":\"`ls -l`\"", "ls -l", "command", "title"},
		"title with code":    {"\"kind\":\"execute\",\"title\":\"Run `ls`\"", "Run `ls`", "command", "title"},
		"two codes":          {"\"kind\":\"execute\",\"title\":\"`ls` `rm`\"", "`ls` `rm`", "command", "title"},
		"title and content":  {`"kind":"execute","title":"Shell","content":[` + text("rm -rf x") + `]`, "Shell\nrm -rf x", "command", "title_and_content"},
		"content":            {`"kind":"execute","content":[` + text("ls") + `,` + text("rm") + `]`, "ls\nrm", "command", "content"},
		"content like title": {`"kind":"execute","title":"ls","content":[` + text("ls") + `]`, "ls", "command", "title"},
		"too much content":   {`"kind":"execute","title":"x","content":[` + text(strings.Repeat("x", 70<<10)) + `]`, "", "", ""},
		"title is a list":    {`"kind":"execute","title":["rm","-rf"]`, "", "", ""},
		"title is blank":     {`"kind":"execute","title":" \n "`, "", "", ""},
		"nothing at all":     {`"kind":"execute","title":"","content":null,"rawInput":{"command":""}`, "", "", ""},
		"command of numbers": {`"kind":"execute","title":"t","rawInput":{"command":["rm",7]}`, "t", "command", "title"},
		"command in another": {`"kind":"execute","rawInput":{"command":{"argv":["rm"]}}`, "", "", ""},
		"other command":      {`"kind":"execute","rawInput":{"script":"rm -rf /"}`, "", "", ""},
		"read":               {`"kind":"read","rawInput":{"file_path":"/w/../etc/passwd"}`, "/etc/passwd", "path", "input"},
		"locations":          {`"kind":"edit","locations":[{"path":"/w/a"},{"path":"/w/b/c"}]`, "/w/", "path", "locations"},
		"no path":            {`"kind":"edit","locations":[{"path":""}]`, "", "", ""},
		"diff":               {`"kind":"edit","title":"Edit","content":[{"type":"diff","path":"/w/../etc/x","newText":"y"}]`, "/etc/x", "path", "locations"},
		"path in a title":    {`"kind":"edit","title":"Writing to /etc/x"`, "Writing to /etc/x", "", "title"},
		"fetch":              {`"kind":"fetch","rawInput":{"url":"https://example.org"}`, "https://example.org", "address", "input"},
		"search":             {`"kind":"search","rawInput":{"pattern":"TODO"}`, ".", "path", "input"},
		"search in":          {`"kind":"search","rawInput":{"pattern":"TODO","path":"/w/../etc"}`, "/etc", "path", "input"},
		"search the web":     {`"kind":"search","rawInput":{"query":"weather"}`, "weather", "", "input"},
		"something":          {`"kind":"think","rawInput":{"path":"/w"}`, "/w", "path", "input"},
		"something that is":  {`"kind":"other","rawInput":{"command":"rm -rf /","path":""}`, "rm -rf /", "command", "input"},
		"command and path":   {`"kind":"other","title":"t","rawInput":{"command":"x","path":"/etc/shadow"}`, "", "", ""},
		"command and paths":  {`"kind":"other","title":"t","rawInput":{"command":"x","path":"/a","file_path":"/etc/shadow"}`, "", "", ""},
		"command and list":   {`"kind":"other","title":"t","rawInput":{"command":"x","path":[{"p":"/etc/shadow"}]}`, "", "", ""},
		"command and files":  {`"title":"t","rawInput":{"command":"x"},"locations":[{"path":"/etc/shadow"}]`, "", "", ""},
		"command, address":   {`"kind":"other","title":"t","rawInput":{"cmd":"x","url":"https://x"}`, "", "", ""},
		"path and address":   {`"kind":"other","title":"t","rawInput":{"path":"/w","uri":"https://x"},"content":[{"type":"diff","path":"/w","newText":"y"}]`, "", "", ""},
		"and at an address":  {`"rawInput":{"url":"https://example.org"}`, "https://example.org", "address", "input"},
		"only a title":       {`"title":"x"`, "x", "", "title"},
		"nothing":            {`"kind":"other"`, "", "", ""},
	} {
		k := agenttest.ACPReady(t)
		k.Send("m1", "go")
		if name == "other command" {
			k.Hears(agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"c1","kind":"execute","rawInput":{"command":"ls"}`))
		}
		k.Hears(`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"S","toolCall":{"toolCallId":"c1",` + c.call + `},"options":[{"optionId":"1","name":"Yes","kind":"allow_once"}]}}`)
		if q := k.Last(api.DialogueEventRequestOpened).Request; q.Subject != c.subject || q.SubjectKind != c.kind || q.SubjectSource != c.source || q.Editable {
			t.Errorf("%s: %s", name, agenttest.Show(q))
		}
	}
}

// TestToolNames: the name of a tool is the one that the agent sends; without one it is the
// kind that the agent sent last, because that is what the tool is about to do.
func TestToolNames(t *testing.T) {
	for name, c := range map[string]struct{ announced, asked, want string }{
		"name":              {`"name":"shell","kind":"read"`, `"kind":"execute"`, "shell"},
		"another name":      {`"name":"shell"`, `"name":"bash"`, "bash"},
		"kind":              {`"kind":"execute"`, `"title":"x"`, "execute"},
		"another kind":      {`"kind":"read"`, `"kind":"execute"`, "execute"},
		"kind in the end":   {`"title":"x"`, `"kind":"execute"`, "execute"},
		"nothing":           {`"title":"x"`, `"title":"x"`, "other"},
		"kind, then a name": {`"kind":"read"`, `"name":"shell"`, "shell"},
	} {
		k := agenttest.ACPReady(t)
		k.Send("m1", "go")
		k.Hears(agenttest.ACPUpdate(`"sessionUpdate":"tool_call","toolCallId":"c1",` + c.announced))
		k.Hears(`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"S","toolCall":{"toolCallId":"c1",` + c.asked + `},"options":[{"optionId":"1","name":"Yes","kind":"allow_once"}]}}`)
		if q := k.Last(api.DialogueEventRequestOpened).Request; q.Tool != c.want {
			t.Errorf("%s: tool %q, want %q", name, q.Tool, c.want)
		}
	}
}
