package output

// shorten drops the oldest pages of the tail as long as the rest reaches the limit.
func (s *stream) shorten() {
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
	if s.gap.empty() {
		s.gap.from = p.off
	}
	s.gap.to, s.gap.seq = p.end(), p.last
	s.drop(p)
}

// dropLast drops the newest page of the head. There must be a gap after it.
func (s *stream) dropLast() {
	last := len(s.head) - 1
	p := s.head[last]
	s.head[last] = nil
	s.head = s.head[:last]
	s.headCost -= p.cost()
	s.gap.from = p.off
	s.drop(p)
}

// split moves the boundary between head and tail to page i. There must be no gap.
func (s *stream) split(i int) {
	all := make([]*page, 0, s.pages())
	for i := range s.pages() {
		all = append(all, s.page(i))
	}
	s.head, s.tail, s.first = all[:i:i], all[i:], 0
	s.headCost, s.tailCost = 0, 0
	for j, p := range all {
		switch {
		case j == len(all)-1 && !s.done: // the current page is not full and does not count
		case j < i:
			s.headCost += p.cost()
		default:
			s.tailCost += p.cost()
		}
	}
}

// trim lowers the limit. It keeps the pages that would be kept if the limit had always been this low,
// or fewer if there already is a gap.
func (s *stream) trim(limit int64) {
	if limit >= s.headLimit+s.tailLimit {
		return
	}
	s.headLimit, s.tailLimit = limit/2, limit-limit/2
	end, cost := 0, int64(0)
	for end < len(s.head) && cost < s.headLimit {
		cost += s.head[end].cost()
		end++
	}
	if s.gap.empty() {
		s.split(end)
	}
	for len(s.head) > end {
		s.dropLast()
	}
	s.shorten()
}

// dropMiddle drops one page from the middle, so that head and tail become about equally long. It
// returns false if there is none to drop.
func (s *stream) dropMiddle() bool {
	writing := 1
	if s.done {
		writing = 0
	}
	switch full, tail := s.pages()-writing, len(s.tail)-s.first-writing; {
	case full < 1 || s.loading:
		return false
	case s.gap.empty():
		s.split(full / 2)
		s.dropFirst()
	case tail < 1 || len(s.head) > 0 && s.headCost > s.tailCost:
		s.dropLast()
	default:
		s.dropFirst()
	}
	return true
}

// lose drops a page that cannot be read, and all pages between it and the gap.
func (s *stream) lose(p *page) {
	if p.dropped {
		return
	}
	i := 0
	for s.page(i) != p {
		i++
	}
	if s.gap.empty() {
		s.split(i)
	}
	for len(s.head) > i {
		s.dropLast()
	}
	for !p.dropped {
		s.dropFirst()
	}
}
