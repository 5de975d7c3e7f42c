package client

import (
	"context"
	"io"
	"sync"

	"github.com/trl-dev/trl/api"
)

// maxQueued is how many bytes of pushes are kept for a consumer that is behind, where
// streams share a connection. After that the whole connection waits for it.
const maxQueued = 8 << 20

// pushes is a stream that shares its connection. Recv is used by one goroutine at a
// time; Close may be called at any time, and ends a Recv.
type pushes struct {
	conn  *conn
	ctx   context.Context
	start api.StreamStart // written by the reader before the answer is delivered

	wake chan struct{} // of capacity 1: there may be something for Recv
	room chan struct{} // of capacity 1: there may be room for the reader
	gone chan struct{} // closed by Close

	mu     sync.Mutex
	queue  []push // guarded by mu
	bytes  int    // guarded by mu; of queue
	ended  error  // guarded by mu; what Recv returns behind the last push
	closed bool   // guarded by mu
	last   []byte // guarded by mu; the output that was returned last
	spare  []byte // guarded by mu; for output that comes next
}

// push is one push, with its output beside it or in it.
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

// Recv returns the next push. What had arrived before the connection was lost is
// returned first.
func (s *pushes) Recv() (api.StreamEvent, error) { return withText(s.RecvBytes()) }

// RecvBytes is Recv, but output may be beside the push.
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

// buffer returns a slice for output that comes next, or nil.
func (s *pushes) buffer() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.spare
	s.spare = nil
	return b
}

// Close gives the stream up: pushes that still come are thrown away. The command
// goes on.
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

// size is about what a push takes in memory.
func (p *push) size() int { return 256 + len(p.Data) + len(p.DataBase64) + len(p.data) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
