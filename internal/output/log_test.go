package output_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/testkit"
)

// table has a length that is coprime to the sizes of pages and writes.
var table = func() []byte {
	p := make([]byte, 1<<20+7)
	rand.NewChaCha8([32]byte{}).Read(p)
	for i := range p {
		p[i] &= 0x7f // ASCII, so that nothing is held back
	}
	return p
}()

// pattern returns n bytes of endless output from offset.
func pattern(offset int64, n int) []byte {
	at := int(offset % int64(len(table)))
	if at+n <= len(table) {
		return table[at : at+n : at+n]
	}
	p := make([]byte, 0, n)
	for len(p) < n {
		p = append(p, table[at:min(len(table), at+n-len(p))]...)
		at = 0
	}
	return p
}

// newLog returns a log in a store of its own, all of it in memory.
func newLog(limit int64) *output.Log {
	return output.New(output.NewStore(output.StoreConfig{}), limit)
}

func kept(l *output.Log) int64 {
	memory, file := l.Kept()
	return memory + file
}

func TestAppendOfSmallWritesCoalescesUntilRead(t *testing.T) {
	l := newLog(1 << 20)
	l.Append(output.Stdout, []byte("a"))
	l.Append(output.Stdout, []byte("b"))
	if got := l.Last(); got != 1 {
		t.Fatalf("two writes nobody saw are %d records, want 1", got)
	}
	recs, data, next := l.Read(0, output.MaxRecord, nil)
	if len(recs) != 1 || string(data) != "ab" || next != 1 {
		t.Fatalf("Read: %v %q %d", recs, data, next)
	}
	l.Append(output.Stdout, []byte("c"))
	l.Append(output.Stderr, []byte("d"))
	l.Append(output.Stdout, []byte("e"))
	recs, data, next = l.Read(next, output.MaxRecord, data)
	want := []output.Record{
		{Seq: 2, Stream: output.Stdout, Offset: 2, Len: 1},
		{Seq: 3, Stream: output.Stderr, Offset: 0, Len: 1},
		{Seq: 4, Stream: output.Stdout, Offset: 3, Len: 1},
	}
	if fmt.Sprint(recs) != fmt.Sprint(want) || string(data) != "cde" || next != 4 {
		t.Fatalf("Read: %v %q %d", recs, data, next)
	}
	if recs, data, next = l.Read(next, output.MaxRecord, data); len(recs) != 0 || len(data) != 0 || next != 4 {
		t.Fatalf("Read at the end: %v %q %d", recs, data, next)
	}
}

func TestReadAfterUnseenRecordSealsIt(t *testing.T) {
	l := newLog(1 << 20)
	l.Append(output.Stdout, []byte("a"))
	l.Read(1, output.MaxRecord, nil) // a reader that has record 1 resumes
	l.Append(output.Stdout, []byte("b"))
	if recs, data, _ := l.Read(1, output.MaxRecord, nil); len(recs) != 1 || string(data) != "b" {
		t.Fatalf("Read: %v %q", recs, data)
	}
	if recs, _, next := l.Read(math.MinInt64, 0, nil); len(recs) != 1 || next != 1 {
		t.Fatalf("Read after a negative number: %v %d", recs, next)
	}
	if _, _, next := l.Read(9, output.MaxRecord, nil); next != 9 {
		t.Fatalf("Read after a number of the future goes on at %d, want 9", next)
	}
	l.Append(output.Stdout, []byte("c"))
	l.Append(output.Stdout, []byte("d"))
	if got := l.Last(); got != 3 {
		t.Fatalf("a number of the future keeps records from growing: last is %d, want 3", got)
	}
}

func TestHeadAndTailAreKeptAndMemoryIsBounded(t *testing.T) {
	const limit = 2 << 20
	for _, size := range []int{61, 4096, 5000, 40_000, 65_536, 65_537, 300_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			l := newLog(limit)
			var total int64
			var most int64
			for total < 20<<20 {
				p := pattern(total, size)
				if size < 65_536 {
					n := copy(l.Reserve(output.Stdout), p)
					l.Commit(output.Stdout, n)
					p = p[n:]
				}
				l.Append(output.Stdout, p)
				total += int64(size)
				most = max(most, kept(l))
			}
			if got := l.Bytes(output.Stdout); got != total {
				t.Fatalf("%d bytes, want %d", got, total)
			}
			buf := make([]byte, limit)
			head, _, _ := l.ReadAt(output.Stdout, 0, buf)
			if head < limit/2 || !bytes.Equal(buf[:head], pattern(0, head)) {
				t.Errorf("head has %d bytes, want %d", head, limit/2)
			}
			_, gapTo, _ := l.ReadAt(output.Stdout, int64(head), buf)
			if gapTo == 0 || total-gapTo < limit/2 {
				t.Errorf("tail begins at %d of %d", gapTo, total)
			}
			tail, _, _ := l.ReadAt(output.Stdout, gapTo, buf)
			if int64(tail) != total-gapTo || !bytes.Equal(buf[:tail], pattern(gapTo, tail)) {
				t.Errorf("tail has %d bytes, want %d", tail, total-gapTo)
			}
			if bound := int64(limit*6/5 + 400<<10); most > bound {
				t.Errorf("%d bytes of memory for a limit of %d, want at most %d", most, limit, bound)
			}
		})
	}
}

