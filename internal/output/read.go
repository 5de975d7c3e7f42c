package output

import (
	"errors"
	"io"
	"os"
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
// there is any, and at most 1024; fewer when some are in the file. The storage of
// dst is reused for data. Reading on after next misses nothing and repeats nothing.
// If there is nothing yet, next is afterSeq.
//
// Where bytes are gone there is one record with Gap set. It has the number of the
// last record that was dropped, so numbers rise also over gaps, and it is given
// only to a reader that missed a record. It covers the whole gap of its stream; a
// reader that already had bytes from there, before they were dropped, missed only
// what follows the last byte it has.
func (l *Log) Read(afterSeq int64, limit int, dst []byte) (recs []Record, data []byte, next int64) {
	afterSeq = max(afterSeq, 0)
	for {
		recs, data, next, ok := l.read(afterSeq, limit, dst)
		if ok {
			return recs, data, next
		}
	}
}

// read is one try of Read. It is not ok if something has to come from the file that
// was not known before, or cannot.
func (l *Log) read(afterSeq int64, limit int, dst []byte) (recs []Record, data []byte, next int64, ok bool) {
	var arrays [2][8]span
	spans := [2][]span{arrays[0][:0], arrays[1][:0]}
	size := 0
	ok, next = true, afterSeq

	l.mu.Lock()
	fetched := l.fetch(afterSeq, limit)
	if afterSeq < l.seq {
		recs, spans, size, ok = l.collect(afterSeq, limit, spans)
		next = l.seq
		if last := len(recs) - 1; last >= 0 {
			next = recs[last].Seq
		}
		if next+1 == l.mark {
			next++
		}
	}
	if ok {
		l.seal(next)
	}
	pin(spans[Stdout])
	pin(spans[Stderr])
	for _, p := range fetched {
		p.unpin()
	}
	l.mu.Unlock()
	if len(fetched) > 0 {
		l.store.spill()
	}
	if !ok {
		return nil, nil, 0, false
	}

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
		if data, ok = l.copySpan(data, sp, end); !ok {
			break
		}
		if sp.lo = end; end == sp.hi {
			left[rec.Stream] = left[rec.Stream][1:]
		}
	}
	l.unpin(spans[Stdout], spans[Stderr])
	return recs, data, next, ok
}

// fetch brings the pages into memory whose index a Read needs, and pins them. The
// lock is held, but not while the file is being read.
func (l *Log) fetch(afterSeq int64, limit int) (pages []*page) {
	for i := range l.streams {
		s := &l.streams[i]
		if s.filed == 0 {
			continue
		}
		size, recs := 0, 0
		for i := s.after(afterSeq); i < s.pages() && size <= limit && recs < maxRecords; i++ {
			p := s.page(i)
			size += p.n
			recs += p.recs
			if !p.indexed() {
				p.pins++
				pages = append(pages, p)
			}
		}
	}
	for _, p := range pages {
		if l.store.load(p) != nil {
			p.stream.lose(p)
		}
	}
	return pages
}

// collect returns the records of a Read, where each stream has their bytes, and how
// many these are. It is not ok if the first one is in a page that must be fetched
// before. The lock is held.
func (l *Log) collect(afterSeq int64, limit int, spans [2][]span) (_ []Record, _ [2][]span, size int, ok bool) {
	recs := make([]Record, 0, min(l.seq-afterSeq, 64))
	out, err := l.seek(Stdout, afterSeq), l.seek(Stderr, afterSeq)
	for len(recs) < maxRecords && (out.ok || err.ok) {
		c := &out
		if !out.ok || err.ok && err.rec.Seq < out.rec.Seq {
			c = &err
		}
		rec := c.rec
		if c.absent {
			return recs, spans, size, len(recs) > 0
		}
		if !rec.Gap {
			if len(recs) > 0 && int64(size)+rec.Len > int64(limit) {
				break
			}
			size += int(rec.Len)
			p := c.s.page(c.page)
			spans[rec.Stream] = appendSpan(spans[rec.Stream], p, rec.Offset, rec.Offset+rec.Len)
		}
		recs = append(recs, rec)
		c.next()
	}
	return recs, spans, size, true
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
	case offset < 0 || offset > s.total+int64(len(s.held)):
		l.mu.Unlock()
		return 0, 0, ErrOffset
	case offset > s.total: // it is held back
		end = offset
		l.seal(l.seq)
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

	data, ok := l.copyOut(p[:0], spans)
	if !ok {
		return l.ReadAt(st, offset, p)
	}
	return len(data), 0, err
}

