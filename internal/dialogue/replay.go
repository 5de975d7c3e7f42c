package dialogue

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/trl-dev/trl/api"
)

// replay brings the protocol of a process of an earlier daemon back to where it was. The protocol
// gets the same lines and calls in the same order, and so makes the same events. Events that are in
// the record are taken from there; events that the earlier daemon could not write any more are
// written now. It is nil for a process that is not being replayed.
type replay struct {
	recorded *pastEvents // the recorded events of this epoch that were not made again yet
	diverged bool        // this version of trl makes other events than the one that wrote the record; the record is right
	stdin    int64       // bytes in the recorded stdin
}

// resendBytes is how much recorded input is queued again: more than can be waiting for a program
// that does not read. Of the queued input, only the bytes that the program does not have yet are
// written.
const resendBytes = 2*mostUnsent + 64<<20

// next replaces ev with the next recorded event, if there is one. It returns the recorded events
// before it that the dialogue made itself. It sets ev.Seq to -1 if the recorded events show that ev
// must be dropped.
func (r *replay) next(ev *api.DialogueEvent) (before []api.DialogueEvent) {
	if r == nil || ev.NativeID == own {
		return nil
	}
	for next := r.recorded.head(); next != nil && next.NativeID == own; next = r.recorded.head() {
		before = append(before, *r.recorded.pop())
	}
	next := r.recorded.head()
	switch {
	case r.diverged:
		ev.Seq = -1
	case next == nil:
	case next.Type == ev.Type:
		*ev = *r.recorded.pop()
	default:
		r.diverged = true
		for ; next != nil; next = r.recorded.head() {
			before = append(before, *r.recorded.pop())
		}
		ev.Seq = -1
	}
	return before
}

// resend reports whether text is in the recorded stdin. If so, it queues text again, because the
// earlier daemon may not have written it to the program.
func (r *replay) resend(p *agentProcess, text []byte) bool {
	if r == nil || p.stdinBytes >= r.stdin {
		return false
	}
	p.queueInput(bytes.Clone(text))
	p.input.adopt(resendBytes)
	return true
}

// rejoinLocked replays the record of a process. If a part of the record is missing, it comes as
// close as it can and returns an error. The goroutines of p do not run yet.
func (d *Dialogue) rejoinLocked(p *agentProcess, known *pastEvents) error {
	calls, missing := d.record.loadCalls(d.about.Epoch)
	stdout, err := os.Open(d.record.path("stdout", d.about.Epoch))
	if err != nil {
		for ev := known.pop(); ev != nil; ev = known.pop() {
			d.applyLocked(*ev)
		}
		return err
	}
	defer stdout.Close()
	p.replay = &replay{recorded: known, stdin: d.record.fileBytes("stdin", d.about.Epoch)}
	d.takeLocked(p, p.protocol.Start(), nil)
	for _, c := range calls {
		if err := d.feedLocked(p, stdout, c.Offset); err != nil {
			missing = err
		}
		p.calls++
		d.takeLocked(p, p.protocol.Do(p.aliases.call(c.Call)), nil)
	}
	if err := d.feedLocked(p, stdout, -1); err != nil {
		missing = err
	}
	for ev := known.pop(); ev != nil; ev = known.pop() {
		d.applyLocked(*ev)
	}
	if p.replay.diverged && missing == nil {
		d.log.Warn("another version of trl wrote the record of this dialogue; it stays unchanged")
	}
	p.replay = nil
	d.moveLocked(d.liveStateLocked(p))
	d.flushLocked()
	return missing
}

// feedLocked passes recorded stdout to the protocol, up to an offset; -1 means all.
func (d *Dialogue) feedLocked(p *agentProcess, from io.Reader, to int64) error {
	buf := make([]byte, readBytes)
	for to < 0 || p.lines.end < to {
		want := int64(len(buf))
		if to >= 0 {
			want = min(want, to-p.lines.end)
		}
		n, err := from.Read(buf[:want])
		p.lines.add(buf[:n], func(l line) { d.lineLocked(p, l) })
		if err == io.EOF && to < 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("stdout.%d at byte %d: %w", d.about.Epoch, p.lines.end, err)
		}
	}
	return nil
}
