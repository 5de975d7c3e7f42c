package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/trl-dev/trl/api"
)

// State is how a RemoteSession is connected.
type State string

// The states of a RemoteSession.
const (
	StateConnecting   State = "connecting"   // for the first time
	StateConnected    State = "connected"    // for the first time
	StateReconnecting State = "reconnecting" // the connection was lost and is looked for
	StateReconnected  State = "reconnected"  // what follows begins where it broke off
	StateFailed       State = "failed"       // nothing is tried any more; see Reason and Retry
)

// stateMoves says which state may follow which; "" is before the first.
var stateMoves = map[State][]State{
	"":                {StateConnecting},
	StateConnecting:   {StateConnected, StateFailed},
	StateConnected:    {StateReconnecting, StateFailed},
	StateReconnecting: {StateReconnected, StateFailed},
	StateReconnected:  {StateReconnecting, StateFailed},
	StateFailed:       {StateConnecting, StateReconnecting},
}

// CanBecome reports whether a RemoteSession in state s may move to next.
func (s State) CanBecome(next State) bool { return slices.Contains(stateMoves[s], next) }

func (s State) up() bool { return s == StateConnected || s == StateReconnected }

// Reason is why a RemoteSession has failed.
type Reason string

// The reasons.
const (
	// ReasonSessionGone: the daemon does not know the session or the command any more.
	ReasonSessionGone Reason = "session_gone"
	// ReasonAuthRejected: one of the two does not accept the token or the certificate of
	// the other. To try again with the same would not help.
	ReasonAuthRejected Reason = "auth_rejected"
	// ReasonUnreachable: the daemon was looked for as long as Backoff says.
	ReasonUnreachable Reason = "unreachable"
	// ReasonRefused: the daemon answered that it cannot, and why is in the cause.
	ReasonRefused Reason = "refused"
)

// StateChange is a move of a RemoteSession.
type StateChange struct {
	State  State
	Reason Reason // of failed
	Cause  error  // of reconnecting and failed
	At     time.Time
}

// RemoteError is what a RemoteSession that has failed answers.
type RemoteError struct {
	SessionID string
	Reason    Reason
	Cause     error
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("session %q: %s: %s", e.SessionID, e.Reason, e.Cause)
}

func (e *RemoteError) Unwrap() error { return e.Cause }

// failureOf reports whether another attempt may succeed after err; if not, the reason.
func failureOf(err error) (reason Reason, again bool) {
	if err == error(errClosed) {
		return ReasonUnreachable, false
	}
	if retry(err, true) {
		return "", true
	}
	var e *api.Error
	if !errors.As(err, &e) {
		return ReasonRefused, false
	}
	switch e.Code {
	case api.CodeSessionNotFound, api.CodeSessionTerminated, api.CodeExecNotFound:
		return ReasonSessionGone, false
	case api.CodeAuthFailed, api.CodeForbidden:
		return ReasonAuthRejected, false
	case api.CodeRuntimeUnavailable, api.CodeResourcePressure:
		return "", true
	}
	return ReasonRefused, false
}

// Backoff says how a lost connection is looked for. Zero values stand for the defaults.
type Backoff struct {
	// First is the pause before the first attempt. It doubles with each attempt, up to Most.
	// A random part of up to a half is taken off every pause.
	First, Most time.Duration
	// GiveUp limits the attempts after each loss. Negative: no limit.
	GiveUp time.Duration
}

// Defaults of Backoff.
const (
	DefaultFirstPause = 50 * time.Millisecond
	DefaultMostPause  = 5 * time.Second
	DefaultGiveUp     = 2 * time.Minute
)

func (b *Backoff) setDefaults() {
	if b.First <= 0 {
		b.First = DefaultFirstPause
	}
	if b.Most <= 0 {
		b.Most = DefaultMostPause
	}
	b.Most = max(b.Most, b.First)
	if b.GiveUp == 0 {
		b.GiveUp = DefaultGiveUp
	}
}

// pacer counts the tries of one loss. It is used by one goroutine.
type pacer struct {
	Backoff
	pause time.Duration // 0 while all is well
	until time.Time
}

// over resets the pauses after a success.
func (p *pacer) over() { p.pause = 0 }

// wait pauses before the next attempt. It returns false if there will be none: because the time
// for attempts is over, or ctx has ended.
func (p *pacer) wait(ctx context.Context) bool {
	now := time.Now()
	if p.pause == 0 {
		p.pause, p.until = p.First, now.Add(p.GiveUp)
	}
	if p.GiveUp >= 0 && !now.Before(p.until) {
		return false
	}
	timer := time.NewTimer(p.pause - rand.N(p.pause/2+1))
	defer timer.Stop()
	p.pause = min(2*p.pause, p.Most)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
