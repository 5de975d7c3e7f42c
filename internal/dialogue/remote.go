package dialogue

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// remote is a program in a session of another daemon, reached over gRPC. Output is read by offset
// and input carries ids, so neither is lost or repeated when the connection breaks.
type remote struct {
	at        api.DialogueRemote
	patience  time.Duration // how long to try to reach the daemon after a connection is lost
	sessionID string
	execID    string
	startDir  string // the program's working directory; empty if an earlier daemon started it

	mu     sync.Mutex
	client *client.Client        // guarded by mu
	reader *client.RemoteSession // guarded by mu; nil before the first recv and after a failure
	since  time.Time             // guarded by mu; since when there is no reader; zero before the first recv
	closed bool                  // guarded by mu
	cause  string                // guarded by mu; why the session has ended

	after int64 // the number of the last push; used by recv alone
}

// dialRemote connects to the daemon that has the session, or will have it.
func dialRemote(ctx context.Context, at api.DialogueRemote) (*client.Client, error) {
	o := client.GRPCOptions{CAFile: at.CAFile, CertFile: at.CertFile, KeyFile: at.KeyFile, ServerName: at.ServerName}
	if at.TokenFile != "" {
		token, err := client.ReadToken(at.TokenFile)
		if err != nil {
			return nil, err
		}
		o.Token = token
	}
	return client.DialGRPC(ctx, at.Address, o)
}

// createRemote creates a session on another daemon.
func createRemote(ctx context.Context, at api.DialogueRemote, patience time.Duration, p api.SessionCreateParams) (*remote, error) {
	c, err := dialRemote(ctx, at)
	if err != nil {
		return nil, err
	}
	info, err := c.SessionCreate(ctx, p)
	if err != nil {
		_ = c.Close()
		if e := api.AsError(err); ctx.Err() != nil || e.Code == api.CodeRuntimeUnavailable {
			err = &unanswered{err}
		}
		return nil, err
	}
	return &remote{at: at, patience: patience, client: c, sessionID: info.SessionID, execID: info.ExecID, startDir: info.WorkingDir}, nil
}

// unanswered is the error of a session.create without an answer: the session may exist.
type unanswered struct{ error }

func (e *unanswered) Unwrap() error { return e.error }

// endRemoteSessions ends the sessions that a dialogue has on another daemon.
func endRemoteSessions(ctx context.Context, at api.DialogueRemote, dialogueID string) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	c, err := dialRemote(ctx, at)
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.SessionList(ctx, api.SessionListParams{Tags: []string{api.TagDialogue, dialogueID}})
	if err != nil {
		return err
	}
	for _, s := range list.Sessions {
		_, err := c.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: s.SessionID, Force: true})
		if err != nil && !errors.Is(err, api.ErrSessionNotFound) {
			return err
		}
	}
	return nil
}

// adoptRemote returns a program that an earlier daemon started. recv connects to it.
func adoptRemote(at api.DialogueRemote, patience time.Duration, sessionID, execID string) *remote {
	return &remote{at: at, patience: patience, since: time.Now(), sessionID: sessionID, execID: execID}
}

func (r *remote) ids() (sessionID, execID string) { return r.sessionID, r.execID }

func (r *remote) dir() string { return r.startDir }

// connection returns the connection to the daemon, and dials if there is none.
func (r *remote) connection(ctx context.Context) (*client.Client, error) {
	r.mu.Lock()
	c, closed := r.client, r.closed
	r.mu.Unlock()
	switch {
	case closed:
		return nil, io.ErrClosedPipe
	case c != nil:
		return c, nil
	}
	c, err := dialRemote(ctx, r.at)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.client != nil {
		defer c.Close()
	}
	if r.closed {
		return nil, io.ErrClosedPipe
	}
	if r.client == nil {
		r.client = c
	}
	return r.client, nil
}

func (r *remote) recv(ctx context.Context) (piece, error) {
	reader, err := r.seek(ctx)
	if err != nil {
		return piece{}, err
	}
	for {
		p, err := reader.Recv(ctx)
		if err != nil {
			return piece{}, asUnreachable(err)
		}
		r.after = max(r.after, p.Event.Seq)
		switch p.Type {
		case api.EventStdout, api.EventStderr:
			return piece{stream: p.Type, offset: p.Offset, data: p.Data}, nil
		case api.EventGap:
			return piece{stream: p.Event.Stream, offset: p.Offset, gap: *p.Event.To}, nil
		case api.EventExit:
			r.awaitEnd(ctx)
			return piece{exit: p.Event.ExecOutcome}, nil
		}
	}
}

// awaitEnd waits until the session has ended with its program, and keeps the cause.
func (r *remote) awaitEnd(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	c, err := r.connection(ctx)
	if err != nil {
		return
	}
	_, _ = c.SessionWait(ctx, api.SessionWaitParams{SessionID: r.sessionID, Exit: true})
	if info, err := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: r.sessionID}); err == nil {
		r.mu.Lock()
		r.cause = info.Cause
		r.mu.Unlock()
	}
}

