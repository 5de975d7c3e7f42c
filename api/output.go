package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"
)

// DefaultOutputLimit and MaxOutputLimit bound the bytes of one answer of exec.output.
const (
	DefaultOutputLimit = 64 << 10
	MaxOutputLimit     = 8 << 20
)

// ExecOutputParams reads the stored output of a command.
type ExecOutputParams struct {
	ExecID string `json:"exec_id"` // the command
	// Stream is stdout or stderr; stdout when empty.
	Stream string `json:"stream,omitempty"`
	// Offset is the first byte to read.
	Offset int64 `json:"offset,omitempty"`
	// Limit is the maximum number of bytes to return. Absent: 64 KiB; at most 8 MiB.
	Limit *int64 `json:"limit,omitempty"`
	// Tail asks for this many bytes from the end of the stream, instead of an offset.
	Tail *int64 `json:"tail,omitempty"`
	// Grep returns only the lines that match this regular expression, in RE2 syntax.
	Grep string `json:"grep,omitempty"`
}

// Check reports the first invalid parameter.
func (p ExecOutputParams) Check() error {
	switch {
	case p.ExecID == "":
		return InvalidParam("exec_id", "is required")
	case p.Stream != "" && p.Stream != EventStdout && p.Stream != EventStderr:
		return InvalidParam("stream", "must be stdout or stderr")
	case p.Offset < 0:
		return InvalidParam("offset", "must not be negative")
	case p.Limit != nil && (*p.Limit < 0 || *p.Limit > MaxOutputLimit):
		return InvalidParam("limit", "must be from 0 to 8388608")
	case p.Tail != nil && (*p.Tail < 0 || *p.Tail > MaxOutputLimit):
		return InvalidParam("tail", "must be from 0 to 8388608")
	case p.Tail != nil && p.Offset > 0:
		return InvalidParam("tail", "cannot be given together with offset")
	case p.Tail != nil && p.Limit != nil:
		return InvalidParam("tail", "cannot be given together with limit")
	}
	return nil
}

// ExecOutputResult is a piece of a command's output.
type ExecOutputResult struct {
	ExecID string `json:"exec_id"` // the command
	Stream string `json:"stream"`  // stdout or stderr
	// Offset is the position of Data: the requested byte, or the first byte after a gap.
	Offset     int64  `json:"offset"`
	Data       string `json:"data"`                  // the bytes as text
	DataBase64 string `json:"data_base64,omitempty"` // the exact bytes, if data is not UTF-8
	// Lines are the matching lines, for a request with grep; Data is empty then.
	Lines []OutputLine `json:"lines,omitzero"`
	// NextOffset is the offset to continue reading at.
	NextOffset int64 `json:"next_offset"`
	// TotalBytes is the number of bytes written to the stream so far.
	TotalBytes int64 `json:"total_bytes"`
	// Gap is the part before Offset, or between the lines, that is no longer kept.
	Gap *Span `json:"gap,omitempty"`
	// NextGap is the first part at or after NextOffset that is no longer kept.
	NextGap *Span `json:"next_gap,omitempty"`
	// State is the state of the command. Complete reports that nothing follows NextOffset, now or later.
	State    ExecState `json:"state"`
	Complete bool      `json:"complete"`
}

// OutputBytes is a piece of output as bytes, for transports that do not need JSON.
// Its ExecOutputResult has neither Data nor Lines.
type OutputBytes struct {
	ExecOutputResult
	Bytes []byte
}

// OutputReader is implemented by a Service that can return output as bytes. With wait,
// ReadOutput returns only when there are bytes at the offset or the output is complete.
// It does not support grep.
type OutputReader interface {
	ReadOutput(ctx context.Context, p ExecOutputParams, wait bool) (OutputBytes, error)
}

// OutputLine is one line of output, without its end.
type OutputLine struct {
	Offset     int64  `json:"offset"`                // position of its first byte
	Text       string `json:"text"`                  // without the newline
	TextBase64 string `json:"text_base64,omitempty"` // the exact bytes, if the text is not UTF-8
	// Truncated reports that the line is longer than 64 KiB, or than the limit. TRL searched
	// only its first 64 KiB.
	Truncated bool `json:"truncated,omitempty"`
}

// Span is the bytes [From, To) of a stream.
type Span struct {
	From int64 `json:"from"` // first byte that is no longer kept
	To   int64 `json:"to"`   // first byte after it that is kept
}

