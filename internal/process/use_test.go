package process_test

import (
	"runtime"
	"testing"

	"github.com/trl-dev/trl/internal/process"
)

func TestOwnMemoryGrows(t *testing.T) {
	before := process.OwnMemory()
	const size = 64 << 20
	b := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
	after := process.OwnMemory()
	runtime.KeepAlive(b)
	// The collector may return other memory meanwhile, and the race detector takes more.
	if before < 100<<10 || after-before < size/2 {
		t.Errorf("%d bytes, then %d", before, after)
	}
}
