package dialogue

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// agentProcess is one process of the agent. A dialogue has at most one; dialogue.resume starts the
// next.
type agentProcess struct {
	program program
	ctx     context.Context // ends when the dialogue releases the process
	release context.CancelFunc
	done    chan struct{} // closed when the process has ended, or was left to the next daemon
	retry   chan struct{} // has a value when a failed connection or write must be tried again now
	input   outbox

	// The rest is guarded by the dialogue's mu.
	opening    opening
	ending     ending
	protocol   agent.Protocol
	lines      lines
	agentState api.DialogueState          // running or idle, as the protocol last reported
	waiting    map[string]chan *api.Error // calls without an answer, by id
	calls      int                        // how many calls were made
	stderr     []byte                     // the last bytes of its stderr
	stdinBytes int64                      // how many bytes were queued for its stdin
	lastOutput time.Time                  // when it last wrote to stdout, or was last called
	stallTimer *time.Timer                // reports a working process that is silent
	replay     *replay                    // set while the process is brought back to where it was
	lost       bool                       // it could not be reached when its session was destroyed
	retried    chan struct{}              // closed, and replaced, after each retry
	aliases    aliases
}

// newProcess returns the dialogue's part of a process, without starting its goroutines.
func (d *Dialogue) newProcess(prog program, protocol agent.Protocol) *agentProcess {
	p := &agentProcess{
		program: prog, protocol: protocol, done: make(chan struct{}), retry: make(chan struct{}, 1), retried: make(chan struct{}),
		opening: newOpening(), ending: newEnding(), waiting: map[string]chan *api.Error{},
		lines: lines{limit: d.registry.config.LineBytes}, lastOutput: time.Now(),
	}
	p.input.notify = make(chan struct{}, 1)
	p.ctx, p.release = context.WithCancel(context.Background())
	return p
}

// startGoroutines starts the goroutines of a process. They keep the daemon from ending as unused.
func (d *Dialogue) startGoroutines(p *agentProcess) {
	release, err := d.registry.config.Sessions.Hold()
	if err != nil {
		release = func() {} // the daemon is ending anyway
	}
	d.registry.tasks.Go(func() { d.writeInput(p) })
	d.registry.tasks.Go(func() {
		defer release()
		d.readOutput(p)
	})
}

// readOutput receives the agent's output until the process ends, or is left to the next daemon.
func (d *Dialogue) readOutput(p *agentProcess) {
	defer func() {
		p.release()
		p.input.close()
		close(p.done)
	}()
	for {
		got, err := p.program.recv(p.ctx)
		var lost *unreachable
		switch {
		case p.ctx.Err() != nil:
			if d.isGivenUp(p) {
				d.finish(p, nil)
			}
			return
		case errors.As(err, &lost):
			if !d.awaitRetry(p, lost) {
				return
			}
		case err != nil: // its runner has ended, and the exit status is lost
			d.finish(p, nil)
			return
		case got.exit != nil:
			d.finish(p, got.exit)
			return
		default:
			if err := d.receive(p, got); err != nil {
				d.awaitRoom(p, got, err)
			}
		}
	}
}

// Codes of a fault.
const (
	reconnectFailed = "reconnect_failed"
	recordFailed    = "record_failed"
)

// roomPause is the time between two attempts to write the record. The kernel does not report when a
// disk has room again, so the dialogue must try.
const roomPause = time.Second

// awaitRoom reports that the record cannot be written, and tries until it can. Meanwhile the
// agent's output waits in the session. Output that cannot be written is lost when the process is
// asked to end.
func (d *Dialogue) awaitRoom(p *agentProcess, got piece, why error) {
	for {
		if d.isGivenUp(p) {
			d.log.Error("output of the agent is lost", "error", why)
			return
		}
		d.mu.Lock()
		d.failLocked(p, api.DialogueFault{Code: recordFailed, Reason: "disk", Retry: true, Message: why.Error()})
		d.mu.Unlock()
		select {
		case <-time.After(roomPause):
		case <-p.retry:
		case <-p.ctx.Done():
			return
		}
		if why = d.receive(p, got); why == nil {
			d.mu.Lock()
			d.clearFaultLocked(p)
			d.mu.Unlock()
			return
		}
	}
}

// awaitRetry reports that the agent cannot be reached, and waits for a retry that reaches it, or for
// the end of its session, which needs none. It returns false when the process has ended, or was left
// to the next daemon.
func (d *Dialogue) awaitRetry(p *agentProcess, why *unreachable) bool {
	for {
		d.mu.Lock()
		d.failLocked(p, api.DialogueFault{Code: reconnectFailed, Reason: why.reason, Retry: why.retry, Message: why.cause.Error()})
		d.mu.Unlock()
		if !d.isGivenUp(p) {
			select {
			case <-p.retry:
			case <-p.program.over():
				if p.program.endCause() == "" {
					select { // the next daemon has the session, and soon the process
					case <-p.retry:
					case <-p.ctx.Done():
					}
				}
			case <-p.ctx.Done():
			}
		}
		if d.isGivenUp(p) {
			d.finish(p, nil)
			return false
		}
		if p.ctx.Err() != nil {
			return false
		}
		err := p.program.reopen(p.ctx)
		if err == nil {
			d.mu.Lock()
			d.clearFaultLocked(p)
			d.mu.Unlock()
			return true
		}
		if p.ctx.Err() != nil {
			return false
		}
		if !errors.As(err, &why) {
			why = &unreachable{reason: reasonRefused, cause: err}
		}
	}
}

