package runner

import (
	"sync"

	"github.com/trl-dev/trl/internal/link"
)

// news is what happened to execs and is still to be told, in order.
type news struct {
	mu   sync.Mutex
	list []link.ExecEvent // guarded by mu
}

// note keeps what happened to an exec until tell or tellExecs. It may be called with
// any lock held.
func (r *Runner) note(e link.ExecEvent) {
	r.news.mu.Lock()
	r.news.list = append(r.news.list, e)
	r.news.mu.Unlock()
}

// tell sends what happened to execs and the present snapshot to the daemon, now or
// with the next frame.
func (r *Runner) tell(later bool) {
	r.tellMu.Lock()
	defer r.tellMu.Unlock()
	conn := r.tellNews()
	info := link.SessionInfo{SessionInfo: r.Info(), Ages: r.ages()}
	switch {
	case conn == nil:
	case later:
		conn.NotifyLater(link.EventSession, info)
	default:
		conn.Notify(link.EventSession, info, nil)
	}
}

// tellSoon lets a goroutine tell: who calls must not wait for the daemon. However often
// it is called, there is one.
func (r *Runner) tellSoon() {
	if r.telling.Add(1) > 1 {
		return
	}
	go func() {
		for told := false; !told; {
			n := r.telling.Load()
			r.tell(false)
			told = r.telling.CompareAndSwap(n, 0)
		}
	}()
}

// tellExecs sends what happened to execs, now or with the next frame.
func (r *Runner) tellExecs(later bool) {
	r.tellMu.Lock()
	defer r.tellMu.Unlock()
	if conn := r.tellNews(); conn != nil && !later {
		conn.Flush()
	}
}

// flush sends what waits for the next frame.
func (r *Runner) flush() {
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	if conn != nil {
		conn.Flush()
	}
}

// tellNews hands what happened to execs to the connection, with the next frame. What
// happens while there is none is found in the lists. Call with tellMu held.
func (r *Runner) tellNews() *link.Conn {
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	r.news.mu.Lock()
	list := r.news.list
	r.news.list = nil
	r.news.mu.Unlock()
	for _, e := range list {
		if conn != nil {
			conn.NotifyLater(link.EventExec, e)
		}
	}
	return conn
}