// ExecInputParams writes to the stdin of a running command that was started with
// stdin_open, or types into the terminal of one that was started with pty.
type ExecInputParams struct {
	ExecID string `json:"exec_id"`        // the command
	Data   string `json:"data,omitempty"` // text to write
	// DataBase64 is Data for bytes that are not UTF-8.
	DataBase64 string `json:"data_base64,omitempty"`
	// Bytes is the data as it is, for callers in Go, in place of Data and DataBase64. A Client
	// sends it beside the JSON where it can, and keeps it: it must not be changed any more.
	Bytes []byte `json:"-"`
	// Close ends the input, after the data. It is not for terminals, where the character
	// ctrl-d (\u0004) ends the input.
	Close bool `json:"close,omitempty"`
	// Pty is the new size of the terminal of a command that was started with pty. It changes
	// before the data is typed.
	Pty *PTYSize `json:"pty,omitempty"`
	// WriteID makes a repeated call safe: TRL does not write input again whose id it has
	// seen before, and returns the same answer.
	WriteID string `json:"write_id,omitempty"`
	// Force is required to write to the program of a session that belongs to a dialogue.
	Force bool `json:"force,omitempty"`
}

// Check reports the first invalid parameter.
func (p ExecInputParams) Check() error {
	switch {
	case p.ExecID == "":
		return InvalidParam("exec_id", "is required")
	case p.Data != "" && p.DataBase64 != "":
		return InvalidParam("data_base64", "cannot be given together with data")
	case len(p.Bytes) > 0 && (p.Data != "" || p.DataBase64 != ""):
		return InvalidParam("data", "cannot be given together with bytes beside the request")
	case p.Data == "" && p.DataBase64 == "" && len(p.Bytes) == 0 && !p.Close && p.Pty == nil:
		return InvalidParam("data", "is required, or data_base64, close or pty")
	case len(p.WriteID) > 128:
		return InvalidParam("write_id", "has more than 128 bytes")
	}
	if _, err := base64.StdEncoding.DecodeString(p.DataBase64); err != nil {
		return InvalidParam("data_base64", "is not base64")
	}
	return p.Pty.check()
}

// Content is the data, however it was given.
func (p ExecInputParams) Content() []byte {
	if len(p.Bytes) > 0 {
		return p.Bytes
	}
	return Data(p.Data, p.DataBase64)
}

// InJSON returns the parameters with Bytes as text, or in base64 where JSON has no text for
// them or writes each byte as six.
func (p ExecInputParams) InJSON() ExecInputParams {
	if len(p.Bytes) == 0 {
		return p
	}
	if utf8.Valid(p.Bytes) && bytes.IndexByte(p.Bytes, 0) < 0 {
		p.Data = string(p.Bytes)
	} else {
		p.DataBase64 = base64.StdEncoding.EncodeToString(p.Bytes)
	}
	p.Bytes = nil
	return p
}

// attach takes the bytes that came beside the request.
func (p *ExecInputParams) attach(data []byte) { p.Bytes = data }

// ExecInputResult reports the accepted input. The call returns when TRL has accepted the
// bytes, which may be before the command reads them.
type ExecInputResult struct {
	ExecID string `json:"exec_id"` // the command
	// StdinBytes is the number of bytes accepted for the command so far.
	StdinBytes int64 `json:"stdin_bytes"`
	// Repeated reports that the write_id was seen before, so nothing was written.
	Repeated bool `json:"repeated"`
	// Closed reports that the input has ended.
	Closed bool `json:"closed"`
}

// The conditions of exec.wait. A command that has exited satisfies every wait.
const (
	UntilExit            = "exit"
	UntilOutputMatch     = "output_match"
	UntilIdle            = "idle_s"
	UntilIdleMS          = "idle_ms" // for a caller that gives idle_ms
	UntilWaitingForInput = "waiting_for_input"
)

// The reasons of a WaitEvent that are no conditions.
const (
	ReasonTerminated = "terminated" // the session ended before the command's outcome could be read
	ReasonNoCommand  = "no_command" // the session has run no command, so there is nothing to wait for
)

// ExecWaitParams waits for conditions of one or more commands.
type ExecWaitParams struct {
	// ExecIDs are the commands.
	ExecIDs []string `json:"exec_ids,omitempty"`
	// SessionIDs select, for each session, the command that runs now or ran last.
	SessionIDs []string `json:"session_ids,omitempty"`
	// Until is the conditions to wait for: one or more of exit, output_match, idle_s,
	// waiting_for_input. OutputMatch and IdleS count as conditions even if Until does not
	// list them, and exit always ends the wait.
	Until Words `json:"until,omitempty"`
	// OutputMatch is a regular expression in RE2 syntax. TRL tries it on each line of both
	// streams, including an unfinished last line.
	OutputMatch string `json:"output_match,omitempty"`
	// AfterSeq makes OutputMatch ignore output up to this number; for one command only.
	AfterSeq int64 `json:"after_seq,omitempty"`
	// IdleS waits until no output has come for this many seconds. The time of a queued command
	// begins when it starts.
	IdleS *float64 `json:"idle_s,omitempty"`
	// IdleMS is IdleS in milliseconds.
	//
	// Deprecated: use IdleS.
	IdleMS *int64 `json:"idle_ms,omitempty"`
	// Any waits for the first of the commands. This is the default.
	Any bool `json:"any,omitempty"`
	// All waits for all of the commands instead of the first.
	All bool `json:"all,omitempty"`
	// TimeoutS limits the wait. Absent: no limit; 0: check the conditions and return at once.
	// Commands of a session that does not answer are pending at the timeout. Without a limit,
	// the wait fails when no other command is left.
	TimeoutS *float64 `json:"timeout_s,omitempty"`
	// TimeoutMS is TimeoutS in milliseconds.
	//
	// Deprecated: use TimeoutS.
	TimeoutMS *int64 `json:"timeout_ms,omitempty"`
}

