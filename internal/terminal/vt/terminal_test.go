package vt

import (
	"slices"
	"strings"
	"testing"
)

// small is a terminal of 10x4 with ten lines of scrollback that got some bytes.
func small(written string) *Terminal {
	t := New(Config{Cols: 10, Rows: 4, Scrollback: 10})
	t.Write([]byte(written))
	return t
}

func (t *Terminal) line(y int) string {
	cells, _, _ := t.row(y)
	var b []byte
	for _, c := range cells {
		if c.empty() {
			b = append(b, ' ')
		}
		b = t.text(b, c)
	}
	return strings.TrimRight(string(b), " ")
}

func TestVersion(t *testing.T) {
	for _, c := range []struct {
		name, before, write string
		rises               bool
	}{
		{"nothing", "", "", false},
		{"text", "", "x", true},
		{"a cursor movement", "", "\x1b[C", true},
		{"a movement to where it is", "\x1b[2;2H", "\x1b[2;2H", false},
		{"the pen", "", "\x1b[31m", false},
		{"a mode", "", "\x1b[?2004h", true},
		{"a mode it is in", "\x1b[?2004h", "\x1b[?2004h", false},
		{"the cursor hidden", "", "\x1b[?25l", true},
		{"the cursor's style", "", "\x1b[5 q", true},
		{"the title", "", "\x1b]2;t\a", true},
		{"the same title", "\x1b]2;t\a", "\x1b]2;t\a", false},
		{"the other screen", "", "\x1b[?47h", true},
		{"a question", "", "\x1b[c", false},
		{"half a sequence", "", "\x1b[3", false},
		{"keyboard flags", "", "\x1b[>1u", true},
		{"scrollback cleared", "1\n2\n3\n4\n5\n", "\x1b[3J", true},
		{"reset", "", "\x1bc", true},
	} {
		term := small(c.before)
		was := term.Version()
		term.Write([]byte(c.write))
		if rose := term.Version() > was; rose != c.rises {
			t.Errorf("%s: version rose: %v", c.name, rose)
		}
	}
	term := small("")
	was := term.Version()
	if term.Resize(10, 4); term.Version() != was {
		t.Error("version rose with a resize to the same size")
	}
	if term.Resize(11, 4); term.Version() == was {
		t.Error("version did not rise with a resize")
	}
}

// Rows say when they last changed.
func TestRowVersion(t *testing.T) {
	changed := func(written, then string) (rows []int) {
		term := small(written)
		was := term.Version()
		term.Write([]byte(then))
		for y := range term.rows {
			if _, _, version := term.row(y); version > was {
				if version != term.Version() {
					t.Errorf("%q: row %d changed in %d, the terminal is at %d", then, y, version, term.Version())
				}
				rows = append(rows, y)
			}
		}
		return rows
	}
	for _, c := range []struct {
		written, then string
		want          []int
	}{
		{"abc", "\x1b[3;1Hx", []int{2}},
		{"abc", "\x1b[3;1H漢e\u0301", []int{2}},
		{"abc", "\x1b[2;1H\x1b[K", []int{1}},
		{"abc", "\x1b[2;1H\x1b[P\x1b[3;1H\x1b[@", []int{1, 2}},
		{"abc", "\x1b[3;1H\x1b[J", []int{2, 3}},
		{"abc", "0123456789x", []int{0, 1}},
		{"abc", "\x1b[2;3r\x1b[3;1H\n", []int{1, 2}},
		{"abc", "\x1b[4;1H\n", []int{0, 1, 2, 3}},
		{"abc", "\x1b[2;1H\x1b[L", []int{1, 2, 3}},
		{"abc", "\x1b[?1049h", []int{0, 1, 2, 3}},
		{"abc", "\x1b[5C", nil},
	} {
		if got := changed(c.written, c.then); !slices.Equal(got, c.want) {
			t.Errorf("%q: rows %v changed, want %v", c.then, got, c.want)
		}
	}
}