func TestOutputUpToTheLimitIsWhole(t *testing.T) {
	for _, limit := range []int64{1, 100, 10_000, 100_000, 1 << 20, 4 << 20} {
		for _, size := range []int{48, 1000, 4096, 65_536} {
			l := newLog(limit)
			for at := int64(0); at < limit; at += int64(size) {
				n := int(min(int64(size), limit-at))
				for st := range output.Stream(2) {
					l.Append(st, pattern(at, n))
				}
			}
			for st := range output.Stream(2) {
				if got, truncated := l.Result(st, limit); truncated || !bytes.Equal(got, pattern(0, int(limit))) {
					t.Errorf("limit %d, writes of %d: %v has %d bytes, truncated %v", limit, size, st, len(got), truncated)
				}
			}
		}
	}
}

func TestLittleOutputCostsLittle(t *testing.T) {
	tests := []struct{ bytes, open, closed int64 }{
		{0, 4 << 10, 0},
		{20, 5 << 10, 20},
		{600, 9 << 10, 600},
		{5000, 40 << 10, 7000},
		{30_000, 100 << 10, 48_000},
	}
	for _, tt := range tests {
		l := newLog(8 << 20)
		for left := int(tt.bytes); left > 0; {
			n := min(left, len(l.Reserve(output.Stdout)), 1000)
			l.Commit(output.Stdout, n)
			left -= n
		}
		l.Reserve(output.Stdout) // the read that finds the end
		if got := kept(l); got > tt.open {
			t.Errorf("%d bytes of output hold %d, want at most %d", tt.bytes, got, tt.open)
		}
		l.Close()
		if got := kept(l); got > tt.closed {
			t.Errorf("%d bytes of closed output hold %d, want at most %d", tt.bytes, got, tt.closed)
		}
	}
}

func TestCloseKeepsTheIndex(t *testing.T) {
	l := newLog(1 << 20)
	for i := range int64(100) {
		l.Append(output.Stream(i%2), pattern(i/2, 1))
	}
	before, data, _ := l.Read(0, output.MaxRecord, nil)
	l.Close()
	after, again, _ := l.Read(0, output.MaxRecord, nil)
	if len(before) != 100 || fmt.Sprint(before) != fmt.Sprint(after) || !bytes.Equal(data, again) {
		t.Fatalf("%d records before Close, %d after", len(before), len(after))
	}
	l.Append(output.Stdout, []byte("late"))
	copy(l.Reserve(output.Stderr), "late")
	l.Commit(output.Stderr, 4)
	if l.Last() != 100 || l.Bytes(output.Stdout) != 50 || l.Bytes(output.Stderr) != 50 {
		t.Fatal("the log grew after Close")
	}
}

func TestTinyAlternatingWritesStayBounded(t *testing.T) {
	const limit, writes = 1 << 20, 2_000_000
	before := testkit.Heap()
	l := newLog(limit)
	var most, read, after int64
	var buf []byte
	for i := range int64(writes) {
		l.Append(output.Stream(i%2), []byte{byte(i/2) & 0x7f})
		if i%8 == 0 {
			recs, data, next := l.Read(after, output.MaxRecord, buf)
			buf, after = data, next
			for j, rec := range recs {
				if rec.Gap || data[j] != byte(rec.Offset)&0x7f {
					t.Fatalf("record %+v: byte %d", rec, data[j])
				}
			}
			read += int64(len(data))
		}
		if i%1000 == 0 {
			most = max(most, kept(l))
		}
	}
	if got := l.Bytes(output.Stdout) + l.Bytes(output.Stderr); got != writes {
		t.Fatalf("%d bytes, want %d", got, writes)
	}
	if read < writes-8 {
		t.Fatalf("a reader that keeps up got %d of %d bytes", read, writes)
	}
	const bound = limit*24/10 + 800<<10
	if most > bound {
		t.Errorf("holds %d bytes, want at most %d", most, bound)
	}
	if grown := testkit.Heap() - before; grown > bound {
		t.Errorf("the heap grew by %d bytes, want at most %d", grown, bound)
	}
	// A late reader gets head, one gap per stream, and tail.
	var gaps, got int64
	for after = 0; after < l.Last(); {
		recs, _, next := l.Read(after, output.MaxRecord, buf)
		for _, rec := range recs {
			got += rec.Len
			if rec.Gap {
				gaps++
			}
		}
		after = next
	}
	if gaps != 2 || got != writes {
		t.Errorf("a late reader sees %d gaps and accounts for %d of %d bytes", gaps, got, writes)
	}
	runtime.KeepAlive(l)
}

