package runner

import (
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
)

// ending is the end of the session, which happens once; later requests wait for the same one.
type ending struct {
	own    bool          // no daemon asked for it
	force  chan struct{} // has a value when a caller cannot wait for the grace time
	done   chan struct{}
	result link.DestroyResult // set when done is closed
}

// destroy ends the session: the running command, the queued ones, the shell, and every process
// below the runner. With exit no daemon asked for it, and the runner process ends too.
func (r *Runner) destroy(p link.DestroyParams, exit bool) link.DestroyResult {
	r.mu.Lock()
	if e := r.ending; e != nil {
		r.mu.Unlock()
		if p.Force {
			r.forceRunning()
			select {
			case e.force <- struct{}{}:
			default:
			}
		}
		<-e.done
		return e.result
	}
	e := &ending{own: exit, force: make(chan struct{}, 1), done: make(chan struct{})}
	r.ending = e
	if r.cause == "" {
		r.cause = p.Cause
	}
	queue, running, grace := append(r.queue, r.waiting...), r.runningLocked(), seconds(r.params.Limits.KillGraceS)
	r.queue, r.waiting = nil, nil
	r.mu.Unlock()

	cause := "its session ended"
	if p.Cause != "" {
		cause += ": " + p.Cause
	}
	for _, q := range queue {
		q.because(cause)
		r.giveUpQueued(q)
	}
	first := syscall.SIGTERM
	if p.Force {
		first, grace = syscall.SIGKILL, 0
	}
	for _, x := range running {
		x.because(cause)
		r.abandon(x, first)
	}
	var killed []api.KilledProcess
	for _, x := range running {
		<-x.ended
		// The outcome of a program is that of the session.
		if oc, _ := x.result(); oc != nil && r.program == nil {
			killed = append(killed, oc.Killed...)
		}
	}
	e.result = r.endProcesses(first, grace, e.force)
	e.result.Killed = append(killed, e.result.Killed...)
	close(e.done)
	if exit {
		r.leave()
	}
	return e.result
}

// runningLocked returns the commands that run: in the shell and beside it.
func (r *Runner) runningLocked() []*Exec {
	running := slices.Clone(r.parallel)
	if r.current != nil {
		running = append(running, r.current)
	}
	return running
}

// forceRunning ends the grace time of the commands that are being given up.
func (r *Runner) forceRunning() {
	r.mu.Lock()
	running := r.runningLocked()
	r.mu.Unlock()
	for _, e := range running {
		e.task.stop(syscall.SIGKILL)
	}
}

// endProcesses ends all processes below the runner, with that signal first, and then the session.
func (r *Runner) endProcesses(first syscall.Signal, grace time.Duration, force <-chan struct{}) link.DestroyResult {
	res := link.DestroyResult{Killed: []api.KilledProcess{}, Execs: []api.ExecInfo{}}
	if !r.isCreated() {
		climb(r.ladder(syscall.SIGTERM, 0), force) // the shell that create waits for
	}
	r.lockShell() // never unlocked: the session is over
	var pid int
	var killed []process.Killed
	switch {
	case r.program != nil:
		r.program.stop(first) // it may have been created a moment ago
		<-r.program.over
		pid, killed = r.program.Process().PID, r.program.killed
		r.drainer.Close()
	case r.isCreated():
		l := r.ladder(syscall.SIGTERM, grace)
		if r.shell != nil {
			pid = r.shell.PID()
			l.Last(pid)
			if first != syscall.SIGKILL {
				l.Step() // ends the jobs before the shell
				r.shell.HangUp()
			}
		}
		killed = climb(l, force)
		if r.cgroup != nil {
			_ = r.cgroup.Kill() // also processes that left the tree of the runner
		}
		if r.shell != nil {
			r.shell.Close()
		}
		r.closeBesides()
		r.drainer.Close()
		awaitReaped()
	}
	for _, k := range listKilled(killed) {
		if k.PID != pid {
			res.Killed = append(res.Killed, k)
		}
	}
	r.removeGroups()
	if r.network != nil {
		r.closeNetwork(r.network)
	}
	r.mu.Lock()
	_ = r.toLocked(api.SessionTerminated, r.cause)
	r.mu.Unlock()
	res.Execs = r.list()
	res.Info = r.Details()
	r.report(true)
	return res
}

func (r *Runner) isCreated() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.created
}

const (
	// farewellTimeout is how long the runner of a session that ended on its own waits for the
	// daemon to ask for an export.
	farewellTimeout = 5 * time.Second
	// defaultRetention is how long it waits for a daemon, if no limit says how long.
	defaultRetention = time.Hour
	// ownerPatience is how long it waits at most if the session is ephemeral. Its owner starts the
	// next daemon within seconds, and still wants the output and the status of its program.
	ownerPatience = 10 * time.Second
)

// leave ends the runner of a session that ended on its own, later: the remains of the session
// wait for a daemon that takes them over.
func (r *Runner) leave() {
	r.report(false)
	r.mu.Lock()
	patience := r.patienceLocked()
	if r.conn != nil && r.created {
		patience = farewellTimeout
	}
	r.waitThenExitLocked(patience)
	r.mu.Unlock()
}

