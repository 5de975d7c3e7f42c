package vt

import "slices"

// screen is one of the two screens, with the state that belongs to it and not to the terminal.
type screen struct {
	lines       []*line // from the top; as many as the terminal has rows. The alternate screen has none while it is not shown
	spare       []*line // lines of the last alternate screen, to be reused
	x, y        int     // the cursor; x is cols (rarely one more) when the next character wraps first
	top, bottom int     // the scroll region, both ends included
	tabs        []bool  // tab stops by column; longer than cols
	saved       savedCursor
	keyboard    keyboardStack
	moved       uint64 // Terminal.stamp when lines last moved as a whole: all rows look different since

	// The alternate screen has no scrollback. But when the window became smaller while it was not shown, the page keeps the room it had, and
	// lines that scroll off the top go there; a larger window brings them back.
	above []*line
	room  int // lines of above and screen together
}

// savedCursor is what DECSC and CSI s keep. The zero value is what is restored when nothing was saved.
type savedCursor struct {
	x, y    int     // y counts from the oldest line of scrollback, not from the top of the screen
	pen     attr    // as it looked then
	charset charset // the one that was in use; what G0 to G3 are is not kept

	underlined, extended bool // of Terminal.extended
}

// keyboardStack is the progressive enhancement of the keyboard (kitty's protocol) as one screen has it.
type keyboardStack struct {
	flags int
	stack []int // what pop returns to, the newest last
}

func newLine(cols int, fill cell) *line {
	ln := &line{cells: make([]cell, cols)}
	ln.fill(fill)
	return ln
}

func (ln *line) fill(c cell) {
	if c == (cell{}) {
		clear(ln.cells)
		return
	}
	for i := range ln.cells {
		ln.cells[i] = c
	}
}

// reset makes an old line a new one.
func (ln *line) reset(cols int, fill cell, wrapped bool) {
	ln.cells = ln.cells[:cols]
	ln.fill(fill)
	ln.wrapped = wrapped
}

// contentLen is where the last character ends. Cells that only have a background do not count.
func contentLen(cells []cell) int {
	for i := len(cells) - 1; i >= 0; i-- {
		if c := cells[i]; c.ch&^widthMask != 0 {
			return i + c.width()
		}
	}
	return 0
}

// base is how many lines are above the active screen.
func (t *Terminal) base() int {
	if t.active == &t.primary {
		return t.history.len()
	}
	return len(t.alternate.above)
}

// touch notes that a line has changed.
func (t *Terminal) touch(ln *line) {
	ln.version = t.stamp
	t.changed = true
}

// touchRows notes that rows have changed, both ends included.
func (t *Terminal) touchRows(from, to int) {
	for _, ln := range t.active.lines[from : to+1] {
		ln.version = t.stamp
	}
	t.changed = true
}

// blank is an erased cell: the background of the pen and nothing else.
func (t *Terminal) blank() cell {
	if t.pen.bg == 0 {
		return cell{}
	}
	if t.penDirty {
		t.penNumber()
	}
	return cell{0, t.eraseStyle}
}

// penNumber is the pen's number in styles.
func (t *Terminal) penNumber() uint32 {
	if t.penDirty {
		t.penStyle = t.styles.intern(t.pen)
		t.eraseStyle = t.styles.intern(attr{bg: t.pen.bg})
		t.penDirty = false
	}
	return t.penStyle
}

// scroll moves the region up by one line. What leaves the top of the primary screen goes to the history.
func (t *Terminal) scroll(wrapped bool) {
	s := t.active
	ln := s.lines[s.top]
	if s.top == 0 {
		if s == &t.primary {
			t.push(ln)
		} else if s.room > t.rows {
			ln = s.keepAbove(ln, t.rows)
		}
	}
	copy(s.lines[s.top:s.bottom], s.lines[s.top+1:s.bottom+1])
	s.lines[s.bottom] = ln
	ln.reset(t.cols, t.blank(), wrapped)
	if s.top == 0 && s.bottom == t.rows-1 {
		s.moved = t.stamp
		t.touch(ln)
	} else {
		t.touchRows(s.top, s.bottom)
	}
}

// keepAbove keeps a line that leaves the alternate screen, and returns one that can be used instead.
func (s *screen) keepAbove(ln *line, rows int) *line {
	s.above = append(s.above, ln)
	if len(s.above)+rows <= s.room {
		return newLine(len(ln.cells), cell{})
	}
	oldest := s.above[0]
	s.above = append(s.above[:0], s.above[1:]...)
	oldest.resize(len(ln.cells))
	return oldest
}

// shift moves the lines from row top to row bottom up (n > 0) or down (n < 0); new ones are filled. The history gets nothing.
func (t *Terminal) shift(top, bottom, n int, fill cell) {
	lines := t.active.lines[top : bottom+1]
	up := min(max(n, -n), len(lines))
	fresh := lines[len(lines)-up:]
	if n < 0 {
		up = len(lines) - up
		fresh = lines[:len(lines)-up]
	}
	rotate(lines, up)
	for _, ln := range fresh {
		ln.reset(t.cols, fill, false)
	}
	t.touchRows(top, bottom)
}

// rotate makes element n the first one.
func rotate(lines []*line, n int) {
	slices.Reverse(lines[:n])
	slices.Reverse(lines[n:])
	slices.Reverse(lines)
}

// insertCells moves the cells of a line from x on to the right by n and fills the gap.
func (t *Terminal) insertCells(ln *line, x, n int, fill cell) {
	t.healLeft(ln, x, fill.style)
	n = min(n, len(ln.cells)-x)
	copy(ln.cells[x+n:], ln.cells[x:])
	for i := x; i < x+n; i++ {
		ln.cells[i] = fill
	}
	if last := &ln.cells[len(ln.cells)-1]; last.ch&widthMask == isWide {
		*last = fill
	}
	t.touch(ln)
}

// deleteCells takes n cells away at x, moves the rest to the left, and fills the end.
func (t *Terminal) deleteCells(ln *line, x, n int, fill cell) {
	n = min(n, len(ln.cells)-x)
	copy(ln.cells[x:], ln.cells[x+n:])
	for i := len(ln.cells) - n; i < len(ln.cells); i++ {
		ln.cells[i] = fill
	}
	t.healLeft(ln, x, fill.style)
	t.healRight(ln, x, fill.style)
	t.touch(ln)
}

// eraseCells empties the cells from x up to, not including, end, and the other halves of wide characters at both ends. With
// spareProtected, cells that DECSCA protects stay.
func (t *Terminal) eraseCells(ln *line, x, end int, spareProtected bool) {
	fill := t.blank()
	x, end = min(x, len(ln.cells)), min(end, len(ln.cells))
	spared := func(x int) bool {
		return spareProtected && t.styles.attrs[ln.cells[x].style].flags&protected != 0
	}
	if x > 0 && ln.cells[x-1].ch&widthMask == isWide && !spared(x-1) {
		ln.cells[x-1] = fill
	}
	if end > 0 && end < len(ln.cells) && ln.cells[end-1].ch&widthMask == isWide && !spared(end) {
		ln.cells[end] = fill
	}
	for ; x < end; x++ {
		if !spareProtected || !spared(x) {
			ln.cells[x] = fill
		}
	}
	t.touch(ln)
}
