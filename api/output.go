package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
)

// DefaultOutputLimit and MaxOutputLimit bound the bytes of one answer of exec.output.
const (
	DefaultOutputLimit = 64 << 10
	MaxOutputLimit     = 8 << 20
)

// ExecOutputParams reads the kept output of a command.
type ExecOutputParams struct {
	ExecID string `json:"exec_id"` // the command
	// Stream is stdout or stderr; stdout when empty.
	Stream string `json:"stream,omitempty"`
	// Offset is the first byte wanted.
	Offset int64 `json:"offset,omitempty"`
	// Limit bounds the bytes of the answer. Absent: 64 KiB; at most 8 MiB.
	Limit *int64 `json:"limit,omitempty"`
	// Tail asks for the last bytes of the stream instead of an offset.
	Tail *int64 `json:"tail,omitempty"`
	// Grep keeps only the lines that match, a regular expression in RE2 syntax.
	Grep string `json:"grep,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p ExecOutputParams) Check() error {
	switch {
	case p.ExecID == "":
		return invalid("exec_id", "is required")
	case p.Stream != "" && p.Stream != EventStdout && p.Stream != EventStderr:
		return invalid("stream", "must be stdout or stderr")
	case p.Offset < 0:
		return invalid("offset", "must not be negative")
	case p.Limit != nil && (*p.Limit < 0 || *p.Limit > MaxOutputLimit):
		return invalid("limit", "must be from 0 to 8388608")
	case p.Tail != nil && (*p.Tail < 0 || *p.Tail > MaxOutputLimit):
		return invalid("tail", "must be from 0 to 8388608")
	case p.Tail != nil && p.Offset > 0:
		return invalid("tail", "cannot be given together with offset")
	case p.Tail != nil && p.Limit != nil:
		return invalid("tail", "cannot be given together with limit")
	}
	return nil
}

// ExecOutputResult is a piece of the output of a command.
type ExecOutputResult struct {
	ExecID string `json:"exec_id"` // the command
	Stream string `json:"stream"`  // stdout or stderr
	// Offset is where Data begins: the byte asked for, or where the stream goes on behind a gap.
	Offset     int64  `json:"offset"`
	Data       string `json:"data"`                  // the bytes as text
	DataBase64 string `json:"data_base64,omitempty"` // only when data is not UTF-8
	// Lines are the matching lines when grep was asked for; Data is empty then.
	Lines []OutputLine `json:"lines,omitzero"`
	// NextOffset is where to read on.
	NextOffset int64 `json:"next_offset"`
	// TotalBytes is how many bytes the stream has had until now.
	TotalBytes int64 `json:"total_bytes"`
	// Gap is the part before Offset, or between the lines, that is gone.
	Gap *Span `json:"gap,omitempty"`
	// NextGap is the first part at or behind NextOffset that is gone now.
	NextGap *Span `json:"next_gap,omitempty"`
	// State is that of the command. Complete says that nothing follows NextOffset, now or later.
	State    ExecState `json:"state"`
	Complete bool      `json:"complete"`
}

// OutputBytes is a piece of output as it is, for transports that need no JSON.
// ExecOutputResult has neither Data nor Lines.
type OutputBytes struct {
	ExecOutputResult
	Bytes []byte
}

// OutputReader is implemented by a Service that can hand out output as bytes. With
// wait it answers only when there is something at the offset, or the output is
// complete. Grep is not for it.
type OutputReader interface {
	ReadOutput(ctx context.Context, p ExecOutputParams, wait bool) (OutputBytes, error)
}

// OutputLine is one line of output, without its end.
type OutputLine struct {
	Offset     int64  `json:"offset"`                // of its first byte
	Text       string `json:"text"`                  // without the newline
	TextBase64 string `json:"text_base64,omitempty"` // only when the text is not UTF-8
	// Truncated says that the line is longer than 64 KiB, or than the limit. Only its
	// first 64 KiB were looked at.
	Truncated bool `json:"truncated,omitempty"`
}

// Span is the bytes [From, To) of a stream.
type Span struct {
	From int64 `json:"from"` // first byte that is gone
	To   int64 `json:"to"`   // first byte that is there again
}

// ExecInputParams writes to the stdin of a running command that was started with
// stdin "open".
type ExecInputParams struct {
	ExecID string `json:"exec_id"`        // the command
	Data   string `json:"data,omitempty"` // text to write
	// DataBase64 is Data for bytes that are not UTF-8.
	DataBase64 string `json:"data_base64,omitempty"`
	// Close ends the input, after the data.
	Close bool `json:"close,omitempty"`
	// WriteID makes a repetition harmless: input with an id that was seen before is
	// not written again, and gets the same answer.
	WriteID string `json:"write_id,omitempty"`
	// Force writes also to the program of a session that belongs to a dialogue.
	Force bool `json:"force,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p ExecInputParams) Check() error {
	switch {
	case p.ExecID == "":
		return invalid("exec_id", "is required")
	case p.Data != "" && p.DataBase64 != "":
		return invalid("data_base64", "cannot be given together with data")
	case p.Data == "" && p.DataBase64 == "" && !p.Close:
		return invalid("data", "is required, or data_base64 or close")
	case len(p.WriteID) > 128:
		return invalid("write_id", "has more than 128 bytes")
	}
	if _, err := base64.StdEncoding.DecodeString(p.DataBase64); err != nil {
		return invalid("data_base64", "is not base64")
	}
	return nil
}

