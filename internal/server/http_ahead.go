package server

import (
	"context"
	"log/slog"

	"github.com/trl-dev/trl/api"
)

// ahead reads a stream one piece ahead of its consumer, so that reading and writing do not
// wait for each other.
//
// Goroutines: at most one, which close waits for.
type ahead struct {
	output
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	offset int64 // of the next piece
	end    int64 // where to stop; negative for never
	next   chan fetched
}

type fetched struct {
	out api.OutputBytes
	err error
}

func (x *exchange) readAhead(o output, offset, end int64) *ahead {
	a := &ahead{output: o, log: x.log, offset: offset, end: end}
	a.ctx, a.cancel = context.WithCancel(x.ctx)
	a.fetch()
	return a
}

// fetch begins to read the next piece. It waits for one that has not been written yet.
func (a *ahead) fetch() {
	limit := int64(rawBytes)
	if a.end >= 0 {
		limit = min(limit, a.end-a.offset)
	}
	offset, next := a.offset, make(chan fetched, 1)
	go func() {
		var f fetched
		defer func() {
			if r := recover(); r != nil {
				f.err = panicked(a.log, a.method, r)
			}
			next <- f
		}()
		f.out, f.err = a.read(a.ctx, offset, limit, true)
	}()
	a.next = next
}

// take returns the next piece, which may begin behind a gap. After one that is complete
// or reaches the end, nothing may be taken any more.
func (a *ahead) take() (api.OutputBytes, error) {
	f := <-a.next
	a.next = nil
	if f.err != nil || f.out.Offset != a.offset {
		return f.out, f.err
	}
	if a.offset += int64(len(f.out.Bytes)); !f.out.Complete && a.offset != a.end {
		a.fetch()
	}
	return f.out, nil
}

func (a *ahead) close() {
	a.cancel()
	if a.next != nil {
		<-a.next
	}
}
