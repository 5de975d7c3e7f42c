package session

import (
	"encoding/json"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// event handles an event of the runner. Events with unknown names come from runners of a later
// version.
func (s *Session) event(c *runnerConn, name string, header json.RawMessage) {
	switch name {
	case link.EventSession:
		var info link.SessionInfo
		if err := json.Unmarshal(header, &info); err != nil {
			s.log.Error("runner's event cannot be read", "error", err)
			return
		}
		s.sessionEvent(info)
	case link.EventNetwork:
		var e link.NetworkEvent
		if err := json.Unmarshal(header, &e); err != nil {
			s.log.Error("runner's event cannot be read", "error", err)
			return
		}
		s.mu.Lock()
		info := s.details.SessionInfo
		s.mu.Unlock()
		info.SessionID = s.id
		s.registry.journal.PublishNetwork(info, e)
	case link.EventExec:
		if !c.isEarly(header) {
			s.publishExecEvent(header)
		}
		s.wakeExecWaiters(header)
	}
}

func (s *Session) publishExecEvent(event json.RawMessage) {
	s.registry.journal.ReceiveExecEvent(s.id, event)
}

func (s *Session) sessionEvent(info link.SessionInfo) {
	s.mu.Lock()
	s.reports++
	s.applyReportLocked(info.SessionInfo, info.Ages)
	idle := s.state == api.SessionIdle
	s.requestExportLocked()
	s.mu.Unlock()
	s.noteOutput(info.SessionInfo)
	if idle {
		at, _ := s.deadline()
		s.registry.wakeBefore(at)
	}
}

// noteOutput does what more output, or a longer recording, calls for. Only one of the registry's
// tasks may call it.
func (s *Session) noteOutput(info api.SessionInfo) {
	s.registry.enforceOutputLimit()
	s.registry.recordings.noteSize(info)
	s.fetchRecordingLater()
}

// applyReportLocked adopts the runner's view of the session. It ignores two states: Create
// decides when a new session is idle for the first time, and a session is terminated only when
// its runner has exited.
func (s *Session) applyReportLocked(info api.SessionInfo, ages link.Ages) {
	next := info.State
	if s.state == api.SessionTerminated || s.ending.report != nil && next != api.SessionTerminated {
		return // this answer is older than the report of the end, which overtook it
	}
	s.applyAgesLocked(info, ages)
	if next == api.SessionTerminated {
		s.ending.report = &endReport{cause: info.Cause, at: info.TerminatedAt}
	}
	// The registry knows the session by its id, place and name, so these do not change here.
	// Only after a restart may the runner know a newer name than the daemon's record.
	info.SessionID, info.Runtime, info.Place = s.id, s.details.Runtime, s.details.Place
	if s.details.Name != "" && (s.recovered == nil || s.described) {
		info.Name = s.details.Name
	}
	info.TerminatedAt, info.Cause = nil, ""
	s.registry.recordings.setPath(info)
	s.registry.liveOutput.Add(info.OutputBytes - s.details.OutputBytes)
	s.details.SessionInfo = info
	if next == s.state || next == api.SessionTerminated || s.state == api.SessionCreating {
		return
	}
	if err := s.toLocked(next, ""); err != nil {
		s.log.Error("runner's event is invalid", "error", err)
		return
	}
	s.publishLocked()
}

// applyAgesLocked adopts how old the session is and for how long it has been idle. A runner of
// an older version does not report ages: then they count from the first report.
func (s *Session) applyAgesLocked(info api.SessionInfo, ages link.Ages) {
	now := time.Now()
	ago := func(ms int64) time.Time { return now.Add(-time.Duration(ms) * time.Millisecond) }
	switch {
	case ages.AgeMS != nil:
		s.createdAt, s.timeouts = ago(*ages.AgeMS), ages.Timeouts
	case s.createdAt.IsZero():
		s.createdAt = now
	}
	switch {
	case ages.IdleMS != nil:
		s.idleSince = ago(*ages.IdleMS)
	case ages.AgeMS != nil:
		s.idleSince, s.lastBusy = time.Time{}, now
	case s.idleSince.IsZero() || !info.LastActivity.Equal(s.details.LastActivity):
		s.idleSince = now
	}
	if info.State == api.SessionTerminated && ages.IdleMS != nil {
		s.ending.at = s.idleSince
	}
}

// applyDetailsLocked applies the answer to a call that was sent when the runner had sent
// before reports. A report that came since is at least as new as the answer, because a runner
// reports a change before it answers.
func (s *Session) applyDetailsLocked(answer link.SessionDetails, before int) {
	if s.state == api.SessionTerminated {
		return
	}
	d, newer := answer.SessionDetails, s.reports != before
	info := d.SessionInfo
	d.SessionInfo = s.details.SessionInfo
	s.details = d
	if !newer {
		s.applyReportLocked(info, answer.Ages)
	}
	if answer.AgeMS == nil && len(d.Processes) > 0 { // an older runner
		s.idleSince, s.lastBusy = time.Time{}, time.Now()
	}
}
