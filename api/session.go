package api

import "time"

// SessionState is the state of a session: creating → idle ⇄ running → terminated.
type SessionState string

// The four states of a session.
const (
	SessionCreating   SessionState = "creating"
	SessionIdle       SessionState = "idle"
	SessionRunning    SessionState = "running"
	SessionTerminated SessionState = "terminated"
)

// sessionMoves lists the allowed state changes.
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

// DefaultShell is the shell of a session if neither the caller nor the configuration chooses one.
const DefaultShell = "/bin/sh"

// NoShell is the word for a session without a shell, which runs only argv.
const NoShell = "none"

// ExecMarker is an environment variable of every process that an argv command starts. Its value
// is the id of the command, by which TRL tells its processes apart.
const ExecMarker = "TRL_EXEC_ID"

// SessionMarker is an environment variable of every process of a session. Its value is
// the session's id, by which TRL finds orphaned processes.
const SessionMarker = "TRL_SESSION_ID"

// SessionKind is the kind of a session.
type SessionKind string

// The three kinds of session.
const (
	KindShell    SessionKind = "shell"    // a persistent shell that runs commands
	KindTerminal SessionKind = "terminal" // one program on a pseudo-terminal, with a screen
	KindProgram  SessionKind = "program"  // one program on three pipes
)

