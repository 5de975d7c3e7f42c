package link

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"time"

	"github.com/trl-dev/trl/api"
)

// Protocol is the version of the link's protocol. A daemon works with runners of its own version
// and of the one before.
const Protocol = 6

// MinProtocol is the oldest version that is still understood.
const MinProtocol = Protocol - 1

// EventSession is the event that reports a changed session. It carries a SessionInfo and arrives
// before the answer to the call that caused the change.
const EventSession = "session"

// Timeouts are the time limits of this session alone. A nil field stands for the setting of the daemon.
type Timeouts struct {
	LifetimeS    *float64 `json:"lifetime_s,omitempty"`
	IdleTimeoutS *float64 `json:"idle_timeout_s,omitempty"`
}

// Ages are durations for the daemon's deadlines. They are not times of day, because the clock
// may be set.
type Ages struct {
	// AgeMS is the age of the session; nil from an older runner.
	AgeMS *int64 `json:"age_ms,omitempty"`
	// IdleMS is how long only the shell has run in the session, how long a program with an idle
	// timeout has had neither input nor output, or how long ago the session ended; nil while the
	// session is in use.
	IdleMS *int64 `json:"idle_ms,omitempty"`
	Timeouts
}

// SessionInfo is an api.SessionInfo with its ages.
type SessionInfo struct {
	api.SessionInfo
	Ages
}

// SessionDetails is an api.SessionDetails with its ages.
type SessionDetails struct {
	api.SessionDetails
	Ages
}

// EventExec is the event that reports the new state of an exec. It carries an ExecEvent. The
// events of a short command may arrive together.
const EventExec = "exec"

// ExecEvent is one step in the life of an exec.
type ExecEvent struct {
	ExecID string        `json:"exec_id"`
	State  api.ExecState `json:"state"`
	At     time.Time     `json:"at"`
	// Outcome is set for the state exited, and for closed if the exec never ran; not if it could
	// not start. When the event arrives, exec.read and exec.info have the outcome too. Each of
	// its lists has at most 20 entries here.
	Outcome *api.ExecOutcome `json:"outcome,omitempty"`
}

// EventNetwork is the event that reports decisions of the session's proxy. It carries a
// NetworkEvent. A runner keeps its last events and sends them again on each connection, because it
// does not know which of them an earlier daemon got.
const EventNetwork = "network"

// NetworkEvent is a decision of the session's proxy, or several equal ones.
type NetworkEvent struct {
	Allowed bool      `json:"allowed"`
	At      time.Time `json:"at"`
	// Total counts the allowed or the refused decisions of the session, up to those of this event. The
	// daemon recognises by it events that it has, and events that the runner has dropped. It is 0 from
	// an older runner.
	Total int64 `json:"total,omitempty"`
	api.NetworkDecision
}

// DecodeExecEvent reads the header of an EventExec. It has a faster way for the form that encode
// gives to events without an outcome, because every command has three of them.
func DecodeExecEvent(header []byte) (e ExecEvent, err error) {
	if rest, ok := bytes.CutPrefix(header, []byte(`{"exec_id":"`)); ok {
		id, rest, okID := bytes.Cut(rest, []byte(`","state":"`))
		state, rest, okState := bytes.Cut(rest, []byte(`","at":"`))
		at, okAt := bytes.CutSuffix(rest, []byte(`"}`))
		if okID && okState && okAt && plain(string(id)) && plain(string(state)) {
			if e.At, err = time.Parse(time.RFC3339Nano, string(at)); err == nil {
				e.ExecID, e.State = string(id), api.ExecState(state)
				return e, nil
			}
		}
	}
	e = ExecEvent{}
	return e, json.Unmarshal(header, &e)
}

// HelloParams introduces the daemon. A connection belongs to a daemon from its first hello on;
// further ones only show that both sides are there.
type HelloParams struct {
	Version  string `json:"version"`
	Protocol int    `json:"protocol"`
	// Key is a secret that the daemon gave the runner with its first hello and left to later
	// daemons. A connection without the key never replaces one that has it.
	Key string `json:"key,omitempty"`
}

