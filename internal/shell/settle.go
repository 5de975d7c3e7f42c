package shell

import (
	"slices"
	"strings"
	"time"

	"github.com/trl-dev/trl/internal/process"
)

// Holder is a process that a command has left running and that holds its output.
type Holder struct {
	PID     int
	Command string
}

const (
	// settleTime is how long output may take to end after the command's end when a process
	// that holds it is about to end: shells do not wait for the cmd of `> >(cmd)`.
	settleTime = 20 * time.Millisecond
	// startTime is how long a process that was started in the background may run before it
	// is taken to stay: most that end at once do so within it.
	startTime = time.Millisecond
	// busyTime bounds the wait for a process that only lacks a processor to become the
	// program that it is to be, or to end: on a busy machine that takes long.
	busyTime = time.Second
	// startCost is the processor time, in milliseconds, that a program may need to start:
	// two of the kernel's ticks. One that has used more computes.
	startCost = 20
	// settleEvery is how often the processes are looked at meanwhile.
	settleEvery = 200 * time.Microsecond
)

// settle reads what is left of the output and reports whether it is complete. When
// processes hold it that are there to stay, it does not wait for them.
func (r *run) settle() bool {
	out, err := r.streams[0], r.streams[1]
	// Without our own writing ends, an end of file says that nobody else holds one.
	r.closeOutputs()
	r.readAll()
	begun := time.Now()
	calm := begun // since then nothing lacked a processor
	var before []int
	for !(out.eof && err.eof) {
		met, left, limit := r.holders(process.FileIDOf(out.fd), process.FileIDOf(err.fd))
		now := time.Now()
		if limit == busyTime {
			calm = now
		}
		// One look is not taken at one moment: a process that it met sleeping may have been
		// woken by the end of one that it met later.
		same := slices.Equal(met, before)
		before = met
		switch {
		case now.Sub(begun) >= busyTime, same && now.Sub(calm) >= limit:
			r.readAll() // who has just ended may have written
			r.oc.LeftRunning = left
			return out.eof && err.eof
		case same:
			r.wait(now.Add(settleEvery), out, err)
		}
	}
	r.complain()
	return true
}

// readAll takes in what is there of both streams.
func (r *run) readAll() {
	for _, st := range r.streams {
		for st.read() {
		}
	}
}

// holders lists the processes of the command and those of them that hold its output, and
// says how long to wait for the output to end.
func (r *run) holders(files ...process.FileID) (met []int, list []Holder, limit time.Duration) {
	// A shell that has reported the status has still to close its ends of pipes.
	if sh, ok := process.Stat(r.proc.PID); ok && running(sh) {
		limit = busyTime
	}
	for _, p := range r.processes() {
		met = append(met, p.PID)
		pipes := process.PipesOf(p.PID, files...)
		command := process.CommandLine(p.PID)
		limit = max(limit, r.patience(p, pipes, command))
		if command == r.args && p.Name != r.name {
			command = p.Name // it runs without an exec, and has no arguments of its own
		}
		if pipes.Holds {
			list = append(list, Holder{PID: p.PID, Command: command})
		}
	}
	if len(list) == 0 && !process.PipesOf(r.proc.PID, files...).Holds {
		limit = max(limit, settleTime) // a process is just ending, or cannot be seen
	}
	return met, list, limit
}

// patience is how long to wait because of one process.
func (r *run) patience(p process.Info, pipes process.Pipes, command string) time.Duration {
	young := p.UserMS+p.SystemMS <= startCost
	// Between fork and exec it has the shell's name, within exec no arguments.
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

// running reports whether a process has something to do: it runs, waits for a processor, or
// for the disk.
func running(p process.Info) bool { return p.State != 'S' && p.State != 'T' }
