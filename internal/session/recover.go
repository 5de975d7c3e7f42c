package session

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// recoverPatience is how long a daemon waits for the runners of an earlier one before it
// serves. Those that have not answered by then are shown as unreachable until they do.
const recoverPatience = time.Second

// Recover takes over the sessions that an earlier daemon left alive. It returns when all
// runners have answered, or soon: a session whose runner is slow is there all the same and
// is reached later. The runner of another version that cannot be understood is left alone.
// When end is true the sessions are all ended, and none is seen again. What happened while
// no daemon was there is told in the journal.
func (r *Registry) Recover(ctx context.Context, end bool) error {
	runners, err := r.runtime.Recover(ctx)
	if err != nil {
		return err
	}
	living := r.journal.living()
	alive := map[string]bool{}
	var list []*Session
	for _, runner := range runners {
		about := runner.About()
		alive[about.SessionID] = true
		told := api.SessionInfo{Name: about.Name}
		if i := slices.IndexFunc(living, func(l api.SessionInfo) bool { return l.SessionID == about.SessionID }); i >= 0 {
			if told = living[i]; about.Kind != "" { // the record of an earlier version has no name
				told.Name = about.Name
			}
		}
		list = append(list, r.recover(runner, about, told, end))
	}
	patience := time.NewTimer(recoverPatience)
	defer patience.Stop()
	for _, s := range list {
		select {
		case <-s.met:
			continue
		case <-patience.C:
			patience.Reset(0) // nor is there time for the others
		case <-ctx.Done():
		}
		s.mu.Lock()
		a := s.absence
		s.mu.Unlock()
		if a != nil && !end {
			s.registry.journal.session(s.Info()) // its beginning may not have been written
			s.tellAway(a)
		}
	}
	if a := r.config.Archive; a != nil && end {
		a.Clear()
	}
	kept := r.remember()
	r.recordings.look()
	r.nudge()
	now := time.Now()
	for _, gone := range living {
		if alive[gone.SessionID] {
			continue
		}
		if info, ok := kept[gone.SessionID]; ok { // nobody could tell of its end
			r.journal.session(info)
			continue
		}
		gone.State, gone.TerminatedAt, gone.Cause = api.SessionTerminated, &now, "its runner died while no daemon was there"
		r.journal.session(gone)
	}
	return nil
}

// recover takes one session over. Until its runner answers, it is what the record says,
// and in the state that was told last.
func (r *Registry) recover(runner Runner, about About, told api.SessionInfo, end bool) *Session {
	s := newSession(r, about.SessionID, told.Name)
	s.runner, s.met = runner, make(chan struct{})
	s.mu.Lock()
	s.details.Kind, s.details.Tags = about.Kind, about.Tags
	s.details.CreatedAt, s.details.LastActivity = about.CreatedAt, about.CreatedAt
	s.absence = &absence{since: time.Now(), why: "its runner has not answered this daemon yet", over: make(chan struct{})}
	if err := s.begin(told.State == api.SessionRunning || s.kind() != api.KindShell); err != nil {
		s.log.Error("session cannot start", "error", err)
	}
	s.mu.Unlock()
	if !end {
		r.readmit(s)
	}
	s.use(nil)
	if end { // nobody is to see it again
		s.destroy(false, "its daemon is gone")
	}
	return s
}

// meet brings a session into the state that its runner tells, when the runner of an
// earlier daemon is reached for the first time.
func (s *Session) meet() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known {
		return nil
	}
	over, shell := s.heard == api.SessionTerminated, s.kind() == api.KindShell
	if over && !s.registry.keeps() {
		return errNoUse
	}
	s.known = true
	if !shell && s.state == api.SessionIdle {
		if err := s.to(api.SessionRunning, ""); err != nil {
			return err
		}
	}
	if !over || !shell { // nothing happened to a shell that has ended
		s.tell()
	}
	return nil
}

// settle does what is due when the runner of an earlier daemon has been reached.
func (s *Session) settle() {
	s.registry.name(s)
	s.registry.forgetOldNames(s)
	s.mu.Lock()
	over := s.heard == api.SessionTerminated
	if over {
		// An earlier daemon was ending it, or it ended by itself. What is to be read of it is
		// still there.
		s.bid()
	}
	s.mu.Unlock()
	if over {
		return // met is closed with the end
	}
	info := s.Info()
	s.log.Info("session taken over from an earlier daemon", "name", info.Name, "state", info.State)
	if s.ephemeral() {
		s.awaitOwner(ownerPatience)
	}
	close(s.met)
}

// disown lets go of a session whose runner cannot be understood, unless it is to be ended.
func (s *Session) disown(why *strangerError) bool {
	s.mu.Lock()
	s.left = !s.known && s.ending == ""
	left := s.left
	s.mu.Unlock()
	if !left {
		return false
	}
	s.log.Warn("ignored a session of an earlier daemon: "+why.Error()+
		"; use a trl of that version to reach it, or end the process of its runner", "runner_pid", why.hello.PID)
	s.registry.unlist(s)
	return true
}

// tellExecs tells what happened to the commands while the runner could not be heard.
func (s *Session) tellExecs(ctx context.Context, w *wire) error {
	var r api.ExecListResult
	if _, err := w.conn.Call(ctx, link.CallExecList, struct{}{}, nil, &r); err != nil {
		return err
	}
	s.registry.journal.execList(s.id, r.Execs)
	return nil
}

// readmit registers a session of an earlier daemon. Limits do not apply: it is there.
func (r *Registry) readmit(s *Session) {
	r.mu.Lock()
	r.living[s.id] = s
	r.noteFree()
	r.mu.Unlock()
	r.name(s)
}

// name lets a session of an earlier daemon be found by its name.
func (r *Registry) name(s *Session) {
	name := s.Info().Name
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.names[name]; name != "" && !taken && r.living[s.id] == s {
		r.names[name] = s.id
	}
}

// forgetOldNames frees the name that a session had before it was given another. One that is
// being given another now takes care of its names itself.
func (r *Registry) forgetOldNames(s *Session) {
	if !s.setting.TryLock() {
		return
	}
	defer s.setting.Unlock()
	name := s.Info().Name
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.names, func(old, id string) bool { return id == s.id && old != name })
}

// unlist makes a session invisible that is not one.
func (r *Registry) unlist(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.living, s.id)
	maps.DeleteFunc(r.names, func(_, id string) bool { return id == s.id })
	r.noteFree()
}

func (s *Session) ephemeral() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.details.Ephemeral
}
