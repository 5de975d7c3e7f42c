package shell

import (
	"slices"
	"strings"
	"time"

	"github.com/trl-dev/trl/internal/process"
)

// Holder is a process that a command has left running and that still holds its output open.
type Holder struct {
	PID     int
	Command string
}

const (
	// settleTime limits the wait for the end of the output while a process that holds it is
	// about to exit: shells do not wait for the cmd of `> >(cmd)`.
	settleTime = 20 * time.Millisecond
	// startTime limits the wait for a process that was started in the background. Most that
	// exit at once do so within it; one that runs longer counts as left running.
	startTime = time.Millisecond
	// busyTime limits the wait for a process that is ready to run but has no processor, and
	// would then call exec or exit. On a busy machine that takes long.
	busyTime = time.Second
	// startCost is the processor time, in milliseconds, that a program may need to start. A
	// process that has used more is already working. The kernel counts in ticks of 10 ms, and
	// a virtual machine also counts the time in which its host runs something else.
	startCost = 100
	// settleEvery is the time between two looks at the processes. The kernel cannot report
	// that another process is about to exit, so settle polls.
	settleEvery = 200 * time.Microsecond
	// equalLooks is how many looks in a row must find the same processes as the one before.
	equalLooks = 4
)

// settle reads the rest of the output and reports whether it is complete. It does not wait for
// processes that hold the output open and are going to stay.
func (r *run) settle() bool {
	out, err := r.streams[0], r.streams[1]
	// Once our own writing ends are closed, an end of file means that no process holds one.
	r.closeOutputs()
	r.readAll()
	begun := time.Now()
	calm := begun // the last time that a process was waiting for a processor
	var before []int
	equal := 0
	for !(out.eof && err.eof) {
		met, left, limit := r.holders(process.FileIDOf(out.fd), process.FileIDOf(err.fd))
		now := time.Now()
		if limit == busyTime {
			calm = now
		}
		// A look is not a snapshot: a process seen asleep may since have been woken by the
		// exit of one that was looked at later, and two processes that are about to wake
		// each other both look asleep. So several equal looks are needed.
		if slices.Equal(met, before) {
			equal++
		} else {
			equal = 0
		}
		before = met
		switch {
		case now.Sub(begun) >= busyTime, equal >= equalLooks && now.Sub(calm) >= limit:
			r.readAll() // a process that has just exited may have written
			r.oc.LeftRunning = left
			return out.eof && err.eof
		case equal > 0:
			r.wait(now.Add(settleEvery), out, err)
		}
	}
	r.appendShellErrors()
	return true
}

// holders returns the process ids of the command, those of its processes that hold its output
// open, and how long to wait for the output to end.
func (r *run) holders(files ...process.FileID) (met []int, list []Holder, limit time.Duration) {
	// A shell that has reported the status may not have closed its ends of the pipes yet.
	if sh, ok := process.Stat(r.proc.PID); ok && running(sh) {
		limit = busyTime
	}
	for _, p := range r.processes() {
		met = append(met, p.PID)
		pipes := process.PipesOf(p.PID, files...)
		command := process.CommandLine(p.PID)
		limit = max(limit, r.patience(p, pipes, command))
		if command == r.args && p.Name != r.name {
			command = p.Name // a fork without exec still has the command line of the shell
		}
		if pipes.Holds {
			list = append(list, Holder{PID: p.PID, Command: command})
		}
	}
	if len(list) == 0 && !process.PipesOf(r.proc.PID, files...).Holds {
		limit = max(limit, settleTime) // the holder is exiting, or is invisible to us
	}
	return met, list, limit
}

// patience returns how long one process justifies waiting for the end of the output.
func (r *run) patience(p process.Info, pipes process.Pipes, command string) time.Duration {
	young := p.UserMS+p.SystemMS <= startCost
	// Between fork and exec, the process has the shell's name; during exec, it has no
	// arguments, and CommandLine returns "[name]".
	changing := p.Name == r.name || strings.HasPrefix(command, "[")
	switch {
	case running(p) && young && (pipes.Unfinished || pipes.Holds && changing):
		return busyTime
	case pipes.Unfinished || pipes.Unseen:
		return settleTime
	case running(p) && pipes.Holds:
		return startTime
	}
	return 0
}

// running reports whether a process is running, or waits for a processor or the disk.
func running(p process.Info) bool { return p.State != 'S' && p.State != 'T' }