// SessionCreateParams asks for a new session.
type SessionCreateParams struct {
	// Runtime is the place of the session, as one word: a name from the configuration, a kind,
	// or KIND:ARGUMENT, such as docker:alpine or ssh:build. Empty: the daemon's
	// default_runtime, which is host unless configured. runtime.list lists the places.
	Runtime string `json:"runtime,omitempty"`
	// Place overrides options of the place that Runtime names, as far as the configuration
	// allows it.
	Place *PlaceOptions `json:"place,omitempty"`
	// Beside is the id or name of a live session; the new one is created in the same
	// container, pod or machine.
	Beside string `json:"beside,omitempty"`
	// CreateTimeoutS bounds the creation: pulling an image, waiting for a pod, copying the
	// runner. Absent: the daemon's create_timeout_s for places other than the host; 0: no bound.
	CreateTimeoutS *float64 `json:"create_timeout_s,omitempty"`
	// CreateID is chosen by the caller and is in the session.progress events of this creation.
	CreateID string `json:"create_id,omitempty"`
	// Kind is shell, terminal or program; shell when empty.
	Kind SessionKind `json:"kind,omitempty"`
	// Command is the program of a terminal or program session and its arguments. The
	// program is a path or a name on PATH; TRL runs it without a shell. A terminal without
	// a command runs the shell.
	Command []string `json:"command,omitempty"`
	// Shell is a path or a name on PATH. Empty: the daemon's default_shell, which is
	// /bin/sh unless configured. The word none makes a session of kind shell without a shell,
	// which runs only argv.
	Shell string `json:"shell,omitempty"`
	// PreferShell is used instead of /bin/sh, if it exists, when Shell is empty and no
	// default_shell is configured.
	PreferShell string `json:"prefer_shell,omitempty"`
	// WorkingDir is the directory in which the shell or program starts, an absolute path;
	// empty: the home directory, or in a container or pod the directory that the image names.
	WorkingDir string `json:"working_dir,omitempty"`
	// Env is added to the environment of the runtime.
	Env map[string]string `json:"env,omitempty"`
	// Name is a handle for people, unique among the live sessions. Every session_id
	// parameter also accepts it.
	Name string `json:"name,omitempty"`
	// TimeoutS is the default timeout of the session's commands. Absent: the daemon's
	// default; 0: none. For kind shell only: terminals and programs have no timeout.
	TimeoutS *float64 `json:"timeout_s,omitempty"`
	// Tags are free-form labels.
	Tags []string `json:"tags,omitempty"`
	// Login starts a login shell. RC makes the shell read the user's rc files. Both are off
	// by default. The shell of a terminal is interactive and always reads its rc files.
	Login bool `json:"login,omitempty"`
	RC    bool `json:"rc,omitempty"`
	// Cols is the width of a terminal, from 2 to 1000; 80 when absent.
	Cols *int `json:"cols,omitempty"`
	// Rows is the height of a terminal, from 1 to 1000; 24 when absent.
	Rows *int `json:"rows,omitempty"`
	// Term is the value of TERM in a terminal; xterm-256color when empty.
	Term string `json:"term,omitempty"`
	// Scrollback is the number of lines above the screen that a terminal keeps. Absent:
	// 10,000; at most 100,000.
	Scrollback *int `json:"scrollback,omitempty"`
	// Record writes the terminal's output to an asciicast file that only its owner can read;
	// session.recording reads it.
	Record bool `json:"record,omitempty"`
	// RecordInput also records the input, including passwords. It needs record.
	RecordInput bool `json:"record_input,omitempty"`
	// Ephemeral ties the session to the connection that created it, or that called
	// session.own last: the session ends when that connection closes.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// LingerS is the number of seconds that an ephemeral session waits for session.own after
	// its connection has closed. Absent: it does not wait. After a restart or an upgrade of the
	// daemon, it always waits for at least 10 seconds.
	LingerS *float64 `json:"linger_s,omitempty"`
	// LifetimeS ends the session after this many seconds, even if it is in use. Absent: the
	// daemon's lifetime_s; 0: never.
	LifetimeS *float64 `json:"lifetime_s,omitempty"`
	// IdleTimeoutS ends the session after this many idle seconds. A shell session is idle
	// while nothing but its shell runs, and no argv either; a terminal or program is idle while it
	// neither writes output nor gets input. A terminal is not idle while a viewer is attached: its
	// idle time begins anew when the last viewer leaves, and when the daemon restarts. Absent: the daemon's idle_timeout_s
	// for a shell, and never for a terminal or program; 0: never.
	IdleTimeoutS *float64 `json:"idle_timeout_s,omitempty"`
	// Limits bound what the session may use. session.info reports what is in force.
	Limits *Limits `json:"limits,omitempty"`
	// LimitsMode says what happens if the place cannot enforce a limit of this call. With require
	// (default), the call fails with LIMIT_UNAVAILABLE; with best-effort, session.info reports the
	// limit as not enforced. Limits of the configuration have their own limits_mode.
	LimitsMode LimitsMode `json:"limits_mode,omitempty"`
	// Isolation says what the processes of the session may touch. session.info reports what is in
	// force.
	Isolation *Isolation `json:"isolation,omitempty"`
	// IsolationMode says what happens if the place cannot enforce the isolation. With require
	// (default), the call fails with ISOLATION_UNAVAILABLE; with best-effort, session.info reports
	// the aspects that are not enforced. A built-in profile requires the aspect signals only if the
	// caller sets this field to require.
	IsolationMode LimitsMode `json:"isolation_mode,omitempty"`
}

