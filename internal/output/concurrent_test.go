package output_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/trl-dev/trl/internal/output"
)

// follow reads to the end of the log and calls got for each record.
func follow(ctx context.Context, l *output.Log, limit int, got func(rec output.Record, data []byte)) error {
	var buf []byte
	for after := int64(0); ; {
		if err := l.Wait(ctx, after); err != nil {
			return err
		}
		closed := l.Closed()
		recs, data, next := l.Read(after, limit, buf)
		buf = data
		for _, rec := range recs {
			n := rec.Len
			if rec.Gap {
				n = 0
			}
			got(rec, data[:n])
			data = data[n:]
		}
		if closed && next == after {
			return nil
		}
		after = next
	}
}

func TestFiftyReadersOfOneWriter(t *testing.T) {
	const readers = 50
	tests := []struct {
		name         string
		limit, total int64
	}{
		{"all kept", 16 << 20, 16 << 20},
		{"middle dropped", 1 << 20, 60 << 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLog(tt.limit)
			asleep, wake := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var ends [readers][2]int64
			for i := range readers {
				wg.Go(func() {
					if i == 0 { // reads once, and again only after all output was written
						l.Read(0, output.MaxRecord, nil)
						<-asleep.Done()
					}
					err := follow(t.Context(), l, output.MaxRecord<<(i%5), func(rec output.Record, data []byte) {
						end := &ends[i][rec.Stream]
						switch {
						case rec.Gap && tt.total <= tt.limit:
							t.Errorf("reader %d: gap %+v in a log that keeps all", i, rec)
						case rec.Gap && (rec.Offset > *end || rec.Offset+rec.Len <= *end):
							t.Errorf("reader %d: gap %+v at %d", i, rec, *end)
						case !rec.Gap && rec.Offset != *end:
							t.Errorf("reader %d: record %+v at %d", i, rec, *end)
						case !bytes.Equal(data, pattern(rec.Offset, len(data))):
							t.Errorf("reader %d: record %+v has wrong bytes", i, rec)
						}
						*end = rec.Offset + rec.Len
						for range i % 20 { // some are slower
							runtime.Gosched()
						}
					})
					if err != nil {
						t.Errorf("reader %d: %v", i, err)
					}
				})
			}
			var written [2]int64
			for i := 0; written[0]+written[1] < tt.total; i++ {
				st := output.Stream(i / 3 % 2)
				n := copy(l.Reserve(st), pattern(written[st], 1+i*7919%70_000))
				l.Commit(st, n)
				written[st] += int64(n)
			}
			l.Close()
			wake()
			wg.Wait()
			for i := range readers {
				if ends[i] != written {
					t.Errorf("reader %d ends at %v of %v", i, ends[i], written)
				}
			}
		})
	}
}

func TestStreamsAreWrittenFromTwoGoroutines(t *testing.T) {
	l := newLog(32 << 20)
	var wg sync.WaitGroup
	for st := range output.Stream(2) {
		wg.Go(func() {
			for at := int64(0); at < 2<<20; {
				free := l.Reserve(st)
				n := copy(free[:min(len(free), 1+int(at)%977)], pattern(at, 1000))
				l.Commit(st, n)
				at += int64(n)
			}
		})
	}
	var ends [2]int64
	done := make(chan error, 1)
	go func() {
		done <- follow(t.Context(), l, output.MaxRecord, func(rec output.Record, data []byte) {
			if rec.Offset != ends[rec.Stream] || string(data) != string(pattern(rec.Offset, len(data))) {
				t.Errorf("record %+v at %d is wrong", rec, ends[rec.Stream])
			}
			ends[rec.Stream] += rec.Len
		})
	}()
	wg.Wait()
	l.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for st, end := range ends {
		if want := l.Bytes(output.Stream(st)); end != want || want < 2<<20 {
			t.Errorf("stream %d: read %d of %d", st, end, want)
		}
	}
}

func TestReleaseAndResultDuringReads(t *testing.T) {
	for range 50 {
		l := newLog(100_000)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				err := follow(t.Context(), l, output.MaxRecord, func(rec output.Record, data []byte) {
					if string(data) != string(pattern(rec.Offset, len(data))) {
						t.Errorf("record %+v has wrong bytes", rec)
					}
				})
				if err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				for !l.Closed() {
					data, _ := l.Result(output.Stdout, 1000)
					if n := min(len(data), 300); string(data[:n]) != string(pattern(0, n)) {
						t.Error("Result has a wrong head")
					}
					runtime.Gosched()
				}
			})
		}
		wg.Go(func() {
			for at := int64(0); at < 1<<20; at += 20_000 {
				l.Append(output.Stdout, pattern(at, 20_000))
				if at == 800_000 {
					l.Release()
				}
			}
			l.Close()
		})
		wg.Wait()
		if got := kept(l); got != 0 {
			t.Fatalf("holds %d bytes after Release", got)
		}
	}
}

func TestWaitEnds(t *testing.T) {
	cause := errors.New("the caller went away")
	tests := []struct {
		name   string
		happen func(l *output.Log, cancel context.CancelCauseFunc)
		want   error
	}{
		{"a record", func(l *output.Log, _ context.CancelCauseFunc) { l.Append(output.Stderr, []byte("x")) }, nil},
		{"the mark", func(l *output.Log, _ context.CancelCauseFunc) { l.Mark() }, nil},
		{"close", func(l *output.Log, _ context.CancelCauseFunc) { l.Close() }, nil},
		{"cancel", func(_ *output.Log, cancel context.CancelCauseFunc) { cancel(cause) }, cause},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLog(1 << 20)
				l.Append(output.Stderr, []byte("seen"))
				if err := l.Wait(t.Context(), 0); err != nil {
					t.Fatalf("Wait for what is there: %v", err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var returned atomic.Int32
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						if err := l.Wait(ctx, 1); err != tt.want {
							t.Errorf("Wait: %v, want %v", err, tt.want)
						}
						returned.Add(1)
					})
				}
				synctest.Wait()
				l.Release() // must not wake a reader
				synctest.Wait()
				if n := returned.Load(); n != 0 {
					t.Fatalf("%d of 100 returned before anything happened", n)
				}
				tt.happen(l, cancel)
				wg.Wait()
			})
		})
	}
}

// A reader and a writer take turns. If one wake-up is lost, the test hangs.
func TestWaitLosesNoWakeUp(t *testing.T) {
	for range 20 {
		l, back := newLog(1<<20), newLog(1<<20)
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range int64(1000) {
				l.Append(output.Stdout, []byte("x"))
				if err := back.Wait(t.Context(), i); err != nil {
					t.Error(err)
				}
				back.Read(i, output.MaxRecord, nil)
			}
			l.Close()
		})
		n := int64(0)
		err := follow(t.Context(), l, output.MaxRecord, func(rec output.Record, _ []byte) {
			n += rec.Len
			back.Append(output.Stdout, []byte("y"))
		})
		wg.Wait()
		if err != nil || n != 1000 {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
}
