package dialogue

import (
	"context"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// Terminate ends the agent's process and everything that it started, and waits until it has ended.
// It is idempotent.
func (d *Dialogue) Terminate(ctx context.Context, p api.DialogueTerminateParams) (api.DialogueInfo, error) {
	var force <-chan struct{}
	if p.Force {
		force = alreadyClosed
	}
	done := d.end("terminated", force)
	select {
	case <-done:
	case <-ctx.Done():
		return d.Info(), ctx.Err()
	}
	d.mu.Lock()
	info, left := d.infoLocked(), d.process != nil && d.process.ending.isLeft()
	d.mu.Unlock()
	switch {
	case left: // the next daemon takes it over
		return info, api.ErrDaemonEnding
	case info.State == api.DialogueStarting:
		return info, api.Errorf(api.CodeConflict, "dialogue %q: is being started; try again", d.id)
	}
	if p.Forget {
		if err := d.registry.forget(d); err != nil {
			return info, api.AsError(err)
		}
	}
	return info, nil
}

// close ends the process and waits until it has ended. The process is killed when force is closed.
func (d *Dialogue) close(why string, force <-chan struct{}) { <-d.end(why, force) }

// end begins to end the process, and returns a channel that is closed when it has ended. The
// process gets no more time to end on its own when force is closed.
func (d *Dialogue) end(why string, force <-chan struct{}) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.process
	if p == nil {
		return alreadyClosed
	}
	if p.ending.isLeft() { // it is the next daemon's
		return p.done
	}
	if !p.ending.isRequested() {
		p.ending.because(why)
		p.ending.tryTo(endAsked)
		d.stopDenyTimerLocked()
		if d.tracker.Busy() || p.agentState == api.DialogueRunning {
			d.callLocked(p, agent.Call{Interrupt: &agent.Interrupt{All: true}})
		}
		p.input.put(message{}) // ends the input
		d.registry.tasks.Go(func() { d.escalate(p) })
	}
	d.registry.tasks.Go(func() { // for each request: a later one may force the end
		select {
		case <-force:
			d.mu.Lock()
			p.ending.tryTo(endForced)
			d.mu.Unlock()
		case <-p.done:
		}
	})
	return p.done
}

// escalate ends a process whose input has ended: after the grace time it sends SIGTERM, then
// SIGKILL, and at last it destroys the session.
func (d *Dialogue) escalate(p *agentProcess) {
	reachable := p.program.lostSince().IsZero() // otherwise a signal would not arrive
	if reachable && within(p.done, p.ending.hurried, d.registry.config.Grace) {
		return
	}
	d.mu.Lock()
	hurried := p.ending.isHurried()
	d.mu.Unlock()
	if reachable && !hurried {
		ctx, cancel := context.WithTimeout(context.Background(), d.registry.config.Grace+killTimeout)
		stop := make(chan struct{})
		d.registry.tasks.Go(func() {
			select {
			case <-p.ending.hurried:
				cancel()
			case <-stop:
			}
		})
		err := p.program.cancel(ctx)
		close(stop)
		cancel()
		if err == nil && within(p.done, p.ending.hurried, killTimeout) {
			return
		}
	}
	d.kill(p.program, p)
	d.reap(p)
}

// within reports whether done is closed within the given time, and before hurried is.
func within(done, hurried <-chan struct{}, most time.Duration) bool {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-hurried:
	case <-t.C:
	}
	return false
}

// leave releases the process, which goes on for the next daemon.
func (d *Dialogue) leave() {
	d.mu.Lock()
	p := d.process
	if p != nil {
		p.ending.tryTo(endLeft)
		if p.stallTimer != nil {
			p.stallTimer.Stop()
		}
		d.stopDenyTimerLocked()
	}
	d.mu.Unlock()
	if p == nil {
		return
	}
	p.release()
	<-p.done
	d.mu.Lock()
	d.record.end()
	d.mu.Unlock()
}

// killTimeout bounds the time to destroy a session.
const killTimeout = 10 * time.Second

// kill destroys the session of a program. What cannot be done because the place of the session cannot
// be reached is done later, also by a later daemon. p is nil when the dialogue has no process for the
// program yet.
func (d *Dialogue) kill(prog program, p *agentProcess) {
	lost := !prog.lostSince().IsZero()
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if p != nil && prog.endCause() == "" { // otherwise the session was ended by something else
		d.mu.Lock()
		p.ending.tryTo(endDestroying)
		p.lost = lost
		d.mu.Unlock()
	}
	err := prog.kill(ctx)
	if err != nil {
		d.log.Error("session of the agent has not ended", "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p == nil || err != nil {
		return
	}
	if p.ending.step == endDestroying {
		p.ending.tryTo(endDestroyed)
	} else {
		p.ending.tryTo(endVanished)
	}
}

// reap waits for the end of a process that was killed. If the process cannot be reached, reap
// does not wait for its exit.
func (d *Dialogue) reap(p *agentProcess) {
	d.mu.Lock()
	p.ending.because("killed")
	d.mu.Unlock()
	p.retryNow() // wakes awaitRetry, which then finishes the process
	patience := killTimeout
	if !p.program.lostSince().IsZero() {
		patience = 0
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		p.release()
		<-p.done
	}
}
