package view

import (
	"bytes"
	"strings"
	"testing"
)

// TestMouseInPartOfAScreen: in a window that shows a part of the screen, or is larger, the program
// gets the position of a click on its screen.
func TestMouseInPartOfAScreen(t *testing.T) {
	// The cursor is in column 61 and row 21 of a screen of 80x24.
	const at = "\x1b[21;61H"
	for _, c := range []struct {
		name, modes, typed, want string
		cols, rows               int
	}{
		{"part", "\x1b[?1000;1006h", "a\x1b[<0;5;3Mb\x1b[<0;5;3m", "a\x1b[<0;26;14Mb\x1b[<0;26;14m", 40, 10},
		{"rows only", "\x1b[?1002;1006h", "\x1b[<32;5;3M", "\x1b[<32;5;14M", 80, 10},
		{"room", "\x1b[?1000;1006h", "\x1b[<0;5;3M\x1b[<0;81;3M\x1b[<0;5;25Mx", "\x1b[<0;5;3Mx", 100, 30},
		{"released beside it", "\x1b[?1002;1006h", "\x1b[<0;90;27m", "\x1b[<0;80;24m", 100, 30},
		{"the old form", "\x1b[?1000h", "\x1b[<0;5;3M\x1b[<0;5;3m", "\x1b[M\x20\x3a\x2e\x1b[M\x23\x3a\x2e", 40, 10},
		{"the oldest form", "\x1b[?9h", "\x1b[<0;5;3M\x1b[<0;5;3m", "\x1b[M\x20\x3a\x2e", 40, 10},
		{"other keys", "\x1b[?1000;1006h", "\x1b[<65;1;1\x1b[A\x1b[<x", "\x1b[<65;1;1\x1b[A\x1b[<x", 40, 10},
		{"no mouse", "", "\x1b[<0;5;3M", "\x1b[<0;5;3M", 40, 10},
		{"the same size", "\x1b[?1000;1006h", "\x1b[<0;5;3M", "\x1b[<0;5;3M", 80, 24},
	} {
		var out bytes.Buffer
		w := New(&out, c.cols, c.rows)
		w.Snapshot([]byte(c.modes+at), 80, 24)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := string(w.Typed([]byte(c.typed))); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for encoding, want := range map[string]bool{"\x1b[?1006h": true, "": true, "\x1b[?1016h": false} {
		var out bytes.Buffer
		w := New(&out, 40, 10)
		w.Snapshot([]byte("\x1b[?1000h"+encoding), 80, 24)
		_ = w.Flush()
		if got := strings.Contains(out.String(), "\x1b[?1000h"); got != want {
			t.Errorf("%q: the mouse is on: %v", encoding, got)
		}
		if want && !strings.Contains(out.String(), "\x1b[?1006h") {
			t.Errorf("%q: reports are not in digits: %q", encoding, out.String())
		}
	}
}

// TestSkip: while the output is skipped nothing of it is written, but bells; then the screen
// is shown as it is.
func TestSkip(t *testing.T) {
	for name, c := range map[string]struct{ output, shown, never string }{
		"text":        {"skipped\r\n\a" + strings.Repeat("x\r\n", 50) + "shown", "shown", "skipped"},
		"alternate":   {"skipped\x1b[H\x1b[2J\x1b[?1049h\x1b[Hshown", "shown", "skipped"},
		"other size":  {"skipped\r\n" + strings.Repeat("\r\n", 30) + "shown", "shown", "skipped"},
		"a sequence":  {"skipped\x1b[2J\x1b[Hshown\x1b[3", "shown", "skipped"},
		"many bells":  {strings.Repeat("\a", 1<<20) + "shown", "shown", strings.Repeat("\a", maxEffects+1)},
		"a clipboard": {"\x1b]52;c;c2hvd24=\a", "\x1b]52;c;c2hvd24=", "never"},
	} {
		var out bytes.Buffer
		w := New(&out, 80, 24)
		w.Snapshot([]byte("before"), 80, 24)
		_ = w.Flush()
		out.Reset()
		w.Skip()
		for _, b := range []byte(c.output) {
			w.Output([]byte{b})
		}
		if name == "other size" {
			w.Resize(90, 30)
		}
		if err := w.Flush(); err != nil || w.Skipping() {
			t.Fatal(name, err)
		}
		if got := out.String(); !strings.Contains(got, c.shown) || strings.Contains(got, c.never) {
			t.Errorf("%s: %.300q", name, got)
		}
		out.Reset()
		w.Output([]byte("\x18after"))
		if _ = w.Flush(); !strings.Contains(out.String(), "after") {
			t.Errorf("%s: then %q", name, out.String())
		}
	}
}
