package dialogue

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
)

// outbox queues the input of an agent. It is safe for concurrent use.
type outbox struct {
	notify chan struct{} // has a value when something was queued

	mu     sync.Mutex
	queue  []message // guarded by mu; the first entries may predate this daemon
	bytes  int64     // guarded by mu; how many are queued
	closed bool      // guarded by mu; nothing is queued any more
	// adopted says that an earlier daemon may already have written part of the queue. Guarded by mu.
	adopted bool
}

// message is one write to the agent's stdin. Without data it ends the input.
type message struct {
	at   int64 // its offset in stdin
	data []byte
}

// id names the write, so that repeating it has no effect. A part of a message has another id.
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

// take removes the first message. ok is false when there is none.
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

// waiting returns how many bytes are queued.
func (o *outbox) waiting() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// adopt notes that an earlier daemon queued the messages, and keeps at most the last bytes of them.
func (o *outbox) adopt(most int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.adopted = true
	for len(o.queue) > 0 && o.bytes > most {
		o.bytes -= int64(len(o.queue[0].data))
		o.queue = o.queue[1:]
	}
}

func (o *outbox) isAdopted() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.adopted
}

// dropWritten drops the input before an offset: the program already has it.
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

// writeBytes is the most that one write carries.
const writeBytes = 1 << 20

// sendLocked records a line for the agent and queues it.
func (d *Dialogue) sendLocked(p *agentProcess, text []byte) {
	if p.replay.resend(p, text) {
		return
	}
	d.record.noteTime(p.lines.end)
	if err := appendTo(d.record.stdin, text); err != nil {
		d.log.Error("input cannot be recorded", "error", err)
	}
	p.queueInput(text)
}

// queueInput queues text in messages of at most writeBytes.
func (p *agentProcess) queueInput(text []byte) {
	for len(text) > 0 {
		n := min(len(text), writeBytes)
		p.input.put(message{at: p.stdinBytes, data: text[:n]})
		p.stdinBytes += int64(n)
		text = text[n:]
	}
}

// writeInput writes the queued input. It has a goroutine of its own, so that an agent that does not
// read delays nothing else.
func (d *Dialogue) writeInput(p *agentProcess) {
	if p.input.isAdopted() {
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
		if err := d.writeMessage(p, m); err != nil && p.ctx.Err() == nil {
			d.log.Debug("program does not accept input", "error", err)
		}
	}
}

// skipWritten drops the queued input that an earlier daemon has written to the program.
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

// writeMessage writes one message. It waits while the program does not read, and while it cannot be
// reached.
func (d *Dialogue) writeMessage(p *agentProcess, m message) error {
	if m.data == nil {
		return p.untilAccepted(func() error { return p.program.closeInput(p.ctx) })
	}
	err := p.untilAccepted(func() error { return p.program.write(p.ctx, m.id(), m.data) })
	if e := api.AsError(err); err != nil && e.Code == api.CodeRequestTooLarge && len(m.data) > 1 { // the session accepts less at once
		half := len(m.data) / 2
		if err = d.writeMessage(p, message{m.at, m.data[:half]}); err == nil {
			err = d.writeMessage(p, message{m.at + int64(half), m.data[half:]})
		}
	}
	return err
}

// untilAccepted repeats a request to the program while it is refused for now: its input is full, or
// its daemon cannot be reached or is restarting. The session does not report when that is over, so
// untilAccepted polls.
func (p *agentProcess) untilAccepted(do func() error) error {
	pause := 10 * time.Millisecond
	for {
		err := do()
		var e *api.Error
		later := errors.As(err, &e) && (e.Code == api.CodeResourcePressure || e.Code == api.CodeRuntimeUnavailable || e.Code == api.CodeAuthFailed)
		if !later || errors.Is(e, api.ErrDaemonEnding) && p.program.endCause() != "" {
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
