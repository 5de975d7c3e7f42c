package dialogue

import (
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// applyPolicyLocked answers the open requests that match a rule, and arms the timer that denies the
// others while no client follows the dialogue. mu is held; the caller writes the record.
func (d *Dialogue) applyPolicyLocked(p *agentProcess) {
	if p == nil || p.replay != nil || p.ending != "" || d.state == api.DialogueError {
		return
	}
	policy := d.about.Params.Policy
	pending := d.tracker.Pending()
	for _, r := range pending {
		if rule := decide(policy, r); rule != nil {
			d.policyAnswerLocked(p, r.RequestID, rule.Action, rule.Message)
		}
	}
	if d.followers > 0 || len(d.tracker.Pending()) == 0 || policy == nil || policy.DenyAfterS == nil {
		d.stopDenyTimerLocked()
		return
	}
	if d.denyTimer == nil {
		d.denyAfterLocked(p, time.Duration(*policy.DenyAfterS*float64(time.Second)))
	}
}

// denyAfterLocked lets what waits be denied after a time. mu is held.
func (d *Dialogue) denyAfterLocked(p *agentProcess, after time.Duration) {
	var timer *time.Timer
	timer = time.AfterFunc(after, func() { d.denyPending(p, &timer) })
	d.denyTimer = timer
}

// policyAnswerLocked answers a request for the policy, when it still waits. mu is held.
func (d *Dialogue) policyAnswerLocked(p *agentProcess, id, decision, message string) {
	// An answer makes events, which bring us here again for all that wait.
	if p.answering[id] || d.checkOpenLocked(id) != nil {
		return
	}
	p.answering[id] = true
	defer delete(p.answering, id)
	answer := d.callLocked(p, agent.Call{Respond: &agent.Response{
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

// denyPending denies the requests that no client answered.
func (d *Dialogue) denyPending(p *agentProcess, timer **time.Timer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.denyTimer != *timer || d.process != p {
		return
	}
	d.denyTimer = nil
	for _, r := range d.tracker.Pending() {
		d.policyAnswerLocked(p, r.RequestID, "deny", "nobody was there to answer")
	}
	d.flushLocked()
	if len(d.tracker.Pending()) > 0 && d.denyTimer == nil && d.state != api.DialogueError { // it could not be
		d.denyAfterLocked(p, denyAgain)
	}
}

// denyAgain is when a denial is tried again that could not be recorded.
const denyAgain = 10 * time.Second

// stopDenyTimerLocked forgets the time at which requests are denied. mu is held.
func (d *Dialogue) stopDenyTimerLocked() {
	if d.denyTimer != nil {
		d.denyTimer.Stop()
		d.denyTimer = nil
	}
}

// countFollower counts those who follow the events, by 1 or -1.
func (d *Dialogue) countFollower(by int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.followers += by
	d.armLingerLocked()
	if d.process != nil {
		d.applyPolicyLocked(d.process)
		d.flushLocked()
	}
}

// armLingerLocked arms the timer that ends a dialogue with linger_s while no client follows it. mu is held.
func (d *Dialogue) armLingerLocked() {
	if d.lingerTimer != nil {
		d.lingerTimer.Stop()
		d.lingerTimer = nil
	}
	p, after := d.process, d.about.Params.LingerS
	if p == nil || after == nil || d.followers > 0 {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(time.Duration(*after*float64(time.Second)), func() {
		d.mu.Lock()
		over := d.lingerTimer == timer && d.process == p && !p.left
		if over && d.tracker.Background() > 0 { // its end is waited for, and then as long again
			d.armLingerLocked()
			over = false
		}
		d.mu.Unlock()
		if over {
			d.end("nobody followed it (linger_s)", nil)
		}
	})
	d.lingerTimer = timer
}

// watchStallLocked arms the timer that reports a working but silent program as stalled. mu is held.
func (d *Dialogue) watchStallLocked(p *agentProcess) {
	patience := d.stallTimeLocked()
	if patience <= 0 || d.state != api.DialogueRunning || p.stallTimer != nil || d.stalledAt != nil {
		return
	}
	p.stallTimer = time.AfterFunc(patience, func() { d.checkStall(p) })
}

// stallTimeLocked is how long the program may say nothing. mu is held.
func (d *Dialogue) stallTimeLocked() time.Duration {
	if s := d.about.Params.StallS; s != nil {
		return time.Duration(*s * float64(time.Second))
	}
	return d.registry.config.Stall
}

// checkStall tells when the program has said nothing for too long.
func (d *Dialogue) checkStall(p *agentProcess) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process != p || p.left || d.state != api.DialogueRunning {
		p.stallTimer = nil
		return
	}
	patience := d.stallTimeLocked()
	if !p.program.lostSince().IsZero() { // what it says is not heard
		p.stallTimer.Reset(patience)
		return
	}
	if left := patience - time.Since(p.lastOutput); left > 0 {
		p.stallTimer.Reset(left)
		return
	}
	p.stallTimer = nil
	since := p.lastOutput.UTC()
	d.stalledAt = &since
	d.publishOwnLocked(p, api.DialogueEvent{Type: api.DialogueEventNotice, Notice: &api.DialogueNotice{
		Level: "warning", Code: "stalled", Text: "the agent works and has said nothing for " + patience.String(),
	}})
}
