package api

import (
	"strings"
	"time"
)

// SessionState is the life of a session: creating → idle ⇄ running → terminated.
type SessionState string

// The four states of a session.
const (
	SessionCreating   SessionState = "creating"
	SessionIdle       SessionState = "idle"
	SessionRunning    SessionState = "running"
	SessionTerminated SessionState = "terminated"
)

// sessionMoves says which state may follow which.
var sessionMoves = map[SessionState][]SessionState{
	SessionCreating: {SessionIdle, SessionTerminated},
	SessionIdle:     {SessionRunning, SessionTerminated},
	SessionRunning:  {SessionIdle, SessionTerminated},
}

// CanBecome reports whether a session in state s may move to next.
func (s SessionState) CanBecome(next SessionState) bool { return contains(sessionMoves[s], next) }

func contains[T comparable](list []T, x T) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}

// DefaultShell is the shell of a session for which nobody chooses another.
const DefaultShell = "/bin/sh"

// SessionMarker is the environment variable that every process of a session
// carries. Its value is the session's id; orphans are found by it.
const SessionMarker = "TRL_SESSION_ID"

// SessionKind says what a session is.
type SessionKind string

// The three kinds of session.
const (
	KindShell    SessionKind = "shell"    // a persistent shell that commands are run in
	KindTerminal SessionKind = "terminal" // one program on a pseudo-terminal, with a screen
	KindProgram  SessionKind = "program"  // one program on three pipes
)

// SessionCreateParams asks for a new session.
type SessionCreateParams struct {
	// Kind is shell, terminal or program; shell when empty.
	Kind SessionKind `json:"kind,omitempty"`
	// Command is the program of a terminal or program session and its arguments. The
	// program is a path or a name on PATH; no shell reads it. A terminal without one
	// runs the shell.
	Command []string `json:"command,omitempty"`
	// Shell is a path or a name on PATH. When it is empty, it is the daemon's default_shell,
	// which is /bin/sh unless it is configured.
	Shell string `json:"shell,omitempty"`
	// PreferShell is the shell to take instead of /bin/sh, where it exists, when Shell is
	// empty and no default_shell is configured.
	PreferShell string `json:"prefer_shell,omitempty"`
	// WorkingDir is where the shell or program starts, an absolute path; the home directory when empty.
	WorkingDir string `json:"working_dir,omitempty"`
	// Env is added to the environment of the runtime.
	Env map[string]string `json:"env,omitempty"`
	// Name is a handle for people, unique among the living sessions. It may be
	// used wherever a session_id is asked for.
	Name string `json:"name,omitempty"`
	// TimeoutS bounds each command that does not say otherwise. Absent: the
	// daemon's default; 0: none. It is for kind shell: a terminal or program has none.
	TimeoutS *float64 `json:"timeout_s,omitempty"`
	// Tags are free words to tell sessions apart.
	Tags []string `json:"tags,omitempty"`
	// Login starts a login shell. RC reads the user's rc files. Neither is done by
	// default; but the shell of a terminal is interactive, and reads them as such.
	Login bool `json:"login,omitempty"`
	RC    bool `json:"rc,omitempty"`
	// Cols is the width of a terminal, from 2 to 1000; 80 when absent.
	Cols *int `json:"cols,omitempty"`
	// Rows is the height of a terminal, from 1 to 1000; 24 when absent.
	Rows *int `json:"rows,omitempty"`
	// Term is the value of TERM in a terminal; xterm-256color when empty.
	Term string `json:"term,omitempty"`
	// Scrollback is how many lines that left the screen a terminal keeps. Absent: 10,000; at most 100,000.
	Scrollback *int `json:"scrollback,omitempty"`
	// Record writes what a terminal shows into a file that only its owner can read, as
	// an asciicast; session.recording reads it.
	Record bool `json:"record,omitempty"`
	// RecordInput also writes what is typed, passwords included. It needs record.
	RecordInput bool `json:"record_input,omitempty"`
	// Ephemeral ties the session to the connection that made it: it is destroyed
	// when that connection goes away, or the one that called session.own last.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// LingerS is for how many seconds an ephemeral session waits for session.own when its
	// connection is gone. Absent: it does not wait; but when the daemon itself was away, as
	// for an upgrade, it waits 10 seconds.
	LingerS *float64 `json:"linger_s,omitempty"`
	// LifetimeS is after how many seconds the session is ended, also one in use. Absent: the
	// daemon's lifetime_s; 0: never.
	LifetimeS *float64 `json:"lifetime_s,omitempty"`
	// IdleTimeoutS is after how many idle seconds the session is ended: of a shell, seconds in
	// which nothing but the shell runs; of a terminal or program, seconds in which nothing is
	// written by the program or to it. Absent: the daemon's idle_timeout_s for a shell, and
	// never for a terminal or program; 0: never.
	IdleTimeoutS *float64 `json:"idle_timeout_s,omitempty"`
}

