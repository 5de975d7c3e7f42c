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
	// readSize is more than a read on Linux returns.
	readSize = 8 << 10
	// drainSize is more than a pseudo-terminal holds: bytes beyond that come from processes that
	// outlived the program.
	drainSize = 1 << 20
	// hugePiece is how many bytes are shown at a time on a screen of more than hugeCells.
	hugePiece = 128
	hugeCells = 50_000
	// hangupPause is the least time between two reopenings, for a program that hangs up its
	// terminal again and again.
	hangupPause = 10 * time.Millisecond
)

// watch interrupts read when the program has ended.
func (t *Terminal) watch() {
	select {
	case <-t.program.Done():
	case <-t.closing:
	}
	t.pty.Interrupt()
}

// read reads the output of the program until it has ended.
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

// hungUp makes the terminal usable again after a hangup. Either the program hung it up, or the
// program has just ended and its Done is about to close.
func (t *Terminal) hungUp() {
	pause := time.NewTimer(hangupPause)
	defer pause.Stop()
	select {
	case <-pause.C:
		t.pty.Reopen() // if it fails, the next read fails, and hungUp tries again
	case <-t.program.Done():
	case <-t.closing:
	}
}

// drain reads the output that the program left in the pseudo-terminal.
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

// take processes output: all at once, or on a huge screen, where a few bytes can cause much work,
// in pieces, so that other users of mu get their turn.
func (t *Terminal) take(p []byte) {
	for len(p) > hugePiece && t.huge.Load() {
		t.takePiece(p[:hugePiece])
		p = p[hugePiece:]
	}
	t.takePiece(p)
}

func (t *Terminal) takePiece(p []byte) {
	// The log comes first, so that everything on the screen is in the log. It may wait for a
	// disk, so mu is not held.
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

// finish marks the end of output.
func (t *Terminal) finish() {
	t.keyboard.end()
	t.config.Log.Flush() // an unfinished character will not be finished
	if t.recorder != nil {
		t.recorder.finish(time.Now(), t.program)
	}
	t.mu.Lock()
	t.complete = true
	t.screen.do(t.offset, (*vt.Terminal).EndBatch)
	close(t.done)
	t.unlockChanged(time.Now())
}

// charTail has the last bytes of a stream, which show whether it ends inside a character.
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

// unfinished returns how many bytes at the end begin a character whose rest is missing.
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
