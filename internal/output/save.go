package output

import (
	"encoding/binary"
	"errors"
	"io"
)

// A saved log consists of the magic, the numbers seq and mark, and two streams. A stream is
//
//	limit total gap.from gap.to gap.seq, the number of head pages, of tail pages, the pages
//
// and a page is
//
//	seq n recs, n bytes of data, the index as it is in memory
//
// All numbers are unsigned varints. Values that can be computed from the others are left out.
const magic = "trl-log\x01"

// maxNumber limits every number in a saved log, so that sums do not overflow.
const maxNumber = 1 << 60

// Errors of Save and Load.
var (
	ErrOpen    = errors.New("the log is not closed")
	ErrCorrupt = errors.New("not a saved log")
)

// Save writes a closed log to w, in many small writes. Changes of the log during Save do not affect
// the result.
func (l *Log) Save(w io.Writer) error {
	l.mu.Lock()
	if !l.closed {
		l.mu.Unlock()
		return ErrOpen
	}
	head := binary.AppendUvarint(append([]byte(nil), magic...), uint64(l.seq))
	head = binary.AppendUvarint(head, uint64(l.mark))
	var heads [2][]byte
	var pages [2][]span
	for i := range l.streams {
		s := &l.streams[i]
		for _, n := range []int64{
			s.headLimit + s.tailLimit, s.total, s.gap.from, s.gap.to, s.gap.seq, int64(len(s.head)), int64(s.pages() - len(s.head)),
		} {
			heads[i] = binary.AppendUvarint(heads[i], uint64(n))
		}
		for j := range s.pages() {
			p := s.page(j)
			pages[i] = appendSpan(pages[i], p, p.off, p.end())
		}
		pin(pages[i])
	}
	l.mu.Unlock()
	defer l.unpin(pages[0], pages[1])

	if _, err := w.Write(head); err != nil {
		return err
	}
	buf := make([]byte, 0, maxPage)
	for i := range heads {
		if _, err := w.Write(heads[i]); err != nil {
			return err
		}
		for _, sp := range pages[i] {
			if err := sp.save(w, buf); err != nil {
				return err
			}
		}
	}
	return nil
}

// save writes a pinned page. The log is closed, so neither the page nor its index changes.
func (sp *span) save(w io.Writer, buf []byte) error {
	p := sp.p
	var head []byte
	for _, n := range []int64{p.seq, int64(p.n), int64(p.recs)} {
		head = binary.AppendUvarint(head, uint64(n))
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	if sp.buf == nil {
		buf = buf[:p.used()]
		if err := readSlot(sp.file, p.slot, 0, buf); err != nil {
			return err
		}
		_, err := w.Write(buf)
		return err
	}
	if _, err := w.Write(sp.buf[:p.n]); err != nil {
		return err
	}
	_, err := w.Write(sp.buf[len(sp.buf)-p.index():])
	return err
}

// Load reads a log that Save wrote into store, and not one byte more. The log is closed.
func Load(store *Store, r interface {
	io.Reader
	io.ByteReader
}) (*Log, error) {
	d := &loader{r: r}
	start := make([]byte, len(magic))
	d.read(start)
	if d.err == nil && string(start) != magic {
		d.err = ErrCorrupt
	}
	l := New(store, 0)
	seq, mark := d.number(maxNumber), d.number(maxNumber)
	d.check(mark <= seq)
	l.seq, l.sealed, l.mark = seq, seq, mark
	for i := range l.streams {
		l.streams[i].loading = true
	}
	for i := range l.streams {
		d.stream(l, &l.streams[i])
	}
	l.Close()
	if d.err != nil {
		l.Release()
		return nil, d.err
	}
	l.mu.Lock()
	for i := range l.streams {
		l.streams[i].loading = false
	}
	l.mu.Unlock()
	store.spill()
	return l, nil
}

// A loader reads the parts of a saved log until the first error.
type loader struct {
	r interface {
		io.Reader
		io.ByteReader
	}
	err error
}

func (d *loader) read(p []byte) {
	if d.err == nil {
		_, d.err = io.ReadFull(d.r, p)
	}
	if d.err == io.EOF {
		d.err = io.ErrUnexpectedEOF
	}
}

func (d *loader) number(most int64) int64 {
	if d.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(d.r)
	switch {
	case err == io.EOF:
		d.err = io.ErrUnexpectedEOF
	case err != nil:
		d.err = err
	case n > uint64(most):
		d.err = ErrCorrupt
	default:
		return int64(n)
	}
	return 0
}

func (d *loader) check(ok bool) {
	if d.err == nil && !ok {
		d.err = ErrCorrupt
	}
}

// stream reads a stream of l with its pages.
func (d *loader) stream(l *Log, s *stream) {
	limit, total := d.number(maxNumber), d.number(maxNumber)
	g := gap{from: d.number(total), to: d.number(total), seq: d.number(l.seq)}
	heads, tails := d.number(total), d.number(total)
	d.check(g.from <= g.to && (!g.empty() || g == gap{}) && (tails > 0 || g.to == total || g.empty()))
	if d.err != nil {
		return
	}
	after := int64(0) // number of the previous record
	for i := int64(0); i < heads+tails && d.err == nil; i++ {
		if i == heads && !g.empty() {
			d.check(s.total == g.from && g.seq > after)
			s.total, after = g.to, g.seq
		}
		p := d.page(after, l.seq)
		if d.err != nil {
			return
		}
		after = p.last
		l.mu.Lock()
		p.off, p.stream = s.total, s
		s.total = p.end()
		if i < heads {
			s.head = append(s.head, p)
			s.headCost += p.cost()
		} else {
			s.tail = append(s.tail, p)
			s.tailCost += p.cost()
		}
		s.grow(len(p.buf))
		l.store.enlistLocked(p)
		full := l.store.fullLocked()
		l.mu.Unlock()
		if full {
			l.store.spill()
		}
	}
	if tails == 0 && !g.empty() {
		d.check(s.total == g.from && g.seq > after)
		s.total = g.to
	}
	d.check(s.total == total)
	l.mu.Lock()
	defer l.mu.Unlock()
	s.gap = g
	s.headLimit, s.tailLimit = limit/2, limit-limit/2
	s.done = true
}

// page reads a page whose numbers are between after and last.
func (d *loader) page(after, last int64) *page {
	p := &page{seq: d.number(last), n: int(d.number(maxPage)), recs: int(d.number(maxPage))}
	d.check(p.seq > after && p.n > 0 && p.recs > 0 && p.recs <= p.n && p.used() <= maxPage)
	if d.err != nil {
		return nil
	}
	p.buf = make([]byte, p.used())
	d.read(p.buf)
	for i := 1; i < p.recs && d.err == nil; i++ {
		d.check(p.start(i) > p.start(i-1) && p.start(i) < p.n && p.number(i) > p.number(i-1))
	}
	p.last = p.number(p.recs - 1)
	d.check(p.last <= last)
	return p
}
