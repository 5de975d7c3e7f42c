package process_test

import (
	"os"
	"testing"

	"github.com/trl-dev/trl/internal/process"
)

func BenchmarkChildWatch(b *testing.B) {
	w := process.WatchChildren(os.Getpid())
	defer w.Close()
	buf := make([]int, 0, 16)
	b.ReportAllocs()
	for b.Loop() {
		buf = w.List(buf)
	}
}

func BenchmarkStat(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		process.Stat(os.Getpid())
	}
}

func BenchmarkDescendants(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		process.Descendants(os.Getpid(), nil)
	}
}
