package dialogue_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/dialogue/model"
	"github.com/trl-dev/trl/tests/dialogue/programs"
)

// realAgent is one column of the table of behaviours: an agent, and the points in which it differs
// from the others.
type realAgent struct {
	name    string
	program func(testing.TB) string
	model   func(testing.TB) *model.Server
	// setUp fills in the parameters of the dialogue for a behaviour. home is a new directory.
	setUp func(t testing.TB, r *real, b behaviour, home string)

	shell  string // the tool that runs commands
	eol    string // how the outline of a command's output ends
	silent string // the outline of the output of a command that writes nothing

	answerTokens int64  // that an answer of the model takes
	withdrawn    string // the script whose request an interrupt withdraws
	denyMessage  string // goes with a denial; "" if the agent takes none
	otherModel   string
	otherMode    string // a permission mode
	huge         map[string]int

	announces    bool // it says that it has a message which it will take up later
	editsInput   bool // a request can be allowed with another input
	takesReports bool // it takes up the report of a background task in a turn of its own
	savesLate    bool // it saves the conversation some time after the answer
}

var (
	claude = &realAgent{
		name: "claude", program: programs.Claude, model: model.Anthropic, setUp: setUpClaude,
		shell: "Bash", silent: "(Bash completed with no output)", answerTokens: 20,
		withdrawn: "touch", denyMessage: "Not today.", otherModel: "claude-sonnet-4-5", otherMode: "acceptEdits",
		huge:      map[string]int{"giant": 20 << 20, "huge": 2 << 20},
		announces: true, editsInput: true, takesReports: true,
	}
	// claudeOld is the oldest version of Claude Code that is supported.
	claudeOld = &realAgent{
		name: "claude-old", program: programs.ClaudeOld, model: model.Anthropic, setUp: setUpClaude,
		shell: "Bash", silent: "(Bash completed with no output)", answerTokens: 20,
		withdrawn: "touch", denyMessage: "Not today.",
		editsInput: true, takesReports: true, savesLate: true,
	}
	codex = &realAgent{
		name: "codex", program: programs.Codex, model: model.OpenAI, setUp: setUpCodex,
		shell: "commandExecution", eol: `\n`, answerTokens: 5,
		withdrawn: "ask", otherModel: "other-model", otherMode: "on-request/workspace-write",
		huge:      map[string]int{"huge": 2 << 20},
		announces: true,
	}
	// claudeACP is Claude Code behind the Agent Client Protocol.
	claudeACP = &realAgent{
		name: "claude-acp", program: programs.ClaudeACP, model: model.Anthropic, setUp: setUpClaudeACP, shell: "Bash",
	}
)

// use starts a daemon and prepares a dialogue with the agent, for a behaviour.
func (a *realAgent) use(t *testing.T, b behaviour) *real {
	t.Helper()
	t.Parallel()
	r := &real{agent: a, program: a.program(t), model: a.model(t), dir: t.TempDir()}
	a.setUp(t, r, b, t.TempDir())
	r.world = start(t)
	return r
}

// useClaude is for tests of Claude Code alone. The tools need not be allowed.
func useClaude(t *testing.T, tools string) *real {
	t.Helper()
	return claude.use(t, behaviour{tools: tools})
}

func setUpClaude(_ testing.TB, r *real, b behaviour, home string) {
	r.params = api.DialogueCreateParams{
		Agent: "claude", Argv: []string{r.program}, WorkingDir: r.dir,
		Env: map[string]string{
			"HOME": home, "TMPDIR": home, "CLAUDE_CODE_TMPDIR": home, "CLAUDE_CONFIG_DIR": filepath.Join(home, "claude"), "SHELL": "/bin/bash",
			"ANTHROPIC_BASE_URL": r.model.URL, "ANTHROPIC_API_KEY": "none",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1",
		},
	}
	if b.tools != "" {
		r.params.Argv = append(r.params.Argv, "--allowedTools", b.tools)
	}
}

// setUpClaudeACP differs in the protocol: requests are answered by rules of the dialogue.
func setUpClaudeACP(t testing.TB, r *real, b behaviour, home string) {
	setUpClaude(t, r, behaviour{}, home)
	r.params.Agent = "acp"
	r.params.Env["IS_SANDBOX"] = "" // of the machine; for root, the agent and its Claude Code read it differently
	if b.tools != "" {
		r.params.Policy = &api.DialoguePolicy{Rules: []api.DialogueRule{{Tool: "*", Action: "allow"}}}
	}
}

func setUpCodex(t testing.TB, r *real, b behaviour, home string) {
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(r.model.CodexConfig()), 0o600); err != nil {
		t.Fatal(err)
	}
	r.params = api.DialogueCreateParams{
		Agent: "codex", Argv: []string{r.program}, WorkingDir: r.dir, PermissionMode: "never/danger-full-access",
		Env: map[string]string{"HOME": home, "TMPDIR": home, "CODEX_HOME": home, "SHELL": "/bin/bash", "PATH": pathWithout(t, "bwrap")},
	}
	if b.asks {
		r.params.PermissionMode = "on-request/workspace-write"
	}
}

// pathWithout is a PATH on which everything is but one program. Codex prefers a bubblewrap that
// it finds there to its own sandbox, and where that may make no namespaces no command runs.
func pathWithout(t testing.TB, program string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		return os.Getenv("PATH")
	}
	dir := t.TempDir()
	for _, from := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(from)
		for _, e := range entries {
			if e.Name() != program { // of two with a name the first counts, as on the PATH
				_ = os.Symlink(filepath.Join(from, e.Name()), filepath.Join(dir, e.Name()))
			}
		}
	}
	return dir
}

// expand makes the outline for this agent from one that is written for all. $shell, $eol and
// $silent stand for the values of the agent; a line that begins with the names of agents and a bar
// is for these agents alone.
func (a *realAgent) expand(text string) string {
	text = strings.NewReplacer("$shell", a.shell, "$eol", a.eol, "$silent", a.silent).Replace(text)
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, "\t"))]
		names, rest, ok := strings.Cut(line[len(indent):], "| ")
		if !ok || !isAgents(names) {
			lines = append(lines, line)
		} else if strings.Contains(" "+names+" ", " "+a.name+" ") {
			lines = append(lines, indent+rest)
		}
	}
	return strings.Join(lines, "\n")
}

// isAgents reports whether the words are names of agents.
func isAgents(words string) bool {
	for word := range strings.FieldsSeq(words) {
		if word != claude.name && word != claudeOld.name && word != codex.name {
			return false
		}
	}
	return words != ""
}