func (d *Dialogue) isGivenUp(p *agentProcess) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return p.ending.isGivenUp()
}

// retryNow makes awaitRetry or awaitRoom try again at once.
func (p *agentProcess) retryNow() {
	select {
	case p.retry <- struct{}{}:
	default:
	}
}

// liveStateLocked is the state of a dialogue whose process lives and can be reached.
func (d *Dialogue) liveStateLocked(p *agentProcess) api.DialogueState {
	switch {
	case !p.opening.isSettled():
		return api.DialogueStarting
	case len(d.tracker.Pending()) > 0:
		return api.DialogueRequiresAction
	case p.agentState != "":
		return p.agentState
	}
	return api.DialogueIdle
}

// failLocked moves the dialogue to the state error, and publishes that if the record can be written.
func (d *Dialogue) failLocked(p *agentProcess, why api.DialogueFault) {
	p.opening.to(openFailed, why.Reason+": "+why.Message)
	if d.fault == nil || *d.fault != why {
		d.log.Warn("dialogue cannot continue", "code", why.Code, "reason", why.Reason, "error", why.Message)
	}
	d.moveLocked(api.DialogueError)
	d.fault = &why
	d.stopDenyTimerLocked()
	if why.Code == reconnectFailed {
		d.publishOwnLocked(p, api.DialogueEvent{Type: api.DialogueEventState, State: api.DialogueError})
	}
	d.announceStateLocked()
	p.notifyRetriedLocked()
}

// clearFaultLocked moves the dialogue from the state error to that of its process.
func (d *Dialogue) clearFaultLocked(p *agentProcess) {
	d.fault = nil
	if d.moveLocked(d.liveStateLocked(p)); d.published != d.state {
		d.publishOwnLocked(p, api.DialogueEvent{Type: api.DialogueEventState, State: d.state})
	}
	d.applyPolicyLocked(p)
	d.watchStallLocked(p)
	d.flushLocked()
	p.notifyRetriedLocked()
}

// notifyRetriedLocked wakes the callers of Dialogue.Retry.
func (p *agentProcess) notifyRetriedLocked() {
	close(p.retried)
	p.retried = make(chan struct{})
}

// finish records the end of a process: all open requests, items and tasks are lost. outcome is nil
// when its exit was not observed.
func (d *Dialogue) finish(p *agentProcess, outcome *api.ExecOutcome) {
	sessionCause := p.program.endCause()
	d.mu.Lock()
	defer d.mu.Unlock()
	end := d.endLocked(p, sessionCause, outcome)
	if p.stallTimer != nil {
		p.stallTimer.Stop()
	}
	d.stopDenyTimerLocked()
	if outcome == nil && p.lost {
		end.Text = strings.TrimPrefix(end.Text+"; its session could not be reached, and is ended when it can be", "; ")
	}
	if err := p.ending.to(endOver); err != nil {
		d.log.Error("illegal step of an ending", "error", err)
	}
	d.stalledAt = nil
	d.moveLocked(api.DialogueEnded)
	for _, ev := range d.tracker.Lost() {
		ev.NativeID = own
		d.publishLocked(p, ev)
	}
	d.publishOwnLocked(p, api.DialogueEvent{Type: api.DialogueEventEnded, Ended: end})
	p.opening.to(openExited, "")
	d.settleLocked()
	d.log.Info("dialogue ended", "cause", end.Cause)
	d.registry.sweepSoon()
}

// endLocked describes the end of a process. sessionCause is why its session ended, if it did.
func (d *Dialogue) endLocked(p *agentProcess, sessionCause string, outcome *api.ExecOutcome) *api.DialogueEnd {
	tail := p.lines.tail()
	end := &api.DialogueEnd{StderrTail: text(p.stderr), Tail: text(tail[:min(len(tail), unparsedText)])}
	if outcome != nil {
		end.ExitCode, end.Signal = &outcome.ExitCode, outcome.Signal
	}
	destroyedByUs := p.ending.step == endDestroying || p.ending.step == endDestroyed
	switch {
	case p.opening.step != openAnswered:
		end.Cause, end.Text = "start_failed", cmp.Or(p.opening.why, p.ending.why)
	case sessionCause == "destroyed" && !destroyedByUs: // also if the end was requested before the exit was received
		end.Cause, end.Text = "session_destroyed", "its session was destroyed"
	case p.ending.isRequested():
		end.Cause, end.Text = "closed", p.ending.why
	case outcome != nil && outcome.CancelCause != "": // the session ended first, for a limit
		end.Cause = "session_destroyed"
	case p.agentState == api.DialogueRunning || d.tracker.Busy():
		end.Cause = "unexpected_exit"
	default:
		end.Cause = "exited"
	}
	if end.Text == "" && sessionCause != "destroyed" {
		end.Text = sessionCause
	}
	return end
}

func text(b []byte) string {
	s, _ := api.Text(b)
	return s
}
