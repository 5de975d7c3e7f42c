package output

import "unicode/utf8"

// edge is how far a UTF-8 sequence can reach over a cut.
const edge = utf8.UTFMax - 1

// Result returns the stream if all of it is in the log and it has at most limit
// bytes. Else truncated is true, and data is the head and the tail of the stream,
// half of limit each, or more of the one if the log has less of the other. A
// UTF-8 sequence that the cut would tear is left out.
func (l *Log) Result(st Stream, limit int64) (data []byte, truncated bool) {
	var array [16]span
	s := &l.streams[st]
	limit = max(limit, 0)

	l.mu.Lock()
	head, tail := s.total, s.total // data is [0, head) and [tail, total)
	gone := s.gap.to > s.gap.from
	if truncated = gone || s.total > limit; truncated {
		head, tail = s.cut(limit)
	}
	spans := s.spans(array[:0], 0, head)
	spans = s.spans(spans, tail, s.total)
	size := int(head + s.total - tail)
	pin(spans)
	l.mu.Unlock()

	return l.copyOut(nil, spans, size), truncated
}

// cut chooses what of a stream that is not whole goes into limit bytes.
func (s *stream) cut(limit int64) (head, tail int64) {
	haveHead, haveTail := s.total, s.total // without a gap they overlap, but are longer than limit
	if s.gap.to > s.gap.from {
		haveHead, haveTail = s.gap.from, s.total-s.gap.to
	}
	head = min(limit-limit/2, haveHead)
	n := min(limit-head, haveTail)
	head = min(limit-n, haveHead)
	tail = s.total - n
	if n > 0 {
		tail = s.runeAfter(tail)
	}
	if head > 0 {
		head = s.runeBefore(head)
	}
	return head, tail
}

// runeBefore returns cut, or where the UTF-8 sequence begins that cut tears.
func (s *stream) runeBefore(cut int64) int64 {
	b, from := s.around(cut)
	at := int(cut - from)
	for i := at - 1; i >= 0; i-- {
		if !utf8.RuneStart(b[i]) {
			continue
		}
		// A sequence whose end is gone is torn as well.
		_, n := utf8.DecodeRune(b[i:])
		if i+n > at || !utf8.FullRune(b[i:]) {
			return from + int64(i)
		}
		break
	}
	return cut
}

// runeAfter returns cut, or where the UTF-8 sequence ends that cut tears.
func (s *stream) runeAfter(cut int64) int64 {
	b, from := s.around(cut)
	at := int(cut - from)
	for i := at - 1; i >= 0; i-- {
		if !utf8.RuneStart(b[i]) {
			continue
		}
		if _, n := utf8.DecodeRune(b[i:]); i+n > at {
			return from + int64(i+n)
		}
		return cut
	}
	if from == 0 {
		return cut // the stream begins in the middle of a sequence: not UTF-8
	}
	// The beginning of the sequence may be gone. More continuations than a sequence
	// can have are not UTF-8.
	n := 0
	for n < len(b) && !utf8.RuneStart(b[n]) {
		n++
	}
	if n <= edge {
		return from + int64(n)
	}
	return cut
}

// around returns the kept bytes up to edge before and after cut, and the offset of
// the first.
func (s *stream) around(cut int64) (b []byte, from int64) {
	from, to := max(cut-edge, 0), min(cut+edge, s.total)
	if g := s.gap; g.to > g.from {
		if cut <= g.from {
			to = min(to, g.from)
		} else {
			from = max(from, g.to)
		}
	}
	var array [2 * edge]span
	for _, sp := range s.spans(array[:0], from, to) {
		b = append(b, sp.buf[sp.lo:sp.hi]...)
	}
	return b, from
}
