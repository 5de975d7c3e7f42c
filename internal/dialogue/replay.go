package dialogue

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/trl-dev/trl/api"
)

// replay brings a process of an earlier daemon back to where it was: its protocol gets the
// same lines and calls in the same order, and so makes the same events. Those that are in
// the record are taken from there; those that the earlier daemon could not write any more
// are written now. A nil replay is a process that needs none.
type replay struct {
	recorded *pastEvents // the events of this epoch that are in the record, not met again yet
	diverged bool        // this program makes other events than the one that wrote them; the record is right
	stdin    int64       // bytes that are in the record of what was sent
}

// resendBytes is more than can wait for a program that does not read. What the earlier daemon
// could not bring to it is sent by the next one, from the byte on that it has been given.
const resendBytes = 2*mostUnsent + 64<<20

// next makes ev the next event of the record, when there is one. It returns those before
// it that the dialogue made by itself. It sets a negative number when ev is not to be.
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

// resend reports whether text was sent by an earlier daemon. The last of it is sent again.
func (r *replay) resend(p *agentProcess, text []byte) bool {
	if r == nil || p.stdinBytes >= r.stdin {
		return false
	}
	p.queueInput(bytes.Clone(text))
	p.input.adopt(resendBytes)
	return true
}

// rejoinLocked brings p to where the record says it was. When a part of the record is missing, it
// comes as near as it can, and the error says so. mu is held, and nothing runs yet.
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

// feedLocked gives p what the program wrote, up to an offset; a negative one is the end.
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
