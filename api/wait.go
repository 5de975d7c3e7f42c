package api

// Reasons of session.wait.
const (
	WaitText    = "text"
	WaitIdle    = "idle_ms"
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
	// IdleMS waits until nothing has changed on the screen (no cell, cursor or mode) for this
	// many milliseconds; for a program, until no output has come for that long. Input
	// restarts the period.
	IdleMS *int64 `json:"idle_ms,omitempty"`
	// Exit waits for the end of the program.
	Exit bool `json:"exit,omitempty"`
	// Cursor waits until the cursor is at this position. For terminals.
	Cursor *CursorAt `json:"cursor,omitempty"`
	// WaitingForInput waits until the kernel reports that the program waits for input.
	WaitingForInput bool `json:"waiting_for_input,omitempty"`
	// TimeoutMS limits the wait. Absent: no limit; 0: check the conditions and return at once.
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
		return invalid("session_id", "is required")
	case p.Text == "" && p.IdleMS == nil && !p.Exit && p.Cursor == nil && !p.WaitingForInput:
		return invalid("text", "is required, or idle_ms, exit, cursor or waiting_for_input")
	case p.IdleMS != nil && *p.IdleMS < 1:
		return invalid("idle_ms", "must be at least 1")
	case p.Cursor != nil && p.Cursor.X == nil && p.Cursor.Y == nil:
		return invalid("cursor", "needs x or y")
	case p.Cursor != nil && (p.Cursor.X != nil && *p.Cursor.X < 0 || p.Cursor.Y != nil && *p.Cursor.Y < 0):
		return invalid("cursor", "must not be negative")
	case p.TimeoutMS != nil && *p.TimeoutMS < 0:
		return invalid("timeout_ms", "must not be negative")
	}
	return nil
}

// SessionWaitResult reports which condition was met.
type SessionWaitResult struct {
	SessionID string `json:"session_id"` // the id, even if the caller used the name
	// Reason is text, idle_ms, exit, cursor, waiting_for_input or timeout.
	Reason string `json:"reason"`
	// TimedOut reports that timeout_ms expired first.
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
