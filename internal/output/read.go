package output

import (
	"errors"
	"io"
	"slices"
)

// maxRecords bounds one Read, because it numbers records under the lock.
const maxRecords = 1024

// ErrOffset says that an offset lies outside of the stream.
var ErrOffset = errors.New("offset outside of the output")

// A Record is a piece of one stream: the bytes [Offset, Offset+Len). With Gap
// they are gone.
type Record struct {
	Seq    int64
	Stream Stream
	Offset int64
	Len    int64
	Gap    bool
}

// Read returns the records after afterSeq in order and their bytes one after
// another: whole records while they fit into limit bytes, but at least one if
// there is any, and at most 1024. The storage of dst is reused for data. Reading on
// after next misses nothing and repeats nothing. If there is nothing yet, next is
// afterSeq.
//
// Where bytes are gone there is one record with Gap set. It has the number of the
// last record that was dropped, so numbers rise also over gaps, and it is given
// only to a reader that missed a record. It covers the whole gap of its stream; a
// reader that already had bytes from there, before they were dropped, missed only
// what follows the last byte it has.
func (l *Log) Read(afterSeq int64, limit int, dst []byte) (recs []Record, data []byte, next int64) {
	var arrays [2][8]span
	spans := [2][]span{arrays[0][:0], arrays[1][:0]}
	size := 0
	afterSeq = max(afterSeq, 0)
	next = afterSeq

	l.mu.Lock()
	if afterSeq < l.seq {
		recs, spans, size = l.collect(afterSeq, limit, spans)
		next = l.seq
		if last := len(recs) - 1; last >= 0 {
			next = recs[last].Seq
		}
		if next+1 == l.mark {
			next++
		}
	}
	l.seal(next)
	pin(spans[Stdout])
	pin(spans[Stderr])
	l.mu.Unlock()

	// A record lies in one page, so it is the beginning of what is left of the
	// first span of its stream.
	left := spans
	data = slices.Grow(dst[:0], size)
	for _, rec := range recs {
		if rec.Gap {
			continue
		}
		sp := &left[rec.Stream][0]
		end := sp.lo + int(rec.Len)
		data = append(data, sp.buf[sp.lo:end]...)
		if sp.lo = end; end == sp.hi {
			left[rec.Stream] = left[rec.Stream][1:]
		}
	}
	l.unpin(spans[Stdout], spans[Stderr])
	return recs, data, next
}

// collect returns the records of a Read, where each stream has their bytes, and how
// many these are. The lock is held.
func (l *Log) collect(afterSeq int64, limit int, spans [2][]span) ([]Record, [2][]span, int) {
	size := 0
	recs := make([]Record, 0, min(l.seq-afterSeq, 64))
	out, err := l.seek(Stdout, afterSeq), l.seek(Stderr, afterSeq)
	for len(recs) < maxRecords && (out.ok || err.ok) {
		c := &out
		if !out.ok || err.ok && err.rec.Seq < out.rec.Seq {
			c = &err
		}
		rec := c.rec
		if !rec.Gap {
			if len(recs) > 0 && int64(size)+rec.Len > int64(limit) {
				break
			}
			size += int(rec.Len)
			p := c.s.page(c.page)
			spans[rec.Stream] = appendSpan(spans[rec.Stream], c.s, p, rec.Offset, rec.Offset+rec.Len)
		}
		recs = append(recs, rec)
		c.next()
	}
	return recs, spans, size
}

// ReadAt copies bytes of the stream from offset into p and returns how many. If
// the byte at offset is gone, n is 0 and gapTo is where the stream goes on. At
// the end of the stream n and gapTo are 0, and err is io.EOF once the log is
// closed; before, Wait for the number after Last, taken before ReadAt, tells when
// to try again.
func (l *Log) ReadAt(st Stream, offset int64, p []byte) (n int, gapTo int64, err error) {
	var array [16]span
	s := &l.streams[st]

	l.mu.Lock()
	end := min(s.total, offset+int64(len(p)))
	switch g := s.gap; {
	case offset < 0 || offset > s.total:
		l.mu.Unlock()
		return 0, 0, ErrOffset
	case g.from <= offset && offset < g.to:
		l.mu.Unlock()
		return 0, g.to, nil
	case offset < g.from:
		end = min(end, g.from)
	}
	if end == s.total {
		l.seal(l.seq) // what follows gets a number of its own, so that Wait sees it
		if end == offset && len(p) > 0 && l.closed {
			err = io.EOF
		}
	}
	spans := s.spans(array[:0], offset, end)
	pin(spans)
	l.mu.Unlock()

	return len(l.copyOut(p[:0], spans, int(end-offset))), 0, err
}