// ExecInputResult tells what was taken. It is answered when the bytes are TRL's to
// deliver, not when the command has read them.
type ExecInputResult struct {
	ExecID string `json:"exec_id"` // the command
	// StdinBytes is how many bytes the command has been given in all.
	StdinBytes int64 `json:"stdin_bytes"`
	// Repeated says that the write_id was seen before and nothing was written now.
	Repeated bool `json:"repeated"`
	// Closed says that the input has been ended.
	Closed bool `json:"closed"`
}

// What exec.wait can wait for. A command that has exited satisfies every wait.
const (
	UntilExit            = "exit"
	UntilOutputMatch     = "output_match"
	UntilIdle            = "idle_ms"
	UntilWaitingForInput = "waiting_for_input"
)

// ReasonTerminated is the reason of a WaitEvent for a command whose session has ended
// before anybody could learn how the command did.
const ReasonTerminated = "terminated"

// ExecWaitParams waits until something happens to commands.
type ExecWaitParams struct {
	// ExecIDs are the commands.
	ExecIDs []string `json:"exec_ids,omitempty"`
	// SessionIDs stand for the command that runs there now, or else ran there last.
	SessionIDs []string `json:"session_ids,omitempty"`
	// Until is what to wait for, one or several of exit, output_match, idle_ms,
	// waiting_for_input. OutputMatch and IdleMS, when they are given, are waited for
	// also without a word here, and exit always ends the waiting.
	Until Words `json:"until,omitempty"`
	// OutputMatch is a regular expression in RE2 syntax, tried on each line of either
	// stream, also on one that has no end yet.
	OutputMatch string `json:"output_match,omitempty"`
	// AfterSeq makes OutputMatch look only at what came after that number; for one command.
	AfterSeq int64 `json:"after_seq,omitempty"`
	// IdleMS is how long no output has come.
	IdleMS *int64 `json:"idle_ms,omitempty"`
	// Any waits for the first of the commands, as is done without a word.
	Any bool `json:"any,omitempty"`
	// All waits for all of the commands, not for the first.
	All bool `json:"all,omitempty"`
	// TimeoutMS bounds the waiting. Absent: no bound; 0: look and answer at once.
	TimeoutMS *int64 `json:"timeout_ms,omitempty"`
}

// Words is a list of words; a single one may be written without the list.
type Words []string

// UnmarshalJSON takes a list of strings, or one string.
func (w *Words) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*w = make(Words, 1)
		return json.Unmarshal(b, &(*w)[0])
	}
	return json.Unmarshal(b, (*[]string)(w))
}

// maxWaits bounds how many commands one exec.wait can look at.
const maxWaits = 1000

// Check reports the first parameter that cannot be.
func (p ExecWaitParams) Check() error {
	switch n := len(p.ExecIDs) + len(p.SessionIDs); {
	case n == 0:
		return invalid("exec_ids", "is required, or session_ids")
	case n > maxWaits:
		return invalid("exec_ids", "has more than 1000 entries")
	case p.Any && p.All:
		return invalid("any", "cannot be given together with all")
	case p.AfterSeq < 0:
		return invalid("after_seq", "must not be negative")
	case p.AfterSeq > 0 && n > 1:
		return invalid("after_seq", "is for one command")
	case p.IdleMS != nil && *p.IdleMS < 1:
		return invalid("idle_ms", "must be at least 1")
	case p.TimeoutMS != nil && *p.TimeoutMS < 0:
		return invalid("timeout_ms", "must not be negative")
	}
	for _, u := range p.Until {
		switch {
		case u == UntilOutputMatch && p.OutputMatch == "":
			return invalid("output_match", "is required: until asks for it")
		case u == UntilIdle && p.IdleMS == nil:
			return invalid("idle_ms", "is required: until asks for it")
		case u != UntilExit && u != UntilOutputMatch && u != UntilIdle && u != UntilWaitingForInput:
			return invalid("until", "%q is not one of exit, output_match, idle_ms, waiting_for_input", u)
		}
	}
	return nil
}

// ExecWaitResult is what happened.
type ExecWaitResult struct {
	// Happened has one entry per command that is done waiting for, in the order in which it happened.
	Happened []WaitEvent `json:"happened"`
	// Pending are the commands for which nothing of it has happened yet.
	Pending []string `json:"pending"`
	// TimedOut says that timeout_ms was over first.
	TimedOut bool `json:"timed_out"`
}

// WaitEvent is why the waiting for one command is over.
type WaitEvent struct {
	// ExecID is empty for a session that has never run a command.
	ExecID    string `json:"exec_id"`
	SessionID string `json:"session_id"` // where it runs
	// Reason is exit, output_match, idle_ms or waiting_for_input; or terminated, when the
	// session ended and how the command did cannot be known.
	Reason string `json:"reason"`
	// Outcome is set when the command has ended. One that could not be run at all has an
	// Error instead, which says why.
	Outcome *ExecOutcome `json:"outcome,omitempty"`
	Error   *Error       `json:"error,omitempty"` // why it could not be run
	// Match is the line that matched, and Stream where. Seq is the number of the record
	// that the match was found in, of the exit, or of the last record until then: a wait
	// with it as after_seq goes on behind that record.
	Match  *OutputLine `json:"match,omitempty"`
	Stream string      `json:"stream,omitempty"` // of the match
	Seq    int64       `json:"seq"`
	// Process is who waits for input.
	Process *Process `json:"process,omitempty"`
}
