package chat

import (
	"slices"
	"testing"

	"github.com/trl-dev/trl/api"
)

func TestCompletions(t *testing.T) {
	commands, models := []string{"/compact", "/review"}, []string{"opus", "sonnet"}
	for line, want := range map[string][]string{
		"/re":        {"/retry", "/review"},
		"/c":         {"/compact"},
		"/model ":    {"/model opus", "/model sonnet"},
		"/model s":   {"/model sonnet"},
		"say /re":    nil,
		"/nothing":   nil,
		"/model x y": nil,
	} {
		if got := completions(line, commands, models); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestContextInPrompt: the prompt shows the use of the context window, if the agent reports it.
func TestContextInPrompt(t *testing.T) {
	for want, u := range map[string]api.DialogueUsage{
		"":      {ContextTokens: 10},
		"50% ":  {ContextTokens: 100_000, ContextWindow: 200_000},
		"0% ":   {ContextTokens: 1, ContextWindow: 200_000},
		"100% ": {ContextTokens: 300_000, ContextWindow: 200_000},
	} {
		k := &talk{}
		k.learn(api.DialogueEvent{Type: api.DialogueEventUsage, Usage: &u})
		if got := k.contextUse(); got != want {
			t.Errorf("%+v: %q, want %q", u, got, want)
		}
	}
}
