package output_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/trl-dev/trl/internal/output"
)

// model is a log without limits: it keeps every byte and knows the meaning of every sequence number.
type model struct {
	t         testing.TB
	log       *output.Log
	texts     [2][]byte // the sources of the streams
	data      [2][]byte
	published [2]int64
	forced    [2]map[int64]bool // where a record may end inside a character
	floor     [2]int64          // the last of them
	since     [2]time.Time      // when the unpublished bytes were written
	begins    []place           // by sequence number - 1
	mark      int64
	closed    bool
	readers   []*reader
	gaps      [2]*[2]int64 // results of gone since the last change
	buf       []byte
}

type place struct {
	stream output.Stream
	offset int64
	mark   bool
}

func newModel(t testing.TB, log *output.Log, readers int, texts [2][]byte) *model {
	m := &model{t: t, log: log, texts: texts}
	for st := range m.forced {
		m.forced[st] = map[int64]bool{}
	}
	for range readers {
		m.readers = append(m.readers, &reader{m: m})
	}
	return m
}

// text returns n bytes of the stream's source.
func (m *model) text(st output.Stream, n int) []byte {
	var p []byte
	for at := len(m.data[st]) % len(m.texts[st]); len(p) < n; at = 0 {
		p = append(p, m.texts[st][at:min(len(m.texts[st]), at+n-len(p))]...)
	}
	return p
}

// write adds n bytes through Append or through Reserve and Commit.
func (m *model) write(st output.Stream, n int, direct bool) {
	if m.closed {
		return
	}
	p := m.text(st, n)
	if direct {
		free := m.log.Reserve(st)
		if len(free) < 4<<10 || cap(free) != len(free) {
			m.t.Fatalf("Reserve returned %d bytes of %d", len(free), cap(free))
		}
		p = p[:copy(free, p)]
	}
	before := m.log.Last()
	if direct {
		m.log.Commit(st, len(p))
	} else {
		m.log.Append(st, p)
	}
	m.data[st] = append(m.data[st], p...)
	m.publish(st, before, int64(len(m.data[st])-torn(m.data[st][m.floor[st]:])))
}

// publish notes that the stream must now be published up to end, with the numbers
// after before.
func (m *model) publish(st output.Stream, before, end int64) {
	m.t.Helper()
	m.gaps = [2]*[2]int64{}
	from := m.published[st]
	after := m.log.Last()
	grown := len(m.begins) > 0 && m.begins[len(m.begins)-1].stream == st && !m.begins[len(m.begins)-1].mark
	if after == before && end > from && !grown {
		m.t.Fatalf("record %d grew across a record of the other stream", before)
	}
	// Where the first new record begins is known only if the last one did not
	// grow; the readers check the rest by offset.
	for range after - before {
		at := place{stream: st, offset: -1}
		if !grown && len(m.begins) == int(before) {
			at.offset = from
		}
		m.begins = append(m.begins, at)
	}
	if end < int64(len(m.data[st])) && (end > from || m.since[st].IsZero()) {
		m.since[st] = time.Now()
	}
	if end == int64(len(m.data[st])) {
		m.since[st] = time.Time{}
	}
	m.published[st] = end
	if got := m.log.Bytes(st); got != int64(len(m.data[st])) {
		m.t.Fatalf("%v has %d bytes, want %d", st, got, len(m.data[st]))
	}
}

// force notes that everything held back for at least age was published, with the
// numbers from before on up to last.
func (m *model) force(age time.Duration, before, last int64) {
	m.t.Helper()
	var due []output.Stream
	for st := range output.Stream(2) {
		if m.published[st] < int64(len(m.data[st])) && time.Since(m.since[st]) >= age {
			due = append(due, st)
		}
	}
	if len(due) == 2 && m.since[1].Before(m.since[0]) {
		due[0], due[1] = due[1], due[0]
	}
	for i, st := range due {
		end := int64(len(m.data[st]))
		m.forced[st][end] = true
		m.floor[st] = end
		m.published[st] = end
		m.since[st] = time.Time{}
		if i == len(due)-1 || last-before == 2 {
			if last > before {
				m.begins = append(m.begins, place{stream: st, offset: -1})
				before++
			}
		}
	}
	if before != last {
		m.t.Fatalf("%d records for %v", last-before, due)
	}
	m.gaps = [2]*[2]int64{}
}

// torn returns the length of the incomplete character at the end of b.
func torn(b []byte) int {
	for n := min(3, len(b)); n > 0; n-- {
		if end := b[len(b)-n:]; utf8.RuneStart(end[0]) && !utf8.FullRune(end) {
			return n
		}
	}
	return 0
}

