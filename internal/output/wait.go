package output

import "context"

// Wait returns nil as soon as there is a sequence number after afterSeq or the log is closed. It
// returns the cause of ctx if ctx ends first.
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

// changed returns nil if there is a sequence number after afterSeq or the log is closed, else a
// channel that the next change closes. The channel exists only while a reader waits, so that a
// writer without waiting readers pays one comparison.
func (l *Log) changed(afterSeq int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq > afterSeq || l.closed {
		return nil
	}
	// A reader that waits for the next record has the last one. The last record must not grow
	// any more, because the reader would not learn about it.
	l.sealLocked(afterSeq)
	if l.wake == nil {
		l.wake = make(chan struct{})
	}
	return l.wake
}

// unlockAndWake releases the lock and then wakes the waiting readers. In the other order, the
// readers would all wait for the lock.
func (l *Log) unlockAndWake() {
	wake := l.wake
	l.wake = nil
	l.mu.Unlock()
	if wake != nil {
		close(wake)
	}
}
