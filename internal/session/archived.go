package session

import (
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/archive"
)

// keepsOutput reports whether the output of a session that ends now stays readable.
func (r *Registry) keepsOutput() bool {
	return r.config.Archive != nil && r.config.Retention > 0 && !r.closed.Load()
}

// archived returns the archive entry of an ended session; nil if its output is not kept.
func (s *Session) archived() *archive.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != api.SessionTerminated || s.ending.entry == nil || !s.ending.entry.Kept() {
		return nil
	}
	return s.ending.entry
}

// takeArchivedLocked gives a session that ends the output that an earlier daemon archived. That
// daemon was killed after it had the output and before the runner exited, so this daemon took the
// session for a live one. If this daemon keeps no output, that output is removed.
func (s *Session) takeArchivedLocked() {
	if s.ending.entry != nil || s.registry.config.Archive == nil {
		return
	}
	e := s.registry.config.Archive.Entry(s.id)
	if e == nil {
		return
	}
	if !s.registry.keepsOutput() {
		e.Remove()
		return
	}
	result := e.Result()
	s.ending.entry, s.ending.at = e, time.Now().Add(-e.Age())
	if s.ending.result == nil {
		s.ending.result = &result
	}
	if s.ending.report == nil {
		s.ending.report = &endReport{cause: result.Info.Cause, at: result.Info.TerminatedAt}
	}
}

// withPresentAge returns the last report of a command, with the ages that it has by now.
func (s *Session) withPresentAge(info api.ExecInfo) api.ExecInfo {
	since := time.Since(s.endedSince()).Milliseconds()
	info.AgeMS += since
	if info.QuietMS != nil {
		quiet := *info.QuietMS + since
		info.QuietMS = &quiet
	}
	return info
}

// waitResult is the answer to session.wait once the session has ended.
func (s *Session) waitResult() api.SessionWaitResult {
	info := s.Info()
	return api.SessionWaitResult{Reason: api.WaitExit, ExitCode: info.ExitCode, Signal: info.Signal}
}

// loadArchived makes the sessions of the archive readable that ended before this daemon started,
// and returns them.
func (r *Registry) loadArchived() map[string]api.SessionInfo {
	list := map[string]api.SessionInfo{}
	if r.config.Archive == nil {
		return list
	}
	for _, e := range r.config.Archive.Entries() {
		r.mu.Lock()
		known := r.living[e.ID()] != nil || r.past[e.ID()] != nil
		r.mu.Unlock()
		if known {
			continue // this daemon has just archived it, or takeArchivedLocked will find it
		}
		s := newSession(r, e.ID(), "", home{})
		result := e.Result()
		s.mu.Lock()
		err := s.toLocked(api.SessionTerminated, "")
		s.endLocked(endRemoving, "")
		s.ending.result, s.ending.killed, s.ending.entry = &result, result.Killed, e
		s.ending.at = time.Now().Add(-e.Age())
		s.details = result.Info
		r.recordings.setPath(s.details.SessionInfo)
		s.details.ShellPID, s.details.RunnerPID = 0, 0 // other processes may have these ids by now
		s.mu.Unlock()
		if err != nil || s.Info().TerminatedAt == nil || r.config.Retention <= 0 {
			e.Remove()
			continue
		}
		close(s.done)
		r.mu.Lock()
		r.past[s.id] = s
		r.mu.Unlock()
		list[s.id] = s.Info()
	}
	r.wakeNow()
	return list
}
