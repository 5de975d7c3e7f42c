package service

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

// How much output is fetched at once: the more, the faster a reader takes it. One that
// falls asleep holds little memory, so a thousand of them do no harm.
const (
	minRead = 64 << 10
	maxRead = 256 << 10
	// keepsUp is how long a reader may take for what was fetched to be given more.
	keepsUp = 200 * time.Millisecond
)

// pace is how much a reader is given at once.
type pace struct {
	limit int       // how much was fetched last
	since time.Time // when
}

// next is how much to fetch now.
func (p *pace) next() int {
	if time.Since(p.since) < keepsUp {
		p.limit = min(2*p.limit, maxRead)
	} else {
		p.limit = minRead
	}
	return p.limit
}

// fetched notes that something was fetched.
func (p *pace) fetched() { p.since = time.Now() }

// ExecStream starts a command and pushes its output as it comes; the command goes on
// when its caller goes away, unless the caller says otherwise. Or it pushes the output
// of a command that was started before, which then does not depend on the caller.
func (s *Service) ExecStream(ctx context.Context, p api.ExecStreamParams) (api.Stream, error) {
	if err := s.hold(ctx); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.ExecID != "" {
		return s.reattach(ctx, p)
	}
	found, err := s.execSession(&p.ExecParams, true)
	if err != nil {
		return nil, err
	}
	if p.Backpressure == nil {
		p.Backpressure = new(true)
	}
	info, err := found.Start(ctx, p.ExecParams)
	if err != nil {
		return nil, err
	}
	st := newStream(ctx, found, info.ExecID, p)
	st.start.StreamID, st.tied, st.owner = info.ExecID, !*p.Detach, *p.Backpressure
	st.forget = context.AfterFunc(st.ctx, st.left)
	return st, nil
}

// reattach makes a stream of a command that was started before.
func (s *Service) reattach(ctx context.Context, p api.ExecStreamParams) (api.Stream, error) {
	found, err := s.sessionOf(p.ExecID)
	if err != nil {
		return nil, err
	}
	if err := s.isIn(found, p.ExecID, p.SessionID); err != nil {
		return nil, err
	}
	st := newStream(ctx, found, p.ExecID, p)
	st.start.StreamID = p.ExecID + "/" + strconv.FormatInt(s.streams.Add(1), 10)
	// What is there is read at once: so it is known that there is such a command, and
	// such a number; and to wait behind the end would be to wait for ever.
	if err := st.pull(false); err != nil {
		st.cancel()
		return nil, err
	}
	st.forget = context.AfterFunc(st.ctx, st.left)
	return st, nil
}

// stream pulls the output of one command from its runner and makes pushes of it. It
// has no goroutine of its own: Recv pulls, so what is written in small pieces is
// pushed in large ones only while the reader is busy. Recv is used by one goroutine at
// a time; Close may be called at any time.
//
// The number of a push is that of the record it carries, in every stream of the same
// command. So a reader goes on exactly behind any push.
type stream struct {
	ctx     context.Context
	cancel  context.CancelFunc
	forget  func() bool // stops the calling of left when the caller goes
	tied    bool        // the command is cancelled when the caller goes
	session *session.Session
	start   api.StreamStart
	only    string // when not empty, the stream that is pushed
	from    int64  // the first byte of each stream that is pushed

	// Used by Recv alone.
	ready []api.StreamEvent // what is to be pushed, in order
	after int64             // the last record that was read
	next  map[string]int64  // by stream, where what was read of it ends
	pace  pace
	ended bool

	mu     sync.Mutex
	exited bool // guarded by mu; there is nothing left to cancel
	owner  bool // guarded by mu; the command waits for this stream
}

func newStream(ctx context.Context, s *session.Session, execID string, p api.ExecStreamParams) *stream {
	st := &stream{
		session: s, only: p.Stream, from: p.FromOffset, after: p.AfterSeq, forget: func() bool { return true },
		next:  map[string]int64{api.EventStdout: p.FromOffset, api.EventStderr: p.FromOffset},
		start: api.StreamStart{ExecID: execID, SessionID: s.ID()},
	}
	st.ctx, st.cancel = context.WithCancel(ctx)
	return st
}

// Start is the immediate answer.
func (st *stream) Start() api.StreamStart { return st.start }

