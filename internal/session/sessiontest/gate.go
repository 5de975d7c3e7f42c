package sessiontest

import (
	"net"
	"sync"
)

// gate is the runner's end of a connection. Like a socket it buffers what the daemon writes while
// the runner is frozen, up to a limit. It also buffers the answers of a frozen runner, whose goroutines
// go on here: a writer that waited would hold the lock of the connection, and time would stand still in
// the bubble of synctest while another one waits for that lock.
type gate struct {
	net.Conn
	runner *Runner

	once  sync.Once
	parts chan []byte
	rest  []byte

	mu       sync.Mutex
	late     []byte // guarded by mu; waits for the end of the freeze
	flushing bool   // guarded by mu; flush runs
}

// fill buffers what the daemon writes.
func (g *gate) fill() {
	defer close(g.parts)
	for {
		b := make([]byte, 4<<10)
		n, err := g.Conn.Read(b)
		if n > 0 {
			g.parts <- b[:n]
		}
		if err != nil {
			return
		}
	}
}

func (g *gate) Read(b []byte) (int, error) {
	g.once.Do(func() {
		g.parts = make(chan []byte, 64)
		g.runner.tasks.Go(g.fill)
	})
	if len(g.rest) == 0 {
		part, ok := <-g.parts
		if !ok {
			return 0, net.ErrClosed
		}
		g.rest = part
	}
	if !g.wait() {
		return 0, net.ErrClosed
	}
	n := copy(b, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

func (g *gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	if g.flushing || g.runner.thawed() != nil {
		g.late = append(g.late, b...)
		if !g.flushing {
			g.flushing = true
			g.runner.tasks.Go(g.flush)
		}
		g.mu.Unlock()
		return len(b), nil
	}
	g.mu.Unlock()
	return g.Conn.Write(b)
}

// flush writes what is late.
func (g *gate) flush() {
	for g.wait() {
		g.mu.Lock()
		part := g.late
		g.late = nil
		g.flushing = len(part) > 0
		g.mu.Unlock()
		if len(part) == 0 {
			return
		}
		if _, err := g.Conn.Write(part); err != nil {
			return // the connection is closed, and takes nothing more
		}
	}
}

// wait waits until the runner is not frozen. It reports false when the runner ended first.
func (g *gate) wait() bool {
	frozen := g.runner.thawed()
	if frozen == nil {
		return true
	}
	select {
	case <-frozen:
		return true
	case <-g.runner.done:
		return false
	}
}

// thawed returns a channel that is closed at the end of the freeze; nil if there is none.
func (r *Runner) thawed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.frozen
}
