package chat

import (
	"slices"
	"testing"
)

// TestHistory: a message is one entry, also when its lines were entered one by one.
func TestHistory(t *testing.T) {
	const interrupt, question, message = "Ctrl-C", "question", "message"
	for _, c := range []struct {
		typed []string
		want  []string // newest first
	}{
		{[]string{"a", "b", "b", " "}, []string{"b", "a"}},
		{[]string{"a", `two \`, "lines", "b"}, []string{"b", "two ⏎lines", "a"}},
		{[]string{`1\`, `2\`, "", "b"}, []string{"b", "1⏎2⏎"}},
		{[]string{`\`, "a"}, []string{"⏎a"}},
		{[]string{`1\`, "2", `1\`, "2", "1⏎2"}, []string{"1⏎2"}},
		{[]string{`1\`, interrupt, "2"}, []string{"2", `1\`}},
		{[]string{`1\`, question, "y", message, "2"}, []string{"1⏎2"}},
	} {
		e := &editor{}
		for _, line := range c.typed {
			switch line {
			case interrupt:
				history{e}.dropPart()
			case question, message:
				e.remember(line == message)
			default:
				history{e}.Add(line)
			}
		}
		if !slices.Equal(e.past, c.want) {
			t.Errorf("%q: %q, want %q", c.typed, e.past, c.want)
		}
	}
}
