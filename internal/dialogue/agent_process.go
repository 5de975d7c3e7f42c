package dialogue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// newProcess makes the dialogue's part of a process; nothing runs yet.
func (d *Dialogue) newProcess(prog program, protocol agent.Protocol) *agentProcess {
	p := &agentProcess{
		program: prog, protocol: protocol, done: make(chan struct{}), ready: make(chan struct{}), forced: make(chan struct{}),
		waiting: map[string]chan *api.Error{}, answering: map[string]bool{}, lines: lines{limit: d.registry.config.LineBytes}, retry: make(chan struct{}, 1), retried: make(chan struct{}), lastOutput: time.Now(),
	}
	p.input.notify = make(chan struct{}, 1)
	p.ctx, p.leave = context.WithCancel(context.Background())
	return p
}

// startGoroutines starts the goroutines of a process. The daemon is needed as long as they run.
func (d *Dialogue) startGoroutines(p *agentProcess) {
	release, err := d.registry.config.Sessions.Hold()
	if err != nil {
		release = func() {} // it ends anyway
	}
	d.registry.tasks.Go(func() { d.writeInput(p) })
	d.registry.tasks.Go(func() {
		defer release()
		d.readOutput(p)
	})
}

func callID(n int) string { return "c" + strconv.Itoa(n) }

