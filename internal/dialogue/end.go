package dialogue

import (
	"context"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// Terminate ends the agent's program and everything it started, and waits for it. It is
// idempotent.
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
	info, left := d.infoLocked(), d.process != nil && d.process.left
	d.mu.Unlock()
	switch {
	case left: // the next daemon has it
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

// close is Terminate for the end of the daemon.
func (d *Dialogue) close(why string, force <-chan struct{}) { <-d.end(why, force) }

// end begins to end the process, and returns a channel that is closed when it is over.
func (d *Dialogue) end(why string, force <-chan struct{}) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.process
	if p == nil {
		return alreadyClosed
	}
	if p.left { // it is the next daemon's
		return p.done
	}
	if p.ending == "" {
		p.ending = why
		d.stopDenyTimerLocked()
		if d.tracker.Busy() || p.agentState == api.DialogueRunning {
			d.callLocked(p, agent.Call{Interrupt: &agent.Interrupt{All: true}})
		}
		p.input.put(message{}) // its input ends
		d.registry.tasks.Go(func() { d.escalate(p) })
	}
	d.registry.tasks.Go(func() { // a later call may be in a greater hurry
		select {
		case <-force:
			d.mu.Lock()
			if !p.rushed {
				p.rushed = true
				close(p.forced)
			}
			d.mu.Unlock()
		case <-p.done:
		}
	})
	return p.done
}

// escalate ends the process: the input has ended; then SIGTERM, SIGKILL, and the session.
func (d *Dialogue) escalate(p *agentProcess) {
	here := p.program.lostSince().IsZero() // otherwise nobody would hear of a signal
	if here && within(p.done, p.forced, d.registry.config.Grace) {
		return
	}
	d.mu.Lock()
	rushed := p.rushed
	d.mu.Unlock()
	if here && !rushed {
		ctx, cancel := context.WithTimeout(context.Background(), d.registry.config.Grace+killTimeout)
		stop := make(chan struct{})
		d.registry.tasks.Go(func() {
			select {
			case <-p.forced:
				cancel()
			case <-stop:
			}
		})
		err := p.program.cancel(ctx)
		close(stop)
		cancel()
		if err == nil && within(p.done, p.forced, killTimeout) {
			return
		}
	}
	d.kill(p.program, p)
	d.reap(p)
}

// within waits for done, at most for a time, and not when it is forced.
func within(done, forced <-chan struct{}, most time.Duration) bool {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-forced:
	case <-t.C:
	}
	return false
}

// leave ends our part in the process, which goes on.
func (d *Dialogue) leave() {
	d.mu.Lock()
	p := d.process
	if p != nil {
		p.left = true
		if p.stallTimer != nil {
			p.stallTimer.Stop()
		}
		d.stopDenyTimerLocked()
	}
	d.mu.Unlock()
	if p == nil {
		return
	}
	p.leave()
	<-p.done
	d.mu.Lock()
	d.record.end()
	d.mu.Unlock()
}

// killTimeout bounds how long a session may take to be killed.
const killTimeout = 10 * time.Second

// awayTimeout is the same for one that cannot be reached: it may come back just now.
const awayTimeout = 2 * time.Second

// kill ends the session of a program at once, or notes that it could not.
func (d *Dialogue) kill(prog program, p *agentProcess) {
	patience := killTimeout
	if !prog.lostSince().IsZero() {
		patience = awayTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if p != nil && prog.endCause() == "" { // otherwise somebody else has ended the session
		d.mu.Lock()
		p.killing = true
		d.mu.Unlock()
	}
	err := prog.kill(ctx)
	if err != nil {
		d.log.Error("session of the agent has not ended", "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p != nil {
		p.killed = err == nil
	}
	d.about.Orphan = d.about.Orphan || err != nil
}

// reap waits for the end of a process that was killed. One that cannot be reached is over
// although nothing is heard of its end.
func (d *Dialogue) reap(p *agentProcess) {
	d.mu.Lock()
	if p.ending == "" {
		p.ending = "killed"
	}
	d.mu.Unlock()
	select {
	case p.retry <- struct{}{}: // for awaitRetry
	default:
	}
	patience := killTimeout
	if !p.program.lostSince().IsZero() {
		patience = 0
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		p.leave()
		<-p.done
	}
}
