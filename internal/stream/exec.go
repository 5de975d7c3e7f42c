package stream

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

// NewExec makes the stream of a command that was just started, for the caller who started it.
// p.Detach and p.Backpressure must be set.
func NewExec(ctx context.Context, s *session.Session, execID string, p api.ExecStreamParams) api.Stream {
	st := newExec(ctx, s, execID, p)
	st.start.StreamID, st.tied, st.owner = execID, !*p.Detach, *p.Backpressure
	st.due = s.Due(p.ExecParams)
	st.forget = context.AfterFunc(st.ctx, st.left)
	return st
}

// FollowExec makes another stream of the command p.ExecID, with the given id.
func FollowExec(ctx context.Context, s *session.Session, streamID string, p api.ExecStreamParams) (api.Stream, error) {
	st := newExec(ctx, s, p.ExecID, p)
	st.start.StreamID = streamID
	// The first read does not wait. It checks the id of the command and the number, and it finds
	// the exit of a command that has ended, for which a wait would not return.
	if err := st.pull(false); err != nil {
		st.cancel()
		return nil, err
	}
	st.tied = p.Detach != nil && !*p.Detach
	st.forget = context.AfterFunc(st.ctx, st.left)
	return st, nil
}

// exec pulls the output of one command from its runner and pushes it. Recv pulls, so small
// pieces of output become large pushes only while the reader is busy. Only one goroutine at a
// time may call Recv; Close may be called at any time.
//
// Goroutines: at most one, which fetches ahead and ends with the stream.
//
// A push has the number of its record in the log, in every stream of the same command, so a
// reader can resume exactly after any push.
type exec struct {
	ctx     context.Context
	cancel  context.CancelFunc
	forget  func() bool // cancels the call of left when the caller goes away
	tied    bool        // the command is cancelled when the caller goes away
	due     time.Time   // when the command reaches its timeout; zero for never or unknown
	session *session.Session
	start   api.StreamStart
	only    string // if not empty, only stdout or only stderr
	from    int64  // the offset of the first byte that is pushed

	// Used by Recv alone.
	ready []pushed         // the next pushes, in order
	text  []byte           // their output
	asks  chan fetching    // to the goroutine that fetches ahead; nil before it is started
	ahead chan pulled      // from that goroutine
	busy  bool             // a fetch ahead is under way, or its answer waits in ahead
	after int64            // the number of the last record that was read
	next  map[string]int64 // by stream, the end of the output that was read
	pace  pace
	ended bool

	mu     sync.Mutex
	exited bool // guarded by mu; the command has ended
	owner  bool // guarded by mu; the command waits for this stream
}

func newExec(ctx context.Context, s *session.Session, execID string, p api.ExecStreamParams) *exec {
	st := &exec{
		session: s, only: p.Stream, from: p.FromOffset, after: p.AfterSeq, forget: func() bool { return true },
		next:  map[string]int64{api.EventStdout: p.FromOffset, api.EventStderr: p.FromOffset},
		start: api.StreamStart{ExecID: execID, SessionID: s.ID()},
	}
	st.ctx, st.cancel = context.WithCancel(ctx)
	return st
}

// Start is the immediate answer.
func (st *exec) Start() api.StreamStart { return st.start }

// Close ends the stream. A running command goes on, unless this is its first stream and it was
// not detached: then it is cancelled.
func (st *exec) Close() error {
	st.cancel()
	return nil
}

// left is called when the caller goes away before the command has ended. The contexts of the
// caller have ended, so the calls have none; the runner bounds how long they take.
func (st *exec) left() {
	st.mu.Lock()
	exited, owner := st.exited, st.owner
	st.mu.Unlock()
	switch {
	case exited:
	case st.tied:
		st.session.Drop(st.start.ExecID)
	case owner && !errors.Is(context.Cause(st.ctx), api.ErrDaemonEnding): // the command waits for readers of the next daemon
		st.release()
	}
}

// release makes the command stop waiting for this stream. A runner of an earlier version does not
// know that request and answers with output: then the daemon reads on in place of the caller.
func (st *exec) release() {
	p := link.ReadParams{ExecID: st.start.ExecID, Reader: st.start.StreamID, Release: true, Limit: maxRead, Wait: true}
	for {
		result, _, err := st.session.Read(context.Background(), p)
		if session.IsUnreachable(err) {
			continue // the command waits for its reader until the runner receives this
		}
		if err != nil || result.Outcome != nil || len(result.Chunks) == 0 {
			return
		}
		p.AfterSeq = result.Chunks[len(result.Chunks)-1].Seq
	}
}

// pushed is one push with its output: the bytes [from, to) of a fetch.
type pushed struct {
	api.StreamEvent
	text     []byte
	from, to int
}

// Recv returns the next push, and io.EOF after that of the exit.
func (st *exec) Recv() (api.StreamEvent, error) {
	if err := st.fill(); err != nil {
		return api.StreamEvent{}, err
	}
	p := st.pop()
	if p.text != nil {
		p.Data, p.DataBase64 = api.Text(p.text[p.from:p.to])
	}
	return p.StreamEvent, nil
}

