package vt

// Resize changes the size. The primary screen and its scrollback are wrapped anew, the alternate screen is cut or extended. With the size it
// has already, nothing happens.
func (t *Terminal) Resize(cols, rows int) {
	cols = min(max(cols, minCols), maxCols)
	rows = min(max(rows, minRows), maxRows)
	if cols == t.cols && rows == t.rows {
		return
	}
	t.begin()
	oldCols := t.cols
	t.cols = cols
	for _, s := range []*screen{&t.primary, &t.alternate} {
		if s.lines != nil {
			t.resizeScreen(s, oldCols, rows)
			s.above, s.room = nil, rows
		}
		s.spare = nil
		s.room = max(s.room, rows)
		s.bottom = rows - 1
		s.addTabs(cols)
		s.moved = t.stamp
	}
	t.rows = rows
	t.inRun = false
	if cols != oldCols {
		t.reflow(oldCols)
		t.epoch++
	}
	t.changed = true
	t.end()
}

// resizeScreen gives a screen its new number of rows, and its lines at least the new number of cells. Rows are taken away at the bottom while
// there are some below the cursor, then at the top; they are added from the history when the cursor is in the last row, else at the bottom.
func (t *Terminal) resizeScreen(s *screen, oldCols, rows int) {
	if oldCols < t.cols {
		for _, ln := range s.lines {
			ln.resize(t.cols)
		}
		for _, ln := range s.above {
			ln.resize(t.cols)
		}
	}
	primary := s == &t.primary
	down, lost, missing := 0, 0, 0
	for len(s.lines)+missing < rows {
		last := len(s.lines) <= s.y+down+1
		switch n := len(s.above); {
		case last && primary && t.history.len() > 0:
			s.lines = append([]*line{t.pull(max(oldCols, t.cols))}, s.lines...)
			down++
		case last && n > 0:
			s.lines = append([]*line{s.above[n-1]}, s.lines...)
			s.above = s.above[:n-1]
			down++
		default:
			s.lines = append(s.lines, newLine(t.cols, cell{}))
			if n > 0 && n+len(s.lines) > max(s.room, rows) { // no room for both: everything moves up
				s.above = append(s.above[:0], s.above[1:]...)
				s.above = append(s.above, s.lines[0])
				s.lines = s.lines[1:]
				missing++
			}
		}
	}
	s.lines = append(s.lines, s.above[:missing]...) // the page's list is a ring: what is missing at its end comes from its beginning
	for len(s.lines) > rows {
		if len(s.lines) > s.y+1 {
			s.lines = s.lines[:len(s.lines)-1]
			continue
		}
		if ln := s.lines[0]; primary {
			first := t.history.first
			t.push(ln)
			lost += int(t.history.first - first)
		} else {
			lost++
		}
		s.lines = s.lines[1:]
	}
	s.x = min(s.x, t.cols-1)
	s.y = min(s.y, rows-1) + down
	s.top = 0
	lost += len(s.above)
	s.saved.x = min(s.saved.x, t.cols-1)
	s.saved.y = max(s.saved.y-lost, 0)
}

// resize cuts a line or gives it empty cells.
func (ln *line) resize(cols int) {
	if cols <= len(ln.cells) {
		ln.cells = ln.cells[:cols:cols]
		return
	}
	wider := make([]cell, cols)
	copy(wider, ln.cells)
	ln.cells = wider
}
