package vt

import (
	"fmt"
	"strings"
)

// dump is every part of the state that decides what a terminal shows and how it goes on, one thing per line. A state that no bytes can
// bring about on a terminal of this size is shown as a snapshot restores it:
//   - a cell with half a wide character, or a combining character that joined an empty cell, is empty;
//   - both halves of a wide character look the same;
//   - cells beyond the edge, which a narrower screen hides, are left out;
//   - a cursor that was saved behind the last column is in it;
//   - a link that DECRC has hidden is none;
//   - the empty cell before a pending wrap on the alternate screen is a space;
//   - a character set that only DECRC could put in use is the one that was put in its place;
//   - that a character was just written is forgotten when something has happened to it since.
func dump(t *Terminal) string {
	var b strings.Builder
	say := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	say("size %dx%d alternate %v", t.cols, t.rows, t.Alternate())
	say("modes %+v", t.modes)
	joining := t.joining
	s := t.active
	outside := t.modes.origin && (s.y < s.top || s.y > s.bottom)
	if x := s.x - joining; outside || x < 0 || x >= t.cols || !t.writes(s.lines[s.y].cells, x) {
		joining = 0
	}
	say("pen %s underlines %s joining %d", dumpAttr(t.pen), t.extended.color, joining)
	charsets := t.charsets
	if t.charset != t.active.saved.charset || t.Alternate() && t.active.x >= t.cols {
		charsets[t.gl] = t.charset
	}
	say("charsets %v gl %d in use %v", charsets, t.gl, t.charset)
	say("title %q icon %q titles %q icons %q directory %q", t.title, t.iconTitle, t.titles, t.icons, t.directory)
	say("colours %v %v", t.palette.colors, t.palette.special)
	say("unfinished %q", t.unfinished(nil))
	for i := range t.history.len() {
		ln := t.history.at(i)
		say("%6d %s", i-t.history.len(), dumpRow(t, t.unpack(ln), ln.wrapped))
	}
	dumpScreen(say, t, "primary", &t.primary, t.history.len())
	dumpScreen(say, t, "alternate", &t.alternate, len(t.alternate.above))
	return b.String()
}

func dumpScreen(say func(string, ...any), t *Terminal, name string, s *screen, base int) {
	if s == t.active { // the cursor is handed over when the screen changes
		say("%s cursor %d,%d", name, s.x, s.y)
	}
	savedY := s.saved.y - base
	if s == &t.alternate { // its room is not restored
		savedY = min(max(savedY, 0), t.rows-1)
	}
	if s.saved == (savedCursor{}) {
		savedY = 0
	}
	say("%s region %d-%d saved %d,%d %s %v", name, s.top, s.bottom,
		min(s.saved.x, t.cols-1), savedY, dumpSaved(s.saved), s.saved.charset)
	var tabs []int
	for x := range t.cols {
		if s.tabs[x] {
			tabs = append(tabs, x)
		}
	}
	say("%s tabs %v keyboard %d %v", name, tabs, s.keyboard.flags, s.keyboard.stack)
	for y, ln := range s.lines {
		if !ln.wrapped && y != s.y && blankCells(ln.cells) {
			continue
		}
		cells := append([]cell{}, ln.cells[:t.cols]...)
		if last := &cells[t.cols-1]; s == &t.alternate && y == s.y && s.x >= t.cols && !t.printable(cells, t.cols-1) && last.ch != isSpacer && !t.lone(*last) {
			*last = cell{' ', t.styles.intern(attr{bg: t.style(*last).bg})}
		}
		if row := dumpRow(t, cells, ln.wrapped); row != "" {
			say("%s %3d %s", name, y, row)
		}
	}
}

func dumpRow(t *Terminal, cells []cell, wrapped bool) string {
	if !wrapped && blankCells(cells) {
		return ""
	}
	var b strings.Builder
	if wrapped {
		b.WriteByte('+')
	}
	cells = append([]cell{}, cells[:min(len(cells), t.cols)]...)
	for x, c := range cells {
		if c.ch == isSpacer && x > 0 && cells[x-1].width() == 2 { // it looks like its left half
			c.style = cells[x-1].style
			cells[x].style = c.style
		}
		second := c.ch == isSpacer && x > 0 && cells[x-1].width() == 2 && t.printable(cells, x-1)
		if c.ch != 0 && !second && !t.printable(cells, x) && !t.lone(c) {
			cells[x] = cell{0, t.styles.intern(attr{bg: t.style(c).bg})}
		}
	}
	for len(cells) > 0 && cells[len(cells)-1] == (cell{}) {
		cells = cells[:len(cells)-1]
	}
	last, lastNumber := "", uint32(0)
	for _, c := range cells {
		if c.style != lastNumber {
			lastNumber = c.style
			if style := dumpAttr(t.style(c)); style != last {
				b.WriteString("{" + style + "}")
				last = style
			}
		}
		switch {
		case c.empty():
			b.WriteString("∅")
		case c.ch == isSpacer:
			b.WriteString("←")
		case c.ch&isSpacer != 0:
			fmt.Fprintf(&b, "(%+q)", t.text(nil, c))
		default:
			b.Write(t.text(nil, c))
		}
	}
	return b.String()
}

func dumpAttr(a attr) string {
	if a == (attr{}) {
		return ""
	}
	link := ""
	if a.link != nil {
		link = a.link.id + "," + a.link.uri
	}
	if a.underline == 0 { // its colour is not visible
		a.ul = 0
	}
	if a == (attr{}) {
		return ""
	}
	return fmt.Sprintf("%s %s %s %b %d %s", a.fg, a.bg, a.ul, a.flags, a.underline, link)
}

// dumpSaved is the pen of a saved cursor. Of underlines and links only that there are some is saved.
func dumpSaved(s savedCursor) string {
	return fmt.Sprintf("%s %v %v", dumpAttr(attr{fg: s.pen.fg, bg: s.pen.bg, flags: s.pen.flags}), s.underlined, s.extended)
}

// firstDifference is the first line in which two dumps differ.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(x), len(y)) {
		var l, r string
		if i < len(x) {
			l = x[i]
		}
		if i < len(y) {
			r = y[i]
		}
		if l != r {
			return l + "\n | " + r
		}
	}
	return ""
}
