package session

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// maxSkipped bounds how many commands the journal remembers to have heard nothing of
// while it has heard of later ones.
const maxSkipped = 64

// known is the last state that the journal published for a live session. The journal compares
// the runner's reports with it, also after a restart of the daemon, and publishes only changes.
type known struct {
	Name  string           `json:"name,omitempty"`
	State api.SessionState `json:"state"`
	// Away says that it was told that the session cannot be reached.
	Away bool `json:"away,omitempty"`
	// Open has the commands that were told of and are not closed, by id.
	Open map[string]api.ExecState `json:"open,omitempty"`
	// Newest is the highest number of a command that was told of. Lower ones that are
	// neither open nor in Skipped have been told to their end.
	Newest  int64   `json:"newest"`
	Skipped []int64 `json:"skipped,omitempty"`
}

func (k *known) complete() {
	if k.Open == nil {
		k.Open = map[string]api.ExecState{}
	}
}

func (k *known) clone() *known {
	c := *k
	c.Open, c.Skipped = maps.Clone(k.Open), slices.Clone(k.Skipped)
	return &c
}

// stages are the states of an exec in their order.
var stages = []api.ExecState{api.ExecQueued, api.ExecRunning, api.ExecExited, api.ExecClosed}

// isNews reports whether it was not told yet that a command came into a state.
func (k *known) isNews(id string, state api.ExecState) bool {
	if before, open := k.Open[id]; open {
		return slices.Index(stages, state) > slices.Index(stages, before)
	}
	n := execNumber(id)
	return n > k.Newest || slices.Contains(k.Skipped, n)
}

// note remembers that it was told.
func (k *known) note(id string, state api.ExecState) {
	n := execNumber(id)
	for skipped := max(k.Newest+1, n-maxSkipped); skipped < n; skipped++ {
		k.Skipped = append(k.Skipped, skipped)
	}
	if over := len(k.Skipped) - maxSkipped; over > 0 {
		k.Skipped = slices.Delete(k.Skipped, 0, over)
	}
	if i := slices.Index(k.Skipped, n); i >= 0 {
		k.Skipped = slices.Delete(k.Skipped, i, i+1)
	}
	k.Newest = max(k.Newest, n)
	if state == api.ExecClosed {
		delete(k.Open, id)
	} else {
		k.Open[id] = state
	}
}

// open lists the commands that are not closed, oldest first.
func (k *known) open() []string {
	return slices.SortedFunc(maps.Keys(k.Open), func(a, b string) int { return cmp.Compare(execNumber(a), execNumber(b)) })
}