// SessionInfo is a snapshot of one session.
type SessionInfo struct {
	SessionID    string       `json:"session_id"`    // s-…; never reused
	Name         string       `json:"name"`          // empty if the session has no name
	Kind         SessionKind  `json:"kind"`          // shell, terminal or program
	Runtime      string       `json:"runtime"`       // the place as its creator named it: host, docker:alpine, a name from the configuration
	Shell        string       `json:"shell"`         // absolute path; none for a session without a shell
	ShellFamily  string       `json:"shell_family"`  // the family that TRL drives the shell as: dash, ash, bash, zsh or fish
	WorkingDir   string       `json:"working_dir"`   // the shell's current directory
	State        SessionState `json:"state"`         // creating, idle, running or terminated
	CreatedAt    time.Time    `json:"created_at"`    // UTC
	LastActivity time.Time    `json:"last_activity"` // UTC
	CommandCount int64        `json:"command_count"` // commands accepted so far
	// Parallel is the number of argv commands that run now. The state does not depend on
	// them: it says whether the shell runs a command.
	Parallel    int      `json:"parallel,omitempty"`
	TimeoutS    float64  `json:"timeout_s"`    // default timeout of commands; 0 = none
	OutputBytes int64    `json:"output_bytes"` // bytes of output kept now, in memory and in files
	Tags        []string `json:"tags"`         // tags of the session
	// Place describes the place of the session. It is absent while the place is being made, and
	// in the remains of sessions of an earlier version.
	Place *PlaceInfo `json:"place,omitempty"`
	// Command is the program of a terminal or program session and its arguments.
	Command []string `json:"command,omitempty"`
	// ExecID is the running command. The program of a terminal or program session is a
	// command too: exec.output, exec.stream and exec.info read it, even after its end.
	ExecID string `json:"exec_id,omitempty"`
	// Terminal is set for kind terminal.
	Terminal *TerminalInfo `json:"terminal,omitempty"`
	// ExitCode is the exit status of the program of a terminal or program session, once it
	// has ended.
	ExitCode *int `json:"exit_code,omitempty"`
	// Signal is the signal that ended that program, such as SIGKILL.
	Signal string `json:"signal,omitempty"`
	// EndsInS is the number of seconds until TRL ends the session if nothing happens in it.
	// EndsWhy is the cause it will report. Absent: no timeout applies.
	EndsInS *float64 `json:"ends_in_s,omitempty"`
	EndsWhy string   `json:"ends_why,omitempty"`
	// Reachable is false while the runner of a live session does not answer. The session's
	// processes go on, and the other fields hold the last known values.
	Reachable bool `json:"reachable"`
	// UnreachableSince and UnreachableWhy are set while the session cannot be reached.
	UnreachableSince *time.Time `json:"unreachable_since,omitempty"`
	UnreachableWhy   string     `json:"unreachable_why,omitempty"`
	// Guest is set for a session that belongs to another daemon. Only that daemon runs commands
	// in it; session.destroy ends it.
	Guest *GuestOwner `json:"guest,omitempty"`
	// TerminatedAt and Cause are set once the session has ended.
	TerminatedAt *time.Time `json:"terminated_at,omitempty"`
	Cause        string     `json:"cause,omitempty"`
}

// SessionDetails is the answer of session.info.
type SessionDetails struct {
	SessionInfo
	// EnvKeys are the names of the variables that session.create set. TRL never returns values.
	EnvKeys   []string `json:"env_keys"`
	Ephemeral bool     `json:"ephemeral"` // true if the session ends with its owner's connection
	// LingerS is the number of seconds that an ephemeral session waits for a new owner, if set.
	LingerS *float64 `json:"linger_s,omitempty"`
	// ShellPID and RunnerPID are process ids in the session's runtime.
	ShellPID      int   `json:"shell_pid"`
	RunnerPID     int   `json:"runner_pid"`
	ShellRestarts int64 `json:"shell_restarts"` // how many times TRL replaced the shell
	// Queued is the number of commands that wait for their turn.
	Queued int `json:"queued"`
	// Processes lists the processes of the session, without the shell.
	Processes []Process `json:"processes"`
	// Enforcement says how TRL makes sure that it kills every process: "cgroup",
	// "subreaper" or "scan".
	Enforcement string `json:"enforcement"`
	// Limits are the limits of the session, if it has any, and what enforces them.
	Limits *SessionLimits `json:"limits,omitempty"`
	// Isolation is what the processes of the session may touch, if that is not everything, and
	// what enforces it.
	Isolation *SessionIsolation `json:"isolation,omitempty"`
}

