package vt

// reflow wraps the lines of the primary screen and the history anew, for the columns that the terminal has now. Lines that continue one
// another are one long line; the one the cursor is in stays as it is, because its program is about to draw it again.
//
// The rows that come or go move the cursor and the border between history and screen. How is best understood as what the page does: it has one
// list of lines, of which the last ones are the screen, and base is where they begin.
//
// A long line can be the whole history, so its text is poured from the old rows into the new ones and never held in one piece.
func (t *Terminal) reflow(oldCols int) {
	r := reflow{t: t, oldCols: oldCols, old: t.history, base: t.history.len(), screen: &t.primary}
	r.total = r.base + len(r.screen.lines)
	r.cursor = r.base + r.screen.y
	t.history = history{limit: r.most(), first: r.old.first}
	if t.cols < oldCols {
		r.narrow()
	} else {
		r.widen()
	}
	r.finish()
}

type reflow struct {
	t       *Terminal
	oldCols int
	old     history // as it was; the terminal's is built anew
	screen  *screen
	total   int // lines of history and screen
	base    int // lines of history
	cursor  int // the line the cursor is in

	inserted int // lines that were added so far
	lost     int // lines that fell off the bottom
	skip     int // of the rows that are emitted next, how many are too old to be kept

	text  []cell    // of the group, as far as it has not become a row
	lines [2][]cell // lines of history as they were read last
	row   []cell    // a row that is put together
}

// most is how many lines history and screen have together at most.
func (r *reflow) most() int { return r.old.limit + r.t.rows }

// read is the cells of line i as it was, 0 being the oldest of the history; into is used when they have to be unpacked. They may be fewer than
// the columns, and then the others are empty.
func (r *reflow) read(i int, into *[]cell) []cell {
	if i < r.old.len() {
		*into = r.t.appendCells((*into)[:0], r.old.at(i))
		return *into
	}
	cells := r.screen.lines[i-r.old.len()].cells
	return cells[:min(len(cells), max(r.oldCols, r.t.cols))]
}

func (r *reflow) wrapped(i int) bool {
	if i >= r.old.len() {
		return r.screen.lines[i-r.old.len()].wrapped
	}
	return r.old.at(i).wrapped
}

func (r *reflow) version(i int) uint64 {
	if i >= r.old.len() {
		return r.screen.lines[i-r.old.len()].version
	}
	return r.old.at(i).version
}

// A group is a line and those that continue it. groupEnd is where the one that begins with line i ends, groupStart where the one that line i
// is in begins.
func (r *reflow) groupEnd(i int) int {
	for i++; i < r.total && r.wrapped(i); i++ {
	}
	return i
}

func (r *reflow) groupStart(i int) int {
	for ; i > 0 && r.wrapped(i); i-- {
	}
	return i
}

// pour distributes the text of a group over rows of the new width, calls visit with each unless it is nil, and returns how many there are.
func (r *reflow) pour(first, end int, visit func(row int, cells []cell)) (rows int) {
	cols := r.t.cols
	text := r.text[:0]
	var next []cell
	for i := first; i < end; i++ {
		ln := next
		if i == first {
			ln = r.read(i, &r.lines[i%2])
		}
		n := contentLen(ln)
		if i+1 < end {
			next = r.read(i+1, &r.lines[(i+1)%2])
			n = r.fullLen(ln, next)
		}
		text = append(text, ln[:min(n, len(ln))]...)
		for x := len(ln); x < n; x++ {
			if x < max(r.oldCols, cols) {
				text = append(text, cell{})
			} else { // half of a wide character, whose other half was cut off earlier
				text = append(text, cell{ch: isSpacer})
			}
		}
		at := 0
		for ; len(text)-at >= cols; rows++ {
			n := cols
			if text[at+n-1].width() == 2 {
				n--
			}
			if visit != nil {
				visit(rows, text[at:at+n])
			}
			at += n
		}
		text = text[:copy(text, text[at:])]
		r.t.settle(text, next)
	}
	if r.text = text; len(text) > 0 {
		if visit != nil {
			visit(rows, text)
		}
		rows++
	}
	return rows
}

// fullLen is how much of a line counts as text that another one continues: all of it, unless a wide character did not fit at its end.
func (r *reflow) fullLen(ln, next []cell) int {
	last := cell{}
	if len(ln) >= r.oldCols {
		last = ln[r.oldCols-1]
	}
	if last.ch&^widthMask == 0 && last.width() == 1 && len(next) > 0 && next[0].width() == 2 {
		return r.oldCols - 1
	}
	return r.oldCols
}

// emit makes a row the newest of the new history.
func (r *reflow) emit(cells []cell, wrapped bool, version uint64) {
	if r.skip > 0 {
		r.skip--
		return
	}
	r.t.record(cells[:min(len(cells), r.t.cols)], wrapped, version)
}

// emitOld emits lines as they were.
func (r *reflow) emitOld(from, to int) {
	skipped := max(0, min(r.skip, to-from))
	r.skip -= skipped
	for i := from + skipped; i < to; i++ {
		r.t.settle()
		r.emit(r.read(i, &r.row), r.wrapped(i), r.version(i))
	}
}

// finish takes the screen out of the new history: the rows from base on.
func (r *reflow) finish() {
	t, h := r.t, &r.t.history
	for h.len() < r.base+t.rows {
		t.record(nil, false, t.stamp)
	}
	for h.len() > r.base+t.rows {
		h.dropNewest()
	}
	for y := t.rows - 1; y >= 0; y-- {
		r.screen.lines[y] = t.pull(t.cols)
	}
	h.limit = r.old.limit
	h.trim()
	r.screen.y = min(r.screen.y, t.rows-1)
}

// widen joins lines that continue one another. What becomes free is taken from the history, and at the bottom when that is used up.
func (r *reflow) widen() {
	removed := 0
	for first, end := 0, 0; first < r.total; first = end {
		end = r.groupEnd(first)
		if end == first+1 || r.cursor >= first && r.cursor < end {
			r.emitOld(first, end)
		} else {
			removed += end - first - r.join(first, end)
		}
	}
	for n := removed; n > 0; n-- {
		if r.base > 0 {
			r.base--
		} else {
			r.screen.y = max(r.screen.y-1, 0)
		}
	}
	r.screen.saved.y = max(r.screen.saved.y-removed, 0)
}

// join distributes the text of a group over fewer lines, and says how many they are. Empty ones at the end are left out.
func (r *reflow) join(first, end int) int {
	blank := 0
	used := r.pour(first, end, func(row int, cells []cell) {
		r.emit(cells, row > 0 || r.wrapped(first), r.t.stamp)
		if row > 0 && contentLen(cells) == 0 {
			blank++
		} else {
			blank = 0
		}
	})
	if used == 0 {
		r.emit(nil, r.wrapped(first), r.t.stamp)
		return 1
	}
	for range blank {
		r.t.history.dropNewest()
	}
	return used - blank
}
