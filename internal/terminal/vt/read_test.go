package vt

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func terminalWith(cols, rows int, text string) *Terminal {
	term := New(Config{Cols: cols, Rows: rows, Scrollback: 100})
	term.Write([]byte(text))
	return term
}

func TestRows(t *testing.T) {
	term := terminalWith(10, 2, "one\r\ntwo 日本  \r\n\x1b[5Gx\x1b[1;31m  \x1b[m  ")
	if n := term.ScrollbackLen(); n != 1 {
		t.Fatalf("%d lines of scrollback", n)
	}
	for y, want := range map[int]string{-2: "", -1: "one", 0: "two 日本", 1: "    x", 2: ""} {
		if got := term.RowText(y); got != want {
			t.Errorf("row %d: %q, want %q", y, got, want)
		}
	}
	runs := term.RowRuns(1, nil)
	want := []Run{{Text: "    x", X: 0, Width: 5}, {Text: "  ", X: 5, Width: 2, Style: Style{Fg: Palette(1), Bold: true}}}
	if !reflect.DeepEqual(runs, want) {
		t.Errorf("%+v, want %+v", runs, want)
	}
	if runs := term.RowRuns(0, nil); len(runs) != 1 || runs[0].Width != 8 {
		t.Errorf("%+v", runs)
	}
	if runs := term.RowRuns(7, nil); runs != nil {
		t.Errorf("%+v of a row that does not exist", runs)
	}
}

// TestStyles: every attribute comes out of the runs, and is the same again when the row is printed as ANSI somewhere else.
func TestStyles(t *testing.T) {
	link := "\x1b]8;;https://example.com\x1b\\"
	for sgr, want := range map[string]Style{
		"\x1b[1m": {Bold: true}, "\x1b[2m": {Dim: true}, "\x1b[3m": {Italic: true}, "\x1b[5m": {Blink: true}, "\x1b[7m": {Inverse: true}, "\x1b[8m": {Hidden: true}, "\x1b[9m": {Strike: true},
		"\x1b[53m": {Overline: true}, "\x1b[4m": {Underline: 1}, "\x1b[21m": {Underline: 2}, "\x1b[4:3m": {Underline: 3}, "\x1b[4:4m": {Underline: 4}, "\x1b[4:5m": {Underline: 5},
		"\x1b[31m": {Fg: Palette(1)}, "\x1b[95m": {Fg: Palette(13)}, "\x1b[38;5;200m": {Fg: Palette(200)}, "\x1b[38;2;1;2;3m": {Fg: RGB(1, 2, 3)}, "\x1b[42m": {Bg: Palette(2)}, "\x1b[103m": {Bg: Palette(11)},
		"\x1b[48;5;17m": {Bg: Palette(17)}, "\x1b[48:2::9:8:7m": {Bg: RGB(9, 8, 7)}, "\x1b[4;58:5:9m": {Underline: 1, UnderlineColor: Palette(9)}, "\x1b[4;58:2::1:0:1m": {Underline: 1, UnderlineColor: RGB(1, 0, 1)},
		"\x1b[1;3;4:3;7;9;38;5;99;48;2;3;2;1m": {Bold: true, Italic: true, Underline: 3, Inverse: true, Strike: true, Fg: Palette(99), Bg: RGB(3, 2, 1)},
	} {
		term := terminalWith(20, 2, "a"+sgr+"b"+"\x1b[m"+link+"c")
		runs := term.RowRuns(0, nil)
		if len(runs) != 3 || runs[1].Style != want || runs[0].Style != (Style{}) || runs[2].Style.Link != "https://example.com" {
			t.Errorf("%q: %+v, want %+v", sgr, runs, want)
			continue
		}
		again := terminalWith(20, 2, string(term.RowANSI(0, nil))+"z").RowRuns(0, nil)
		if len(again) != 3 || again[1].Style != want || again[2].Style != (Style{}) {
			t.Errorf("%q: %q comes back as %+v", sgr, term.RowANSI(0, nil), again)
		}
	}
}

