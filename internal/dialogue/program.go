package dialogue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

// program is the way to an agent's process. Its methods are safe for
// concurrent use, except recv, which only one goroutine at a time may call.
type program interface {
	// ids returns the ids of the session and of the command in it.
	ids() (sessionID, execID string)
	// dir returns the working directory in which the program was started.
	dir() string
	// recv returns the next piece of output, or the exit. It starts at the beginning of the output,
	// or near the last piece, so pieces may repeat. The error is an *unreachable if the program
	// cannot be reached although it may live.
	recv(ctx context.Context) (piece, error)
	// write writes to the program. Repeating it with the same id has no effect.
	write(ctx context.Context, id string, data []byte) error
	// stdinBytes returns how many bytes were written to the program in all.
	stdinBytes(ctx context.Context) (int64, error)
	// closeInput ends the program's stdin.
	closeInput(ctx context.Context) error
	// cancel ends the program and everything it started: SIGTERM, the grace time, SIGKILL.
	cancel(ctx context.Context) error
	// kill destroys the session at once.
	kill(ctx context.Context) error
	// reopen tries to reach a program that could not be reached. The error is an *unreachable if it
	// cannot be.
	reopen(ctx context.Context) error
	// over is closed when the session has ended, or is left to the next daemon.
	over() <-chan struct{}
	// endCause returns why the session has ended; empty if it has not.
	endCause() string
	// lostSince returns since when the program cannot be reached; zero if it can.
	lostSince() time.Time
}

// piece is a piece of a program's output, or its exit.
type piece struct {
	stream string // stdout or stderr
	offset int64
	data   []byte
	gap    int64 // if not 0, the bytes from offset up to gap are lost
	exit   *api.ExecOutcome
}

// unreachable is the error when a program that may still live cannot be reached.
type unreachable struct {
	reason string
	retry  bool
	cause  error
}

func (e *unreachable) Error() string { return fmt.Sprintf("%s: %s", e.reason, e.cause) }
func (e *unreachable) Unwrap() error { return e.cause }

// readBytes is the most that one read returns.
const readBytes = 256 << 10

// The reasons why a program cannot be reached.
const (
	reasonUnreachable = "unreachable"   // its place cannot be reached
	reasonDenied      = "auth_rejected" // its place does not accept the credentials
	reasonRefused     = "refused"       // another daemon has the address of its place now
)

func newUnreachable(err error) *unreachable {
	switch {
	case session.IsDenied(err):
		return &unreachable{reason: reasonDenied, cause: err}
	case errors.Is(err, api.ErrConflict):
		return &unreachable{reason: reasonRefused, cause: err}
	}
	return &unreachable{reason: reasonUnreachable, retry: true, cause: err}
}

// inSession is a program in a session of this daemon, which may be in another place.
type inSession struct {
	session *session.Session
	execID  string
	// patience is how long the place may be unreachable before the dialogue reports it; 0 on this
	// machine, where the output just waits in the runner.
	patience time.Duration

	// Used by recv alone.
	after int64
	ready []piece
}

// newInSession returns the program of a session.
func newInSession(s *session.Session, execID string, patience time.Duration) *inSession {
	l := &inSession{session: s, execID: execID}
	if place := s.Info().Place; place != nil && place.Kind != api.PlaceHost {
		l.patience = patience
	}
	return l
}

func (l *inSession) ids() (sessionID, execID string) { return l.session.ID(), l.execID }

func (l *inSession) dir() string { return l.session.Info().WorkingDir }

