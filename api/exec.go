package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// ExecState is the life of a command: queued → running → exited → closed.
// exited = the command has ended; closed = its output is complete.
type ExecState string

// The four states of an exec.
const (
	ExecQueued  ExecState = "queued"
	ExecRunning ExecState = "running"
	ExecExited  ExecState = "exited"
	ExecClosed  ExecState = "closed"
)

// execMoves says which state may follow which. A queued command that is
// cancelled never runs: it closes.
var execMoves = map[ExecState][]ExecState{
	ExecQueued:  {ExecRunning, ExecClosed},
	ExecRunning: {ExecExited},
	ExecExited:  {ExecClosed},
}

// CanBecome reports whether an exec in state s may move to next.
func (s ExecState) CanBecome(next ExecState) bool { return contains(execMoves[s], next) }

// Exit codes that TRL itself gives.
const (
	ExitTimedOut  = 124
	ExitCancelled = 130
)

// DefaultMaxOutputBytes is how much of each stream a result carries when the caller does not say.
const DefaultMaxOutputBytes = 1 << 20

// ExecParams asks for a command to be run.
type ExecParams struct {
	SessionID string `json:"session_id"` // id or name
	// Command is the text, exactly as one would write it in a script of that shell.
	Command string `json:"command"`
	// TimeoutS bounds the command. Absent: the session's; 0: none.
	TimeoutS *float64 `json:"timeout_s,omitempty"`
	// Stdin is what the command reads. Absent: end of file at once. For exec.start and
	// exec.stream the one word "open" means that it is written later, with exec.input;
	// a text that is just this word goes into stdin_base64.
	Stdin *string `json:"stdin,omitempty"`
	// StdinBase64 is Stdin for bytes that are not UTF-8.
	StdinBase64 string `json:"stdin_base64,omitempty"`
	// Env is set for this command only.
	Env map[string]string `json:"env,omitempty"`
	// WorkingDir is the directory of this command only, an absolute path; the shell then goes back to where it was.
	WorkingDir string `json:"working_dir,omitempty"`
	// Wait queues the command when the session is busy, instead of answering SESSION_BUSY.
	Wait bool `json:"wait,omitempty"`
	// MaxOutputBytes is how much of each stream the result carries; head and tail
	// are kept. Absent: 1 MiB. It does not bound a stream of pushes.
	MaxOutputBytes *int64 `json:"max_output_bytes,omitempty"`
	// Detach says what happens when the caller's connection goes away: false, the
	// command is cancelled; true, it goes on. Absent: false for exec.run, true for exec.stream.
	Detach *bool `json:"detach,omitempty"`
	// Backpressure makes the command wait while the stream that started it is behind, as
	// on a pipe, so that the stream misses nothing. It is for exec.stream only. Absent:
	// true; false: the command never waits, and a stream that is behind sees a gap. A
	// stream that ends, or takes nothing for reader_stall_s, lets the command run free.
	Backpressure *bool `json:"backpressure,omitempty"`
	// RunID makes the command run once: a request with the run_id of a command that this
	// session has accepted before runs nothing and is answered with that command. So a
	// caller whose connection was lost before the answer may ask again. It is any text of at
	// most 64 bytes that no other request has, such as a random number.
	RunID string `json:"run_id,omitempty"`

	empty bool // an empty command was given, which is not the same as none
}

// given looks for an empty command: any shell runs it, with status 0.
func (p *ExecParams) given(params json.RawMessage) {
	p.empty = p.Command == "" && bytes.Contains(params, []byte(`"command"`))
}