// sleep lets time pass. It works in a bubble only.
func (m *model) sleep(d time.Duration) {
	before := m.log.Last()
	time.Sleep(d)
	synctest.Wait()
	m.force(50*time.Millisecond, before, m.log.Last())
}

func (m *model) markOnce() {
	last := m.log.Last()
	got := m.log.Mark()
	if m.mark == 0 {
		m.force(0, last, got-1)
		m.mark = got
		m.begins = append(m.begins, place{mark: true})
	}
	if got != m.mark {
		m.t.Fatalf("Mark is %d, want %d", got, m.mark)
	}
}

func (m *model) close() {
	last := m.log.Last()
	m.closed = true
	m.log.Close()
	m.force(0, last, m.log.Last())
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
	for at := int64(0); at < m.published[st]; {
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
	written, total := int64(len(m.data[st])), m.published[st]
	p := make([]byte, n)
	got, gapTo, err := m.log.ReadAt(st, offset, p)
	switch {
	case offset < 0 || offset > written:
		if !errors.Is(err, output.ErrOffset) {
			m.t.Fatalf("ReadAt %d of %d: %v", offset, total, err)
		}
	case offset >= from && offset < to:
		if got != 0 || gapTo != to || err != nil {
			m.t.Fatalf("ReadAt %d in gap [%d,%d): %d %d %v", offset, from, to, got, gapTo, err)
		}
	case offset >= total:
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

// checkResult compares one Result. A cut may be up to three bytes off, so that it does not split a
// character.
func (m *model) checkResult(st output.Stream, limit int64) {
	from, to := m.gone(st)
	all := m.data[st][:m.published[st]]
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
	// The result is a beginning of the output followed by an end of it.
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

// A reader follows the log by sequence number and keeps nothing but its position.
type reader struct {
	m    *model
	spot spot
	lost int64
	buf  []byte
	seen []spot // where it has been, to go back there
}

// A spot is a record, and where it ended in each stream.
type spot struct {
	after int64
	pos   [2]int64
}

// resume goes back to a position after some earlier record, as a client does that has lost its
// connection and some records.
func (r *reader) resume(at int) {
	r.spot = spot{}
	if n := len(r.seen); n > 0 {
		r.seen = r.seen[:1+at%n]
		r.spot = r.seen[at%n]
	}
}

// read reads once and checks the result. It returns false at the end of the log.
func (r *reader) read(limit int) bool {
	m := r.m
	recs, data, next := m.log.Read(r.spot.after, limit, r.buf)
	r.buf = data
	m.gaps = [2]*[2]int64{}
	if first := slices.IndexFunc(recs, func(r output.Record) bool { return !r.Gap }); len(data) > limit && int64(len(data)) > recs[first].Len {
		m.t.Fatalf("Read returned %d bytes, limit %d", len(data), limit)
	}
	var gaps [2]bool
	seq := r.spot.after
	for _, rec := range recs {
		if rec.Seq <= seq || rec.Seq > int64(len(m.begins)) {
			m.t.Fatalf("record %d after %d, %d exist", rec.Seq, seq, len(m.begins))
		}
		if is := m.begins[rec.Seq-1]; is.stream != rec.Stream || is.mark || is.offset >= 0 && is.offset != rec.Offset && !rec.Gap {
			m.t.Fatalf("record %+v, want %+v", rec, is)
		}
		pos := &r.spot.pos[rec.Stream]
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
			m.whole(rec.Stream, *pos)
		}
		r.seen = append(r.seen, spot{rec.Seq, r.spot.pos})
		// Missing numbers are the mark or dropped records.
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
	more := next > r.spot.after
	r.spot.after = next
	return more
}

// whole checks that a record that ends there splits no character.
func (m *model) whole(st output.Stream, end int64) {
	for i := end - 1; i >= max(end-3, 0) && !m.forced[st][i+1]; i-- {
		b := m.data[st][i:]
		if _, n := utf8.DecodeRune(b); utf8.RuneStart(b[0]) && (i+int64(n) > end || !utf8.FullRune(b)) {
			m.t.Fatalf("%v: a record ends at %d, inside of %q", st, end, b[:min(len(b), n)])
		}
	}
}

// drain reads to the end and checks that no byte is missing.
func (r *reader) drain(limit int) {
	for r.read(limit) {
	}
	if r.spot.after != r.m.log.Last() {
		r.m.t.Fatalf("reader ends at %d, last is %d", r.spot.after, r.m.log.Last())
	}
	if r.spot.pos != r.m.published {
		r.m.t.Fatalf("reader ends at %d of %d", r.spot.pos, r.m.published)
	}
}
