package service

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

const (
	// readLimit is how much output is fetched at once.
	readLimit = 256 << 10
	// holdBack is how long the beginning of a character waits for its rest.
	holdBack = 50 * time.Millisecond
)

// stream pulls the output of one command from its runner and makes pushes of it. It
// has no goroutine of its own: Recv pulls. Recv is used by one goroutine at a time;
// Close may be called at any time.
//
// A character is not torn in two pushes: its first bytes wait until the rest comes,
// the command ends, or holdBack is over. So a push may carry bytes of two records; its
// number is that of the last. Numbers never go down.
type stream struct {
	ctx     context.Context
	cancel  context.CancelFunc
	forget  func() bool // stops the cancelling of the command when the caller goes
	session *session.Session
	start   api.StreamStart

	// Used by Recv alone.
	ready    []api.StreamEvent // what is to be pushed, in order
	after    int64             // the last record that was read
	seq      int64             // the last number that was used
	next     map[string]int64  // by stream, where what was read of it ends
	tails    map[string]*tail  // by stream
	deadline time.Time         // when tails are pushed as they are; zero without any
	ended    bool

	mu     sync.Mutex
	exited bool // guarded by mu; there is nothing left to cancel
}

// tail is the beginning of a character.
type tail struct {
	bytes  []byte
	offset int64
}

// newStream makes the stream of a command that was started. When the caller goes and
// the command is not detached, it is cancelled.
func newStream(ctx context.Context, s *session.Session, info api.ExecInfo, detach bool) *stream {
	st := &stream{
		session: s, next: map[string]int64{}, tails: map[string]*tail{},
		start: api.StreamStart{StreamID: info.ExecID, ExecID: info.ExecID, SessionID: s.ID()},
	}
	st.ctx, st.cancel = context.WithCancel(ctx)
	st.forget = func() bool { return true }
	if !detach {
		st.forget = context.AfterFunc(st.ctx, st.cancelCommand)
	}
	return st
}

// Start is the immediate answer.
func (st *stream) Start() api.StreamStart { return st.start }

// Close gives the stream up. A command that has not ended goes on, or is cancelled
// when it was not detached.
func (st *stream) Close() error {
	st.cancel()
	return nil
}

func (st *stream) cancelCommand() {
	st.mu.Lock()
	exited := st.exited
	st.mu.Unlock()
	if exited {
		return
	}
	// The caller is gone, and with it every context; the runner bounds how long it takes.
	_, _ = st.session.Cancel(context.Background(), api.ExecCancelParams{ExecID: st.start.ExecID})
}

// Recv returns the next push, and io.EOF after the one that tells the exit.
func (st *stream) Recv() (api.StreamEvent, error) {
	for len(st.ready) == 0 {
		if st.ended {
			return api.StreamEvent{}, io.EOF
		}
		if err := st.pull(); err != nil {
			return api.StreamEvent{}, err
		}
	}
	ev := st.ready[0]
	st.ready[0] = api.StreamEvent{}
	st.ready = st.ready[1:]
	return ev, nil
}

// pull waits for more output, or for the time at which what is held back is pushed.
func (st *stream) pull() error {
	ctx := st.ctx
	if !st.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(st.ctx, st.deadline)
		defer cancel()
	}
	result, text, err := st.session.Read(ctx, link.ReadParams{ExecID: st.start.ExecID, AfterSeq: st.after, Limit: readLimit, Wait: true})
	if err != nil {
		if st.ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			st.flushAll() // reading again begins where this read would have
			return nil
		}
		return err
	}
	for _, c := range result.Chunks {
		n := c.Len
		if c.Gap {
			n = 0
		}
		if n < 0 || n > int64(len(text)) {
			return api.Errorf(api.CodeInternal, "exec %q: the runner told of more output than it sent", st.start.ExecID)
		}
		st.take(c, text[:n])
		text = text[n:]
		st.after = c.Seq
	}
	if result.Outcome != nil {
		st.flushAll()
		st.exit(result)
	}
	return nil
}

// take makes pushes of one record.
func (st *stream) take(c link.Chunk, data []byte) {
	have := st.next[c.Stream]
	st.next[c.Stream] = max(have, c.Offset+c.Len)
	if c.Gap {
		// It may begin with bytes that are gone there, but not here.
		from, to := max(c.Offset, have), c.Offset+c.Len
		if from >= to {
			return
		}
		st.flush(c.Stream)
		st.push(api.StreamEvent{Seq: c.Seq, Type: api.EventGap, Stream: c.Stream, From: &from, To: &to})
		return
	}
	offset := c.Offset
	if t := st.tails[c.Stream]; t != nil {
		if t.offset+int64(len(t.bytes)) == c.Offset {
			data = append(t.bytes, data...)
			offset = t.offset
			delete(st.tails, c.Stream)
		} else {
			st.flush(c.Stream) // the runner dropped what was between
		}
	}
	whole := len(data) - incomplete(data)
	if whole < len(data) {
		st.tails[c.Stream] = &tail{bytes: append([]byte(nil), data[whole:]...), offset: offset + int64(whole)}
		if st.deadline.IsZero() {
			st.deadline = time.Now().Add(holdBack)
		}
	}
	if whole > 0 {
		st.pushData(c.Seq, c.Stream, offset, data[:whole])
	}
	if len(st.tails) == 0 {
		st.deadline = time.Time{}
	}
}

// flushAll pushes what is held back as it is.
func (st *stream) flushAll() {
	st.flush(api.EventStdout)
	st.flush(api.EventStderr)
	st.deadline = time.Time{}
}

func (st *stream) flush(name string) {
	if t := st.tails[name]; t != nil {
		delete(st.tails, name)
		st.pushData(st.after, name, t.offset, t.bytes)
	}
}

func (st *stream) pushData(seq int64, name string, offset int64, data []byte) {
	ev := api.StreamEvent{Seq: seq, Type: name, Offset: &offset}
	ev.Data, ev.DataBase64 = api.Text(data)
	st.push(ev)
}

func (st *stream) push(ev api.StreamEvent) {
	st.seq = max(st.seq, ev.Seq)
	ev.StreamID, ev.Seq = st.start.StreamID, st.seq
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

// incomplete returns how many bytes at the end of b begin a character whose rest is
// missing: 0 to 3.
func incomplete(b []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(b)); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
