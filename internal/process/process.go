// Package process starts, watches, measures and ends processes.
//
// A Reaper is the one way to start children: it also collects the orphans that
// the system reparents to a child subreaper. Info identifies a process by its id and
// its start time, so that a reused process id is never mistaken for the original
// process. Ladder and KillTree end a whole tree of processes and report the killed
// ones. Cgroup does the same with the help of the kernel, where there is a writable
// cgroup v2 tree.
//
// The package is part of the runner, which is kept small: it uses the system
// calls directly and imports neither fmt nor os/exec.
package process

import (
	"os"
	"syscall"
)

// Spec says what to start.
type Spec struct {
	// Path is the program file. It is not searched on PATH.
	Path string
	// Args are the arguments with the program's own name first.
	Args []string
	// Env is the whole environment, as KEY=VALUE. Empty means none at all.
	Env []string
	// Dir is the working directory; empty means that of the caller.
	Dir string
	// Files become the descriptors 0, 1, 2 and so on of the child, in blocking
	// mode. No entry may be nil: a stream that is not wanted is /dev/null.
	Files []*os.File
	// Setsid makes the child the leader of a new session.
	Setsid bool
	// Setctty makes descriptor 0 the controlling terminal. It needs Setsid.
	Setctty bool
	// CgroupFD is the directory of a cgroup v2 to start in, so that not even the
	// first instruction runs outside of it; 0 or less means none. Linux only.
	CgroupFD int
}

// Exit tells how a process ended and what it used, with all the descendants it
// waited for.
type Exit struct {
	Status      int            // exit status, when Signal is 0
	Signal      syscall.Signal // signal it died of; 0 when it exited
	Core        bool           // a core file was written
	UserMS      int64
	SystemMS    int64
	MaxRSSBytes int64 // of the largest single process among them
}

// Code is the exit status as a shell tells it: 128+n after signal n.
func (e Exit) Code() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Status
}

func exitOf(ws syscall.WaitStatus, ru *syscall.Rusage) Exit {
	e := Exit{
		UserMS:      milliseconds(ru.Utime),
		SystemMS:    milliseconds(ru.Stime),
		MaxRSSBytes: int64(ru.Maxrss) * maxRSSUnit,
	}
	if ws.Signaled() {
		e.Signal, e.Core = ws.Signal(), ws.CoreDump()
	} else {
		e.Status = ws.ExitStatus()
	}
	return e
}

func milliseconds(t syscall.Timeval) int64 {
	return int64(t.Sec)*1000 + int64(t.Usec)/1000
}

// Process is a child that a Reaper started. Its methods may be called from any
// goroutine.
type Process struct {
	// PID is the process id. It may belong to someone else once Done is closed.
	PID int

	reaper *Reaper
	done   chan struct{}
	exit   Exit // written before done is closed
	reaped bool // guarded by reaper.mu
}

// Done is closed when the process has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit tells how the process ended. It is valid once Done is closed.
func (p *Process) Exit() Exit { return p.exit }

// Signal sends sig to the process, and to no other: a process that was reaped
// already answers os.ErrProcessDone. Between its death and its reaping the signal
// goes to the zombie, where it does nothing.
func (p *Process) Signal(sig syscall.Signal) error {
	p.reaper.mu.Lock()
	defer p.reaper.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	return syscall.Kill(p.PID, sig)
}
