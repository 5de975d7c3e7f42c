package dialogue

import (
	"slices"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// Each agent may write its configuration and reach its service, also one that its environment names.
func TestAgentNeeds(t *testing.T) {
	env := map[string]string{
		"ANTHROPIC_BASE_URL": "http://127.0.0.1:4000/x", "OPENAI_BASE_URL": "https://models.example", "CLAUDE_CONFIG_DIR": "/srv/claude", "CODEX_HOME": "relative",
	}
	for _, want := range []struct {
		agent            string
		argv             []string
		writable, notYet string
		allow            []string
	}{
		{"claude", nil, "/srv/claude", "", []string{"api.anthropic.com:443", "127.0.0.1:4000"}},
		{"codex", nil, "~/.codex", "relative", []string{"api.openai.com:443", "models.example:443"}},
		{"acp", []string{"opencode", "acp"}, "~/.config/opencode", "/srv/claude", []string{"127.0.0.1:4000", "models.example:443"}},
		{"acp", []string{"claude-code-acp"}, "/srv/claude", "", []string{"api.anthropic.com:443", "127.0.0.1:4000"}},
		{"acp", []string{"codex-acp"}, "~/.codex", "relative", []string{"api.openai.com:443"}},
	} {
		name := want.agent
		a, err := findAgent(name)
		if err != nil {
			t.Fatal(err)
		}
		needs := a.Needs(agent.Options{Argv: want.argv}, func(name string) string { return env[name] })
		if !slices.Contains(needs.Writable, want.writable) || want.notYet != "" && slices.Contains(needs.Writable, want.notYet) {
			t.Errorf("%s: writable %v", name, needs.Writable)
		}
		for _, host := range want.allow {
			if !slices.Contains(needs.Allow, host) {
				t.Errorf("%s: allow %v", name, needs.Allow)
			}
		}
		needs.Files, needs.Network = api.FilesWorkspace, api.NetworkAllow
		if err := needs.Check("isolation"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
