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
		force = closed
	}
	done := d.end("terminated", force)
	select {
	case <-done:
	case <-ctx.Done():
		return d.Info(), ctx.Err()
	}
	d.mu.Lock()
	info, left := d.snapshot(), d.process != nil && d.process.left
	d.mu.Unlock()
	switch {
	case left: // the next daemon has it
		return info, api.ErrDaemonEnding
	case info.State == api.DialogueStarting:
		return info, api.Errorf(api.CodeConflict, "dialogue %q: is being started; try again", d.id)
	}
	if p.Forget {
		if err := d.host.forget(d); err != nil {
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
		return closed
	}
	if p.left { // it is the next daemon's
		return p.done
	}
	if p.ending == "" {
		p.ending = why
		d.stopDenying()
		if d.tracker.Busy() || p.base == api.DialogueRunning {
			d.do(p, agent.Call{Interrupt: &agent.Interrupt{All: true}})
		}
		p.out.put(message{}) // its input ends
		d.host.tasks.Go(func() { d.ladder(p) })
	}
	d.host.tasks.Go(func() { // a later call may be in a greater hurry
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

// ladder ends the process: the input has ended; then SIGTERM, SIGKILL, and the session.
func (d *Dialogue) ladder(p *process) {
	here := p.program.away().IsZero() // otherwise nobody would hear of a signal
	if here && within(p.done, p.forced, d.host.config.Grace) {
		return
	}
	d.mu.Lock()
	rushed := p.rushed
	d.mu.Unlock()
	if here && !rushed {
		ctx, cancel := context.WithTimeout(context.Background(), d.host.config.Grace+killTimeout)
		stop := make(chan struct{})
		d.host.tasks.Go(func() {
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
		if p.watch != nil {
			p.watch.Stop()
		}
		d.stopDenying()
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
func (d *Dialogue) kill(prog program, p *process) {
	patience := killTimeout
	if !prog.away().IsZero() {
		patience = awayTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if p != nil && prog.ended() == "" { // otherwise somebody else has ended the session
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
	d.about.Stray = d.about.Stray || err != nil
}

// reap waits for the end of a process that was killed. One that cannot be reached is over
// although nothing is heard of its end.
func (d *Dialogue) reap(p *process) {
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
	if !p.program.away().IsZero() {
		patience = 0
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		p.leave()
		<-p.done
	}
}
