package runner

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
)

// ending is the one destruction of a session; later requests wait for the same one.
type ending struct {
	own    bool          // no daemon asked for it
	force  chan struct{} // has a value when somebody cannot wait for the grace time
	done   chan struct{}
	result link.DestroyResult // set when done is closed
}

// destroy ends everything: what runs, what waits, the shell, and every process
// below the runner. With exit, or when no daemon waits for an answer, the
// runner process ends too.
func (r *Runner) destroy(p link.DestroyParams, exit bool) link.DestroyResult {
	r.mu.Lock()
	if e := r.ending; e != nil {
		r.mu.Unlock()
		if p.Force {
			r.forceCurrent()
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
	queue, current, grace := r.queue, r.current, seconds(r.params.Limits.KillGraceS)
	r.queue = nil
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
	if current != nil {
		current.because(cause)
		r.abandon(current, first)
		<-current.ended
	}
	e.result = r.endProcesses(first, grace, e.force)
	if oc := r.lastOutcome(current); oc != nil {
		e.result.Killed = append(oc.Killed[:len(oc.Killed):len(oc.Killed)], e.result.Killed...)
	}
	close(e.done)
	if exit {
		r.leave()
	}
	return e.result
}

// lastOutcome is that of the command that ran in the shell when the session was
// ended; nil for none. That of a program is the session's own.
func (r *Runner) lastOutcome(current *Exec) *api.ExecOutcome {
	if current == nil || r.program != nil {
		return nil
	}
	oc, _ := current.result()
	return oc
}

// forceCurrent hurries a command that is being given up with grace.
func (r *Runner) forceCurrent() {
	r.mu.Lock()
	current := r.current
	r.mu.Unlock()
	if current != nil {
		current.task.stop(syscall.SIGKILL)
	}
}

// endProcesses ends everything below the runner, with that signal first, and then the session.
func (r *Runner) endProcesses(first syscall.Signal, grace time.Duration, force <-chan struct{}) link.DestroyResult {
	res := link.DestroyResult{Killed: []api.KilledProcess{}, Execs: []api.ExecInfo{}}
	if !r.isCreated() {
		climb(r.ladder(syscall.SIGTERM, 0), force) // the shell that is being waited for
	}
	r.lockShell() // for good
	var pid int
	var killed []process.Killed
	switch {
	case r.shell != nil:
		pid = r.shell.PID()
		l := r.ladder(syscall.SIGTERM, grace)
		l.Last(pid)
		if first != syscall.SIGKILL {
			l.Step() // asks the jobs before the shell
			r.shell.HangUp()
		}
		killed = climb(l, force)
		if r.cgroup != nil {
			_ = r.cgroup.Kill() // whoever left our tree in spite of all
		}
		r.shell.Close()
		r.drainer.Close()
		awaitReaped()
	case r.program != nil:
		r.program.stop(first) // in case it was only just created
		<-r.program.over
		pid, killed = r.program.Process().PID, r.program.killed
		r.drainer.Close()
	}
	for _, k := range listKilled(killed) {
		if k.PID != pid {
			res.Killed = append(res.Killed, k)
		}
	}
	if r.cgroup != nil {
		_ = r.cgroup.Remove()
		r.cgroup.Close()
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
	// farewellTimeout is how long the runner of a session that ended by itself waits for
	// the daemon to ask what is to be kept of it.
	farewellTimeout = 5 * time.Second
	// defaultRetention is how long it waits for a daemon, when no limit says how long.
	defaultRetention = time.Hour
)

// leave is the end of a runner that nobody asked to end. What is to be read of its
// session waits for a daemon that takes it over.
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
	lim := r.params.Limits
	switch {
	case !r.created || r.unwanted || r.params.Params.Ephemeral || lim.RetentionS < 0:
		return 0
	case lim.RetentionS > 0:
		return seconds(lim.RetentionS) - time.Since(r.endedAt)
	}
	return defaultRetention - time.Since(r.endedAt)
}

// waitThenExitLocked ends the runner after d, unless a daemon connects before.
func (r *Runner) waitThenExitLocked(d time.Duration) {
	r.loneTimer.Stop()
	r.loneTimer = time.AfterFunc(d, r.exit)
}

// toldToEnd is what a signal does. Nothing waits for a daemon that is not there.
func (r *Runner) toldToEnd() {
	r.destroy(link.DestroyParams{Cause: "the runner was told to end"}, true)
	if !r.hasDaemon() {
		r.exit()
	}
}

// exit ends the process. The directory goes last: as long as there is something to
// fetch, a daemon can find the way.
func (r *Runner) exit() {
	os.RemoveAll(r.cfg.Dir)
	r.cfg.Exit(0)
}

// ladder is one for everything that was started in the session.
func (r *Runner) ladder(first syscall.Signal, grace time.Duration) *process.Ladder {
	l := process.NewLadder(os.Getpid(), first, grace, nil)
	if r.strays != nil {
		l.Search(func() []process.Info { return r.strays(r.startTime) })
	}
	return l
}

// climb ends everything that the ladder is for.
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

// awaitReaped gives the reaper the moment it needs, so that no zombie outlives us.
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
	return api.Errorf(api.CodeSessionTerminated, "session %q: has ended: %s", r.cfg.SessionID, cause)
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

// scheduleQuiet arranges for what is done when nothing happens for a while: a
// checkpoint that the budget did not allow, later the return of memory.
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
		return // somebody works; they will schedule it again
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
	news := !busy && r.shell != nil && r.noteOthers(r.hasOthers())
	r.unlockShell()
	if news {
		r.reportSoon()
	}
	if !busy {
		time.AfterFunc(quietMemory, func() {
			r.mu.Lock()
			idle := r.current == nil && time.Since(r.activity) >= quietMemory
			r.mu.Unlock()
			if idle && r.wasteful() {
				debug.FreeOSMemory()
			}
		})
	}
}

// leastWaste is how much memory must have been allocated since it was last returned for
// another return to be worth it. The collector itself needs up to 0.4 MB, and keeps them.
const leastWaste = 1 << 20

// wasteful reports whether there may be much memory to return. It asks the runtime for
// what it counts anyway: runtime.ReadMemStats would take as much memory as a collection.
func (r *Runner) wasteful() bool {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	total := sample[0].Value.Uint64()
	r.mu.Lock()
	defer r.mu.Unlock()
	if total-r.returned < leastWaste {
		return false
	}
	r.returned = total
	return true
}
