package server

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// lastTry is how long a write may still take after its deadline, to see whether the peer has taken
// anything: the system calls a socket writable only once much of its buffer is free.
const lastTry = 10 * time.Millisecond

// steadyListener makes a steadyConn of each connection.
type steadyListener struct{ net.Listener }

// Accept implements net.Listener.
func (l steadyListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &steadyConn{Conn: nc}, nil
}

// steadyConn is a connection on which a write fails at its deadline only if the peer has taken
// nothing since the deadline was set. Otherwise the peer gets the same time again.
type steadyConn struct {
	net.Conn

	mu       sync.Mutex
	patience time.Duration // guarded by mu; from the last setting of a deadline until that deadline
}

// SetDeadline implements net.Conn.
func (c *steadyConn) SetDeadline(t time.Time) error { return c.limit(t, c.Conn.SetDeadline) }

// SetWriteDeadline implements net.Conn.
func (c *steadyConn) SetWriteDeadline(t time.Time) error { return c.limit(t, c.Conn.SetWriteDeadline) }

func (c *steadyConn) limit(t time.Time, set func(time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patience = time.Until(t)
	return set(t)
}

// SetWriteBuffer sets the size of the system's send buffer.
func (c *steadyConn) SetWriteBuffer(n int) error {
	if nc, ok := c.Conn.(interface{ SetWriteBuffer(int) error }); ok {
		return nc.SetWriteBuffer(n)
	}
	return errors.ErrUnsupported
}

// Write implements net.Conn.
func (c *steadyConn) Write(p []byte) (int, error) {
	done, last := 0, false
	for {
		n, err := c.Conn.Write(p[done:])
		done += n
		if n == 0 && last || !errors.Is(err, os.ErrDeadlineExceeded) {
			return done, err
		}
		last = n == 0
		if !c.extend(last) {
			return done, err
		}
	}
}

// extend moves the deadline on after it has passed. It reports false if the deadline was in the past
// when it was set, which is a way to end a write.
func (c *steadyConn) extend(last bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.patience <= 0 {
		return false
	}
	d := c.patience
	if last {
		d = lastTry
	}
	return c.Conn.SetWriteDeadline(time.Now().Add(d)) == nil
}
