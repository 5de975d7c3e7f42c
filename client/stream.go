package client

import (
	"context"
	"io"
	"sync"

	"github.com/trl-dev/trl/api"
)

// maxQueued is how many bytes of pushes a Stream keeps for a consumer that is
// behind. After that the whole connection waits for it.
const maxQueued = 8 << 20

// Stream is a stream of pushes from a daemon. Recv is used by one goroutine at a
// time; Close may be called at any time, and ends a Recv.
type Stream struct {
	client *Client
	ctx    context.Context
	start  api.StreamStart // written by the reader before the answer is delivered

	wake chan struct{} // of capacity 1: there may be something for Recv
	room chan struct{} // of capacity 1: there may be room for the reader
	gone chan struct{} // closed by Close

	mu     sync.Mutex
	queue  []*api.StreamEvent // guarded by mu
	bytes  int                // guarded by mu; of queue
	ended  error              // guarded by mu; what Recv returns behind the last push
	closed bool               // guarded by mu
}

func newStream(ctx context.Context, c *Client) *Stream {
	return &Stream{
		client: c, ctx: ctx,
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1), gone: make(chan struct{}),
	}
}

// Start is the immediate answer.
func (s *Stream) Start() api.StreamStart { return s.start }

// Recv returns the next push, and io.EOF after the last. It ends with an error
// when the context of the call that made the stream ends, or the connection is lost;
// what had arrived before that is returned first.
func (s *Stream) Recv() (api.StreamEvent, error) {
	for {
		if ev, err := s.next(); ev != nil || err != nil {
			if ev == nil {
				return api.StreamEvent{}, err
			}
			return *ev, nil
		}
		select {
		case <-s.wake:
		case <-s.gone:
			return api.StreamEvent{}, io.ErrClosedPipe
		case <-s.ctx.Done():
			return api.StreamEvent{}, s.ctx.Err()
		case <-s.client.done:
			if ev, err := s.next(); ev != nil {
				return *ev, nil
			} else if err != nil {
				return api.StreamEvent{}, err
			}
			return api.StreamEvent{}, s.client.failure()
		}
	}
}

// next returns the oldest push; neither it nor an error when there is none yet.
func (s *Stream) next() (*api.StreamEvent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil, s.ended
	}
	ev := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.bytes -= size(ev)
	signal(s.room)
	return ev, nil
}

// Close gives the stream up: pushes that still come are thrown away. The command
// goes on.
func (s *Stream) Close() error {
	s.mu.Lock()
	first := !s.closed
	if first {
		s.closed = true
		s.queue, s.bytes = nil, 0
		close(s.gone)
	}
	s.mu.Unlock()
	if first {
		s.client.dropStream(s)
	}
	return nil
}

func (c *Client) dropStream(s *Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, known := range c.streams {
		if known == s {
			delete(c.streams, id)
		}
	}
}

// push hands a push to its stream, and waits while that is full. Pushes of
// streams that nobody knows are thrown away.
func (c *Client) push(ev *api.StreamEvent) {
	c.mu.Lock()
	s := c.streams[ev.StreamID]
	last := ev.Type == api.EventExit || ev.Type == api.EventError
	if last {
		delete(c.streams, ev.StreamID)
	}
	c.mu.Unlock()
	if s == nil {
		return
	}
	for !s.add(ev, last) {
		select {
		case <-s.room:
		case <-s.gone:
			return
		case <-s.ctx.Done():
			s.Close()
			return
		case <-c.done:
			return
		}
	}
}

// add queues a push. It reports whether there was room.
func (s *Stream) add(ev *api.StreamEvent, last bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return true
	}
	if s.bytes > maxQueued {
		return false
	}
	if ev.Type == api.EventError {
		s.ended = ev.Error
		if ev.Error == nil {
			s.ended = api.Errorf(api.CodeInternal, "stream %s: broke off", ev.StreamID)
		}
	} else {
		s.queue = append(s.queue, ev)
		s.bytes += size(ev)
		if last {
			s.ended = io.EOF
		}
	}
	signal(s.wake)
	return true
}

// size is about what a push takes in memory.
func size(ev *api.StreamEvent) int { return 256 + len(ev.Data) + len(ev.DataBase64) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
