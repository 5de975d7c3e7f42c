package ui

import (
	"os"
	"sync"
	"time"
)

const (
	// FrameTime is the least time between two drawings of a screen.
	FrameTime = 16 * time.Millisecond
	// leaveInAll bounds the last writes to a terminal that accepts a little now and then.
	leaveInAll = 10 * time.Second
	// writtenAtOnce is the size of one write: small enough to see that a slow terminal moves on.
	writtenAtOnce = 4 << 10
)

// TerminalWriter writes to a file that may accept nothing, such as a terminal that the person
// stopped with Ctrl-S. A write to such a file cannot be ended, so Write only queues; a caller
// with more than a little to write waits for Written first. It is safe for concurrent use.
//
// Goroutines: one while the queue is not empty. It ends when everything is written, or with the
// program if the file never accepts it.
type TerminalWriter struct {
	f *os.File

	mu    sync.Mutex
	queue []byte        // guarded by mu
	taken int64         // guarded by mu; bytes written so far
	began time.Time     // guarded by mu; when the queue was last empty
	moved time.Time     // guarded by mu; when the terminal last accepted something, at least began
	done  chan struct{} // guarded by mu; closed when the queue is empty; nil before the first write
	err   error         // guarded by mu; of the first write that failed
}

// NewTerminalWriter returns a writer to f.
func NewTerminalWriter(f *os.File) *TerminalWriter { return &TerminalWriter{f: f} }

// Write queues p. It returns the error of an earlier write.
func (o *TerminalWriter) Write(p []byte) (int, error) {
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

// drain writes the queue. A piece leaves the queue when it is written.
func (o *TerminalWriter) drain() {
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

// Busy reports whether output is queued.
func (o *TerminalWriter) Busy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) > 0
}

// Waits returns for how long the queue has not been empty, and for how long the terminal has
// accepted nothing; 0 and 0 if the queue is empty.
func (o *TerminalWriter) Waits() (queued, stuck time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return 0, 0
	}
	return time.Since(o.began), time.Since(o.moved)
}

// Written returns a channel that is closed when the queue is empty.
func (o *TerminalWriter) Written() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done == nil {
		o.done = make(chan struct{})
		close(o.done)
	}
	return o.done
}

// Failed returns the error of the first write that failed.
func (o *TerminalWriter) Failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Finish waits until the queue is empty, as long as the terminal accepts output. It reports
// whether everything was written.
func (o *TerminalWriter) Finish() bool {
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
		case <-o.Written():
			return o.Failed() == nil
		case <-time.After(LeaveTime):
		}
	}
}
