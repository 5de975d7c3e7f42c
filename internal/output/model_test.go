package output_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trl-dev/trl/internal/output"
)

// model is the log without bounds: it keeps every byte and knows what every
// sequence number stands for.
type model struct {
	t       testing.TB
	log     *output.Log
	data    [2][]byte
	begins  []place // by sequence number - 1
	mark    int64
	closed  bool
	readers []*reader
	gaps    [2]*[2]int64 // what gone found since the last write
	buf     []byte
}

type place struct {
	stream output.Stream
	offset int64
	mark   bool
}

func newModel(t testing.TB, limit int64, readers int) *model {
	m := &model{t: t, log: output.New(limit)}
	for range readers {
		m.readers = append(m.readers, &reader{m: m})
	}
	return m
}

// write adds n bytes through Append or through Reserve and Commit.
func (m *model) write(st output.Stream, n int, direct bool) {
	if m.closed {
		return
	}
	p := pattern(int64(len(m.data[st]))+int64(st)*1000, n)
	if direct {
		free := m.log.Reserve(st)
		if len(free) < 4<<10 || cap(free) != len(free) {
			m.t.Fatalf("Reserve returned %d bytes of %d", len(free), cap(free))
		}
		p = p[:copy(free, p)]
	}
	before, offset := m.log.Last(), int64(len(m.data[st]))
	grown := len(m.begins) > 0 && m.begins[len(m.begins)-1].stream == st && !m.begins[len(m.begins)-1].mark
	if direct {
		m.log.Commit(st, len(p))
	} else {
		m.log.Append(st, p)
	}
	m.data[st] = append(m.data[st], p...)
	m.gaps[st] = nil
	after := m.log.Last()
	if after == before && len(p) > 0 && !grown {
		m.t.Fatalf("record %d grew across a record of the other stream", before)
	}
	// Where the first new record begins is known only if the last one did not
	// grow; the readers check the rest by offset.
	for range after - before {
		at := place{stream: st, offset: -1}
		if !grown && len(m.begins) == int(before) {
			at.offset = offset
		}
		m.begins = append(m.begins, at)
	}
	if got := m.log.Bytes(st); got != int64(len(m.data[st])) {
		m.t.Fatalf("%v has %d bytes, want %d", st, got, len(m.data[st]))
	}
}

func (m *model) markOnce() {
	first := m.mark == 0
	last := m.log.Last()
	got := m.log.Mark()
	if first {
		m.mark = last + 1
		m.begins = append(m.begins, place{mark: true})
	}
	if got != m.mark {
		m.t.Fatalf("Mark is %d, want %d", got, m.mark)
	}
}

func (m *model) close() {
	m.closed = true
	m.log.Close()
}

// gone reads the whole stream by offset, compares it, and returns its gap.
func (m *model) gone(st output.Stream) (from, to int64) {
	if g := m.gaps[st]; g != nil {
		return g[0], g[1]
	}
	defer func() { m.gaps[st] = &[2]int64{from, to} }()
	if m.buf == nil {
		m.buf = make([]byte, 1<<20)
	}
	buf := m.buf
	for at := int64(0); at < int64(len(m.data[st])); {
		n, gapTo, err := m.log.ReadAt(st, at, buf)
		if err != nil {
			m.t.Fatalf("ReadAt %v %d: %v", st, at, err)
		}
		if gapTo > 0 {
			if to > 0 {
				m.t.Fatalf("%v has two gaps, [%d,%d) and one at %d", st, from, to, at)
			}
			from, to, at = at, gapTo, gapTo
			continue
		}
		if n == 0 {
			m.t.Fatalf("ReadAt %v %d of %d returned nothing", st, at, len(m.data[st]))
		}
		if !bytes.Equal(buf[:n], m.data[st][at:at+int64(n)]) {
			m.t.Fatalf("ReadAt %v %d: wrong bytes", st, at)
		}
		at += int64(n)
	}
	return from, to
}

