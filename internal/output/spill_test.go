package output_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/trl-dev/trl/internal/output"
)

// flood writes until the stream has total bytes, and returns the most memory that
// the store had in use.
func flood(s *output.Store, l *output.Log, st output.Stream, total int64) (most int64) {
	for at := l.Bytes(st); at < total; {
		free := l.Reserve(st)
		n := copy(free, pattern(at, int(min(int64(len(free)), total-at))))
		l.Commit(st, n)
		at += int64(n)
		most = max(most, s.Memory())
	}
	return most
}

// same reads the stream by offset and compares it.
func same(t *testing.T, l *output.Log, st output.Stream, from, to int64) {
	t.Helper()
	buf := make([]byte, 100_000)
	for at := from; at < to; {
		n, gapTo, err := l.ReadAt(st, at, buf[:min(int64(len(buf)), to-at)])
		if n == 0 || gapTo != 0 || err != nil || !bytes.Equal(buf[:n], pattern(at, n)) {
			t.Fatalf("%v at %d: %d bytes, gap to %d, %v", st, at, n, gapTo, err)
		}
		at += int64(n)
	}
}

func TestWhatMemoryDoesNotTakeGoesToAFileWithoutAName(t *testing.T) {
	dir := t.TempDir()
	s := output.NewStore(output.StoreConfig{MemoryBytes: 1 << 20, Dir: dir})
	const total = 20 << 20
	first, second := output.New(s, 32<<20), output.New(s, 32<<20)
	if s.File() != nil {
		t.Fatal("there is a file before it is needed")
	}
	most := flood(s, first, output.Stdout, total)
	most = max(most, flood(s, second, output.Stderr, total))
	if most > 3<<20/2 {
		t.Errorf("%d bytes of memory", most)
	}
	if memory, file := first.Kept(); memory > 1<<20 || memory+file < total {
		t.Errorf("the log has %d bytes in memory and %d in the file", memory, file)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("files with a name: %v, %v", names, err)
	}
	info, err := s.File().Stat()
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() > 2*total {
		t.Errorf("the file: %v, %v", info, err)
	}
	same(t, first, output.Stdout, 0, total)
	same(t, second, output.Stderr, 0, total)
	at := int64(0)
	if err := func() error {
		second.Close()
		return follow(t.Context(), second, 1<<20, func(rec output.Record, data []byte) {
			if rec.Gap || rec.Offset != at || !bytes.Equal(data, pattern(at, len(data))) {
				t.Fatalf("record %+v at %d", rec, at)
			}
			at += rec.Len
		})
	}(); err != nil || at != total {
		t.Errorf("read %d of %d: %v", at, total, err)
	}
	if data, truncated := first.Result(output.Stdout, total); truncated || !bytes.Equal(data, pattern(0, total)) {
		t.Errorf("Result: %d bytes, truncated %v", len(data), truncated)
	}
	first.Release()
	if s.File() == nil {
		t.Error("the file is gone while a log needs it")
	}
	second.Release()
	if s.File() != nil || s.Memory() > 64<<10 {
		t.Errorf("%d bytes of memory, and a file: %v", s.Memory(), s.File() != nil)
	}
	flood(s, first, output.Stderr, total) // to a log that is released: nothing is kept
	if s.File() != nil {
		t.Error("a released log writes to a file")
	}
}

// Pages that are being read stay in memory. They leave it after their last reader, even if nothing is
// written any more.
func TestPagesLeaveMemoryWithTheirLastReader(t *testing.T) {
	const memory, total = 256 << 10, 2 << 20
	s := output.NewStore(output.StoreConfig{MemoryBytes: memory, Dir: t.TempDir()})
	l := output.New(s, 4<<20)
	var ends []func()
	for at := int64(64 << 10); at <= total; at += 64 << 10 {
		flood(s, l, output.Stdout, at)
		ends = append(ends, l.PinAll(output.Stdout))
	}
	l.Close()
	if s.Memory() < total {
		t.Fatalf("%d bytes of memory while all of it is read", s.Memory())
	}
	for _, end := range ends {
		end()
	}
	if s.Memory() > memory {
		t.Errorf("%d bytes of memory, at most %d", s.Memory(), memory)
	}
	same(t, l, output.Stdout, 0, total)
}

