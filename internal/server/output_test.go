package server_test

import (
	"context"
	"io"
	"sync"

	"github.com/trl-dev/trl/api"
)

// oldExec is a command that was started before, with what it has written to stdout:
// each write is a record. It may still run.
type oldExec struct {
	id string

	mu      sync.Mutex
	records []string
	all     []byte   // the records in one piece
	gap     api.Span // bytes that were dropped
	exited  bool
	changed chan struct{} // closed at the next change
}

func (s *service) oldExec(id string, records ...string) *oldExec {
	e := &oldExec{id: id, changed: make(chan struct{})}
	for _, r := range records {
		e.write(r)
	}
	s.mu.Lock()
	s.execs[id] = e
	s.mu.Unlock()
	return e
}

func (e *oldExec) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *oldExec) write(text string) {
	e.change(func() { e.records, e.all = append(e.records, text), append(e.all, text...) })
}

func (e *oldExec) exit() *oldExec { e.change(func() { e.exited = true }); return e }

// forget makes the service deny that there ever was such a command.
func (s *service) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.execs, id)
}

// drop makes the bytes [from, to) gone.
func (e *oldExec) drop(from, to int64) *oldExec {
	e.change(func() { e.gap = api.Span{From: from, To: to} })
	return e
}

func (s *service) find(id string) (*oldExec, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.execs[id]; e != nil {
		return e, nil
	}
	return nil, api.Errorf(api.CodeExecNotFound, "exec %q: not found", id)
}

func (s *service) ExecInfo(_ context.Context, p api.ExecInfoParams) (api.ExecInfo, error) {
	e, err := s.find(p.ExecID)
	if err != nil {
		return api.ExecInfo{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	info := api.ExecInfo{ExecID: e.id, State: api.ExecRunning, LastSeq: int64(len(e.records))}
	if e.exited {
		info.State, info.Outcome = api.ExecClosed, &api.ExecOutcome{}
	}
	return info, nil
}

// replay pushes the records after a number, then the exit, whose number is the next.
func (s *service) replay(ctx context.Context, p api.ExecStreamParams) (api.Stream, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	e, err := s.find(p.ExecID)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	last, exited := int64(len(e.records)), e.exited
	e.mu.Unlock()
	switch {
	case exited && p.AfterSeq == last+1: // a reader that has the exit gets it again
		p.AfterSeq = last
	case exited && p.AfterSeq > last:
		return nil, api.Errorf(api.CodeInvalidParams, "params.after_seq: %d is behind the end", p.AfterSeq)
	}
	return &replay{service: s, ctx: ctx, exec: e, seq: p.AfterSeq}, nil
}

type replay struct {
	service *service
	ctx     context.Context
	exec    *oldExec
	seq     int64
}

func (r *replay) Start() api.StreamStart {
	return api.StreamStart{StreamID: r.exec.id, ExecID: r.exec.id, SessionID: "s"}
}

func (r *replay) Recv() (api.StreamEvent, error) {
	for {
		r.exec.mu.Lock()
		last, exited, changed := int64(len(r.exec.records)), r.exec.exited, r.exec.changed
		ev := api.StreamEvent{StreamID: r.exec.id, Seq: r.seq + 1, Type: api.EventExit, ExecOutcome: &api.ExecOutcome{}}
		if r.seq < last {
			var offset int64
			for _, before := range r.exec.records[:r.seq] {
				offset += int64(len(before))
			}
			ev = api.StreamEvent{StreamID: r.exec.id, Seq: r.seq + 1, Type: api.EventStdout, Offset: &offset, Data: r.exec.records[r.seq]}
		}
		r.exec.mu.Unlock()
		switch {
		case r.seq < last || exited && r.seq == last:
			r.seq++
			return ev, nil
		case exited:
			return api.StreamEvent{}, io.EOF
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			return api.StreamEvent{}, context.Cause(r.ctx)
		}
	}
}

func (r *replay) Close() error {
	r.service.closed <- r.exec.id
	return nil
}

// ReadOutput reads the bytes of stdout; stderr is empty.
func (s *service) ReadOutput(ctx context.Context, p api.ExecOutputParams, wait bool) (api.OutputBytes, error) {
	e, err := s.find(p.ExecID)
	if err != nil {
		return api.OutputBytes{}, err
	}
	if p.ExecID == "x-panic" && *p.Limit > 0 {
		panic("the secret of the panic")
	}
	for {
		e.mu.Lock()
		var all []byte // what is written to it later is behind its end
		if p.Stream == api.EventStdout {
			all = e.all
		}
		gap, exited, changed := e.gap, e.exited, e.changed
		e.mu.Unlock()
		total := int64(len(all))
		if wait && p.Offset >= total && !exited {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return api.OutputBytes{}, context.Cause(ctx)
			}
		}
		r := api.ExecOutputResult{ExecID: e.id, Stream: p.Stream, Offset: p.Offset, TotalBytes: total, State: api.ExecRunning}
		if exited {
			r.State = api.ExecClosed
		}
		end := min(total, p.Offset+*p.Limit)
		switch {
		case gap.From <= p.Offset && p.Offset < gap.To:
			r.Gap, r.Offset = &api.Span{From: p.Offset, To: gap.To}, gap.To
			end = min(total, r.Offset+*p.Limit)
		case p.Offset < gap.From:
			end = min(end, gap.From)
			r.NextGap = &gap
		}
		r.NextOffset = max(end, r.Offset)
		r.Complete = exited && r.NextOffset == total
		if r.Offset >= total {
			return api.OutputBytes{ExecOutputResult: r}, nil
		}
		return api.OutputBytes{ExecOutputResult: r, Bytes: all[r.Offset:r.NextOffset]}, nil
	}
}

// EventSubscribe pushes a few events, the numbers of which follow after_seq, and then
// waits. The name of each contains the parameters.
func (s *service) EventSubscribe(ctx context.Context, p api.EventSubscribeParams) (api.Stream, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	var after int64 = 100
	if p.AfterSeq != nil {
		after = *p.AfterSeq
	}
	return &happenings{ctx: ctx, p: p, start: after, seq: after}, nil
}

type happenings struct {
	ctx        context.Context
	p          api.EventSubscribeParams
	start, seq int64
}

func (h *happenings) Start() api.StreamStart { return api.StreamStart{StreamID: "e", Seq: h.start} }

func (h *happenings) Recv() (api.StreamEvent, error) {
	if h.seq == h.start+3 {
		<-h.ctx.Done()
		return api.StreamEvent{}, context.Cause(h.ctx)
	}
	h.seq++
	return api.StreamEvent{StreamID: "e", Seq: h.seq, Type: api.EventSessionIdle, SessionID: h.p.SessionID, Cause: joinWords(h.p.Types)}, nil
}

func (h *happenings) Close() error { return nil }

func joinWords(words []string) string {
	text := ""
	for _, w := range words {
		text += w + ";"
	}
	return text
}