// patienceLocked is how long a runner without a daemon waits for one.
func (r *Runner) patienceLocked() time.Duration {
	retention := r.params.Limits.RetentionS
	patience := defaultRetention
	if retention > 0 {
		patience = seconds(retention)
	}
	switch {
	case !r.created || r.unwanted || retention < 0 && !r.isRecordedLocked():
		return 0
	case r.params.Params.Ephemeral && !r.isRecordedLocked():
		patience = min(patience, ownerPatience)
	}
	return patience - time.Since(r.endedAt)
}

// waitThenExitLocked ends the runner after d, unless a daemon connects before.
func (r *Runner) waitThenExitLocked(d time.Duration) {
	r.loneTimer.Stop()
	r.loneTimer = time.AfterFunc(d, r.exit)
}

// terminate ends the runner after a signal. Without a daemon the runner exits at once.
func (r *Runner) terminate() {
	r.mu.Lock()
	r.unwanted = true // if the daemon leaves now, the runner does not wait for another
	r.mu.Unlock()
	r.destroy(link.DestroyParams{Cause: "the runner got a signal to end"}, true)
	if !r.hasDaemon() {
		r.exit()
	}
}

// exit ends the process. The directory goes last: a daemon finds the runner by it as long as
// there is something to fetch.
func (r *Runner) exit() {
	os.RemoveAll(r.cfg.Dir)
	r.cfg.Exit(0)
}

// ladder makes the kill ladder for all processes of the session.
func (r *Runner) ladder(first syscall.Signal, grace time.Duration) *process.Ladder {
	l := process.NewLadder(os.Getpid(), first, grace, nil)
	if r.strays != nil {
		l.Search(func() []process.Info { return r.strays(r.startTime) })
	}
	return l
}

// climb ends all processes of the ladder.
func climb(l *process.Ladder, force <-chan struct{}) []process.Killed {
	defer l.Close()
	for l.Step() > 0 && !l.GivenUp() {
		l.Wait(20 * time.Millisecond)
		select {
		case <-force:
			l.Force()
		default:
		}
	}
	return l.Killed()
}

// awaitReaped waits until all children are reaped, at most a second, so that no zombie outlives
// the runner. It polls, because no event announces the last one.
func awaitReaped() {
	for deadline := time.Now().Add(time.Second); len(process.Children(os.Getpid())) > 0 && time.Now().Before(deadline); {
		time.Sleep(200 * time.Microsecond)
	}
}

func (r *Runner) terminatedErrorLocked() error {
	cause := r.cause
	if cause == "" {
		cause = "it is being destroyed"
	}
	return api.Errorf(api.CodeSessionTerminated, "session %q: has ended: %s", r.labelLocked(), cause)
}

func (r *Runner) enforcement() string {
	switch {
	case r.cgroup != nil:
		return "cgroup"
	case r.cfg.Subreaper:
		return "subreaper"
	}
	return "scan"
}

const (
	quietCheckpoint = 50 * time.Millisecond
	quietMemory     = 3 * time.Second
)

// scheduleQuiet arranges for the work that is done when the session is quiet: a checkpoint that
// the budget did not allow before, and later the return of memory.
func (r *Runner) scheduleQuiet() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.quietTimer != nil {
		r.quietTimer.Reset(quietCheckpoint)
		return
	}
	r.quietTimer = time.AfterFunc(quietCheckpoint, r.quiet)
}

func (r *Runner) quiet() {
	select {
	case r.shellTurn <- struct{}{}:
	default:
		return // a command runs, and schedules this again
	}
	r.mu.Lock()
	busy := r.ending != nil || r.current != nil
	r.mu.Unlock()
	if !busy && r.shell != nil {
		r.shell.Checkpoint()
		r.shell.Reap()
		for _, child := range r.shell.Children() {
			r.drainer.Add(child, r.scheduleQuiet)
		}
	}
	r.sweepGroups()
	changed := !busy && r.program == nil && r.noteOthers(r.hasOthers())
	r.unlockShell()
	if changed {
		r.reportSoon()
	}
	if !busy {
		time.AfterFunc(quietMemory, func() {
			r.mu.Lock()
			idle := r.current == nil && time.Since(r.activity) >= quietMemory
			r.mu.Unlock()
			if idle {
				r.returnMemory()
			}
		})
	}
}

// The memory of a new runner, and how much more it must take before returning memory is worth it.
// The collector itself keeps up to 0.4 MB.
const (
	leastKept  = 1 << 20
	leastWaste = 1 << 20
)

// returnMemory gives back what the session does not need, unless that is too little. It asks the
// kernel how much there is: the runtime's own figures take as much memory as a collection.
func (r *Runner) returnMemory() {
	r.memory.Lock()
	defer r.memory.Unlock()
	if process.OwnMemory() < max(r.memory.kept, leastKept)+leastWaste {
		return
	}
	debug.FreeOSMemory()
	r.memory.kept = process.OwnMemory()
}
