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
	// startTime is the processor time that a process which is running may use before it counts
	// as left running. Most that exit at once need less. Where the system does not report
	// processor times this small, it is a limit of the wait.
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
	settleEvery = 100 * time.Microsecond
	// equalLooks is how many looks in a row must find the same processes as the one before,
	// where the system does not report whether a process has run between two looks.
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
	look := &look{used: map[int]time.Duration{}}
	equal := 0
	for !(out.eof && err.eof) {
		before := look.met
		left, limit := r.holders(look, process.FileIDOf(out.fd), process.FileIDOf(err.fd))
		now := time.Now()
		if limit == busyTime {
			calm = now
		}
		// A look is not a snapshot: a process seen asleep may since have been woken by the
		// exit of one that was looked at later. Two looks between which no process has run
		// are one. Without that knowledge, several equal looks are needed, because two
		// processes that are about to wake each other can both look asleep.
		enough := equalLooks
		if look.exact {
			enough = 1
		}
		if slices.Equal(look.met, before) {
			equal++
		} else {
			equal = 0
		}
		switch {
		case now.Sub(begun) >= busyTime, equal >= enough && now.Sub(calm) >= limit:
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

// look is one look at the processes of a command, and what the looks before it have found.
type look struct {
	// met are the processes. Equal numbers of turns mean that the process has not run since.
	met []turn
	// exact means that the turns of all processes are known.
	exact bool
	// used is the processor time of each process when it was first met.
	used map[int]time.Duration
}

// turn is a process and how often it has begun to run. A process that counts as working has no
// number: it runs all the time and wakes no process that is about to end.
type turn struct {
	pid   int
	turns uint64
}

// add adds a process to the look. It reports whether the process has used more processor time
// than startTime since it was first met, and whether that is known.
func (l *look) add(pid int) (working, known bool) {
	turns, used, known := process.Turns(pid)
	if !known {
		l.exact = false
		l.met = append(l.met, turn{pid: pid})
		return false, false
	}
	first, met := l.used[pid]
	if !met {
		l.used[pid], first = used, used
	}
	if working = used-first > startTime; working {
		turns = 0
	}
	l.met = append(l.met, turn{pid, turns})
	return working, true
}

// holders looks at the processes of the command. It returns those that hold its output open, and
// how long to wait for the output to end.
func (r *run) holders(look *look, files ...process.FileID) (list []Holder, limit time.Duration) {
	// A shell that has reported the status may not have closed its ends of the pipes yet.
	if sh, ok := process.Stat(r.proc.PID); ok && running(sh) {
		limit = busyTime
	}
	look.met, look.exact = nil, true
	for _, p := range r.processes() {
		working, known := look.add(p.PID)
		pipes := process.PipesOf(p.PID, files...)
		command := process.CommandLine(p.PID)
		limit = max(limit, r.patience(p, pipes, command, working, known))
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
	return list, limit
}

// patience returns how long one process justifies waiting for the end of the output. working and
// known are the results of look.add.
func (r *run) patience(p process.Info, pipes process.Pipes, command string, working, known bool) time.Duration {
	young := p.UserMS+p.SystemMS <= startCost
	// Between fork and exec, the process has the shell's name. During exec and while it exits
	// it has no arguments, and CommandLine returns "[name]".
	changing := p.Name == r.name && pipes.Holds || strings.HasPrefix(command, "[")
	switch {
	case running(p) && young && (pipes.Unfinished || changing):
		return busyTime
	case p.State == 'R' && known && !working:
		// It may be about to exit without looking so: sed closes its input before it writes
		// the last line.
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
