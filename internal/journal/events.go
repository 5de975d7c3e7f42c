package journal

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

const (
	sessionPrefix = "session."
	execPrefix    = "exec."
)

// applyLocked updates the published state with an event.
func (j *Journal) applyLocked(ev *api.StreamEvent) {
	if ev.Type == api.EventSessionProgress {
		return // the session may never come to be
	}
	if ev.Network != nil {
		n := j.network[ev.SessionID]
		*decisions(&n, ev.Type) += ev.Network.Count
		j.network[ev.SessionID] = n
		return
	}
	if ev.DialogueID != "" {
		j.applyDialogueLocked(ev)
		return
	}
	p := j.sessions[ev.SessionID]
	if ev.Type == api.EventSessionTerminated {
		delete(j.sessions, ev.SessionID)
		delete(j.network, ev.SessionID)
		return
	}
	if p == nil {
		p = &published{Name: ev.Name, State: api.SessionIdle}
		p.complete()
		j.sessions[ev.SessionID] = p
	}
	if state, ok := strings.CutPrefix(ev.Type, execPrefix); ok {
		p.record(ev.ExecID, api.ExecState(state))
		return
	}
	p.Name = ev.Name // the session may have been renamed
	switch ev.Type {
	case api.EventSessionUnreachable:
		p.Away = true
	case api.EventSessionReachable:
		p.Away = false
	}
	if state := api.SessionState(strings.TrimPrefix(ev.Type, sessionPrefix)); state == api.SessionIdle || state == api.SessionRunning {
		p.State = state
	}
}

// PublishCreated publishes a new session with its settings, and the commands that it began with.
func (j *Journal) PublishCreated(info api.SessionInfo, settings string, first []api.ExecInfo) {
	if info.State == api.SessionTerminated {
		return // the session ended before its creation was published, so its end is not published either
	}
	j.lockDecoded()
	defer j.mu.Unlock()
	defer j.scheduleWrite()
	if j.sessions[info.SessionID] == nil {
		j.publishCreatedLocked(info)
	}
	p := j.sessions[info.SessionID]
	p.Settings = settings
	for i := range first {
		for _, step := range steps(&first[i]) {
			j.publishExecLocked(p, step, info.SessionID, "")
		}
	}
}

func (j *Journal) publishCreatedLocked(info api.SessionInfo) {
	created, now := info.CreatedAt.UTC(), time.Now().UTC()
	j.publishLocked(api.StreamEvent{Type: api.EventSessionCreated, At: &created, SessionID: info.SessionID, Name: info.Name})
	if info.State == api.SessionRunning {
		j.publishLocked(api.StreamEvent{Type: api.EventSessionRunning, At: &now, SessionID: info.SessionID, Name: info.Name})
	}
}

// PublishSession publishes the state of a session if it changed. The end of a session is published
// only if its creation was.
func (j *Journal) PublishSession(info api.SessionInfo) {
	j.lockDecoded()
	defer j.mu.Unlock()
	defer j.scheduleWrite()
	p := j.sessions[info.SessionID]
	publish := func(kind string, at time.Time, cause string) {
		at = at.UTC()
		j.publishLocked(api.StreamEvent{Type: kind, At: &at, SessionID: info.SessionID, Name: info.Name, Cause: cause})
	}
	switch {
	case info.State == api.SessionTerminated:
		if p == nil {
			delete(j.network, info.SessionID)
			return
		}
		at := time.Now()
		if info.TerminatedAt != nil {
			at = *info.TerminatedAt
		}
		for _, id := range p.openExecs() {
			j.publishExecLocked(p, link.ExecEvent{ExecID: id, State: api.ExecClosed, At: at}, info.SessionID, info.Cause)
		}
		publish(api.EventSessionTerminated, at, info.Cause)
	case info.State == api.SessionCreating:
	case p == nil:
		j.publishCreatedLocked(info)
	case p.State != info.State:
		publish(sessionPrefix+string(info.State), time.Now(), "")
	}
}

