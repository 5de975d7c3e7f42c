package vt

import "slices"

// up and down stay inside the region when they begin inside it.
func (t *Terminal) up(n int) {
	s := t.active
	if s.y >= s.top {
		n = min(n, s.y-s.top)
	}
	t.moveBy(0, -n)
}

func (t *Terminal) down(n int) {
	s := t.active
	if s.y <= s.bottom {
		n = min(n, s.bottom-s.y)
	}
	t.moveBy(0, n)
}

// moveBy moves the cursor, which ends a pending wrap. In origin mode the page counts the row it starts from twice, and so do we.
func (t *Terminal) moveBy(dx, dy int) {
	t.restrict()
	t.moveTo(t.active.x+dx, t.active.y+dy)
}

// moveTo moves the cursor to a place that counts from the region in origin mode.
func (t *Terminal) moveTo(x, y int) {
	s := t.active
	s.x, s.y = x, y
	if t.modes.origin {
		s.y += s.top
	}
	t.restrict()
}

// restrict brings the cursor back onto the screen, or in origin mode into the region.
func (t *Terminal) restrict() {
	s := t.active
	s.x = min(max(s.x, 0), t.cols-1)
	if t.modes.origin {
		s.y = min(max(s.y, s.top), s.bottom)
	} else {
		s.y = min(max(s.y, 0), t.rows-1)
	}
}

// index goes down a line, and scrolls at the end of the region.
func (t *Terminal) index() {
	s := t.active
	switch {
	case s.y == s.bottom:
		t.scroll(false)
	case s.y >= t.rows-1:
	default:
		s.y++
	}
}

// lineFeed is LF, VT and FF.
func (t *Terminal) lineFeed() {
	s := t.active
	if t.modes.newline {
		s.x = 0
	}
	from := s.y
	t.index()
	if s.y != from {
		s.lines[s.y].wrapped = false
	}
	if s.x >= t.cols {
		s.x--
	}
}

// reverseIndex goes up a line, and scrolls at the beginning of the region.
func (t *Terminal) reverseIndex() {
	s := t.active
	t.restrict()
	if s.y == s.top {
		t.shift(s.top, s.bottom, -1, t.blank())
	} else {
		s.y--
		t.restrict()
	}
}

// backspace goes left; with reverse wraparound, from the beginning of a line that continues another to the end of that.
func (t *Terminal) backspace() {
	s := t.active
	if !t.modes.reverseWraparound {
		t.restrict()
		s.x = max(s.x-1, 0)
		return
	}
	s.y = min(s.y, t.rows-1)
	s.x = min(s.x, t.cols)
	switch {
	case s.x > 0:
		s.x--
	case s.y > s.top && s.y <= s.bottom && s.lines[s.y].wrapped:
		s.lines[s.y].wrapped = false
		s.y--
		s.x = t.cols - 1
		// A wide character that did not fit left the last cell empty.
		if c := s.lines[s.y].cells[s.x]; c.width() > 0 && c.empty() {
			s.x--
		}
	}
	t.restrict()
}

// setRegion is DECSTBM.
func (t *Terminal) setRegion(p *params) {
	top, bottom := p.count(0), p.at(1)
	if bottom == 0 || bottom > t.rows {
		bottom = t.rows
	}
	if bottom > top {
		t.active.top, t.active.bottom = top-1, bottom-1
		t.moveTo(0, 0)
	}
}

func (t *Terminal) saveCursor() {
	s := t.active
	e := t.extended
	s.saved = savedCursor{x: s.x, y: t.base() + s.y, pen: t.pen, underlined: e.underlined, extended: e.used, charset: t.charset}
}

func (t *Terminal) restoreCursor() {
	s := t.active
	s.x = s.saved.x
	s.y = max(s.saved.y-t.base(), 0)
	t.extended.underlined, t.extended.used = s.saved.underlined, s.saved.extended
	t.setPen(s.saved.pen)
	t.charset = s.saved.charset
	t.restrict()
}

const tabWidth = 8

// setTabs puts a stop at every eighth column.
func (s *screen) setTabs(cols int) {
	s.tabs = slices.Grow(s.tabs[:0], cols+2)[:cols+2] // as far as the cursor can be
	clear(s.tabs)
	for x := 0; x < cols; x += tabWidth {
		s.tabs[x] = true
	}
}

// addTabs gives a screen that has become wider the stops it lacks, counted from the last one.
func (s *screen) addTabs(cols int) {
	for len(s.tabs) < cols+2 {
		s.tabs = append(s.tabs, false)
	}
	x := cols
	if !s.tabs[x] {
		for x--; x > 0 && !s.tabs[x]; x-- {
		}
	}
	for ; x < cols; x += tabWidth {
		s.tabs[x] = true
	}
}

func (t *Terminal) tab(n int) {
	s := t.active
	for ; n > 0 && s.x < t.cols-1; n-- {
		for s.x++; s.x < t.cols-1 && !s.tabs[s.x]; s.x++ {
		}
	}
}

func (t *Terminal) backTab(n int) {
	s := t.active
	if s.x >= t.cols {
		return
	}
	for ; n > 0 && s.x > 0; n-- {
		for s.x--; s.x > 0 && !s.tabs[s.x]; s.x-- {
		}
	}
}

func (t *Terminal) clearTabs(which int) {
	s := t.active
	switch which {
	case 0:
		s.tabs[s.x] = false
	case 3:
		clear(s.tabs)
	}
}

func (t *Terminal) setTab() { t.active.tabs[t.active.x] = true }