// SessionListParams filters session.list.
type SessionListParams struct {
	// SessionIDs selects only the sessions with these ids or names.
	SessionIDs []string `json:"session_ids,omitempty"`
	// Tags selects only the sessions that have all of these tags.
	Tags []string `json:"tags,omitempty"`
	// State selects only the sessions in this state.
	State SessionState `json:"state,omitempty"`
	// States selects only the sessions in one of these states. Without state and states, the list has
	// the live sessions.
	States []SessionState `json:"states,omitempty"`
	// Kinds selects only the sessions of these kinds.
	Kinds []SessionKind `json:"kinds,omitempty"`
	Page
}

// Check reports the first invalid parameter.
func (p SessionListParams) Check() error {
	if err := checkStates(p.State, p.States, SessionCreating, SessionIdle, SessionRunning, SessionTerminated); err != nil {
		return err
	}
	if err := checkWords("kinds", p.Kinds, KindShell, KindTerminal, KindProgram); err != nil {
		return err
	}
	return p.Page.check()
}

// Selects reports whether the list has sessions of this state and kind.
func (p SessionListParams) Selects(state SessionState, kind SessionKind) bool {
	if p.State == "" && len(p.States) == 0 && state == SessionTerminated {
		return false
	}
	return selects(p.State, p.States, state) && selects("", p.Kinds, kind)
}

// SessionListResult lists sessions, oldest first.
type SessionListResult struct {
	Sessions []SessionInfo `json:"sessions"` // the live sessions; ended ones only if state or states names terminated
	// Next continues the list, as after. Absent: there are no more.
	Next string `json:"next,omitempty"`
}

// SessionInfoParams names one session.
type SessionInfoParams struct {
	SessionID string `json:"session_id"` // id or name
}

// SessionSetParams changes the name, the tags, the timeouts or the limits of a live session. Absent
// fields stay unchanged.
type SessionSetParams struct {
	SessionID string `json:"session_id"` // id or name
	// Name is the new name, unique among the live sessions; empty for none.
	Name *string `json:"name,omitempty"`
	// Tags replace all tags of the session.
	Tags *[]string `json:"tags,omitempty"`
	// LifetimeS ends the session this many seconds after its creation, even if it is in use;
	// 0: never.
	LifetimeS *float64 `json:"lifetime_s,omitempty"`
	// IdleTimeoutS ends the session after this many idle seconds; 0: never. See session.create.
	IdleTimeoutS *float64 `json:"idle_timeout_s,omitempty"`
	// Limits replace those limits of the session that are given; 0 removes one. open_files and
	// file_bytes can only become smaller, because the kernel lets a process that runs raise
	// neither.
	Limits *Limits `json:"limits,omitempty"`
	// LimitsMode is as in session.create.
	LimitsMode LimitsMode `json:"limits_mode,omitempty"`
}

// Check reports the first invalid parameter.
func (p SessionSetParams) Check() error {
	if p.SessionID == "" {
		return InvalidParam("session_id", "is required")
	}
	if p.Name == nil && p.Tags == nil && p.LifetimeS == nil && p.IdleTimeoutS == nil && p.Limits == nil {
		return InvalidParam("name", "is required, or tags, lifetime_s, idle_timeout_s or limits")
	}
	if err := checkLimits(p.Limits, p.LimitsMode, p.LifetimeS); err != nil {
		return err
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

// SessionOwnParams names an ephemeral session that the caller's connection takes over.
type SessionOwnParams struct {
	SessionID string `json:"session_id"` // id or name
}

// SessionDestroyParams ends a session.
type SessionDestroyParams struct {
	SessionID string `json:"session_id"` // id or name
	// Force kills at once, without the grace time.
	Force bool `json:"force,omitempty"`
}

// SessionDestroyResult is the answer of session.destroy. Destroying a session twice is not an
// error.
type SessionDestroyResult struct {
	SessionID string       `json:"session_id"` // the id, even if the caller used the name
	State     SessionState `json:"state"`      // terminated
	// Killed lists the processes that TRL signalled, without the shell.
	Killed []KilledProcess `json:"killed"`
}
