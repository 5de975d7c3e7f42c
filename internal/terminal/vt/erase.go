package vt

// eraseDisplay is ED, and DECSED when protected cells are spared.
func (t *Terminal) eraseDisplay(which int, spareProtected bool) {
	s := t.active
	t.restrictTo(t.cols)
	switch which {
	case 0:
		t.eraseRow(s.y, s.x, t.cols, s.x == 0, spareProtected)
		for y := s.y + 1; y < t.rows; y++ {
			t.resetRow(y, spareProtected)
		}
	case 1:
		t.eraseRow(s.y, 0, s.x+1, true, spareProtected)
		if s.x+1 >= t.cols {
			t.unwrapAfter(s.y)
		}
		for y := range s.y {
			t.resetRow(y, spareProtected)
		}
	case 2:
		for y := range t.rows {
			t.resetRow(y, spareProtected)
		}
	case 3:
		t.clearHistory()
	}
}

// eraseLine is EL and DECSEL.
func (t *Terminal) eraseLine(which int, spareProtected bool) {
	s := t.active
	t.restrictTo(t.cols)
	switch which {
	case 0:
		t.eraseRow(s.y, s.x, t.cols, s.x == 0, spareProtected)
	case 1:
		t.eraseRow(s.y, 0, s.x+1, false, spareProtected)
	case 2:
		t.eraseRow(s.y, 0, t.cols, true, spareProtected)
	}
}

func (t *Terminal) eraseRow(y, from, to int, unwrap, spareProtected bool) {
	ln := t.active.lines[y]
	t.eraseCells(ln, from, to, spareProtected)
	if unwrap {
		ln.wrapped = false
	}
}

// resetRow empties a whole row.
func (t *Terminal) resetRow(y int, spareProtected bool) {
	ln := t.active.lines[y]
	if spareProtected {
		t.eraseCells(ln, 0, len(ln.cells), true)
	} else {
		ln.fill(t.blank())
		t.touch(ln)
	}
	ln.wrapped = false
}

// unwrapAfter notes that the line after row y no longer continues it. The page counts that row from the oldest line of scrollback instead
// of from the top of the screen, and so do we.
func (t *Terminal) unwrapAfter(y int) {
	i := y + 1 - t.base()
	switch {
	case i < 0 && t.active == &t.primary:
		t.history.at(y + 1).wrapped = false
	case i < 0:
		t.active.above[y+1].wrapped = false
	case i < t.rows:
		t.active.lines[i].wrapped = false
	}
}

// clearHistory is ED 3.
func (t *Terminal) clearHistory() {
	if t.base() == 0 {
		return
	}
	if t.active == &t.primary {
		t.history.clear()
	}
	t.active.above = nil
	t.epoch++
	t.changed = true
}

// restrictTo is restrict with a limit of its own for the column.
func (t *Terminal) restrictTo(x int) {
	s := t.active
	keep := min(max(s.x, 0), x)
	t.restrict()
	s.x = keep
}

// editLines is IL and DL: they do nothing outside the region.
func (t *Terminal) editLines(remove bool, n int) {
	s := t.active
	t.restrict()
	if s.y < s.top || s.y > s.bottom {
		return
	}
	if !remove {
		n = -n
	}
	t.shift(s.y, s.bottom, n, t.blank())
	s.x = 0
}

// shiftColumns is SL (n > 0) and SR: every line of the region moves to the side.
func (t *Terminal) shiftColumns(n int) { t.columns(0, n) }

// editColumns is DECIC (n > 0) and DECDC: columns are inserted or removed at the cursor in every line of the region.
func (t *Terminal) editColumns(n int) { t.columns(t.active.x, -n) }

// columns removes (n > 0) or inserts cells at x in every line of the region.
func (t *Terminal) columns(x, n int) {
	s := t.active
	if s.y < s.top || s.y > s.bottom {
		return
	}
	for _, ln := range s.lines[s.top : s.bottom+1] {
		at := x % len(ln.cells) // a pending wrap makes it the first column
		if n > 0 {
			t.deleteCells(ln, at, n, t.blank())
		} else {
			t.insertCells(ln, at, -n, t.blank())
		}
		ln.wrapped = false
	}
}

// alignmentTest is DECALN: the screen full of E.
func (t *Terminal) alignmentTest() {
	s := t.active
	a := t.pen
	a.link, a.ul, a.underline = nil, 0, 0
	if t.extended.underlined {
		a.underline = 1
	}
	style := t.styles.intern(a)
	t.moveTo(0, 0)
	from := 0
	if s == &t.primary || s.room > t.rows {
		from = s.y // in origin mode the page begins at the region, if it has room for so many lines below
	}
	for _, ln := range s.lines[from:] {
		ln.fill(cell{'E', style})
		ln.wrapped = false
	}
	t.touchRows(from, t.rows-1)
	t.moveTo(0, 0)
}
