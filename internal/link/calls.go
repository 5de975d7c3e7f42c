package link

import "github.com/trl-dev/trl/api"

// The calls that a daemon makes. A runner answers each of them; the first on a connection is
// Hello.
var (
	// Hello introduces both sides. Further ones only show that both sides are there.
	Hello = &Call[*HelloParams, *HelloResult]{Row{"hello", 5, Always}}
	// Create starts the session of the runner. It succeeds once.
	Create = &Call[*CreateParams, *SessionDetails]{Row{"create", 5, Never}}
	// Info reports everything about the session.
	Info = &Call[*struct{}, *SessionDetails]{Row{"info", 5, Always}}
	// Usage reports what the session uses now.
	Usage = &Call[*struct{}, *api.SessionUsage]{Row{"usage", 5, Always}}
	// Set changes the name, the tags and the limits of the session.
	Set = &Call[*SetParams, *SetResult]{Row{"set", 5, Always}}

	// ExecRun runs a command and answers when it has ended. The body of the request is the
	// stdin, that of the answer is stdout followed by stderr.
	ExecRun = &Call[*ExecParams, *RunResult]{Row{"exec.run", 5, ByRunID}}
	// ExecStart starts or queues a command and answers at once. The body is the stdin.
	ExecStart = &Call[*ExecParams, *api.ExecInfo]{Row{"exec.start", 5, ByRunID}}
	// ExecRead reads both streams of a command in the order of arrival. The body of the answer
	// has the bytes of the chunks.
	ExecRead = &Call[*ReadParams, *ReadResult]{Row{"exec.read", 5, Always}}
	// ExecOutput reads one stream of a command, at an offset. The body of the answer has the
	// bytes.
	ExecOutput = &Call[*OutputParams, *OutputResult]{Row{"exec.output", 5, Always}}
	// ExecGrep returns the lines of one stream of a command that match a pattern. The body of the
	// answer has their bytes.
	ExecGrep = &Call[*GrepParams, *GrepResult]{Row{"exec.grep", 5, Always}}
	// ExecMatch searches the output of a command for a line that matches a pattern, and waits for
	// one if the daemon wants that. The body of the answer has its bytes.
	ExecMatch = &Call[*MatchParams, *MatchResult]{Row{"exec.match", 5, Always}}
	// ExecInput writes to the stdin of a command. The body has the bytes.
	ExecInput = &Call[*InputParams, *api.ExecInputResult]{Row{"exec.input", 5, ByWriteID}}
	// ExecAwait answers when a process of the command waits for input, or when the command has
	// ended.
	ExecAwait = &Call[*api.ExecInfoParams, *AwaitResult]{Row{"exec.await", 5, Always}}
	// ExecCancel stops a command and answers when it has ended. A named command can end only
	// once; without a name, a repetition could stop the next command.
	ExecCancel = &Call[*CancelParams, *api.ExecInfo]{Row{"exec.cancel", 5, ByExecID}}
	// ExecSignal sends a signal to a running command.
	ExecSignal = &Call[*api.ExecSignalParams, *api.ExecSignalResult]{Row{"exec.signal", 5, Never}}
	// ExecDrop gives up the command of a request whose caller went away.
	ExecDrop = &Call[*DropParams, *struct{}]{Row{"exec.drop", 5, Always}}
	// ExecInfo reports the state and outcome of one command.
	ExecInfo = &Call[*api.ExecInfoParams, *api.ExecInfo]{Row{"exec.info", 5, Always}}
	// ExecList lists the commands of the session.
	ExecList = &Call[*struct{}, *api.ExecListResult]{Row{"exec.list", 5, Always}}
	// Trim drops output until the session keeps no more than it may.
	Trim = &Call[*TrimParams, *api.SessionInfo]{Row{"trim", 5, Never}}

	// Destroy ends the session. If the daemon wants an export, the body of the answer begins
	// it. The runner exits after the answer if the daemon wants nothing more of it.
	Destroy = &Call[*DestroyParams, *DestroyResult]{Row{"destroy", 5, Never}}
	// Export continues an export; the body of the answer has the next piece. The call after
	// the last piece says that the daemon has the whole export: the runner exits after its answer,
	// unless the daemon still has to fetch the recording.
	Export = &Call[*struct{}, *ExportResult]{Row{"export", 5, Never}}

	// Input types into a terminal or writes to the stdin of a program. The body has the bytes.
	// Input and the calls below are for sessions of kind terminal and program.
	Input = &Call[*SessionInputParams, *api.SessionInputResult]{Row{"input", 5, ByWriteID}}
	// Resize changes the size of the terminal.
	Resize = &Call[*ResizeParams, *ResizeResult]{Row{"resize", 5, Always}}
	// Screen reads the screen of the terminal.
	Screen = &Call[*api.SessionScreenParams, *api.SessionScreenResult]{Row{"screen", 5, Always}}
	// Wait answers when the session does what the caller waits for.
	Wait = &Call[*api.SessionWaitParams, *api.SessionWaitResult]{Row{"wait", 5, Always}}
	// Snapshot makes a snapshot of the terminal, which is the body of the answer.
	Snapshot = &Call[*SnapshotParams, *SnapshotResult]{Row{"snapshot", 5, Always}}
	// Follow reads the output of the terminal from an offset on, with its changes of size. The
	// body of the answer has the bytes.
	Follow = &Call[*FollowParams, *FollowResult]{Row{"follow", 5, Always}}
	// Recording reads the recording of the terminal at an offset. The body of the answer has the
	// bytes. The call after the last piece says that the daemon has everything.
	Recording = &Call[*RecordingParams, *RecordingResult]{Row{"recording", 5, Always}}
)

// Calls returns the table.
func Calls() []*Row {
	return []*Row{
		&Hello.Row,
		&Create.Row,
		&Info.Row,
		&Usage.Row,
		&Set.Row,
		&ExecRun.Row,
		&ExecStart.Row,
		&ExecRead.Row,
		&ExecOutput.Row,
		&ExecGrep.Row,
		&ExecMatch.Row,
		&ExecInput.Row,
		&ExecAwait.Row,
		&ExecCancel.Row,
		&ExecSignal.Row,
		&ExecDrop.Row,
		&ExecInfo.Row,
		&ExecList.Row,
		&Trim.Row,
		&Destroy.Row,
		&Export.Row,
		&Input.Row,
		&Resize.Row,
		&Screen.Row,
		&Wait.Row,
		&Snapshot.Row,
		&Follow.Row,
		&Recording.Row,
	}
}
