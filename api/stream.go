package api

import "time"

// ExecStreamParams asks for a command to be run and its output to be pushed; or,
// with ExecID, for the output of an earlier command.
type ExecStreamParams struct {
	ExecParams
	// ExecID is an earlier command, running or ended; the call then starts nothing. Of the
	// parameters of a new command only detach may be set: false cancels the command if
	// this stream is closed before the command ends.
	ExecID string `json:"exec_id,omitempty"`
	// AfterSeq is the number of the last push that the reader has; pushes begin with the next.
	AfterSeq int64 `json:"after_seq,omitempty"`
	// Stream selects only the pushes of one stream: stdout or stderr.
	Stream string `json:"stream,omitempty"`
	// FromOffset skips the bytes of each stream before this offset.
	FromOffset int64 `json:"from_offset,omitempty"`
}

// Check reports the first invalid parameter.
func (p ExecStreamParams) Check() error {
	switch {
	case p.Stream != "" && p.Stream != EventStdout && p.Stream != EventStderr:
		return InvalidParam("stream", "must be stdout or stderr")
	case p.AfterSeq < 0:
		return InvalidParam("after_seq", "must not be negative")
	case p.FromOffset < 0:
		return InvalidParam("from_offset", "must not be negative")
	case p.AfterSeq > 0 && p.FromOffset > 0:
		return InvalidParam("from_offset", "cannot be given together with after_seq")
	case p.ExecID == "" && (p.AfterSeq > 0 || p.FromOffset > 0):
		return InvalidParam("exec_id", "is required with after_seq or from_offset")
	case p.ExecID == "" && p.SessionID == "":
		return InvalidParam("session_id", "is required, or exec_id")
	case p.ExecID == "":
		return p.ExecParams.Check()
	}
	return p.nothingToRun()
}

// Follows reports whether the call only reads the output of an earlier command. A stream with detach
// false does more: it cancels the command when it is closed.
func (p ExecStreamParams) Follows() bool { return p.ExecID != "" && (p.Detach == nil || *p.Detach) }

// nothingToRun rejects the parameters of a new command.
func (p ExecStreamParams) nothingToRun() error {
	for _, c := range []struct {
		field string
		given bool
	}{
		{"command", p.Command != ""}, {"argv", p.Argv != nil}, {"pty", p.Pty != nil}, {"merge", p.Merge}, {"timeout_s", p.TimeoutS != nil}, {"stdin", p.Stdin != nil}, {"stdin_base64", p.StdinBase64 != ""},
		{"stdin_open", p.StdinOpen},
		{"env", p.Env != nil}, {"working_dir", p.WorkingDir != ""}, {"wait", p.Wait}, {"max_output_bytes", p.MaxOutputBytes != nil},
		{"backpressure", p.Backpressure != nil}, {"run_id", p.RunID != ""},
	} {
		if c.given {
			return InvalidParam(c.field, "cannot be given together with exec_id")
		}
	}
	return nil
}

// StreamStart is the immediate answer of a streaming method.
type StreamStart struct {
	// StreamID is in every push of this stream, and is unique within the connection.
	StreamID  string `json:"stream_id"`
	ExecID    string `json:"exec_id,omitempty"`    // the command, for exec.stream
	SessionID string `json:"session_id,omitempty"` // the command's session, for exec.stream; the terminal, for session.attach
	// ViewerID identifies this viewer in session.resize, for session.attach.
	ViewerID string `json:"viewer_id,omitempty"`
	// DialogueID is the dialogue, for dialogue.events.
	DialogueID string `json:"dialogue_id,omitempty"`
	// Seq is the number of the last event before the stream, for event.subscribe, system.log and audit.subscribe. A
	// subscriber that reconnects before it has seen an event passes it as after_seq.
	Seq int64 `json:"seq,omitempty"`
}

// Types of StreamEvent in a stream of output.
const (
	EventStdout = "stdout" // bytes of the command's stdout
	EventStderr = "stderr" // bytes of the command's stderr
	EventGap    = "gap"    // bytes that are no longer kept
	EventExit   = "exit"   // the command has ended; nothing follows
	EventError  = "error"  // the stream broke; nothing follows. Its seq is that of the previous push
)