// seek is follow with retries, until patience has passed since the loss.
func (r *remote) seek(ctx context.Context) (*client.RemoteSession, error) {
	r.mu.Lock()
	if r.reader == nil && r.since.IsZero() {
		r.since = time.Now()
	}
	end := r.since.Add(r.patience)
	r.mu.Unlock()
	for pause := seekPause; ; pause = min(2*pause, seekPauseMost) {
		reader, err := r.follow(ctx)
		if err == nil {
			return reader, nil
		}
		var away *unreachable
		if err = asUnreachable(err); !errors.As(err, &away) || !away.retry || time.Now().Add(pause).After(end) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

const (
	seekPause     = 50 * time.Millisecond
	seekPauseMost = 2 * time.Second
)

// follow returns the reader of the output, and opens one if there is none.
func (r *remote) follow(ctx context.Context) (*client.RemoteSession, error) {
	r.mu.Lock()
	reader := r.reader
	r.mu.Unlock()
	if reader != nil {
		return reader, nil
	}
	c, err := r.connection(ctx)
	if err != nil {
		return nil, err
	}
	reader, err = client.OpenRemote(ctx, c, r.sessionID, client.RemoteOptions{
		ExecID: r.execID, AfterSeq: r.after, Backoff: client.Backoff{GiveUp: r.patience},
	})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		go reader.Close()
		return nil, io.ErrClosedPipe
	}
	r.reader = reader
	return reader, nil
}

// asUnreachable returns an *unreachable if the program may still live although it cannot be
// reached.
func asUnreachable(err error) error {
	var failed *client.RemoteError
	if errors.As(err, &failed) {
		return &unreachable{reason: string(failed.Reason), retry: failed.Reason == client.ReasonUnreachable, cause: failed.Cause}
	}
	var e *api.Error
	if !errors.As(err, &e) {
		return err // the caller's context has ended
	}
	switch e.Code {
	case api.CodeAuthFailed, api.CodeForbidden:
		return &unreachable{reason: string(client.ReasonAuthRejected), cause: err}
	case api.CodeSessionNotFound, api.CodeExecNotFound, api.CodeSessionTerminated:
		return &unreachable{reason: string(client.ReasonSessionGone), cause: err}
	case api.CodeRuntimeUnavailable, api.CodeResourcePressure:
		return &unreachable{reason: string(client.ReasonUnreachable), retry: true, cause: err}
	}
	return &unreachable{reason: string(client.ReasonRefused), cause: err}
}

func (r *remote) write(ctx context.Context, id string, data []byte) error {
	p := api.ExecInputParams{ExecID: r.execID, WriteID: id, Force: true}
	p.Data, p.DataBase64 = api.Text(data)
	if p.DataBase64 != "" {
		p.Data = ""
	}
	return r.input(ctx, p)
}

func (r *remote) stdinBytes(ctx context.Context) (bytes int64, err error) {
	c, err := r.connection(ctx)
	if err != nil {
		return 0, err
	}
	result, err := c.ExecInput(ctx, api.ExecInputParams{ExecID: r.execID, Force: true})
	return result.StdinBytes, err
}

func (r *remote) closeInput(ctx context.Context) error {
	return r.input(ctx, api.ExecInputParams{ExecID: r.execID, Close: true, WriteID: "close", Force: true})
}

func (r *remote) input(ctx context.Context, p api.ExecInputParams) error {
	c, err := r.connection(ctx)
	if err == nil {
		_, err = c.ExecInput(ctx, p)
	}
	return err
}

func (r *remote) cancel(ctx context.Context) error {
	c, err := r.connection(ctx)
	if err == nil {
		_, err = c.ExecCancel(ctx, api.ExecCancelParams{ExecID: r.execID, Force: true})
	}
	return err
}

func (r *remote) kill(ctx context.Context) error {
	c, err := r.connection(ctx)
	if err == nil {
		_, err = c.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: r.sessionID, Force: true})
	}
	if errors.Is(err, api.ErrSessionNotFound) {
		return nil
	}
	return err
}

// reopen connects again, with the credentials as they are now on the disk.
func (r *remote) reopen(ctx context.Context) error {
	r.drop()
	_, err := r.follow(ctx)
	if err != nil {
		r.drop()
		return asUnreachable(err)
	}
	return nil
}

// drop closes the connection.
func (r *remote) drop() {
	r.mu.Lock()
	reader, c := r.reader, r.client
	r.reader, r.client, r.since = nil, nil, time.Now()
	r.mu.Unlock()
	if reader != nil {
		reader.Close()
	}
	if c != nil {
		_ = c.Close()
	}
}

func (r *remote) endCause() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cause
}

func (r *remote) lostSince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reader == nil {
		return r.since
	}
	if c := r.reader.State(); c.State == client.StateReconnecting || c.State == client.StateFailed {
		return c.At
	}
	return time.Time{}
}

func (r *remote) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.drop()
}
