package runner

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/shell"
	"github.com/trl-dev/trl/internal/terminal"
)

// program is what a session of kind terminal or program is: one process on a
// pseudo-terminal or on three pipes, with everything it starts. It is the task of the
// session's one Exec, and the session ends with it. One goroutine, watch.
type program struct {
	vessel
	terminal *terminal.Terminal // the vessel; nil for kind program
	pipes    *pipes             // the vessel; nil for kind terminal
	exec     *Exec
	command  []string
	started  time.Time
	typed    atomic.Pointer[time.Time] // when something was written to it last; nil: never

	first chan syscall.Signal // asks for its end; has room for one
	force chan struct{}       // has a value when its end cannot wait for the grace time

	over   chan struct{}    // closed when nothing of it is left
	killed []process.Killed // set when over is closed
}

// vessel is what a program runs on.
type vessel interface {
	Process() *process.Process
	// Done is closed when the program has ended and all it wrote is in the log.
	Done() <-chan struct{}
	// Close lets go of the program's input and output. What is in the log, and the last
	// screen, stays readable.
	Close()
	LastOutput() time.Time
}

// terminalOf is the terminal that the exec's program runs on; nil when there is none.
func terminalOf(e *Exec) *terminal.Terminal {
	if p, ok := e.task.(*program); ok {
		return p.terminal
	}
	return nil
}

func (p *program) Running() bool { return !happened(p.Process().Done()) }

// Usage counts everything below the runner: there is nothing else.
func (p *program) Usage() (userMS, systemMS, maxRSSBytes int64, ok bool) {
	if !p.Running() {
		return 0, 0, 0, false
	}
	for _, in := range process.Descendants(os.Getpid(), nil) {
		userMS += in.UserMS
		systemMS += in.SystemMS
		maxRSSBytes = max(maxRSSBytes, process.HighWaterRSS(in.PID))
	}
	return userMS, systemMS, maxRSSBytes, true
}

// BlockedReader is for a program on pipes; a terminal looks itself.
func (p *program) BlockedReader() (shell.Reader, bool, error) {
	if p.pipes == nil || !p.Running() {
		return shell.Reader{}, false, nil
	}
	if err := process.CanSeeReads(p.Process().PID); err != nil {
		return shell.Reader{}, false, err
	}
	pipe, taken := p.pipes.in.Drained()
	for _, in := range process.Descendants(os.Getpid(), nil) {
		if r, ok := process.BlockedReader(in.PID, pipe, true); ok {
			return shell.Reader{Reader: r, Taken: taken}, true, nil
		}
	}
	return shell.Reader{}, false, nil
}

func (p *program) reads() bool {
	return p.Running() && (p.pipes == nil || p.pipes.in.Open())
}

func (p *program) stdin() *shell.Input {
	if p.pipes == nil {
		return nil
	}
	return p.pipes.in
}

func (p *program) wake() { p.pipes.feed.Wake() }

func (p *program) stop(sig syscall.Signal) {
	select {
	case p.first <- sig:
	default:
	}
	if sig == syscall.SIGKILL {
		select {
		case p.force <- struct{}{}:
		default:
		}
	}
}

func (p *program) forget() {}

// activity is when it last wrote or was written something.
func (p *program) activity() time.Time {
	at := p.started
	if out := p.LastOutput(); out.After(at) {
		at = out
	}
	if typed := p.typed.Load(); typed != nil && typed.After(at) {
		at = *typed
	}
	return at
}

// describe adds to a snapshot of the session what the program can tell.
func (p *program) describe(info *api.SessionInfo) {
	info.Command, info.ExecID = p.command, p.exec.ID
	if at := p.activity(); at.After(info.LastActivity) {
		info.LastActivity = at.UTC()
	}
	if p.terminal != nil {
		t := p.terminal.Info()
		info.Terminal = &t
	}
}

const (
	// settleTime is how long the end of output is awaited after the program's end, before
	// those who hold it are ended: what only has to write its last words is not disturbed.
	settleTime = 20 * time.Millisecond
	// drainTime is how long it is awaited when nobody below us holds it any more.
	drainTime = time.Second
)

// watch sees the program to its end, and then ends the session.
func (r *Runner) watch(p *program) {
	cancelled := r.endOf(p)
	exit := p.Process().Exit()
	oc := shell.Outcome{
		ExitCode: exit.Code(), Signal: exit.Signal, Killed: p.killed,
		UserMS: exit.UserMS, SystemMS: exit.SystemMS, MaxRSSBytes: exit.MaxRSSBytes,
	}
	cause := causeOf(exit)
	if cancelled != 0 {
		oc.ExitCode, oc.Cancelled = api.ExitCancelled, true
		if oc.Signal == 0 { // it exited, because it was told to
			oc.Signal = strongest(cancelled, p.killed)
		}
		cause = "its program was cancelled"
	}
	e := p.exec
	out := newOutcome(oc, e.Log, p.started, r.cwd, 0)
	out.StdoutTruncated, out.StderrTruncated = hasGap(e.Log, output.Stdout), hasGap(e.Log, output.Stderr)
	e.exited(out, nil)
	r.mu.Lock()
	r.current, r.outcome = nil, out
	memory, file := e.Log.Kept()
	e.kept = memory + file
	r.kept += e.kept
	r.mu.Unlock()
	e.end()
	_ = e.to(api.ExecClosed)
	close(p.over)
	r.destroy(link.DestroyParams{Cause: cause}, true)
}

// endOf waits for the end of the program, or ends it, and everything that it left. It
// returns the signal with which that was asked for, 0 when the program ended by itself.
func (r *Runner) endOf(p *program) (cancelled syscall.Signal) {
	select {
	case <-p.Process().Done():
		happens(p.Done(), settleTime)
	case cancelled = <-p.first:
	}
	first := cancelled
	if first == 0 {
		first = syscall.SIGTERM
	}
	l := r.ladder(first, seconds(r.params.Limits.KillGraceS))
	l.HangUp()
	p.killed = climb(l, p.force)
	if r.cgroup != nil {
		_ = r.cgroup.Kill() // whoever left our tree in spite of all
	}
	<-p.Process().Done()
	happens(p.Done(), drainTime)
	p.Close()
	awaitReaped()
	return cancelled
}

// happens waits for c to be closed, at most for d.
func happens(c <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
	case <-t.C:
	}
}

func happened(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func causeOf(exit process.Exit) string {
	if exit.Signal != 0 {
		return "the program died of " + process.SignalName(exit.Signal)
	}
	return "the program exited with status " + strconv.Itoa(exit.Status)
}

// strongest is the last signal that had to be sent.
func strongest(first syscall.Signal, killed []process.Killed) syscall.Signal {
	for _, k := range killed {
		if k.Signal == syscall.SIGKILL {
			return k.Signal
		}
	}
	return first
}

func hasGap(log *output.Log, st output.Stream) bool {
	from, to := log.Gap(st)
	return to > from
}