// Check reports the first parameter that cannot be.
func (p ExecParams) Check() error {
	if p.SessionID == "" {
		return invalid("session_id", "is required")
	}
	if p.Command == "" && !p.empty {
		return invalid("command", "is required")
	}
	if err := noNUL("command", p.Command); err != nil {
		return err
	}
	if err := checkDir(p.WorkingDir); err != nil {
		return err
	}
	if p.Stdin != nil && p.StdinBase64 != "" {
		return invalid("stdin_base64", "cannot be given together with stdin")
	}
	if _, err := base64.StdEncoding.DecodeString(p.StdinBase64); err != nil {
		return invalid("stdin_base64", "is not base64")
	}
	if p.MaxOutputBytes != nil && *p.MaxOutputBytes < 0 {
		return invalid("max_output_bytes", "must not be negative")
	}
	if err := checkSeconds("timeout_s", p.TimeoutS); err != nil {
		return err
	}
	if len(p.RunID) > maxRunID {
		return invalid("run_id", "at most %d bytes", maxRunID)
	}
	return checkEnv(p.Env)
}

const maxRunID = 64

// StdinOpen is the value of Stdin that leaves it to exec.input, for exec.start and exec.stream.
const StdinOpen = "open"

// StdinData returns the bytes for the command's stdin, and whether any were given.
func (p ExecParams) StdinData() ([]byte, bool) {
	if p.Stdin != nil {
		return []byte(*p.Stdin), true
	}
	b, _ := base64.StdEncoding.DecodeString(p.StdinBase64)
	return b, p.StdinBase64 != ""
}

// Process is a process of a session.
type Process struct {
	PID     int    `json:"pid"`     // in the place where the session lives
	Command string `json:"command"` // its name or command line
}

// KilledProcess is a process that TRL ended, and the signal that it took.
type KilledProcess struct {
	PID     int    `json:"pid"`     // in the place where the session lives
	Command string `json:"command"` // its name or command line
	Signal  string `json:"signal"`  // the last one sent, such as SIGTERM or SIGKILL
}

// Usage is what a command consumed, with everything it waited for.
type Usage struct {
	UserMS   int64 `json:"user_ms"`   // CPU time in user mode
	SystemMS int64 `json:"system_ms"` // CPU time in the kernel
	// MaxRSSBytes is the largest resident size seen of any one process of the
	// command; 0 when it was too short to be seen.
	MaxRSSBytes int64 `json:"max_rss_bytes"`
}

// ExecOutcome is how a command ended, without its text.
type ExecOutcome struct {
	ExitCode int `json:"exit_code"` // 124 when timed out, 130 when cancelled, else the command's
	// Signal is the signal that ended the command, where TRL knows it for certain:
	// the last one TRL sent, or the one the shell itself died of.
	Signal     string `json:"signal,omitempty"`
	DurationMS int64  `json:"duration_ms"` // from its start to its end
	TimedOut   bool   `json:"timed_out"`   // its time was over
	Cancelled  bool   `json:"cancelled"`   // it was cancelled
	// CancelCause says why it was cancelled when exec.cancel did not ask for it: its caller
	// went away, or its session ended, and why.
	CancelCause     string          `json:"cancel_cause,omitempty"`
	StdoutBytes     int64           `json:"stdout_bytes"`     // how many there were, kept or not
	StderrBytes     int64           `json:"stderr_bytes"`     // how many there were, kept or not
	WorkingDir      string          `json:"working_dir"`      // where the shell is afterwards
	LeftRunning     []Process       `json:"left_running"`     // started by it, still alive, holding its output
	Killed          []KilledProcess `json:"killed"`           // what had to be signalled
	Usage           Usage           `json:"usage"`            // what it consumed
	ShellRestarted  bool            `json:"shell_restarted"`  // the command ended the shell; it was replaced, with its state
	StdoutTruncated bool            `json:"stdout_truncated"` // a part of stdout is not in the result, or no longer kept
	StderrTruncated bool            `json:"stderr_truncated"` // a part of stderr is not in the result, or no longer kept
}

