package output

import "time"

// A stream is the kept part of one stream: head pages, a gap, tail pages. The last page is the one
// being written; if there is a gap, it belongs to the tail. The lock of the store guards the stream
// and its pages, so it must be held for all their methods.
type stream struct {
	store     *Store
	headLimit int64 // pages are added to the head until their cost reaches this
	tailLimit int64 // pages are dropped from the tail while the cost of the rest is at least this
	pageSize  int   // of the largest pages

	total int64 // published bytes
	gap   gap

	head     []*page
	headCost int64 // of the full pages of the head
	tail     []*page
	first    int   // tail[:first] were dropped, and are removed from time to time
	tailCost int64 // of the full pages of the tail

	// held is an incomplete character, written but not published.
	held      []byte
	holds     [edge]byte // the memory of held
	heldSince time.Time

	// reserved is the space that the writer fills: the free end of the last page, or the spare
	// page. It begins with room for the held bytes.
	reserved []byte
	room     int
	spare    *page // the next page

	memory  int64 // bytes of all buffers
	filed   int64 // bytes in the file
	loading bool  // Load has not added all pages yet, so none may be dropped
	done    bool  // the log is closed or released, and stores no more output
}

// A gap is the dropped part [from, to) of a stream. seq is the number of its last record.
type gap struct {
	from, to int64
	seq      int64
}

func (g gap) empty() bool { return g.to == g.from }

func (s *stream) init(store *Store, limit int64) {
	s.store = store
	s.headLimit = limit / 2
	s.tailLimit = limit - limit/2
	s.pageSize = maxPage
	if limit < 8*maxPage {
		s.pageSize = midPage
	}
}

// pages returns the number of pages.
func (s *stream) pages() int { return len(s.head) + len(s.tail) - s.first }

// page returns the page at i.
func (s *stream) page(i int) *page {
	if i < len(s.head) {
		return s.head[i]
	}
	return s.tail[s.first+i-len(s.head)]
}

// current returns the last page, nil if there is none.
func (s *stream) current() *page {
	if n := s.pages(); n > 0 {
		return s.page(n - 1)
	}
	return nil
}

// reserve returns at least atLeast free bytes; atLeast is at most minReserve.
func (s *stream) reserve(atLeast int) []byte {
	s.room = len(s.held)
	atLeast += s.room
	if cur := s.current(); cur != nil && !s.done && cur.free() >= atLeast {
		end := cur.n + cur.free()
		s.reserved = cur.buf[cur.n:end:end] // the index begins there
		return s.reserved[s.room:]
	}
	if s.spare == nil || len(s.spare.buf) < atLeast {
		s.discard(s.spare)
		s.spare = s.newPage(s.nextSize(atLeast))
	}
	s.reserved = s.spare.buf
	return s.reserved[s.room:]
}

// nextSize returns the size of the next page. Pages grow with the stream, so that a small output
// takes little memory.
func (s *stream) nextSize(atLeast int) int {
	switch {
	case s.total == 0 && atLeast <= firstPage:
		return firstPage
	case s.total < minReserve || s.done:
		return max(minReserve, atLeast)
	case s.total < 2*midPage:
		return midPage
	}
	return s.pageSize
}

// written returns the held bytes followed by the first n reserved bytes. It panics if a Commit
// exceeds the reserved space.
func (s *stream) written(n int) []byte {
	data := s.reserved[:s.room+n]
	if s.room > len(s.held) { // the held bytes were published in the meantime
		return data[s.room:]
	}
	copy(data, s.held)
	return data
}

// place copies data to the end of the current page, or of a new one, unless it is there already. It
// reports whether the page is new. publish then makes the data visible.
func (s *stream) place(data []byte, seq int64) (newPage bool) {
	if s.done {
		return false
	}
	cur := s.current()
	if cur == nil || !cur.takes(len(data), seq) {
		cur = s.nextPage(data)
		s.add(cur)
		newPage = true
	}
	if &cur.buf[cur.n] != &data[0] {
		copy(cur.buf[cur.n:], data)
	}
	return newPage
}