// SessionInfo is a snapshot of one session.
type SessionInfo struct {
	SessionID    string       `json:"session_id"`    // s-…; never used again
	Name         string       `json:"name"`          // empty when none was given
	Kind         SessionKind  `json:"kind"`          // shell, terminal or program
	Runtime      string       `json:"runtime"`       // "host"
	Shell        string       `json:"shell"`         // absolute path
	ShellFamily  string       `json:"shell_family"`  // how it is driven: dash, ash, bash, zsh or fish
	WorkingDir   string       `json:"working_dir"`   // where the shell is now
	State        SessionState `json:"state"`         // creating, idle, running or terminated
	CreatedAt    time.Time    `json:"created_at"`    // UTC
	LastActivity time.Time    `json:"last_activity"` // UTC
	CommandCount int64        `json:"command_count"` // commands accepted until now
	TimeoutS     float64      `json:"timeout_s"`     // 0 = none
	OutputBytes  int64        `json:"output_bytes"`  // of output kept now, in memory and file
	Tags         []string     `json:"tags"`          // as given
	// Command is the program of a terminal or program session and its arguments.
	Command []string `json:"command,omitempty"`
	// ExecID is the command that runs now. The program of a terminal or program session
	// is a command too: exec.output, exec.stream and exec.info read it, also after its end.
	ExecID string `json:"exec_id,omitempty"`
	// Terminal is set for kind terminal.
	Terminal *TerminalInfo `json:"terminal,omitempty"`
	// ExitCode is how the program of a terminal or program session ended, when it has.
	ExitCode *int `json:"exit_code,omitempty"`
	// Signal is the signal that program died of, such as SIGKILL.
	Signal string `json:"signal,omitempty"`
	// EndsInS is in how many seconds the session will be ended, if nothing happens in it, and
	// EndsWhy the cause it will have. Absent: nothing ends it by itself.
	EndsInS *float64 `json:"ends_in_s,omitempty"`
	EndsWhy string   `json:"ends_why,omitempty"`
	// Reachable is false while the runner of a living session does not answer. What runs in
	// the session goes on, and everything told of it here is what was known last.
	Reachable bool `json:"reachable"`
	// UnreachableSince and UnreachableWhy are set while the session cannot be reached.
	UnreachableSince *time.Time `json:"unreachable_since,omitempty"`
	UnreachableWhy   string     `json:"unreachable_why,omitempty"`
	// TerminatedAt and Cause are set when the session has ended.
	TerminatedAt *time.Time `json:"terminated_at,omitempty"`
	Cause        string     `json:"cause,omitempty"`
}

// SessionDetails is what session.info answers.
type SessionDetails struct {
	SessionInfo
	// EnvKeys are the names of the variables the session was created with. Values are never told.
	EnvKeys   []string `json:"env_keys"`
	Ephemeral bool     `json:"ephemeral"` // tied to the connection that made it, or that owns it now
	// LingerS is for how long an ephemeral session waits for another owner, when that was given.
	LingerS *float64 `json:"linger_s,omitempty"`
	// ShellPID and RunnerPID are process ids in the place where the session lives.
	ShellPID      int   `json:"shell_pid"`
	RunnerPID     int   `json:"runner_pid"`
	ShellRestarts int64 `json:"shell_restarts"` // how often the shell had to be replaced
	// Queued is how many commands wait for their turn.
	Queued int `json:"queued"`
	// Processes lists what runs below the session now, the shell left out.
	Processes []Process `json:"processes"`
	// Enforcement says how a complete kill is ensured: "cgroup" or "subreaper" or "scan".
	Enforcement string `json:"enforcement"`
}

// SessionListParams filters session.list.
type SessionListParams struct {
	// Tags must all be on a session for it to be listed.
	Tags []string `json:"tags,omitempty"`
	// State keeps only the sessions in that state.
	State SessionState `json:"state,omitempty"`
}