// Types of StreamEvent in a stream of events of sessions and commands.
const (
	// EventSessionProgress reports a slow step on the way to a session, such as pulling an image.
	// It comes before session.created. If the creation fails, no other event of the session follows.
	EventSessionProgress   = "session.progress"
	EventSessionCreated    = "session.created"    // the session's shell is ready
	EventSessionRunning    = "session.running"    // a command started
	EventSessionIdle       = "session.idle"       // no command runs
	EventSessionUpdated    = "session.updated"    // session.set changed the session
	EventSessionTerminated = "session.terminated" // the session has ended, with a cause
	// EventSessionUnreachable says that the session's runner does not answer, with a cause.
	// The session's processes go on, and TRL keeps trying to reach the runner.
	EventSessionUnreachable = "session.unreachable"
	EventSessionReachable   = "session.reachable" // the session's runner answers again
	EventExecQueued         = "exec.queued"       // the command waits for its turn
	EventExecRunning        = "exec.running"      // the command started
	EventExecExited         = "exec.exited"       // the command has ended, with an outcome
	EventExecClosed         = "exec.closed"       // the command's output is complete
	// The events of the network have the field network. They are for sessions whose isolation has
	// network allow. Equal decisions within a second are one event with a count.
	EventNetworkAllowed = "network.allowed" // a program connected to a destination that a rule lists, or tried to
	EventNetworkRefused = "network.refused" // a program wanted to reach a destination that no rule lists
	// The events of dialogues have dialogue_id, session_id, name and state. They have no text of
	// the conversation.
	EventDialogueCreated       = "dialogue.created"        // dialogue.create succeeded
	EventDialogueState         = "dialogue.state"          // the dialogue has another state
	EventDialogueRequestOpened = "dialogue.request_opened" // the agent waits for an answer, with a request_id
	EventDialogueRequestClosed = "dialogue.request_closed" // the request no longer waits for an answer, with a request_id
	EventDialogueTurnEnded     = "dialogue.turn_ended"     // a turn has ended, with a turn_id
	EventDialogueEnded         = "dialogue.ended"          // the agent's process has ended, with a cause
	EventDialogueRemoved       = "dialogue.removed"        // the record of the dialogue is deleted
	EventMissed                = "missed"                  // the events with the numbers [From, To) are no longer kept
)

// Types of StreamEvent in a stream of a dialogue.
const (
	EventDialogue = "dialogue" // an event of the dialogue
	EventEnd      = "end"      // nothing follows: the agent's process has ended, or no_follow was set
)

// EventBytes is the type of the pushes of guest.connect: bytes of the runner. EventEnd follows the last.
const EventBytes = "bytes"

// EventTypes lists the events of event.subscribe.
var EventTypes = []string{
	EventSessionProgress, EventSessionCreated, EventSessionRunning, EventSessionIdle, EventSessionUpdated, EventSessionTerminated, EventSessionUnreachable, EventSessionReachable,
	EventExecQueued, EventExecRunning, EventExecExited, EventExecClosed, EventNetworkAllowed, EventNetworkRefused,
	EventDialogueCreated, EventDialogueState, EventDialogueRequestOpened, EventDialogueRequestClosed, EventDialogueTurnEnded, EventDialogueEnded, EventDialogueRemoved,
}

// EventKinds lists the words that select all events of a kind in event.subscribe.
var EventKinds = []string{"session", "exec", "network", "dialogue"}

