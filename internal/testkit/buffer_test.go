package testkit_test

import (
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/trl-dev/trl/internal/testkit"
)

func TestBufferIsReadWhileWritten(t *testing.T) {
	var b testkit.Buffer
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { _, _ = io.WriteString(&b, "word ") })
		if text := b.String(); text != strings.Repeat("word ", len(text)/5) {
			t.Errorf("read %q", text)
		}
	}
	wg.Wait()
	if text := b.String(); text != strings.Repeat("word ", 10) {
		t.Errorf("read %q", text)
	}
}

func TestHeapCountsWhatIsKept(t *testing.T) {
	before := testkit.Heap()
	kept := make([]byte, 8<<20)
	if grown := testkit.Heap() - before; grown < 7<<20 || grown > 9<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	runtime.KeepAlive(kept)
	if grown := testkit.Heap() - before; grown > 1<<20 {
		t.Errorf("%d bytes are left", grown)
	}
}
