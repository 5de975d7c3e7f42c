package chat

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/term"
)

// TestEditorKeys: the editor translates keys that the library does not know, wherever a read
// cuts their sequences.
func TestEditorKeys(t *testing.T) {
	for typed, want := range map[string]string{
		"ab\r":                          "ab\r",
		"a\x1b\rb":                      "a⏎b",
		"a\x1b[13;2ub":                  "a⏎b",
		"\x1b[A\x1b[1;5D":               "\x1b[A" + keyWordLeft,
		"\x1b[Hx\x1b[1~x\x1b[7~x\x1bOH": "\x01x\x01x\x01x\x01",
		"\x1b[Fx\x1b[4~x\x1b[8~x\x1bOF": "\x05x\x05x\x05x\x05",
		"\x1bOA\x1bOB\x1bOC\x1bOD":      "\x1b[A\x1b[B\x1b[C\x1b[D",
		"\x1b[1;2A\x1b[1;2C\x1b[1;2H":   "\x1b[A\x1b[C\x01", // with Shift
		"\x1bb\x1b[1;5D\x1b[1;3D\x1bOd": keyWordLeft + keyWordLeft + keyWordLeft + keyWordLeft,
		"\x1bf\x1b[1;5C\x1b[1;3C\x1bOc": keyWordRight + keyWordRight + keyWordRight + keyWordRight,
		"\x1b\x7fx\x1b\bx\x1b[3~x":      "\x17x\x17x\x1b[3~x",
		"\x1bd\x1b[3;5~":                string(keyDeleteNext) + string(keyDeleteNext),
		"a\x1bOPb\x1b[15~c\x1b[[Ad\x1b[24;5~e\x1b[Zf\x1b[5~g":     "abcdefg", // function keys, Shift-Tab, Page Up
		"a\x1b[<0;10;5Mb\x1b[Ic\x1b[?62;22cd\x1b[201~e":           "abcde",   // answers and reports of the terminal
		"a\x1b[M !!b\x1b[M#éàc\x1b[M \xf0\xe1d":                   "abcd",    // the mouse, without and with UTF-8
		"a\x1b]11;rgb:00/00\x1b\\b\x1b]0;x\ac\x1bP>|xterm\x1b\\d": "abcd",
		"a\x1bhb\x1bäc\x1b.d":                                     "abcd", // Alt with a key that has no meaning
		"\x1b\x1b[A\x1b\x03":                                      "\x1b[A" + clearLine,
		"\x1b[1\rb\x1b[äb\x1b]x\rb":                               "\rbäb\rb", // sequences without an end
		"\x1b[200~one line\x1b[201~x":                             "one linex",
		"\x1b[200~a\x1b[A\tb\x1b[201~":                            "[pasted 1: 1 line]",
		"\x1b[200~a\r\nb\rc\n\x1b[201~\r":                         "[pasted 1: 3 lines]\r",
		"ä\x03":                                                   "ä" + clearLine,
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

// TestEditorCharacters: no read cuts a character, and one that is none does not hold back the line.
func TestEditorCharacters(t *testing.T) {
	for typed, want := range map[string]string{"aäb€c😀\r": "aäb€c😀", "a\xffb\r": "a?b", "a\xe2\x82b\r": "a??b"} {
		for cut := 1; cut < len(typed); cut++ {
			e := &editor{interrupts: make(chan struct{}, 1), pasted: map[string]string{}, chunks: make(chan []byte, 2)}
			e.term = term.NewTerminal(struct {
				io.Reader
				io.Writer
			}{e, io.Discard}, "> ")
			e.term.AutoCompleteCallback = e.key
			e.chunks <- []byte(typed[:cut])
			e.chunks <- []byte(typed[cut:])
			if got, err := e.term.ReadLine(); got != want || err != nil {
				t.Errorf("%q cut at %d: %q, %v", typed, cut, got, err)
			}
		}
	}
}

// TestEditorEscape: a person who presses Esc and later another key gets that key. A sequence that
// comes in two parts, however late, is still one key.
func TestEditorEscape(t *testing.T) {
	for _, c := range []struct{ first, later, want string }{
		{"\x1b", "h", "h"},
		{"\x1b", "[", "["},
		{"\x1b", "O", "O"},
		{"\x1b", "OK", "OK"},
		{"\x1b", "[x] done", "[x] done"},
		{"\x1b", "\r", "\r"},
		{"a\x1b", "\x1b[A", "a\x1b[A"},
		{"\x1b]", "x", "x"}, // Alt-]
		{"\x1bP", "ab", "ab"},
		{"\x1b", "[A", "\x1b[A"},
		{"\x1b", "OH", "\x01"},
		{"\x1b[", "A", "\x1b[A"},
		{"\x1b[M", "abc", "abc"}, // a function key
		{"\x1b[M !", "!", "!"},
		{"\x1b[1;", "5D", keyWordLeft},
		{"\x1b", "[200~x\x1b[201~", "x"},
		{"\x1b[200~one", " two\x1b[201~", "one two"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &editor{interrupts: make(chan struct{}, 1), pasted: map[string]string{}, chunks: make(chan []byte)}
			go func() {
				defer close(e.chunks)
				for _, typed := range []string{c.first, c.later} {
					e.chunks <- []byte(typed)
					time.Sleep(time.Second) // of the bubble
				}
			}()
			all, err := io.ReadAll(e)
			if got := strings.ReplaceAll(string(all), probe, ""); got != c.want || err != nil {
				t.Errorf("%q, later %q: %q, want %q, %v", c.first, c.later, got, c.want, err)
			}
		})
	}
}

// TestEditorDeletesNextWord: Alt-D deletes to the end of the next word.
func TestEditorDeletesNextWord(t *testing.T) {
	for typed, want := range map[string]string{
		"one two three\x01\x1bd":      " two three",
		"one two three\x01\x1bf\x1bd": "one  three",
		"one two\x1bb\x02\x1bd!":      "one!",
		"one\x1b\rtwo\x01\x1bd":       lineBreak + "two",
		"one\x1bd two \x1b\x7fthree ": "one three ",
	} {
		e := &editor{interrupts: make(chan struct{}, 1), pasted: map[string]string{}, chunks: make(chan []byte, 1)}
		e.term = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{e, io.Discard}, "> ")
		e.term.AutoCompleteCallback = e.key
		e.chunks <- []byte(typed + "\r")
		if got, err := e.term.ReadLine(); got != want || err != nil {
			t.Errorf("%q: %q, want %q, %v", typed, got, want, err)
		}
	}
}