// Close gives the stream up. A command that has not ended goes on, or is cancelled
// when this is its first stream and it was not detached.
func (st *stream) Close() error {
	st.cancel()
	return nil
}

// left is called when the caller goes before the command has ended. The caller is gone,
// and with it every context; the runner bounds how long the calls take.
func (st *stream) left() {
	st.mu.Lock()
	exited, owner := st.exited, st.owner
	st.mu.Unlock()
	switch {
	case exited:
	case st.tied:
		_, _ = st.session.Cancel(context.Background(), api.ExecCancelParams{ExecID: st.start.ExecID})
	case owner && !errors.Is(context.Cause(st.ctx), api.ErrDaemonEnding): // the next daemon has readers, too
		st.release()
	}
}

// release tells the runner that the command need not wait for this stream any more. A
// runner of an earlier version cannot be told and answers with output: there the daemon
// reads on in place of the caller.
func (st *stream) release() {
	p := link.ReadParams{ExecID: st.start.ExecID, Reader: st.start.StreamID, Release: true, Limit: maxRead, Wait: true}
	for {
		result, _, err := st.session.Read(context.Background(), p)
		if err != nil || result.Outcome != nil || len(result.Chunks) == 0 {
			return
		}
		p.AfterSeq = result.Chunks[len(result.Chunks)-1].Seq
	}
}

// Recv returns the next push, and io.EOF after the one that tells the exit.
func (st *stream) Recv() (api.StreamEvent, error) {
	for len(st.ready) == 0 {
		if st.ended {
			return api.StreamEvent{}, io.EOF
		}
		if err := st.pull(true); err != nil {
			return api.StreamEvent{}, err
		}
	}
	ev := st.ready[0]
	st.ready[0] = api.StreamEvent{}
	st.ready = st.ready[1:]
	return ev, nil
}

// pull fetches more output, or the exit; with wait it waits for it.
func (st *stream) pull(wait bool) error {
	result, text, err := st.session.Read(st.ctx, link.ReadParams{ExecID: st.start.ExecID, AfterSeq: st.after, Limit: st.pace.next(), Wait: wait, Reader: st.start.StreamID})
	if err != nil {
		return err
	}
	st.pace.fetched()
	st.mu.Lock()
	st.owner = st.owner || result.Owner
	st.mu.Unlock()
	err = eachChunk(st.start.ExecID, result, text, func(c link.Chunk, data []byte) {
		st.take(c, data)
		st.after = c.Seq
	})
	if err == nil && result.Outcome != nil {
		st.exit(result)
	}
	return err
}

// eachChunk calls f with every record of an answer and its bytes; a gap has none.
func eachChunk(execID string, r link.ReadResult, text []byte, f func(c link.Chunk, data []byte)) error {
	for _, c := range r.Chunks {
		n := c.Len
		if c.Gap {
			n = 0
		}
		if n < 0 || n > int64(len(text)) {
			return api.Errorf(api.CodeInternal, "exec %q: the runner told of more output than it sent", execID)
		}
		f(c, text[:n])
		text = text[n:]
	}
	return nil
}

// take makes a push of one record.
func (st *stream) take(c link.Chunk, data []byte) {
	if st.only != "" && c.Stream != st.only {
		return
	}
	have, end := st.next[c.Stream], c.Offset+c.Len
	if end <= have {
		return
	}
	st.next[c.Stream] = end
	// A gap may begin with bytes that are gone there, but not here; and any record with
	// bytes that the reader does not want.
	from := max(c.Offset, have)
	if c.Gap {
		st.push(api.StreamEvent{Seq: c.Seq, Type: api.EventGap, Stream: c.Stream, From: &from, To: &end})
		return
	}
	ev := api.StreamEvent{Seq: c.Seq, Type: c.Stream, Offset: &from}
	ev.Data, ev.DataBase64 = api.Text(data[from-c.Offset:])
	st.push(ev)
}

func (st *stream) push(ev api.StreamEvent) {
	ev.StreamID = st.start.StreamID
	st.ready = append(st.ready, ev)
}

func (st *stream) exit(r link.ReadResult) {
	st.mu.Lock()
	st.exited = true
	st.mu.Unlock()
	st.forget()
	st.ended = true
	outcome := *r.Outcome
	session.FillLists(&outcome)
	st.push(api.StreamEvent{Seq: r.Seq, Type: api.EventExit, ExecOutcome: &outcome})
}
