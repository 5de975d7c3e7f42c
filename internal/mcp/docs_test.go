package mcp_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/trl-dev/trl/tests/trltest"
)

// TestAnswerOfThePage: dialogue_start answers as docs/dialogues.md shows.
func TestAnswerOfThePage(t *testing.T) {
	p := connect(t, 0)
	shown := trltest.OneSnippet(t, "docs/dialogues.md", "## For models (MCP)", "text")
	// The fake agent describes commands in its own way, and writes the fields of a rule in another order.
	shown = strings.NewReplacer("d-3f9a1c02de", "…", "Remove the build directory", "Do rm -rf build", `{"type":"addRules",…}`, `{…"type":"addRules"}`).Replace(strings.TrimSpace(shown))
	want := strings.ReplaceAll(regexp.QuoteMeta(shown), "…", `[^\n]+`)
	p.does("dialogue_start", map[string]any{
		"program": []string{trltest.FakeAgent(t)}, "prompt": "say I will run the tests.; exit-tool 1 12 make test; ask Bash rm -rf build",
	}, want)
}
