package terminal

import (
	"strings"
	"time"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// SetBatchTime and SetMaxLook change a bound until the test has ended.
func SetBatchTime(cleanup func(func()), d time.Duration) { set(cleanup, &batchTime, d) }

// SetMaxLook is like SetBatchTime.
func SetMaxLook(cleanup func(func()), n int) { set(cleanup, &maxLook, n) }

func set[T any](cleanup func(func()), to *T, v T) {
	before := *to
	*to = v
	cleanup(func() { *to = before })
}

// Break makes the screen panic once, as a bug in it would.
func (t *Terminal) Break(broken func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := true
	t.screen.do(t.offset, func(*vt.Terminal) {
		if first {
			first = false
			broken()
		}
	})
}

// BreakAt makes the screen panic at that text.
func (t *Terminal) BreakAt(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.screen.show = func(v *vt.Terminal, p []byte) {
		if i := strings.Index(string(p), text); i >= 0 {
			v.Write(p[:i])
			panic("broken at " + text)
		}
		v.Write(p)
	}
}

// Rebuilt is how often the screen was made anew.
func (t *Terminal) Rebuilt() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.rebuilt
}

// Hold makes the screen take its time with what comes next, until release is called.
func (t *Terminal) Hold() (release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := make(chan struct{})
	t.screen.show = func(v *vt.Terminal, p []byte) {
		<-held
		v.Write(p)
	}
	return func() { close(held) }
}

// Look reads the lines that were written since version 0 in parts, as Wait does. After each part it
// writes text to the screen. It returns the lines of the first look, those of the next one, and the
// number of parts of the first.
func (t *Terminal) Look(text string) (first, next []string, parts int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	look := lineLook{since: new(uint64)}
	for more := true; more && parts < 100; parts++ {
		var lines []string
		lines, more = look.read(&t.screen, t.screen.vt)
		first = append(first, lines...)
		t.screen.write(t.offset, []byte(text))
	}
	for more := true; more; {
		var lines []string
		lines, more = look.read(&t.screen, t.screen.vt)
		next = append(next, lines...)
	}
	return first, next, parts
}
