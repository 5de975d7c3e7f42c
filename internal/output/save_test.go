package output_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/trl-dev/trl/internal/output"
)

// examples are saved logs: empty, small, with a mark, with gaps, released, of many
// records.
func examples(t testing.TB) [][]byte {
	var all [][]byte
	add := func(limit int64, write func(*output.Log)) {
		l := newLog(limit)
		write(l)
		l.Close()
		var b bytes.Buffer
		if err := l.Save(&b); err != nil {
			t.Fatal(err)
		}
		all = append(all, b.Bytes())
	}
	add(0, func(*output.Log) {})
	add(1000, func(l *output.Log) {
		l.Append(output.Stdout, []byte("hello"))
		l.Append(output.Stderr, []byte("world"))
		l.Append(output.Stdout, []byte("again"))
		l.Mark()
	})
	add(1000, func(l *output.Log) { l.Append(output.Stderr, pattern(0, 100_000)) })
	add(1000, func(l *output.Log) {
		l.Append(output.Stderr, pattern(0, 100_000))
		l.Release()
		l.Append(output.Stdout, []byte("late"))
	})
	add(1<<20, func(l *output.Log) {
		for i := range 300 {
			l.Append(output.Stream(i%2), []byte{'a'})
		}
	})
	return all
}

func TestSaveIsForClosedLogs(t *testing.T) {
	if err := newLog(10).Save(io.Discard); !errors.Is(err, output.ErrOpen) {
		t.Errorf("Save of an open log: %v", err)
	}
}

func TestSavedLogIsCompact(t *testing.T) {
	for i, want := range []int{30, 60, 35_000, 40, 2200} {
		if n := len(examples(t)[i]); n > want {
			t.Errorf("example %d: %d bytes, want at most %d", i, n, want)
		}
	}
}

func TestSaveWhileTheLogIsTrimmed(t *testing.T) {
	s := output.NewStore(output.StoreConfig{MemoryBytes: 300_000, Dir: t.TempDir()})
	l := output.New(s, 8<<20)
	flood(s, l, output.Stdout, 3<<20)
	l.Close()
	var b bytes.Buffer
	if err := l.Save(&trimmer{&b, l}); err != nil {
		t.Fatal(err)
	}
	if kept(l) != 0 || s.File() != nil {
		t.Errorf("holds %d bytes, file %v", kept(l), s.File())
	}
	loaded, err := output.Load(s, &b)
	if err != nil {
		t.Fatal(err)
	}
	same(t, loaded, output.Stdout, 0, 3<<20)
	if m := s.Memory(); m > 500_000 {
		t.Errorf("%d bytes of memory", m)
	}
}

// trimmer trims and releases the log while it is being saved.
type trimmer struct {
	w io.Writer
	l *output.Log
}

func (t *trimmer) Write(p []byte) (int, error) {
	t.l.Trim(0)
	t.l.Release()
	return t.w.Write(p)
}

func TestLoadWithoutRoomLosesTheMiddle(t *testing.T) {
	l := newLog(8 << 20)
	l.Append(output.Stdout, pattern(0, 4<<20))
	l.Append(output.Stderr, pattern(0, 4<<20))
	l.Close()
	var b bytes.Buffer
	if err := l.Save(&b); err != nil {
		t.Fatal(err)
	}
	loaded, err := output.Load(output.NewStore(output.StoreConfig{MemoryBytes: 500_000}), &b)
	if err != nil {
		t.Fatal(err)
	}
	some := 0
	for st := range output.Stream(2) {
		data, truncated := loaded.Result(st, 8<<20)
		if !truncated || loaded.Bytes(st) != 4<<20 {
			t.Errorf("%v: %d of %d bytes, truncated %v", st, len(data), loaded.Bytes(st), truncated)
		}
		some += len(data)
	}
	if some < 300_000 {
		t.Errorf("%d bytes are left", some)
	}
	if kept(loaded) > 600_000 {
		t.Errorf("holds %d bytes", kept(loaded))
	}
}

func TestLoadOfWhatIsNoLog(t *testing.T) {
	for _, saved := range examples(t) {
		for n := 0; n < len(saved); n += 1 + n/50 {
			s := output.NewStore(output.StoreConfig{})
			if _, err := output.Load(s, bytes.NewReader(saved[:n])); err == nil {
				t.Fatalf("%d of %d bytes are a log", n, len(saved))
			}
			if s.Memory() != 0 {
				t.Fatalf("%d bytes of memory after an error", s.Memory())
			}
		}
	}
	if _, err := output.Load(output.NewStore(output.StoreConfig{}), bytes.NewReader(make([]byte, 100))); !errors.Is(err, output.ErrCorrupt) {
		t.Errorf("zeros: %v", err)
	}
}

// Loading any bytes ends, and takes no more memory than the length of the bytes.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("trl-log\x01\x86\x86\x00\x00\xe8\a\x04\x00\x04\b\x00\x00\xe8\a\xa0\x8d\x06\x00\xa0\x8d\x06\a\x00\x00"), uint64(99))
	for _, saved := range examples(f) {
		if len(saved) < 5000 {
			f.Add(saved, uint64(0))
		}
		f.Add(saved[:min(len(saved), 3000)], uint64(9))
	}
	f.Fuzz(func(t *testing.T, saved []byte, seed uint64) {
		s := output.NewStore(output.StoreConfig{MemoryBytes: 50_000, Dir: t.TempDir()})
		l, err := output.Load(s, bytes.NewReader(saved))
		if s.Memory() > int64(len(saved)) {
			t.Fatalf("%d bytes of memory for %d", s.Memory(), len(saved))
		}
		if err != nil {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		l.Read(rnd.Int64(), rnd.IntN(1<<20), nil)
		for after := int64(0); ; {
			_, _, next := l.Read(after, 1+rnd.IntN(1<<16), nil)
			if next < after {
				t.Fatalf("next is %d after %d", next, after)
			}
			if next == after {
				break
			}
			after = next
		}
		buf := make([]byte, 1000)
		for st := range output.Stream(2) {
			l.Result(st, rnd.Int64N(1<<20))
			for range 10 {
				l.ReadAt(st, rnd.Int64N(l.Bytes(st)+2)-1, buf)
			}
		}
		var again, third bytes.Buffer
		if err := l.Save(&again); err != nil || again.Len() > len(saved) {
			t.Fatalf("saved again: %d bytes of %d, %v", again.Len(), len(saved), err)
		}
		same, err := output.Load(s, bytes.NewReader(again.Bytes()))
		if err != nil || same.Save(&third) != nil || !bytes.Equal(third.Bytes(), again.Bytes()) {
			t.Fatalf("loaded again it differs: %v", err)
		}
		same.Release()
		l.Trim(rnd.Int64N(1 << 20))
		l.Read(0, 1<<20, nil)
		l.Release()
		if s.Memory() != 0 || s.File() != nil {
			t.Fatalf("%d bytes of memory after Release", s.Memory())
		}
	})
}
