package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// TestMarkdown: whatever pieces it comes in, it is shown the same, and nothing is lost.
func TestMarkdown(t *testing.T) {
	out := &ui.Printer{File: os.Stderr, TTY: true, Colour: true}
	unpainted := strings.NewReplacer("\x1b[0m", ">", "\x1b[1m", "<b ", "\x1b[2m", "<d ", "\x1b[3m", "<i ", "\x1b[4m", "<u ", "\x1b[31m", "<red ", "\x1b[32m", "<green ", "\x1b[36m", "<c ")
	for text, want := range map[string]string{
		"# A title #\nplain\n":             "<b A title>\nplain\n",
		"a **b** c *d* e `f*g*` h\n":       "a <b b> c <i d> e <c f*g*> h\n",
		"* one\n  - two\n3. three\n":       "• one\n  • two\n3. three\n",
		"> said\n":                         "<d │ >said\n",
		"[a](http://b)\n":                  "<u a><d  (http://b)>\n",
		"```go\n# x\n**y**\n```\n**z**\n":  "<d ```go>\n<c # x>\n<c **y**>\n<d ```>\n<b z>\n",
		"```diff\n+a\n-b\n@@ x\n c\n```\n": "<d ```diff>\n<green +a>\n<red -b>\n<d @@ x>\n c\n<d ```>\n",
		"````\n```\n````\n":                "<d ````>\n<c ```>\n<d ````>\n",
		"2 * 3 * 4 and a_b_c\n":            "2 * 3 * 4 and a_b_c\n",
		"an open ` mark and ** another\n":  "an open ` mark and ** another\n",
		"no end of line":                   "no end of line",
		"| a | b |\n|---|---|\n":           "| a | b |\n|---|---|\n",
	} {
		for cut := range len(text) + 1 {
			m := &markdown{out: out}
			got := unpainted.Replace(m.feed(text[:cut]) + m.feed(text[cut:]) + m.rest())
			if got != want {
				t.Errorf("%q cut at %d: %q, want %q", text, cut, got, want)
			}
		}
	}
	// A long line is shown before it ends, and broken at blanks.
	m := &markdown{out: out}
	shown := m.feed(strings.Repeat("word ", 100))
	if n := strings.Count(shown, "\n"); n < 5 || len(m.part) > 80 {
		t.Errorf("%d lines, %d bytes held back", n, len(m.part))
	}
	if got := strings.Join(strings.Fields(shown+m.rest()), " "); got != strings.TrimSpace(strings.Repeat("word ", 100)) {
		t.Errorf("not all is shown: %q", got)
	}
}

// TestContextInPrompt: how much of its window the conversation takes, when the agent tells.
func TestContextInPrompt(t *testing.T) {
	for want, u := range map[string]api.DialogueUsage{
		"":      {ContextTokens: 10},
		"50% ":  {ContextTokens: 100_000, ContextWindow: 200_000},
		"0% ":   {ContextTokens: 1, ContextWindow: 200_000},
		"100% ": {ContextTokens: 300_000, ContextWindow: 200_000},
	} {
		k := &talk{}
		k.know(api.DialogueEvent{Type: api.DialogueEventUsage, Usage: &u})
		if got := k.context(); got != want {
			t.Errorf("%+v: %q, want %q", u, got, want)
		}
	}
}

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

// TestEditorKeys: keys that the library does not know are translated, wherever a read cuts
// them.
func TestEditorKeys(t *testing.T) {
	for typed, want := range map[string]string{
		"ab\r":                            "ab\r",
		"a\x1b\rb":                        "a⏎b",
		"a\x1b[13;2ub":                    "a⏎b",
		"\x1b[A\x1b[1;5D":                 "\x1b[A\x1b[1;5D",
		"\x1b[200~one line\x1b[201~x":     "one linex",
		"\x1b[200~a\x1b[A\tb\x1b[201~":    "[pasted 1: 1 line]",
		"\x1b[200~a\r\nb\rc\n\x1b[201~\r": "[pasted 1: 3 lines]\r",
		"ä\x03":                           "ä" + clearLine,
	} {
		for cut := range len(typed) + 1 {
			e := &editor{interrupts: make(chan struct{}, 1), pasted: map[string]string{}}
			e.translate([]byte(typed[:cut]))
			e.translate([]byte(typed[cut:]))
			if got := strings.ReplaceAll(string(e.ready), probe, ""); got != want {
				t.Errorf("%q cut at %d: %q, want %q", typed, cut, got, want)
			}
		}
	}
}
