package client

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/place"
)

// errClosed is the error of calls after Close.
var errClosed = api.Errorf(api.CodeRuntimeUnavailable, "daemon: connection closed by this side")

// lost is the error of a request without an answer: the daemon could not be reached, or the
// connection ended.
type lost struct {
	cause error // has an *api.Error
	sent  bool  // the daemon may have read the request
}

func (l *lost) Error() string { return l.cause.Error() }

func (l *lost) Unwrap() error { return l.cause }

// uncertain returns the error of a request that is not repeated. If there was no answer, the error
// says that the request may have taken effect.
func uncertain(err error, method string) error {
	l, ok := asLost(err)
	if !ok || !l.sent {
		return unwrapLost(err)
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "%s; it is not known whether %s was done", l.cause, method)
}

func asLost(err error) (*lost, bool) {
	l, ok := err.(*lost)
	return l, ok
}

// unwrapLost returns the cause of a *lost, and any other error unchanged.
func unwrapLost(err error) error {
	if l, ok := asLost(err); ok {
		return l.cause
	}
	return err
}

// soon reports whether the daemon answered that it is starting or stopping, so that another may
// serve soon. If ended is true it is stopping, and the request may have taken effect.
func soon(err error) (yes, ended bool) {
	ended = errors.Is(err, api.ErrDaemonEnding)
	return ended || errors.Is(err, api.ErrDaemonStarting), ended
}

// retry reports whether a request that failed with err may be repeated; harmless says that the
// request may take effect twice.
func retry(err error, harmless bool) bool {
	if l, ok := asLost(err); ok {
		return harmless || !l.sent
	}
	yes, ended := soon(err)
	return yes && (harmless || !ended)
}

// passes reports whether the cause that prevents a connection may pass by itself.
func passes(err error) bool {
	var e *api.Error
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, place.ErrStranger) || !errors.As(err, &e) {
		return false
	}
	return e.Code == api.CodeRuntimeUnavailable || e.Code == api.CodeResourcePressure
}

// The pauses between two attempts to reach the daemon.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
	// reviveAfter is how long a supervisor has to start the daemon again before Revive does.
	reviveAfter = 2 * time.Second
)

// outage is a time without a daemon, with the limit for it. Only one goroutine uses it.
type outage struct {
	limit  time.Duration
	until  time.Time // when the limit ends; zero while there is no outage
	pause  time.Duration
	start  func(context.Context) error // see Client.Revive
	final  func() bool                 // see Client.Stopped; may be nil
	revive time.Time                   // when start is called next
	failed error                       // the last error of start
}

func (c *Client) outage() outage {
	return outage{limit: c.ReconnectFor, start: c.Revive, final: c.Stopped}
}

// over ends the outage: the daemon has answered.
func (o *outage) over() { o.until, o.failed = time.Time{}, nil }

// served notes that the last attempt took the time d and ended with err. The time in which a daemon
// worked on the request does not count as outage: in a row of upgrades, each daemon may take its time.
func (o *outage) served(d time.Duration, err error) {
	l, isLost := asLost(err)
	if _, ended := soon(err); !o.until.IsZero() && (ended || isLost && l.sent) {
		o.until = o.until.Add(d)
		if d > 5*firstPause { // the next daemon may be there soon, too
			o.pause = firstPause
		}
	}
}

// wait pauses before the next attempt to reach the daemon. If there must be none, it returns the
// reason: cause, unless ctx ended or the client was closed.
func (o *outage) wait(ctx context.Context, closed <-chan struct{}, cause error) error {
	cause = unwrapLost(cause)
	if o.limit <= 0 {
		return cause
	}
	now := time.Now()
	if o.until.IsZero() {
		o.until, o.pause, o.revive = now.Add(o.limit), firstPause, now.Add(reviveAfter)
		if o.final != nil && isAbsent(cause) && o.final() {
			o.revive = now
		}
	}
	if !now.Before(o.until) {
		if o.failed != nil {
			return api.Errorf(api.CodeRuntimeUnavailable, "%s; %s", cause, o.failed)
		}
		return cause
	}
	if o.start != nil && isAbsent(cause) && !now.Before(o.revive) {
		o.bringBack(ctx, closed)
	}
	// The pause is random, so that the clients of a daemon that ended do not all return at once.
	timer := time.NewTimer(o.pause/2 + rand.N(o.pause/2))
	defer timer.Stop()
	o.pause = min(2*o.pause, lastPause)
	select {
	case <-timer.C:
		return nil
	case <-closed:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bringBack calls start. The time that a successful start takes does not count against the limit.
func (o *outage) bringBack(ctx context.Context, closed <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the context
		select {
		case <-closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	began := time.Now()
	if o.failed = o.start(ctx); o.failed == nil {
		o.until = o.until.Add(time.Since(began))
	}
	o.revive, o.pause = time.Now().Add(reviveAfter), firstPause
}

// isAbsent reports whether no daemon listens on the socket.
func isAbsent(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)
}
