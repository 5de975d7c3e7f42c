package vt

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Every sequence with the largest number there is, with every prefix and many intermediates: none takes long or harms.
func TestHugeCounts(t *testing.T) {
	term := New(Config{Cols: 80, Rows: 24, Scrollback: 1000})
	for _, before := range []string{"", "?", ">", "=", "<"} {
		for _, between := range []string{"", " ", "!", "\"", "$", "'", "*"} {
			for final := byte(0x40); final < 0x7f; final++ {
				term.Write([]byte("a漢\x1b[" + before + "2147483647;2147483647;99999999999999999999" + between + string(rune(final))))
			}
			term.check(t)
		}
	}
	term.Write([]byte(strings.Repeat("x\x1b[2147483647b", 100)))
	term.Resize(2, 1)
	term.Resize(maxCols, 2)
	term.check(t)
}

func TestManyCombiningCharacters(t *testing.T) {
	term := New(Config{Cols: 80, Rows: 24, Scrollback: 1000})
	term.Write([]byte("e" + strings.Repeat("\u0301", 200_000) + "x"))
	if text := term.line(0); len(text) > maxCluster+1 || !strings.HasPrefix(text, "e\u0301\u0301") || !strings.HasSuffix(text, "x") {
		t.Errorf("%d bytes of text", len(text))
	}
	term.Write([]byte(strings.Repeat("漢"+strings.Repeat("\u0301\u0302", 200), 10_000)))
	term.check(t)
	if c := &term.clusters; c.bytes > maxClusters || c.inUse() > 4*80*24 {
		t.Errorf("%d texts with %d bytes are kept for 80x24 cells", c.inUse(), c.bytes)
	}
}

// However much is in its lines, scrollback takes no more memory than it may.
func TestLargeScrollback(t *testing.T) {
	term := New(Config{Cols: 80, Rows: 24, Scrollback: 10_000})
	term.Write([]byte("e" + strings.Repeat("\u0301", 250)))
	for range 2 {
		term.Write([]byte("\x1b[2147483647b\r\ne" + strings.Repeat("\u0301", 250)))
	}
	term.check(t)
	if h := &term.history; h.bytes > maxHistoryBytes || h.bytes < maxHistoryBytes/2 {
		t.Errorf("scrollback of %d lines and %d bytes", h.len(), h.bytes)
	}
	term.Resize(79, 24)
	term.check(t)
	if h := &term.history; h.bytes > maxHistoryBytes+1<<20 {
		t.Errorf("wrapped anew, scrollback of %d lines and %d bytes", h.len(), h.bytes)
	}
}

// A string that does not end is dropped when it is too long, and what comes after its end is read again.
func TestEndlessStrings(t *testing.T) {
	for _, begin := range []string{"\x1b]2;", "\x1b]52;c;", "\x1bP+q", "\x1bPq", "\x1b_G", "\x1b^", "\x1bX", "\x1b]", "\u009d", "\x1b[" + strings.Repeat("1", 1000)} {
		term := small("\x1b]2;before\a")
		term.Write([]byte(begin))
		piece := bytes.Repeat([]byte("1"), 1<<20)
		for range 4 {
			term.Write(piece)
			term.check(t)
		}
		if rest := term.unfinished(nil); !term.Unfinished() || len(rest) > maxPayload+16 {
			t.Errorf("%q: unfinished %v with %d bytes", begin, term.Unfinished(), len(rest))
		}
		term.Write([]byte("\x1b\\x"))
		if term.line(0) != "x" || term.Title() != "before" || cap(term.parser.payload) > 4096 {
			t.Errorf("%q: then %q with title %.20q, %d bytes kept", begin, term.line(0), term.Title(), cap(term.parser.payload))
		}
	}
}