// ExecResult is what exec.run answers.
type ExecResult struct {
	ExecID    string `json:"exec_id"`    // names the command in other calls
	SessionID string `json:"session_id"` // where it ran
	// Stdout and Stderr are text. Where the bytes are not UTF-8 they carry
	// replacement characters, and the _base64 fields the exact bytes.
	Stdout       string `json:"stdout"`
	Stderr       string `json:"stderr"`
	StdoutBase64 string `json:"stdout_base64,omitempty"` // only when stdout is not UTF-8
	StderrBase64 string `json:"stderr_base64,omitempty"` // only when stderr is not UTF-8
	ExecOutcome
}

// StdoutData and StderrData return the exact bytes.
func (r ExecResult) StdoutData() []byte { return Data(r.Stdout, r.StdoutBase64) }

// StderrData returns the exact bytes of stderr.
func (r ExecResult) StderrData() []byte { return Data(r.Stderr, r.StderrBase64) }

// Text splits bytes into the pair of fields that carries them on the wire.
func Text(b []byte) (text, b64 string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), base64.StdEncoding.EncodeToString(b)
}

// Data is the inverse of Text.
func Data(text, b64 string) []byte {
	if b64 == "" {
		return []byte(text)
	}
	b, err := base64.StdEncoding.DecodeString(b64)
	if err != nil {
		return []byte(text)
	}
	return b
}

// ExecInfo is a snapshot of one command.
type ExecInfo struct {
	ExecID    string     `json:"exec_id"`              // x-…; contains the session's id
	SessionID string     `json:"session_id"`           // where it runs
	Command   string     `json:"command"`              // at most the first 4 KiB
	State     ExecState  `json:"state"`                // queued, running, exited or closed
	QueuedAt  time.Time  `json:"queued_at"`            // when it was accepted
	StartedAt *time.Time `json:"started_at,omitempty"` // absent while it waits
	EndedAt   *time.Time `json:"ended_at,omitempty"`   // absent while it runs
	TimeoutS  float64    `json:"timeout_s"`            // 0 = none
	Detach    bool       `json:"detach"`               // it goes on when its caller's connection is gone
	// StdinOpen says that exec.input can still write to it.
	StdinOpen bool `json:"stdin_open,omitempty"`
	// AgeMS is how long ago the command was accepted.
	AgeMS int64 `json:"age_ms"`
	// StdoutBytes and StderrBytes are how many bytes have been written until now.
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	// LastSeq is the number of the last record in its output, the exit included; 0 when
	// there is none.
	LastSeq int64 `json:"last_seq"`
	// QuietMS is how long ago it last wrote something. Absent when it never did.
	QuietMS *int64 `json:"quiet_ms,omitempty"`
	// Usage is what it has consumed until now.
	Usage Usage `json:"usage"`
	// Outcome is set once the command has ended.
	Outcome *ExecOutcome `json:"outcome,omitempty"`
	// Error says why the command could not be run at all. There is no outcome then.
	Error *Error `json:"error,omitempty"`
}

// ExecCancelParams stops a command.
type ExecCancelParams struct {
	// ExecID names the command. SessionID stands for the one that runs there now.
	ExecID    string `json:"exec_id,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	// Signal is the first signal of the ladder: TERM (default), INT, HUP, QUIT, KILL, USR1, USR2.
	Signal string `json:"signal,omitempty"`
	// Force cancels also the program of a session that belongs to a dialogue.
	Force bool `json:"force,omitempty"`
}

// ExecInfoParams names one command.
type ExecInfoParams struct {
	ExecID string `json:"exec_id"` // the command
}

// ExecListParams names the session whose commands are listed; all when empty.
type ExecListParams struct {
	SessionID string `json:"session_id,omitempty"` // id or name; all sessions when absent
	// State keeps only the commands in that state.
	State ExecState `json:"state,omitempty"`
}

// ExecListResult is what exec.list answers, oldest first.
type ExecListResult struct {
	Execs []ExecInfo `json:"execs"` // those that have ended too, as long as they are kept
	// Unreachable names the sessions whose commands are missing, because their runners did
	// not answer; for a list of all sessions.
	Unreachable []string `json:"unreachable,omitempty"`
}