// The page that is being written leaves memory when the log is closed, however full it is.
func TestCloseKeepsTheBound(t *testing.T) {
	const memory = 32 << 10
	for total := int64(512 << 10); total < 640<<10; total += 8 << 10 {
		s := output.NewStore(output.StoreConfig{MemoryBytes: memory, Dir: t.TempDir()})
		l := output.New(s, 4<<20)
		flood(s, l, output.Stdout, total)
		l.Close()
		if s.Memory() > memory {
			t.Errorf("%d bytes of memory after %d, at most %d", s.Memory(), total, memory)
		}
		same(t, l, output.Stdout, 0, total)
	}
}

func TestGrowthIsTold(t *testing.T) {
	var s *output.Store
	var told []int64
	s = output.NewStore(output.StoreConfig{MemoryBytes: 1 << 20, Dir: t.TempDir(), GrowBytes: 2 << 20, Grown: func() { told = append(told, s.Kept()) }})
	l := output.New(s, 32<<20)
	flood(s, l, output.Stdout, 9<<20)
	if len(told) != 4 || told[0] < 2<<20 || told[3] < 8<<20 || told[3] > 9<<20+400<<10 {
		t.Errorf("told at %v", told)
	}
	l.Release()
	if k := s.Kept(); k > 64<<10 {
		t.Errorf("keeps %d", k)
	}
	l = output.New(s, 32<<20)
	flood(s, l, output.Stdout, 3<<20)
	if len(told) != 5 {
		t.Errorf("told at %v", told)
	}
	l.Close()
	if memory, file := l.Kept(); s.Kept() < memory+file || s.Kept() > memory+file+64<<10 {
		t.Errorf("keeps %d, the log %d and %d", s.Kept(), memory, file)
	}
}

func TestPlacesInTheFileAreReused(t *testing.T) {
	s := output.NewStore(output.StoreConfig{MemoryBytes: 256 << 10, Dir: t.TempDir()})
	l := output.New(s, 4<<20)
	flood(s, l, output.Stdout, 100<<20)
	info, err := s.File().Stat()
	if err != nil || info.Size() > 6<<20 {
		t.Errorf("%d bytes in the file for a limit of 4 MiB, %v", info.Size(), err)
	}
	head, _, _ := l.ReadAt(output.Stdout, 0, make([]byte, 4<<20))
	_, gapTo, _ := l.ReadAt(output.Stdout, int64(head), make([]byte, 1))
	if head < 2<<20 || 100<<20-gapTo < 2<<20 {
		t.Errorf("head of %d bytes, tail of %d", head, 100<<20-gapTo)
	}
	same(t, l, output.Stdout, 0, int64(head))
	same(t, l, output.Stdout, gapTo, 100<<20)
}

// Many small records have an index, which is in the file as well.
func TestIndexIsSpilledAndReadBack(t *testing.T) {
	s := output.NewStore(output.StoreConfig{MemoryBytes: 200_000, Dir: t.TempDir()})
	l := output.New(s, 4<<20)
	rnd := rand.New(rand.NewPCG(3, 4))
	var written [2]int64
	var recs []output.Record
	for written[0]+written[1] < 1_500_000 {
		st := output.Stream(rnd.IntN(2))
		n := int64(1 + rnd.IntN(30))
		l.Append(st, pattern(written[st], int(n)))
		l.Read(l.Last(), 1, nil) // so that it does not grow
		recs = append(recs, output.Record{Seq: l.Last(), Stream: st, Offset: written[st], Len: n})
		written[st] += n
	}
	if memory, file := l.Kept(); memory > 400_000 || file < 1_000_000 {
		t.Fatalf("%d bytes in memory, %d in the file", memory, file)
	}
	for range 300 {
		after := rnd.IntN(len(recs))
		got, data, _ := l.Read(int64(after), 1+rnd.IntN(200_000), nil)
		if len(got) == 0 {
			t.Fatalf("nothing after %d", after)
		}
		for i, rec := range got {
			if rec != recs[after+i] || !bytes.Equal(data[:rec.Len], pattern(rec.Offset, int(rec.Len))) {
				t.Fatalf("record %+v, want %+v", rec, recs[after+i])
			}
			data = data[rec.Len:]
		}
	}
	if m := s.Memory(); m > 500_000 {
		t.Errorf("%d bytes of memory after reading", m)
	}
}

