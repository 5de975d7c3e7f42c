package vt

// history is the scrollback: lines packed one behind the other into pages. A page stands alone (styles and links are written out in it), so
// forgetting the oldest line is a matter of counting, and nothing else refers to it.
type history struct {
	limit int          // lines kept at most
	first int64        // absolute number of the oldest line that is kept
	lines []packedLine // a ring
	head  int          // where the oldest is in it
	count int

	last      *page  // where the next line goes
	spare     *page  // a page that became free
	bytes     int    // of all pages in use
	linkBytes int    // of their links
	cells     []cell // the line that was unpacked last
}

// packedLine is where one line is.
type packedLine struct {
	page    *page
	version uint64
	offset  uint32
	cells   uint16
	wrapped bool
}

// page is a piece of memory with lines in it.
type page struct {
	data  []byte
	links []*link // what the numbers of links in data mean; none when they had to be given up
	bytes int     // of the links
	lines int     // that are still kept
}

const (
	smallPage       = 4 << 10
	largePage       = 64 << 10
	maxHistoryBytes = 64 << 20 // the oldest lines are forgotten beyond this, however few they are
	maxLinkBytes    = 4 << 20  // the oldest lines lose their links beyond this
	maxPageLinks    = maxLinkBytes / 16
)

func (h *history) len() int { return h.count }

// at is line i, 0 being the oldest.
func (h *history) at(i int) *packedLine {
	i += h.head
	if i >= len(h.lines) {
		i -= len(h.lines)
	}
	return &h.lines[i]
}

// push appends a line as the newest, and forgets the oldest if there are too many.
func (t *Terminal) push(ln *line) {
	h := &t.history
	if h.limit <= 0 {
		h.first++
		return
	}
	t.record(ln.cells, ln.wrapped, ln.version)
	h.trim()
}

// trim forgets what is too much.
func (h *history) trim() {
	for h.count > h.limit || h.bytes > maxHistoryBytes && h.at(0).page != h.last {
		h.dropOldest()
	}
	if h.linkBytes > maxLinkBytes {
		h.dropLinks()
	}
}

// record appends a line. Empty cells of the default style at its end are not kept.
func (t *Terminal) record(cells []cell, wrapped bool, version uint64) {
	h := &t.history
	for len(cells) > 0 && cells[len(cells)-1] == (cell{}) {
		cells = cells[:len(cells)-1]
	}
	p := h.room(4*len(cells) + 64)
	size, links := cap(p.data), p.bytes
	*h.slot() = packedLine{page: p, version: version, offset: uint32(len(p.data)), cells: uint16(len(cells)), wrapped: wrapped}
	t.pack(p, cells)
	p.lines++
	h.count++
	h.bytes += cap(p.data) - size
	h.linkBytes += p.bytes - links
}

// pull takes the newest line back.
func (t *Terminal) pull(cols int) *line {
	packed := t.history.at(t.history.len() - 1)
	ln := &line{cells: make([]cell, cols), wrapped: packed.wrapped, version: packed.version}
	copy(ln.cells, t.unpack(packed))
	t.history.dropNewest()
	return ln
}

// slot is the place of the next line; the ring grows until it has its limit.
func (h *history) slot() *packedLine {
	if h.count == len(h.lines) {
		larger := make([]packedLine, min(max(64, 2*len(h.lines)), h.limit+1))
		n := copy(larger, h.lines[h.head:])
		copy(larger[n:], h.lines[:h.head])
		h.lines, h.head = larger, 0
	}
	return h.at(h.count)
}

// room is a page that has n bytes left, as a rule; a line may need more, and then its page grows.
func (h *history) room(n int) *page {
	if p := h.last; p != nil && (len(p.data)+n <= min(cap(p.data), largePage) && p.bytes < maxPageLinks || p.lines == 0) {
		return p
	}
	p := h.spare
	h.spare = nil
	if p == nil || cap(p.data) < n {
		p = &page{data: make([]byte, 0, max(n, min(max(h.bytes, smallPage), largePage)))}
	}
	h.bytes += cap(p.data)
	h.last = p
	return p
}

func (h *history) dropOldest() {
	p := h.at(0).page
	*h.at(0) = packedLine{}
	h.head++
	if h.head == len(h.lines) {
		h.head = 0
	}
	h.count--
	h.first++
	h.release(p)
}

// dropNewest removes the newest line, whose cells the caller has unpacked.
func (h *history) dropNewest() {
	ln := h.at(h.count - 1)
	p := ln.page
	p.data = p.data[:ln.offset]
	*ln = packedLine{}
	h.count--
	h.release(p)
	if h.count > 0 {
		h.last = h.at(h.count - 1).page
	}
}

// release says that a page has one line less.
func (h *history) release(p *page) {
	p.lines--
	if p.lines > 0 {
		return
	}
	h.linkBytes -= p.bytes
	p.data, p.links, p.bytes = p.data[:0], nil, 0
	if p != h.last {
		h.bytes -= cap(p.data)
		h.spare = p
	} else if h.count > 0 {
		h.bytes -= cap(p.data)
		h.spare = p
		h.last = nil
	}
}

// dropLinks makes the oldest lines that have links lose them.
func (h *history) dropLinks() {
	for i := 0; i < h.count && h.linkBytes > maxLinkBytes*3/4; i++ {
		if p := h.at(i).page; p.bytes > 0 && p != h.last {
			h.linkBytes -= p.bytes
			p.links, p.bytes = nil, 0
		}
	}
}

// clear forgets all lines.
func (h *history) clear() {
	*h = history{limit: h.limit, first: h.first + int64(h.count), cells: h.cells}
}
