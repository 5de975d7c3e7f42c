package runner

import (
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/shell"
)

// Exec is one command of the session, from the moment it is accepted until it
// is forgotten.
type Exec struct {
	id      string
	session string
	params  api.ExecParams
	timeout time.Duration
	log     *output.Log
	cmd     *shell.Command

	kept int64 // guarded by the runner's mu; what its output takes, counted when it ended

	turn  chan struct{} // closed when a queued exec may run, or is given up
	ended chan struct{} // closed when the outcome is known

	mu        sync.Mutex
	state     api.ExecState // guarded by mu, written by to only
	queuedAt  time.Time
	startedAt time.Time        // guarded by mu
	endedAt   time.Time        // guarded by mu
	outcome   *api.ExecOutcome // guarded by mu; set when ended closes
	err       error            // guarded by mu; why it could not be run at all
	mark      int64            // guarded by mu; sequence number of the exit
	cancelled bool             // guarded by mu; given up while queued
	handed    int64            // guarded by mu; bytes that its reader has taken, for Backpressure
}

// to moves the exec to another state. An illegal move is a fault of TRL and
// leaves the state as it is.
func (e *Exec) to(next api.ExecState) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.state.CanBecome(next) {
		return api.Errorf(api.CodeInternal, "exec %q: cannot go from %s to %s", e.id, e.state, next)
	}
	e.state = next
	now := time.Now()
	switch next {
	case api.ExecRunning:
		e.startedAt = now
	case api.ExecExited:
		e.endedAt = now
	case api.ExecClosed:
		if e.endedAt.IsZero() {
			e.endedAt = now
		}
		e.log.Close()
	}
	return nil
}

// end publishes the outcome. It is called once.
func (e *Exec) end(oc *api.ExecOutcome, err error) {
	e.mu.Lock()
	e.outcome, e.err = oc, err
	e.mark = e.log.Mark() // wakes the readers, who then find the outcome
	e.mu.Unlock()
	close(e.ended)
}

// result is the outcome after ended is closed.
func (e *Exec) result() (*api.ExecOutcome, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.outcome, e.err
}

// cancel asks for the end of the command. signal is the first of the ladder.
func (e *Exec) cancel(signal syscall.Signal, wake func()) {
	select {
	case e.cmd.Abort <- signal:
	default:
	}
	wake()
}

// took notes what the reader has, and reports whether the command may have waited for it.
func (e *Exec) took(n int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handed += n
	return e.params.Backpressure && n > 0
}

// unread is how far its reader is behind.
func (e *Exec) unread() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.Bytes(output.Stdout) + e.log.Bytes(output.Stderr) - e.handed
}

// maxCommandShown is how much of a command's text listings carry.
const maxCommandShown = 4 << 10

// Info is a snapshot.
func (e *Exec) Info() api.ExecInfo {
	e.mu.Lock()
	defer e.mu.Unlock()
	info := api.ExecInfo{
		ExecID: e.id, SessionID: e.session, Command: e.params.Command, State: e.state, QueuedAt: e.queuedAt,
		TimeoutS: e.timeout.Seconds(), Detach: e.params.Detach != nil && *e.params.Detach,
		StdoutBytes: e.log.Bytes(output.Stdout), StderrBytes: e.log.Bytes(output.Stderr), Outcome: e.outcome,
	}
	if len(info.Command) > maxCommandShown {
		info.Command = strings.ToValidUTF8(info.Command[:maxCommandShown], "")
	}
	if !e.startedAt.IsZero() {
		t := e.startedAt
		info.StartedAt = &t
	}
	if !e.endedAt.IsZero() {
		t := e.endedAt
		info.EndedAt = &t
	}
	return info
}

func (e *Exec) closed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state == api.ExecClosed
}

// execID names the n-th command of a session, so that the session is found from it.
func execID(session string, n int64) string {
	return "x-" + strings.TrimPrefix(session, "s-") + "-" + strconv.FormatInt(n, 10)
}

// newOutcome turns what the shell tells into what the wire carries.
func newOutcome(oc shell.Outcome, log *output.Log, started time.Time, cwd string, maxOutput int64) *api.ExecOutcome {
	out := &api.ExecOutcome{
		ExitCode: oc.ExitCode, DurationMS: time.Since(started).Milliseconds(), TimedOut: oc.TimedOut, Cancelled: oc.Cancelled,
		StdoutBytes: log.Bytes(output.Stdout), StderrBytes: log.Bytes(output.Stderr), WorkingDir: cwd,
		LeftRunning: listProcesses(oc.LeftRunning), Killed: listKilled(oc.Killed),
		Usage:          api.Usage{UserMS: oc.UserMS, SystemMS: oc.SystemMS, MaxRSSBytes: oc.MaxRSSBytes},
		ShellRestarted: oc.Restarted,
	}
	if oc.Signal != 0 {
		out.Signal = process.SignalName(oc.Signal)
	}
	out.StdoutTruncated = out.StdoutBytes > maxOutput
	out.StderrTruncated = out.StderrBytes > maxOutput
	return out
}

func listProcesses(infos []process.Info) []api.Process {
	list := make([]api.Process, 0, len(infos))
	for _, p := range infos {
		list = append(list, api.Process{PID: p.PID, Command: process.CommandLine(p.PID)})
	}
	return list
}

func listKilled(killed []process.Killed) []api.KilledProcess {
	list := make([]api.KilledProcess, 0, len(killed))
	for _, k := range killed {
		list = append(list, api.KilledProcess{PID: k.PID, Command: k.Command, Signal: process.SignalName(k.Signal)})
	}
	return list
}
