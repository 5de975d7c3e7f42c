package output

import "context"

// Wait returns nil as soon as there is a sequence number after afterSeq or the
// log is closed, and the cause of ctx if that ends first.
func (l *Log) Wait(ctx context.Context, afterSeq int64) error {
	for {
		wake := l.changed(afterSeq)
		if wake == nil {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// changed returns nil if there is something after afterSeq, else a channel that
// the next change closes. The channel exists only while somebody waits, so that
// a writer nobody waits for pays one comparison.
func (l *Log) changed(afterSeq int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq > afterSeq || l.closed {
		return nil
	}
	// Whoever waits for what follows a record has it: it must not grow, or the
	// waiter would not hear of it.
	l.seal(afterSeq)
	if l.wake == nil {
		l.wake = make(chan struct{})
	}
	return l.wake
}

// unlockAndWake releases the lock and wakes those who wait. It wakes after the
// lock is free, or they would all run into it.
func (l *Log) unlockAndWake() {
	wake := l.wake
	l.wake = nil
	l.mu.Unlock()
	if wake != nil {
		close(wake)
	}
}