// PublishUpdate publishes that the settings of a live session have changed. settings identifies the
// new ones.
func (j *Journal) PublishUpdate(info api.SessionInfo, settings string) {
	j.lockDecoded()
	defer j.mu.Unlock()
	if p := j.sessions[info.SessionID]; p != nil {
		p.Settings = settings
		j.publishUpdateLocked(info)
	}
}

// PublishMissedUpdate is PublishUpdate if the settings are not those that were published last: the
// daemon that changed them was killed before it published that, or did not get the runner's answer.
func (j *Journal) PublishMissedUpdate(info api.SessionInfo, settings string) {
	j.lockDecoded()
	defer j.mu.Unlock()
	p := j.sessions[info.SessionID]
	if p == nil || p.Settings == settings {
		return
	}
	known := p.Settings != ""
	if p.Settings = settings; known || p.Name != info.Name {
		j.publishUpdateLocked(info)
	}
}

func (j *Journal) publishUpdateLocked(info api.SessionInfo) {
	defer j.scheduleWrite()
	at := time.Now().UTC()
	j.publishLocked(api.StreamEvent{Type: api.EventSessionUpdated, At: &at, SessionID: info.SessionID, Name: info.Name})
}

// PublishProgress publishes a slow step on the way to a session, whose creation is not published
// yet.
func (j *Journal) PublishProgress(info api.SessionInfo, createID string, p api.PlaceProgress) {
	j.lockDecoded()
	defer j.mu.Unlock()
	defer j.scheduleWrite()
	at := time.Now().UTC()
	j.publishLocked(api.StreamEvent{Type: api.EventSessionProgress, At: &at, SessionID: info.SessionID, Name: info.Name, CreateID: createID, Progress: &p})
}

// decisions returns the count of the decisions that the events of a type report.
func decisions(n *api.NetworkCounts, kind string) *int64 {
	if kind == api.EventNetworkAllowed {
		return &n.Allowed
	}
	return &n.Refused
}

// PublishNetwork publishes a decision of the session's proxy, if it is new, and before it how many
// decisions the runner has dropped. It may come before the creation of the session is published,
// because a program connects as soon as it runs.
func (j *Journal) PublishNetwork(info api.SessionInfo, e link.NetworkEvent) {
	j.lockDecoded()
	defer j.mu.Unlock()
	defer j.scheduleWrite()
	kind, at := api.EventNetworkRefused, e.At.UTC()
	if e.Allowed {
		kind = api.EventNetworkAllowed
	}
	publish := func(d api.NetworkDecision) {
		j.publishLocked(api.StreamEvent{Type: kind, At: &at, SessionID: info.SessionID, Name: info.Name, Network: &d})
	}
	if e.Total > 0 {
		n := j.network[info.SessionID]
		dropped := e.Total - e.Count - *decisions(&n, kind)
		switch {
		case dropped < 0:
			return // an earlier connection brought it
		case dropped > 0:
			publish(api.NetworkDecision{Reason: "decisions whose events were lost", Count: dropped})
		}
	}
	publish(e.NetworkDecision)
}

// PublishReachability publishes whether a session can be reached, if that changed.
func (j *Journal) PublishReachability(info api.SessionInfo) {
	j.lockDecoded()
	defer j.mu.Unlock()
	p := j.sessions[info.SessionID]
	if p == nil || p.Away != info.Reachable || info.State == api.SessionTerminated {
		return
	}
	defer j.scheduleWrite()
	kind, at := api.EventSessionReachable, time.Now().UTC()
	if !info.Reachable {
		kind = api.EventSessionUnreachable
	}
	j.publishLocked(api.StreamEvent{Type: kind, At: &at, SessionID: info.SessionID, Name: info.Name, Cause: info.UnreachableWhy})
}

