package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// ExecState is the state of a command: queued → running → exited → closed.
// exited: the command has ended; closed: its output is complete too.
type ExecState string

// The four states of an exec.
const (
	ExecQueued  ExecState = "queued"
	ExecRunning ExecState = "running"
	ExecExited  ExecState = "exited"
	ExecClosed  ExecState = "closed"
)

// execMoves lists the allowed state changes. A queued command that is cancelled
// never runs: it goes straight to closed.
var execMoves = map[ExecState][]ExecState{
	ExecQueued:  {ExecRunning, ExecClosed},
	ExecRunning: {ExecExited},
	ExecExited:  {ExecClosed},
}

// CanBecome reports whether an exec in state s may move to next.
func (s ExecState) CanBecome(next ExecState) bool { return contains(execMoves[s], next) }

// Exit codes that TRL itself assigns.
const (
	ExitTimedOut  = 124
	ExitCancelled = 130
)

// DefaultMaxOutputBytes is how much of each stream a result carries by default.
const DefaultMaxOutputBytes = 1 << 20

// ExecParams asks for a command to be run.
type ExecParams struct {
	SessionID string `json:"session_id"` // id or name
	// Command is the text of the command, as in a script for the session's shell, which runs
	// one command at a time. Either command or argv is required.
	Command string `json:"command"`
	// Argv is a program, as a path or a name on PATH, and its arguments. TRL starts the program
	// itself, beside the session's shell: it does not wait for the shell and knows neither the
	// variables nor the directory that commands have set there. Up to max_parallel programs run
	// at once.
	Argv []string `json:"argv,omitempty"`
	// Pty gives the program of argv a terminal of this size instead of pipes. All output is
	// stdout then. exec.input types into the terminal and changes its size.
	Pty *PTYSize `json:"pty,omitempty"`
	// Merge makes stderr a part of stdout, in the order in which the command writes.
	Merge bool `json:"merge,omitempty"`
	// TimeoutS limits how long the command may run. Absent: the session's timeout; 0: no limit.
	TimeoutS *float64 `json:"timeout_s,omitempty"`
	// Stdin is the command's standard input. Absent: empty. In exec.start and exec.stream the
	// text "open" still means stdin_open, which is deprecated; to send just that text, use
	// stdin_base64.
	Stdin *string `json:"stdin,omitempty"`
	// StdinBase64 is Stdin for bytes that are not UTF-8.
	StdinBase64 string `json:"stdin_base64,omitempty"`
	// StdinOpen keeps stdin open, so that exec.input can write to it. For exec.start and
	// exec.stream.
	StdinOpen bool `json:"stdin_open,omitempty"`
	// Env is set for this command only.
	Env map[string]string `json:"env,omitempty"`
	// WorkingDir is the directory for this command only, an absolute path. Afterwards the
	// shell returns to the directory it was in. Absent: the shell's directory; for argv, the
	// directory in which the session was created.
	WorkingDir string `json:"working_dir,omitempty"`
	// Wait queues the command if the session is busy, instead of failing with SESSION_BUSY; for
	// argv, if max_parallel programs run, instead of failing with RESOURCE_PRESSURE.
	Wait bool `json:"wait,omitempty"`
	// MaxOutputBytes is how much of each stream the result carries; longer output keeps its
	// head and tail. Absent: 1 MiB. It does not limit a stream of pushes.
	MaxOutputBytes *int64 `json:"max_output_bytes,omitempty"`
	// Detach selects what happens when the caller's connection closes: false cancels the
	// command; true lets it run on. Absent: false for exec.run, true for exec.stream.
	Detach *bool `json:"detach,omitempty"`
	// Backpressure makes the command wait while the stream that started it is behind, as
	// on a pipe, so that the stream misses nothing. For exec.stream only. Absent: true.
	// False: the command never waits, and a stream that falls behind sees a gap. When the
	// stream ends, or its reader takes nothing for reader_stall_s, the command stops waiting.
	Backpressure *bool `json:"backpressure,omitempty"`
	// RunID makes the command run only once. If this session has already accepted a command
	// with the same run_id, the request starts nothing and returns that command, so a
	// caller that lost its connection before the answer can safely ask again. Use a text of
	// at most 64 bytes that no other request has, such as a random number.
	RunID string `json:"run_id,omitempty"`
	// Limits bound what this command alone may use, within the limits of its session.
	Limits *CommandLimits `json:"limits,omitempty"`
	// LimitsMode is require or best-effort; see session.create.
	LimitsMode LimitsMode `json:"limits_mode,omitempty"`

	empty bool // the command is present but empty
}