// checkAt compares one ReadAt.
func (m *model) checkAt(st output.Stream, offset int64, n int) {
	from, to := m.gone(st)
	total := int64(len(m.data[st]))
	p := make([]byte, n)
	got, gapTo, err := m.log.ReadAt(st, offset, p)
	switch {
	case offset < 0 || offset > total:
		if !errors.Is(err, output.ErrOffset) {
			m.t.Fatalf("ReadAt %d of %d: %v", offset, total, err)
		}
	case offset >= from && offset < to:
		if got != 0 || gapTo != to || err != nil {
			m.t.Fatalf("ReadAt %d in gap [%d,%d): %d %d %v", offset, from, to, got, gapTo, err)
		}
	case offset == total:
		var want error
		if m.closed && n > 0 {
			want = io.EOF
		}
		if got != 0 || gapTo != 0 || err != want {
			m.t.Fatalf("ReadAt end: %d %d %v, want error %v", got, gapTo, err, want)
		}
	default:
		end := min(total, offset+int64(n))
		if offset < from {
			end = min(end, from)
		}
		if int64(got) != end-offset || gapTo != 0 || err != nil || !bytes.Equal(p[:got], m.data[st][offset:end]) {
			m.t.Fatalf("ReadAt %d: %d bytes, want %d; %d %v", offset, got, end-offset, gapTo, err)
		}
	}
}

// checkResult compares one Result. The data has no UTF-8 property worth keeping, so
// a cut may be up to three bytes off.
func (m *model) checkResult(st output.Stream, limit int64) {
	from, to := m.gone(st)
	all := m.data[st]
	got, truncated := m.log.Result(st, limit)
	if want := to > from || int64(len(all)) > max(limit, 0); truncated != want {
		m.t.Fatalf("Result truncated %v, want %v", truncated, want)
	}
	if !truncated {
		if !bytes.Equal(got, all) {
			m.t.Fatalf("Result differs")
		}
		return
	}
	head, tail := int64(len(all)), int64(len(all))
	if to > from {
		head, tail = from, int64(len(all))-to
	}
	want := min(max(limit, 0), head+tail)
	if int64(len(got)) > want || int64(len(got)) < want-6 {
		m.t.Fatalf("Result has %d bytes, want %d", len(got), want)
	}
	// It is a beginning followed by an end of what was written.
	n := 0
	for n < len(got) && n < len(all) && got[n] == all[n] {
		n++
	}
	k := 0
	for k < len(got) && got[len(got)-1-k] == all[len(all)-1-k] {
		k++
	}
	if n+k < len(got) {
		m.t.Fatalf("Result of %d bytes is no head and tail: %d and %d match", len(got), n, k)
	}
}

// A reader follows the log by sequence number and keeps nothing but where it is.
type reader struct {
	m     *model
	after int64
	pos   [2]int64
	lost  int64
	buf   []byte
}

// read reads once and checks all that was handed out. It returns false at the end.
func (r *reader) read(limit int) bool {
	m := r.m
	recs, data, next := m.log.Read(r.after, limit, r.buf)
	r.buf = data
	if first := slices.IndexFunc(recs, func(r output.Record) bool { return !r.Gap }); len(data) > limit && int64(len(data)) > recs[first].Len {
		m.t.Fatalf("Read returned %d bytes, limit %d", len(data), limit)
	}
	var gaps [2]bool
	seq := r.after
	for _, rec := range recs {
		if rec.Seq <= seq || rec.Seq > int64(len(m.begins)) {
			m.t.Fatalf("record %d after %d, %d exist", rec.Seq, seq, len(m.begins))
		}
		if is := m.begins[rec.Seq-1]; is.stream != rec.Stream || is.mark || is.offset >= 0 && is.offset != rec.Offset && !rec.Gap {
			m.t.Fatalf("record %+v, want %+v", rec, is)
		}
		pos := &r.pos[rec.Stream]
		if rec.Gap {
			from, to := m.gone(rec.Stream)
			if rec.Offset != from || rec.Offset+rec.Len != to {
				m.t.Fatalf("gap %+v, want [%d,%d)", rec, from, to)
			}
			if gaps[rec.Stream] || *pos < from || *pos >= to {
				m.t.Fatalf("gap [%d,%d) at %d", from, to, *pos)
			}
			gaps[rec.Stream] = true
			r.lost += to - *pos
			*pos = to
		} else {
			if rec.Offset != *pos || rec.Len <= 0 || rec.Len > output.MaxRecord {
				m.t.Fatalf("record %+v at %d", rec, *pos)
			}
			if !bytes.Equal(data[:rec.Len], m.data[rec.Stream][rec.Offset:rec.Offset+rec.Len]) {
				m.t.Fatalf("record %+v: wrong bytes", rec)
			}
			data = data[rec.Len:]
			*pos += rec.Len
		}
		// Numbers left out are the mark or were dropped.
		for missing := seq + 1; missing < rec.Seq; missing++ {
			if at := m.begins[missing-1]; !at.mark {
				if from, to := m.gone(at.stream); from == to {
					m.t.Fatalf("record %d is missing before %d, but nothing is gone", missing, rec.Seq)
				}
			}
		}
		seq = rec.Seq
	}
	if len(data) > 0 {
		m.t.Fatalf("%d bytes belong to no record", len(data))
	}
	if next != seq && !(next == m.mark && next == seq+1) {
		m.t.Fatalf("next is %d after record %d", next, seq)
	}
	more := next > r.after
	r.after = next
	return more
}

