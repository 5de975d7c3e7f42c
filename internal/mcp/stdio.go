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

// Serve serves one client until ctx ends, which is an error, or the client ends its input. At the
// end of input, Serve first answers all requests that it has read, unless out is a file whose
// reader has gone. Sessions and dialogues without a name end with the client.
func Serve(ctx context.Context, c Config, in io.ReadCloser, out io.Writer) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	if f, ok := out.(*os.File); ok {
		defer wire.WatchFile(f, stop)()
	}
	conn := newConn(ctx, c)
	// Not Run, which logs the end of the context as an error: Ctrl-C is none.
	session, err := conn.server.Connect(ctx, answersFirst{&mcp.IOTransport{Reader: in, Writer: keepOpen{out}}, reading}, nil)
	if err == nil {
		defer context.AfterFunc(ctx, func() { _ = session.Close() })()
		err = session.Wait()
	}
	conn.end()
	return cmp.Or(err, ctx.Err())
}

// keepOpen is a writer that the SDK must not close.
type keepOpen struct{ io.Writer }

// Close does nothing.
func (keepOpen) Close() error { return nil }

// answersFirst is a transport that reports the end of its input only after every request is
// answered. The SDK cancels requests that are in progress or queued when the input ends.
type answersFirst struct {
	mcp.Transport
	// ctx ends the input, and with it the requests in progress. The context that the SDK reads with
	// never ends.
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
	// broken is closed by breakOnce when answers can no longer be written.
	broken    chan struct{}
	breakOnce sync.Once
}

// Read reads the next message. It returns the end of input, or an error, only after every request
// is answered.
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

// wait waits until every request is answered, or can no longer be answered.
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
