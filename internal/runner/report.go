package runner

import (
	"sync"

	"github.com/trl-dev/trl/internal/link"
)

// execEvents are the events of execs that wait to be reported, in order.
type execEvents struct {
	mu   sync.Mutex
	list []link.ExecEvent // guarded by mu
}

// note keeps an event of an exec until report or reportExecs sends it. It may be called with
// any lock held.
func (r *Runner) note(e link.ExecEvent) {
	r.events.mu.Lock()
	r.events.list = append(r.events.list, e)
	r.events.mu.Unlock()
}

// report sends the events of execs and a snapshot of the session to the daemon: at once, or
// later, with the next frame.
func (r *Runner) report(later bool) {
	r.reportMu.Lock()
	defer r.reportMu.Unlock()
	conn := r.queueExecEventsLocked()
	info := link.SessionInfo{SessionInfo: r.Info(), Ages: r.ages()}
	switch {
	case conn == nil:
	case later:
		conn.NotifyLater(link.EventSession, info)
	default:
		conn.Notify(link.EventSession, info, nil)
	}
}

// reportSoon lets a goroutine report, because its caller must not wait for the daemon. At
// most one such goroutine runs; it reports again for the calls that came meanwhile.
func (r *Runner) reportSoon() {
	if r.reportsDue.Add(1) > 1 {
		return
	}
	go func() {
		for done := false; !done; {
			n := r.reportsDue.Load()
			r.report(false)
			done = r.reportsDue.CompareAndSwap(n, 0)
		}
	}()
}

// reportExecs sends the events of execs: at once, or later, with the next frame.
func (r *Runner) reportExecs(later bool) {
	r.reportMu.Lock()
	defer r.reportMu.Unlock()
	if conn := r.queueExecEventsLocked(); conn != nil && !later {
		conn.Flush()
	}
}

// flush sends the events that wait for the next frame.
func (r *Runner) flush() {
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	if conn != nil {
		conn.Flush()
	}
}

// queueExecEventsLocked hands the events of execs to the connection, which sends them with the
// next frame. Without a daemon the events are dropped: the next daemon asks for the lists. It
// needs reportMu.
func (r *Runner) queueExecEventsLocked() *link.Conn {
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	r.events.mu.Lock()
	list := r.events.list
	r.events.list = nil
	r.events.mu.Unlock()
	for _, e := range list {
		if conn != nil {
			conn.NotifyLater(link.EventExec, e)
		}
	}
	return conn
}
