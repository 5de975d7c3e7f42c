package vt

// narrow splits lines that are too long. The cursor moves down while there is room below it, at the cost of the lines at the bottom; then
// lines move into the history. That is reckoned from the bottom up, because it decides what becomes of the lines above: which of them
// the cursor is said to be in, and how many are lost.
func (r *reflow) narrow() {
	start := 0
	if r.base > 0 { // nothing above the cursor decides anything
		start = r.groupStart(r.cursor)
	}
	spared := -1
	for first, end := 0, r.total; end > start; end = first {
		first = r.groupStart(end - 1)
		if cursor := r.base + r.screen.y; cursor >= first && cursor < end {
			spared = first
		} else {
			r.makeRoom(r.measure(first, end))
		}
	}

	first := r.oldestKept(start)
	r.t.history.first += int64(first)
	for end := 0; first < r.total; first = end {
		end = r.groupEnd(first)
		if first == spared {
			r.emitOld(first, min(end, r.total-r.lost))
		} else {
			r.split(first, end)
		}
	}
}

// oldestKept goes up from a group to the first one of which something will be kept, and makes room for what it passes. Above that, room is
// made only as long as it moves the saved cursor.
func (r *reflow) oldestKept(start int) int {
	oldest, rows := start, r.total-start-r.lost+r.inserted
	for end := start; end > 0; {
		enough := rows >= r.most()
		if enough && r.screen.saved.y == r.most()-1 {
			break
		}
		g := r.measure(r.groupStart(end-1), end)
		r.makeRoom(g)
		if !enough {
			oldest = g.first
			rows += end - g.first + g.added
		}
		end = g.first
	}
	r.skip = max(0, rows-r.most())
	return oldest
}

// growth is by how many lines a group became longer, and where it was.
type growth struct {
	first, end, added int
	split             bool // it was distributed anew, perhaps over as many lines as before
}

// measure says what splitting a group makes of it.
func (r *reflow) measure(first, end int) growth {
	g := growth{first: first, end: end}
	if !r.fits(first, end) {
		g.split = true
		g.added = max(0, r.pour(first, end, nil)-(end-first))
	}
	return g
}

// fits says whether a group is one line that is short enough as it is.
func (r *reflow) fits(first, end int) bool {
	if end > first+1 || r.wrapped(first) {
		return false
	}
	if first < r.old.len() && int(r.old.at(first).cells) < r.t.cols {
		return true // without looking at them
	}
	r.t.settle()
	return contentLen(r.read(first, &r.row)) <= r.t.cols
}

// makeRoom moves cursor and base for a group that grew.
func (r *reflow) makeRoom(g growth) {
	t, s := r.t, r.screen
	if !g.split {
		return
	}
	r.inserted += g.added
	most := r.most()
	lines := r.total - r.lost
	if r.base == 0 && s.y != lines-1 {
		lines = s.y
	}
	for n := g.added - max(0, lines-most+g.added); n > 0; n-- {
		switch {
		case r.base == 0 && s.y < t.rows-1:
			s.y++
			r.lost++
		case r.base == 0, r.base < min(most, r.total-r.lost+r.inserted)-t.rows:
			r.base++
		}
	}
	s.saved.y = min(s.saved.y+g.added, r.base+t.rows-1)
}

// split distributes the text of a group over more lines, if it has to. What is beyond the text stays, as far as it is not cut off. Lines that
// fell off the bottom are left out.
func (r *reflow) split(first, end int) {
	kept := r.total - r.lost
	if r.fits(first, end) {
		r.emitOld(first, min(end, kept))
		return
	}
	rows := r.pour(first, end, func(row int, cells []cell) {
		i := first + row
		if i >= kept && i < end {
			return
		}
		if n := len(cells) + 1; n < r.t.cols && i < end { // the last row
			old := r.read(i, &r.lines[0])
			r.row = append(append(r.row[:0], cells...), cell{})
			r.row = append(r.row, old[min(n, len(old)):]...)
			cells = r.row
		}
		r.emit(cells, row > 0 || r.wrapped(first), r.t.stamp)
	})
	r.emitOld(first+rows, min(end, kept))
}