// given records that the command is present but empty: every shell runs it, with status 0.
func (p *ExecParams) given(params json.RawMessage) {
	p.empty = p.Command == "" && bytes.Contains(params, []byte(`"command"`))
}

// Check reports the first invalid parameter.
func (p ExecParams) Check() error {
	if p.SessionID == "" {
		return InvalidParam("session_id", "is required")
	}
	if err := p.checkCommand(); err != nil {
		return err
	}
	if err := checkDir(p.WorkingDir); err != nil {
		return err
	}
	if p.Stdin != nil && p.StdinBase64 != "" {
		return InvalidParam("stdin_base64", "cannot be given together with stdin")
	}
	if p.StdinOpen && (p.Stdin != nil || p.StdinBase64 != "") {
		return InvalidParam("stdin_open", "cannot be given together with stdin or stdin_base64")
	}
	if _, err := base64.StdEncoding.DecodeString(p.StdinBase64); err != nil {
		return InvalidParam("stdin_base64", "is not base64")
	}
	if p.MaxOutputBytes != nil && *p.MaxOutputBytes < 0 {
		return InvalidParam("max_output_bytes", "must not be negative")
	}
	if err := checkSeconds("timeout_s", p.TimeoutS); err != nil {
		return err
	}
	limits := p.Limits.Of()
	if err := checkLimits(&limits, p.LimitsMode, nil); err != nil {
		return err
	}
	if len(p.RunID) > maxRunID {
		return InvalidParam("run_id", "at most %d bytes", maxRunID)
	}
	return checkEnv(p.Env)
}

// checkCommand checks the parameters that say what to run.
func (p ExecParams) checkCommand() error {
	for _, c := range []struct {
		field   string
		misfits bool
		is      string
	}{
		{"command", p.Argv == nil && p.Command == "" && !p.empty, "is required, unless argv is set"},
		{"argv", p.Argv != nil && p.Command != "", "cannot be given together with command"},
		{"argv", p.Argv != nil && (len(p.Argv) == 0 || p.Argv[0] == ""), "must begin with the program"},
		{"pty", p.Argv == nil && p.Pty != nil, "is only for argv; a shell has no terminal, see session.create {kind: terminal}"},
	} {
		if c.misfits {
			return InvalidParam(c.field, "%s", c.is)
		}
	}
	for _, arg := range p.Argv {
		if err := noNUL("argv", arg); err != nil {
			return err
		}
	}
	if err := p.Pty.check(); err != nil {
		return err
	}
	return noNUL("command", p.Command)
}

// PTYSize is the size of the terminal of a program.
type PTYSize struct {
	Cols int `json:"cols"` // from 2 to 1000
	Rows int `json:"rows"` // from 1 to 1000
}

func (s *PTYSize) check() error {
	if s == nil {
		return nil
	}
	if err := checkSize(s.Cols, s.Rows); err != nil {
		return InvalidParam("pty", "%s", strings.TrimPrefix(err.Error(), "params."))
	}
	return nil
}

const maxRunID = 64

// StdinOpen is the text of Stdin that means the same as the field StdinOpen, in exec.start and
// exec.stream.
//
// Deprecated: set the field StdinOpen.
const StdinOpen = "open"

// KeepsStdinOpen reports whether exec.start and exec.stream keep the command's stdin open.
func (p ExecParams) KeepsStdinOpen() bool {
	return p.StdinOpen || p.Stdin != nil && *p.Stdin == StdinOpen
}

// StdinData returns the bytes for the command's stdin, and whether the caller set any.
func (p ExecParams) StdinData() ([]byte, bool) {
	if p.Stdin != nil {
		return []byte(*p.Stdin), true
	}
	b, _ := base64.StdEncoding.DecodeString(p.StdinBase64)
	return b, p.StdinBase64 != ""
}

// Process is a process of a session.
type Process struct {
	PID     int    `json:"pid"`     // process id in the session's runtime
	Command string `json:"command"` // name or command line of the process
}

// KilledProcess is a process that TRL ended.
type KilledProcess struct {
	PID     int    `json:"pid"`     // process id in the session's runtime
	Command string `json:"command"` // name or command line of the process
	Signal  string `json:"signal"`  // the last signal sent, such as SIGTERM or SIGKILL
}

