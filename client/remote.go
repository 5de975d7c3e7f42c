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
	// ExecID is the command to follow. If it is empty, the RemoteSession follows the program of the
	// session, which must be of kind terminal or program.
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
	// OnState is called for every change of state, in order. The goroutine that follows the session
	// calls it and waits for it. It must not call Close.
	OnState func(StateChange)
}

// Piece is a piece of the output that a RemoteSession follows, or another event of it.
type Piece struct {
	// Type is the type of the event: stdout, stderr, gap or exit; with Attach snapshot, output,
	// resize or exit.
	Type string
	// Offset is where Data begins in its stream.
	Offset int64
	Data   []byte
	// Event has everything else.
	Event api.StreamEvent
}

// RemoteSession is a session behind a connection that may break. Output is numbered by byte, and
// continues after a loss with exactly the next byte; input is written once. Its State says how it is
// connected. It is meant for DialGRPC, which watches its connection, and works with any Client. It is
// safe for concurrent use.
//
// It ends with the exit of the command that it follows, or with Close; the state does not change
// after that.
//
// Goroutines: run, which ends with the RemoteSession.
type RemoteSession struct {
	client  *Client
	o       RemoteOptions
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{} // closed when run has ended
	again   chan struct{} // capacity 1; Retry was called
	writing chan struct{} // a semaphore of one: its holder writes

	// Used by run alone.
	seq  int64            // number of the last push
	have map[string]int64 // by type of event: offset after the last byte that was queued
	was  bool             // there has been a connection
	pace pacer

	mu     sync.Mutex
	change StateChange // guarded by mu; the last change
	// session is the caller's name or id until the first connection; then the id, because another
	// session could get the name. exec is set with the first connection; empty with Attach.
	session, exec string        // guarded by mu; written by run
	queue         []Piece       // guarded by mu
	bytes         int           // guarded by mu; size of queue
	ended         error         // guarded by mu; what Recv returns after the queue
	news          chan struct{} // guarded by mu; closed when any of these has changed
}

// OpenRemote follows a session, by id or name, and returns when it is connected. If it cannot
// connect, the error is a *RemoteError. ctx bounds only how long OpenRemote waits.
func OpenRemote(ctx context.Context, c *Client, sessionID string, o RemoteOptions) (*RemoteSession, error) {
	if sessionID == "" || o.Attach != nil && o.ExecID != "" {
		return nil, api.Errorf(api.CodeInvalidParams, "remote session: needs the id or name of a session, and not both Attach and ExecID")
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

// State returns the last change of state.
func (r *RemoteSession) State() StateChange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.change
}

// IDs returns the id of the session, and that of the command that is followed, which is empty with
// Attach.
func (r *RemoteSession) IDs() (sessionID, execID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session, r.exec
}

// Retry tries to connect again after a failure. It has no effect in another state.
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

// Write types into a terminal, or writes to the stdin of a command. It waits while there is no
// connection, and writes the data once, even if it has to try several times. Concurrent calls take
// turns.
func (r *RemoteSession) Write(ctx context.Context, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	// A copy, because the caller may reuse data when ctx ends.
	return r.input(ctx, api.ExecInputParams{Bytes: bytes.Clone(data)})
}

// CloseInput ends the stdin of a command.
func (r *RemoteSession) CloseInput(ctx context.Context) error {
	return r.input(ctx, api.ExecInputParams{Close: true})
}

// input waits for its turn and writes, until ctx ends or the RemoteSession is closed.
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
	for again := false; ; again = true {
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
		if again && p.Close && errors.Is(err, api.ErrSessionTerminated) {
			return nil // the attempt whose answer was lost has closed the input, and the program has ended
		}
		if err == nil || !retry(err, true) { // the end of ctx is no loss
			return err
		}
		if !pace.wait(ctx) {
			return ctx.Err()
		}
	}
}

// awaitUp waits until there is a connection, or returns why there will be none.
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

// failureLocked returns the reason why no more pieces come; nil while more may come.
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

// to moves to another state. Only run calls it.
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
