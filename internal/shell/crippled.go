package shell

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// A command can leave a shell behind that lives and cannot be used: one that may open no
// more files (ulimit -n) cannot redirect a command, or cannot even report its status; one
// that executes nothing (set -n) never reports. Such a shell is replaced.

const (
	// enoughFiles is a limit below which a shell is tried out before every command. What
	// it needs is 11 to 16, and one for each descriptor that the user keeps open.
	enoughFiles = 64
	// tryTime is how long a shell may take for a command that does nothing.
	tryTime = 2 * time.Second
	// A shell that owes a status is looked at after muteFirst and then every muteEvery, or
	// soon after it was asked again.
	muteFirst = 200 * time.Millisecond
	muteEvery = time.Second
	muteSoon  = 50 * time.Millisecond
)

// usable reports whether the shell can run a command. Where there is reason to doubt, it
// is given one that needs as many files as any: it reports the shell's state, as at an exit.
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
	for _, st := range r.streams { // complaints of the shell are no output of the command
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

// mute finds out whether a shell has returned to its input without reporting the status
// that it owes. A report can be lost with the input that an interrupt made the shell
// drop, so it is asked again twice.
type mute struct {
	asked int
	last  process.Reader
}

// look reports whether the shell can report nothing, and else when to look again.
func (m *mute) look(r *run) (found bool, again time.Duration) {
	s := r.Shell
	if s.dialect.terminal() && softFiles(s.proc.PID) >= enoughFiles {
		return false, muteEvery // a command of fish may read the terminal itself
	}
	at, idle := process.BlockedReader(s.proc.PID, process.FileIDOf(s.control), s.dialect.terminal())
	if !idle || len(s.pending) > 0 {
		m.asked = 0
		return false, muteEvery
	}
	if m.asked > 0 && at == m.last {
		return false, muteSoon // it has not read the question yet
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

// endMute ends a shell that cannot be used, so that it is replaced as a dead one.
func (s *Shell) endMute() {
	s.proc.Signal(syscall.SIGKILL)
	<-s.proc.Done()
}
