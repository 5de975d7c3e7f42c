package shell

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/trl-dev/trl/api"
)

// restart replaces a dead shell by a new one with the given state. With nil, only the
// working directory is kept.
func (s *Shell) restart(st *State) error {
	s.disconnect()
	if st != nil && filepath.IsAbs(st.cwd) {
		s.cwd = st.cwd
	}
	if _, err := os.Stat(s.dir.path); err != nil {
		if err := s.makeDir(); err != nil {
			return err
		}
	}
	err := s.spawn(st)
	if err != nil && st != nil && !errors.Is(err, api.ErrResourcePressure) {
		// A state that the shell cannot restore must not cost the session.
		s.disconnect()
		err = s.spawn(nil)
	}
	switch {
	case err == nil:
		s.restarts++
		s.checkpoint, s.dirty = st, true
	case errors.Is(err, api.ErrResourcePressure):
		s.checkpoint, s.exitDump = st, nil // the next attempt restores it
	}
	return err
}

// Revive starts a new shell when the current one has ended between two commands.
func (s *Shell) Revive() error {
	if !s.dead() {
		return nil
	}
	s.wait(time.Now())
	err := s.restart(s.bestState(nil))
	if err == nil && s.deferredLeave != "" {
		s.runScript(s.deferredLeave, time.Now().Add(bookkeepTime))
		s.deferredLeave = ""
	}
	return err
}

// bestState returns the latest known state of a shell that has died: the one that it reported
// on its exit, else the last checkpoint. c is the command that was running, or nil; its own
// environment is left out.
func (s *Shell) bestState(c *Command) *State {
	st := s.exitDump
	if st == nil {
		return s.checkpoint
	}
	if c != nil && len(c.Env) > 0 && !s.dialect.scopesEnv() {
		keys := map[string]bool{}
		for k := range c.Env {
			keys[k] = true
		}
		before := s.checkpoint
		if before == nil { // the shell has never reported its state
			before = environState(s.cfg.Env)
		}
		return st.withDefinitions(keys, before)
	}
	return st
}

// dropReadonly replaces a shell in which the command has made variables of its own environment
// readonly, so that the script of leave cannot undo them. The new shell has the state that the old one
// could report, with these variables as they were before the command: ash loses its functions. It
// reports whether there is a new shell.
func (r *run) dropReadonly() bool {
	s := r.Shell
	if len(r.req.env) == 0 || !s.dialect.scopesEnv() {
		return false
	}
	s.dirty = true
	s.Checkpoint()
	if s.dirty || s.dead() {
		return false
	}
	fixed := map[string]bool{}
	for _, e := range r.req.env {
		if s.checkpoint.isReadonly(e.key) {
			fixed[e.key] = true
		}
	}
	if len(fixed) == 0 {
		return false
	}
	before := r.before
	if before == nil {
		before = environState(s.cfg.Env)
	}
	s.killUnusable()
	r.oc.Died = s.restart(s.checkpoint.withDefinitions(fixed, before))
	r.oc.Restarted = true
	return r.oc.Died == nil
}

// existing returns dir, or its nearest parent that exists.
func existing(dir string) string {
	for {
		if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "/"
		}
		dir = parent
	}
}
