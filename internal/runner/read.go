package runner

import (
	"context"
	"sync"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
)

// readBuffers are for the bytes of answers. A stream at full speed needs a large one for
// each, and collecting them as garbage would cost more than filling them.
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
	res, data, err := e.read(ctx, p, (*buf)[:0])
	owner, wake := e.took(p.Reader, res.Chunks)
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

// read puts the bytes into buf, where they fit.
func (e *Exec) read(ctx context.Context, p link.ReadParams, buf []byte) (link.ReadResult, []byte, error) {
	if last := e.log.Last(); p.AfterSeq > last {
		return link.ReadResult{}, nil, api.Errorf(api.CodeInvalidParams, "params.after_seq: %d is beyond the last number of exec %q, which is %d", p.AfterSeq, e.id, last)
	}
	// Whoever has the exit waits for nothing.
	if _, mark, _ := e.atExit(); p.Wait && (mark == 0 || p.AfterSeq < mark) {
		if err := e.log.Wait(ctx, p.AfterSeq); err != nil {
			return link.ReadResult{}, nil, err
		}
	}
	recs, data, next := e.log.Read(p.AfterSeq, max(p.Limit, output.MaxRecord), buf)
	// The exit is looked at after the output: what has a later number came later.
	oc, mark, execErr := e.atExit()
	res := link.ReadResult{Chunks: make([]link.Chunk, 0, len(recs))}
	size := int64(0)
	for _, rec := range recs {
		if mark > 0 && rec.Seq > mark {
			// What came after the end is for readers of the log. A gap may have begun before.
			if !rec.Gap || oc == nil || p.AfterSeq >= mark-1 || !untilExit(&rec, oc) {
				continue
			}
			rec.Seq = mark - 1
		} else if !rec.Gap {
			size += rec.Len
		}
		res.Chunks = append(res.Chunks, link.Chunk{Seq: rec.Seq, Stream: rec.Stream.String(), Offset: rec.Offset, Len: rec.Len, Gap: rec.Gap})
	}
	if mark > 0 && next >= mark {
		if execErr != nil {
			return res, nil, execErr
		}
		res.Outcome, res.Seq = oc, mark
	}
	return res, data[:size], nil
}

// untilExit cuts a gap to what the command wrote before its end. It is false when
// nothing is left of it.
func untilExit(gap *output.Record, oc *api.ExecOutcome) bool {
	end := oc.StdoutBytes
	if gap.Stream == output.Stderr {
		end = oc.StderrBytes
	}
	gap.Len = min(gap.Len, end-gap.Offset)
	return gap.Len > 0
}

// output is exec.output.
func (r *Runner) output(ctx context.Context, q *link.Request[*link.OutputParams, *link.OutputResult]) error {
	e, err := r.find(q.Params.ExecID)
	if err != nil {
		return err
	}
	res, data, err := e.output(ctx, *q.Params)
	if err == nil {
		q.Answer(&res, data)
	}
	return err
}

func (e *Exec) output(ctx context.Context, p link.OutputParams) (link.OutputResult, []byte, error) {
	st := output.Stdout
	switch p.Stream {
	case api.EventStdout:
	case api.EventStderr:
		st = output.Stderr
	default:
		return link.OutputResult{}, nil, api.Errorf(api.CodeInvalidParams, "params.stream: %q is neither stdout nor stderr", p.Stream)
	}
	offset, total := p.Offset, e.log.Bytes(st)
	if p.Tail > 0 {
		offset = max(total-p.Tail, 0)
	}
	switch {
	case p.Limit < 0:
		return link.OutputResult{}, nil, api.Errorf(api.CodeInvalidParams, "params.limit: must not be negative")
	case offset < 0 || offset > total:
		return link.OutputResult{}, nil, api.Errorf(api.CodeInvalidParams, "params.offset: %d is not in the %s of exec %q, which has %d bytes", offset, p.Stream, e.id, total)
	}
	for {
		// In this order: a log that is closed before it is read has nothing to add, and
		// what comes after the number is taken wakes the waiting.
		closed, last := e.log.Closed(), e.log.Last()
		res, body := e.piece(st, offset, p.Limit)
		res.Complete = closed && res.Offset+int64(len(body)) == res.Total
		if !p.Wait || closed || len(body) > 0 || res.Gap != nil || p.Limit == 0 && res.Total > offset {
			return res, body, nil
		}
		if err := e.log.Wait(ctx, last); err != nil {
			return link.OutputResult{}, nil, err
		}
	}
}

// piece reads up to limit bytes at the offset, or behind the gap that is there.
func (e *Exec) piece(st output.Stream, offset int64, limit int) (link.OutputResult, []byte) {
	e.mu.Lock()
	res := link.OutputResult{Offset: offset, State: e.state}
	e.mu.Unlock()
	n, buf := 0, make([]byte, min(int64(limit), e.log.Bytes(st)-offset))
	for range 2 { // a gap, and what follows it
		var gapTo int64
		n, gapTo, _ = e.log.ReadAt(st, res.Offset, buf)
		if gapTo == 0 {
			break
		}
		res.Gap = &api.Span{From: offset, To: gapTo}
		res.Offset = gapTo
	}
	res.Total = e.log.Bytes(st)
	if from, to := e.log.Gap(st); to > from && to > res.Offset {
		res.NextGap = &api.Span{From: max(from, res.Offset+int64(n)), To: to}
	}
	return res, buf[:n]
}
