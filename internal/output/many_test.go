package output_test

import (
	"hash/crc32"
	"runtime"
	"sync"
	"testing"

	"github.com/trl-dev/trl/internal/output"
)

// A thousand readers read one flood of output, and some of them sleep until it is over. Each gets
// every byte, or a gap that names the missing ones.
func TestThousandReadersOfAFlood(t *testing.T) {
	const readers = 1000
	table := crc32.MakeTable(crc32.Castagnoli)
	tests := []struct {
		name         string
		limit, total int64
	}{
		{"all kept", 16 << 20, 640 << 10},
		{"middle dropped", 512 << 10, 2 << 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := output.New(output.NewStore(output.StoreConfig{MemoryBytes: 300_000, Dir: t.TempDir()}), tt.limit)
			var wg, reading sync.WaitGroup
			over := make(chan struct{})
			type result struct {
				sums  [2]uint32
				ends  [2]int64
				lost  int64
				wrong bool
			}
			results := make([]result, readers)
			for i := range readers {
				r := &results[i]
				reading.Add(1)
				wg.Go(func() {
					reading.Done()
					if i%10 == 0 { // has one record and sleeps until the flood is over
						l.Read(0, output.MaxRecord, nil)
						<-over
					}
					err := follow(t.Context(), l, output.MaxRecord<<(i%3), func(rec output.Record, data []byte) {
						end := &r.ends[rec.Stream]
						if rec.Gap {
							r.lost += rec.Offset + rec.Len - *end
							r.wrong = r.wrong || rec.Offset > *end || rec.Offset+rec.Len <= *end
						} else {
							r.wrong = r.wrong || rec.Offset != *end
							r.sums[rec.Stream] = crc32.Update(r.sums[rec.Stream], table, data)
						}
						*end = rec.Offset + rec.Len
						if i%7 == 0 {
							runtime.Gosched()
						}
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			reading.Wait()
			var written [2]int64
			var sums [2]uint32
			for i := 0; written[0]+written[1] < tt.total; i++ {
				st := output.Stream(i / 3 % 2)
				free := l.Reserve(st)
				n := copy(free, pattern(written[st], 1+i*7919%70_000))
				sums[st] = crc32.Update(sums[st], table, free[:n])
				l.Commit(st, n)
				written[st] += int64(n)
			}
			l.Close()
			close(over)
			wg.Wait()
			for i := range results {
				r := &results[i]
				if r.wrong || r.ends != written || r.lost > 0 && tt.total <= tt.limit {
					t.Fatalf("reader %d: wrong %v, ends at %v of %v, lost %d", i, r.wrong, r.ends, written, r.lost)
				}
				if r.lost == 0 && r.sums != sums {
					t.Fatalf("reader %d: has other bytes", i)
				}
			}
			if memory, _ := l.Kept(); memory > 1<<20 {
				t.Errorf("%d bytes of memory", memory)
			}
		})
	}
}
