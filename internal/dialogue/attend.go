package dialogue

import (
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// attend answers the open requests that match a rule, and arms the timer that denies the
// others while no client follows the dialogue. mu is held; the caller writes the record.
func (d *Dialogue) attend(p *process) {
	if p == nil || p.replay != nil || p.ending != "" || d.state == api.DialogueError {
		return
	}
	policy := d.about.Params.Policy
	pending := d.tracker.Pending()
	for _, r := range pending {
		if rule := decide(policy, r); rule != nil {
			d.answer(p, r.RequestID, rule.Action, rule.Message)
		}
	}
	if d.follow > 0 || len(d.tracker.Pending()) == 0 || policy == nil || policy.DenyAfterS == nil {
		d.stopDenying()
		return
	}
	if d.denyAt == nil {
		d.denyIn(p, time.Duration(*policy.DenyAfterS*float64(time.Second)))
	}
}

// denyIn lets what waits be denied after a time. mu is held.
func (d *Dialogue) denyIn(p *process, after time.Duration) {
	var timer *time.Timer
	timer = time.AfterFunc(after, func() { d.deny(p, &timer) })
	d.denyAt = timer
}

// answer answers a request for the policy, when it still waits. mu is held.
func (d *Dialogue) answer(p *process, id, decision, message string) {
	// An answer makes events, which bring us here again for all that wait.
	if p.answering[id] || d.answerable(id) != nil {
		return
	}
	p.answering[id] = true
	defer delete(p.answering, id)
	answer := d.do(p, agent.Call{Respond: &agent.Response{
		DialogueRespondParams: api.DialogueRespondParams{DialogueID: d.id, RequestID: id, Decision: decision, Message: message}, By: "policy",
	}})
	select {
	case err := <-answer:
		if err != nil {
			d.log.Warn("policy cannot answer a request", "request_id", id, "decision", decision, "error", err)
		}
	default: // the agent has it
	}
}

// deny denies the requests that no client answered.
func (d *Dialogue) deny(p *process, timer **time.Timer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.denyAt != *timer || d.process != p {
		return
	}
	d.denyAt = nil
	for _, r := range d.tracker.Pending() {
		d.answer(p, r.RequestID, "deny", "nobody was there to answer")
	}
	d.flush()
	if len(d.tracker.Pending()) > 0 && d.denyAt == nil && d.state != api.DialogueError { // it could not be
		d.denyIn(p, denyAgain)
	}
}

// denyAgain is when a denial is tried again that could not be recorded.
const denyAgain = 10 * time.Second

// stopDenying forgets the time at which requests are denied. mu is held.
func (d *Dialogue) stopDenying() {
	if d.denyAt != nil {
		d.denyAt.Stop()
		d.denyAt = nil
	}
}

// followed counts those who follow the events, by 1 or -1.
func (d *Dialogue) followed(by int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.follow += by
	d.linger()
	if d.process != nil {
		d.attend(d.process)
		d.flush()
	}
}

// linger arms the timer that ends a dialogue with linger_s while no client follows it. mu is held.
func (d *Dialogue) linger() {
	if d.lingers != nil {
		d.lingers.Stop()
		d.lingers = nil
	}
	p, after := d.process, d.about.Params.LingerS
	if p == nil || after == nil || d.follow > 0 {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(time.Duration(*after*float64(time.Second)), func() {
		d.mu.Lock()
		over := d.lingers == timer && d.process == p && !p.left
		if over && d.tracker.Background() > 0 { // its end is waited for, and then as long again
			d.linger()
			over = false
		}
		d.mu.Unlock()
		if over {
			d.end("nobody followed it (linger_s)", nil)
		}
	})
	d.lingers = timer
}

// watchSilence arms the timer that reports a working but silent program as stalled. mu is held.
func (d *Dialogue) watchSilence(p *process) {
	patience := d.patience()
	if patience <= 0 || d.state != api.DialogueRunning || p.watch != nil || d.stalled != nil {
		return
	}
	p.watch = time.AfterFunc(patience, func() { d.lookAtSilence(p) })
}

// patience is how long the program may say nothing. mu is held.
func (d *Dialogue) patience() time.Duration {
	if s := d.about.Params.StallS; s != nil {
		return time.Duration(*s * float64(time.Second))
	}
	return d.host.config.Stall
}

// lookAtSilence tells when the program has said nothing for too long.
func (d *Dialogue) lookAtSilence(p *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process != p || p.left || d.state != api.DialogueRunning {
		p.watch = nil
		return
	}
	patience := d.patience()
	if !p.program.away().IsZero() { // what it says is not heard
		p.watch.Reset(patience)
		return
	}
	if left := patience - time.Since(p.heard); left > 0 {
		p.watch.Reset(left)
		return
	}
	p.watch = nil
	since := p.heard.UTC()
	d.stalled = &since
	d.tell(p, api.DialogueEvent{Type: api.DialogueEventNotice, Notice: &api.DialogueNotice{
		Level: "warning", Code: "stalled", Text: "the agent works and has said nothing for " + patience.String(),
	}})
}
