package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
)

// remoteQueue is how many bytes a RemoteSession reads ahead of its reader.
const remoteQueue = 1 << 20

// RemoteOptions says what a RemoteSession follows, and how. Zero values stand for the
// defaults.
type RemoteOptions struct {
	// ExecID is the command to follow. Without it, it is the program of the session, which
	// must be of kind terminal or program.
	ExecID string
	// Stream, FromOffset and AfterSeq say where to begin, as in api.ExecStreamParams.
	Stream     string
	FromOffset int64
	AfterSeq   int64
	// Attach follows the screen of a terminal instead of its bytes alone, as session.attach
	// does. A viewer that was away for too long gets a snapshot.
	Attach *api.SessionAttachParams
	// Backoff says when and for how long a RemoteSession tries to reconnect.
	Backoff Backoff
	// OnState is called for every change of state, in order, from one goroutine, which does
	// nothing else meanwhile. It must not call Close.
	OnState func(StateChange)
}

// Piece is a part of what a RemoteSession follows.
type Piece struct {
	// Type is that of the event: stdout, stderr, gap, exit; with Attach snapshot, output,
	// resize, exit.
	Type string
	// Offset is where Data begins in its stream.
	Offset int64
	Data   []byte
	// Event has everything else.
	Event api.StreamEvent
}

// RemoteSession is a session behind a connection that may break: what comes is
// numbered by byte, and after a loss begins with exactly the byte that is missing; what
// is written is written once. How it is connected can be observed. It is meant for
// DialGRPC, whose connection is watched, and works with any Client. It is safe for
// concurrent use.
//
// It ends with the exit of what it follows, or with Close; there is no further change of
// state then.
//
// Goroutines: run, which ends with it.
type RemoteSession struct {
	client  *Client
	o       RemoteOptions
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{} // closed when run has ended
	again   chan struct{} // of capacity 1: Retry was called
	writing chan struct{} // a semaphore of one: its holder writes

	// Used by run alone.
	seq  int64            // of the last push
	have map[string]int64 // by type of event: where the reader has come to
	was  bool             // it was connected
	pace pacer

	mu     sync.Mutex
	change StateChange // guarded by mu; the last
	// session is as it was named until it is connected; then its id, as another one
	// could get the name. exec is known when it is connected; empty with Attach.
	session, exec string        // guarded by mu; written by run
	queue         []Piece       // guarded by mu
	bytes         int           // guarded by mu; of queue
	ended         error         // guarded by mu; what Recv returns behind the queue
	news          chan struct{} // guarded by mu; closed when any of these has changed
}

