package dialogue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

// program is the way to an agent's process, in this daemon or in another. Its methods are safe for
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
	// reopen tries to reach a program that could not be reached.
	reopen(ctx context.Context) error
	// endCause returns why the session has ended; empty if it has not.
	endCause() string
	// lostSince returns since when the program cannot be reached; zero if it can.
	lostSince() time.Time
	// close releases the connection to the program, which goes on.
	close()
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

// local is a program in a session of this daemon.
type local struct {
	session *session.Session
	execID  string

	// Used by recv alone.
	after int64
	ready []piece
}

func newLocal(s *session.Session, execID string) *local { return &local{session: s, execID: execID} }

func (l *local) ids() (sessionID, execID string) { return l.session.ID(), l.execID }

func (l *local) dir() string { return l.session.Info().WorkingDir }

func (l *local) recv(ctx context.Context) (piece, error) {
	for len(l.ready) == 0 {
		r, text, err := l.session.Read(ctx, link.ReadParams{ExecID: l.execID, AfterSeq: l.after, Limit: readBytes, Wait: true})
		if session.IsUnreachable(err) && ctx.Err() == nil {
			continue // the output waits in the runner
		}
		if err != nil { // its runner has ended
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

// awaitEnd waits until the session has ended with its program.
func (l *local) awaitEnd(ctx context.Context) {
	select {
	case <-l.session.Done():
	case <-time.After(killTimeout):
	case <-ctx.Done():
	}
}

func (l *local) write(ctx context.Context, id string, data []byte) error {
	_, err := l.session.Type(ctx, link.SessionInputParams{WriteID: id}, data)
	return err
}

func (l *local) stdinBytes(ctx context.Context) (int64, error) {
	r, err := l.session.Type(ctx, link.SessionInputParams{}, nil)
	return r.Written, err
}

func (l *local) closeInput(ctx context.Context) error {
	_, err := l.session.Type(ctx, link.SessionInputParams{Close: true}, nil)
	return err
}

func (l *local) cancel(ctx context.Context) error {
	_, err := l.session.Cancel(ctx, api.ExecCancelParams{ExecID: l.execID})
	return err
}

func (l *local) kill(ctx context.Context) error { return l.session.Kill(ctx) }

func (l *local) reopen(context.Context) error { return errors.New("the session is of this daemon") }

func (l *local) endCause() string {
	if info := l.session.Info(); info.State == api.SessionTerminated {
		return info.Cause
	}
	return ""
}

func (l *local) lostSince() time.Time { return time.Time{} }

func (l *local) close() {}

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
func (vanished) endCause() string                            { return "its session was gone when the daemon started" }
func (vanished) lostSince() time.Time                        { return time.Time{} }
func (vanished) close()                                      {}