// SessionListResult is what session.list answers, oldest session first.
type SessionListResult struct {
	Sessions []SessionInfo `json:"sessions"` // those that live; or those that have ended, when state is terminated
}

// SessionInfoParams names one session.
type SessionInfoParams struct {
	SessionID string `json:"session_id"` // id or name
}

// SessionSetParams changes what a living session is called, and when it ends by itself. What is absent stays as it is.
type SessionSetParams struct {
	SessionID string `json:"session_id"` // id or name
	// Name is the new name, unique among the living sessions; empty for none.
	Name *string `json:"name,omitempty"`
	// Tags take the place of all tags that it had.
	Tags *[]string `json:"tags,omitempty"`
	// LifetimeS is after how many seconds, counted from its creation, the session is ended,
	// also one in use; 0: never.
	LifetimeS *float64 `json:"lifetime_s,omitempty"`
	// IdleTimeoutS is after how many idle seconds the session is ended; 0: never. See session.create.
	IdleTimeoutS *float64 `json:"idle_timeout_s,omitempty"`
}

// Check tells what is wrong with the parameters, without looking at anything.
func (p SessionSetParams) Check() error {
	if p.SessionID == "" {
		return invalid("session_id", "is required")
	}
	if p.Name == nil && p.Tags == nil && p.LifetimeS == nil && p.IdleTimeoutS == nil {
		return invalid("name", "is required, or tags, lifetime_s or idle_timeout_s")
	}
	if err := checkEnds(p.LifetimeS, p.IdleTimeoutS); err != nil {
		return err
	}
	if p.Name != nil && *p.Name != "" {
		if err := checkName(*p.Name); err != nil {
			return err
		}
	}
	if p.Tags == nil {
		return nil
	}
	return checkTags(*p.Tags)
}

// SessionOwnParams names an ephemeral session whose owner the caller is.
type SessionOwnParams struct {
	SessionID string `json:"session_id"` // id or name
}

// SessionDestroyParams ends a session.
type SessionDestroyParams struct {
	SessionID string `json:"session_id"` // id or name
	// Force kills at once, without the grace time.
	Force bool `json:"force,omitempty"`
}

// SessionDestroyResult tells what ended. Destroying twice is not an error.
type SessionDestroyResult struct {
	SessionID string       `json:"session_id"` // its id, also when a name was given
	State     SessionState `json:"state"`      // terminated
	// Killed lists the processes that had to be signalled, the shell left out.
	Killed []KilledProcess `json:"killed"`
}

const (
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)

// validName reports whether s can be the name of a session. A name never looks
// like an id, so that either may stand where a session or a command is asked for.
func validName(s string) bool {
	return len(s) <= 64 && startsAndGoesOn(s, letters+digits, letters+digits+"._-") && !strings.HasPrefix(s, "s-") && !strings.HasPrefix(s, "x-")
}

// validEnvKey reports whether every shell can have a variable of that name.
func validEnvKey(s string) bool { return startsAndGoesOn(s, letters+"_", letters+digits+"_") }

func startsAndGoesOn(s, first, rest string) bool {
	return s != "" && strings.IndexByte(first, s[0]) >= 0 && strings.TrimLeft(s[1:], rest) == ""
}

// Check reports the first parameter that cannot be.
func (p SessionCreateParams) Check() error {
	if p.Name != "" {
		if err := checkName(p.Name); err != nil {
			return err
		}
	}
	if err := noNUL("shell", p.Shell); err != nil {
		return err
	}
	if err := noNUL("prefer_shell", p.PreferShell); err != nil {
		return err
	}
	if err := checkDir(p.WorkingDir); err != nil {
		return err
	}
	if err := checkTags(p.Tags); err != nil {
		return err
	}
	if err := checkSeconds("timeout_s", p.TimeoutS); err != nil {
		return err
	}
	if err := checkSeconds("linger_s", p.LingerS); err != nil {
		return err
	}
	if err := checkEnds(p.LifetimeS, p.IdleTimeoutS); err != nil {
		return err
	}
	if p.LingerS != nil && !p.Ephemeral {
		return invalid("linger_s", "is for ephemeral sessions")
	}
	if err := p.checkKind(); err != nil {
		return err
	}
	return checkEnv(p.Env)
}

func checkName(name string) error {
	if !validName(name) {
		return invalid("name", "%.100q: must be 1 to 64 of A-Z a-z 0-9 . _ -, begin with a letter or digit, and not with \"s-\" or \"x-\"", name)
	}
	return nil
}