// readOutput takes what the program writes until it ends, or is left.
func (d *Dialogue) readOutput(p *agentProcess) {
	defer func() {
		p.leave()
		p.input.close()
		p.program.close()
		close(p.done)
	}()
	for {
		got, err := p.program.recv(p.ctx)
		var away *unreachable
		switch {
		case p.ctx.Err() != nil:
			if d.isGivenUp(p) {
				d.finish(p, nil)
			}
			return
		case errors.As(err, &away):
			if !d.awaitRetry(p, away) {
				return
			}
		case err != nil: // its runner is gone, and with it how it ended
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

// roomPause is how often it is tried whether the record can be written again.
const roomPause = time.Second

// awaitRoom tells that the record cannot be written, and tries until it can. Meanwhile what
// the program writes waits in its session. When the program is to end, what cannot be
// written is lost.
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

// awaitRetry tells that the program cannot be reached, and waits until it is, or is given
// up. It reports whether to go on.
func (d *Dialogue) awaitRetry(p *agentProcess, why *unreachable) bool {
	for {
		d.mu.Lock()
		d.failLocked(p, api.DialogueFault{Code: reconnectFailed, Reason: why.reason, Retry: why.retry, Message: why.cause.Error()})
		d.mu.Unlock()
		if !d.isGivenUp(p) {
			select {
			case <-p.retry:
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
			why = &unreachable{reason: "refused", cause: err}
		}
	}
}

// isGivenUp reports whether the process is given up: it is to end, or known to have ended, and
// not to be left.
func (d *Dialogue) isGivenUp(p *agentProcess) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return (p.ending != "" || p.gone) && !p.left
}

// liveStateLocked is the state of a dialogue whose program is reached again. mu is held.
func (d *Dialogue) liveStateLocked(p *agentProcess) api.DialogueState {
	switch {
	case !p.isReady:
		return api.DialogueStarting
	case len(d.tracker.Pending()) > 0:
		return api.DialogueRequiresAction
	case p.agentState != "":
		return p.agentState
	}
	return api.DialogueIdle
}

// failLocked tells that the dialogue cannot go on for now. mu is held.
func (d *Dialogue) failLocked(p *agentProcess, why api.DialogueFault) {
	if !p.isReady {
		p.failed = why.Reason + ": " + why.Message
		p.isReady = true
		close(p.ready)
	}
	if d.fault == nil || *d.fault != why {
		d.log.Warn("dialogue cannot go on", "code", why.Code, "reason", why.Reason, "error", why.Message)
	}
	d.toLocked(api.DialogueError)
	d.fault = &why
	d.stopDenyTimerLocked()
	if why.Code == reconnectFailed { // the other could be read only when it is over
		d.publishOwnLocked(p, api.DialogueEvent{Type: api.DialogueEventState, State: api.DialogueError})
	}
	d.notifyRetriedLocked(p)
}

// clearFaultLocked tells that it goes on. mu is held.
func (d *Dialogue) clearFaultLocked(p *agentProcess) {
	d.fault = nil
	if d.toLocked(d.liveStateLocked(p)); d.published != d.state {
		d.publishOwnLocked(p, api.DialogueEvent{Type: api.DialogueEventState, State: d.state})
	}
	d.applyPolicyLocked(p)
	d.watchStallLocked(p)
	d.flushLocked()
	d.notifyRetriedLocked(p)
}

func (d *Dialogue) notifyRetriedLocked(p *agentProcess) {
	close(p.retried)
	p.retried = make(chan struct{})
}

// finish is the end of a process: what is open is lost, and that is all.
func (d *Dialogue) finish(p *agentProcess, outcome *api.ExecOutcome) {
	ended := p.program.endCause()
	d.mu.Lock()
	defer d.mu.Unlock()
	end := &api.DialogueEnd{StderrTail: text(p.stderr), Tail: text(p.lines.tail()[:min(len(p.lines.tail()), unparsedText)])}
	if outcome != nil {
		end.ExitCode, end.Signal = &outcome.ExitCode, outcome.Signal
	}
	busy := p.agentState == api.DialogueRunning || d.tracker.Busy()
	switch {
	case !p.isReady || p.failed != "":
		end.Cause, end.Text = "start_failed", cmp.Or(p.failed, p.ending)
	case ended == "destroyed" && !p.killing: // whether or not the dialogue was asked to end before it heard of that
		end.Cause, end.Text = "session_destroyed", "its session was destroyed"
	case p.ending != "":
		end.Cause, end.Text = "closed", p.ending
	case busy:
		end.Cause = "unexpected_exit"
	default:
		end.Cause = "exited"
	}
	if end.Text == "" && ended != "" && ended != "destroyed" {
		end.Text = ended
	}
	if p.stallTimer != nil {
		p.stallTimer.Stop()
	}
	d.stopDenyTimerLocked()
	if outcome == nil && d.about.Params.Remote != nil && !p.gone && !p.killed {
		d.about.Orphan = true // nobody has heard of its end
		end.Text = strings.TrimPrefix(end.Text+"; its session could not be reached, and is ended when it can be", "; ")
	}
	d.stalledAt = nil
	d.toLocked(api.DialogueEnded)
	for _, ev := range d.tracker.Lost() {
		ev.NativeID = own
		d.publishLocked(p, ev)
	}
	d.publishOwnLocked(p, api.DialogueEvent{Type: api.DialogueEventEnded, Ended: end})
	if !p.isReady {
		p.isReady = true
		close(p.ready)
	}
	d.settleLocked()
	d.log.Info("dialogue ended", "cause", end.Cause)
	d.registry.sweepSoon()
	d.chaseOrphansLocked()
}

func text(b []byte) string {
	s, _ := api.Text(b)
	return s
}

// outbox is what is to be written to a program, in order.
type outbox struct {
	notify chan struct{} // has a value when there is something new

	mu     sync.Mutex
	queue  []message // guarded by mu; the first may be of before the daemon's start
	bytes  int64     // guarded by mu; of the queue
	closed bool      // guarded by mu; nothing is taken any more
}

// message is one write, and where it is in all that is written; without data it ends the
// input.
type message struct {
	at   int64
	data []byte
}

// id names the write, so that it is done once. A part of it is another one.
func (m message) id() string { return fmt.Sprintf("stdin-%d+%d", m.at, len(m.data)) }

func (o *outbox) put(m message) {
	o.mu.Lock()
	if !o.closed {
		o.queue = append(o.queue, m)
		o.bytes += int64(len(m.data))
	}
	o.mu.Unlock()
	select {
	case o.notify <- struct{}{}:
	default:
	}
}

func (o *outbox) take() (m message, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return m, false
	}
	m = o.queue[0]
	o.queue[0] = message{}
	o.queue = o.queue[1:]
	o.bytes -= int64(len(m.data))
	return m, true
}

// waiting is how many bytes wait.
func (o *outbox) waiting() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// dropOldest drops from the front what leaves more than most bytes.
func (o *outbox) dropOldest(most int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) > 0 && o.bytes > most {
		o.bytes -= int64(len(o.queue[0].data))
		o.queue = o.queue[1:]
	}
}

// dropWritten drops what is before an offset: the program has been given it.
func (o *outbox) dropWritten(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) > 0 && o.queue[0].data != nil {
		m := &o.queue[0]
		n := min(max(offset-m.at, 0), int64(len(m.data)))
		o.bytes -= n
		if m.data, m.at = m.data[n:], m.at+n; len(m.data) > 0 {
			return
		}
		o.queue = o.queue[1:]
	}
}

