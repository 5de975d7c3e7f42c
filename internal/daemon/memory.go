package daemon

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/internal/process"
)

// quietAfter is for how long no call is answered before the daemon returns memory.
const quietAfter = 2 * time.Second

// leastWaste is how much more memory the daemon must take before returning it is worth a collection.
const leastWaste = 4 << 20

// quiet calls then when no call was answered for quietAfter. A daemon without calls has no timer, so it
// does not wake up.
type quiet struct {
	then  func()
	calls atomic.Int64
	armed atomic.Bool // a timer runs

	mu      sync.Mutex // held while then runs
	stopped bool       // guarded by mu
}

// stop ends the calls of then, and waits for the one that runs.
func (q *quiet) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
}

// note notes that a call was answered.
func (q *quiet) note() {
	q.calls.Add(1)
	q.arm()
}

func (q *quiet) arm() {
	if !q.armed.Load() && q.armed.CompareAndSwap(false, true) {
		q.wait(q.calls.Load())
	}
}

// wait calls then after quietAfter, unless there were more calls than these.
func (q *quiet) wait(calls int64) {
	time.AfterFunc(quietAfter, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.stopped {
			return
		}
		if n := q.calls.Load(); n != calls {
			q.wait(n)
			return
		}
		q.then()
		q.armed.Store(false)
		if q.calls.Load() != calls { // a call meanwhile found the timer armed
			q.arm()
		}
	})
}

// memory returns memory that the daemon does not need. Its garbage collector seldom runs, because of the
// headroom of Run, so what a burst of calls needed would stay.
type memory struct {
	mu   sync.Mutex
	kept int64 // guarded by mu; what the daemon took after the last return
}

func (m *memory) giveBack() {
	m.mu.Lock()
	defer m.mu.Unlock()
	debug.FreeOSMemory()
	process.TrimProgram()
	m.kept = process.OwnMemory()
}

// giveBackWaste is giveBack, unless there is too little to return.
func (m *memory) giveBackWaste() {
	m.mu.Lock()
	waste := process.OwnMemory() - m.kept
	m.mu.Unlock()
	if waste >= leastWaste {
		m.giveBack()
	}
}
