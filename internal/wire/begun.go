package wire

import (
	"context"
	"sync/atomic"
)

// Begun is an exec.stream that this process has sent before it could make a client. A client
// continues with the connection instead of sending the request again.
type Begun struct {
	// FD is the connection, on which no other request is unanswered. The client closes it.
	FD int
	// RunID is the run_id of the request.
	RunID string
	// Received are all bytes that the daemon sent after the request.
	Received []byte
	// Printed has, for each stream of output, the offset after the last byte that the caller has
	// printed already.
	Printed map[string]int64
}

type begunKey struct{}

// WithBegun returns a context whose first exec.stream is one that has been sent already.
func WithBegun(ctx context.Context, b *Begun) context.Context {
	p := &atomic.Pointer[Begun]{}
	p.Store(b)
	return context.WithValue(ctx, begunKey{}, p)
}

// TakeBegun returns the request of WithBegun to the first caller, nil to every other.
func TakeBegun(ctx context.Context) *Begun {
	p, ok := ctx.Value(begunKey{}).(*atomic.Pointer[Begun])
	if !ok {
		return nil
	}
	return p.Swap(nil)
}
