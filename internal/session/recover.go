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

// Recover takes over the sessions that an earlier daemon left alive. It returns when all runners
// have answered, or after recoverPatience: a session whose runner is slow is registered all the
// same and is reached later. Recover ignores runners whose version this daemon does not
// understand. If end is true, it ends all sessions and registers none. It publishes in the
// journal what happened while no daemon ran.
func (r *Registry) Recover(ctx context.Context, end bool) error {
	published := r.journal.LiveSessions()
	alive := map[string]bool{}
	var list []*Session
	for _, rt := range r.config.Runtimes {
		runners, err := rt.Recover(ctx)
		if err != nil {
			return err
		}
		for _, runner := range runners {
			about := runner.About()
			alive[about.SessionID] = true
			if about.Guest != nil {
				r.adoptGuest(rt, runner, end)
				continue
			}
			last := api.SessionInfo{Name: about.Name}
			if i := slices.IndexFunc(published, func(p api.SessionInfo) bool { return p.SessionID == about.SessionID }); i >= 0 {
				if last = published[i]; about.Kind != "" { // the record of an earlier version has no name
					last.Name = about.Name
				}
			}
			list = append(list, r.recover(runner, homeOf(rt, runner), last, end))
		}
	}
	patience := time.NewTimer(recoverPatience)
	defer patience.Stop()
	for _, s := range list {
		select {
		case <-s.recovered:
			continue
		case <-patience.C:
			patience.Reset(0) // no time is left for the others either
		case <-ctx.Done():
		}
		s.mu.Lock()
		a := s.absence
		s.mu.Unlock()
		if a != nil && !end {
			s.registry.journal.PublishSession(s.Info()) // the earlier daemon may not have published its beginning
			s.publishUnreachable(a)
		}
	}
	if a := r.config.Archive; a != nil && end {
		a.Clear()
	}
	kept := r.loadArchived()
	r.recordings.requestSweep()
	r.wakeNow()
	now := time.Now()
	for _, gone := range published {
		if alive[gone.SessionID] {
			continue
		}
		if info, ok := kept[gone.SessionID]; ok { // no daemon ran when it ended
			r.journal.PublishSession(info)
			continue
		}
		gone.State, gone.TerminatedAt, gone.Cause = api.SessionTerminated, &now, "its runner died while no daemon was running"
		r.journal.PublishSession(gone)
	}
	return nil
}

// recover takes over one session. Until its runner answers, the session is described by its
// record, and has the name and state that the journal published last.
func (r *Registry) recover(runner Runner, h home, last api.SessionInfo, end bool) *Session {
	about := runner.About()
	s := newSession(r, about.SessionID, last.Name, h)
	s.runner, s.recovered = runner, make(chan struct{})
	s.mu.Lock()
	s.details.Kind, s.details.Tags, s.details.Place = about.Kind, about.Tags, placeOf(runner)
	s.details.CreatedAt, s.details.LastActivity = about.CreatedAt, about.CreatedAt
	s.absence = newAbsence(time.Now(), "its runner has not answered this daemon yet")
	if err := s.beginLocked(last.State == api.SessionRunning || s.kindLocked() != api.KindShell); err != nil {
		s.log.Error("session cannot start", "error", err)
	}
	s.mu.Unlock()
	if !end {
		r.register(s)
	}
	s.startWatching(nil)
	if end {
		s.destroy(false, "its daemon has ended")
	}
	return s
}

// applyFirstReport brings a session into the state that its runner reports, when the runner of an
// earlier daemon is reached for the first time.
func (s *Session) applyFirstReport() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.described {
		return nil
	}
	ended, shell := s.ending.report != nil, s.kindLocked() == api.KindShell
	if ended && !s.registry.keepsOutput() && !s.recordsInPlaceLocked() {
		return errNothingToKeep
	}
	s.described = true
	if s.kindLocked() == api.KindTerminal {
		s.viewers.left = time.Now() // those of the earlier daemon have lost it
	}
	if !shell && s.state == api.SessionIdle {
		if err := s.toLocked(api.SessionRunning, ""); err != nil {
			return err
		}
	}
	if !ended || !shell { // nothing happened to a shell that has ended
		s.publishLocked()
	}
	return nil
}

// finishRecovery completes the recovery of a session when its runner has been reached.
func (s *Session) finishRecovery() {
	s.registry.registerName(s)
	s.registry.forgetOldNames(s)
	s.noteSettings() // before recovered is closed: the first readers of the journal see the change
	s.mu.Lock()
	ended := s.ending.report != nil
	s.mu.Unlock()
	if ended { // an earlier daemon was ending it, or it ended by itself
		return // recovered is closed when the session has ended
	}
	info := s.Info()
	s.log.Info("session taken over from an earlier daemon", "name", info.Name, "state", info.State)
	if s.ephemeral() {
		s.awaitOwner(ownerPatience)
	}
	close(s.recovered)
}

// leaveStranger disconnects from a session whose runner this daemon does not understand. It
// reports false if the session is known or being ended.
func (s *Session) leaveStranger(why *strangerError) bool {
	s.mu.Lock()
	left := !s.described && s.endLocked(endLeft, "")
	s.mu.Unlock()
	if !left {
		return false
	}
	s.log.Warn("ignored a session of an earlier daemon: "+why.Error()+
		"; use a trl of that version to reach it, or end the process of its runner", "runner_pid", why.hello.PID)
	s.registry.mu.Lock()
	s.registry.strangers[s.id] = s.runner.Done()
	s.registry.mu.Unlock()
	s.registry.unregister(s)
	return true
}

// publishExecs publishes what happened to the commands while the runner could not be reached, and
// then the events that came before the answer.
func (s *Session) publishExecs(ctx context.Context, c *runnerConn) error {
	var r api.ExecListResult
	if _, err := c.conn.Call(ctx, link.ExecList.With(&struct{}{}, nil, &r)); err != nil {
		return err
	}
	s.registry.journal.PublishExecs(s.id, r.Execs)
	c.catchUp(s.publishExecEvent)
	return nil
}

// register registers a session of an earlier daemon, even beyond max_sessions: it already exists.
func (r *Registry) register(s *Session) {
	r.mu.Lock()
	r.living[s.id] = s
	r.noteFreeLocked()
	r.mu.Unlock()
	r.registerName(s)
}

// registerName makes a session of an earlier daemon available under its name.
func (r *Registry) registerName(s *Session) {
	name := s.Info().Name
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.names[name]; name != "" && !taken && r.living[s.id] == s {
		r.names[name] = s.id
	}
}

// forgetOldNames releases the name that a session had before it was renamed. If Set is renaming
// the session right now, or settle has yet to do it, that releases the name.
func (r *Registry) forgetOldNames(s *Session) {
	if !s.settingMu.TryLock() {
		return
	}
	defer s.settingMu.Unlock()
	if s.isUnsettled() {
		return
	}
	r.keepName(s.Info().Name, s.id)
}

// unregister forgets a session that turned out not to be one.
func (r *Registry) unregister(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.living, s.id)
	maps.DeleteFunc(r.names, func(_, id string) bool { return id == s.id })
	r.noteFreeLocked()
}

func (s *Session) ephemeral() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.details.Ephemeral
}
