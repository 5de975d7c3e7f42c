package archive_test

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkKeep is what the end of a session costs more when its output is kept.
func BenchmarkKeep(b *testing.B) {
	for _, size := range []int{100, 1 << 20, 32 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			a := newPlace(b).open(b)
			data := exported(b, id(1), time.Now(), size)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				w, err := a.Create(id(1))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := w.Write(data); err != nil {
					b.Fatal(err)
				}
				if _, err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
			a.Clear()
		})
	}
}
