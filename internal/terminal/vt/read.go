package vt

// Style is how a piece of text looks. It is comparable; the zero value is the default.
type Style struct {
	Fg, Bg, UnderlineColor                                      Color
	Bold, Dim, Italic, Blink, Inverse, Hidden, Strike, Overline bool

	Underline uint8  // 0 none, 1 single, 2 double, 3 curly, 4 dotted, 5 dashed
	Link      string // the target of a hyperlink; "" for none
}

func (a attr) public() Style {
	s := Style{
		Fg: a.fg, Bg: a.bg, UnderlineColor: a.ul, Underline: a.underline,
		Bold: a.flags&bold != 0, Dim: a.flags&dim != 0, Italic: a.flags&italic != 0, Blink: a.flags&blink != 0,
		Inverse: a.flags&inverse != 0, Hidden: a.flags&hidden != 0, Strike: a.flags&strike != 0, Overline: a.flags&overline != 0,
	}
	if a.link != nil {
		s.Link = a.link.uri
	}
	return s
}

// Row is what there is to know of a row beside its cells.
type Row struct {
	Wrapped bool   // it continues the row before: no newline was between them
	Version uint64 // Terminal.Version when it last looked different, be it that other lines moved here
	Written uint64 // Terminal.Version when its cells last changed, wherever the line was then
}

// Run is a piece of a row in one style. Cells that were never written are spaces.
type Run struct {
	Text     string
	X, Width int // in columns
	Style    Style
}

// Rows are numbered from the top of the screen, 0, downwards; -1 is the newest line of scrollback, -ScrollbackLen() the oldest. On the
// alternate screen scrollback is the primary's. A row that does not exist is empty.

// ScrollbackLen is the number of lines above the screen.
func (t *Terminal) ScrollbackLen() int { return t.history.len() }

func (t *Terminal) hasRow(y int) bool { return y >= -t.history.len() && y < t.rows }

// Row tells about row y.
func (t *Terminal) Row(y int) Row {
	if !t.hasRow(y) {
		return Row{}
	}
	if y < 0 {
		ln := t.history.at(t.history.len() + y)
		return Row{Wrapped: ln.wrapped, Version: ln.version, Written: ln.version}
	}
	ln := t.active.lines[y]
	return Row{Wrapped: ln.wrapped, Version: max(ln.version, t.active.moved), Written: ln.version}
}

// RowText is the text of row y without blanks at its end.
func (t *Terminal) RowText(y int) string {
	if !t.hasRow(y) {
		return ""
	}
	cells, _, _ := t.row(y)
	return string(t.appendText(nil, cells, true))
}

// appendText appends the text of cells. What was never written at the end is left out, and spaces too if trim is set.
func (t *Terminal) appendText(dst []byte, cells []cell, trim bool) []byte {
	for n := len(cells); n > 0; n-- {
		if c := cells[n-1]; !(c.empty() || trim && c.ch == ' ') {
			cells = cells[:n]
			break
		}
		cells = cells[:n-1]
	}
	for x := range cells {
		dst = t.appendCell(dst, cells, x)
	}
	return dst
}

// appendCell appends what the cell at x shows: nothing for the right half of a wide character, a space if that is all there is of it.
func (t *Terminal) appendCell(dst []byte, cells []cell, x int) []byte {
	switch c := cells[x]; {
	case c.ch < 0x80 && c.ch > 0:
		return append(dst, byte(c.ch))
	case c.empty(), c.ch == isSpacer && (x == 0 || cells[x-1].width() != 2):
		return append(dst, ' ')
	default:
		return t.text(dst, c)
	}
}

// RowRuns appends the runs of row y to dst. Blanks of the default style at the end of the row are left out.
func (t *Terminal) RowRuns(y int, dst []Run) []Run {
	if !t.hasRow(y) {
		return dst
	}
	cells, _, _ := t.row(y)
	cells = cells[:t.shown(cells)]
	var text []byte
	for x := 0; x < len(cells); {
		style := t.style(cells[x]).public()
		text = text[:0]
		end := x
		for number := cells[x].style; end < len(cells); end++ {
			if c := cells[end]; c.style != number {
				if t.style(c).public() != style {
					break
				}
				number = c.style
			}
			text = t.appendCell(text, cells, end)
		}
		dst = append(dst, Run{Text: string(text), X: x, Width: end - x, Style: style})
		x = end
	}
	return dst
}

// shown is how many of the cells are left when blanks of the default style at their end are taken away.
func (t *Terminal) shown(cells []cell) int {
	n := len(cells)
	for n > 0 && (cells[n-1].empty() || cells[n-1].ch == ' ') && (cells[n-1].style == 0 || t.style(cells[n-1]).public() == Style{}) {
		n--
	}
	return n
}

// Lines have absolute numbers as well, which count every line that ever left the screen at its top: a reader can come back and go on
// where it was, until Epoch changes.

// FirstLine is the absolute number of the oldest line that is still kept.
func (t *Terminal) FirstLine() int64 { return t.history.first }

// ScreenLine is the absolute number of the screen's row 0.
func (t *Terminal) ScreenLine() int64 { return t.history.first + int64(t.history.len()) }

// Logical is the line that row abs is a part of, as it was before it was wrapped at the edge of the screen, and the first and last of its
// rows. It is empty for a row that does not exist.
func (t *Terminal) Logical(abs int64) (text string, first, last int64) {
	screen := t.ScreenLine()
	if abs < t.FirstLine() || abs >= screen+int64(t.rows) {
		return "", abs, abs
	}
	y := int(abs - screen)
	top, bottom := -t.history.len(), t.rows-1
	if t.Alternate() { // what is above the alternate screen is not continued in it
		if y >= 0 {
			top = 0
		} else {
			bottom = -1
		}
	}
	from, to := y, y
	for from > top && t.continues(from) {
		from--
	}
	for to < bottom && t.continues(to+1) {
		to++
	}
	var out []byte
	for y := from; y <= to; y++ {
		cells, _, _ := t.row(y)
		out = t.appendText(out, cells, y == to)
	}
	return string(out), screen + int64(from), screen + int64(to)
}

// continues says whether row y continues the row before it.
func (t *Terminal) continues(y int) bool {
	if y < 0 {
		return t.history.at(t.history.len() + y).wrapped
	}
	return t.active.lines[y].wrapped
}

// RuneWidth is how many columns a character takes: 0 when it combines with the one before, otherwise 1 or 2.
func RuneWidth(r rune) int {
	loadWidths()
	return width(r)
}
