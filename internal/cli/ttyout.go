package cli

import (
	"os"
	"sync"
	"time"

	"github.com/trl-dev/trl/internal/cli/ui"
)

const (
	// leaveInAll bounds the last writes to one that takes a little now and then.
	leaveInAll = 10 * time.Second
	// writtenAtOnce is small enough that a slow terminal is seen to take something.
	writtenAtOnce = 4 << 10
)

// ttyOut writes to a file whose reader may not read, such as a terminal that was stopped:
// a write of such a file cannot be ended. So Write never waits, and who writes more than a
// little waits for written first. It is safe for concurrent use.
//
// Goroutines: one while something is being written. It ends with the last of it, or with
// the program when nobody ever reads.
type ttyOut struct {
	f *os.File

	mu    sync.Mutex
	queue []byte        // guarded by mu
	taken int64         // guarded by mu; how much was written in all
	began time.Time     // guarded by mu; when the first byte of the queue was handed over
	moved time.Time     // guarded by mu; when the terminal last took something, or began
	done  chan struct{} // guarded by mu; closed when all is written; nil before the first write
	err   error         // guarded by mu; the first that came of a write
}

// Write queues p. Its error is that of a write before.
func (o *ttyOut) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	idle := len(o.queue) == 0
	o.queue = append(o.queue, p...)
	if idle && len(p) > 0 {
		o.done = make(chan struct{})
		o.began = time.Now()
		o.moved = o.began
		go o.drain()
	}
	return len(p), nil
}

// drain writes what is queued. A piece leaves the queue when it is written.
func (o *ttyOut) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) > 0 {
		piece := o.queue[:min(len(o.queue), writtenAtOnce)]
		o.mu.Unlock()
		n, err := o.f.Write(piece)
		o.mu.Lock()
		o.taken += int64(n)
		o.moved = time.Now()
		if o.queue = o.queue[n:]; err != nil {
			o.err, o.queue = err, nil
		}
	}
	o.queue = nil
	close(o.done)
}

// busy reports whether something is queued.
func (o *ttyOut) busy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) > 0
}

// waits is for how long the queue has not been empty, and for how long the terminal has
// taken nothing of it; 0 when nothing is queued.
func (o *ttyOut) waits() (queued, stuck time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return 0, 0
	}
	return time.Since(o.began), time.Since(o.moved)
}

// written is closed when nothing is queued any more.
func (o *ttyOut) written() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done == nil {
		o.done = make(chan struct{})
		close(o.done)
	}
	return o.done
}

// failed is the error of the first write that had one.
func (o *ttyOut) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// finish waits until all is written, as long as the terminal takes it. It reports whether
// that is so.
func (o *ttyOut) finish() bool {
	end := time.Now().Add(leaveInAll)
	for before := int64(-1); ; {
		o.mu.Lock()
		taken := o.taken
		o.mu.Unlock()
		if taken == before || time.Now().After(end) {
			return false
		}
		before = taken
		select {
		case <-o.written():
			return o.failed() == nil
		case <-time.After(ui.LeaveTime):
		}
	}
}
