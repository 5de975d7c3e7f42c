package trl

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

const (
	// sendBytes is the most bytes in one request.
	sendBytes = 256 << 10
	// maxSends is how many requests may be without an answer.
	maxSends = 16
)

// conn is a connection to the runner of a guest: a stream of guest.connect, and requests of guest.send.
// One goroutine at a time may read, and one may write.
//
// Goroutines: one for each request without an answer; Close ends them and waits for them.
type conn struct {
	client *client.Client
	stream api.Stream
	id     string
	ctx    context.Context // ends with Close
	fail   context.CancelCauseFunc
	over   func() // called once by Close

	rest []byte // what was received and not read
	sent int64  // how many bytes were sent

	slots chan struct{}
	sends sync.WaitGroup
	close sync.Once

	mu     sync.Mutex
	closed bool // guarded by mu; no request is started any more
}

// connect opens a connection. ctx bounds only that.
func connect(ctx context.Context, c *client.Client, p api.GuestConnectParams, over func()) (*conn, error) {
	g := &conn{client: c, over: over, slots: make(chan struct{}, maxSends)}
	g.ctx, g.fail = context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { g.fail(context.Cause(ctx)) })
	stream, err := c.GuestConnect(g.ctx, p)
	if err == nil && !stop() {
		_ = stream.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		stop()
		g.fail(err)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	g.stream, g.id = stream, stream.Start().StreamID
	return g, nil
}

func (g *conn) Read(b []byte) (int, error) {
	for len(g.rest) == 0 {
		ev, data, err := g.receive()
		switch {
		case err != nil:
			return 0, err
		case ev.Type == api.EventEnd:
			return 0, io.EOF
		case ev.Type == api.EventBytes:
			g.rest = data
		}
	}
	n := copy(b, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

func (g *conn) receive() (api.StreamEvent, []byte, error) {
	if s, ok := g.stream.(api.ByteStream); ok {
		return s.RecvBytes()
	}
	ev, err := g.stream.Recv()
	return ev, api.Data(ev.Data, ev.DataBase64), err
}

// Write sends bytes and does not wait for their arrival, unless many are on their way. The error of an
// earlier Write breaks the connection.
func (g *conn) Write(b []byte) (int, error) {
	for at := 0; at < len(b); at += sendBytes {
		piece := bytes.Clone(b[at:min(at+sendBytes, len(b))])
		select {
		case g.slots <- struct{}{}:
		case <-g.ctx.Done():
		}
		if g.ctx.Err() != nil {
			return 0, context.Cause(g.ctx)
		}
		p := api.GuestSendParams{StreamID: g.id, Offset: g.sent, Bytes: piece}
		g.sent += int64(len(piece))
		if !g.start(func() {
			defer func() { <-g.slots }()
			if _, err := g.client.GuestSend(g.ctx, p); err != nil {
				g.fail(err) // which also ends the stream
			}
		}) {
			return 0, context.Cause(g.ctx)
		}
	}
	return len(b), nil
}

// start starts a request, unless the connection is closed: Close waits for all that were started.
func (g *conn) start(send func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.sends.Go(send)
	return true
}

// Close closes the connection. It may be called while another goroutine writes.
func (g *conn) Close() error {
	g.close.Do(func() {
		g.fail(io.ErrClosedPipe)
		g.mu.Lock()
		g.closed = true
		g.mu.Unlock()
		_ = g.stream.Close()
		g.sends.Wait()
		g.over()
	})
	return nil
}
