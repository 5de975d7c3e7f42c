package dialogue

import (
	"time"

	"github.com/trl-dev/trl/api"
)

// stderrTail is how many bytes of the agent's stderr are kept: the last ones.
const stderrTail = 8 << 10

// receive takes a piece of the agent's output. If the record cannot be written, it returns an
// error, and the caller passes the same piece again later: the offset shows which part is already
// taken.
func (d *Dialogue) receive(p *agentProcess, got piece) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if got.stream == api.EventStderr {
		p.stderr = append(p.stderr, got.data...)
		if extra := len(p.stderr) - stderrTail; extra > 0 {
			p.stderr = append(p.stderr[:0], p.stderr[extra:]...)
		}
		return nil
	}
	if got.gap > p.lines.end {
		d.gapLocked(p, got.gap)
	}
	offset, data := p.lines.unseen(got.offset, got.data)
	if len(data) == 0 {
		return d.writeLocked(false)
	}
	if offset > p.lines.end {
		d.gapLocked(p, offset)
	}
	d.record.noteTime(offset)
	if _, err := d.record.stdout.WriteAt(data, offset); err != nil {
		return err
	}
	if d.fault != nil && d.fault.Code == recordFailed {
		d.moveLocked(d.liveStateLocked(p)) // before the lines, which may change the state again
	}
	p.lastOutput = time.Now()
	d.stalledAt = nil
	p.lines.add(data, func(l line) { d.lineLocked(p, l) })
	d.watchStallLocked(p)
	return d.writeLocked(false)
}

// gapLocked publishes that the output up to an offset is lost, with the part of a line before it.
func (d *Dialogue) gapLocked(p *agentProcess, to int64) {
	from := p.lines.end
	cut, _ := p.lines.skip(to)
	d.publishLocked(p, unparsed("gap", from, cut.text, to-from))
	d.flushLocked()
}

// lineLocked passes one line of the agent to the protocol.
func (d *Dialogue) lineLocked(p *agentProcess, l line) {
	text := l.text
	if n := len(text); n > 0 && text[n-1] == '\r' {
		text = text[:n-1]
	}
	switch {
	case l.lost:
		d.publishLocked(p, unparsed("gap", l.start, text, l.size))
	case l.size > int64(len(l.text)):
		d.publishLocked(p, unparsed("too_long", l.start, text, l.size))
	case len(text) > 0:
		d.takeLocked(p, p.protocol.Line(text), &l.start)
	}
}

// unparsedText is how many bytes of a line that cannot be parsed are in its event.
const unparsedText = 4 << 10

func unparsed(why string, at int64, text []byte, bytes int64) api.DialogueEvent {
	s, _ := api.Text(text[:min(len(text), unparsedText)])
	return api.DialogueEvent{Type: api.DialogueEventUnparsed, Offset: &at, Unparsed: &api.DialogueUnparsed{Why: why, Text: s, Bytes: bytes}}
}