func checkTags(tags []string) error {
	for _, tag := range tags {
		if tag == "" || len(tag) > 128 {
			return invalid("tags", "a tag must have 1 to 128 bytes")
		}
	}
	if len(tags) > 64 {
		return invalid("tags", "at most 64")
	}
	return nil
}

// checkKind refuses what does not go with the kind of session.
func (p SessionCreateParams) checkKind() error {
	switch p.Kind {
	case "", KindShell, KindTerminal, KindProgram:
	default:
		return invalid("kind", "%.40q is not one of shell, terminal, program", p.Kind)
	}
	shell, terminal := p.Kind == "" || p.Kind == KindShell, p.Kind == KindTerminal
	for _, c := range []struct {
		field   string
		misfits bool
		is      string
	}{
		{"command", shell && p.Command != nil, "is for kind terminal or program; a shell runs commands with exec.run"},
		{"timeout_s", !shell && p.TimeoutS != nil && *p.TimeoutS != 0, "is for kind shell; a terminal or program may run for ever"},
		{"shell", !shell && p.Shell != "" && (p.Command != nil || !terminal), "cannot be given together with command, or for kind program"},
		{"login", !shell && p.Login && (p.Command != nil || !terminal), "is for a shell"},
		{"rc", !shell && p.RC && (p.Command != nil || !terminal), "is for a shell"},
		{"command", p.Kind == KindProgram && len(p.Command) == 0, "is required for kind program"},
		{"command", p.Command != nil && (len(p.Command) == 0 || p.Command[0] == ""), "must begin with the program"},
		{"cols", !terminal && p.Cols != nil, "is for kind terminal"},
		{"rows", !terminal && p.Rows != nil, "is for kind terminal"},
		{"term", !terminal && p.Term != "", "is for kind terminal"},
		{"scrollback", !terminal && p.Scrollback != nil, "is for kind terminal"},
		{"record", !terminal && p.Record, "is for kind terminal"},
		{"record_input", p.RecordInput && !p.Record, "needs record"},
		{"scrollback", p.Scrollback != nil && (*p.Scrollback < 0 || *p.Scrollback > MaxScrollback), "must be 0 to 100000"},
	} {
		if c.misfits {
			return invalid(c.field, "%s", c.is)
		}
	}
	for _, arg := range p.Command {
		if err := noNUL("command", arg); err != nil {
			return err
		}
	}
	if err := noNUL("term", p.Term); err != nil {
		return err
	}
	return checkSize(p.Size())
}

// Size is that of the terminal that is asked for.
func (p SessionCreateParams) Size() (cols, rows int) {
	cols, rows = DefaultCols, DefaultRows
	if p.Cols != nil {
		cols = *p.Cols
	}
	if p.Rows != nil {
		rows = *p.Rows
	}
	return cols, rows
}

func checkEnv(env map[string]string) error {
	for k, v := range env {
		if !validEnvKey(k) {
			return invalid("env", "%q is not a valid variable name", k)
		}
		if k == SessionMarker {
			return invalid("env", "%s: is TRL's own", k)
		}
		if strings.IndexByte(v, 0) >= 0 {
			return invalid("env", "%s: the value has a NUL byte", k)
		}
	}
	return nil
}

func checkEnds(lifetime, idle *float64) error {
	if err := checkSeconds("lifetime_s", lifetime); err != nil {
		return err
	}
	return checkSeconds("idle_timeout_s", idle)
}

func checkSeconds(field string, s *float64) error {
	// A year is more than anyone waits, and keeps the arithmetic of durations safe.
	if s != nil && (*s < 0 || *s > 366*24*3600 || *s != *s) {
		return invalid(field, "must be a number of seconds from 0 (none) to one year")
	}
	return nil
}

// checkDir refuses a relative directory: it would be one of the daemon's, which is
// not what a caller means.
func checkDir(dir string) error {
	if dir != "" && !strings.HasPrefix(dir, "/") {
		return invalid("working_dir", "%.200q: must begin with /; nobody else knows what it is relative to", dir)
	}
	return noNUL("working_dir", dir)
}

func noNUL(field, s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return invalid(field, "has a NUL byte")
	}
	return nil
}

func invalid(field, format string, args ...any) *Error {
	e := Errorf(CodeInvalidParams, "params."+field+": "+format, args...)
	e.Details = map[string]any{"field": field}
	return e
}
