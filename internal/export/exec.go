package export

import (
	"context"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/search"
)

// Exec reads the output of a command, of a live session or of one that has ended. It is safe for
// concurrent use.
type Exec struct {
	ID  string
	Log *output.Log
	// Status returns how far the command is. Its values belong to the same moment.
	Status func() Status
}

// Status is how far a command is.
type Status struct {
	State   api.ExecState
	Outcome *api.ExecOutcome // nil before the exit
	Mark    int64            // the sequence number of the exit; 0 before it
	Err     error            // why the command could not start
}

// Ended makes the Exec of a command that has ended.
func Ended(id string, log *output.Log, s Status) *Exec {
	return &Exec{ID: id, Log: log, Status: func() Status { return s }}
}

// Read answers exec.read. It puts the bytes into buf if they fit.
func (e *Exec) Read(ctx context.Context, p link.ReadParams, buf []byte) (link.ReadResult, []byte, error) {
	if last := e.Log.Last(); p.AfterSeq > last {
		return link.ReadResult{}, nil, api.InvalidParam("after_seq", "%d is beyond the last number of exec %q, which is %d", p.AfterSeq, e.ID, last)
	}
	// A reader that has the exit has everything there is to wait for.
	if mark := e.Status().Mark; p.Wait && (mark == 0 || p.AfterSeq < mark) {
		if err := e.Log.Wait(ctx, p.AfterSeq); err != nil {
			return link.ReadResult{}, nil, err
		}
	}
	recs, data, next := e.Log.Read(p.AfterSeq, max(p.Limit, output.MaxRecord), buf)
	// The status is read after the output: a record with a higher number than the exit came
	// after it.
	status := e.Status()
	oc, mark := status.Outcome, status.Mark
	res := link.ReadResult{Chunks: make([]link.Chunk, 0, len(recs))}
	size := int64(0)
	for _, rec := range recs {
		if mark > 0 && rec.Seq > mark {
			// Output after the exit is not part of the stream. A gap may have begun before it.
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
		if status.Err != nil {
			return res, nil, status.Err
		}
		res.Outcome, res.Seq = oc, mark
	}
	return res, data[:size], nil
}

// untilExit cuts a gap to the bytes that the command wrote before its exit. It returns false if
// there are none.
func untilExit(gap *output.Record, oc *api.ExecOutcome) bool {
	end := oc.StdoutBytes
	if gap.Stream == output.Stderr {
		end = oc.StderrBytes
	}
	gap.Len = min(gap.Len, end-gap.Offset)
	return gap.Len > 0
}

// Output answers exec.output.
func (e *Exec) Output(ctx context.Context, p link.OutputParams) (link.OutputResult, []byte, error) {
	st := output.Stdout
	switch p.Stream {
	case api.EventStdout:
	case api.EventStderr:
		st = output.Stderr
	default:
		return link.OutputResult{}, nil, api.InvalidParam("stream", "%q is neither stdout nor stderr", p.Stream)
	}
	offset, total := p.Offset, e.Log.Bytes(st)
	if p.Tail > 0 {
		offset = max(total-p.Tail, 0)
	}
	switch {
	case p.Limit < 0:
		return link.OutputResult{}, nil, api.InvalidParam("limit", "must not be negative")
	case offset < 0 || offset > total:
		return link.OutputResult{}, nil, api.InvalidParam("offset", "%d is not in the %s of exec %q, which has %d bytes", offset, p.Stream, e.ID, total)
	}
	for {
		// The order matters: a log that was closed before the read has nothing to add, and
		// output that arrives after Last was read wakes Wait.
		closed, last := e.Log.Closed(), e.Log.Last()
		res, body := e.piece(st, offset, p.Limit)
		res.Complete = closed && res.Offset+int64(len(body)) == res.Total
		if !p.Wait || closed || len(body) > 0 || res.Gap != nil || p.Limit == 0 && res.Total > offset {
			return res, body, nil
		}
		if err := e.Log.Wait(ctx, last); err != nil {
			return link.OutputResult{}, nil, err
		}
	}
}

// Grep answers exec.grep.
func (e *Exec) Grep(ctx context.Context, p link.GrepParams) (link.GrepResult, []byte, error) {
	return search.Grep(ctx, p, func(o link.OutputParams) (link.OutputResult, []byte, error) { return e.Output(ctx, o) })
}

// Match answers exec.match.
func (e *Exec) Match(ctx context.Context, p link.MatchParams) (link.MatchResult, []byte, error) {
	return search.Match(ctx, p, func(r link.ReadParams) (link.ReadResult, []byte, error) { return e.Read(ctx, r, nil) })
}

// piece reads up to limit bytes at the offset, or after the gap that is there.
func (e *Exec) piece(st output.Stream, offset int64, limit int) (link.OutputResult, []byte) {
	res := link.OutputResult{Offset: offset, State: e.Status().State}
	n, buf := 0, make([]byte, min(int64(limit), e.Log.Bytes(st)-offset))
	for range 2 { // a gap, and what follows it
		var gapTo int64
		n, gapTo, _ = e.Log.ReadAt(st, res.Offset, buf)
		if gapTo == 0 {
			break
		}
		res.Gap = &api.Span{From: offset, To: gapTo}
		res.Offset = gapTo
	}
	res.Total = e.Log.Bytes(st)
	if from, to := e.Log.Gap(st); to > from && to > res.Offset {
		res.NextGap = &api.Span{From: max(from, res.Offset+int64(n)), To: to}
	}
	return res, buf[:n]
}
