package runner

import (
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
)

// leastPaced is how many bytes the log of a command with backpressure keeps at least. One read
// of a pipe adds less, so the reader that the command waits for never sees a gap.
const leastPaced = 1 << 20

// nextDaemon is how long a command waits for a reader of the next daemon. Clients look for a
// daemon as long.
const nextDaemon = 30 * time.Second

// pace makes a command wait for the one reader of its output, as on a pipe. The reader is
// the stream that started the command. When the daemon ends, the next reader that connects
// takes its place. When the reader leaves, or takes nothing for too long, the command stops
// waiting, permanently.
//
// It is guarded by the mu of its Exec. The loop that reads the command's pipes calls full
// before each read, and at least once a second, so pace needs no timer.
type pace struct {
	most     int64         // bytes that may wait for the reader
	patience time.Duration // how long the command waits for a reader that takes nothing
	reader   string        // the id of the stream; empty after the daemon's end: the next stream
	free     bool          // the command no longer waits
	handed   [2]int64      // where the reader is, by stream
	since    time.Time     // since when the command waits; zero when it does not
}

// newPace makes an exec wait for the stream that started it; that stream has the id of the exec.
// The unread output fits into memory, so that it never goes through the file of the log.
func newPace(execID string, logBytes, memory int64, patience time.Duration) *pace {
	most := logBytes / 4
	if memory > 0 {
		most = min(most, memory/2)
	}
	return &pace{most: most, patience: patience, reader: execID}
}

// took notes how far a reader has read. owner reports whether the command waits for this reader,
// wake whether the command may go on.
func (e *Exec) took(reader string, chunks []link.Chunk) (owner, wake bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.pace
	if p == nil || p.free || reader == "" {
		return false, false
	}
	if p.reader == "" {
		p.reader = reader
	}
	if p.reader != reader {
		return false, false
	}
	for _, c := range chunks {
		st := output.Stdout
		if c.Stream == api.EventStderr {
			st = output.Stderr
		}
		if end := c.Offset + c.Len; end > p.handed[st] {
			p.handed[st], wake = end, true
		}
	}
	if wake {
		p.since = time.Time{}
	}
	return true, wake
}

// release stops the command's waiting, because the reader has left.
func (e *Exec) release(reader string) {
	e.mu.Lock()
	if e.pace != nil && e.pace.reader == reader {
		e.pace.free = true
	}
	e.mu.Unlock()
	e.task.wake()
}

// orphan is called when the daemon has disconnected, and all readers with it.
func (e *Exec) orphan() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pace != nil {
		e.pace.reader = ""
	}
}

// full reports whether the command must wait for its reader now.
func (e *Exec) full() bool {
	unread := e.Log.Bytes(output.Stdout) + e.Log.Bytes(output.Stderr)
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.pace
	unread -= p.handed[output.Stdout] + p.handed[output.Stderr]
	switch {
	case p.free:
		return false
	case unread <= p.most:
		p.since = time.Time{}
		return false
	case p.since.IsZero():
		p.since = time.Now()
	case p.lapsed(time.Since(p.since)):
		p.free = true
		return false
	}
	return true
}

// lapsed reports whether the command has waited long enough.
func (p *pace) lapsed(waited time.Duration) bool {
	if p.reader == "" && waited >= nextDaemon {
		return true
	}
	return p.patience > 0 && waited >= p.patience
}
