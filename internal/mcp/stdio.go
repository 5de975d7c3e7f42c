package mcp

import (
	"cmp"
	"context"
	"io"
	"os"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trl-dev/trl/internal/wire"
)

// Serve talks to one client until ctx ends, which is an error, or the client ends its input.
// At the end of input, all requests that were read are answered first, unless out is a file
// that nobody can read any more. What the client did not name ends with it.
func Serve(ctx context.Context, c Config, in io.ReadCloser, out io.Writer) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	if f, ok := out.(*os.File); ok {
		defer wire.WatchFile(f, stop)()
	}
	conn := newConn(ctx, c)
	err := conn.server.Run(ctx, answersFirst{&mcp.IOTransport{Reader: in, Writer: keepOpen{out}}, reading})
	conn.end()
	return cmp.Or(err, ctx.Err())
}

// keepOpen is a writer that is not ours to close.
type keepOpen struct{ io.Writer }

// Close does nothing.
func (keepOpen) Close() error { return nil }

// answersFirst is a transport that ends its input only when each request has its answer: the
// SDK cancels the requests in progress, and those in its queue, when the input ends.
type answersFirst struct {
	mcp.Transport
	// ctx ends the input, and with it the requests in progress. The SDK's own context for
	// reading never ends.
	ctx context.Context
}

// Connect connects the transport.
func (t answersFirst) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &answeringConn{Connection: c, ctx: t.ctx, pending: map[jsonrpc.ID]bool{}, broken: make(chan struct{})}, nil
}

// answeringConn counts the requests without an answer.
type answeringConn struct {
	mcp.Connection
	ctx context.Context

	mu       sync.Mutex
	pending  map[jsonrpc.ID]bool // guarded by mu; the requests without an answer
	answered chan struct{}       // guarded by mu; set at the end of input, closed when pending is empty
	// broken is closed by breakOnce, when answers cannot be written any more.
	broken    chan struct{}
	breakOnce sync.Once
}

// Read reads the next message. It returns the end of input, or an error, when each request
// has its answer.
func (c *answeringConn) Read(context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(c.ctx)
	if err != nil {
		c.wait()
		if c.ctx.Err() != nil {
			err = io.EOF
		}
		return nil, err
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		c.mu.Lock()
		c.pending[r.ID] = true
		c.mu.Unlock()
	}
	return m, nil
}

// wait waits until each request has its answer, or cannot get one.
func (c *answeringConn) wait() {
	answered := make(chan struct{})
	c.mu.Lock()
	c.answered = answered
	c.checkLocked()
	c.mu.Unlock()
	select {
	case <-answered:
	case <-c.broken:
	case <-c.ctx.Done():
	}
}

// Write writes a message.
func (c *answeringConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if err != nil && ctx.Err() == nil {
		c.breakOnce.Do(func() { close(c.broken) })
	}
	if r, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.pending, r.ID)
		c.checkLocked()
		c.mu.Unlock()
	}
	return err
}

// checkLocked ends wait if no request is pending.
func (c *answeringConn) checkLocked() {
	if c.answered != nil && len(c.pending) == 0 {
		close(c.answered)
		c.answered = nil
	}
}