// A line keeps its absolute number when it scrolls, also when older ones are forgotten.
func TestAbsoluteNumbers(t *testing.T) {
	term := small("")
	for range 30 {
		term.Write([]byte("\r\n"))
	}
	if h := &term.history; h.len() != 10 || h.first != 17 {
		t.Errorf("%d lines from %d on, want 10 from 17 on", h.len(), h.first)
	}
	epoch := term.Epoch()
	term.Write([]byte("\r\nx"))
	term.Resize(10, 5)
	if term.Epoch() != epoch {
		t.Error("epoch rose with a scroll or another number of rows")
	}
	for name, change := range map[string]func(){
		"reflow":             func() { term.Resize(9, 5) },
		"scrollback cleared": func() { term.Write([]byte("\x1b[3J")) },
		"the other screen":   func() { term.Write([]byte("\x1b[?1049h")) },
		"reset":              func() { term.Write([]byte("\x1bc")) },
	} {
		term = small(strings.Repeat("\n", 20))
		if change(); term.Epoch() == 0 {
			t.Errorf("%s: epoch did not rise", name)
		}
	}
}

func TestBatch(t *testing.T) {
	term := small("\x1b[?2026h")
	if !term.InBatch() || !term.Modes().SynchronizedOutput {
		t.Error("not in a batch")
	}
	version := term.Version()
	term.EndBatch()
	if term.InBatch() || term.Version() == version {
		t.Error("the batch did not end")
	}
	term.Write([]byte("\x1b[?2026hx\x1b[?2026l"))
	if term.InBatch() {
		t.Error("the batch was not closed")
	}
}

// Unfinished knows whether a sequence is open, and unfinished brings another terminal to the same point of it.
func TestUnfinished(t *testing.T) {
	for _, s := range []string{
		"\x1b[1;31mX", "\x1b[?2004h", "\x1b[38:2::1:2:3mX", "\x1b]2;title\x1b\\", "\x1b]8;id=a;http://b\aX", "\x1b(0q", "\x1bP$qm\x1b\\", "\x1b[5 q", "\x1b[!p",
		"漢字", "😀", "\x1b]2;漢\a", "\x1bXsos 漢\x1b\\", "\x1b[1<2mX", "\x1bP1<2\x1b\\", "\u009b1mX", "\x1b[>4;2m", "\x1b[0?hX", "\x1b#8",
		"\x1b[" + strings.Repeat("1;", 40) + "4mX", "\x1b[4:" + strings.Repeat("1:", 40) + "3mX", "\x1b[1\n2H", "\x1b[3\x1b[4mX",
	} {
		whole := small(s)
		if len(s) > 2 && whole.Unfinished() {
			t.Errorf("%q: unfinished at its end", s)
		}
		for cut := 1; cut < len(s); cut++ {
			first := small(s[:cut])
			rest := first.unfinished(nil)
			if first.Unfinished() != (len(rest) > 0) {
				t.Errorf("%q: unfinished %v, but %q is left", s[:cut], first.Unfinished(), rest)
			}
			if len(rest) == 0 {
				continue
			}
			second := small(string(rest))
			if got := second.unfinished(nil); second.parser.state != first.parser.state || string(got) != string(rest) {
				t.Errorf("%q: %q leads to state %d with %q, want %d", s[:cut], rest, second.parser.state, got, first.parser.state)
			}
			second.title = first.title // which may have been set by the ESC that ends it
			second.Write([]byte(s[cut:]))
			if second.title != whole.title || !second.pen.sameAs(whole.pen) || second.modes != whole.modes {
				t.Errorf("%q, then %q: not the same as in one", rest, s[cut:])
			}
		}
	}
}

func TestTitles(t *testing.T) {
	term := small("\x1b]0;one\a\x1b[22t\x1b]2;two\a\x1b[22;2t\x1b]2;three ✳\a")
	for _, want := range []string{"three ✳", "two", "one", "one"} {
		if term.Title() != want {
			t.Errorf("title %q, want %q", term.Title(), want)
		}
		term.Write([]byte("\x1b[23;0t"))
	}
	term.Write([]byte(strings.Repeat("\x1b[22t", 1000)))
	if len(term.titles) != maxTitles || len(term.icons) != maxTitles {
		t.Errorf("%d titles are kept", len(term.titles))
	}
}