// A cursor walks the records and the gap of one stream in the order of their
// numbers. rec is where it is, if ok.
type cursor struct {
	rec Record
	ok  bool

	s     *stream
	st    Stream
	page  int
	index int  // of rec in its page
	gap   bool // still ahead
}

// seek returns a cursor at the first record of the stream after seq.
func (l *Log) seek(st Stream, seq int64) cursor {
	s := &l.streams[st]
	c := cursor{s: s, st: st, gap: s.gap.to > s.gap.from && s.gap.seq > seq}
	c.page = search(s.pages(), func(i int) bool { return s.page(i).lastSeq() > seq })
	if c.page < s.pages() {
		c.index = s.page(c.page).after(seq)
	}
	c.load()
	return c
}

// load sets rec.
func (c *cursor) load() {
	s := c.s
	switch {
	case c.gap && c.page >= len(s.head):
		c.rec = Record{Seq: s.gap.seq, Stream: c.st, Offset: s.gap.from, Len: s.gap.to - s.gap.from, Gap: true}
	case c.page < s.pages():
		p := s.page(c.page)
		from, to := p.start(c.index), p.start(c.index+1)
		c.rec = Record{Seq: p.number(c.index), Stream: c.st, Offset: p.off + int64(from), Len: int64(to - from)}
	default:
		c.ok = false
		return
	}
	c.ok = true
}

func (c *cursor) next() {
	if c.rec.Gap {
		c.gap = false
	} else if c.index++; c.index == c.s.page(c.page).recs {
		c.page++
		c.index = 0
	}
	c.load()
}

// A span is published data of one page. It never changes; while it is pinned its
// page is not reused, so it can be copied without the lock.
type span struct {
	s      *stream
	p      *page
	buf    []byte // of p, which may get another one
	lo, hi int
}

// spans appends the data [from, to) of the stream, which must not touch the gap.
func (s *stream) spans(dst []span, from, to int64) []span {
	i := search(s.pages(), func(i int) bool { return s.page(i).end() > from })
	for ; from < to; i++ {
		p := s.page(i)
		end := min(to, p.end())
		dst = appendSpan(dst, s, p, from, end)
		from = end
	}
	return dst
}

// appendSpan appends the bytes [from, to) of a page, joined to the last span if
// they follow it.
func appendSpan(dst []span, s *stream, p *page, from, to int64) []span {
	lo, hi := int(from-p.off), int(to-p.off)
	if n := len(dst); n > 0 && dst[n-1].p == p && dst[n-1].hi == lo {
		dst[n-1].hi = hi
		return dst
	}
	return append(dst, span{s, p, p.buf, lo, hi})
}

// pin keeps the pages of spans from being reused until unpin.
func pin(spans []span) {
	for _, sp := range spans {
		sp.p.pins++
	}
}

// unpin undoes pin. It takes the lock.
func (l *Log) unpin(lists ...[]span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, spans := range lists {
		for _, sp := range spans {
			sp.p.pins--
			if sp.p.pins == 0 && sp.p.dropped {
				sp.s.recycle(sp.p)
			}
		}
	}
}

// copyOut copies size bytes of pinned spans into the storage of dst and unpins
// them. It takes the lock, but does not hold it while it copies.
func (l *Log) copyOut(dst []byte, spans []span, size int) []byte {
	dst = slices.Grow(dst[:0], size)
	for _, sp := range spans {
		dst = append(dst, sp.buf[sp.lo:sp.hi]...)
	}
	l.unpin(spans)
	return dst
}
