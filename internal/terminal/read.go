package terminal

import (
	"errors"
	"os"
	"time"
	"unicode/utf8"

	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

const (
	// readSize is more than Linux gives at a time.
	readSize = 8 << 10
	// drainSize is more than a pseudo-terminal holds: what it still gives beyond that was
	// written by somebody who outlived the program.
	drainSize = 1 << 20
	// hugePiece is how much is shown at a time on a screen of more than hugeCells.
	hugePiece = 128
	hugeCells = 50_000
	// hangupPause keeps a program that hangs up its terminal again and again from
	// keeping us busy.
	hangupPause = 10 * time.Millisecond
)

// watch ends the reading when the program has ended.
func (t *Terminal) watch() {
	select {
	case <-t.program.Done():
	case <-t.closing:
	}
	t.pty.Interrupt()
}

// read reads what the program writes until it has ended.
func (t *Terminal) read() {
	defer t.finish()
	buf := make([]byte, readSize)
	for {
		n, err := t.pty.Read(buf)
		if n > 0 {
			t.take(buf[:n])
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			t.drain(buf)
			return
		default:
			t.hungUp()
		}
	}
}

// hungUp makes the terminal usable again that was hung up: by the program, or because
// that has just ended and nobody told us yet.
func (t *Terminal) hungUp() {
	pause := time.NewTimer(hangupPause)
	defer pause.Stop()
	select {
	case <-pause.C:
		t.pty.Reopen() // when it cannot be done, it is tried again
	case <-t.program.Done():
	case <-t.closing:
	}
}

// drain reads what the program has left behind.
func (t *Terminal) drain(buf []byte) {
	for left := drainSize; left > 0; {
		n, err := t.pty.TryRead(buf)
		if n == 0 || err != nil {
			return
		}
		t.take(buf[:n])
		left -= n
	}
}

// take takes in what the program wrote: all at once, or on a huge screen, where a few bytes
// can mean much work, in pieces between which others have their turn.
func (t *Terminal) take(p []byte) {
	for len(p) > hugePiece && t.huge.Load() {
		t.takePiece(p[:hugePiece])
		p = p[hugePiece:]
	}
	t.takePiece(p)
}

func (t *Terminal) takePiece(p []byte) {
	// The log first: what is on the screen can be read there. It may have to wait for a
	// disk, but not with mu.
	t.config.Log.Append(output.Stdout, p)
	now := time.Now()
	t.wrote.Store(&now)

	t.mu.Lock()
	before := t.offset
	t.offset += int64(len(p))
	t.tail.add(p)
	t.output = now
	t.screen.write(before, p)
	if t.recorder != nil {
		t.recorder.output(now, p)
	}
	t.unlockChanged(now)
}

// finish says that nothing follows.
func (t *Terminal) finish() {
	t.keyboard.end()
	t.config.Log.Flush() // a character that was begun does not end any more
	if t.recorder != nil {
		t.recorder.finish(time.Now(), t.program)
	}
	t.mu.Lock()
	t.complete = true
	t.screen.do(t.offset, (*vt.Terminal).EndBatch)
	close(t.done)
	t.unlockChanged(time.Now())
}

// charTail is the last bytes of a stream, to tell whether it ends inside a character.
type charTail struct {
	bytes [utf8.UTFMax - 1]byte
	n     int
}

func (c *charTail) add(p []byte) {
	if len(p) < len(c.bytes) {
		p = append(c.bytes[:c.n:c.n], p...)
	}
	p = p[max(0, len(p)-len(c.bytes)):]
	c.n = copy(c.bytes[:], p)
}

// unfinished is how many bytes at the end begin a character whose rest is missing.
func (c *charTail) unfinished() int { return unfinished(c.bytes[:c.n]) }

func unfinished(p []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(p)); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
