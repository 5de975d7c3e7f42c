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

// program is the program of a session of kind terminal or program: one process on a
// pseudo-terminal or on three pipes, with everything it starts. It is the task of the session's
// one Exec, and the session ends with it. Its goroutine is watch.
type program struct {
	vessel
	stopper
	terminal *terminal.Terminal // the vessel; nil for kind program
	pipes    *pipes             // the vessel; nil for kind terminal
	exec     *Exec
	command  []string
	started  time.Time
	typed    atomic.Pointer[time.Time] // the last input; nil before the first

	over   chan struct{}    // closed when no process of it is left
	killed []process.Killed // set when over is closed
}

// vessel connects a program to the runner: a terminal or pipes.
type vessel interface {
	Process() *process.Process
	// Done is closed when the program has ended and its output is in the log.
	Done() <-chan struct{}
	// Close releases the program's input and output. The log and the last screen stay readable.
	Close()
	LastOutput() time.Time
}

// terminalOf returns the terminal of the exec's program; nil for other execs.
func terminalOf(e *Exec) *terminal.Terminal {
	if p, ok := e.task.(*program); ok {
		return p.terminal
	}
	return nil
}

func (p *program) Running() bool { return !happened(p.Process().Done()) }

func (p *program) Usage() (userMS, systemMS, maxRSSBytes int64, ok bool) {
	if !p.Running() {
		return 0, 0, 0, false
	}
	return usageOf(p.processes(false))
}

// usageOf adds up processes.
func usageOf(list []process.Info) (userMS, systemMS, maxRSSBytes int64, ok bool) {
	for _, in := range list {
		userMS += in.UserMS
		systemMS += in.SystemMS
		maxRSSBytes = max(maxRSSBytes, process.HighWaterRSS(in.PID))
	}
	return userMS, systemMS, maxRSSBytes, true
}

// BlockedReader is for a program on pipes; a terminal has its own way.
func (p *program) BlockedReader() (shell.Reader, bool, error) {
	if p.pipes == nil || !p.Running() {
		return shell.Reader{}, false, nil
	}
	return p.pipes.blockedReader(func() []process.Info { return p.processes(false) })
}

// processes returns all processes below the runner, because all of them belong to the program.
func (p *program) processes(leaders bool) []process.Info {
	if leaders {
		return statAll(p.Process().PID)
	}
	return process.Descendants(os.Getpid(), nil)
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

func (p *program) wake() {
	if p.pipes != nil {
		p.pipes.wake()
	}
}

func (p *program) forget() {}

// activity returns when the last input or output was.
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

// describe adds the program to a snapshot of the session.
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
	// settleTime is how long the runner waits for the end of output after the program's end,
	// before it ends the processes that hold the output: some only have to write their last
	// words.
	settleTime = 20 * time.Millisecond
	// drainTime is how long the runner waits for it when no process below the runner is left.
	drainTime = time.Second
)

// watch waits for the end of the program and then ends the session.
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
		if oc.Signal == 0 { // it handled the signal and exited
			oc.Signal = strongest(cancelled, p.killed)
		}
		cause = "its program was cancelled"
	}
	e := p.exec
	out := e.newOutcome(oc, p.started, r.cwd)
	r.measureProgram(out)
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

// endOf waits for the end of the program, or for a request to end it, and ends all processes that
// are left. It returns the signal of the request; 0 if the program ended on its own.
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
		_ = r.cgroup.Kill() // also processes that left the tree of the runner
	}
	<-p.Process().Done()
	happens(p.Done(), drainTime)
	p.Close()
	awaitReaped()
	return cancelled
}

// happens waits until c is closed, at most for d.
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

// strongest returns the last signal that was necessary.
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