// OpenRemote follows a session, by id or name. It returns when it is connected. An error
// of type *RemoteError says why it cannot be; ctx bounds only the waiting.
func OpenRemote(ctx context.Context, c *Client, sessionID string, o RemoteOptions) (*RemoteSession, error) {
	if sessionID == "" || o.Attach != nil && o.ExecID != "" {
		return nil, api.Errorf(api.CodeInvalidParams, "remote session: needs a session, and either its terminal or a command")
	}
	o.Backoff.setDefaults()
	r := &RemoteSession{
		client: c, session: sessionID, exec: o.ExecID, o: o, pace: pacer{Backoff: o.Backoff},
		done: make(chan struct{}), again: make(chan struct{}, 1), writing: make(chan struct{}, 1), news: make(chan struct{}),
		have: map[string]int64{api.EventStdout: o.FromOffset, api.EventStderr: o.FromOffset},
	}
	if o.Attach != nil && o.Attach.FromOffset != nil {
		r.have[api.EventOutput] = *o.Attach.FromOffset
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	go r.run()
	if err := r.awaitUp(ctx); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// State is how it is connected now.
func (r *RemoteSession) State() StateChange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.change
}

// IDs are the session's id, and that of the command that is followed; the latter is empty
// with Attach.
func (r *RemoteSession) IDs() (sessionID, execID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session, r.exec
}

// Retry looks for the session again after it has failed. It has no effect otherwise.
func (r *RemoteSession) Retry() {
	r.mu.Lock()
	failed := r.change.State == StateFailed
	r.mu.Unlock()
	if failed {
		signal(r.again)
	}
}

// Close stops following the session, which goes on. A waiting Recv or Write returns
// io.ErrClosedPipe.
func (r *RemoteSession) Close() {
	r.cancel()
	<-r.done
}

// Recv returns the next piece. After the exit it returns io.EOF; when the session has
// failed, a *RemoteError, until Retry.
func (r *RemoteSession) Recv(ctx context.Context) (Piece, error) {
	for {
		r.mu.Lock()
		if len(r.queue) > 0 {
			p := r.queue[0]
			r.queue[0] = Piece{}
			r.queue = r.queue[1:]
			r.bytes -= pieceBytes(p)
			r.changedLocked()
			r.mu.Unlock()
			return p, nil
		}
		err, news := r.failureLocked(), r.news
		r.mu.Unlock()
		if err != nil {
			return Piece{}, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return Piece{}, ctx.Err()
		}
	}
}

// Write writes to the session: what is typed into a terminal, or the stdin of a command.
// It waits while there is no connection, and writes once, however often it has to try. Of
// several at the same time, one is done after the other.
func (r *RemoteSession) Write(ctx context.Context, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	// A copy, because the caller may use its own again when ctx ends.
	return r.input(ctx, api.ExecInputParams{Bytes: bytes.Clone(data)})
}

// CloseInput ends the stdin of a command.
func (r *RemoteSession) CloseInput(ctx context.Context) error {
	return r.input(ctx, api.ExecInputParams{Close: true})
}

// input writes in turn, until it is done, ctx ends or the session is closed.
func (r *RemoteSession) input(ctx context.Context, p api.ExecInputParams) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(r.ctx, end)()
	err := r.inputOnce(ctx, p)
	if err != nil && r.ctx.Err() != nil {
		return io.ErrClosedPipe
	}
	return err
}

func (r *RemoteSession) inputOnce(ctx context.Context, p api.ExecInputParams) error {
	select {
	case r.writing <- struct{}{}:
		defer func() { <-r.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p.WriteID = rand.Text()
	pace := pacer{Backoff: r.o.Backoff}
	pace.GiveUp = -1 // run gives up
	for {
		if err := r.awaitUp(ctx); err != nil {
			return err
		}
		var session string
		var err error
		if session, p.ExecID = r.IDs(); p.ExecID != "" {
			_, err = r.client.way.call(ctx, "exec.input", p)
		} else {
			in := p.InJSON()
			_, err = r.client.way.call(ctx, "session.input", api.SessionInputParams{
				SessionID: session, Text: in.Data, DataBase64: in.DataBase64, Close: in.Close, WriteID: in.WriteID})
		}
		if err == nil || !retry(err, true) { // the end of ctx is no loss
			return err
		}
		if !pace.wait(ctx) {
			return ctx.Err()
		}
	}
}

// awaitUp waits until it is connected, or returns why it will not be.
func (r *RemoteSession) awaitUp(ctx context.Context) error {
	for {
		r.mu.Lock()
		up, err, news := r.change.State.up(), r.failureLocked(), r.news
		r.mu.Unlock()
		switch {
		case up && !errors.Is(err, io.ErrClosedPipe):
			return nil
		case err != nil:
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// failureLocked returns the reason why no more bytes come; nil while some may.
func (r *RemoteSession) failureLocked() error {
	if r.ended == nil && r.change.State == StateFailed {
		return &RemoteError{SessionID: r.session, Reason: r.change.Reason, Cause: r.change.Cause}
	}
	return r.ended
}

// changedLocked wakes every waiter.
func (r *RemoteSession) changedLocked() {
	close(r.news)
	r.news = make(chan struct{})
}

// to moves to another state. It is called by run alone.
func (r *RemoteSession) to(next State, reason Reason, cause error) {
	c := StateChange{State: next, Reason: reason, Cause: cause, At: time.Now()}
	r.mu.Lock()
	if legal := r.change.State.CanBecome(next); !legal {
		c.State, c.Reason = StateFailed, ReasonRefused
		c.Cause = api.Errorf(api.CodeInternal, "session %q: cannot move from %q to %q", r.session, r.change.State, next)
	}
	r.change = c
	r.changedLocked()
	r.mu.Unlock()
	if r.o.OnState != nil {
		r.o.OnState(c)
	}
}