func (l *inSession) recv(ctx context.Context) (piece, error) {
	for len(l.ready) == 0 {
		r, text, err := l.read(ctx)
		if lost := new(unreachable); errors.As(err, &lost) {
			return piece{}, err
		}
		if session.IsUnreachable(err) && ctx.Err() == nil {
			continue // the output waits in the runner
		}
		if err != nil { // the runner has ended
			l.awaitEnd(ctx)
			return piece{}, err
		}
		for _, c := range r.Chunks {
			p := piece{stream: c.Stream, offset: c.Offset}
			switch {
			case c.Gap:
				p.gap = c.Offset + c.Len
			case c.Len < 0 || c.Len > int64(len(text)):
				return piece{}, api.Errorf(api.CodeInternal, "exec %q: the runner announced more output than it sent", l.execID)
			default:
				p.data, text = text[:c.Len], text[c.Len:]
			}
			l.after = c.Seq
			l.ready = append(l.ready, p)
		}
		if r.Outcome != nil {
			l.ready = append(l.ready, piece{exit: r.Outcome})
		}
	}
	p := l.ready[0]
	l.ready = l.ready[1:]
	if p.exit != nil {
		l.awaitEnd(ctx)
	}
	return p, ctx.Err()
}

// read reads the next output. The error is an *unreachable if the place cannot be reached for too long.
func (l *inSession) read(ctx context.Context) (link.ReadResult, []byte, error) {
	p := link.ReadParams{ExecID: l.execID, AfterSeq: l.after, Limit: readBytes, Wait: true}
	if l.patience == 0 {
		return l.session.Read(ctx, p)
	}
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var watching sync.WaitGroup
	watching.Go(func() {
		if why := l.session.AwaitAway(reading, l.patience); why != nil {
			stop(newUnreachable(why))
		}
	})
	r, text, err := l.session.Read(reading, p)
	if err != nil && ctx.Err() == nil && reading.Err() != nil {
		err = context.Cause(reading)
	}
	stop(nil)
	watching.Wait()
	return r, text, err
}

// awaitEnd waits until the session has ended with its program.
func (l *inSession) awaitEnd(ctx context.Context) {
	select {
	case <-l.session.Done():
	case <-time.After(killTimeout):
	case <-ctx.Done():
	}
}

func (l *inSession) write(ctx context.Context, id string, data []byte) error {
	_, err := l.session.Type(ctx, link.SessionInputParams{WriteID: id}, data)
	return err
}

func (l *inSession) stdinBytes(ctx context.Context) (int64, error) {
	r, err := l.session.Type(ctx, link.SessionInputParams{}, nil)
	return r.Written, err
}

func (l *inSession) closeInput(ctx context.Context) error {
	_, err := l.session.Type(ctx, link.SessionInputParams{Close: true}, nil)
	return err
}

func (l *inSession) cancel(ctx context.Context) error {
	_, err := l.session.Cancel(ctx, api.ExecCancelParams{ExecID: l.execID})
	return err
}

func (l *inSession) kill(ctx context.Context) error { return l.session.Kill(ctx) }

func (l *inSession) reopen(ctx context.Context) error {
	if err := l.session.Reach(ctx); err != nil {
		return newUnreachable(err)
	}
	return nil
}

func (l *inSession) over() <-chan struct{} { return l.session.Done() }

func (l *inSession) endCause() string {
	if info := l.session.Info(); info.State == api.SessionTerminated {
		return info.Cause
	}
	return ""
}

func (l *inSession) lostSince() time.Time {
	if l.patience == 0 {
		return time.Time{}
	}
	return l.session.LostSince()
}

// vanished is a program whose session ended while no daemon ran.
type vanished struct{ sessionID, execID string }

var errVanished = errors.New("its session has ended")

func (v vanished) ids() (sessionID, execID string)           { return v.sessionID, v.execID }
func (vanished) dir() string                                 { return "" }
func (vanished) recv(context.Context) (piece, error)         { return piece{}, errVanished }
func (vanished) write(context.Context, string, []byte) error { return errVanished }
func (vanished) stdinBytes(context.Context) (int64, error)   { return 0, errVanished }
func (vanished) closeInput(context.Context) error            { return errVanished }
func (vanished) cancel(context.Context) error                { return nil }
func (vanished) kill(context.Context) error                  { return nil }
func (vanished) reopen(context.Context) error                { return errVanished }
func (vanished) over() <-chan struct{}                       { return alreadyClosed }
func (vanished) endCause() string                            { return "its session no longer existed when the daemon started" }
func (vanished) lostSince() time.Time                        { return time.Time{} }
