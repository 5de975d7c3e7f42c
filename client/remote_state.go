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
	StateConnecting   State = "connecting"   // the first connection is being made
	StateConnected    State = "connected"    // the first connection is up
	StateReconnecting State = "reconnecting" // the connection was lost, and the client tries to make another
	StateReconnected  State = "reconnected"  // there is a connection again; the pieces continue where they stopped
	StateFailed       State = "failed"       // the client has given up; see Reason and Retry
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
	// ReasonSessionGone: the daemon no longer knows the session or the command.
	ReasonSessionGone Reason = "session_gone"
	// ReasonAuthRejected: the daemon does not accept the token or certificate of the client, or the
	// client does not accept the certificate of the daemon. Retrying does not help.
	ReasonAuthRejected Reason = "auth_rejected"
	// ReasonUnreachable: the daemon could not be reached within the time of Backoff.
	ReasonUnreachable Reason = "unreachable"
	// ReasonRefused: the daemon refused; the cause says why.
	ReasonRefused Reason = "refused"
)

// StateChange is a move of a RemoteSession.
type StateChange struct {
	State  State
	Reason Reason // set in StateFailed
	Cause  error  // set in StateReconnecting and StateFailed
	At     time.Time
}

// RemoteError is the error of a RemoteSession that has failed.
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

// Backoff says when a RemoteSession tries to reconnect. Zero values stand for the defaults.
type Backoff struct {
	// First is the pause before the first attempt. It doubles with each attempt, up to Most.
	// Every pause is shortened at random, by up to a half.
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

// pacer times the attempts after one loss. Only one goroutine uses it.
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
