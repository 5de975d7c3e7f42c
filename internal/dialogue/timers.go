package dialogue

import (
	"time"

	"github.com/trl-dev/trl/api"
)

// countFollower adds 1 or -1 to the number of clients that follow the events.
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

// armLingerLocked arms the timer that ends a dialogue with linger_s while no client follows it.
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
		end := d.lingerTimer == timer && d.process == p && !p.ending.isLeft()
		if end && d.tracker.Background() > 0 { // wait as long again: background tasks still run
			d.armLingerLocked()
			end = false
		}
		d.mu.Unlock()
		if end {
			d.end("no client followed it (linger_s)", nil)
		}
	})
	d.lingerTimer = timer
}

// watchStallLocked arms the timer that reports a working but silent agent as stalled.
func (d *Dialogue) watchStallLocked(p *agentProcess) {
	patience := d.stallTimeLocked()
	if patience <= 0 || d.state != api.DialogueRunning || p.stallTimer != nil || d.stalledAt != nil {
		return
	}
	p.stallTimer = time.AfterFunc(patience, func() { d.checkStall(p) })
}

// stallTimeLocked is how long a working agent may be silent; 0 means without a limit.
func (d *Dialogue) stallTimeLocked() time.Duration {
	if s := d.about.Params.StallS; s != nil {
		return time.Duration(*s * float64(time.Second))
	}
	return d.registry.config.Stall
}

// checkStall publishes a notice if the agent has been silent for too long, and otherwise arms the
// timer again.
func (d *Dialogue) checkStall(p *agentProcess) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process != p || p.ending.isLeft() || d.state != api.DialogueRunning {
		p.stallTimer = nil
		return
	}
	patience := d.stallTimeLocked()
	if !p.program.lostSince().IsZero() { // its output cannot be received
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
		Level: "warning", Code: "stalled", Text: "the agent is working and has sent nothing for " + patience.String(),
	}})
}
