// Package process starts, watches, measures and ends processes.
//
// A Reaper is the only way to start children. It also reaps the orphans that this process adopts
// as a subreaper. Info identifies a process by its id and its start time, so that a reused
// process id is never mistaken for the original process. Ladder and KillTree end a whole tree of
// processes and report the killed ones. Cgroup kills a group with the help of the kernel, where a
// cgroup v2 tree is writable.
//
// The package is part of the runner, which is kept small: it uses system calls directly and
// imports neither fmt nor os/exec.
package process

import (
	"os"
	"syscall"
)

// Spec describes a process to start.
type Spec struct {
	// Path is the program file. It is not searched on PATH.
	Path string
	// Args are the arguments, beginning with the program's own name.
	Args []string
	// Env is the complete environment, as KEY=VALUE. The child inherits nothing else.
	Env []string
	// Dir is the working directory; empty means that of the caller.
	Dir string
	// NearDir begins in the nearest parent of Dir that exists, if Dir does not. It is for processes
	// that see another tree, as package confine starts them.
	NearDir bool
	// Files become the descriptors 0, 1, 2 and so on of the child, in blocking mode. No entry
	// may be nil; use /dev/null instead.
	Files []*os.File
	// Setsid makes the child the leader of a new session.
	Setsid bool
	// Setctty makes descriptor 0 the controlling terminal. It needs Setsid.
	Setctty bool
	// CgroupFD is the directory of the cgroup v2 in which the child starts, so that not even
	// its first instruction runs outside it; 0 or less means none. Linux only.
	CgroupFD int
	// Cloneflags are the namespaces in which the child starts, as clone(2) names them. In a user
	// namespace, the child has the ids of this process, and the capabilities AmbientCaps. Linux
	// only.
	Cloneflags  uintptr
	AmbientCaps []uintptr
	// Calls are system calls that the child makes before it becomes the program, after everything else
	// here but the path. They exclude Cloneflags. Linux only.
	Calls []Call
}

// Exit describes how a process ended. The usage includes that of all descendants that it waited
// for.
type Exit struct {
	Status      int            // exit status, if Signal is 0
	Signal      syscall.Signal // the signal that killed it; 0 if it exited
	Core        bool           // a core file was written
	UserMS      int64
	SystemMS    int64
	MaxRSSBytes int64 // of the largest single process
}

// Code returns the exit status as shells report it: 128+n after signal n.
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
	// PID is the process id. Another process may get the id once Done is closed.
	PID int

	reaper *Reaper
	done   chan struct{}
	exit   Exit // written before done is closed
	reaped bool // guarded by reaper.mu
}

// Done is closed when the process has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process ended. It is valid once Done is closed.
func (p *Process) Exit() Exit { return p.exit }

// Signal sends sig to the process, and never to another one with the same id: after the process
// was reaped, the error is os.ErrProcessDone. A signal to a zombie, which has ended but was not
// reaped yet, has no effect.
func (p *Process) Signal(sig syscall.Signal) error {
	p.reaper.mu.Lock()
	defer p.reaper.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	return syscall.Kill(p.PID, sig)
}