// Words is a list of words; a single word may be written without the list.
type Words []string

// UnmarshalJSON accepts a list of strings, or one string.
func (w *Words) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*w = make(Words, 1)
		return json.Unmarshal(b, &(*w)[0])
	}
	return json.Unmarshal(b, (*[]string)(w))
}

// maxWaits limits the number of commands that one exec.wait can wait for.
const maxWaits = 1000

// Check reports the first invalid parameter.
func (p ExecWaitParams) Check() error {
	switch n := len(p.ExecIDs) + len(p.SessionIDs); {
	case n == 0:
		return InvalidParam("exec_ids", "is required, or session_ids")
	case n > maxWaits:
		return InvalidParam("exec_ids", "has more than 1000 entries")
	case p.Any && p.All:
		return InvalidParam("any", "cannot be given together with all")
	case p.AfterSeq < 0:
		return InvalidParam("after_seq", "must not be negative")
	case p.AfterSeq > 0 && n > 1:
		return InvalidParam("after_seq", "is only for one command")
	}
	if err := checkWaitTimes(p.IdleS, p.TimeoutS, p.IdleMS, p.TimeoutMS); err != nil {
		return err
	}
	for _, u := range p.Until {
		switch {
		case u == UntilOutputMatch && p.OutputMatch == "":
			return InvalidParam("output_match", "is required: until asks for it")
		case (u == UntilIdle || u == UntilIdleMS) && p.Idle() == nil:
			return InvalidParam(u, "is required: until asks for it")
		case !slices.Contains(conditions, u):
			return InvalidParam("until", "%q is not one of exit, output_match, idle_s, waiting_for_input", u)
		}
	}
	return nil
}

var conditions = []string{UntilExit, UntilOutputMatch, UntilIdle, UntilIdleMS, UntilWaitingForInput}

// Idle returns the idle period to wait for; nil if the caller does not wait for one.
func (p ExecWaitParams) Idle() *time.Duration { return waitTime(p.IdleS, p.IdleMS) }

// Timeout returns the limit of the wait; nil if there is none.
func (p ExecWaitParams) Timeout() *time.Duration { return waitTime(p.TimeoutS, p.TimeoutMS) }

// IdleReason returns the reason that reports idleness to this caller: the name of the
// parameter that asked for it.
func (p ExecWaitParams) IdleReason() string {
	if p.IdleMS != nil {
		return UntilIdleMS
	}
	return UntilIdle
}

// ExecWaitResult reports which conditions were met.
type ExecWaitResult struct {
	// Happened has one entry per command that met a condition, in the order of the events.
	Happened []WaitEvent `json:"happened"`
	// Pending lists the commands that have not met a condition yet. If a session of session_ids
	// did not answer and no command is known to run there, its own id stands for the command.
	Pending []string `json:"pending"`
	// TimedOut reports that timeout_s expired first.
	TimedOut bool `json:"timed_out"`
}

// WaitEvent says why the wait for one command ended.
type WaitEvent struct {
	// ExecID is empty for a session that has never run a command.
	ExecID    string `json:"exec_id"`
	SessionID string `json:"session_id"` // session of the command
	// Reason is exit, output_match, idle_s or waiting_for_input; idle_ms if the caller asked
	// with idle_ms; terminated if the session ended and the outcome of the command is unknown;
	// no_command if the session has run no command, so there is nothing to wait for.
	Reason string `json:"reason"`
	// Outcome is set if the command has ended. A command that could not start has an Error
	// instead.
	Outcome *ExecOutcome `json:"outcome,omitempty"`
	Error   *Error       `json:"error,omitempty"` // why the command could not start
	// Match is the line that matched, and Stream is its stream. Seq is the number of the
	// record with the match, of the exit, or else of the last record so far. A wait with
	// this number as after_seq continues after that record.
	Match  *OutputLine `json:"match,omitempty"`
	Stream string      `json:"stream,omitempty"` // stream of the match
	Seq    int64       `json:"seq"`
	// Process is the process that waits for input.
	Process *Process `json:"process,omitempty"`
}
