package runner

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/export"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/recent"
	"github.com/trl-dev/trl/internal/shell"
)

// Exec is one command of the session, from the moment it is accepted until it
// is forgotten.
type Exec struct {
	export.Exec // its id and its output

	session string
	params  api.ExecParams
	timeout time.Duration
	task    task
	note    func(link.ExecEvent) // reports every change of state; called with mu held

	kept int64 // guarded by the runner's mu; bytes of its output, counted when it ended

	turn  chan struct{} // closed when a queued exec may run, or will never run
	ended chan struct{} // closed when the outcome is known

	mu    sync.Mutex
	state api.ExecState // guarded by mu, written by moveLocked only
	// The times have a monotonic reading, so that the clock can be set while the command runs.
	// UTC, for reports, drops it.
	queuedAt  time.Time
	startedAt time.Time        // guarded by mu
	endedAt   time.Time        // guarded by mu
	outcome   *api.ExecOutcome // guarded by mu; set before ended closes
	err       error            // guarded by mu; why it could not start
	mark      int64            // guarded by mu; sequence number of the exit
	exit      link.ExecEvent   // guarded by mu; reported by end, when the outcome can be read
	cancelled bool             // guarded by mu; given up while queued
	pace      *pace            // guarded by mu; nil without backpressure
	cause     string           // guarded by mu; why TRL gives it up without a request to cancel it

	maxStdin int64 // bytes of one write, and bytes that wait to be read
	writeMu  sync.Mutex
	writes   *recent.Map[api.ExecInputResult] // guarded by writeMu; answers by write id; nil before the first
}

// newExec makes the n-th command of the session, which is queued.
func (r *Runner) newExec(n int64, log *output.Log, maxStdin int64) *Exec {
	id := r.cfg.SessionID
	e := &Exec{
		Exec: export.Exec{ID: execID(id, n), Log: log}, session: id, state: api.ExecQueued, queuedAt: time.Now(),
		maxStdin: maxStdin, turn: make(chan struct{}), ended: make(chan struct{}), note: r.note,
	}
	e.Status = e.status
	return e
}

// to moves the exec to another state. An illegal move is a fault of TRL and
// leaves the state as it is.
func (e *Exec) to(next api.ExecState) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	event, err := e.moveLocked(next)
	if err == nil {
		e.note(event)
	}
	return err
}

// exited records the outcome, or why the command could not start. Waiters are notified by
// end, not here.
func (e *Exec) exited(oc *api.ExecOutcome, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if oc != nil && oc.Cancelled {
		oc.CancelCause = e.cause
	}
	e.outcome, e.err = oc, err
	e.exit, _ = e.moveLocked(api.ExecExited)
}

// end notifies the waiters. It is called once, after exited and after the report of the
// session's new state, so that a waiter never finds the session still running.
func (e *Exec) end() {
	e.mu.Lock()
	e.mark = e.Log.Mark() // wakes the readers, which then find the outcome
	e.note(e.exit)
	e.mu.Unlock()
	close(e.ended)
}

// because notes why the command is about to be given up. The first cause counts.
func (e *Exec) because(cause string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause == "" {
		e.cause = cause
	}
}

// giveUp ends a command that never ran.
func (e *Exec) giveUp(oc *api.ExecOutcome) {
	e.mu.Lock()
	oc.CancelCause = e.cause
	e.outcome, e.cancelled = oc, true
	e.mark = e.Log.Mark()
	event, err := e.moveLocked(api.ExecClosed)
	if err == nil {
		e.note(event)
	}
	e.mu.Unlock()
	close(e.ended)
	close(e.turn)
}

// moveLocked writes the state and returns the event to report.
func (e *Exec) moveLocked(next api.ExecState) (link.ExecEvent, error) {
	if !e.state.CanBecome(next) {
		return link.ExecEvent{}, api.Errorf(api.CodeInternal, "exec %q: cannot go from %s to %s", e.ID, e.state, next)
	}
	now := time.Now()
	event := link.ExecEvent{ExecID: e.ID, State: next, At: now.UTC()}
	switch next {
	case api.ExecRunning:
		e.startedAt = now
	case api.ExecExited:
		e.endedAt = now
		event.Outcome = brief(e.outcome)
	case api.ExecClosed:
		if e.state == api.ExecQueued {
			e.endedAt = now
			event.Outcome = brief(e.outcome)
		}
		e.Log.Close()
	}
	e.state = next
	return event, nil
}

// maxListed is how many processes each list of an event has at most.
const maxListed = 20