// drain reads to the end and checks that nothing is left out.
func (r *reader) drain(limit int) {
	for r.read(limit) {
	}
	if r.after != r.m.log.Last() {
		r.m.t.Fatalf("reader ends at %d, last is %d", r.after, r.m.log.Last())
	}
	for st, pos := range r.pos {
		if pos != int64(len(r.m.data[st])) {
			r.m.t.Fatalf("reader ends at %d of %d", pos, len(r.m.data[st]))
		}
	}
}

// step does one thing chosen by a, with size b. Small sizes are the common case.
func (m *model) step(a byte, b uint16) {
	st := output.Stream(a & 1)
	switch a >> 1 % 16 {
	case 0, 1, 2:
		m.write(st, int(b%64)+1, false)
	case 3, 4:
		m.write(st, int(b%64)+1, true)
	case 5, 6:
		m.write(st, int(b), false)
	case 7, 8:
		m.write(st, int(b), true)
	case 9, 10, 11:
		m.readers[int(b)%len(m.readers)].read(int(b) * 4)
	case 12:
		m.checkAt(st, int64(b)*int64(len(m.data[st])+2)/65535-1, int(b)%5000)
	case 13:
		m.checkResult(st, int64(b)*4)
	case 14: // a new reader instead of one that went away
		m.readers[int(b)%len(m.readers)] = &reader{m: m}
	case 15:
		if b%16 == 0 {
			m.markOnce()
		}
	}
}

// finish closes the log and lets everybody read to the end.
func (m *model) finish() {
	m.markOnce()
	m.close()
	for i, r := range m.readers {
		r.drain(output.MaxRecord * (1 + i))
	}
	late := &reader{m: m}
	late.drain(output.MaxRecord)
	var lost int64
	for st := range output.Stream(2) {
		from, to := m.gone(st)
		lost += to - from
		m.checkResult(st, 1<<20)
	}
	if late.lost != lost {
		m.t.Fatalf("the late reader lost %d bytes, the log %d", late.lost, lost)
	}
}

func TestRandomOperationsAgreeWithModel(t *testing.T) {
	limits := []int64{0, 1, 1000, 20_000, 100_000, 600_000, 1 << 20, 1 << 30}
	for seed := range uint64(64) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m := newModel(t, limits[seed%uint64(len(limits))], 1+int(seed%5))
		mask := uint16(1)<<(4+rnd.IntN(13)) - 1 // how large things get in this run
		for range 600 {
			m.step(byte(rnd.Uint32()), uint16(rnd.Uint32())&mask)
		}
		m.finish()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzLog(f *testing.F) {
	f.Add(uint32(1000), []byte{0, 1, 2, 14, 255, 255, 18, 0, 0, 15, 255, 255, 19, 9, 9})
	f.Add(uint32(600_000), bytes.Repeat([]byte{14, 255, 255, 1, 3, 0, 18, 255, 15}, 40))
	f.Add(uint32(0), bytes.Repeat([]byte{16, 255, 255, 17, 0, 64, 30, 0, 0, 26, 9, 9}, 20))
	f.Fuzz(func(t *testing.T, limit uint32, ops []byte) {
		m := newModel(t, int64(limit%(2<<20)), 3)
		for n := 0; len(ops) >= 3 && n < 400; n++ {
			m.step(ops[0], uint16(ops[1])|uint16(ops[2])<<8)
			ops = ops[3:]
		}
		m.finish()
	})
}
