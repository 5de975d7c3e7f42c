//go:build linux

package dockertest

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Proxy stands between clients and an engine. Connections through it can be cut, or stay open when the
// engine ends them.
//
// Goroutines: one that accepts, and two for each connection. The end of the test waits for them.
type Proxy struct {
	// Host is its address, as in DOCKER_HOST.
	Host string

	path, target string
	tasks        sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener      // guarded by mu; nil while connections are refused
	lingers  bool              // guarded by mu
	open     map[net.Conn]bool // guarded by mu
}

// NewProxy starts a proxy.
func (e *Engine) NewProxy(t testing.TB, path string) *Proxy {
	t.Helper()
	p := &Proxy{Host: "unix://" + path, path: path, target: strings.TrimPrefix(e.Host, "unix://"), open: map[net.Conn]bool{}}
	if err := p.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Refuse()
		p.Cut()
		p.tasks.Wait()
	})
	return p
}

// Accept ends Refuse.
func (p *Proxy) Accept() error {
	l, err := net.Listen("unix", p.path)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	p.tasks.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.tasks.Go(func() { p.forward(c.(*net.UnixConn)) })
		}
	})
	return nil
}

// Refuse refuses new connections: the socket does not exist any more.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

// Linger keeps connections open that the engine ends, as an engine with gVisor does.
func (p *Proxy) Linger() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lingers = true
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
	clear(p.open)
}

func (p *Proxy) forward(client *net.UnixConn) {
	defer client.Close()
	c, err := net.Dial("unix", p.target)
	if err != nil {
		return
	}
	engine := c.(*net.UnixConn)
	defer engine.Close()
	p.mu.Lock()
	lingers := p.lingers
	refused := p.listener == nil // it was accepted just before
	if !refused {
		p.open[client], p.open[engine] = true, true
	}
	p.mu.Unlock()
	if refused {
		return
	}
	var both sync.WaitGroup
	for from, to := range map[*net.UnixConn]*net.UnixConn{client: engine, engine: client} {
		both.Go(func() {
			_, _ = io.Copy(to, from)
			if to != client || !lingers {
				_ = to.CloseWrite()
			}
		})
	}
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, client)
	delete(p.open, engine)
}