// brief returns the outcome for an event, with bounded lists.
func brief(oc *api.ExecOutcome) *api.ExecOutcome {
	if oc == nil || len(oc.LeftRunning) <= maxListed && len(oc.Killed) <= maxListed {
		return oc
	}
	short := *oc
	short.LeftRunning = oc.LeftRunning[:min(len(oc.LeftRunning), maxListed)]
	short.Killed = oc.Killed[:min(len(oc.Killed), maxListed)]
	return &short
}

// status reports the state of the command to export.Exec.
func (e *Exec) status() export.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return export.Status{State: e.state, Outcome: e.outcome, Mark: e.mark, Err: e.err}
}

// result returns the outcome, or why the command could not start. It is final once ended is
// closed.
func (e *Exec) result() (*api.ExecOutcome, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.outcome, e.err
}

// maxCommandShown is how many bytes of a command's text a listing has.
const maxCommandShown = 4 << 10

// Info returns a snapshot. For a running command it adds up the usage of its processes, which takes
// a system call or more for each.
func (e *Exec) Info() api.ExecInfo {
	info := e.snapshot()
	if user, system, rss, ok := e.task.Usage(); ok && info.Outcome == nil {
		info.Usage = api.Usage{UserMS: user, SystemMS: system, MaxRSSBytes: rss}
	}
	return info
}

// snapshot is Info without the usage of running processes.
func (e *Exec) snapshot() api.ExecInfo {
	e.mu.Lock()
	defer e.mu.Unlock()
	info := api.ExecInfo{
		ExecID: e.ID, SessionID: e.session, Command: e.params.Command, State: e.state, QueuedAt: e.queuedAt.UTC(),
		TimeoutS: e.timeout.Seconds(), Detach: e.params.Detach != nil && *e.params.Detach,
		StdinOpen: e.outcome == nil && e.err == nil && e.task.reads(), AgeMS: time.Since(e.queuedAt).Milliseconds(),
		StdoutBytes: e.Log.Bytes(output.Stdout), StderrBytes: e.Log.Bytes(output.Stderr), LastSeq: e.Log.Last(), Outcome: e.outcome,
	}
	if b := besideOf(e); b != nil {
		b.describe(&info, e.params.Argv)
	}
	if e.outcome != nil {
		info.Usage = e.outcome.Usage
	} else {
		info.Error = api.AsError(e.err)
	}
	if at := e.task.LastOutput(); !at.IsZero() {
		quiet := time.Since(at).Milliseconds()
		info.QuietMS = &quiet
	}
	if len(info.Command) > maxCommandShown {
		info.Command = strings.ToValidUTF8(info.Command[:maxCommandShown], "")
	}
	if !e.startedAt.IsZero() {
		t := e.startedAt.UTC()
		info.StartedAt = &t
		if e.state == api.ExecRunning {
			running := time.Since(e.startedAt).Milliseconds()
			info.RunningMS = &running
		}
	}
	if !e.endedAt.IsZero() {
		t := e.endedAt.UTC()
		info.EndedAt = &t
	}
	return info
}

// givenUp reports whether the command was given up while it was queued.
func (e *Exec) givenUp() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cancelled
}

func (e *Exec) closed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state == api.ExecClosed
}

// execID names the n-th command of a session. The id contains that of the session, so that the
// daemon finds the session from it.
func execID(session string, n int64) string {
	return "x-" + strings.TrimPrefix(session, "s-") + "-" + strconv.FormatInt(n, 10)
}

// newOutcome makes the outcome of the API from that of the shell.
func (e *Exec) newOutcome(oc shell.Outcome, started time.Time, cwd string) *api.ExecOutcome {
	out := &api.ExecOutcome{
		ExitCode: oc.ExitCode, DurationMS: time.Since(started).Milliseconds(), TimedOut: oc.TimedOut, Cancelled: oc.Cancelled,
		StdoutBytes: e.Log.Bytes(output.Stdout), StderrBytes: e.Log.Bytes(output.Stderr), WorkingDir: cwd,
		LeftRunning: listHolders(oc.LeftRunning), Killed: listKilled(oc.Killed),
		Usage:          api.Usage{UserMS: oc.UserMS, SystemMS: oc.SystemMS, MaxRSSBytes: oc.MaxRSSBytes},
		ShellRestarted: oc.Restarted,
	}
	if oc.Signal != 0 {
		out.Signal = process.SignalName(oc.Signal)
	}
	limit := maxOutput(e.params)
	out.StdoutTruncated, out.StderrTruncated = out.StdoutBytes > limit, out.StderrBytes > limit
	return out
}

func listHolders(holders []shell.Holder) []api.Process {
	list := make([]api.Process, 0, len(holders))
	for _, h := range holders {
		list = append(list, api.Process{PID: h.PID, Command: h.Command})
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
