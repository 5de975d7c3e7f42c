package output

import "time"

// A stream is the kept part of one stream: head pages, a gap, tail pages. The
// last page is the one being written; behind a gap that is in the tail. The lock
// of the store guards it.
type stream struct {
	store     *Store
	headLimit int64 // pages go to the head until it has cost this much
	tailLimit int64 // pages leave the tail while this much remains
	pageSize  int   // of a full-grown page

	total int64 // bytes that are published
	gap   gap

	head     []*page
	headCost int64 // of the head pages that are full
	tail     []*page
	first    int   // tail[:first] are dropped; compacted now and then
	tailCost int64 // of the tail pages that are full

	// held is the beginning of a character, written but not published.
	held      []byte
	holds     [edge]byte // the storage of held
	heldSince time.Time

	// reserved is the space that the writer fills, behind room for what was held: the
	// free end of the last page, or the spare page.
	reserved []byte
	room     int
	spare    *page // the next page

	memory  int64 // bytes of all buffers
	filed   int64 // bytes in the file
	loading bool  // not all pages are there yet, so none can be dropped
	done    bool  // nothing more is stored: the log is closed or released
}

// A gap is the part [from, to) of a stream that is gone. Its last record was seq.
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

// pages returns the number of pages, page the one at i, current the last or nil.
func (s *stream) pages() int { return len(s.head) + len(s.tail) - s.first }

func (s *stream) page(i int) *page {
	if i < len(s.head) {
		return s.head[i]
	}
	return s.tail[s.first+i-len(s.head)]
}

func (s *stream) current() *page {
	if n := s.pages(); n > 0 {
		return s.page(n - 1)
	}
	return nil
}

// reserve returns at least atLeast free bytes. No more than minReserve can be
// asked for.
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

// nextSize grows pages with the stream, so that little output costs little.
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

// written returns what is held and the first n reserved bytes, one after another. A
// Commit of more than was reserved ends here.
func (s *stream) written(n int) []byte {
	data := s.reserved[:s.room+n]
	if s.room > len(s.held) { // it was published meanwhile
		return data[s.room:]
	}
	copy(data, s.held)
	return data
}

// place puts data behind that of the current page, where publish finds it, unless
// it is there already. It reports whether that is a new page.
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

// nextPage returns the spare page if data was written there, and else a small one:
// there is little data, or, once in a long life, its number is too far from the
// first of the current page.
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

// publish lets readers see n more bytes.
func (s *stream) publish(n int) {
	s.total += int64(n)
	if s.done {
		s.gap.to = s.total
		return
	}
	s.current().n += n
}

// add makes p the current page and drops what the tail no longer needs.
func (s *stream) add(p *page) {
	cur := s.current()
	if cur != nil {
		s.store.enlist(cur)
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

// finish gives back what was held for more output.
func (s *stream) finish() {
	s.discard(s.spare)
	s.spare, s.reserved = nil, nil
	if cur := s.current(); cur != nil && !s.done {
		s.grow(-len(cur.buf))
		cur.shrink()
		s.grow(len(cur.buf))
		s.store.enlist(cur)
		if len(s.tail) == 0 {
			s.headCost += cur.cost()
		} else {
			s.tailCost += cur.cost()
		}
	}
	s.done = true
}

// release turns everything into a gap.
func (s *stream) release() {
	s.done = true // first, so that no buffer is reused: the writer may be filling one
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

// newPage and discard account for the memory.
func (s *stream) newPage(size int) *page {
	p := s.store.take(size)
	p.stream = s
	s.grow(size)
	return p
}

func (s *stream) discard(p *page) {
	if p != nil {
		s.grow(-len(p.buf))
	}
}

func (s *stream) grow(n int) {
	s.memory += int64(n)
	s.store.memory += int64(n)
}

// drop is called for a page that is no longer part of the stream. The last of its
// readers frees it, if there are any.
func (s *stream) drop(p *page) {
	p.dropped = true
	s.store.unlist(p)
	if p.pins == 0 {
		s.free(p)
	}
}

// free gives back the memory of a dropped page and its place in the file.
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

// giveBack keeps a small spare page that the writer did not fill for the next log. Most
// commands print little or nothing, and would leave it as garbage.
func (s *stream) giveBack() {
	if p := s.spare; p != nil && len(p.buf) == minReserve {
		s.discard(p)
		s.spare, s.reserved = nil, nil
		p.stream = nil
		s.store.give(p)
	}
}

// recycle keeps a page that nobody uses for new data, of whichever stream.
func (s *stream) recycle(p *page) {
	if !s.done && len(p.buf) == s.pageSize {
		*p = page{buf: p.buf}
		s.store.give(p)
	}
}
