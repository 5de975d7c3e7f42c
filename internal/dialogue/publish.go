package dialogue

import (
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// takeLocked does what the protocol asks for after a line or a call. The caller writes the record.
func (d *Dialogue) takeLocked(p *agentProcess, s agent.Step, at *int64) {
	if d.applyStepLocked(p, s, at) {
		// Last: the answer to a request is a call of its own, behind all events of the line.
		d.applyPolicyLocked(p)
	}
}

// applyStepLocked publishes the events of a step, queues its lines for the agent and answers the
// calls that it completes. It reports whether requests were opened or closed. at is the offset of
// the line that led to the step; nil for a call.
func (d *Dialogue) applyStepLocked(p *agentProcess, s agent.Step, at *int64) (requests bool) {
	for _, ev := range s.Events {
		requests = requests || isRequestEvent(ev)
		if ev.Type == api.DialogueEventState {
			p.agentState = ev.State
			d.publishLocked(p, stateAsOfNow(at))
			continue
		}
		ev.Offset = at
		d.publishLocked(p, flat(p.aliases.renamed(ev)))
	}
	for _, text := range s.Write {
		d.sendLocked(p, text)
	}
	for _, a := range s.Answers {
		if c := p.waiting[a.ID]; c != nil {
			c <- a.Err
			delete(p.waiting, a.ID)
		}
	}
	if s.Failed != "" {
		p.opening.to(openFailed, s.Failed)
	}
	if s.Ready && p.opening.to(openAnswered, "") {
		if p.agentState == "" {
			p.agentState = api.DialogueIdle
		}
		d.publishLocked(p, stateAsOfNow(at))
	}
	return requests
}

func isRequestEvent(ev api.DialogueEvent) bool {
	return ev.Type == api.DialogueEventRequestOpened || ev.Type == api.DialogueEventRequestClosed
}

// stateAsOfNow is an event for publishLocked that stands for the dialogue's state when its turn
// comes: a state event without a state.
func stateAsOfNow(at *int64) api.DialogueEvent {
	return api.DialogueEvent{Type: api.DialogueEventState, Offset: at}
}

// publishLocked puts an event into the record, and then the events that follow from it, depth
// first. p is nil when there is no process any more.
func (d *Dialogue) publishLocked(p *agentProcess, ev api.DialogueEvent) {
	for queue := []api.DialogueEvent{ev}; len(queue) > 0; {
		ev, queue = queue[0], queue[1:]
		if ev.Type == api.DialogueEventState && ev.State == "" {
			if ev.State = d.enterStateLocked(p); ev.State == "" {
				continue
			}
		}
		queue = append(d.recordEventLocked(p, ev), queue...)
	}
}

// enterStateLocked moves the dialogue to the state that its process is in, and returns that state
// if it must be published. A dialogue in state error stays there until its fault is resolved.
func (d *Dialogue) enterStateLocked(p *agentProcess) (news api.DialogueState) {
	if p == nil || !p.opening.isSettled() || d.state == api.DialogueError || d.state == api.DialogueEnded {
		return ""
	}
	state := d.liveStateLocked(p)
	d.moveLocked(state)
	if state == d.published {
		return ""
	}
	return state
}

// recordEventLocked adds one event to the record and applies it. It returns the events that follow
// from it.
func (d *Dialogue) recordEventLocked(p *agentProcess, ev api.DialogueEvent) (follow []api.DialogueEvent) {
	ev.Epoch = d.about.Epoch
	if p != nil {
		made := ev
		for _, recorded := range p.replay.next(&ev) {
			d.applyLocked(recorded)
		}
		switch {
		case ev.Seq > 0:
			p.aliases.learn(made, ev)
		case ev.Seq < 0:
			p.aliases.adopt(made, d.tracker.IsOpen)
		}
	}
	if ev.Seq == 0 { // it is new
		ev.Seq, ev.At = d.seq+1, time.Now().UTC()
		if err := d.record.add(ev); err != nil {
			d.log.Error("event cannot be kept", "error", err)
			return nil
		}
	}
	if ev.Seq < 0 { // the record differs, and the record is right
		return nil
	}
	d.applyLocked(ev)
	for _, next := range d.tracker.Follow() {
		next.Offset = ev.Offset
		follow = append(follow, next)
	}
	if isRequestEvent(ev) { // an open request changes the state to requires_action
		follow = append(follow, stateAsOfNow(ev.Offset))
	}
	return follow
}

// applyLocked updates the dialogue with an event that is in the record.
func (d *Dialogue) applyLocked(ev api.DialogueEvent) {
	d.seq = ev.Seq
	d.tracker.Apply(ev)
	switch ev.Type {
	case api.DialogueEventState:
		d.published = ev.State
	case api.DialogueEventMessage:
		if _, known := d.messages[ev.Message.MessageID]; !known {
			d.messages[ev.Message.MessageID] = ev.Seq
		}
	}
	d.collectLocked(ev)
}

// own is the native id of events that the dialogue makes itself. Replaying the agent's output and
// the calls does not make them again.
const own = "trl"

// publishOwnLocked publishes an event that the dialogue makes itself, and writes the record.
func (d *Dialogue) publishOwnLocked(p *agentProcess, ev api.DialogueEvent) {
	ev.NativeID = own
	d.publishLocked(p, ev)
	d.flushLocked()
}

// flushLocked writes the record. If that fails, it is tried again later.
func (d *Dialogue) flushLocked() {
	err := d.writeLocked(d.state == api.DialogueEnded)
	if err == nil {
		return
	}
	d.log.Error("events cannot be written", "error", err)
	if d.flushTimer == nil && d.process != nil {
		d.flushTimer = time.AfterFunc(roomPause, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.flushTimer = nil; d.process != nil {
				d.flushLocked()
			}
		})
	}
}

// writeLocked writes the record, and then announces its news to subscribers. over says that the last
// event is the end of a process.
func (d *Dialogue) writeLocked(over bool) error {
	err := d.record.write(d.seq, over)
	if err == nil || over {
		d.announceLocked()
	}
	return err
}