func TestMarkTakesOneNumber(t *testing.T) {
	l := newLog(1 << 20)
	l.Append(output.Stdout, []byte("a"))
	if first, second := l.Mark(), l.Mark(); first != 2 || second != 2 {
		t.Fatalf("Mark is %d and %d, want 2", first, second)
	}
	if recs, _, next := l.Read(0, output.MaxRecord, nil); len(recs) != 1 || next != 2 {
		t.Fatalf("Read to the mark: %v %d", recs, next)
	}
	if recs, _, next := l.Read(1, output.MaxRecord, nil); len(recs) != 0 || next != 2 {
		t.Fatalf("Read over the mark: %v %d", recs, next)
	}
	l.Append(output.Stdout, []byte("b"))
	if recs, data, next := l.Read(0, output.MaxRecord, nil); len(recs) != 2 || recs[1].Seq != 3 || string(data) != "ab" || next != 3 {
		t.Fatalf("Read across the mark: %v %q %d", recs, data, next)
	}
}

func TestReleaseLeavesTotalsAndGaps(t *testing.T) {
	l := newLog(1 << 20)
	l.Append(output.Stdout, pattern(0, 3<<20))
	l.Append(output.Stderr, []byte("err"))
	free := l.Reserve(output.Stderr)
	l.Release()
	if got := kept(l); got != 0 {
		t.Errorf("holds %d bytes after Release", got)
	}
	l.Commit(output.Stderr, copy(free, "late"))
	l.Append(output.Stdout, []byte("more"))
	recs, data, next := l.Read(0, output.MaxRecord, nil)
	if len(recs) != 2 || len(data) != 0 || next != l.Last() {
		t.Fatalf("Read: %v, %d bytes, next %d of %d", recs, len(data), next, l.Last())
	}
	for _, rec := range recs {
		want := int64(7)
		if rec.Stream == output.Stdout {
			want = 3<<20 + 4
		}
		if !rec.Gap || rec.Offset != 0 || rec.Len != want || rec.Len != l.Bytes(rec.Stream) {
			t.Errorf("record %+v, want a gap of %d", rec, want)
		}
	}
	if data, truncated := l.Result(output.Stderr, 100); len(data) != 0 || !truncated {
		t.Errorf("Result: %q %v", data, truncated)
	}
	if n, gapTo, err := l.ReadAt(output.Stderr, 2, make([]byte, 10)); n != 0 || gapTo != 7 || err != nil {
		t.Errorf("ReadAt: %d %d %v", n, gapTo, err)
	}
	// Output that is written after a reader saw the gap has a new number.
	l.Append(output.Stdout, []byte("x"))
	if recs, _, _ := l.Read(next, output.MaxRecord, nil); len(recs) != 1 || !recs[0].Gap || recs[0].Seq != next+1 {
		t.Errorf("Read after more output: %v", recs)
	}
	l.Close()
	if got := kept(l); got != 0 {
		t.Errorf("holds %d bytes after Release and Close", got)
	}
}

func TestReleaseOfAnEmptyLog(t *testing.T) {
	l := newLog(1 << 20)
	l.Close()
	l.Release()
	if recs, _, next := l.Read(0, output.MaxRecord, nil); len(recs) != 0 || next != 0 {
		t.Fatalf("Read: %v %d", recs, next)
	}
	if data, truncated := l.Result(output.Stdout, 10); len(data) != 0 || truncated {
		t.Fatalf("Result: %q %v", data, truncated)
	}
}

