package output

import "unicode/utf8"

// edge is the most bytes of a UTF-8 sequence on either side of a cut.
const edge = utf8.UTFMax - 1

// Result returns the whole stream if the log has all of it and it has at most limit bytes. Otherwise
// truncated is true, and data is the head and the tail of the stream, half of limit each, or more
// of the one if the log has less of the other. A UTF-8 sequence that a cut would split is left out.
func (l *Log) Result(st Stream, limit int64) (data []byte, truncated bool) {
	var array [16]span
	s := &l.streams[st]
	limit = max(limit, 0)

	l.mu.Lock()
	if truncated = !s.gap.empty() || s.total > limit; !truncated {
		spans := s.spans(array[:0], 0, s.total)
		pin(spans)
		l.mu.Unlock()
		data, ok := l.copyOut(nil, spans)
		if !ok {
			return l.Result(st, limit)
		}
		return data, false
	}
	// A few bytes around each cut show whether it splits a sequence.
	head, tail := s.cut(limit) // data is [0, head) and [tail, total)
	headEnd, tailFrom := min(head+edge, s.total), max(tail-edge, 0)
	if !s.gap.empty() {
		headEnd, tailFrom = min(headEnd, s.gap.from), max(tailFrom, s.gap.to)
	}
	total := s.total
	spans := s.spans(array[:0], 0, headEnd)
	spans = s.spans(spans, tailFrom, total)
	pin(spans)
	l.mu.Unlock()

	data, ok := l.copyOut(nil, spans)
	if !ok {
		return l.Result(st, limit)
	}
	end := data[headEnd:]
	if tail < total {
		from := tail - tailFrom
		end = end[runeAfter(end[:min(from+edge, int64(len(end)))], int(from), tailFrom == 0):]
	} else {
		end = nil
	}
	if head > 0 {
		from := max(head-edge, 0)
		head = from + int64(runeBefore(data[from:headEnd], int(head-from)))
	}
	return append(data[:head], end...), true
}

// cut divides limit bytes between the head and the tail of a stream: [0, head) and [tail, total).
func (s *stream) cut(limit int64) (head, tail int64) {
	haveHead, haveTail := s.total, s.total // without a gap they overlap, but each exceeds limit
	if !s.gap.empty() {
		haveHead, haveTail = s.gap.from, s.total-s.gap.to
	}
	head = min(limit-limit/2, haveHead)
	n := min(limit-head, haveTail)
	head = min(limit-n, haveHead)
	return head, s.total - n
}

// runeBefore returns cut, or the beginning of the UTF-8 sequence in b that cut would split.
func runeBefore(b []byte, cut int) int {
	for i := cut - 1; i >= 0; i-- {
		if !utf8.RuneStart(b[i]) {
			continue
		}
		// A sequence whose end was dropped counts as split too.
		_, n := utf8.DecodeRune(b[i:])
		if i+n > cut || !utf8.FullRune(b[i:]) {
			return i
		}
		break
	}
	return cut
}

// runeAfter returns cut, or the end of the UTF-8 sequence in b that cut would split. begin means
// that b is the beginning of the stream.
func runeAfter(b []byte, cut int, begin bool) int {
	for i := cut - 1; i >= 0; i-- {
		if !utf8.RuneStart(b[i]) {
			continue
		}
		if _, n := utf8.DecodeRune(b[i:]); i+n > cut {
			return i + n
		}
		return cut
	}
	if begin {
		return cut // the stream begins with continuation bytes, so it is not UTF-8
	}
	// The beginning of the sequence may have been dropped. If there are more continuation bytes
	// than a sequence can have, the text is not UTF-8.
	n := 0
	for n < len(b) && !utf8.RuneStart(b[n]) {
		n++
	}
	if n <= edge {
		return n
	}
	return cut
}
