package session

import (
	"context"
	"io"
	"sync"

	"github.com/trl-dev/trl/api"
)

// GuestConnection is a connection of an owner to the runner of its guest. It is safe for concurrent use,
// except Read, which only one goroutine at a time may call.
type GuestConnection struct {
	rwc   io.ReadWriteCloser
	over  func() // called once, when the connection is closed
	close sync.Once
	gone  chan struct{} // closed by Close

	writing sync.Mutex // held while bytes are written; taken before mu

	mu      sync.Mutex
	written int64         // guarded by mu; how many bytes were written
	turn    chan struct{} // guarded by mu; closed, and replaced, when written grows
}

func newGuestConnection(rwc io.ReadWriteCloser, over func()) *GuestConnection {
	return &GuestConnection{rwc: rwc, over: over, gone: make(chan struct{}), turn: make(chan struct{})}
}

// Read reads bytes of the runner.
func (c *GuestConnection) Read(b []byte) (int, error) { return c.rwc.Read(b) }

// WriteAt writes bytes to the runner when all bytes before the offset have been written, and returns
// the offset behind them.
func (c *GuestConnection) WriteAt(ctx context.Context, data []byte, offset int64) (int64, error) {
	for {
		c.mu.Lock()
		written, turn := c.written, c.turn
		c.mu.Unlock()
		if offset < written {
			return 0, api.InvalidParam("offset", "%d: the bytes up to %d were already sent", offset, written)
		}
		if offset == written {
			break
		}
		select {
		case <-turn:
		case <-c.gone:
			return 0, errGuestConnection
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	repeated := offset != c.written
	c.mu.Unlock()
	if repeated {
		return 0, api.InvalidParam("offset", "%d: these bytes were already sent", offset)
	}
	if _, err := c.rwc.Write(data); err != nil {
		_ = c.Close()
		return 0, errGuestConnection
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written += int64(len(data))
	close(c.turn)
	c.turn = make(chan struct{})
	return c.written, nil
}

// errGuestConnection is the error of a connection that is closed.
var errGuestConnection = api.Errorf(api.CodeRuntimeUnavailable, "guest: the connection to its runner has ended")

// Close closes the connection. The guest lives on.
func (c *GuestConnection) Close() error {
	var err error
	c.close.Do(func() {
		close(c.gone)
		err = c.rwc.Close()
		c.over()
	})
	return err
}
