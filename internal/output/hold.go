package output

import (
	"time"
	"unicode/utf8"
)

// holdBack is how long the beginning of a character waits for its rest.
const holdBack = 50 * time.Millisecond

// hold keeps back the beginning of a character at the end of data, of which the
// bytes that are held already are the first. It returns how many bytes come before.
func (l *Log) hold(s *stream, data []byte) (whole int) {
	if s.done {
		return len(data)
	}
	whole = len(data) - incomplete(data)
	again := whole == 0 && len(s.held) > 0 // the same character, and still not all of it
	s.held = s.holds[:copy(s.holds[:], data[whole:])]
	if len(s.held) > 0 && !again {
		s.heldSince = time.Now()
		l.arm(holdBack)
	}
	return whole
}

// incomplete returns how many bytes at the end of b begin a character whose rest is
// missing: 0 to 3.
func incomplete(b []byte) int {
	for n := 1; n <= min(edge, len(b)); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// Flush publishes what is held back: nothing follows that would complete it.
func (l *Log) Flush() {
	l.mu.Lock()
	defer l.unlockAndWake()
	l.publishHeld(0)
}

// publishHeld publishes what has been held for at least age, the oldest first. It
// returns how long the rest is still held, 0 if there is none. The lock is held.
func (l *Log) publishHeld(age time.Duration) (rest time.Duration) {
	order := [2]Stream{Stdout, Stderr}
	if l.streams[Stderr].heldSince.Before(l.streams[Stdout].heldSince) {
		order = [2]Stream{Stderr, Stdout}
	}
	for _, st := range order {
		s := &l.streams[st]
		if len(s.held) == 0 {
			continue
		}
		if left := age - time.Since(s.heldSince); age > 0 && left > 0 {
			if rest == 0 {
				rest = left
			}
			continue
		}
		data := s.held
		s.held = nil
		l.publish(st, data)
	}
	return rest
}

// arm makes the timer fire after d, or leaves it as it is: when it fires it looks
// what is due, so a flood of text costs one firing per holdBack and not one per write.
func (l *Log) arm(d time.Duration) {
	switch {
	case l.armed:
		return
	case l.timer == nil:
		l.timer = time.AfterFunc(d, l.due)
	default:
		l.timer.Reset(d)
	}
	l.armed = true
}

// disarm keeps the timer from firing. A firing that has begun finds nothing to do.
func (l *Log) disarm() {
	if l.armed {
		l.timer.Stop()
		l.armed = false
	}
}

// due is called by the timer.
func (l *Log) due() {
	l.mu.Lock()
	defer l.unlockAndWake()
	l.armed = false
	if rest := l.publishHeld(holdBack); rest > 0 {
		l.arm(rest)
	}
}