func TestWorkingDir(t *testing.T) {
	for _, c := range []struct{ say, want string }{
		{"", ""},
		{"\x1b]7;file://host/tmp/a%20b\x1b\\", "/tmp/a b"},
		{"\x1b]7;file:///tmp\a\x1b]7;http://host/x\a", "/tmp"},
		{"\x1b]7;file:///tmp\a\x1b]7;nonsense\a", "/tmp"},
		{"\x1b]7;file:///tmp\a\x1b]7;file:///a%2\a", "/tmp"},
		{"\x1b]7;file:///tmp\a\x1b]7;file:///a%zz\a", "/tmp"},
		{"\x1b]7;file:///tmp/%e6%bc%a2\a", "/tmp/漢"},
		{"\x1b]7;file:///tmp\a\x1b]7;\a", ""},
	} {
		if got := small(c.say).WorkingDir(); got != c.want {
			t.Errorf("%q: %q, want %q", c.say, got, c.want)
		}
	}
}

func TestLinks(t *testing.T) {
	term := small("a\x1b]8;id=x:y=z;http://one\ab\x1b[1mc\x1b]8;;http://two\x1b\\d\x1b]8;;\ae\r\n\n\n\n")
	cells, _, _ := term.row(-1)
	for x, want := range []string{"", "http://one", "http://one", "http://two", ""} {
		got := ""
		if l := term.style(cells[x]).link; l != nil {
			got = l.uri
		}
		if got != want {
			t.Errorf("cell %d: link %q, want %q", x, got, want)
		}
	}
	if l := term.style(cells[1]).link; l == nil || l.id != "x" {
		t.Errorf("the link's id is lost: %v", l)
	}
}

// Each screen has its own stack of keyboard flags.
func TestKeyboardStack(t *testing.T) {
	term := small("\x1b[>1u\x1b[>5u")
	steps := []struct {
		write string
		want  int
	}{
		{"", 5}, {"\x1b[=2;2u", 7}, {"\x1b[=1;3u", 6}, {"\x1b[=8u", 8}, {"\x1b[?1049h", 0}, {"\x1b[>3u", 3}, {"\x1b[?1049l", 8}, {"\x1b[?1049h", 0}, {"\x1b[?1049l", 8},
		{"\x1b[<u", 1}, {"\x1b[<u", 0}, {"\x1b[<9u", 0}, {"\x1b[>255u", 31}, {"\x1bc", 0},
	}
	for _, s := range steps {
		term.Write([]byte(s.write))
		if got := term.Modes().KittyFlags; got != s.want {
			t.Errorf("after %q: flags %d, want %d", s.write, got, s.want)
		}
	}
	term.Write([]byte(strings.Repeat("\x1b[>1u", 1000)))
	if n := len(term.active.keyboard.stack); n > maxKeyboardStack {
		t.Errorf("%d flags are kept", n)
	}
}

func TestCursorAndModes(t *testing.T) {
	term := small("\x1b[4 q\x1b[?25l\x1b[?1003h\x1b[?1006h\x1b[?1004h\x1b[>4;1m0123456789")
	want := Cursor{X: 10, Style: "underline", PendingWrap: true}
	if got := term.Cursor(); got != want {
		t.Errorf("cursor %+v, want %+v", got, want)
	}
	m := term.Modes()
	if m.Mouse != "any" || m.MouseEncoding != "sgr" || !m.SendFocus || m.ModifyOtherKeys != 1 || !m.Wraparound {
		t.Errorf("modes %+v", m)
	}
	term.Write([]byte("\x1b[?25h\x1b[5 q\x1b[?1003l\x1b[?1016h\x1b[>4m"))
	if got := term.Cursor(); !got.Visible || got.Style != "bar" || !got.Blink {
		t.Errorf("cursor %+v", got)
	}
	if m := term.Modes(); m.Mouse != "none" || m.MouseEncoding != "sgr-pixels" || m.ModifyOtherKeys != 0 {
		t.Errorf("modes %+v", m)
	}
}

func TestSizes(t *testing.T) {
	for _, c := range [][4]int{{0, 0, 2, 1}, {-1, -1, 2, 1}, {1, 1, 2, 1}, {1 << 30, 1 << 30, maxCols, maxRows}, {80, 24, 80, 24}} {
		term := New(Config{Cols: c[0], Rows: c[1]})
		if cols, rows := term.Size(); cols != c[2] || rows != c[3] {
			t.Errorf("New %dx%d: %dx%d", c[0], c[1], cols, rows)
		}
		term = small("x")
		term.Resize(c[0], c[1])
		if cols, rows := term.Size(); cols != c[2] || rows != c[3] {
			t.Errorf("Resize %dx%d: %dx%d", c[0], c[1], cols, rows)
		}
		term.check(t)
	}
}