// Styles and clusters that no cell has any more are forgotten, and those in the scrollback are right all the same.
func TestManyStyles(t *testing.T) {
	const lines = 5000
	term := New(Config{Cols: 20, Rows: 5, Scrollback: lines})
	style := func(i, j int) (r, g, b int) { return i % 256, i / 256, j }
	for i := range lines {
		var b bytes.Buffer
		for j := range 20 {
			r, g, bl := style(i, j)
			fmt.Fprintf(&b, "\x1b[38;2;%d;%d;%d;4;58;5;%dm%c\u0301", r, g, bl, j, 'a'+j)
		}
		b.WriteString("\x1b[m\r\n")
		term.Write(b.Bytes())
	}
	if n := term.styles.inUse(); n > 2*leastStyles {
		t.Errorf("%d styles are kept for 100 cells", n)
	}
	if n := term.clusters.inUse(); n > 2*leastClusters {
		t.Errorf("%d texts are kept for 100 cells", n)
	}
	for i := range lines {
		cells, _, _ := term.row(i - term.history.len())
		for j, c := range cells {
			r, g, b := style(i, j)
			want := attr{fg: RGB(uint8(r), uint8(g), uint8(b)), ul: Palette(uint8(j)), underline: 1}
			if got := term.style(c); got != want || string(term.text(nil, c)) != string(rune('a'+j))+"\u0301" {
				t.Fatalf("line %d cell %d: %q in %+v, want %+v", i, j, term.text(nil, c), got, want)
			}
		}
	}
	term.check(t)
}

// The oldest lines lose their links when those become too many; the newest keep theirs.
func TestManyLinks(t *testing.T) {
	term := New(Config{Cols: 20, Rows: 5, Scrollback: 10_000})
	target := func(i int) string { return fmt.Sprintf("http://host/%s/%d", strings.Repeat("x", 1500), i) }
	for i := range 10_000 {
		term.Write([]byte("\x1b]8;;" + target(i) + "\alink\r\n"))
	}
	term.check(t)
	if h := &term.history; h.linkBytes > maxLinkBytes+maxPageLinks {
		t.Errorf("links of %d bytes", h.linkBytes)
	}
	cells, _, _ := term.row(-1)
	if l := term.style(cells[0]).link; l == nil || l.uri != target(10_000-5) {
		t.Errorf("the newest line's link: %v", l)
	}
	cells, _, _ = term.row(-term.history.len())
	if l := term.style(cells[0]).link; l != nil {
		t.Errorf("the oldest line still has a link: %.40s", l.uri)
	}
}

func TestMemory(t *testing.T) {
	for name, most := range map[string]uint64{"plain": 2 << 20, "colour": 3 << 20, "cjk": 4 << 20} {
		if got := memoryOf(samples[name]()); got > most {
			t.Errorf("%s: 80x24 with 10,000 lines takes %d bytes, at most %d", name, got, most)
		}
	}
}

// Writing text, in colour or not, allocates nothing once the scrollback is full.
func TestNoAllocations(t *testing.T) {
	for _, name := range []string{"plain", "colour", "tui", "cjk", "unicode"} {
		sample := samples[name]()
		term := New(Config{Cols: 80, Rows: 24, Scrollback: 1000})
		term.Write(sample)
		term.Write(sample)
		perKiB := testing.AllocsPerRun(3, func() { term.Write(sample) }) / float64(len(sample)/1024)
		if perKiB > 0.2 {
			t.Errorf("%s: %.2f allocations per KiB", name, perKiB)
		}
	}
}

// Unpacking restores every line that was packed.
func TestPack(t *testing.T) {
	for _, s := range []string{
		"", "plain", "  two spaces  ", "\x1b[5Cgap", "\x1b[41m\x1b[K\x1b[m", "漢字ab", "e\u0301x", "漢\u0301y", "\u0301alone", "\x1b[1;2;3;4:3;5;7;8;9;53m\x1b[58;5;9mall\x1b[m",
		"\x1b[38;5;1m\x1b[48;2;1;2;3mcolours\x1b[m", "\x1b]8;id=1;http://a\alink\x1b]8;;\a", "\x1b[1\"qprotected\x1b[0\"q", "😀\u200d😀\ufe0f", "漢\b\x1b[@x", "\x1b[39G漢",
	} {
		term := New(Config{Cols: 40, Rows: 3, Scrollback: 100})
		term.Write([]byte(s))
		cells := term.active.lines[0].cells
		term.record(cells, true, 7)
		packed := term.history.at(0)
		got := append(slices.Clone(term.unpack(packed)), make([]cell, 40-packed.cells)...)
		if !slices.Equal(got, cells) || !packed.wrapped || packed.version != 7 {
			t.Errorf("%q: %v, want %v", s, got, cells)
		}
	}
}