// HelloResult introduces the runner.
type HelloResult struct {
	Version   string `json:"version"`
	Protocol  int    `json:"protocol"`
	SessionID string `json:"session_id"`
	PID       int    `json:"pid"`
	// Created reports whether create has succeeded. A runner whose first daemon went away before
	// that ends on its own.
	Created bool `json:"created"`
}

// CreateParams starts the session of a runner.
type CreateParams struct {
	SessionID string `json:"session_id"`
	// Runtime is the name of the place; "host" if a daemon of an earlier version leaves it out.
	Runtime string                  `json:"runtime,omitempty"`
	Params  api.SessionCreateParams `json:"params"`
	// BaseEnv is the environment of the place; Params.Env goes over it.
	BaseEnv map[string]string `json:"base_env"`
	// RecordDir is a directory of the place that the daemon shares. If Params.Record is set, the
	// runner makes the file RecordFile there. If RecordDir is empty, the runner keeps the
	// recording to itself, and lives until the daemon has fetched it with the call recording.
	RecordDir string    `json:"record_dir,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	Limits    Limits    `json:"limits"`
	// Enforced are the limits of Params.Limits that the place itself enforces, such as a container
	// that was made for the session.
	Enforced []api.EnforcedLimit `json:"enforced,omitempty"`
	// Required are the names of those limits without which the session must not be created.
	Required []string `json:"required,omitempty"`
	// Secrets are files and directories of the daemon that isolation hides, if it shares the
	// machine with the session.
	Secrets []string `json:"secrets,omitempty"`
}

// SecretsVariable is in the environment of a runner whose owner is another daemon, which does not know this
// machine: the list of Secrets here, as JSON. Sessions do not see it.
const SecretsVariable = "TRL_SECRETS"

// PrivateRoot is the directory that contains those of PrivateDir. It belongs to the daemon; spillDir, which
// other programs and the daemons of other users may use too, does not.
func PrivateRoot(spillDir string) string {
	return spillDir + "/trl-private-" + strconv.Itoa(os.Geteuid())
}

// PrivateDir is the directory for the temporary files of an isolated session, below the directory for
// output that does not fit into memory.
func PrivateDir(spillDir, sessionID string) string {
	return PrivateRoot(spillDir) + "/" + sessionID
}

// RecordFile is the name of the file with the recording of a session.
func RecordFile(sessionID string) string { return sessionID + ".cast" }

// RecordingParams reads the recording of a terminal at an offset.
type RecordingParams struct {
	Offset int64 `json:"offset"`
	Limit  int   `json:"limit"` // bytes of the answer, at most
	// Fetched says that the daemon has the recording up to Offset. If the session has ended and
	// nothing follows, the runner keeps the recording no longer.
	Fetched bool `json:"fetched,omitempty"`
}

// RecordingResult goes with a piece of the recording, which begins at the requested offset.
type RecordingResult struct {
	Total int64 `json:"total"` // size of the recording so far
}

// SetParams changes the name, the tags and the limits of the session. A nil field changes nothing.
type SetParams struct {
	Name *string   `json:"name,omitempty"`
	Tags *[]string `json:"tags,omitempty"`
	Timeouts
	// Limits replace those limits of the session that are given.
	Limits *api.Limits `json:"limits,omitempty"`
	// Required are the names of those limits without which the change must not happen.
	Required []string `json:"required,omitempty"`
	// Enforced are those of Limits that the place itself enforces now, because the daemon has changed
	// the limits of the place.
	Enforced []api.EnforcedLimit `json:"enforced,omitempty"`
	// Refused are those of Limits that the place has not changed. The session keeps the old ones.
	Refused []api.UnenforcedLimit `json:"refused,omitempty"`
}

// SetResult is the answer to Set.
type SetResult struct {
	SessionInfo
	// Enforced are those of the request. An older runner ignores them and keeps the old limits.
	Enforced []api.EnforcedLimit `json:"enforced,omitempty"`
}

// Limits are the parts of the configuration that a runner enforces.
type Limits struct {
	DefaultTimeoutS   float64 `json:"default_timeout_s"`   // of a command without its own timeout; 0 = none
	KillGraceS        float64 `json:"kill_grace_s"`        // between SIGTERM and SIGKILL
	MaxCommands       int64   `json:"max_commands"`        // per session; 0 = no limit
	MaxQueued         int     `json:"max_queued"`          // commands that wait for their turn
	MaxParallel       int     `json:"max_parallel"`        // argv commands that run at once; 0 = no limit
	MaxStdinBytes     int64   `json:"max_stdin_bytes"`     // of one command
	OutputBytes       int64   `json:"output_bytes"`        // kept per stream of one exec
	SessionOutput     int64   `json:"session_output"`      // kept over all ended execs of the session
	MemoryBytes       int64   `json:"memory_bytes"`        // of output in memory, the rest is in a file; 0 = all
	SpillDir          string  `json:"spill_dir"`           // the directory of that file, which has no name
	ExecsKept         int     `json:"execs_kept"`          // ended execs that exec.info still knows
	RecordingBytes    int64   `json:"recording_bytes"`     // of one recording, which then stops; 0 = no limit
	ReaderStallS      float64 `json:"reader_stall_s"`      // how long a command waits for a reader that takes nothing; 0 = no limit
	RetentionS        float64 `json:"retention_s"`         // how long the remains of an ended session wait for a daemon that fetches them
	IdleTimeoutS      float64 `json:"idle_timeout_s"`      // enforced by the runner only without a daemon
	ShellStartTimeout float64 `json:"shell_start_timeout"` // seconds until the runner gives up a shell that does not answer
}

// ExecParams asks for a command. Its stdin travels in the body; HasStdin reports whether it has any.
type ExecParams struct {
	api.ExecParams
	HasStdin  bool `json:"has_stdin"`
	OpenStdin bool `json:"open_stdin,omitempty"` // for exec.input; the bytes of the body come first
}

// CancelParams are those of exec.cancel. Gone: the command's caller disconnected.
type CancelParams struct {
	api.ExecCancelParams
	Gone bool `json:"gone,omitempty"`
}

// DropParams names a request for a command by its run id. The runner stops the command, or does not
// start it when the request has not arrived yet. It does not wait.
type DropParams struct {
	RunID string `json:"run_id"`
}

// RunResult is the outcome of exec.run. The first StdoutLen bytes of the body are
// the stdout of the result (head and tail joined), the rest is stderr.
type RunResult struct {
	ExecID    string `json:"exec_id"`
	StdoutLen int    `json:"stdout_len"`
	api.ExecOutcome
}

// ReadParams reads the log of one exec, both streams in the order of arrival.
type ReadParams struct {
	ExecID string `json:"exec_id"`
	// AfterSeq is the last record the reader has.
	AfterSeq int64 `json:"after_seq"`
	// Limit bounds the bytes of the answer.
	Limit int `json:"limit"`
	// Wait answers only when there is something new, or the exec is closed.
	Wait bool `json:"wait"`
	// Reader names the stream that reads. A command that waits for its reader waits for
	// one of them; see ReadResult.Owner.
	Reader string `json:"reader,omitempty"`
	// Release says that the reader has left: the command no longer waits for it. The answer is
	// empty; a runner of an earlier version answers with output.
	Release bool `json:"release,omitempty"`
}

// Chunk is one record of the log, or a gap where records were dropped.
type Chunk struct {
	Seq    int64  `json:"seq"`
	Stream string `json:"stream"` // api.EventStdout or api.EventStderr
	Offset int64  `json:"offset"`
	Len    int64  `json:"len"`
	Gap    bool   `json:"gap,omitempty"` // Len bytes were dropped; none of them is in the body
}

// ReadResult describes the body, which has the bytes of the chunks one after another.
type ReadResult struct {
	Chunks []Chunk `json:"chunks"`
	// Outcome is set once the command has ended and the reader has all its output until then;
	// Seq is then the number of the exit record.
	Outcome *api.ExecOutcome `json:"outcome,omitempty"`
	Seq     int64            `json:"seq,omitempty"`
	// Owner says that the command waits for this reader, as on a pipe.
	Owner bool `json:"owner,omitempty"`
}

// EachChunk calls f with each chunk and its bytes in the body; a gap has none. execID is for the
// error.
func (r ReadResult) EachChunk(execID string, body []byte, f func(c Chunk, data []byte)) error {
	for _, c := range r.Chunks {
		n := c.Len
		if c.Gap {
			n = 0
		}
		if n < 0 || n > int64(len(body)) {
			return api.Errorf(api.CodeInternal, "exec %q: the runner announced more output than it sent", execID)
		}
		f(c, body[:n])
		body = body[n:]
	}
	return nil
}

// OutputParams reads bytes of one stream.
type OutputParams struct {
	ExecID string `json:"exec_id"`
	Stream string `json:"stream"` // api.EventStdout or api.EventStderr
	Offset int64  `json:"offset"`
	// Tail, if positive, replaces Offset by the offset that many bytes before the end.
	Tail  int64 `json:"tail"`
	Limit int   `json:"limit"`
	// Wait answers only when there is a byte at the offset, or when there will never be one.
	Wait bool `json:"wait"`
}

// OutputResult describes the body, which begins at Offset.
type OutputResult struct {
	Offset   int64         `json:"offset"` // after the gap, if there is one
	Total    int64         `json:"total"`
	Gap      *api.Span     `json:"gap,omitempty"`      // [where the reader was, where the body begins)
	NextGap  *api.Span     `json:"next_gap,omitempty"` // the first dropped part after the body
	State    api.ExecState `json:"state"`
	Complete bool          `json:"complete"` // nothing follows the body, now or later
}

// Line is a line that a search found; its bytes are in the body.
type Line struct {
	Offset    int64 `json:"offset"` // of the line in its stream
	Len       int   `json:"len"`    // bytes in the body
	Truncated bool  `json:"truncated,omitempty"`
}

// GrepParams searches one stream for lines that match.
type GrepParams struct {
	ExecID  string `json:"exec_id"`
	Stream  string `json:"stream"` // api.EventStdout or api.EventStderr
	Pattern string `json:"pattern"`
	Offset  int64  `json:"offset"`
	// FromEnd replaces Offset by the offset that is Tail bytes before the end.
	FromEnd bool  `json:"from_end,omitempty"`
	Tail    int64 `json:"tail,omitempty"`
	Limit   int64 `json:"limit"` // bytes of the lines, at most
}

// GrepResult has the lines; the body has their bytes, one after another. Complete says that all
// lines were searched and none follow.
type GrepResult struct {
	OutputResult
	Next  int64  `json:"next"` // where a further search begins
	Lines []Line `json:"lines"`
}

// Position is where a search of both streams begins: with the record after AfterSeq, and in each
// stream not before that offset.
type Position struct {
	AfterSeq int64 `json:"after_seq"`
	Stdout   int64 `json:"stdout,omitempty"`
	Stderr   int64 `json:"stderr,omitempty"`
}

// MatchParams searches both streams for a line that matches.
type MatchParams struct {
	ExecID  string `json:"exec_id"`
	Pattern string `json:"pattern"`
	Position
	// Until is the last record that is searched. With Wait, the search goes on until a line
	// matches or the command has ended.
	Until int64 `json:"until,omitempty"`
	Wait  bool  `json:"wait,omitempty"`
}

// MatchResult is the first line that matches; the body has its bytes.
type MatchResult struct {
	Line   *Line  `json:"line,omitempty"` // nil if none matches
	Stream string `json:"stream,omitempty"`
	Seq    int64  `json:"seq,omitempty"` // the record in which the line was found
	// Outcome is set once the command has ended and all its output until then is searched;
	// ExitSeq is then the number of the exit record.
	Outcome *api.ExecOutcome `json:"outcome,omitempty"`
	ExitSeq int64            `json:"exit_seq,omitempty"`
	LastSeq int64            `json:"last_seq"` // the last record that was searched
	// Position is where a further search begins, so that it finds lines that have no end yet.
	Position Position `json:"position"`
}

// InputParams writes to stdin.
type InputParams struct {
	ExecID  string `json:"exec_id"`
	WriteID string `json:"write_id"`
	Close   bool   `json:"close"`
	// Pty is the new size of the command's terminal; nil for no change.
	Pty *api.PTYSize `json:"pty,omitempty"`
}

// AwaitResult has the process that waits for input; none when the command has ended.
type AwaitResult struct {
	Process *api.Process `json:"process,omitempty"`
}

// TrimParams asks for less output to be kept.
type TrimParams struct {
	// Keep is how many bytes the session may keep. The output of ended commands is dropped first,
	// oldest first; then the middle of the output of running ones.
	Keep int64 `json:"keep"`
}

// DestroyParams ends the session.
type DestroyParams struct {
	Force bool   `json:"force"`
	Cause string `json:"cause"`
	// Export asks for the readable remains of the session; see ExportResult.
	Export bool `json:"export,omitempty"`
}

// DestroyResult is the receipt: the final reports about a terminated session.
type DestroyResult struct {
	Killed []api.KilledProcess `json:"killed"`
	Info   api.SessionDetails  `json:"info"`
	Execs  []api.ExecInfo      `json:"execs"`
	// Export is set if there is an export; the body has its first piece.
	Export *ExportResult `json:"export,omitempty"`
}

// ExportResult goes with a piece of an export: the readable remains of a session that has ended,
// in the format of package export.
type ExportResult struct {
	More bool `json:"more"` // another piece follows
}

// SessionInputParams types into a terminal or writes to a program. The bytes are in the body;
// with Paste the terminal gets them as a paste. Keys are typed after them.
type SessionInputParams struct {
	WriteID string   `json:"write_id,omitempty"`
	Paste   bool     `json:"paste,omitempty"`
	Keys    []string `json:"keys,omitempty"`
	Close   bool     `json:"close,omitempty"`
}

// ResizeParams changes the size of the terminal.
type ResizeParams struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// ResizeResult is the new size.
type ResizeResult struct {
	Cols   int   `json:"cols"`
	Rows   int   `json:"rows"`
	Offset int64 `json:"offset"` // output from this offset on is shown in this size
}

// SnapshotParams asks for a snapshot.
type SnapshotParams struct {
	Scrollback int `json:"scrollback"` // lines above the screen; -1 for all
}

// SnapshotResult describes a snapshot: written to a fresh terminal of that size, the body shows
// the same as the program's output up to Offset.
type SnapshotResult struct {
	Offset  int64  `json:"offset"`
	Cols    int    `json:"cols"`
	Rows    int    `json:"rows"`
	Version uint64 `json:"version"`
	Resizes int64  `json:"resizes"` // changes of size up to Offset, for FollowParams
}

// FollowParams reads the output of a terminal from Offset on.
type FollowParams struct {
	Offset int64 `json:"offset"`
	Limit  int   `json:"limit"`
	// Backlog is how many bytes the reader may be behind; beyond that the answer is Behind.
	Backlog int64 `json:"backlog"`
	// Wait answers only when there is something new, or the program has ended.
	Wait bool `json:"wait"`
	// Resizes is how many changes of size the reader has seen. With -1 it gets those from Offset
	// on, and of several at Offset only the last.
	Resizes int64 `json:"resizes"`
	// Modes are those that the reader has; zero if it has none. If they are absent, the reader does not
	// want them.
	Modes *api.TerminalModes `json:"modes,omitempty"`
}

// FollowResult describes the body, which begins at the requested offset. The body does not
// go beyond the offset of a resize, and does not end inside a UTF-8 sequence.
type FollowResult struct {
	// Behind reports that the bytes were dropped or are too many: the reader needs a snapshot.
	Behind bool `json:"behind,omitempty"`
	// Resize is set if the size changes after the body.
	Resize *ResizeResult `json:"resize,omitempty"`
	// Resizes counts the changes of size up to the end of the body, and Resize.
	Resizes int64 `json:"resizes"`
	// Cols and Rows are the size of the terminal after the body and Resize.
	Cols int `json:"cols"`
	Rows int `json:"rows"`
	// Modes are those of the newest output, if they differ from what the reader has.
	Modes *api.TerminalModes `json:"modes,omitempty"`
	// Outcome is set when the program has ended and the reader has all its output.
	Outcome *api.ExecOutcome `json:"outcome,omitempty"`
}
