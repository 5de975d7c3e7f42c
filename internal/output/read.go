package output

import (
	"errors"
	"io"
	"os"
	"slices"
)

// maxRecords limits one Read, because Read collects the records with the lock held.
const maxRecords = 1024

// ErrOffset means that an offset is outside the stream.
var ErrOffset = errors.New("offset outside of the output")

// A Record is a piece of one stream: the bytes [Offset, Offset+Len). With Gap, they were dropped.
type Record struct {
	Seq    int64
	Stream Stream
	Offset int64
	Len    int64
	Gap    bool
}

// Read returns the records after afterSeq in order, and their bytes one after another. It returns
// whole records as long as they fit into limit bytes, but at least one if there is any, and at most
// 1024; it returns fewer if some are in the file. It reuses the memory of dst for data. A next Read
// after next misses and repeats nothing. If there is no record yet, next is afterSeq.
//
// Dropped bytes are reported as one record with Gap set. It has the number of the last dropped
// record, so that numbers rise over gaps too, and only a reader that has missed a record gets it.
// It covers the whole gap of its stream. A reader that got some of these bytes before they were
// dropped has missed only those after the last byte it has.
func (l *Log) Read(afterSeq int64, limit int, dst []byte) (recs []Record, data []byte, next int64) {
	afterSeq = max(afterSeq, 0)
	for {
		recs, data, next, ok := l.read(afterSeq, limit, dst)
		if ok {
			return recs, data, next
		}
	}
}

// read is one attempt of Read. ok is false if Read must try again, because a page was not in memory
// or could not be read from the file.
func (l *Log) read(afterSeq int64, limit int, dst []byte) (recs []Record, data []byte, next int64, ok bool) {
	var arrays [2][8]span
	spans := [2][]span{arrays[0][:0], arrays[1][:0]}
	size := 0
	ok, next = true, afterSeq

	l.mu.Lock()
	fetched := l.fetchLocked(afterSeq, limit)
	if afterSeq < l.seq {
		recs, spans, size, ok = l.collectLocked(afterSeq, limit, spans)
		next = l.seq
		if last := len(recs) - 1; last >= 0 {
			next = recs[last].Seq
		}
		if next+1 == l.mark {
			next++
		}
	}
	if ok {
		l.sealLocked(next)
	}
	pin(spans[Stdout])
	pin(spans[Stderr])
	for _, p := range fetched {
		p.unpinLocked()
	}
	l.mu.Unlock()
	if len(fetched) > 0 {
		l.store.spill()
	}
	if !ok {
		return nil, nil, 0, false
	}

	// A record is in one page, so it is the beginning of the rest of its stream's first span.
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

// fetchLocked loads the pages whose index a Read needs, and pins them. It releases the lock while
// it reads the file.
func (l *Log) fetchLocked(afterSeq int64, limit int) (pages []*page) {
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
		if l.store.loadLocked(p) != nil {
			p.stream.lose(p)
		}
	}
	return pages
}

// collectLocked returns the records of a Read, the spans of each stream that have their bytes, and
// the number of bytes. ok is false if the first record is in a page that is not in memory.
func (l *Log) collectLocked(afterSeq int64, limit int, spans [2][]span) (_ []Record, _ [2][]span, size int, ok bool) {
	recs := make([]Record, 0, min(l.seq-afterSeq, 64))
	out, err := l.seekLocked(Stdout, afterSeq), l.seekLocked(Stderr, afterSeq)
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

// ReadAt copies bytes of the stream from offset into p and returns how many. If the byte at offset
// was dropped, n is 0 and gapTo is the end of the gap. At the end of the stream, n and gapTo are 0,
// and err is io.EOF if the log is closed. If it is not closed, the caller waits for more output
// with Wait, passing the result of a Last before ReadAt.
func (l *Log) ReadAt(st Stream, offset int64, p []byte) (n int, gapTo int64, err error) {
	var array [16]span
	s := &l.streams[st]

	l.mu.Lock()
	end := min(s.total, offset+int64(len(p)))
	switch g := s.gap; {
	case offset < 0 || offset > s.total+int64(len(s.held)):
		l.mu.Unlock()
		return 0, 0, ErrOffset
	case offset > s.total: // the byte is held back
		end = offset
		l.sealLocked(l.seq)
	case g.from <= offset && offset < g.to:
		l.mu.Unlock()
		return 0, g.to, nil
	case offset < g.from:
		end = min(end, g.from)
	}
	if end == s.total {
		l.sealLocked(l.seq) // more output gets a new number, so that Wait returns for it
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

// A cursor iterates over the records and the gap of one stream in the order of their numbers.
type cursor struct {
	rec    Record // the current record
	ok     bool   // there is a current record
	absent bool   // its page is not in memory, so rec.Seq is only a lower bound and the rest is unknown

	s     *stream
	st    Stream
	page  int
	index int  // of rec in its page
	gap   bool // the gap follows later
}

// seekLocked returns a cursor at the first record of the stream after seq.
func (l *Log) seekLocked(st Stream, seq int64) cursor {
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

// next moves to the next record.
func (c *cursor) next() {
	if c.rec.Gap {
		c.gap = false
	} else if c.index++; c.index == c.s.page(c.page).recs {
		c.page++
		c.index = 0
	}
	c.load()
}

// A span is published data of one page. Published data never changes, and a pinned page is not
// reused, so a pinned span can be copied without the lock.
type span struct {
	p      *page
	buf    []byte   // of p, which may get another buffer later; nil if the data is only in the file
	file   *os.File // the file, if buf is nil
	lo, hi int
}

// spans appends the spans of the bytes [from, to) of the stream, which must not overlap the gap.
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

// appendSpan appends a span of the bytes [from, to) of a page, or extends the last span if they
// follow it.
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

// unpin undoes pin. It takes the lock. Pages that exceeded the memory limit because they were being
// read move to the file now, because this may be the last use of the store.
func (l *Log) unpin(lists ...[]span) {
	l.mu.Lock()
	freed := false
	for _, spans := range lists {
		for _, sp := range spans {
			sp.p.unpinLocked()
			freed = freed || sp.p.pins == 0 && sp.p.next != nil
		}
	}
	freed = freed && l.store.overLocked()
	l.mu.Unlock()
	if freed {
		l.store.spill()
	}
}

// unpinLocked undoes one pin of a page.
func (p *page) unpinLocked() {
	p.pins--
	if p.pins == 0 && p.dropped {
		p.stream.free(p)
	}
}

// copyOut copies pinned spans into the memory of dst and unpins them. It takes the lock, but not
// while it copies. ok is false if some data could not be read; see copySpan.
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

// copySpan appends the bytes of a pinned span up to end. If they are in the file and cannot be read,
// they become part of the gap and ok is false; the caller then tries again with the rest.
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