// Usage is the resources that a command and the children it waited for consumed. Where the session
// has a cgroup, it includes the other processes of the command, unless processes of earlier commands
// or of argv ran meanwhile.
type Usage struct {
	UserMS   int64 `json:"user_ms"`   // CPU time in user mode
	SystemMS int64 `json:"system_ms"` // CPU time in the kernel
	// MaxRSSBytes is the largest resident size observed of any one process of the
	// command; 0 if the command was too short to observe.
	MaxRSSBytes int64 `json:"max_rss_bytes"`
	// MemoryPeakBytes is the most memory that all processes of the command had together, and the
	// shell with them; 0 if neither the command nor its session has a memory limit, or if the session had
	// more before and the kernel cannot begin anew (cgroup v2 before Linux 6.12).
	MemoryPeakBytes int64 `json:"memory_peak_bytes,omitempty"`
	// ThrottledMS is the time for which the limit cpus stopped the command's processes.
	ThrottledMS int64 `json:"throttled_ms,omitempty"`
	// ForksRefused counts the processes and threads that the limit pids refused.
	ForksRefused int64 `json:"forks_refused,omitempty"`
}

// ExecOutcome reports how a command ended, without its output.
type ExecOutcome struct {
	ExitCode int `json:"exit_code"` // 124 if timed out, 130 if cancelled, else the command's own
	// Signal is the signal that ended the command, if TRL knows it for certain:
	// the last one that TRL sent, or the one that ended the shell itself or the program of argv.
	Signal     string `json:"signal,omitempty"`
	DurationMS int64  `json:"duration_ms"` // time from start to end
	TimedOut   bool   `json:"timed_out"`   // true if the command reached its timeout
	Cancelled  bool   `json:"cancelled"`   // true if the command was cancelled
	// CancelCause says why the command was cancelled, unless exec.cancel did it: the caller's
	// connection closed, or the session ended, and why.
	CancelCause     string          `json:"cancel_cause,omitempty"`
	StdoutBytes     int64           `json:"stdout_bytes"`     // bytes written to stdout, kept or not
	StderrBytes     int64           `json:"stderr_bytes"`     // bytes written to stderr, kept or not
	WorkingDir      string          `json:"working_dir"`      // the shell's directory afterwards; for argv, the program's
	LeftRunning     []Process       `json:"left_running"`     // processes of the command that still run and hold its output
	Killed          []KilledProcess `json:"killed"`           // processes that TRL signalled
	Usage           Usage           `json:"usage"`            // resources that the command consumed
	ShellRestarted  bool            `json:"shell_restarted"`  // true if the command ended the shell; a new shell has its state
	StdoutTruncated bool            `json:"stdout_truncated"` // true if a part of stdout is not in the result, or no longer kept
	StderrTruncated bool            `json:"stderr_truncated"` // true if a part of stderr is not in the result, or no longer kept
	// OOMKilled reports that the kernel killed a process because of a memory limit, while the
	// command ran. OOM is the last such process.
	OOMKilled bool     `json:"oom_killed,omitempty"`
	OOM       *OOMKill `json:"oom,omitempty"`
	// Limits says which limits of this command were in force, if it had any of its own.
	Limits *LimitReport `json:"limits,omitempty"`
}

// ExecResult is the answer of exec.run.
type ExecResult struct {
	ExecID    string `json:"exec_id"`    // id of the command, for other calls
	SessionID string `json:"session_id"` // session that ran the command
	// Stdout and Stderr are text. If the bytes are not UTF-8, the text has replacement
	// characters, and the _base64 fields have the exact bytes.
	Stdout       string `json:"stdout"`
	Stderr       string `json:"stderr"`
	StdoutBase64 string `json:"stdout_base64,omitempty"` // the exact bytes, if stdout is not UTF-8
	StderrBase64 string `json:"stderr_base64,omitempty"` // the exact bytes, if stderr is not UTF-8
	ExecOutcome
}

