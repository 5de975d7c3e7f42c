package vt

import "unicode/utf8"

// printASCII writes a run of characters from 0x20 to 0x7e.
func (t *Terminal) printASCII(run []byte) {
	if t.modes.insert || t.charset != ascii {
		for _, c := range run {
			t.printRune(rune(c))
		}
		return
	}
	s := t.active
	style := t.penNumber()
	ln := s.lines[s.y]
	if !t.inRun {
		t.healLeft(ln, s.x, style)
	}
	for len(run) > 0 {
		if s.x >= t.cols {
			if t.modes.wraparound {
				ln = t.wrap()
			} else {
				s.x = t.cols - 1
				run = run[len(run)-1:]
			}
		}
		n := min(len(run), t.cols-s.x)
		cells := ln.cells[s.x : s.x+n]
		for i, c := range run[:len(cells)] {
			cells[i] = cell{uint32(c), style}
		}
		s.x += n
		run = run[n:]
		ln.version = t.stamp
	}
	t.healRight(ln, s.x, style)
	t.joining, t.inRun = 1, true
	t.changed = true
}

// printRune writes one character.
func (t *Terminal) printRune(r rune) {
	if r < 0x7f && t.charset != ascii {
		r = t.charset.translate(r)
	}
	w := width(r)
	if w == 0 && t.joining > 0 {
		t.combine(r)
		return
	}
	s := t.active
	style := t.penNumber()
	ln := s.lines[s.y]
	if !t.inRun {
		t.healLeft(ln, s.x, style)
	}
	t.joining, t.inRun = w, true
	if s.x+w > t.cols {
		switch {
		case t.modes.wraparound:
			ln = t.wrapWide(ln, style)
		case w == 2: // it does not fit and is lost
			s.x = t.cols - 1
			t.healRight(ln, s.x, style)
			return
		default:
			s.x = t.cols - 1
		}
	}
	if s.x >= len(ln.cells) { // only a combining character comes here, and it is lost
		s.x++
		return
	}
	if t.modes.insert {
		t.insertCells(ln, s.x, w, cell{0, style})
		if last := &ln.cells[t.cols-1]; last.ch&widthMask == isWide {
			*last = cell{0, style}
		}
	}
	switch w {
	case 2:
		ln.cells[s.x] = cell{uint32(r) | isWide, style}
		ln.cells[s.x+1] = cell{isSpacer, style}
		s.x += 2
	case 1:
		ln.cells[s.x] = cell{uint32(r), style}
		s.x++
	default: // a combining character with nothing to combine with takes a cell, but has no width
		ln.cells[s.x] = cell{uint32(r) | isSpacer, style}
		s.x++
	}
	t.healRight(ln, s.x, style)
	ln.version = t.stamp
	t.changed = true
}

// healLeft empties the left half of a wide character when its right half is about to be written over.
func (t *Terminal) healLeft(ln *line, x int, style uint32) {
	if x > 0 && x <= t.cols && ln.cells[x-1].ch&widthMask == isWide {
		ln.cells[x-1] = cell{0, style}
	}
}

// healRight empties the right half of a wide character whose left half has just been written over.
func (t *Terminal) healRight(ln *line, x int, style uint32) {
	if x < t.cols && ln.cells[x].ch == isSpacer {
		ln.cells[x] = cell{0, style}
	}
}

// wrap goes to the beginning of the next line, which continues this one.
func (t *Terminal) wrap() *line {
	s := t.active
	s.x = 0
	if s.y == s.bottom {
		t.scroll(true)
	} else {
		s.y = min(s.y+1, t.rows-1)
		s.lines[s.y].wrapped = true
	}
	return s.lines[s.y]
}

// wrapWide is wrap for a character that may leave a cell at the end of the line, which becomes empty.
func (t *Terminal) wrapWide(ln *line, style uint32) *line {
	from := min(t.active.x, t.cols)
	clearEnd := func() {
		for x := from; x < t.cols; x++ {
			ln.cells[x] = cell{0, style}
		}
	}
	clearEnd()
	ln.version = t.stamp
	next := t.wrap()
	if next == ln && t.Alternate() { // one row: to the page it is the same line, and it empties the end after the wrap
		clearEnd()
	}
	return next
}

// combine adds a character without width to the one that was just written.
func (t *Terminal) combine(r rune) {
	ln, x := t.joinable()
	if x < 0 {
		return
	}
	c := &ln.cells[x]
	ch := c.ch &^ widthMask
	if ch == 0 {
		ch = uint32(r)
	} else {
		var room [maxCluster + utf8.UTFMax]byte
		text := utf8.AppendRune(t.text(room[:0], *c), r)
		if number, ok := t.clusters.intern(text); ok {
			ch = isCluster | number
		}
	}
	if t.joining == 2 {
		ch |= isWide
	}
	c.ch = ch
	ln.version = t.stamp
	t.changed = true
}

// joinable is the cell of the character that was just written, -1 if there is none.
func (t *Terminal) joinable() (*line, int) {
	s := t.active
	ln := s.lines[s.y]
	x := min(s.x, t.cols) - 1
	if x > 0 && ln.cells[x].width() == 0 {
		x--
	}
	return ln, x
}

// maxRepeat bounds REP: more than fits on many screens.
const maxRepeat = 100_000

// repeat writes the character before the cursor n times more (REP). It does so only right after that character was written.
func (t *Terminal) repeat(n int) {
	s := t.active
	x := s.x - t.joining
	if t.joining == 0 || x < 0 || x >= t.cols {
		return
	}
	c := s.lines[s.y].cells[x]
	n = min(n, maxRepeat)
	t.inRun = false
	if c.ch >= 0x20 && c.ch < 0x7f {
		var run [256]byte
		for i := range run {
			run[i] = byte(c.ch)
		}
		for ; n > 0; n -= len(run) {
			t.printASCII(run[:min(n, len(run))])
		}
		return
	}
	base, _ := utf8.DecodeRune(t.text(nil, c))
	if c.ch&isCluster != 0 && width(base) == 0 {
		return // a combining character that was joined to an empty cell: there is nothing to write it on
	}
	for ; n > 0 && c.ch&^widthMask != 0; n-- {
		t.printRune(base)
		if ln, x := t.joinable(); c.ch&isCluster != 0 && x >= 0 { // what was combined with it, at once
			ln.cells[x].ch = ln.cells[x].ch&widthMask | c.ch&^widthMask
		}
	}
}