func TestWithoutAFileTheMiddleGoes(t *testing.T) {
	writable, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer writable.Close()
	tests := []struct {
		name string
		dir  string
		warn bool
		harm func(*output.Store)
	}{
		{"no directory is named", "", false, nil},
		{"it does not exist", filepath.Join(t.TempDir(), "none"), true, nil},
		{"it cannot be written from some time on", t.TempDir(), true, func(s *output.Store) { s.ReplaceFile(writable) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var warnings []error
			s := output.NewStore(output.StoreConfig{MemoryBytes: 1 << 20, Dir: tt.dir, Warn: func(err error) { warnings = append(warnings, err) }})
			other, l := output.New(s, 16<<20), output.New(s, 16<<20)
			flood(s, other, output.Stdout, 200_000)
			other.Close()
			most := int64(0)
			if tt.harm != nil {
				flood(s, l, output.Stdout, 2<<20)
				file := s.File()
				tt.harm(s)
				defer file.Close()
			}
			most = flood(s, l, output.Stdout, 30<<20)
			if most > 3<<20/2 {
				t.Errorf("%d bytes of memory", most)
			}
			if got := l.Bytes(output.Stdout); got != 30<<20 {
				t.Errorf("%d bytes", got)
			}
			buf := make([]byte, 30<<20)
			head, gapTo, err := l.ReadAt(output.Stdout, 0, buf)
			if head > 0 {
				_, gapTo, err = l.ReadAt(output.Stdout, int64(head), buf)
			}
			if err != nil || gapTo == 0 {
				t.Fatalf("no gap behind %d bytes: %v", head, err)
			}
			if tail := 30<<20 - gapTo; tt.harm == nil && (int64(head) < 300_000 || tail < 300_000) {
				t.Errorf("head of %d bytes, tail of %d", head, tail)
			}
			same(t, l, output.Stdout, 0, int64(head))
			same(t, l, output.Stdout, gapTo, 30<<20)
			if want := map[bool]int{true: 1}[tt.warn]; len(warnings) != want {
				t.Errorf("%d warnings: %v", len(warnings), warnings)
			}
			if tt.warn && tt.harm == nil && !errors.Is(warnings[0], fs.ErrNotExist) {
				t.Errorf("warning: %v", warnings[0])
			}
		})
	}
}

func TestWhatCannotBeReadBackIsAGap(t *testing.T) {
	empty, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	const total = 4 << 20
	for _, read := range []func(*output.Log){
		func(l *output.Log) { l.ReadAt(output.Stdout, 1<<20, make([]byte, 1<<20)) },
		func(l *output.Log) { l.Result(output.Stdout, 1<<20) },
		func(l *output.Log) { l.Read(2, output.MaxRecord, nil) },
	} {
		s := output.NewStore(output.StoreConfig{MemoryBytes: 200_000, Dir: t.TempDir()})
		l := output.New(s, 16<<20)
		flood(s, l, output.Stdout, total)
		defer s.File().Close()
		s.ReplaceFile(empty)
		read(l)
		at, gaps := int64(0), 0
		l.Close()
		err := follow(t.Context(), l, output.MaxRecord, func(rec output.Record, data []byte) {
			if rec.Gap {
				gaps++
			} else if rec.Offset != at || !bytes.Equal(data, pattern(at, len(data))) {
				t.Errorf("record %+v at %d", rec, at)
			}
			at = rec.Offset + rec.Len
		})
		if err != nil || at != total || gaps == 0 {
			t.Errorf("read to %d of %d with %d gaps: %v", at, total, gaps, err)
		}
	}
}

