package vt

import (
	"strconv"
	"strings"
)

// Snapshot is a byte string that makes a fresh terminal of the same size look as this one does and go on as this one would: both
// screens, at most that many lines of scrollback (-1: all), cursors, margins, modes and everything else that the effect of later output depends on. It
// begins with a full reset, ends with the beginning of the sequence that is being received, if any, and contains nothing that would be answered.
func (t *Terminal) Snapshot(scrollback int) []byte {
	kept := t.history.len()
	if scrollback >= 0 {
		kept = min(kept, scrollback)
	}
	size := 2048
	if kept > 0 { // packed lines and what paints them are about as large
		size += t.history.bytes / t.history.len() * kept * 3 / 2
	}
	p := &painter{t: t, out: make([]byte, 0, size)}
	p.out = append(p.out, "\x1bc"...)
	if !t.Alternate() {
		p.hiddenAlternate()
	}
	far := p.savedFar(t.history.len() - kept)
	p.primary(kept)
	p.screenState(&t.primary, t.history.len(), !far)
	if t.Alternate() {
		p.set(attr{})
		p.out = append(p.out, "\x1b[?1047h"...)
		p.move(0, 0)
		p.lines(t.alternate.lines)
		p.screenState(&t.alternate, len(t.alternate.above), true)
	}
	p.set(attr{})
	p.charsets()
	p.restoredCharset()
	p.colors()
	p.names()
	p.modes()
	p.cursor()
	return t.unfinished(p.out)
}

// hiddenAlternate restores what the alternate screen keeps while it is not shown.
func (p *painter) hiddenAlternate() {
	s := &p.t.alternate
	if s.saved == (savedCursor{}) && s.keyboard.plain() {
		return
	}
	p.out = append(p.out, "\x1b[?1047h"...)
	p.screenState(s, len(s.above), true)
	p.set(attr{})
	p.out = append(p.out, "\x1b[?1047l"...)
	p.move(0, 0)
}

func (k *keyboardStack) plain() bool { return k.flags == 0 && len(k.stack) == 0 }

// primary paints the newest lines of the scrollback and the primary screen below them.
func (p *painter) primary(kept int) {
	t := p.t
	if kept == 0 {
		p.lines(t.primary.lines)
		return
	}
	oldest := t.history.len() - kept
	for i := oldest; i < t.history.len(); i++ {
		if p.begun && t.crowded() { // numbers of styles are only valid until the tables are tidied up
			t.settle()
			p.number = t.styles.intern(p.pen)
			clear(p.changes[:])
			p.above = p.paintable(p.above, t.unpack(t.history.at(i-1)))
		}
		packed := t.history.at(i)
		p.line(t.unpack(packed), packed.wrapped)
	}
	for _, ln := range t.primary.lines {
		p.line(ln.cells, ln.wrapped)
	}
}

// lines paints a screen that has nothing above it.
func (p *painter) lines(lines []*line) {
	used := len(lines)
	for used > 0 && !lines[used-1].wrapped && blankCells(lines[used-1].cells) {
		used--
	}
	p.begun = false
	for _, ln := range lines[:used] {
		p.line(ln.cells, ln.wrapped)
	}
}

// uniform says whether cells are empty and all alike.
func uniform(cells []cell) bool {
	for _, c := range cells {
		if c != cells[0] || c.ch != 0 {
			return false
		}
	}
	return true
}

func blankCells(cells []cell) bool {
	for _, c := range cells {
		if c != (cell{}) {
			return false
		}
	}
	return true
}

// wrappedTop makes the first row one that continues a row before it: such a row is made and then scrolled away and forgotten.
func (p *painter) wrappedTop() {
	p.column(p.t.cols - 1)
	p.out = append(p.out, "  "...)
	if p.t.rows > 1 {
		p.csi('H', p.t.rows, 1)
		p.out = append(p.out, '\n')
	}
	p.out = append(p.out, "\x1b[3J\x1b[H\x1b[X"...)
	p.edge = false
}

// savedFar saves the cursor of the primary screen if it was saved in a row that is not on the screen now, and says whether it did. Rows are
// counted from the oldest line of scrollback (without those that are not kept), so as many are scrolled away as it takes, and then forgotten.
func (p *painter) savedFar(dropped int) bool {
	t := p.t
	saved := t.primary.saved
	if y := saved.y - t.history.len(); saved == (savedCursor{}) || y >= 0 && y < t.rows {
		return false
	}
	y := max(saved.y-dropped, 0)
	lines := min(max(y-(t.rows-1), 0), maxScrollback)
	p.move(0, min(y, t.rows-1))
	p.out = append(p.out, strings.Repeat("\n", lines)...)
	p.column(min(saved.x, t.cols-1))
	p.saveNow(saved)
	p.set(attr{})
	p.out = append(p.out, "\x1b[3J"...)
	p.move(0, 0)
	return true
}

