package chat

import (
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func TestCompletions(t *testing.T) {
	commands, models := []string{"/compact", "/review"}, []string{"opus", "sonnet"}
	for line, want := range map[string][]string{
		"/re":        {"/retry", "/review"},
		"/c":         {"/compact"},
		"/e":         {"/exit"},
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

// TestLeavingCommands: /exit and /quit leave, unless they are the agent's own, and /help lists them.
func TestLeavingCommands(t *testing.T) {
	for _, c := range []struct {
		line            string
		commands        []string // of the agent
		leaves, message bool
	}{
		{"/exit", nil, true, false},
		{" /quit ", []string{"/exit"}, true, false},
		{"/exit", []string{"/exit"}, false, true},
		{"/exit strategies", nil, false, true},
		{"/help", nil, false, false},
	} {
		shows := shown(t, true, false, func(p *ui.Printer) {
			k := &talk{conversation: &conversation{streams: ui.Streams{Stdout: p}}, view: newView(p), calls: make(chan call, 1), commands: c.commands}
			k.handleLine(typedLine{text: c.line})
			if k.leaving != c.leaves || len(k.calls) == 1 != c.message {
				t.Errorf("%q, the agent has %q: leaves %v, %d messages", c.line, c.commands, k.leaving, len(k.calls))
			}
		})
		if help := strings.Contains(shows, "/exit, /quit and Ctrl-D leave"); help != (c.line == "/help") {
			t.Errorf("%q shows %s", c.line, shows)
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
