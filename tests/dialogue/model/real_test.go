package model_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/tests/dialogue/model"
	"github.com/trl-dev/trl/tests/dialogue/programs"
)

// program is a real agent on pipes.
type program struct {
	t     *testing.T
	stdin io.Writer
	lines *bufio.Scanner
}

func run(t *testing.T, env []string, argv ...string) *program {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}, env...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 64<<20)
	return &program{t, stdin, lines}
}

func (p *program) say(v any) {
	p.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.stdin.Write(append(text, '\n')); err != nil {
		p.t.Fatal(err)
	}
}

// until reads lines up to one that fits.
func (p *program) until(fits func(map[string]any) bool) map[string]any {
	p.t.Helper()
	for p.lines.Scan() {
		var v map[string]any
		if err := json.Unmarshal(p.lines.Bytes(), &v); err != nil {
			p.t.Fatalf("%s: %s", p.lines.Bytes(), err)
		}
		if fits(v) {
			return v
		}
	}
	p.t.Fatalf("the program ended: %v", p.lines.Err())
	return nil
}

// asked fails the test unless the last request had the texts in it, by role.
func asked(t *testing.T, s *model.Server, texts ...string) {
	t.Helper()
	requests := s.Requests()
	last := requests[len(requests)-1]
	for _, text := range texts {
		role, text, _ := strings.Cut(text, ": ")
		if !last.Says(role, text) {
			t.Errorf("step %d of %s: no %s said %q", last.Step, last.Script, role, text)
		}
	}
}

func TestClaudeUnderstands(t *testing.T) {
	path := programs.Claude(t)
	s := model.Anthropic(t)
	home := t.TempDir()
	p := run(t, []string{
		"HOME=" + home, "TMPDIR=" + home, "CLAUDE_CODE_TMPDIR=" + home, "CLAUDE_CONFIG_DIR=" + filepath.Join(home, "claude"), "ANTHROPIC_BASE_URL=" + s.URL, "ANTHROPIC_API_KEY=none",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1",
	}, path, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash,Agent")
	for _, c := range []struct{ script, result, tool string }{
		{"plain", "Hello from the scripted model. This is a plain answer.", ""},
		{"think", "Considered.", ""},
		{"multi", "The second block.", ""},
		{"signs", "Tab\tCR\rLF\nESC\x1b[31mred\x1b[0m \u2028 \u2029 rocket \U0001F680 quote \" back \\ end", ""},
		{"bash", "The command printed a greeting.", "hello-from-bash\n1\n2\n3"},
		{"fail", "It failed.", "oops"},
		{"unknown", "There is no such tool.", "NoSuchTool"},
		{"parallel", "Both ran.", "two"},
		{"agent", "The subagent is done.", "Report of the subagent."},
		{"nested", "The nested work is done.", "Report of the outer one."},
		{"cut", "The connection is cut in the middle of this sentence.", ""},
		{"busy", "Answered after two refusals.", ""},
	} {
		p.say(map[string]any{"type": "user", "message": user("[[" + c.script + "]]")})
		v := p.until(func(v map[string]any) bool { return v["type"] == "result" })
		if v["result"] != c.result {
			t.Errorf("%s: %q", c.script, v["result"])
		}
		asked(t, s, "user: [[plain]]", "user: [["+c.script+"]]")
		if c.tool != "" {
			asked(t, s, "assistant: Hello", "tool: "+c.tool)
		}
	}
}

func TestCodexUnderstands(t *testing.T) {
	path := programs.Codex(t)
	s := model.OpenAI(t)
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(s.CodexConfig()), 0o600); err != nil {
		t.Fatal(err)
	}
	p := run(t, []string{"HOME=" + home, "TMPDIR=" + home, "CODEX_HOME=" + home}, path, "app-server")
	p.say(map[string]any{"id": 1, "method": "initialize", "params": map[string]any{"clientInfo": map[string]any{"name": "trl", "title": "TRL", "version": "0"}}})
	p.say(map[string]any{"method": "initialized"})
	p.say(map[string]any{"id": 2, "method": "thread/start", "params": map[string]any{"sandbox": "danger-full-access", "approvalPolicy": "never"}})
	v := p.until(func(v map[string]any) bool { return v["id"] == 2.0 })
	thread := v["result"].(map[string]any)["thread"].(map[string]any)["id"]
	for _, c := range []struct{ script, result, tool string }{
		{"plain", "Hello from the scripted model. This is a plain answer.", ""},
		{"think", "Considered.", ""},
		{"bash", "The command printed a greeting.", "hello-from-codex\n1\n2\n3"},
		{"fail", "It failed.", "oops"},
		{"unknown", "There is no such tool.", "no_such_tool"},
		{"parallel", "Both ran.", "two"},
		{"agents", "Both subagents are done.", "Report of the other subagent."},
		{"nested", "The nested work is done.", "Report of the outer one."},
		{"cut", "The connection is cut in the middle of this sentence.", ""},
		{"busy", "Answered after two refusals.", ""},
	} {
		p.say(map[string]any{"id": 3, "method": "turn/start", "params": map[string]any{
			"threadId": thread, "input": []any{map[string]any{"type": "text", "text": "[[" + c.script + "]]"}},
		}})
		said := ""
		p.until(func(v map[string]any) bool {
			params, _ := v["params"].(map[string]any)
			if item, ok := params["item"].(map[string]any); ok && v["method"] == "item/completed" && params["threadId"] == thread && item["type"] == "agentMessage" {
				said = item["text"].(string)
			}
			return v["method"] == "turn/completed" && params["threadId"] == thread
		})
		if said != c.result {
			t.Errorf("%s: %q", c.script, said)
		}
		asked(t, s, "user: [[plain]]", "user: [["+c.script+"]]")
		if c.tool != "" {
			asked(t, s, "assistant: Hello", "tool: "+c.tool)
		}
	}
}
