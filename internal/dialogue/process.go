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
func (d *Dialogue) newProcess(prog program, protocol agent.Protocol) *process {
	p := &process{
		program: prog, protocol: protocol, done: make(chan struct{}), ready: make(chan struct{}), forced: make(chan struct{}),
		waiting: map[string]chan *api.Error{}, answering: map[string]bool{}, lines: lines{most: d.host.config.LineBytes}, retry: make(chan struct{}, 1), tried: make(chan struct{}), heard: time.Now(),
	}
	p.out.news = make(chan struct{}, 1)
	p.ctx, p.leave = context.WithCancel(context.Background())
	return p
}

// run starts the goroutines of a process. The daemon is needed as long as they run.
func (d *Dialogue) run(p *process) {
	release, err := d.host.config.Registry.Hold()
	if err != nil {
		release = func() {} // it ends anyway
	}
	d.host.tasks.Go(func() { d.write(p) })
	d.host.tasks.Go(func() {
		defer release()
		d.read(p)
	})
}

func callID(n int) string { return "c" + strconv.Itoa(n) }

// read takes what the program writes until it ends, or is left.
func (d *Dialogue) read(p *process) {
	defer func() {
		p.leave()
		p.out.close()
		p.program.close()
		close(p.done)
	}()
	for {
		got, err := p.program.recv(p.ctx)
		var away *lost
		switch {
		case p.ctx.Err() != nil:
			if d.given(p) {
				d.over(p, nil)
			}
			return
		case errors.As(err, &away):
			if !d.awaitRetry(p, away) {
				return
			}
		case err != nil: // its runner is gone, and with it how it ended
			d.over(p, nil)
			return
		case got.exit != nil:
			d.over(p, got.exit)
			return
		default:
			if err := d.heard(p, got); err != nil {
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
func (d *Dialogue) awaitRoom(p *process, got piece, why error) {
	for {
		if d.given(p) {
			d.log.Error("output of the agent is lost", "error", why)
			return
		}
		d.mu.Lock()
		d.fail(p, api.DialogueFault{Code: recordFailed, Reason: "disk", Retry: true, Message: why.Error()})
		d.mu.Unlock()
		select {
		case <-time.After(roomPause):
		case <-p.retry:
		case <-p.ctx.Done():
			return
		}
		if why = d.heard(p, got); why == nil {
			d.mu.Lock()
			d.resolved(p)
			d.mu.Unlock()
			return
		}
	}
}

// awaitRetry tells that the program cannot be reached, and waits until it is, or is given
// up. It reports whether to go on.
func (d *Dialogue) awaitRetry(p *process, why *lost) bool {
	for {
		d.mu.Lock()
		d.fail(p, api.DialogueFault{Code: reconnectFailed, Reason: why.reason, Retry: why.retry, Message: why.cause.Error()})
		d.mu.Unlock()
		if !d.given(p) {
			select {
			case <-p.retry:
			case <-p.ctx.Done():
			}
		}
		if d.given(p) {
			d.over(p, nil)
			return false
		}
		if p.ctx.Err() != nil {
			return false
		}
		err := p.program.reopen(p.ctx)
		if err == nil {
			d.mu.Lock()
			d.resolved(p)
			d.mu.Unlock()
			return true
		}
		if p.ctx.Err() != nil {
			return false
		}
		if !errors.As(err, &why) {
			why = &lost{reason: "refused", cause: err}
		}
	}
}

// given reports whether the process is given up: it is to end, or known to have ended, and
// not to be left.
func (d *Dialogue) given(p *process) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return (p.ending != "" || p.gone) && !p.left
}

// recovered is the state of a dialogue whose program is reached again. mu is held.
func (d *Dialogue) recovered(p *process) api.DialogueState {
	switch {
	case !p.isReady:
		return api.DialogueStarting
	case len(d.tracker.Pending()) > 0:
		return api.DialogueRequiresAction
	case p.base != "":
		return p.base
	}
	return api.DialogueIdle
}

// fail tells that the dialogue cannot go on for now. mu is held.
func (d *Dialogue) fail(p *process, why api.DialogueFault) {
	if !p.isReady {
		p.failed = why.Reason + ": " + why.Message
		p.isReady = true
		close(p.ready)
	}
	if d.fault == nil || *d.fault != why {
		d.log.Warn("dialogue cannot go on", "code", why.Code, "reason", why.Reason, "error", why.Message)
	}
	d.to(api.DialogueError)
	d.fault = &why
	d.stopDenying()
	if why.Code == reconnectFailed { // the other could be read only when it is over
		d.tell(p, api.DialogueEvent{Type: api.DialogueEventState, State: api.DialogueError})
	}
	d.hasTried(p)
}

// resolved tells that it goes on. mu is held.
func (d *Dialogue) resolved(p *process) {
	d.fault = nil
	if d.to(d.recovered(p)); d.told != d.state {
		d.tell(p, api.DialogueEvent{Type: api.DialogueEventState, State: d.state})
	}
	d.attend(p)
	d.watchSilence(p)
	d.flush()
	d.hasTried(p)
}

func (d *Dialogue) hasTried(p *process) {
	close(p.tried)
	p.tried = make(chan struct{})
}

// over is the end of a process: what is open is lost, and that is all.
func (d *Dialogue) over(p *process, outcome *api.ExecOutcome) {
	ended := p.program.ended()
	d.mu.Lock()
	defer d.mu.Unlock()
	end := &api.DialogueEnd{StderrTail: text(p.stderr), Tail: text(p.lines.tail()[:min(len(p.lines.tail()), unparsedText)])}
	if outcome != nil {
		end.ExitCode, end.Signal = &outcome.ExitCode, outcome.Signal
	}
	busy := p.base == api.DialogueRunning || d.tracker.Busy()
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
	if p.watch != nil {
		p.watch.Stop()
	}
	d.stopDenying()
	if outcome == nil && d.about.Params.Remote != nil && !p.gone && !p.killed {
		d.about.Stray = true // nobody has heard of its end
		end.Text = strings.TrimPrefix(end.Text+"; its session could not be reached, and is ended when it can be", "; ")
	}
	d.stalled = nil
	d.to(api.DialogueEnded)
	for _, ev := range d.tracker.Lost() {
		ev.NativeID = own
		d.append(p, ev)
	}
	d.tell(p, api.DialogueEvent{Type: api.DialogueEventEnded, Ended: end})
	if !p.isReady {
		p.isReady = true
		close(p.ready)
	}
	d.settle()
	d.log.Info("dialogue ended", "cause", end.Cause)
	d.host.nudge()
	d.chaseStrays()
}

func text(b []byte) string {
	s, _ := api.Text(b)
	return s
}

// outbox is what is to be written to a program, in order.
type outbox struct {
	news chan struct{} // has a value when there is something new

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
	case o.news <- struct{}{}:
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

// forget drops from the front what leaves more than most bytes.
func (o *outbox) forget(most int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) > 0 && o.bytes > most {
		o.bytes -= int64(len(o.queue[0].data))
		o.queue = o.queue[1:]
	}
}

// taken drops what is before an offset: the program has been given it.
func (o *outbox) taken(offset int64) {
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

// send queues a line for the program. mu is held.
func (d *Dialogue) send(p *process, text []byte) {
	if p.replay.sent(p, text) {
		return
	}
	if err := appendTo(d.record.stdin, text); err != nil {
		d.log.Error("input cannot be recorded", "error", err)
	}
	p.put(text)
}

// put queues text, in pieces that are named after where they are in stdin.
func (p *process) put(text []byte) {
	for len(text) > 0 {
		n := min(len(text), writeBytes)
		p.out.put(message{at: p.stdin, data: text[:n]})
		p.stdin += int64(n)
		text = text[n:]
	}
}

// write writes the queued input. A program that does not read delays no other program.
func (d *Dialogue) write(p *process) {
	if p.again {
		d.skipTaken(p)
	}
	for {
		m, ok := p.out.take()
		if !ok {
			select {
			case <-p.out.news:
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

// skipTaken leaves what the earlier daemon has brought to the program.
func (d *Dialogue) skipTaken(p *process) {
	var bytes int64
	err := p.insist(func() (err error) {
		bytes, err = p.program.given(p.ctx)
		return err
	})
	if err == nil {
		p.out.taken(bytes)
	}
}

// writeOne writes one message, however long the program does not read, and however long
// it cannot be reached.
func (d *Dialogue) writeOne(p *process, m message) error {
	if m.data == nil {
		return p.insist(func() error { return p.program.closeInput(p.ctx) })
	}
	err := p.insist(func() error { return p.program.write(p.ctx, m.id(), m.data) })
	if e := api.AsError(err); err != nil && e.Code == api.CodeRequestTooLarge && len(m.data) > 1 { // its session takes less at once
		half := len(m.data) / 2
		if err = d.writeOne(p, message{m.at, m.data[:half]}); err == nil {
			err = d.writeOne(p, message{m.at + int64(half), m.data[half:]})
		}
	}
	return err
}

// insist does something with the program until it is done, or refused for good.
func (p *process) insist(do func() error) error {
	pause := 10 * time.Millisecond
	for {
		err := do()
		var e *api.Error
		full := errors.As(err, &e) && (e.Code == api.CodeResourcePressure || e.Code == api.CodeRuntimeUnavailable || e.Code == api.CodeAuthFailed)
		if !full || errors.Is(e, api.ErrDaemonEnding) && p.program.ended() != "" {
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
