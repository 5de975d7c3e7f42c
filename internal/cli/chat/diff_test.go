package chat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestDiff: a diff has the lines that changed, and no others.
func TestDiff(t *testing.T) {
	const notShown = "too long to show here"
	many := func(format string) string {
		var b strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&b, format+" ", i)
		}
		return b.String() + "same end"
	}
	for _, c := range []struct {
		before, after  string // a word is a line
		want           string
		added, removed int
	}{
		{"a b c", "a B c d", "-b +B +d", 2, 1},
		{"a b c d e", "a B c D e", "-b +B -d +D", 2, 2},
		{"a b c", "a b c", "", 0, 0},
		{"", "a b", "+a +b", 2, 0},
		{"a b", "", "-a -b", 0, 2},
		{"a b c d", "b c", "-a -d", 0, 2},
		{"a b", "c d", "-a -b +c +d", 2, 2},
		{"a b c a b b a", "c b a b a c", "-a -b -a +a +c", 2, 3},
		{"x x x", "x x", "-x", 0, 1},
		{"first " + many("a%d"), "first " + many("b%d"), notShown, 2000, 2000},
	} {
		text := func(words string) string { return strings.ReplaceAll(words, " ", "\n") + "\n" }
		parts := []api.DialoguePart{{Type: "diff", Path: "/p", Old: text(c.before), Text: text(c.after)}}
		if c.before == "" {
			parts[0].Old = ""
		}
		if c.after == "" {
			parts[0].Text = ""
		}
		shows := strings.TrimSpace(strings.TrimPrefix(diffText(parts, 0), "/p\n"))
		shows = strings.ReplaceAll(strings.NewReplacer("- ", "-", "+ ", "+").Replace(shows), "\n", " ")
		if shows != c.want && c.want != notShown {
			t.Errorf("%q to %q: %q, want %q", c.before, c.after, shows, c.want)
		}
		if added, removed, _ := diffSize(parts); added != c.added || removed != c.removed {
			t.Errorf("%q to %q: +%d -%d, want +%d -%d", c.before, c.after, added, removed, c.added, c.removed)
		}
	}
}
