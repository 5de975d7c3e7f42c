package vt

import (
	"bytes"
	"testing"
)

// check fails when the terminal is not in a state that it may be in.
func (t *Terminal) check(tb testing.TB) {
	tb.Helper()
	for _, s := range []*screen{&t.primary, &t.alternate} {
		if s == t.active && len(s.lines) != t.rows {
			tb.Fatalf("%d lines, %d rows", len(s.lines), t.rows)
		}
		for y, ln := range s.lines {
			if len(ln.cells) < t.cols || s == &t.primary && len(ln.cells) != t.cols {
				tb.Fatalf("row %d: %d cells, %d columns", y, len(ln.cells), t.cols)
			}
			for x, c := range ln.cells {
				t.checkCell(tb, x, y, c)
			}
		}
		if s.x < 0 || s.x > t.cols+1 || s.y < 0 || s.y >= t.rows {
			tb.Fatalf("cursor at %d,%d of %dx%d", s.x, s.y, t.cols, t.rows)
		}
		if s.top < 0 || s.top > s.bottom || s.bottom >= t.rows || len(s.tabs) < t.cols+2 {
			tb.Fatalf("region %d to %d of %d rows, %d tabs of %d columns", s.top, s.bottom, t.rows, len(s.tabs), t.cols)
		}
		if len(s.above) > maxRows {
			tb.Fatalf("%d lines above the screen", len(s.above))
		}
	}
	h := &t.history
	if h.len() > h.limit || h.len() < 0 {
		tb.Fatalf("%d lines of scrollback, at most %d", h.len(), h.limit)
	}
	lines := map[*page]int{}
	for i := range h.len() {
		packed := h.at(i)
		lines[packed.page]++
		cells := t.unpack(packed)
		if len(cells) != int(packed.cells) {
			tb.Fatalf("line %d of the scrollback: %d cells, want %d", i, len(cells), packed.cells)
		}
		for x, c := range cells {
			t.checkCell(tb, x, i-h.len(), c)
		}
	}
	bytes, links := 0, 0
	for p, n := range lines {
		bytes += cap(p.data)
		links += p.bytes
		if p.lines != n {
			tb.Fatalf("a page says that it has %d lines, and has %d", p.lines, n)
		}
	}
	if h.len() > 0 && (h.bytes != bytes || h.linkBytes != links) {
		tb.Fatalf("scrollback says %d bytes and %d of links, and has %d and %d", h.bytes, h.linkBytes, bytes, links)
	}
	if len(t.replies) > maxReplies || len(t.parser.payload) > maxPayload || len(t.parser.collect) > maxCollect {
		tb.Fatal("something is too long")
	}
	t.settle()
}

func (t *Terminal) checkCell(tb testing.TB, x, y int, c cell) {
	if int(c.style) >= len(t.styles.attrs) {
		tb.Fatalf("cell %d,%d: style %d of %d", x, y, c.style, len(t.styles.attrs))
	}
	if c.ch&isCluster != 0 && (int(c.ch&chMask) >= len(t.clusters.texts) || t.clusters.texts[c.ch&chMask] == "") {
		tb.Fatalf("cell %d,%d: text %d of %d", x, y, c.ch&chMask, len(t.clusters.texts))
	}
	if c.ch&widthMask == widthMask || c.ch>>24 != 0 {
		tb.Fatalf("cell %d,%d: %#x", x, y, c.ch)
	}
}

// FuzzWrite writes bytes and resizes: a byte 0xff, which no text contains, is followed by columns and rows. After any
// bytes the terminal is in a valid state, and in the same state when the bytes arrive in pieces.
func FuzzWrite(f *testing.F) {
	for _, s := range []string{
		"plain text\r\n", "\x1b[1;31mcolour\x1b[0m", "漢字e\u0301😀\xff\x05\x03\xff\x28\x10", "\x1b[?1049h\x1b[2J\xff\x0a\x02\x1b[?1049l",
		"\x1b[2147483647b\x1b[2147483647@\x1b[2147483647L", "\x1b]8;;http://a\ax\x1b]8;;\a", "\x1bP$qm\x1b\\\x1b]2;t", "\xe2\x80", "\x1b[2;3r\x1b[?6h\n\n\n\xff\x02\x01",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nbbbbbbbbbbbbbbbbbbbbbbb\xff\x03\x04\xff\x50\x18", "\x1b[4h漢\b漢\x1b['}\x1b[ @\x1b#8\x1bc",
	} {
		f.Add([]byte(s), uint8(20), uint8(5), uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, cols, rows, cut uint8) {
		if len(data) > 2048 {
			return
		}
		play := func(cut int) *Terminal {
			term := New(Config{Cols: int(cols), Rows: int(rows % 64), Scrollback: 50})
			for i, part := range bytes.Split(data, []byte{0xff}) {
				if i > 0 && len(part) >= 2 {
					term.Resize(int(part[0]), int(part[1]%64))
					part = part[2:]
				}
				for len(part) > 0 {
					n := min(cut, len(part))
					term.Write(part[:n])
					part = part[n:]
				}
			}
			return term
		}
		whole, pieces := play(len(data)+1), play(int(cut%17)+1)
		whole.check(t)
		pieces.check(t)
		if !whole.sameAs(pieces) {
			t.Fatalf("in pieces of %d: %s", cut%17+1, pieces.pageState(true).difference(whole.pageState(true)))
		}
	})
}
