package cli

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// agentACP is any agent that speaks ACP: its program must be given.
const agentACP = "acp"

// knownAgents are the programs that trl chat can talk with, and how to install them, as far as TRL's
// documents say it.
var knownAgents = []struct{ program, chat, get string }{
	{"claude", "trl chat", "npm install -g @anthropic-ai/claude-code"},
	{"codex", "trl chat --agent codex", "npm install -g @openai/codex"},
	{"gemini", "trl chat --agent acp -- gemini --acp", "npm install -g @google/gemini-cli"},
	{"goose", "trl chat --agent acp -- goose acp", ""},
	{"opencode", "trl chat --agent acp -- opencode acp", "npm install -g opencode-ai"},
	{"qwen", "trl chat --agent acp -- qwen --acp", "npm install -g @qwen-code/qwen-code"},
}

// agentHint adds a hint to the error of an agent that was not started, if another command line
// starts one. Only an agent in the place of this program is looked for here.
func agentHint(p api.DialogueCreateParams, here bool, err error) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return err
	}
	hint := ""
	switch {
	case e.Code == api.CodeInvalidParams && p.Agent == agentACP && p.Argv == nil && e.Details["field"] == "argv":
		hint = "--agent acp needs a program, such as: trl chat --agent acp -- gemini --acp"
	case e.Code == api.CodeInvalidParams && e.Details["field"] == "agent":
		for _, a := range knownAgents {
			if a.program == p.Agent {
				hint = a.program + " speaks the Agent Client Protocol: " + a.chat
			}
		}
	case e.Code == api.CodeAgentFailed && p.Agent != agentACP && p.Argv == nil && here:
		hint = otherAgents(p.Agent)
	}
	if hint == "" {
		return err
	}
	return ui.WithHint(err, "%s", hint)
}

// otherAgents names the agents that are on the PATH, and how to install the missing one; "" if that
// is there.
func otherAgents(missing string) string {
	var found, get, all strings.Builder
	for _, a := range knownAgents {
		_, err := exec.LookPath(a.program)
		switch {
		case err == nil && a.program == missing:
			return ""
		case err == nil:
			fmt.Fprintf(&found, "%s is installed: %s\n", a.program, a.chat)
		case a.program == missing:
			fmt.Fprintf(&get, "%s is not; get it with: %s", a.program, a.get)
		}
		if a.get != "" {
			fmt.Fprintf(&all, "\n  %-8s  %s", a.program, a.get)
		}
	}
	if found.Len() > 0 {
		return found.String() + get.String()
	}
	return "No agent was found. Install one of:" + all.String()
}