func TestTrimDropsTheMiddle(t *testing.T) {
	for _, closed := range []bool{false, true} {
		for _, total := range []int64{100, 300_000, 3 << 20, 20 << 20} {
			s := output.NewStore(output.StoreConfig{MemoryBytes: 1 << 20, Dir: t.TempDir()})
			l := output.New(s, 8<<20)
			for st := range output.Stream(2) {
				flood(s, l, st, total)
			}
			if closed {
				l.Close()
			}
			for _, limit := range []int64{16 << 20, 8 << 20, 5 << 20, 1 << 20, 100_000, 0} {
				l.Trim(limit)
				if most := 2*(min(limit, 8<<20)+200<<10) + 400<<10; kept(l) > most {
					t.Errorf("closed %v, %d bytes trimmed to %d: holds %d", closed, total, limit, kept(l))
				}
				data, truncated := l.Result(output.Stdout, total)
				if truncated && int64(len(data)) < min(limit, 8<<20)-6 || !truncated && int64(len(data)) != total {
					t.Errorf("closed %v, %d bytes trimmed to %d: Result has %d", closed, total, limit, len(data))
				}
				at := [2]int64{}
				for after := int64(0); after < l.Last(); {
					recs, data, next := l.Read(after, output.MaxRecord, nil)
					for _, rec := range recs {
						if rec.Offset != at[rec.Stream] || !rec.Gap && !bytes.Equal(data[:rec.Len], pattern(rec.Offset, int(rec.Len))) {
							t.Fatalf("record %+v at %d", rec, at)
						}
						if !rec.Gap {
							data = data[rec.Len:]
						}
						at[rec.Stream] = rec.Offset + rec.Len
					}
					after = next
				}
				if at != [2]int64{total, total} {
					t.Fatalf("read to %v of %d", at, total)
				}
			}
			if !closed { // writing continues within the lowest limit
				flood(s, l, output.Stdout, total+10<<20)
				same(t, l, output.Stdout, total+10<<20-64, total+10<<20)
				if kept(l) > 600<<10 {
					t.Errorf("%d bytes written to a log of limit 0: holds %d", total, kept(l))
				}
			}
		}
	}
}

// Writers of several logs, readers, trims and releases share a store.
func TestStoreIsSharedByMany(t *testing.T) {
	s := output.NewStore(output.StoreConfig{MemoryBytes: 500_000, Dir: t.TempDir()})
	for range 5 {
		var wg sync.WaitGroup
		for i := range 6 {
			l := output.New(s, 1<<20<<(i%3))
			for st := range output.Stream(2) {
				wg.Go(func() { // the last one closes
					flood(s, l, st, 3<<20)
					if l.Mark(); l.Bytes(0) == 3<<20 && l.Bytes(1) == 3<<20 {
						l.Close()
					}
				})
			}
			for range 2 {
				wg.Go(func() {
					var ends [2]int64
					err := follow(t.Context(), l, 1<<i<<10, func(rec output.Record, data []byte) {
						if rec.Offset > ends[rec.Stream] || !bytes.Equal(data, pattern(rec.Offset, len(data))) {
							t.Errorf("record %+v at %d", rec, ends)
						}
						ends[rec.Stream] = rec.Offset + rec.Len
					})
					if err != nil || ends != [2]int64{3 << 20, 3 << 20} {
						t.Errorf("read to %v, %v", ends, err)
					}
				})
			}
			wg.Go(func() {
				for !l.Closed() {
					if data, truncated := l.Result(output.Stdout, 1<<20); !truncated && !bytes.Equal(data, pattern(0, len(data))) {
						t.Error("Result is wrong")
					}
					runtime.Gosched()
				}
				if i%2 == 0 {
					l.Trim(300_000)
				}
			})
			defer l.Release()
		}
		wg.Wait()
	}
	if m := s.Memory(); m > 2<<20 {
		t.Errorf("%d bytes of memory", m)
	}
}

func BenchmarkSpill(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := output.NewStore(output.StoreConfig{MemoryBytes: 1 << 20, Dir: b.TempDir()})
			l := output.New(s, 16<<20)
			p := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				l.Append(output.Stdout, p)
			}
			l.Release()
		})
	}
}
