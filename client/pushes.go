package client

import (
	"context"
	"io"
	"sync"

	"github.com/trl-dev/trl/api"
)

// maxQueued is how many bytes of pushes are queued for a slow consumer if streams share a connection.
// After that, the whole connection waits for the consumer.
const maxQueued = 8 << 20

// pushes is a stream that shares its connection. Only one goroutine at a time may call Recv; Close
// may be called at any time, and ends a Recv.
type pushes struct {
	conn  *conn
	ctx   context.Context
	start api.StreamStart // written by the reader before the answer is delivered

	wake chan struct{} // capacity 1; there may be a push for Recv
	room chan struct{} // capacity 1; there may be room for the reader
	gone chan struct{} // closed by Close

	mu     sync.Mutex
	queue  []push // guarded by mu
	bytes  int    // guarded by mu; size of queue
	ended  error  // guarded by mu; what Recv returns after the last push
	closed bool   // guarded by mu
	last   []byte // guarded by mu; the output that was returned last
	spare  []byte // guarded by mu; buffer for the next output
}

// push is one push. Its output is in data, or in the event.
type push struct {
	api.StreamEvent
	data []byte
}

func newPushes(ctx context.Context, c *conn) *pushes {
	return &pushes{
		conn: c, ctx: ctx,
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1), gone: make(chan struct{}),
	}
}

// Start is the immediate answer.
func (s *pushes) Start() api.StreamStart { return s.start }

// Recv returns the next push. After the connection is lost, it first returns the pushes that had
// arrived.
func (s *pushes) Recv() (api.StreamEvent, error) { return withText(s.RecvBytes()) }

// RecvBytes is Recv, but may return output as bytes instead of in the push.
func (s *pushes) RecvBytes() (api.StreamEvent, []byte, error) {
	for {
		if p, ok, err := s.next(); ok || err != nil {
			return p.StreamEvent, p.data, err
		}
		select {
		case <-s.wake:
		case <-s.gone:
			return api.StreamEvent{}, nil, io.ErrClosedPipe
		case <-s.ctx.Done():
			return api.StreamEvent{}, nil, s.ctx.Err()
		case <-s.conn.done:
			if p, ok, err := s.next(); ok || err != nil {
				return p.StreamEvent, p.data, err
			}
			return api.StreamEvent{}, nil, unwrapLost(s.conn.failure(true))
		}
	}
}

// next returns the oldest push; false and no error when there is none yet.
func (s *pushes) next() (push, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return push{}, false, s.ended
	}
	p := s.queue[0]
	s.queue[0] = push{}
	s.queue = s.queue[1:]
	s.bytes -= p.size()
	if cap(s.last) > cap(s.spare) { // it is no longer valid
		s.spare = s.last
	}
	s.last = p.data
	signal(s.room)
	return p, true, nil
}

// buffer returns a slice for the next output, or nil.
func (s *pushes) buffer() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.spare
	s.spare = nil
	return b
}

// Close closes the stream, and drops pushes that still arrive. The command goes on.
func (s *pushes) Close() error {
	s.mu.Lock()
	first := !s.closed
	if first {
		s.closed = true
		s.queue, s.bytes = nil, 0
		close(s.gone)
	}
	s.mu.Unlock()
	if first {
		s.conn.dropStream(s)
	}
	return nil
}

// add queues a push. It reports whether there was room.
func (s *pushes) add(p push) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return true
	}
	if s.bytes > maxQueued {
		return false
	}
	if p.Type == api.EventError {
		s.ended = brokeOff(&p.StreamEvent)
	} else {
		s.queue = append(s.queue, p)
		s.bytes += p.size()
	}
	signal(s.wake)
	return true
}

// size returns roughly how much memory a push takes.
func (p *push) size() int { return 256 + len(p.Data) + len(p.DataBase64) + len(p.data) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
