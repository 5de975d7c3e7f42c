package api

import "time"

// ExecStreamParams asks for a command to be run and its output to be pushed; or,
// with ExecID, for the output of one that was started before.
type ExecStreamParams struct {
	ExecParams
	// ExecID names a command that runs or has ended. Nothing is started then, and of
	// the parameters of a new command none may be given but detach: with false, the
	// command is cancelled when this stream is given up before its end.
	ExecID string `json:"exec_id,omitempty"`
	// AfterSeq is the number of the last push the reader has; pushes begin with the next.
	AfterSeq int64 `json:"after_seq,omitempty"`
	// Stream keeps only the pushes of one stream: stdout or stderr.
	Stream string `json:"stream,omitempty"`
	// FromOffset leaves out what each stream has before that byte.
	FromOffset int64 `json:"from_offset,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p ExecStreamParams) Check() error {
	switch {
	case p.Stream != "" && p.Stream != EventStdout && p.Stream != EventStderr:
		return invalid("stream", "must be stdout or stderr")
	case p.AfterSeq < 0:
		return invalid("after_seq", "must not be negative")
	case p.FromOffset < 0:
		return invalid("from_offset", "must not be negative")
	case p.AfterSeq > 0 && p.FromOffset > 0:
		return invalid("from_offset", "cannot be given together with after_seq")
	case p.ExecID == "" && (p.AfterSeq > 0 || p.FromOffset > 0):
		return invalid("exec_id", "is required with after_seq or from_offset")
	case p.ExecID == "" && p.SessionID == "":
		return invalid("session_id", "is required, or exec_id")
	case p.ExecID == "":
		return p.ExecParams.Check()
	}
	return p.nothingToRun()
}

// nothingToRun refuses what is for a new command.
func (p ExecStreamParams) nothingToRun() error {
	for _, c := range []struct {
		field string
		given bool
	}{
		{"command", p.Command != ""}, {"timeout_s", p.TimeoutS != nil}, {"stdin", p.Stdin != nil}, {"stdin_base64", p.StdinBase64 != ""},
		{"env", p.Env != nil}, {"working_dir", p.WorkingDir != ""}, {"wait", p.Wait}, {"max_output_bytes", p.MaxOutputBytes != nil},
		{"backpressure", p.Backpressure != nil}, {"run_id", p.RunID != ""},
	} {
		if c.given {
			return invalid(c.field, "cannot be given together with exec_id")
		}
	}
	return nil
}

// StreamStart is the immediate answer of a streaming method.
type StreamStart struct {
	// StreamID is what the pushes of this stream carry. No two streams of a
	// connection have the same.
	StreamID  string `json:"stream_id"`
	ExecID    string `json:"exec_id,omitempty"`    // the command, for exec.stream
	SessionID string `json:"session_id,omitempty"` // where it runs, for exec.stream; the terminal, for session.attach
	// ViewerID names this viewer in session.resize, for session.attach.
	ViewerID string `json:"viewer_id,omitempty"`
	// DialogueID is the dialogue, for dialogue.events.
	DialogueID string `json:"dialogue_id,omitempty"`
	// Seq is the number of the last event before the stream, for event.subscribe: where
	// a subscriber that has seen nothing yet comes back.
	Seq int64 `json:"seq,omitempty"`
}

// Types of StreamEvent in a stream of output.
const (
	EventStdout = "stdout" // bytes of the command's stdout
	EventStderr = "stderr" // bytes of its stderr
	EventGap    = "gap"    // bytes that are no longer kept
	EventExit   = "exit"   // of the command; nothing follows
	EventError  = "error"  // the stream broke off; nothing follows. Its seq is that of the push before
)

// Types of StreamEvent in a stream of events: what happened to a session or an exec.
const (
	EventSessionCreated    = "session.created"    // its shell is ready
	EventSessionRunning    = "session.running"    // a command began
	EventSessionIdle       = "session.idle"       // no command runs
	EventSessionTerminated = "session.terminated" // it has ended, with a cause
	// EventSessionUnreachable says that the session's runner does not answer, with a cause.
	// What runs there goes on; TRL keeps trying.
	EventSessionUnreachable = "session.unreachable"
	EventSessionReachable   = "session.reachable" // its runner answers again
	EventExecQueued         = "exec.queued"       // it waits for its turn
	EventExecRunning        = "exec.running"      // it began
	EventExecExited         = "exec.exited"       // the command has ended, with an outcome
	EventExecClosed         = "exec.closed"       // its output is complete
	EventMissed             = "missed"            // what was asked for is partly too old: the numbers [From, To) are gone
)

// Types of StreamEvent in a stream of a dialogue.
const (
	EventDialogue = "dialogue" // something happened in it
	EventEnd      = "end"      // nothing follows: its process is gone, or what was there has been told
)

// EventTypes lists what event.subscribe can tell of.
var EventTypes = []string{
	EventSessionCreated, EventSessionRunning, EventSessionIdle, EventSessionTerminated, EventSessionUnreachable, EventSessionReachable,
	EventExecQueued, EventExecRunning, EventExecExited, EventExecClosed,
}

// StreamEvent is one push of a stream.
type StreamEvent struct {
	StreamID string `json:"stream_id"` // as in the answer
	// Seq orders the pushes. A reader that comes back with it as after_seq gets
	// exactly what follows.
	Seq  int64  `json:"seq"`
	Type string `json:"type"` // what is told
	// Offset is where Data begins in its stream, in bytes, for stdout, stderr and output. For
	// snapshot and resize it is where the output goes on behind them.
	Offset     *int64 `json:"offset,omitempty"`
	Data       string `json:"data,omitempty"`        // what was written, for stdout, stderr and output; a snapshot
	DataBase64 string `json:"data_base64,omitempty"` // only when data is not UTF-8
	// Stream, From and To tell what is gone, for type gap: the bytes [From, To). A
	// gap may begin with bytes the reader has got before.
	Stream string `json:"stream,omitempty"`
	From   *int64 `json:"from,omitempty"` // first byte of a gap; first number of what was missed
	To     *int64 `json:"to,omitempty"`   // first byte after a gap; first number after what was missed
	// At is when it happened, for events of sessions and execs.
	At        *time.Time `json:"at,omitempty"`
	SessionID string     `json:"session_id,omitempty"` // of events of sessions and execs
	Name      string     `json:"name,omitempty"`       // of the session, for its events
	ExecID    string     `json:"exec_id,omitempty"`    // of events of execs
	Cause     string     `json:"cause,omitempty"`      // of session.terminated and session.unreachable
	// DialogueID and Event are set for type dialogue.
	DialogueID string         `json:"dialogue_id,omitempty"`
	Event      *DialogueEvent `json:"event,omitempty"` // what happened in the dialogue
	// Error is set for type error only; in Go, Recv returns it as its error.
	Error *Error `json:"error,omitempty"`
	// ViewerEvent is set for the types snapshot and resize.
	*ViewerEvent
	// The outcome is set for types exit and exec.exited. That of exec.exited names no
	// commands and no directory; exec.info has them.
	*ExecOutcome
}

// EventSubscribeParams asks to be told what happens.
type EventSubscribeParams struct {
	// SessionID keeps the events of one session, by id or name.
	SessionID string `json:"session_id,omitempty"`
	// Types keeps the events of these types: full names, or session or exec for all of a kind.
	Types []string `json:"types,omitempty"`
	// AfterSeq is the last event the subscriber has. Absent: only what happens from now on; 0: all that is kept.
	AfterSeq *int64 `json:"after_seq,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p EventSubscribeParams) Check() error {
	for _, t := range p.Types {
		if t != "session" && t != "exec" && !contains(EventTypes, t) {
			return invalid("types", "there is no event %q", t)
		}
	}
	if p.AfterSeq != nil && *p.AfterSeq < 0 {
		return invalid("after_seq", "must not be negative")
	}
	return nil
}
