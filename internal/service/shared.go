package service

import (
	"context"
	"sync"
)

// shared lets callers that want the same expensive answer at the same time share one. The first
// caller finds it, and the others wait. If the first caller gives up, another one starts again.
type shared[T any] struct {
	mu  sync.Mutex
	now *finding[T] // guarded by mu; nil while no caller looks for an answer
}

// finding is one attempt to find the answer. Its fields are set when done is closed.
type finding[T any] struct {
	done    chan struct{}
	answer  T
	err     error
	givenUp bool
}

// get returns the answer that find finds, for this caller or for another one.
func (s *shared[T]) get(ctx context.Context, find func(context.Context) (T, error)) (T, error) {
	for {
		s.mu.Lock()
		f := s.now
		first := f == nil
		if first {
			f = &finding[T]{done: make(chan struct{})}
			s.now = f
		}
		s.mu.Unlock()
		if first {
			s.find(ctx, f, find)
			return f.answer, f.err
		}
		select {
		case <-f.done:
			if !f.givenUp {
				return f.answer, f.err
			}
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

func (s *shared[T]) find(ctx context.Context, f *finding[T], find func(context.Context) (T, error)) {
	f.givenUp = true // also if find panics
	defer func() {
		s.mu.Lock()
		s.now = nil
		s.mu.Unlock()
		close(f.done)
	}()
	f.answer, f.err = find(ctx)
	f.givenUp = ctx.Err() != nil
}