// TestRestyleIsShort: the way from one style to another is the shorter one.
func TestRestyleIsShort(t *testing.T) {
	red, boldRed := attr{fg: Palette(1)}, attr{fg: Palette(1), flags: bold}
	all := attr{fg: RGB(1, 2, 3), bg: Palette(200), flags: bold | italic | strike, underline: 3}
	for _, c := range []struct {
		from, to attr
		want     string
	}{
		{red, red, ""}, {attr{}, red, "\x1b[31m"}, {red, attr{}, "\x1b[m"}, {red, boldRed, "\x1b[1m"}, {boldRed, red, "\x1b[22m"}, {all, attr{flags: dim}, "\x1b[0;2m"},
		{attr{flags: bold | dim}, attr{flags: dim}, "\x1b[0;2m"}, {attr{flags: bold | dim, fg: RGB(1, 2, 3)}, attr{flags: dim, fg: RGB(1, 2, 3)}, "\x1b[22;2m"},
	} {
		if got := string(appendRestyle(nil, c.from, c.to)); got != c.want {
			t.Errorf("%+v to %+v: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

func TestRowPart(t *testing.T) {
	term := terminalWith(12, 1, "ab\x1b[31m日本\x1b[mcd")
	for _, c := range []struct {
		x, width int
		want     string
	}{
		{0, 12, "ab\x1b[31m日本\x1b[mcd"}, {0, 3, "ab\x1b[31m \x1b[m"}, {3, 3, "\x1b[31m 本\x1b[m"}, {3, 2, "\x1b[31m  \x1b[m"}, {6, 99, "cd"}, {8, 4, ""}, {40, 4, ""}, {-3, 2, "ab"}, {0, 0, ""},
	} {
		if got := string(term.RowPart(0, c.x, c.width, nil)); got != c.want {
			t.Errorf("%d,%d: %q, want %q", c.x, c.width, got, c.want)
		}
	}
}

func TestLogicalLines(t *testing.T) {
	term := terminalWith(10, 3, "short\r\n"+strings.Repeat("0123456789", 3)+"end\r\n日本語日本語x\r\nlast")
	want := []string{"short", strings.Repeat("0123456789", 3) + "end", "日本語日本語x", "last"}
	var got []string
	for abs := term.FirstLine(); abs < term.ScreenLine()+3; {
		text, first, last := term.Logical(abs)
		if first != abs {
			t.Errorf("line %d begins at %d", abs, first)
		}
		for inside := first; inside <= last; inside++ {
			if again, f, l := term.Logical(inside); again != text || f != first || l != last {
				t.Errorf("row %d: %q %d-%d, want %q %d-%d", inside, again, f, l, text, first, last)
			}
		}
		got = append(got, text)
		abs = last + 1
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if text, _, _ := term.Logical(term.ScreenLine() + 3); text != "" {
		t.Errorf("%q below the screen", text)
	}
}

// TestLinesKeepTheirNumbers: a line has the same number on the screen, in scrollback, and when older lines are forgotten.
func TestLinesKeepTheirNumbers(t *testing.T) {
	term := New(Config{Cols: 20, Rows: 4, Scrollback: 10})
	numbers := map[string]int64{}
	for i := range 50 {
		line := fmt.Sprintf("line %d", i)
		term.Write([]byte(line))
		numbers[line] = term.ScreenLine() + int64(term.Cursor().Y)
		for abs := term.FirstLine(); abs <= numbers[line]; abs++ {
			if text, _, _ := term.Logical(abs); numbers[text] != abs {
				t.Fatalf("after %q: row %d is %q, which was %d", line, abs, text, numbers[text])
			}
		}
		term.Write([]byte("\r\n"))
	}
	if term.FirstLine() == 0 {
		t.Error("nothing was forgotten")
	}
}

// TestAlternateIsApart: what is above the alternate screen does not continue in it.
func TestAlternateIsApart(t *testing.T) {
	term := terminalWith(5, 2, "aaaaabbbbbccccc\x1b[?1049h\x1b[Hxxxxxyyyyy")
	text, first, last := term.Logical(term.ScreenLine())
	if text != "xxxxxyyyyy" || last-first != 1 {
		t.Errorf("%q %d-%d", text, first, last)
	}
	if text, _, _ := term.Logical(term.FirstLine()); text != "aaaaa" {
		t.Errorf("%q", text)
	}
}
