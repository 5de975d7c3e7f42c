package vt

// reflow wraps the lines of the primary screen and the history anew, for the columns that the terminal has now. Lines that continue one
// another are one long line; the one the cursor is in stays as it is, because its program is about to draw it again.
//
// The rows that come or go move the cursor and the border between history and screen. How is best understood as what the page does: it has one
// list of lines, of which the last ones are the screen, and base is where they begin.
func (t *Terminal) reflow(oldCols int) {
	r := reflow{t: t, oldCols: oldCols, old: t.history, base: t.history.len(), screen: &t.primary}
	r.total = r.base + len(r.screen.lines)
	r.cursor = r.base + r.screen.y
	if t.cols < oldCols {
		r.narrow()
	} else {
		r.widen()
	}
}

type reflow struct {
	t       *Terminal
	oldCols int
	old     history // as it was; the terminal's is built anew
	screen  *screen
	total   int // lines of history and screen
	base    int // lines of history
	cursor  int // the line the cursor is in

	group    []line // the lines that are being looked at: one, and those that continue it
	inserted int    // lines that were added so far
	lost     int    // lines that fell off the bottom
}

// line is line i as it was, 0 being the oldest of the history. Its cells may be fewer or more than the columns.
func (r *reflow) line(i int) line {
	if i >= r.old.len() {
		return *r.screen.lines[i-r.old.len()]
	}
	packed := r.old.at(i)
	return line{cells: r.t.unpack(packed), wrapped: packed.wrapped, version: packed.version}
}

func (r *reflow) wrapped(i int) bool {
	if i >= r.old.len() {
		return r.screen.lines[i-r.old.len()].wrapped
	}
	return r.old.at(i).wrapped
}

// each goes through the groups from line i on, which must be the first of one. Nothing is in flight between two of them.
func (r *reflow) each(i int, visit func(first int)) {
	for i < r.total {
		r.t.settle()
		r.next(i)
		n := len(r.group)
		visit(i)
		i += n
	}
}

// next collects the lines that belong together with line i, in lines of the old width at least.
func (r *reflow) next(i int) {
	r.group = r.group[:0]
	for first := i; i < r.total && (i == first || r.wrapped(i)); i++ {
		r.add(r.line(i))
	}
}

// add appends a copy of a line to the group, with as many cells as the wider of the two sizes has.
func (r *reflow) add(ln line) {
	n := len(r.group)
	if n == cap(r.group) {
		r.group = append(r.group, line{})
	}
	r.group = r.group[:n+1]
	g := &r.group[n]
	g.wrapped, g.version = ln.wrapped, ln.version
	g.cells = append(g.cells[:0], ln.cells...)
	for len(g.cells) < max(r.oldCols, r.t.cols) {
		g.cells = append(g.cells, cell{})
	}
}

// length is how much of line i of the group counts as text: all of it, unless it is the last, or a wide character did not fit at its end.
func (r *reflow) length(i int) int {
	cells := r.group[i].cells
	if i == len(r.group)-1 {
		return contentLen(cells[:max(r.oldCols, r.t.cols)])
	}
	if cells[r.oldCols-1].ch&^widthMask == 0 && cells[r.oldCols-1].width() == 1 && r.group[i+1].cells[0].width() == 2 {
		return r.oldCols - 1
	}
	return r.oldCols
}

// text is the whole text of the group in one piece.
func (r *reflow) text() []cell {
	var all []cell
	for i := range r.group {
		cells, n := r.group[i].cells, r.length(i)
		all = append(all, cells[:min(n, len(cells))]...)
		if n > len(cells) { // half of a wide character, whose other half was cut off earlier
			all = append(all, cell{ch: isSpacer})
		}
	}
	return all
}

// begin starts a new history without bounds; finish applies them.
func (r *reflow) begin() {
	r.t.history = history{limit: r.total * (r.oldCols + 1), first: r.old.first}
}

func (r *reflow) emit(ln line) {
	r.t.record(ln.cells[:min(len(ln.cells), r.t.cols)], ln.wrapped, ln.version)
}