// screenState restores what belongs to one screen, whose top is base lines below its oldest line, with or without its saved cursor. The
// cursor is anywhere after that.
func (p *painter) screenState(s *screen, base int, saved bool) {
	t := p.t
	if t.ownTabs(s) {
		p.out = append(p.out, "\x1b[3g"...)
		for x, stop := range s.tabs[:t.cols] {
			if stop {
				p.column(x)
				p.out = append(p.out, "\x1bH"...)
			}
		}
	}
	if s.saved != (savedCursor{}) && saved {
		p.move(min(s.saved.x, t.cols-1), min(max(s.saved.y-base, 0), t.rows-1))
		p.saveNow(s.saved)
	}
	if s.top != 0 || s.bottom != t.rows-1 {
		p.csi('r', s.top+1, s.bottom+1)
	}
	if !s.keyboard.plain() {
		for i, flags := range append(append([]int{}, s.keyboard.stack...), s.keyboard.flags) {
			if i == 0 {
				p.out = append(p.out, "\x1b[="+strconv.Itoa(flags)+"u"...)
			} else {
				p.out = append(p.out, "\x1b[>"+strconv.Itoa(flags)+"u"...)
			}
		}
	}
}

// ownTabs says whether a screen has tab stops that it was not born with.
func (t *Terminal) ownTabs(s *screen) bool {
	for x := range t.cols {
		if s.tabs[x] != (x%tabWidth == 0) {
			return true
		}
	}
	return false
}

// saveNow saves the cursor where it is, with the pen and the character set that were saved. Of underlines and links only that there are some
// is saved with a cursor.
func (p *painter) saveNow(saved savedCursor) {
	pen := attr{fg: saved.pen.fg, bg: saved.pen.bg, flags: saved.pen.flags}
	if saved.underlined {
		pen.underline = 1
	} else if saved.extended {
		pen.link = &link{uri: "about:blank"}
	}
	p.set(pen)
	if saved.charset != ascii {
		p.designate(0, saved.charset)
	}
	p.out = append(p.out, "\x1b7"...)
	if saved.charset != ascii {
		p.designate(0, ascii)
	}
}

// charsets restores G0 to G3 and which of them is in use.
func (p *painter) charsets() {
	t := p.t
	for i, c := range t.charsets {
		if c != ascii {
			p.designate(i, c)
		}
	}
	switch t.gl {
	case 1:
		p.out = append(p.out, 0x0e)
	case 2:
		p.out = append(p.out, "\x1bn"...)
	case 3:
		p.out = append(p.out, "\x1bo"...)
	}
}

// designate makes c one of G0 to G3.
func (p *painter) designate(g int, c charset) {
	if c == ascii {
		c = 'B'
	}
	p.out = append(p.out, 0x1b, "()*+"[g], byte(c))
}

// restoredCharset is for a character set in use that is none of the four: only DECRC makes one so, and does it again.
func (p *painter) restoredCharset() {
	t := p.t
	switch {
	case t.charset == t.charsets[t.gl]:
	case t.charset == t.active.saved.charset:
		p.out = append(p.out, "\x1b8\x1b[m"...)
	default: // what is in use matters more than what it would be after a change and back
		p.designate(t.gl, t.charset)
	}
}

// colors restores what the program made of the palette.
func (p *painter) colors() {
	for n := range 256 {
		if c, ok := p.t.palette.colors[uint8(n)]; ok {
			p.osc("4", strconv.Itoa(n)+";"+c.x11())
		}
	}
	for i, c := range p.t.palette.special {
		if c != 0 {
			p.osc(strconv.Itoa(10+i), c.x11())
		}
	}
}

// names restores title, icon name, their stack, and the working directory.
func (p *painter) names() {
	t := p.t
	for _, title := range t.titles {
		p.osc("2", title)
		p.out = append(p.out, "\x1b[22;2t"...)
	}
	for _, icon := range t.icons {
		p.osc("1", icon)
		p.out = append(p.out, "\x1b[22;1t"...)
	}
	if t.title == t.iconTitle {
		p.osc("0", t.title)
	} else {
		p.osc("1", t.iconTitle)
		p.osc("2", t.title)
	}
	if t.directory != "" {
		p.osc("7", "file://"+percent(t.directory))
	}
}

func (p *painter) osc(number, text string) {
	p.out = append(append(append(append(p.out, "\x1b]"...), number...), ';'), text...)
	p.out = append(p.out, "\x1b\\"...)
}

func (p *painter) modes() {
	m := &p.t.modes
	blinks := m.cursorStyle%2 == 1
	for _, mode := range []struct {
		on  bool
		set string
	}{
		{m.applicationCursor, "?1h"}, {m.applicationKeypad, "?66h"}, {m.bracketedPaste, "?2004h"}, {m.colorScheme, "?2031h"},
		{m.newline, "20h"}, {!m.newline, "20l"}, {!m.wraparound, "?7l"}, {m.reverseWraparound, "?45h"}, {m.sendFocus, "?1004h"},
		{m.cursorStyle != 0, strconv.Itoa(int(m.cursorStyle)) + " q"}, {m.cursorBlink && !blinks, "?12h"}, {!m.cursorBlink && blinks, "?12l"},
		{m.cursorHidden, "?25l"}, {!m.cursorHidden, "?25h"}, // a reset does not end these and newline
		{m.mouse == mouseX10, "?9h"}, {m.mouse == mouseVT200, "?1000h"}, {m.mouse == mouseDrag, "?1002h"}, {m.mouse == mouseAny, "?1003h"},
		{m.mouseEncoding == encodeSGR, "?1006h"}, {m.mouseEncoding == encodeSGRPixels, "?1016h"},
		{m.modifyOtherKeys != 0, ">4;" + strconv.Itoa(m.modifyOtherKeys) + "m"}, {m.batch, "?2026h"},
	} {
		if mode.on {
			p.out = append(append(p.out, 0x1b, '['), mode.set...)
		}
	}
}
