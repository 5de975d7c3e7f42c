package api

import (
	"math"
	"time"
)

// Reasons of session.wait.
const (
	WaitText    = "text"
	WaitIdle    = "idle_s"
	WaitIdleMS  = "idle_ms" // the answer to a caller that asked with idle_ms
	WaitExit    = "exit"
	WaitCursor  = "cursor"
	WaitInput   = "waiting_for_input"
	WaitTimeout = "timeout"
)

// SessionWaitParams waits for a condition of a terminal or program. The first condition that
// is met ends the wait, and so does the end of the session.
type SessionWaitParams struct {
	SessionID string `json:"session_id"` // id or name
	// Text is a regular expression in RE2 syntax. TRL tries it on each line, with the rows of
	// a wrapped line joined: on the current screen and on all later output. Trailing blanks
	// do not count, except before the cursor: \$ $ finds a prompt "$ ".
	Text string `json:"text,omitempty"`
	// SinceVersion makes Text ignore lines that have not changed since this version of the
	// screen; for a program, all output up to this number.
	SinceVersion *uint64 `json:"since_version,omitempty"`
	// IdleS waits until nothing has changed on the screen (no cell, cursor or mode) for this
	// many seconds; for a program, until no output has come for that long. Input restarts
	// the period.
	IdleS *float64 `json:"idle_s,omitempty"`
	// IdleMS is IdleS in milliseconds.
	//
	// Deprecated: use IdleS.
	IdleMS *int64 `json:"idle_ms,omitempty"`
	// Exit waits for the end of the program.
	Exit bool `json:"exit,omitempty"`
	// Cursor waits until the cursor is at this position. For terminals.
	Cursor *CursorAt `json:"cursor,omitempty"`
	// WaitingForInput waits until the kernel reports that the program waits for input.
	WaitingForInput bool `json:"waiting_for_input,omitempty"`
	// TimeoutS limits the wait. Absent: no limit; 0: check the conditions and return at once.
	TimeoutS *float64 `json:"timeout_s,omitempty"`
	// TimeoutMS is TimeoutS in milliseconds.
	//
	// Deprecated: use TimeoutS.
	TimeoutMS *int64 `json:"timeout_ms,omitempty"`
}

// CursorAt is a position of the cursor. An absent coordinate matches any value.
type CursorAt struct {
	X *int `json:"x,omitempty"` // column from 0
	Y *int `json:"y,omitempty"` // row from 0
}

// Check reports the first invalid parameter.
func (p SessionWaitParams) Check() error {
	switch {
	case p.SessionID == "":
		return InvalidParam("session_id", "is required")
	case p.Text == "" && p.Idle() == nil && !p.Exit && p.Cursor == nil && !p.WaitingForInput:
		return InvalidParam("text", "is required, or idle_s, exit, cursor or waiting_for_input")
	case p.Cursor != nil && p.Cursor.X == nil && p.Cursor.Y == nil:
		return InvalidParam("cursor", "needs x or y")
	case p.Cursor != nil && (p.Cursor.X != nil && *p.Cursor.X < 0 || p.Cursor.Y != nil && *p.Cursor.Y < 0):
		return InvalidParam("cursor", "must not be negative")
	}
	return checkWaitTimes(p.IdleS, p.TimeoutS, p.IdleMS, p.TimeoutMS)
}

// Idle returns the idle period to wait for; nil if the caller does not wait for one.
func (p SessionWaitParams) Idle() *time.Duration { return waitTime(p.IdleS, p.IdleMS) }

// Timeout returns the limit of the wait; nil if there is none.
func (p SessionWaitParams) Timeout() *time.Duration { return waitTime(p.TimeoutS, p.TimeoutMS) }

// IdleReason returns the reason that reports idleness to this caller: the name of the
// parameter that asked for it.
func (p SessionWaitParams) IdleReason() string {
	if p.IdleMS != nil {
		return WaitIdleMS
	}
	return WaitIdle
}

// InMilliseconds returns the same parameters with both times in milliseconds, the only form
// that runners of earlier versions know.
func (p SessionWaitParams) InMilliseconds() SessionWaitParams {
	p.IdleMS, p.TimeoutMS = milliseconds(p.Idle()), milliseconds(p.Timeout())
	p.IdleS, p.TimeoutS = nil, nil
	return p
}

// maxWait limits the times of a wait. It is longer than any caller waits, and safe to add to a time.
const maxWait = 366 * 24 * time.Hour

// waitTime returns a time that a caller gave in seconds or milliseconds; nil if it gave none.
func waitTime(seconds *float64, ms *int64) *time.Duration {
	var d time.Duration
	switch {
	case seconds != nil:
		d = time.Duration(min(*seconds, maxWait.Seconds()) * float64(time.Second))
	case ms != nil:
		d = time.Duration(min(*ms, maxWait.Milliseconds())) * time.Millisecond
	default:
		return nil
	}
	return &d
}

// milliseconds rounds up: 0 milliseconds would mean not to wait at all.
func milliseconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	ms := int64(math.Ceil(float64(*d) / float64(time.Millisecond)))
	return &ms
}

// checkWaitTimes rejects times that are out of range, or given in both units.
func checkWaitTimes(idleS, timeoutS *float64, idleMS, timeoutMS *int64) error {
	inRange := func(s *float64, least float64) bool { return s == nil || *s >= least && *s <= maxWait.Seconds() }
	switch {
	case idleS != nil && idleMS != nil:
		return InvalidParam("idle_ms", "cannot be given together with idle_s")
	case timeoutS != nil && timeoutMS != nil:
		return InvalidParam("timeout_ms", "cannot be given together with timeout_s")
	case !inRange(idleS, 0.001):
		return InvalidParam("idle_s", "must be a number of seconds from 0.001 to one year")
	case !inRange(timeoutS, 0):
		return InvalidParam("timeout_s", "must be a number of seconds from 0 to one year")
	case idleMS != nil && *idleMS < 1:
		return InvalidParam("idle_ms", "must be at least 1")
	case timeoutMS != nil && *timeoutMS < 0:
		return InvalidParam("timeout_ms", "must not be negative")
	}
	return nil
}

// SessionWaitResult reports which condition was met.
type SessionWaitResult struct {
	SessionID string `json:"session_id"` // the id, even if the caller used the name
	// Reason is text, idle_s, exit, cursor, waiting_for_input or timeout; idle_ms if
	// the caller asked with idle_ms.
	Reason string `json:"reason"`
	// TimedOut reports that timeout_s expired first.
	TimedOut bool `json:"timed_out"`
	// Match is the line that matched text.
	Match string `json:"match,omitempty"`
	// Groups are the submatches of the expression; the first is the whole match.
	Groups []string `json:"groups,omitempty"`
	// Version is the version of the screen when the condition was met, for since_version; for
	// a program, the number of its last output.
	Version uint64 `json:"version,omitempty"`
	// Cursor is the cursor of the terminal. For terminals.
	Cursor *ScreenCursor `json:"cursor,omitempty"`
	// Process is the process that waits for input.
	Process *Process `json:"process,omitempty"`
	// ExitCode is the exit status of the program, once it has ended.
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"` // signal that ended the program, such as SIGKILL
}
