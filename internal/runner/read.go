package runner

import (
	"context"
	"sync"

	"github.com/trl-dev/trl/internal/link"
)

// readBuffers hold the bytes of answers. A stream at full speed needs a large buffer for each
// answer, and collecting the buffers as garbage would cost more than filling them.
var readBuffers = sync.Pool{New: func() any { return new([]byte) }}

// read is exec.read.
func (r *Runner) read(ctx context.Context, q *link.Request[*link.ReadParams, *link.ReadResult]) error {
	p := *q.Params
	e, err := r.find(p.ExecID)
	if err != nil {
		return err
	}
	if p.Release {
		e.release(p.Reader)
		q.Answer(&link.ReadResult{}, nil)
		return nil
	}
	buf := readBuffers.Get().(*[]byte)
	res, data, err := e.Read(ctx, p, (*buf)[:0])
	owner, wake := r.took(q.Conn(), e, p.Reader, res.Chunks)
	if res.Owner = owner; wake {
		e.task.wake()
	}
	if err != nil {
		return err
	}
	q.Answer(&res, data)
	*buf = data
	readBuffers.Put(buf)
	return nil
}

// took is Exec.took for a reader of the daemon. A read that ends after its daemon has gone is of no
// reader: the command would wait for it, and not for the reader of the next daemon.
func (r *Runner) took(conn *link.Conn, e *Exec, reader string, chunks []link.Chunk) (owner, wake bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if conn != r.conn {
		return false, false
	}
	return e.took(reader, chunks)
}

// output is exec.output.
func (r *Runner) output(ctx context.Context, q *link.Request[*link.OutputParams, *link.OutputResult]) error {
	e, err := r.find(q.Params.ExecID)
	if err != nil {
		return err
	}
	res, data, err := e.Output(ctx, *q.Params)
	if err == nil {
		q.Answer(&res, data)
	}
	return err
}

// grep is exec.grep.
func (r *Runner) grep(ctx context.Context, q *link.Request[*link.GrepParams, *link.GrepResult]) error {
	e, err := r.find(q.Params.ExecID)
	if err != nil {
		return err
	}
	res, data, err := e.Grep(ctx, *q.Params)
	if err == nil {
		q.Answer(&res, data)
	}
	return err
}

// match is exec.match.
func (r *Runner) match(ctx context.Context, q *link.Request[*link.MatchParams, *link.MatchResult]) error {
	e, err := r.find(q.Params.ExecID)
	if err != nil {
		return err
	}
	res, data, err := e.Match(ctx, *q.Params)
	if err == nil {
		q.Answer(&res, data)
	}
	return err
}
