package sessiontest

import (
	"net"
	"sync"
)

// gate is the runner's end of a connection. Like a socket it buffers what the daemon writes while
// the runner is frozen, up to a limit.
type gate struct {
	net.Conn
	runner *Runner

	once  sync.Once
	parts chan []byte
	rest  []byte
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
	if !g.wait() {
		return 0, net.ErrClosed
	}
	return g.Conn.Write(b)
}

// wait waits until the runner is not frozen. It reports false when the runner ended first.
func (g *gate) wait() bool {
	g.runner.mu.Lock()
	frozen := g.runner.frozen
	g.runner.mu.Unlock()
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
