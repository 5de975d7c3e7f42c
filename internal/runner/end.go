package runner

import (
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
)

// ending is the one destruction of a session; whoever asks again waits for it.
type ending struct {
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
	e := &ending{force: make(chan struct{}, 1), done: make(chan struct{})}
	r.ending = e
	if r.cause == "" {
		r.cause = p.Cause
	}
	queue, current, grace := r.queue, r.current, seconds(r.params.Limits.KillGraceS)
	r.queue = nil
	r.mu.Unlock()

	for _, q := range queue {
		r.giveUpQueued(q)
	}
	first := syscall.SIGTERM
	if p.Force {
		first, grace = syscall.SIGKILL, 0
	}
	if current != nil {
		r.abandon(current, first)
		<-current.ended
	}
	e.result = r.endProcesses(p, grace, e.force)
	close(e.done)
	if exit {
		r.leave()
	}
	return e.result
}

// forceCurrent hurries a command that is being given up with grace.
func (r *Runner) forceCurrent() {
	r.mu.Lock()
	current := r.current
	r.mu.Unlock()
	if current != nil {
		current.cancel(syscall.SIGKILL, r.shell.Wake)
	}
}

func (r *Runner) endProcesses(p link.DestroyParams, grace time.Duration, force <-chan struct{}) link.DestroyResult {
	res := link.DestroyResult{Killed: []api.KilledProcess{}, Execs: []api.ExecInfo{}}
	if !r.isCreated() {
		killAll(0, force) // the shell that is being waited for
	}
	r.lockShell() // for good
	if r.shell != nil {
		shellPID := r.shell.PID()
		if !p.Force {
			r.shell.HangUp()
		}
		for _, k := range killAll(grace, force) {
			if k.PID != shellPID {
				res.Killed = append(res.Killed, api.KilledProcess{PID: k.PID, Command: k.Command, Signal: process.SignalName(k.Signal)})
			}
		}
		if r.cgroup != nil {
			_ = r.cgroup.Kill() // whoever left our tree in spite of all
		}
		r.shell.Close()
		r.drainer.Close()
		awaitReaped()
	}
	if r.cgroup != nil {
		_ = r.cgroup.Remove()
		r.cgroup.Close()
	}
	r.mu.Lock()
	_ = r.to(api.SessionTerminated, r.cause)
	r.mu.Unlock()
	res.Execs = r.list()
	res.Info = r.Details()
	r.tell(true)
	return res
}

func (r *Runner) isCreated() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.created
}

// farewellTimeout is how long the runner of a session that ended by itself waits for
// the daemon to ask what is to be kept of it.
const farewellTimeout = 5 * time.Second

// leave is the end of a runner that nobody asked to end.
func (r *Runner) leave() {
	r.tell(false)
	r.mu.Lock()
	told := r.conn != nil && r.created
	if told {
		r.loneTimer = time.AfterFunc(farewellTimeout, r.exit)
	}
	r.mu.Unlock()
	if !told {
		r.exit()
	}
}

// exit ends the process. The directory goes last: as long as there is something to
// fetch, a daemon can find the way.
func (r *Runner) exit() {
	os.RemoveAll(r.cfg.Dir)
	r.cfg.Exit(0)
}

// killAll ends everything below this process.
func killAll(grace time.Duration, force <-chan struct{}) []process.Killed {
	l := process.NewLadder(os.Getpid(), syscall.SIGTERM, grace, nil)
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

func (r *Runner) terminatedError() error {
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
	}
	r.unlockShell()
	if !busy {
		time.AfterFunc(quietMemory, func() {
			r.mu.Lock()
			idle := r.current == nil && time.Since(r.activity) >= quietMemory
			r.mu.Unlock()
			if idle {
				debug.FreeOSMemory()
			}
		})
	}
}