func (o *outbox) close() {
	o.mu.Lock()
	o.closed, o.queue, o.bytes = true, nil, 0
	o.mu.Unlock()
}

// writeBytes is how much is written at once.
const writeBytes = 1 << 20

// sendLocked queues a line for the program. mu is held.
func (d *Dialogue) sendLocked(p *agentProcess, text []byte) {
	if p.replay.resend(p, text) {
		return
	}
	if err := appendTo(d.record.stdin, text); err != nil {
		d.log.Error("input cannot be recorded", "error", err)
	}
	p.queueInput(text)
}

// queueInput queues text, in pieces that are named after where they are in stdin.
func (p *agentProcess) queueInput(text []byte) {
	for len(text) > 0 {
		n := min(len(text), writeBytes)
		p.input.put(message{at: p.stdinBytes, data: text[:n]})
		p.stdinBytes += int64(n)
		text = text[n:]
	}
}

// writeInput writes the queued input. A program that does not read delays no other program.
func (d *Dialogue) writeInput(p *agentProcess) {
	if p.again {
		d.skipWritten(p)
	}
	for {
		m, ok := p.input.take()
		if !ok {
			select {
			case <-p.input.notify:
				continue
			case <-p.ctx.Done():
				return
			}
		}
		if err := d.writeOne(p, m); err != nil && p.ctx.Err() == nil {
			d.log.Debug("program does not accept input", "error", err)
		}
	}
}

// skipWritten leaves what the earlier daemon has brought to the program.
func (d *Dialogue) skipWritten(p *agentProcess) {
	var bytes int64
	err := p.untilAccepted(func() (err error) {
		bytes, err = p.program.stdinBytes(p.ctx)
		return err
	})
	if err == nil {
		p.input.dropWritten(bytes)
	}
}

// writeOne writes one message, however long the program does not read, and however long
// it cannot be reached.
func (d *Dialogue) writeOne(p *agentProcess, m message) error {
	if m.data == nil {
		return p.untilAccepted(func() error { return p.program.closeInput(p.ctx) })
	}
	err := p.untilAccepted(func() error { return p.program.write(p.ctx, m.id(), m.data) })
	if e := api.AsError(err); err != nil && e.Code == api.CodeRequestTooLarge && len(m.data) > 1 { // its session takes less at once
		half := len(m.data) / 2
		if err = d.writeOne(p, message{m.at, m.data[:half]}); err == nil {
			err = d.writeOne(p, message{m.at + int64(half), m.data[half:]})
		}
	}
	return err
}

// untilAccepted does something with the program until it is done, or refused for good.
func (p *agentProcess) untilAccepted(do func() error) error {
	pause := 10 * time.Millisecond
	for {
		err := do()
		var e *api.Error
		full := errors.As(err, &e) && (e.Code == api.CodeResourcePressure || e.Code == api.CodeRuntimeUnavailable || e.Code == api.CodeAuthFailed)
		if !full || errors.Is(e, api.ErrDaemonEnding) && p.program.endCause() != "" {
			return err
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
}
