package output

import (
	"time"
	"unicode/utf8"
)

// holdBack limits how long the beginning of a character is held back until its rest arrives.
const holdBack = 50 * time.Millisecond

// holdLocked holds back an incomplete character at the end of data, and returns the number of bytes
// before it. data begins with the bytes that are already held.
func (l *Log) holdLocked(s *stream, data []byte) (whole int) {
	if s.done {
		return len(data)
	}
	whole = len(data) - incomplete(data)
	again := whole == 0 && len(s.held) > 0 // the same character, still incomplete
	s.held = s.holds[:copy(s.holds[:], data[whole:])]
	if len(s.held) > 0 && !again {
		s.heldSince = time.Now()
		l.armLocked(holdBack)
	}
	return whole
}

// incomplete returns the length of the incomplete character at the end of b, 0 to 3.
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

// Flush publishes the bytes that are held back. Call it when no rest will follow.
func (l *Log) Flush() {
	l.mu.Lock()
	defer l.unlockAndWake()
	l.publishHeldLocked(0)
}

// publishHeldLocked publishes the bytes that have been held for at least age, the oldest first. It
// returns the time until the others are due, 0 if there are none.
func (l *Log) publishHeldLocked(age time.Duration) (rest time.Duration) {
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
		l.publishLocked(st, data)
	}
	return rest
}

// armLocked makes the timer fire after d, unless it is already armed. When the timer fires, it
// checks which bytes are due, so a flood of text costs one firing per holdBack instead of one per
// write.
func (l *Log) armLocked(d time.Duration) {
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

// disarmLocked stops the timer. If the timer has already fired, due finds nothing to do.
func (l *Log) disarmLocked() {
	if l.armed {
		l.timer.Stop()
		l.armed = false
	}
}

// due is called by the timer and publishes the bytes that have been held for long enough.
func (l *Log) due() {
	l.mu.Lock()
	defer l.unlockAndWake()
	l.armed = false
	if rest := l.publishHeldLocked(holdBack); rest > 0 {
		l.armLocked(rest)
	}
}
