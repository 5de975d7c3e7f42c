package shell

import (
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
)

// Command is one command to run.
type Command struct {
	Text       string
	Env        map[string]string // additional variables, for this command only
	WorkingDir string            // for this command only; "": the shell's own
	Stdin      []byte
	HasStdin   bool          // false: stdin is /dev/null
	Input      *Input        // replaces Stdin when stdin is written while the command runs
	Timeout    time.Duration // 0: none
	Grace      time.Duration // between the first signal and SIGKILL
	Log        *output.Log   // receives the output
	Merge      bool          // stderr goes where stdout goes
	// Abort makes Run end the command; the value is the first signal. The channel has room
	// for one. After sending, call Shell.Wake.
	Abort chan syscall.Signal
	// Full reports whether Run must stop reading output for now, so that the command
	// blocks as on any pipe that is not read. nil: never. When the result changes, call
	// Shell.Wake.
	Full func() bool

	live  atomic.Pointer[runningCommand] // nil unless the command runs
	wrote atomic.Pointer[time.Time]      // time of its last output; nil: none yet
}

// Outcome describes how a command ended.
type Outcome struct {
	ExitCode  int
	Signal    syscall.Signal // the signal that ended the command, where that is certain
	TimedOut  bool
	Cancelled bool
	Restarted bool // the shell ended and was replaced
	Alone     bool // no process of an earlier command was alive when the command began
	// Died is set when the shell ended and no other could be started. With
	// RESOURCE_PRESSURE, the next Run tries again; otherwise the session cannot continue.
	Died        error
	LeftRunning []Holder
	Killed      []process.Killed
	UserMS      int64
	SystemMS    int64
	MaxRSSBytes int64
	feeder      *feeder

	// Held is output that left-over processes still hold open; nil when the output is
	// complete.
	Held *Held
}

// runningCommand has the data that other goroutines need to inspect a command while it runs.
// It never changes.
type runningCommand struct {
	scope
	input            *Input
	userMS, systemMS int64 // processor time of the shell that earlier commands used
}

// Running reports whether the shell runs the command. Safe for concurrent use.
func (c *Command) Running() bool { return c.live.Load() != nil }

// LastOutput is the time of the last output of the command or of a process that it left
// running; zero if there was none. Safe for concurrent use.
func (c *Command) LastOutput() time.Time {
	if at := c.wrote.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Usage returns the resources that the command has used so far, including its living
// processes. ok is false when the command does not run. Safe for concurrent use.
func (c *Command) Usage() (userMS, systemMS, maxRSSBytes int64, ok bool) {
	l := c.live.Load()
	if l == nil {
		return 0, 0, 0, false
	}
	if in, ok := process.Stat(l.shell); ok {
		userMS, systemMS = in.UserMS-l.userMS, in.SystemMS-l.systemMS
	}
	for _, p := range l.processes() {
		userMS += p.UserMS
		systemMS += p.SystemMS
		maxRSSBytes = max(maxRSSBytes, process.HighWaterRSS(p.PID))
	}
	return userMS, systemMS, maxRSSBytes, true
}

// Processes returns the living processes of the command: all, or only the children of the shell.
// It returns false when the command does not run. Safe for concurrent use.
func (c *Command) Processes(children bool) (list []process.Info, ok bool) {
	l := c.live.Load()
	if l == nil {
		return nil, false
	}
	for _, p := range l.processes() {
		if !children || p.PPID == l.shell {
			list = append(list, p)
		}
	}
	if c.live.Load() != l { // the list may have the shell that replaces one that died
		return nil, false
	}
	return list, true
}

// Reader is a process that waits for input. If two calls of BlockedReader return equal values,
// the process has not run and no input was accepted between them.
type Reader struct {
	process.Reader
	Taken int64 // bytes of input accepted so far
}

// BlockedReader looks for a process of the command, or the shell itself, that is blocked in
// reading a terminal, or its open stdin after all accepted input has been read. The error is
// process.ErrUnseen. Safe for concurrent use.
func (c *Command) BlockedReader() (Reader, bool, error) {
	l := c.live.Load()
	if l == nil {
		return Reader{}, false, nil
	}
	if err := process.CanSeeReads(l.shell); err != nil {
		return Reader{}, false, err
	}
	var pipe process.FileID
	var taken int64
	if l.input != nil {
		pipe, taken = l.input.Drained()
	}
	// The shell's own terminal does not count: the shell reads its control text from it.
	if r, ok := process.BlockedReader(l.shell, pipe, false); ok {
		return Reader{r, taken}, true, nil
	}
	for _, p := range l.processes() {
		if r, ok := process.BlockedReader(p.PID, pipe, true); ok {
			return Reader{r, taken}, true, nil
		}
	}
	return Reader{}, false, nil
}