// finish takes the screen out of the new history: the rows from base on.
func (r *reflow) finish() {
	t, h := r.t, &r.t.history
	for h.len() > r.old.limit+t.rows {
		h.dropOldest() // which base allows for already
	}
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
	r.begin()
	r.each(0, func(first int) {
		n := len(r.group)
		if n > 1 && (r.cursor < first || r.cursor >= first+n) {
			r.join()
		}
		for _, ln := range r.group {
			r.emit(ln)
		}
		removed += n - len(r.group)
	})
	for n := removed; n > 0; n-- {
		if r.base > 0 {
			r.base--
		} else {
			r.screen.y = max(r.screen.y-1, 0)
		}
	}
	r.screen.saved.y = max(r.screen.saved.y-removed, 0)
	r.finish()
}

// join distributes the text of the group over fewer lines.
func (r *reflow) join() {
	cols := r.t.cols
	text := r.text()
	used := 0
	for {
		ln := &r.group[used]
		n := min(len(text), cols)
		if n == cols && text[n-1].width() == 2 {
			n--
		}
		copy(ln.cells, text[:n])
		clear(ln.cells[n:])
		ln.version = r.t.stamp
		text = text[n:]
		used++
		if len(text) == 0 {
			break
		}
	}
	for used > 1 && contentLen(r.group[used-1].cells) == 0 {
		used--
	}
	r.group = r.group[:used]
}

// narrow splits lines that are too long. The cursor moves down while there is room below it, at the cost of the lines at the bottom; then
// lines move into the history. That is reckoned from the bottom up, because it decides what becomes of the lines above: which of them
// the cursor is said to be in, and how many are lost.
func (r *reflow) narrow() {
	start := 0
	if r.base > 0 { // nothing above the cursor decides anything
		for start = r.cursor; start > 0 && r.wrapped(start); start-- {
		}
	}
	var below, above []growth
	r.each(start, func(first int) { below = append(below, r.split(first)) })
	spared := -1
	for i := len(below) - 1; i >= 0; i-- {
		if cursor := r.base + r.screen.y; cursor >= below[i].first && cursor < below[i].end {
			spared = below[i].first
		} else {
			r.makeRoom(below[i])
		}
	}
	kept := r.total - r.lost
	r.begin()
	r.each(0, func(first int) {
		g := growth{first: first, end: first + len(r.group)}
		if first != spared {
			g = r.split(first)
		}
		for i, ln := range r.group {
			if at := first + i; at < kept || at >= g.end {
				r.emit(ln)
			}
		}
		if first < start {
			above = append(above, g)
		}
	})
	for i := len(above) - 1; i >= 0; i-- {
		r.makeRoom(above[i])
	}
	r.finish()
}

// growth is by how many lines a group became longer, and where it was.
type growth struct {
	first, end, added int
	split             bool // it was distributed anew, perhaps over as many lines as before
}

// makeRoom moves cursor and base for a group that grew.
func (r *reflow) makeRoom(g growth) {
	t, s := r.t, r.screen
	if !g.split {
		return
	}
	r.inserted += g.added
	most := r.old.limit + t.rows
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

// split distributes the text of the group over more lines, if it has to. What is beyond the text stays, as far as it is not cut off.
func (r *reflow) split(first int) growth {
	cols := r.t.cols
	lines := len(r.group)
	if lines == 1 && !r.group[0].wrapped && r.length(0) <= cols {
		return growth{first: first, end: first + 1}
	}
	text := r.text()
	for i := 0; len(text) > 0; i++ {
		n := min(len(text), cols)
		if n == cols && text[n-1].width() == 2 {
			n--
		}
		if i == len(r.group) {
			r.add(line{wrapped: true})
		}
		ln := &r.group[i]
		copy(ln.cells, text[:n])
		if n < cols {
			ln.cells[n] = cell{}
		}
		ln.version = r.t.stamp
		text = text[n:]
	}
	return growth{first: first, end: first + lines, added: len(r.group) - lines, split: true}
}
