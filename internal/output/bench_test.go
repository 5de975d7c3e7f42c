package output_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/trl-dev/trl/internal/output"
)

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{20, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := newLog(8 << 20)
			p := make([]byte, size)
			for l.Bytes(output.Stdout) < 32<<20 {
				l.Append(output.Stdout, p)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				l.Append(output.Stdout, p)
			}
		})
	}
}

func BenchmarkAppendAlternating(b *testing.B) {
	l := newLog(8 << 20)
	p := make([]byte, 20)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	st := output.Stdout
	for b.Loop() {
		l.Append(st, p)
		st ^= 1
	}
}

// BenchmarkReserveCommit is the log's own share of a read(2) of 64 KiB.
func BenchmarkReserveCommit(b *testing.B) {
	l := newLog(8 << 20)
	b.ReportAllocs()
	for b.Loop() {
		l.Commit(output.Stdout, len(l.Reserve(output.Stdout)))
	}
}

func BenchmarkAppendWithReaders(b *testing.B) {
	for _, readers := range []int{1, 10} {
		b.Run(fmt.Sprint(readers), func(b *testing.B) {
			l := newLog(8 << 20)
			p := make([]byte, 64<<10)
			var wg sync.WaitGroup
			for range readers {
				wg.Go(func() {
					if err := follow(context.Background(), l, 256<<10, func(output.Record, []byte) {}); err != nil {
						b.Error(err)
					}
				})
			}
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				l.Append(output.Stdout, p)
			}
			l.Close()
			wg.Wait()
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{20, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := newLog(8 << 20)
			p := make([]byte, size)
			for i := 0; l.Bytes(output.Stdout) < 3<<20; i++ {
				l.Append(output.Stream(i%2), p)
			}
			var buf []byte
			var n, after int64
			b.ReportAllocs()
			for b.Loop() {
				_, data, next := l.Read(after, 256<<10, buf)
				buf, after = data, next
				n += int64(len(data))
				if after == l.Last() {
					after = 0
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "MB/s")
		})
	}
}

func BenchmarkResult(b *testing.B) {
	l := newLog(8 << 20)
	l.Append(output.Stdout, make([]byte, 32<<20))
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		l.Result(output.Stdout, 1<<20)
	}
}
