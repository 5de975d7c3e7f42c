package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// TestAgentHint: without the agent, the hint names the installed ones with the command that uses
// them, or else how to get one.
func TestAgentHint(t *testing.T) {
	failed := api.Errorf(api.CodeAgentFailed, "agent claude: program \"claude\": not found")
	claude := api.DialogueCreateParams{Agent: "claude"}
	given := api.DialogueCreateParams{Agent: "claude", Argv: []string{"x"}}
	const get = "claude is not; get it with: npm install -g @anthropic-ai/claude-code"
	for name, c := range map[string]struct {
		installed string
		params    api.DialogueCreateParams
		err       error
		elsewhere bool
		hint      string // its beginning; "" for none
	}{
		"none":           {"", claude, failed, false, "No agent was found. Install one of:\n  claude    npm install -g @anthropic-ai/claude-code\n  codex "},
		"another":        {"gemini", claude, failed, false, "gemini is installed: trl chat --agent acp -- gemini --acp\n" + get},
		"two others":     {"codex goose", claude, failed, false, "codex is installed: trl chat --agent codex\ngoose is installed: trl chat --agent acp -- goose acp\n" + get},
		"itself":         {"claude", claude, failed, false, ""},
		"a program":      {"gemini", given, failed, false, ""},
		"elsewhere":      {"gemini", claude, failed, true, ""},
		"another reason": {"gemini", claude, errors.New("broken"), false, ""},
		"no reason":      {"gemini", claude, nil, false, ""},
		"acp alone":      {"", api.DialogueCreateParams{Agent: "acp"}, api.InvalidParam("argv", "is required"), true, "--agent acp needs a program, such as: trl chat --agent acp -- gemini --acp"},
		"another field":  {"", api.DialogueCreateParams{Agent: "acp"}, api.InvalidParam("name", "is taken"), false, ""},
		"speaks acp":     {"", api.DialogueCreateParams{Agent: "goose"}, api.InvalidParam("agent", "is not one of"), true, "goose speaks the Agent Client Protocol: trl chat --agent acp -- goose acp"},
		"unknown":        {"", api.DialogueCreateParams{Agent: "gpt"}, api.InvalidParam("agent", "is not one of"), false, ""},
	} {
		dir := t.TempDir()
		for _, program := range strings.Fields(c.installed) {
			if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir)
		err := agentHint(c.params, !c.elsewhere, c.err)
		if !errors.Is(err, c.err) || ui.StatusOf(err) != ui.StatusOf(c.err) {
			t.Errorf("%s: %v has become %v", name, c.err, err)
		}
		if hint := ui.HintFor(err); !strings.HasPrefix(hint, c.hint) || (c.hint == "") != (hint == "") {
			t.Errorf("%s: %q, must begin with %q", name, hint, c.hint)
		}
	}
}
