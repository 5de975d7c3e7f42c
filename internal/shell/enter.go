package shell

import (
	"strings"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
)

// enter gives the shell the directory and the environment of the command, until leave.
func (r *run) enter() error {
	s := r.Shell
	enter := s.dialect.enter(r.req)
	if enter == "" {
		return nil
	}
	st, err := s.runScript(enter, time.Now().Add(bookkeepTime))
	if err != nil && s.dead() { // it was killed before the command began
		if err := r.revive(); err != nil {
			return err
		}
		st, err = s.runScript(enter, time.Now().Add(bookkeepTime))
	}
	if err == nil && st.code != 0 {
		err = r.refused()
		s.runScript(s.dialect.leave(r.req), time.Now().Add(bookkeepTime))
	}
	return err
}

// refused returns the error for a directory or an environment that the shell could not set.
func (r *run) refused() error {
	if r.cmd.WorkingDir != "" {
		return api.InvalidParam("working_dir", "the shell cannot go to %q", r.cmd.WorkingDir)
	}
	keys := make([]string, 0, len(r.req.env))
	for _, e := range r.req.env {
		keys = append(keys, e.key)
	}
	return api.InvalidParam("env", "the shell cannot set %s; is it readonly?", strings.Join(keys, ", "))
}

// leave restores the directory and environment that the shell had before the command. It reports
// whether there was anything to restore.
func (r *run) leave() bool {
	s := r.Shell
	leave := s.dialect.leave(r.req)
	if leave == "" || r.oc.Died != nil {
		return false
	}
	st, err := s.runScript(leave, time.Now().Add(bookkeepTime))
	if err == nil && st.code != 0 && r.dropReadonly() {
		_, err = s.runScript(leave, time.Now().Add(bookkeepTime))
		s.Checkpoint() // the state that dropReadonly restored has the command's environment
	}
	if r.oc.Died != nil {
		s.deferredLeave = leave
		return true
	}
	if err != nil && !s.dead() {
		s.proc.Signal(syscall.SIGKILL)
		<-s.proc.Done()
	}
	return true
}