func TestNumbersFarApartInOnePage(t *testing.T) {
	for _, skip := range []int64{math.MaxUint32 - 1, math.MaxUint32, math.MaxUint32 + 1, 1 << 40} {
		for _, direct := range []bool{false, true} {
			l := newLog(1 << 20)
			l.Append(output.Stdout, pattern(0, 5000)) // so that Reserve stays in the page
			free := l.Reserve(output.Stdout)
			want := l.Last() + skip + 1
			l.SkipSeq(skip)
			if direct {
				l.Commit(output.Stdout, copy(free, "second"))
			} else {
				l.Append(output.Stdout, []byte("second"))
			}
			recs, data, next := l.Read(0, output.MaxRecord, nil)
			if last := recs[len(recs)-1]; last.Seq != want || last.Offset != 5000 || last.Len != 6 || next != want {
				t.Fatalf("skip %d: %v %d", skip, recs, next)
			}
			if !bytes.Equal(data, append(pattern(0, 5000), "second"...)) {
				t.Fatalf("skip %d: wrong bytes", skip)
			}
		}
	}
}

func TestReadIsBoundedInRecords(t *testing.T) {
	l := newLog(1 << 20)
	for i := range 3000 {
		l.Append(output.Stream(i%2), []byte{1})
	}
	var sizes []int
	for after := int64(0); after < 3000; {
		recs, _, next := l.Read(after, output.MaxRecord, nil)
		sizes = append(sizes, len(recs))
		after = next
	}
	if fmt.Sprint(sizes) != "[1024 1024 952]" {
		t.Fatalf("records per Read: %v", sizes)
	}
}

func TestReadAtFollowsWithWait(t *testing.T) {
	l := newLog(1 << 20)
	buf := make([]byte, 100)
	l.Append(output.Stdout, []byte("ab"))
	last := l.Last()
	if n, _, err := l.ReadAt(output.Stdout, 0, buf); n != 2 || err != nil {
		t.Fatalf("ReadAt: %d %v", n, err)
	}
	l.Append(output.Stdout, []byte("c"))
	if err := l.Wait(t.Context(), last); err != nil { // would block if the record had grown
		t.Fatal(err)
	}
	if n, _, err := l.ReadAt(output.Stdout, 2, buf); n != 1 || err != nil {
		t.Fatalf("ReadAt: %d %v", n, err)
	}
	if _, _, err := l.ReadAt(output.Stdout, 3, buf); err != nil {
		t.Fatalf("ReadAt the end of an open log: %v", err)
	}
	l.Close()
	if _, _, err := l.ReadAt(output.Stdout, 3, buf); err != io.EOF {
		t.Fatalf("ReadAt the end of a closed log: %v", err)
	}
	for _, offset := range []int64{-1, 4, math.MaxInt64} {
		if _, _, err := l.ReadAt(output.Stdout, offset, buf); !errors.Is(err, output.ErrOffset) {
			t.Fatalf("ReadAt %d: %v", offset, err)
		}
	}
}

func TestCommitOfWhatWasNotReservedPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	l := newLog(1 << 20)
	l.Reserve(output.Stdout)
	l.Commit(output.Stdout, 10)
	l.Commit(output.Stdout, 10)
}

func TestSteadyAppendAllocatesNothing(t *testing.T) {
	l := newLog(1016 << 10) // half of it is sometimes eight, sometimes nine pages of different sizes
	p := make([]byte, 64<<10)
	rnd := rand.New(rand.NewPCG(1, 2))
	flood := func() {
		for range 1000 {
			l.Commit(output.Stdout, min(len(l.Reserve(output.Stdout)), 1+rnd.IntN(64<<10)))
			l.Append(output.Stderr, p)
		}
	}
	flood()
	// One run, because AllocsPerRun rounds the average down.
	if n := testing.AllocsPerRun(1, flood); n != 0 {
		t.Errorf("%v allocations for 3000 writes, want 0", n)
	}
	buf := make([]byte, 0, 4*output.MaxRecord)
	if n := testing.AllocsPerRun(1, func() { l.ReadAt(output.Stdout, l.Bytes(output.Stdout)-65_000, buf[:60_000]) }); n != 0 {
		t.Errorf("%v allocations for ReadAt, want 0", n)
	}
	if n := testing.AllocsPerRun(1, func() { l.Read(l.Last()-1, output.MaxRecord, buf) }); n > 1 {
		t.Errorf("%v allocations for Read, want 1", n)
	}
}

// TestNoOutputLeavesNoGarbage: space that was reserved for output that never arrives is reused.
func TestNoOutputLeavesNoGarbage(t *testing.T) {
	store := output.NewStore(output.StoreConfig{})
	silent := func() {
		l := output.New(store, 1<<20)
		for _, st := range []output.Stream{output.Stdout, output.Stderr} {
			l.Reserve(st)
			l.Commit(st, 0)
		}
		l.Close()
		l.Release()
	}
	if n := testing.AllocsPerRun(100, silent); n > 1 {
		t.Errorf("%v allocations for a log without output, want 1: the log", n)
	}
	if n := store.Kept(); n != 0 {
		t.Errorf("the store keeps %d bytes", n)
	}
}
