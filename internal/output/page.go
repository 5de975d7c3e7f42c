package output

import "math"

const (
	firstPage = 512 // enough for the output of most commands
	midPage   = 16 << 10
	maxPage   = 64 << 10

	entrySize  = 6       // bytes of one index entry
	minReserve = 4 << 10 // the least that Reserve returns
)

// A page has consecutive bytes of one stream and the index of their records.
//
//	buf: [ data … n | free | entry recs-1 … entry 2 | entry 1 ]
//
// The first record begins at 0 with number seq and needs no entry. Entry i has the beginning of
// record i (16 bits) and the difference of its number to seq (32 bits). A record ends where the
// next one begins, the last record at n. So the last record grows without a change to the index,
// and a page that one read has filled has no index.
//
// In the file, the index follows the data. A page that was read from the file is in both places
// until its memory is needed.
type page struct {
	off  int64  // offset of the first byte in the stream
	seq  int64  // number of the first record
	last int64  // number of the last record
	buf  []byte // nil while the page is in the file only
	n    int    // bytes of data
	recs int    // records
	slot int64  // in the file; 0 if the page is not in the file

	// Readers copy data without the lock. pins counts them; a page with pins is not reused.
	pins    int
	dropped bool // the page is no longer part of the stream

	stream     *stream
	prev, next *page // in the store's list of pages that may leave memory; nil if not in the list
}

// free returns how many bytes of a new record fit, together with the record's index entry.
func (p *page) free() int {
	return len(p.buf) - p.n - entrySize*p.recs
}

// takes reports whether n bytes of a record numbered seq fit.
func (p *page) takes(n int, seq int64) bool {
	return n <= p.free() && seq-p.seq <= math.MaxUint32
}

// begin starts a record at the end of the data.
func (p *page) begin(seq int64) {
	if p.recs == 0 {
		p.seq = seq
	} else {
		e := p.entry(p.recs)
		d := uint32(seq - p.seq)
		e[0], e[1] = byte(p.n), byte(p.n>>8)
		e[2], e[3], e[4], e[5] = byte(d), byte(d>>8), byte(d>>16), byte(d>>24)
	}
	p.recs++
	p.last = seq
}

// entry returns the place of the index entry of record i, for i > 0.
func (p *page) entry(i int) []byte {
	at := len(p.buf) - entrySize*i
	return p.buf[at : at+entrySize]
}

// indexed reports whether start, number and after work: the index is in memory, or the page has
// only one record and needs none.
func (p *page) indexed() bool { return p.buf != nil || p.recs == 1 }

// start returns where record i begins. The record after the last begins at the
// end of the data.
func (p *page) start(i int) int {
	switch i {
	case 0:
		return 0
	case p.recs:
		return p.n
	}
	e := p.entry(i)
	return int(e[0]) | int(e[1])<<8
}

// number returns the sequence number of record i.
func (p *page) number(i int) int64 {
	if i == 0 {
		return p.seq
	}
	e := p.entry(i)
	return p.seq + int64(uint32(e[2])|uint32(e[3])<<8|uint32(e[4])<<16|uint32(e[5])<<24)
}

// end returns the offset after the last byte.
func (p *page) end() int64 { return p.off + int64(p.n) }

// after returns the first record whose number is greater than seq.
func (p *page) after(seq int64) int {
	return search(p.recs, func(i int) bool { return p.number(i) > seq })
}

// index returns the size of the index.
func (p *page) index() int { return entrySize * max(p.recs-1, 0) }

// used returns the size of data and index.
func (p *page) used() int { return p.n + p.index() }

// filed records that the page is in the file.
func (p *page) filed(slot int64) {
	p.slot = slot
	p.stream.filed += int64(p.used())
	p.stream.store.filed += int64(p.used())
}

// cost returns how much the page counts against the limit: its data, or 8/9 of data and index if
// the index is larger than an eighth of the data.
func (p *page) cost() int64 {
	return int64(max(p.n, p.used()*8/9))
}

// shrink moves the content to a smaller buffer if at least a quarter of the buffer is unused.
// Nothing can be written to the page afterwards.
func (p *page) shrink() {
	used := p.used()
	if len(p.buf)-used < len(p.buf)/4 {
		return
	}
	buf := make([]byte, used)
	copy(buf, p.buf[:p.n])
	copy(buf[p.n:], p.buf[len(p.buf)-p.index():])
	p.buf = buf
}

// search returns the smallest i in [0, n) for which f is true, or n. f must be true for all greater
// i too. It is sort.Search without the size of package sort.
func search(n int, f func(int) bool) int {
	lo, hi := 0, n
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if f(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}
