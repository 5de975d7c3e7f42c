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

// errClosed is what calls answer after Close.
var errClosed = api.Errorf(api.CodeRuntimeUnavailable, "daemon: connection closed by this side")

// lost says that the daemon could not be reached or went away, as opposed to
// something that it answered.
type lost struct {
	cause error // has an *api.Error
	sent  bool  // the request may have been read by the daemon
}

func (l *lost) Error() string { return l.cause.Error() }

func (l *lost) Unwrap() error { return l.cause }

// uncertain is the error of a request that is not made again: it may have been carried
// out, when nothing was answered.
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

// unwrapLost makes the loss of a connection a plain error, where there is no other.
func unwrapLost(err error) error {
	if l, ok := asLost(err); ok {
		return l.cause
	}
	return err
}

// soon reports whether a daemon has answered that it is not there yet, or not any more;
// ended, that what it was doing may have been begun.
func soon(err error) (yes, ended bool) {
	ended = errors.Is(err, api.ErrDaemonEnding)
	return ended || errors.Is(err, api.ErrDaemonStarting), ended
}

// retry reports whether a request that got err may be made again, when the daemon is
// there again; harmless says that it may be carried out twice.
func retry(err error, harmless bool) bool {
	if l, ok := asLost(err); ok {
		return harmless || !l.sent
	}
	yes, ended := soon(err)
	return yes && (harmless || !ended)
}

// passes reports whether what stands in the way of a connection may go away by itself.
func passes(err error) bool {
	var e *api.Error
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, place.ErrStranger) || !errors.As(err, &e) {
		return false
	}
	return e.Code == api.CodeRuntimeUnavailable || e.Code == api.CodeResourcePressure
}

// How long is paused between two looks for the daemon.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
	// reviveAfter is how long a supervisor has to start the daemon again before Revive does.
	reviveAfter = 2 * time.Second
)

// outage is a time without a daemon, and how long it is borne. It is used by one
// goroutine.
type outage struct {
	limit  time.Duration
	until  time.Time // zero while all is well
	pause  time.Duration
	start  func(context.Context) error // see Client.Revive
	final  func() bool                 // see Client.Stopped; may be nil
	revive time.Time                   // when start is called next
	failed error                       // of start
}

func (c *Client) outage() outage {
	return outage{limit: c.ReconnectFor, start: c.Revive, final: c.Stopped}
}

// over says that the daemon is there.
func (o *outage) over() { o.until, o.failed = time.Time{}, nil }

// served notes that the last attempt took the time d and ended with err. While a daemon worked on
// the request there was no outage: of many daemons that follow each other, as in a row of upgrades,
// each may take its time.
func (o *outage) served(d time.Duration, err error) {
	l, isLost := asLost(err)
	if _, ended := soon(err); !o.until.IsZero() && (ended || isLost && l.sent) {
		o.until = o.until.Add(d)
		if d > 5*firstPause { // the next daemon may be there soon, too
			o.pause = firstPause
		}
	}
}

// wait pauses before the next look for the daemon. When there shall be none it returns
// why, which is cause unless the waiting itself was ended.
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
	// Not all at once, when many were cut off by the same end of a daemon.
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

// bringBack has the daemon started. The time that a successful start takes is not taken from
// the limit.
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