// RecvBytes implements api.ByteStream.
func (st *exec) RecvBytes() (api.StreamEvent, []byte, error) {
	if err := st.fill(); err != nil {
		return api.StreamEvent{}, nil, err
	}
	p := st.pop()
	// Records that follow each other become one push, with the number of the last.
	for p.text != nil && len(st.ready) > 0 && p.continues(&st.ready[0]) {
		next := st.pop()
		p.Seq, p.to = next.Seq, next.to
	}
	return p.StreamEvent, p.text[p.from:p.to:p.to], nil
}

// continues reports whether next is more of the same output.
func (p *pushed) continues(next *pushed) bool {
	return next.text != nil && next.Type == p.Type && next.from == p.to && *next.Offset == *p.Offset+int64(p.to-p.from)
}

// fill makes sure that ready has a push.
func (st *exec) fill() error {
	for len(st.ready) == 0 {
		if st.ended {
			return io.EOF
		}
		if err := st.pull(true); err != nil {
			return err
		}
	}
	return nil
}

func (st *exec) pop() pushed {
	p := st.ready[0]
	st.ready[0] = pushed{}
	st.ready = st.ready[1:]
	return p
}

// pulled is the result of a fetch.
type pulled struct {
	link.ReadResult
	text []byte
	err  error
}

// fetching are the parameters of a fetch.
type fetching struct {
	after int64
	limit int
	wait  bool
}

// fetch reads from the runner.
func (st *exec) fetch(f fetching) (p pulled) {
	params := link.ReadParams{ExecID: st.start.ExecID, AfterSeq: f.after, Limit: f.limit, Wait: f.wait, Reader: st.start.StreamID}
	p.ReadResult, p.text, p.err = st.session.ReadDue(st.ctx, params, st.due)
	return p
}

// fetchAhead starts the next fetch while the reader is busy. One goroutine does all of them,
// because a new one would have to grow its stack each time.
func (st *exec) fetchAhead(f fetching) {
	if st.asks == nil {
		st.asks, st.ahead = make(chan fetching, 1), make(chan pulled, 1)
		go func() {
			for {
				select {
				case f := <-st.asks:
					st.ahead <- st.fetch(f)
				case <-st.ctx.Done():
					return
				}
			}
		}()
	}
	st.busy = true
	st.asks <- f
}

// pull fetches more output or the exit; with wait it waits for one. After a large fetch there is
// probably more, so pull starts the next fetch while the reader is busy with this one.
func (st *exec) pull(wait bool) error {
	var p pulled
	if st.busy {
		select {
		case p = <-st.ahead:
			st.busy = false
		case <-st.ctx.Done(): // the goroutine may have ended before it received the request
			return st.ctx.Err()
		}
	} else {
		p = st.fetch(fetching{st.after, st.pace.next(), wait})
	}
	if p.err != nil {
		return p.err
	}
	result, text := p.ReadResult, p.text
	link.Release(st.text) // all its pushes were returned, and their bytes are valid until the next call
	st.text = text
	if n := len(result.Chunks); n > 0 && result.Outcome == nil && len(text) >= minRead {
		st.fetchAhead(fetching{result.Chunks[n-1].Seq, st.pace.next(), true})
	}
	st.pace.fetched()
	st.mu.Lock()
	st.owner = st.owner || result.Owner
	st.mu.Unlock()
	at := 0
	err := result.EachChunk(st.start.ExecID, text, func(c link.Chunk, data []byte) {
		st.take(c, text, at)
		at += len(data)
		st.after = c.Seq
	})
	if err == nil && result.Outcome != nil {
		st.exit(result)
	}
	return err
}

// take makes a push of one record, whose bytes begin at text[at]; a gap has none.
func (st *exec) take(c link.Chunk, text []byte, at int) {
	if st.only != "" && c.Stream != st.only {
		return
	}
	have, end := st.next[c.Stream], c.Offset+c.Len
	if end <= have {
		return
	}
	st.next[c.Stream] = end
	// A gap may cover bytes that the reader already has, and the first record may begin before
	// the offset from which the reader wants bytes.
	from := max(c.Offset, have)
	if c.Gap {
		st.push(pushed{StreamEvent: api.StreamEvent{Seq: c.Seq, Type: api.EventGap, Stream: c.Stream, From: &from, To: &end}})
		return
	}
	ev := api.StreamEvent{Seq: c.Seq, Type: c.Stream, Offset: &from}
	st.push(pushed{StreamEvent: ev, text: text, from: at + int(from-c.Offset), to: at + int(c.Len)})
}

func (st *exec) push(p pushed) {
	p.StreamID = st.start.StreamID
	st.ready = append(st.ready, p)
}

func (st *exec) exit(r link.ReadResult) {
	st.mu.Lock()
	st.exited = true
	st.mu.Unlock()
	st.forget()
	st.ended = true
	outcome := *r.Outcome
	session.FillLists(&outcome)
	st.push(pushed{StreamEvent: api.StreamEvent{Seq: r.Seq, Type: api.EventExit, ExecOutcome: &outcome}})
}
