package cli

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// knownAgents are the programs that trl chat can talk with, and how to install them.
var knownAgents = []struct{ program, chat, get string }{
	{"claude", "trl chat", "npm install -g @anthropic-ai/claude-code"},
	{"codex", "trl chat --agent codex", "npm install -g @openai/codex"},
	{"gemini", "trl chat --agent acp -- gemini --acp", "npm install -g @google/gemini-cli"},
	{"opencode", "trl chat --agent acp -- opencode acp", "npm install -g opencode-ai"},
	{"qwen", "trl chat --agent acp -- qwen --acp", "npm install -g @qwen-code/qwen-code"},
}

// agentMissing adds a hint to the error of an agent that is not installed: which agents are on
// this machine, and how to install the others. It returns other errors unchanged.
func agentMissing(agent string, err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.CodeAgentFailed {
		return err
	}
	if _, lookErr := exec.LookPath(agent); lookErr == nil || agent == "acp" {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is not on the PATH. These agents were looked for:", agent)
	for _, a := range knownAgents {
		how := "not installed; get it with: " + a.get
		if path, lookErr := exec.LookPath(a.program); lookErr == nil {
			how = path + "; talk with it: " + a.chat
		}
		fmt.Fprintf(&b, "\n  %-8s  %s", a.program, how)
	}
	return ui.WithHint(err, "%s", b.String())
}
