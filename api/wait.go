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

// SessionWaitParams waits for something to happen in a terminal or program. Of several
// things the first ends the waiting, and so does the end of the session.
type SessionWaitParams struct {
	SessionID string `json:"session_id"` // id or name
	// Text is a regular expression in RE2 syntax, tried on each line, with the rows of a
	// wrapped line joined: on what is shown now, and on whatever comes. Blanks at the end
	// of a line do not count, but those before the cursor do: a prompt "$ " is found by \$ $.
	Text string `json:"text,omitempty"`
	// SinceVersion makes Text look only at lines that changed since the screen had that
	// version; for a program, only at what was printed since.
	SinceVersion *uint64 `json:"since_version,omitempty"`
	// IdleMS is how long nothing has changed on the screen, no cell, no cursor, no mode; for
	// a program, how long no output has come. It counts from the last input at the earliest.
	IdleMS *int64 `json:"idle_ms,omitempty"`
	// Exit waits for the end of the program.
	Exit bool `json:"exit,omitempty"`
	// Cursor waits until the cursor is there. For terminals.
	Cursor *CursorAt `json:"cursor,omitempty"`
	// WaitingForInput waits until the program waits for input, as the kernel tells.
	WaitingForInput bool `json:"waiting_for_input,omitempty"`
	// TimeoutMS bounds the waiting. Absent: no bound; 0: look and answer at once.
	TimeoutMS *int64 `json:"timeout_ms,omitempty"`
}

// CursorAt is a place of the cursor. What is absent may be anything.
type CursorAt struct {
	X *int `json:"x,omitempty"` // column from 0
	Y *int `json:"y,omitempty"` // row from 0
}

// Check reports the first parameter that cannot be.
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

// SessionWaitResult is what happened.
type SessionWaitResult struct {
	SessionID string `json:"session_id"` // its id, also when a name was given
	// Reason is text, idle_ms, exit, cursor, waiting_for_input or timeout.
	Reason string `json:"reason"`
	// TimedOut says that timeout_ms was over first.
	TimedOut bool `json:"timed_out"`
	// Match is the line in which the text was found.
	Match string `json:"match,omitempty"`
	// Groups are what the parentheses of the expression matched; the first is the whole match.
	Groups []string `json:"groups,omitempty"`
	// Version is that of the screen when it happened, for since_version; for a program, the
	// number of its last output.
	Version uint64 `json:"version,omitempty"`
	// Cursor is where the cursor is. For terminals.
	Cursor *ScreenCursor `json:"cursor,omitempty"`
	// Process is who waits for input.
	Process *Process `json:"process,omitempty"`
	// ExitCode is how the program ended, when it has.
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"` // that it died of, such as SIGKILL
}
