package shell

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
)

// A command can leave the shell alive but unusable. A shell that may open no more files
// (ulimit -n) cannot redirect a command, or cannot even report a status; a shell that executes
// nothing (set -n) never reports. Such a shell is replaced.

const (
	// enoughFiles is the limit of open files below which a shell is tested before every
	// command. A shell needs 11 to 16, and one for each descriptor that the user keeps open.
	enoughFiles = 64
	// tryTime limits the time that a shell may take for the test.
	tryTime = 2 * time.Second
	// A shell that has not reported the status of its command is looked at after muteFirst,
	// then every muteEvery, and muteSoon after each ping.
	muteFirst = 200 * time.Millisecond
	muteEvery = time.Second
	muteSoon  = 50 * time.Millisecond
	// floodBytes between two looks at a stuck shell without children are the shell's own
	// complaints: ash repeats forever that it cannot undo a redirection.
	floodBytes = 8 << 10
)

// usable reports whether the shell can run a command. If the limit of open files leaves doubt,
// the shell has to run a test that needs as many files as any command: it dumps its state, as
// on an exit.
func (r *run) usable() bool {
	s := r.Shell
	if softFiles(s.proc.PID) >= enoughFiles {
		return true
	}
	trial := r.req
	trial.text, trial.env, trial.workingDir, trial.token, trial.lastStatus = s.dialect.source(s.dir.dumpFile()), nil, "", s.token(), 0
	if !s.dialect.terminal() {
		trial.text = "{ " + trial.text + "; } 2>/dev/null"
	}
	file, wrapper, control := s.dialect.command(s.dir, trial)
	if s.commandFile.put(file) != nil || s.wrapperFile.put(wrapper) != nil {
		return false
	}
	s.exitDump = nil
	s.send(control)
	_, err := s.await(trial.token, time.Now().Add(tryTime))
	s.readState()
	for _, st := range r.streams { // error messages of the test are not output of the command
		for n := 1; n > 0; {
			n, _ = unix.Read(st.fd, s.buf)
		}
	}
	if err != nil || s.exitDump == nil {
		return false
	}
	s.checkpoint, s.dirty, s.exitDump = s.exitDump, false, nil
	return true
}

// stuck reports whether the limit of open files excludes the descriptors 0 to 2, so that the shell
// can never undo a redirection of them.
func (s *Shell) stuck() bool { return softFiles(s.proc.PID) < 3 }

// restored reports whether the shell's own stdout and stderr are open on the sinks again. It
// waits up to busyTime, because a shell that has just reported a status may not have undone
// the redirection of that report yet.
func (s *Shell) restored() bool {
	for deadline := time.Now().Add(busyTime); stdioOf(s.proc.PID) != s.stdio; {
		if !time.Now().Before(deadline) {
			return false
		}
		s.wait(time.Now().Add(settleEvery))
	}
	return true
}

// muteCheck finds out whether the shell is idle although it has not reported the status of its
// command. The text that reports can be lost when an interrupt makes the shell drop its input,
// so the shell gets two pings before it counts as mute.
type muteCheck struct {
	asked  int            // pings sent since the shell was last seen busy
	last   process.Reader // the shell's state when the last ping was sent
	stderr int64          // bytes of stderr when the shell was last found stuck; 0 if it was not
}

// look reports whether the shell is mute, and if not, when to look again.
func (m *muteCheck) look(r *run) (found bool, again time.Duration) {
	s := r.Shell
	if s.stuck() && len(process.Children(s.proc.PID)) == 0 {
		before := m.stderr
		if m.stderr = max(r.cmd.Log.Bytes(output.Stderr), 1); before > 0 && m.stderr-before >= floodBytes {
			return true, 0
		}
		if before == 0 {
			return false, muteSoon
		}
	}
	if s.dialect.terminal() && softFiles(s.proc.PID) >= enoughFiles {
		return false, muteEvery // a command of fish may read the terminal itself
	}
	at, idle := process.BlockedReader(s.proc.PID, process.FileIDOf(s.control), s.dialect.terminal())
	if !idle || len(s.pending) > 0 {
		m.asked = 0
		return false, muteEvery
	}
	if m.asked > 0 && at == m.last {
		return false, muteSoon // the shell has not read the last ping yet
	}
	if s.readStatus(); len(s.statuses) > 0 {
		return false, muteEvery
	}
	m.last = at
	if m.asked++; m.asked > 2 {
		return true, 0
	}
	r.sendPing()
	return false, muteSoon
}

// killMute kills a shell that cannot report the end of the command, and enters it in the receipt.
func (r *run) killMute() {
	pid := r.proc.PID
	r.noteKilled([]process.Killed{{PID: pid, Command: process.CommandLine(pid), Signal: syscall.SIGKILL}})
	r.killUnusable()
}

// killUnusable kills an unusable shell, so that it is replaced like any dead one.
func (s *Shell) killUnusable() {
	s.proc.Signal(syscall.SIGKILL)
	<-s.proc.Done()
}
