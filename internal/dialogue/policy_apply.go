package dialogue

import (
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// applyPolicyLocked answers the open requests that a rule of the policy decides, and arms the timers
// that report and deny the others while no client follows the dialogue. The caller writes the record.
func (d *Dialogue) applyPolicyLocked(p *agentProcess) {
	if p == nil || p.replay != nil || p.ending.isRequested() || d.state == api.DialogueError {
		return
	}
	policy := d.about.Params.Policy
	tried := map[string]bool{} // each request once: an answer that cannot be recorded leaves it open
	for {
		id, rule := d.nextDecidedLocked(policy, tried)
		if rule == nil {
			break
		}
		tried[id] = true
		d.policyAnswerLocked(p, id, rule.Action, rule.Message)
	}
	d.armReportLocked()
	if d.followers > 0 || len(d.tracker.Pending()) == 0 || policy == nil || policy.DenyAfterS == nil {
		d.stopDenyTimerLocked()
		return
	}
	if d.denyTimer == nil {
		d.denyAfterLocked(p, time.Duration(*policy.DenyAfterS*float64(time.Second)))
	}
}

// nextDecidedLocked returns the first open request that a rule decides and that is not in tried.
// rule is nil when there is none.
func (d *Dialogue) nextDecidedLocked(policy *api.DialoguePolicy, tried map[string]bool) (id string, rule *api.DialogueRule) {
	if policy == nil {
		return "", nil
	}
	pending := d.tracker.Pending()
	if policy != d.undecidedBy || len(d.undecided) > 2*len(pending) {
		d.undecided, d.undecidedBy = map[string]bool{}, policy
	}
	for _, r := range pending {
		if tried[r.RequestID] || d.undecided[r.RequestID] {
			continue
		}
		if rule := decide(policy, r, d.about.Options.WorkingDir); rule != nil {
			return r.RequestID, rule
		}
		d.undecided[r.RequestID] = true
	}
	return "", nil
}

// policyAnswerLocked answers a request in the name of the policy, if the request is still open.
func (d *Dialogue) policyAnswerLocked(p *agentProcess, id, decision, message string) {
	if d.checkOpenLocked(id) != nil {
		return
	}
	answer, _ := d.submitLocked(p, agent.Call{Respond: &agent.Response{
		DialogueRespondParams: api.DialogueRespondParams{DialogueID: d.id, RequestID: id, Decision: decision, Message: message}, By: "policy",
	}})
	select {
	case err := <-answer:
		if err != nil {
			d.log.Warn("policy cannot answer a request", "request_id", id, "decision", decision, "error", err)
		}
	default: // the agent confirms it later
	}
}

// denyAfterLocked arms the timer that denies the open requests.
func (d *Dialogue) denyAfterLocked(p *agentProcess, after time.Duration) {
	var timer *time.Timer
	timer = time.AfterFunc(after, func() { d.denyPending(p, &timer) })
	d.denyTimer = timer
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
		d.policyAnswerLocked(p, r.RequestID, "deny", "no client answered in time")
	}
	if len(d.tracker.Pending()) > 0 && d.state != api.DialogueError { // a denial could not be recorded
		d.denyAfterLocked(p, denyAgain)
	}
}

// denyAgain is the time after which a denial that could not be recorded is tried again.
const denyAgain = 10 * time.Second

// stopDenyTimerLocked stops the timer that denies open requests.
func (d *Dialogue) stopDenyTimerLocked() {
	if d.denyTimer != nil {
		d.denyTimer.Stop()
		d.denyTimer = nil
	}
}