// decodeLocked publishes a queued event of a command, if it is new.
func (j *Journal) decodeLocked(h execEvent) {
	e, err := link.DecodeExecEvent(h.event)
	if err != nil {
		j.log.Error("runner's event cannot be read", "session_id", h.session, "error", err)
		return
	}
	if p := j.sessions[h.session]; p != nil {
		j.publishExecLocked(p, e, h.session, "")
	}
}

// publishExecLocked publishes the state of a command, if it is new.
func (j *Journal) publishExecLocked(p *published, e link.ExecEvent, session, cause string) {
	if !slices.Contains(stages, e.State) || !p.isNew(e.ExecID, e.State) {
		return
	}
	at := e.At.UTC()
	j.publishLocked(api.StreamEvent{
		Type: execPrefix + string(e.State), At: &at, SessionID: session, Name: p.Name, ExecID: e.ExecID, Cause: cause,
		ExecOutcome: withoutCommands(e.Outcome),
	})
}

// PublishExecs publishes what is new in a list of the commands of a session, oldest first. The
// runner has forgotten an open command that is missing in the list, so it is published as closed.
func (j *Journal) PublishExecs(session string, list []api.ExecInfo) {
	j.lockDecoded()
	defer j.mu.Unlock()
	defer j.scheduleWrite()
	p := j.sessions[session]
	if p == nil {
		return
	}
	listed := map[string]bool{}
	newest := int64(0)
	for i := range list {
		listed[list[i].ExecID] = true
		newest = max(newest, execNumber(list[i].ExecID))
	}
	for _, id := range p.openExecs() {
		if !listed[id] && execNumber(id) <= newest {
			j.publishExecLocked(p, link.ExecEvent{ExecID: id, State: api.ExecClosed, At: time.Now()}, session, "")
		}
	}
	for i := range list {
		for _, step := range steps(&list[i]) {
			j.publishExecLocked(p, step, session, "")
		}
	}
}

// steps returns the states that a command went through. Of a command that never ran only the
// last one has an outcome.
func steps(x *api.ExecInfo) []link.ExecEvent {
	var list []link.ExecEvent
	step := func(state api.ExecState, at *time.Time, outcome *api.ExecOutcome) {
		e := link.ExecEvent{ExecID: x.ExecID, State: state, At: x.QueuedAt, Outcome: outcome}
		if at != nil {
			e.At = *at
		}
		list = append(list, e)
	}
	ended := x.State == api.ExecExited || x.State == api.ExecClosed
	switch {
	case x.StartedAt != nil:
		step(api.ExecRunning, x.StartedAt, nil)
		if ended {
			step(api.ExecExited, x.EndedAt, x.Outcome)
		}
		if x.State == api.ExecClosed {
			step(api.ExecClosed, x.EndedAt, nil)
		}
	case ended:
		step(api.ExecClosed, x.EndedAt, x.Outcome)
	default:
		step(api.ExecQueued, nil, nil)
	}
	return list
}

// LiveSessions lists the sessions whose end was not published: id, name and state.
func (j *Journal) LiveSessions() []api.SessionInfo {
	j.lockDecoded()
	defer j.mu.Unlock()
	var list []api.SessionInfo
	for _, id := range slices.Sorted(maps.Keys(j.sessions)) {
		list = append(list, api.SessionInfo{SessionID: id, Name: j.sessions[id].Name, State: j.sessions[id].State})
	}
	return list
}

// withoutCommands returns an outcome as the journal keeps it, without command lines and
// directories.
func withoutCommands(o *api.ExecOutcome) *api.ExecOutcome {
	if o == nil {
		return nil
	}
	c := *o
	c.WorkingDir = ""
	c.LeftRunning = make([]api.Process, len(o.LeftRunning))
	for i, p := range o.LeftRunning {
		c.LeftRunning[i].PID = p.PID
	}
	c.Killed = make([]api.KilledProcess, len(o.Killed))
	for i, p := range o.Killed {
		c.Killed[i].PID, c.Killed[i].Signal = p.PID, p.Signal
	}
	return &c
}
