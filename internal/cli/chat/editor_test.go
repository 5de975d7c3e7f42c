package chat

import (
	"strings"
	"testing"
)

// TestEditorKeys: the editor translates keys that the library does not know, wherever a read
// cuts their sequences.
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