// nextPage returns the spare page if data was written there, else a small page. A small one is needed
// for little data and, very rarely, when the record's number is too far from the first number of
// the current page.
func (s *stream) nextPage(data []byte) *page {
	inSpare := s.spare != nil && (&data[0] == &s.spare.buf[0] || &data[0] == &s.spare.buf[s.room])
	if !inSpare || s.total == 0 && len(data) <= firstPage && len(s.spare.buf) > firstPage {
		return s.newPage(max(len(data), firstPage))
	}
	p := s.spare
	s.spare = nil
	return p
}

// begin starts record seq at the end of the stream.
func (s *stream) begin(seq int64) {
	if s.done {
		s.gap.seq = seq
		return
	}
	s.current().begin(seq)
}

// publish makes n more bytes visible to readers.
func (s *stream) publish(n int) {
	s.total += int64(n)
	if s.done {
		s.gap.to = s.total
		return
	}
	s.current().n += n
}

// add makes p the current page and drops the pages that the tail no longer needs.
func (s *stream) add(p *page) {
	cur := s.current()
	if cur != nil {
		s.store.enlistLocked(cur)
	}
	p.off = s.total
	if len(s.tail) == 0 {
		if cur != nil {
			s.headCost += cur.cost()
		}
		if s.headCost < s.headLimit {
			s.head = append(s.head, p)
			return
		}
	} else {
		s.tailCost += cur.cost()
	}
	s.tail = append(s.tail, p)
	s.shorten()
}

// finish releases the memory that was reserved for more output.
func (s *stream) finish() {
	s.discard(s.spare)
	s.spare, s.reserved = nil, nil
	if cur := s.current(); cur != nil && !s.done {
		s.grow(-len(cur.buf))
		cur.shrink()
		s.grow(len(cur.buf))
		s.store.enlistLocked(cur)
		if len(s.tail) == 0 {
			s.headCost += cur.cost()
		} else {
			s.tailCost += cur.cost()
		}
	}
	s.done = true
}

// release turns the whole stream into a gap.
func (s *stream) release() {
	s.done = true // first, so that no buffer is recycled: the writer may be filling one
	if cur := s.current(); cur != nil {
		s.gap.seq = cur.last
	}
	s.gap.from, s.gap.to = 0, s.total
	for i := range s.pages() {
		s.drop(s.page(i))
	}
	s.discard(s.spare)
	s.head, s.tail, s.first, s.spare = nil, nil, 0, nil
	s.headCost, s.tailCost = 0, 0
}

// newPage returns an empty page and counts its memory.
func (s *stream) newPage(size int) *page {
	p := s.store.takeLocked(size)
	p.stream = s
	s.grow(size)
	return p
}

// discard stops counting the memory of a page.
func (s *stream) discard(p *page) {
	if p != nil {
		s.grow(-len(p.buf))
	}
}

// grow changes the count of memory by n bytes.
func (s *stream) grow(n int) {
	s.memory += int64(n)
	s.store.memory += int64(n)
}

// drop marks a page as no longer part of the stream and frees it. If the page is being read, the last
// reader frees it.
func (s *stream) drop(p *page) {
	p.dropped = true
	s.store.unlistLocked(p)
	if p.pins == 0 {
		s.free(p)
	}
}

// free releases the memory of a dropped page and its slot in the file.
func (s *stream) free(p *page) {
	if p.slot != 0 {
		s.filed -= int64(p.used())
		s.store.filed -= int64(p.used())
		s.store.file.free(p.slot)
		p.slot = 0
	}
	if p.buf != nil {
		s.discard(p)
		s.recycle(p)
	}
}

// giveBack returns a small spare page that the writer did not fill to the store, for the next log.
// Most commands print little or nothing, and the page would become garbage.
func (s *stream) giveBack() {
	if p := s.spare; p != nil && len(p.buf) == minReserve {
		s.discard(p)
		s.spare, s.reserved = nil, nil
		p.stream = nil
		s.store.giveLocked(p)
	}
}

// recycle returns an unused page to the store, for new data of any stream.
func (s *stream) recycle(p *page) {
	if !s.done && len(p.buf) == s.pageSize {
		*p = page{buf: p.buf}
		s.store.giveLocked(p)
	}
}