// A cursor walks the records and the gap of one stream in the order of their
// numbers. rec is where it is, if ok. If absent, the page must be fetched to know
// more of rec than that nothing comes before its number.
type cursor struct {
	rec    Record
	ok     bool
	absent bool

	s     *stream
	st    Stream
	page  int
	index int  // of rec in its page
	gap   bool // still ahead
}

// seek returns a cursor at the first record of the stream after seq.
func (l *Log) seek(st Stream, seq int64) cursor {
	s := &l.streams[st]
	c := cursor{s: s, st: st, gap: !s.gap.empty() && s.gap.seq > seq}
	c.page = s.after(seq)
	if c.page < s.pages() {
		if p := s.page(c.page); p.indexed() {
			c.index = p.after(seq)
		}
	}
	c.load()
	return c
}

// after returns the first page that has a record with a number greater than seq.
func (s *stream) after(seq int64) int {
	return search(s.pages(), func(i int) bool { return s.page(i).last > seq })
}

// load sets rec.
func (c *cursor) load() {
	s := c.s
	switch {
	case c.gap && c.page >= len(s.head):
		c.rec = Record{Seq: s.gap.seq, Stream: c.st, Offset: s.gap.from, Len: s.gap.to - s.gap.from, Gap: true}
	case c.page < s.pages():
		p := s.page(c.page)
		if !p.indexed() {
			c.rec, c.absent = Record{Seq: p.seq}, true
			break
		}
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
	p      *page
	buf    []byte   // of p, which may get another one; nil if the data is in the file
	file   *os.File // then
	lo, hi int
}

// spans appends the data [from, to) of the stream, which must not touch the gap.
func (s *stream) spans(dst []span, from, to int64) []span {
	i := search(s.pages(), func(i int) bool { return s.page(i).end() > from })
	for ; from < to; i++ {
		p := s.page(i)
		end := min(to, p.end())
		dst = appendSpan(dst, p, from, end)
		from = end
	}
	return dst
}

// appendSpan appends the bytes [from, to) of a page, joined to the last span if
// they follow it.
func appendSpan(dst []span, p *page, from, to int64) []span {
	lo, hi := int(from-p.off), int(to-p.off)
	if n := len(dst); n > 0 && dst[n-1].p == p && dst[n-1].hi == lo {
		dst[n-1].hi = hi
		return dst
	}
	return append(dst, span{p, p.buf, p.stream.store.file.f, lo, hi})
}

// pin keeps the pages of spans from being reused until unpin.
func pin(spans []span) {
	for _, sp := range spans {
		sp.p.pins++
	}
}

// unpin undoes pin. It takes the lock. Pages that stayed in memory beyond its bound because
// they were being read leave it now, because this may be the last use of the store.
func (l *Log) unpin(lists ...[]span) {
	l.mu.Lock()
	freed := false
	for _, spans := range lists {
		for _, sp := range spans {
			sp.p.unpin()
			freed = freed || sp.p.pins == 0 && sp.p.next != nil
		}
	}
	freed = freed && l.store.over()
	l.mu.Unlock()
	if freed {
		l.store.spill()
	}
}

// unpin lets go of a page.
func (p *page) unpin() {
	p.pins--
	if p.pins == 0 && p.dropped {
		p.stream.free(p)
	}
}

// copyOut copies pinned spans into the storage of dst and unpins them. It takes the
// lock, but does not hold it while it copies. It is not ok if the log has lost some
// of it, see copySpan.
func (l *Log) copyOut(dst []byte, spans []span) (_ []byte, ok bool) {
	size := 0
	for _, sp := range spans {
		size += sp.hi - sp.lo
	}
	dst, ok = slices.Grow(dst[:0], size), true
	for i := range spans {
		if dst, ok = l.copySpan(dst, &spans[i], spans[i].hi); !ok {
			break
		}
	}
	l.unpin(spans)
	return dst, ok
}

// copySpan appends the bytes up to end of a pinned span. If they are in the file
// and cannot be read, the log loses them; then it is not ok, and the caller looks
// again what there is.
func (l *Log) copySpan(dst []byte, sp *span, end int) (_ []byte, ok bool) {
	if sp.buf != nil {
		return append(dst, sp.buf[sp.lo:end]...), true
	}
	n := len(dst)
	dst = slices.Grow(dst, end-sp.lo)[:n+end-sp.lo]
	if readSlot(sp.file, sp.p.slot, sp.lo, dst[n:]) == nil {
		return dst, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	sp.p.stream.lose(sp.p)
	return dst[:n], false
}