// StdoutData returns the exact bytes of stdout.
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
	SessionID string     `json:"session_id"`           // session that runs the command
	Command   string     `json:"command"`              // at most the first 4 KiB; for argv, the words as a person would type them
	State     ExecState  `json:"state"`                // queued, running, exited or closed
	QueuedAt  time.Time  `json:"queued_at"`            // when TRL accepted the command
	StartedAt *time.Time `json:"started_at,omitempty"` // absent while the command is queued
	EndedAt   *time.Time `json:"ended_at,omitempty"`   // absent until the command ends
	TimeoutS  float64    `json:"timeout_s"`            // 0 = none
	Detach    bool       `json:"detach"`               // true if the command runs on when its caller's connection closes
	// PID is the process id of the program of argv, once it has started.
	PID int `json:"pid,omitempty"`
	// Argv is the program and its arguments, if the command was given as argv: as many of
	// them as fit into 4 KiB.
	Argv []string `json:"argv,omitempty"`
	// StdinOpen reports whether exec.input can still write to the command.
	StdinOpen bool `json:"stdin_open,omitempty"`
	// AgeMS is the time since TRL accepted the command.
	AgeMS int64 `json:"age_ms"`
	// RunningMS is the time since the command began to run. Absent before that, and once it has
	// ended: the outcome has duration_ms. Steps of the clock do not change it.
	RunningMS *int64 `json:"running_ms,omitempty"`
	// StdoutBytes and StderrBytes are the bytes written so far.
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	// LastSeq is the number of the last record in the command's output, including the exit;
	// 0 if there is none.
	LastSeq int64 `json:"last_seq"`
	// QuietMS is the time since the command last wrote something. Absent if it never did.
	QuietMS *int64 `json:"quiet_ms,omitempty"`
	// Usage is the resources that the command has consumed so far.
	Usage Usage `json:"usage"`
	// Outcome is set once the command has ended.
	Outcome *ExecOutcome `json:"outcome,omitempty"`
	// Error says why the command could not start. Such a command has no outcome.
	Error *Error `json:"error,omitempty"`
}

// ExecCancelParams stops a command.
type ExecCancelParams struct {
	// ExecID is the command. SessionID selects the command that runs in that session now.
	ExecID    string `json:"exec_id,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	// Signal is the first signal that TRL sends, before it escalates: TERM (default), INT,
	// HUP, QUIT, KILL, USR1, USR2.
	Signal string `json:"signal,omitempty"`
	// Force is required to cancel the program of a session that belongs to a dialogue.
	Force bool `json:"force,omitempty"`
}

// The processes of a command that exec.signal can reach.
const (
	SignalLeader = "leader" // the program of argv, or the processes that the shell itself has started for the command
	SignalTree   = "tree"   // these and everything that they have started
)

// ExecSignalParams sends a signal to a running command. Unlike exec.cancel it does not insist:
// the command may handle or ignore the signal.
type ExecSignalParams struct {
	ExecID string `json:"exec_id"` // the command
	// Signal is the name of a signal, such as INT, HUP, USR1, WINCH, STOP or CONT, or its number.
	Signal string `json:"signal"`
	// To selects the processes that get the signal: leader, the program of argv or the processes that
	// the shell itself started for the command; or tree, these and everything that they started. The
	// shell never gets the signal. Absent: leader.
	To string `json:"to,omitempty"`
	// Force is required to signal the program of a session that belongs to a dialogue.
	Force bool `json:"force,omitempty"`
}

// Check reports the first invalid parameter.
func (p ExecSignalParams) Check() error {
	switch {
	case p.ExecID == "":
		return InvalidParam("exec_id", "is required")
	case p.Signal == "":
		return InvalidParam("signal", "is required")
	case p.To != "" && p.To != SignalLeader && p.To != SignalTree:
		return InvalidParam("to", "%.40q is not one of leader, tree", p.To)
	}
	return nil
}

// ExecSignalResult lists the processes that got the signal.
type ExecSignalResult struct {
	ExecID string `json:"exec_id"` // the command
	Signal string `json:"signal"`  // such as SIGINT
	// Processes got the signal. It is empty if the command has no process of its own, such as a
	// loop of the shell.
	Processes []Process `json:"processes"`
}

// ExecInfoParams names one command.
type ExecInfoParams struct {
	ExecID string `json:"exec_id"` // the command
}

// ExecListParams filters exec.list.
type ExecListParams struct {
	SessionID string `json:"session_id,omitempty"` // id or name; all sessions when absent
	// State selects only the commands in this state.
	State ExecState `json:"state,omitempty"`
	// States selects only the commands in one of these states.
	States []ExecState `json:"states,omitempty"`
	Page
}

// Check reports the first invalid parameter.
func (p ExecListParams) Check() error {
	if err := checkStates(p.State, p.States, ExecQueued, ExecRunning, ExecExited, ExecClosed); err != nil {
		return err
	}
	return p.Page.check()
}

// Selects reports whether the list has commands of this state.
func (p ExecListParams) Selects(state ExecState) bool { return selects(p.State, p.States, state) }

// ExecListResult lists commands, oldest first.
type ExecListResult struct {
	Execs []ExecInfo `json:"execs"` // includes ended commands that are still kept
	// Unreachable lists the sessions whose commands are missing because their runners did
	// not answer, in a list of all sessions.
	Unreachable []string `json:"unreachable,omitempty"`
	// Next continues the list, as after. Absent: there are no more.
	Next string `json:"next,omitempty"`
}