// execNumber is the number of a command in its session, the last part of its id.
func execNumber(id string) int64 {
	n, err := strconv.ParseInt(id[strings.LastIndexByte(id, '-')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

const (
	aboutSession = "session."
	aboutExec    = "exec."
)

// apply brings known to what an event says. mu is held.
func (j *Journal) apply(ev *api.StreamEvent) {
	k := j.known[ev.SessionID]
	if ev.Type == api.EventSessionTerminated {
		delete(j.known, ev.SessionID)
		return
	}
	if k == nil {
		k = &known{Name: ev.Name, State: api.SessionIdle}
		k.complete()
		j.known[ev.SessionID] = k
	}
	if state, ok := strings.CutPrefix(ev.Type, aboutExec); ok {
		k.note(ev.ExecID, api.ExecState(state))
		return
	}
	k.Name = ev.Name // it may have been given another
	switch ev.Type {
	case api.EventSessionUnreachable:
		k.Away = true
	case api.EventSessionReachable:
		k.Away = false
	}
	if state := api.SessionState(strings.TrimPrefix(ev.Type, aboutSession)); state == api.SessionIdle || state == api.SessionRunning {
		k.State = state
	}
}

// session tells what is news about a session, and with its beginning the commands it
// began with. One that was never told of is not told to have ended.
func (j *Journal) session(info api.SessionInfo, first ...api.ExecInfo) {
	j.lock()
	defer j.mu.Unlock()
	defer j.putOff()
	k := j.known[info.SessionID]
	tell := func(kind string, at time.Time, cause string) {
		at = at.UTC()
		j.publish(api.StreamEvent{Type: kind, At: &at, SessionID: info.SessionID, Name: info.Name, Cause: cause})
	}
	switch {
	case info.State == api.SessionTerminated:
		if k == nil {
			return
		}
		at := time.Now()
		if info.TerminatedAt != nil {
			at = *info.TerminatedAt
		}
		for _, id := range k.open() {
			j.exec(k, link.ExecEvent{ExecID: id, State: api.ExecClosed, At: at}, info.SessionID, info.Cause)
		}
		tell(api.EventSessionTerminated, at, info.Cause)
	case info.State == api.SessionCreating:
	case k == nil:
		tell(api.EventSessionCreated, info.CreatedAt, "")
		if info.State == api.SessionRunning {
			tell(api.EventSessionRunning, time.Now(), "")
		}
		for i := range first {
			for _, step := range steps(&first[i]) {
				j.exec(j.known[info.SessionID], step, info.SessionID, "")
			}
		}
	case k.State != info.State:
		tell(aboutSession+string(info.State), time.Now(), "")
	}
}

// reach tells whether a session can be reached, when that is news.
func (j *Journal) reach(info api.SessionInfo) {
	j.lock()
	defer j.mu.Unlock()
	k := j.known[info.SessionID]
	if k == nil || k.Away != info.Reachable || info.State == api.SessionTerminated {
		return
	}
	defer j.putOff()
	kind, at := api.EventSessionReachable, time.Now().UTC()
	if !info.Reachable {
		kind = api.EventSessionUnreachable
	}
	j.publish(api.StreamEvent{Type: kind, At: &at, SessionID: info.SessionID, Name: info.Name, Cause: info.UnreachableWhy})
}

// decode tells that a command came into a state, when that is news. mu is held.
func (j *Journal) decode(h heard) {
	e, err := link.DecodeExecEvent(h.event)
	if err != nil {
		j.log.Error("runner's event cannot be read", "session_id", h.session, "error", err)
		return
	}
	if k := j.known[h.session]; k != nil {
		j.exec(k, e, h.session, "")
	}
}

// exec publishes a step of a command. mu is held.
func (j *Journal) exec(k *known, e link.ExecEvent, session, cause string) {
	if !slices.Contains(stages, e.State) || !k.isNews(e.ExecID, e.State) {
		return
	}
	at := e.At.UTC()
	j.publish(api.StreamEvent{
		Type: aboutExec + string(e.State), At: &at, SessionID: session, Name: k.Name, ExecID: e.ExecID, Cause: cause,
		ExecOutcome: withoutCommands(e.Outcome),
	})
}

// execList tells what is news in a list of the commands of a session, oldest first. A
// command that should be in it and is not was forgotten by its runner: it is over.
func (j *Journal) execList(session string, list []api.ExecInfo) {
	j.lock()
	defer j.mu.Unlock()
	defer j.putOff()
	k := j.known[session]
	if k == nil {
		return
	}
	listed := map[string]bool{}
	newest := int64(0)
	for i := range list {
		listed[list[i].ExecID] = true
		newest = max(newest, execNumber(list[i].ExecID))
	}
	for _, id := range k.open() {
		if !listed[id] && execNumber(id) <= newest {
			j.exec(k, link.ExecEvent{ExecID: id, State: api.ExecClosed, At: time.Now()}, session, "")
		}
	}
	for i := range list {
		for _, step := range steps(&list[i]) {
			j.exec(k, step, session, "")
		}
	}
}

// steps is the life of a command until now. What never ran has no outcome but at its end.
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

// living lists the sessions that were not told to have ended.
func (j *Journal) living() []api.SessionInfo {
	j.lock()
	defer j.mu.Unlock()
	var list []api.SessionInfo
	for _, id := range slices.Sorted(maps.Keys(j.known)) {
		list = append(list, api.SessionInfo{SessionID: id, Name: j.known[id].Name, State: j.known[id].State})
	}
	return list
}

// withoutCommands is an outcome as the journal has it: neither a command nor a
// directory is in it.
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
