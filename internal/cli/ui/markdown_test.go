package ui

import (
	"os"
	"strings"
	"testing"
)

// TestMarkdown: the output is the same for all pieces of the input, and nothing is lost.
func TestMarkdown(t *testing.T) {
	out := &Printer{File: os.Stderr, TTY: true, Colour: true}
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
			m := &Markdown{Out: out}
			got := unpainted.Replace(m.Feed(text[:cut]) + m.Feed(text[cut:]) + m.Rest())
			if got != want {
				t.Errorf("%q cut at %d: %q, want %q", text, cut, got, want)
			}
		}
	}
	// A long line is shown before it ends, and broken at blanks.
	m := &Markdown{Out: out}
	shown := m.Feed(strings.Repeat("word ", 100))
	if n := strings.Count(shown, "\n"); n < 5 || len(m.part) > 80 {
		t.Errorf("%d lines, %d bytes held back", n, len(m.part))
	}
	if got := strings.Join(strings.Fields(shown+m.Rest()), " "); got != strings.TrimSpace(strings.Repeat("word ", 100)) {
		t.Errorf("not all is shown: %q", got)
	}
	// The lines of a long item stand below its text.
	m = &Markdown{Out: &Printer{File: os.Stderr, TTY: true}}
	shown = m.Feed("- " + strings.Repeat("word ", 40))
	for i, line := range strings.Split(strings.TrimSuffix(shown, "\n"), "\n") {
		if want := map[bool]string{true: "• word", false: "  word"}[i == 0]; !strings.HasPrefix(line, want) || Columns([]byte(line)) > 80 {
			t.Errorf("line %d: %q", i, line)
		}
	}
	if m.Feed("\n"); m.Feed("text\n") != "text\n" {
		t.Error("the line after an item is indented")
	}
}
