package output

// A stream is the kept part of one stream: head pages, a gap, tail pages. The
// last page is the one being written. The log's lock guards it.
type stream struct {
	headLimit int64 // pages go to the head until it has cost this much
	tailLimit int64 // pages leave the tail while this much remains
	pageSize  int   // of a full-grown page

	total int64
	gap   gap

	head     []*page
	headCost int64 // of the head pages that are full
	tail     []*page
	first    int   // tail[:first] are dropped; compacted now and then
	tailCost int64 // of the tail pages that are full

	// reserved is the space that the writer fills: the free end of the last page,
	// or, with inSpare, the spare page.
	reserved []byte
	inSpare  bool
	spare    *page // the next page
	recycled *page // the one after it; dropping is not always in step with filling

	kept int64 // bytes of all buffers
	done bool  // nothing more is stored: the log is closed or released
}

// A gap is the part [from, to) of a stream that is gone. Its last record was seq.
type gap struct {
	from, to int64
	seq      int64
}

func (s *stream) init(limit int64) {
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
	if cur := s.current(); cur != nil && cur.free() >= atLeast {
		s.inSpare = false
		end := cur.n + cur.free()
		s.reserved = cur.buf[cur.n:end:end] // the index begins there
		return s.reserved
	}
	if s.spare == nil {
		s.spare, s.recycled = s.recycled, nil
	}
	if s.spare == nil || len(s.spare.buf) < atLeast {
		s.discard(s.spare)
		s.spare = s.newPage(s.nextSize(atLeast))
	}
	s.inSpare = true
	s.reserved = s.spare.buf
	return s.reserved
}

// nextSize grows pages with the stream, so that little output costs little.
func (s *stream) nextSize(atLeast int) int {
	switch {
	case s.total == 0 && atLeast <= firstPage:
		return firstPage
	case s.total < minReserve || s.done:
		return minReserve
	case s.total < 2*midPage:
		return midPage
	}
	return s.pageSize
}

// place puts the first n reserved bytes behind the data of the current page, where
// publish finds them. It reports whether that is a new page.
func (s *stream) place(n int, seq int64) (newPage bool) {
	src := s.reserved[:n] // a Commit of more than was reserved ends here
	if s.done {
		return false
	}
	cur := s.current()
	if cur != nil && cur.takes(n, seq) {
		if s.inSpare {
			copy(cur.buf[cur.n:], src)
		}
		return false
	}
	var next *page
	switch {
	case s.inSpare && cur == nil && n <= firstPage && len(s.spare.buf) > firstPage:
		next = s.newPage(firstPage)
		copy(next.buf, src)
	case s.inSpare:
		next, s.spare = s.spare, nil
	default: // the number is too far from the page's first
		next = s.newPage(s.pageSize)
		copy(next.buf, src)
	}
	s.add(next)
	return true
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
	s.reserved = nil
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
	for len(s.tail)-s.first > 1 && s.tailCost-s.tail[s.first].cost() >= s.tailLimit {
		s.dropFirst()
	}
}

// dropFirst drops the oldest page of the tail.
func (s *stream) dropFirst() {
	p := s.tail[s.first]
	s.tail[s.first] = nil
	s.first++
	if s.first > len(s.tail)/2 {
		n := copy(s.tail, s.tail[s.first:])
		clear(s.tail[n:])
		s.tail, s.first = s.tail[:n], 0
	}
	s.tailCost -= p.cost()
	if s.gap.to == s.gap.from {
		s.gap.from = p.off
	}
	s.gap.to, s.gap.seq = p.end(), p.lastSeq()
	p.dropped = true
	if p.pins == 0 {
		s.recycle(p)
	}
}

// recycle keeps a dropped page that nobody reads for new data.
func (s *stream) recycle(p *page) {
	switch {
	case s.done || len(p.buf) < s.pageSize:
		s.discard(p)
		return
	case s.spare == nil:
		s.spare = p
	case s.recycled == nil:
		s.recycled = p
	default:
		s.discard(p)
		return
	}
	*p = page{buf: p.buf}
}

// finish gives back what was held for more output.
func (s *stream) finish() {
	s.discard(s.spare)
	s.discard(s.recycled)
	s.spare, s.recycled, s.reserved = nil, nil, nil
	if cur := s.current(); cur != nil {
		s.kept -= int64(len(cur.buf))
		cur.shrink()
		s.kept += int64(len(cur.buf))
	}
	s.done = true
}

// release turns everything into a gap.
func (s *stream) release() {
	if cur := s.current(); cur != nil {
		s.gap.seq = cur.lastSeq()
	}
	s.gap.from, s.gap.to = 0, s.total
	for i := range s.pages() {
		p := s.page(i)
		p.dropped = true
		if p.pins == 0 {
			s.discard(p)
		}
	}
	s.discard(s.spare)
	s.discard(s.recycled)
	s.head, s.tail, s.first, s.spare, s.recycled = nil, nil, 0, nil, nil
	s.done = true
}

// newPage and discard account for the memory.
func (s *stream) newPage(size int) *page {
	s.kept += int64(size)
	return &page{buf: make([]byte, size)}
}

func (s *stream) discard(p *page) {
	if p != nil {
		s.kept -= int64(len(p.buf))
	}
}
