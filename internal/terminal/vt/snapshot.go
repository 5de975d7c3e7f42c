package vt

import (
	"strconv"
	"strings"
)

// Snapshot is a byte string that makes a fresh terminal of the same size look as this one does and go on as this one would: both
// screens, at most that many lines of scrollback (-1: all), cursors, margins, modes and whatever else decides what the next bytes do. It
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
			p.changes = [64]styleChange{}
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

// behindLast puts the cursor behind the last column of its row, by printing what is there. If that cannot be printed, it prints a space, and
// returns false.
func (p *painter) behindLast() bool {
	t := p.t
	x, y := t.cols-1, t.active.y
	cells := t.active.lines[y].cells[:t.cols]
	if cells[x].ch == isSpacer {
		x--
	}
	printed := t.printable(cells, x) || t.lone(cells[x])
	if printed {
		p.style(cells[x].style)
	} else {
		x = t.cols - 1
		p.set(attr{bg: t.style(cells[x]).bg})
	}
	p.move(x, y)
	if !printed {
		p.out = append(p.out, ' ')
		return false
	}
	p.out = t.text(p.out, cells[x])
	return true
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

// cursor puts the cursor where it is and the pen into its hand. It comes last, because nearly everything else moves the cursor, and
// forgets that a character was just written, which a combining character would join and REP would repeat.
func (p *painter) cursor() {
	t := p.t
	s := t.active
	pending, outside := s.x >= t.cols, false
	if t.modes.origin {
		p.out = append(p.out, "\x1b[?6h"...)
		p.top = s.top
		outside = s.y < s.top || s.y > s.bottom
	}
	x := s.x - t.joining
	switch {
	case t.joining > 0 && !outside && x >= 0 && t.writes(s.lines[s.y].cells, x):
		p.move(x, s.y)
		p.setPen()
		if p.insertMode(); t.modes.insert { // it pushes the rest of the row away
			p.csi('P', t.joining)
		}
		p.out = t.text(p.out, s.lines[s.y].cells[x])
		return
	case (pending || outside) && s == &t.primary:
		// The screens hand their cursor to each other, so on the alternate one it can be moved without leaving a trace.
		p.top = 0
		p.out = append(p.out, "\x1b[?1047h"...)
		p.move(min(s.x, t.cols-1), s.y)
		if pending {
			p.out = append(p.out, ' ')
		}
		p.out = append(p.out, "\x1b[?1047l"...)
	case pending:
		p.out = append(p.out, "\x0f\x1b(B"...)
		if cells := s.lines[s.y].cells[:t.cols]; !p.behindLast() && uniform(cells) {
			p.out = append(p.out, "\x1b[1K"...) // how the row became empty, as a rule
		}
		p.forget()
		p.charsets()
		if t.charset != t.charsets[t.gl] {
			p.designate(t.gl, t.charset)
		}
	default:
		p.move(s.x, s.y)
	}
	p.setPen()
	p.insertMode()
	if s.x > t.cols { // a combining character was lost there, after a sequence
		p.forget()
		p.out = append(p.out, "\u0301"...)
	}
}

// forget makes the terminal forget that it has just written a character, with a sequence that changes nothing.
func (p *painter) forget() {
	if p.t.modes.wraparound {
		p.out = append(p.out, "\x1b[?7h"...)
	} else {
		p.out = append(p.out, "\x1b[?7l"...)
	}
}

// setPen gives the terminal our pen, and the colour that underlines will have although there is none now.
func (p *painter) setPen() {
	p.set(p.t.pen)
	if c := p.t.extended.color; c != p.pen.ul {
		p.out = append(p.out, 0x1b, '[')
		p.out = appendUnderlineColor(p.out, c)
		p.out[len(p.out)-1] = 'm'
	}
}

func (p *painter) insertMode() {
	if p.t.modes.insert {
		p.out = append(p.out, "\x1b[4h"...)
	}
}

// writes says whether printing the text of the cell at x with the present pen and character set would give that cell.
func (t *Terminal) writes(cells []cell, x int) bool {
	if !t.printable(cells, x) || cells[x].width() != t.joining || t.style(cells[x]) != t.pen {
		return false
	}
	r := rune(cells[x].ch)
	return t.charset == ascii || r >= 0x7f || t.charset.translate(r) == r
}