// StreamEvent is one push of a stream.
type StreamEvent struct {
	StreamID string `json:"stream_id"` // the stream_id of the immediate answer
	// Seq orders the pushes. A reader that reconnects with it as after_seq gets exactly the
	// pushes that follow.
	Seq  int64  `json:"seq"`
	Type string `json:"type"` // type of the push; decides which other fields are set
	// Offset is the position of Data in its stream, in bytes, for stdout, stderr and output.
	// For snapshot and resize it is the offset at which the output continues.
	Offset     *int64 `json:"offset,omitempty"`
	Data       string `json:"data,omitempty"`        // the output, for stdout, stderr and output; the screen, for snapshot
	DataBase64 string `json:"data_base64,omitempty"` // the exact bytes, if data is not UTF-8
	// Stream, From and To describe a gap: the bytes [From, To) of Stream are no longer kept.
	// A gap may begin with bytes that the reader has already received.
	Stream string `json:"stream,omitempty"`
	From   *int64 `json:"from,omitempty"` // first byte of a gap; number of the first missed event
	To     *int64 `json:"to,omitempty"`   // first byte after a gap; number of the first event after the missed ones
	// At is the time of the event, for the events of event.subscribe; of the record, for log and audit.
	At        *time.Time `json:"at,omitempty"`
	SessionID string     `json:"session_id,omitempty"` // for the events of event.subscribe
	Name      string     `json:"name,omitempty"`       // name of the session or the dialogue, for its events
	ExecID    string     `json:"exec_id,omitempty"`    // for events of commands
	Cause     string     `json:"cause,omitempty"`      // for session.terminated, session.unreachable and dialogue.ended
	CreateID  string     `json:"create_id,omitempty"`  // the create_id of session.create, for session.progress
	// Progress is the slow step, for session.progress.
	Progress *PlaceProgress `json:"progress,omitempty"`
	// Network is the decision, for network.allowed and network.refused.
	Network *NetworkDecision `json:"network,omitempty"`
	// DialogueID is set for type dialogue, and for events of dialogues.
	DialogueID string         `json:"dialogue_id,omitempty"`
	Event      *DialogueEvent `json:"event,omitempty"` // the event, for type dialogue
	// DialogueSeq is the number that the event has in dialogue.events, for events of dialogues.
	// Absent: it is not one of them.
	DialogueSeq int64         `json:"dialogue_seq,omitempty"`
	State       DialogueState `json:"state,omitempty"`      // for events of dialogues
	RequestID   string        `json:"request_id,omitempty"` // for dialogue.request_opened and dialogue.request_closed
	TurnID      string        `json:"turn_id,omitempty"`    // for dialogue.turn_ended
	// Sessions are the measurements, for type usage.
	Sessions []SessionUsage `json:"sessions,omitempty"`
	// Audit is the record, for type audit.
	Audit *AuditRecord `json:"audit,omitempty"`
	// Log is the record, for type log.
	Log *LogRecord `json:"log,omitempty"`
	// Error is set for type error only; in Go, Recv returns it as its error.
	Error *Error `json:"error,omitempty"`
	// Viewers are all viewers of the terminal, in the order in which they attached, for type viewers.
	Viewers []Viewer `json:"viewers,omitempty"`
	// Modes is set for type modes.
	Modes *TerminalModes `json:"modes,omitempty"`
	// ViewerEvent is set for the types snapshot and resize.
	*ViewerEvent
	// The outcome is set for types exit and exec.exited. In exec.exited it has no command
	// lines and no directory; exec.info has them.
	*ExecOutcome
}

// EventSubscribeParams asks for the events of sessions, commands and dialogues.
type EventSubscribeParams struct {
	// SessionID selects the events of one session, by id or name, and of the dialogue that owns it.
	SessionID string `json:"session_id,omitempty"`
	// Types selects the events of these types: full names, or session, exec, network or dialogue
	// for all of a kind.
	Types []string `json:"types,omitempty"`
	// AfterSeq is the number of the last event that the subscriber has. Absent: only new
	// events; 0: all events that are kept.
	AfterSeq *int64 `json:"after_seq,omitempty"`
	// Passive says that no person sees the events now. A subscription of the console's page that is not
	// passive keeps the hook on_request silent, for five minutes. For other callers the field has no effect.
	Passive bool `json:"passive,omitempty"`
}

// Check reports the first invalid parameter.
func (p EventSubscribeParams) Check() error {
	for _, t := range p.Types {
		if !contains(EventKinds, t) && !contains(EventTypes, t) {
			return InvalidParam("types", "there is no event %q", t)
		}
	}
	if p.AfterSeq != nil && *p.AfterSeq < 0 {
		return InvalidParam("after_seq", "must not be negative")
	}
	return nil
}

// StreamCloseParams ends one stream of this connection. Its pushes stop, and the connection stays.
type StreamCloseParams struct {
	StreamID string `json:"stream_id"` // as in the immediate answer of the stream
}

// Check reports the first invalid parameter.
func (p StreamCloseParams) Check() error {
	if p.StreamID == "" {
		return InvalidParam("stream_id", "is required")
	}
	return nil
}

// StreamCloseResult reports the end of a stream. No push of the stream follows it.
type StreamCloseResult struct {
	Closed bool `json:"closed"` // false if the connection has no such stream, for instance because it has ended
}
