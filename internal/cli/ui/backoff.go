package ui

import (
	"context"
	"time"
)

// The pauses of a backoff.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// Backoff is the pause between two attempts at something that cannot be waited for, such as
// a program that must first read its input. Each pause is twice as long as the one before, up
// to a limit. The zero value is ready to use.
type Backoff struct{ pause time.Duration }

// Wait pauses. It returns the error of ctx if that ends first.
func (b *Backoff) Wait(ctx context.Context) error {
	b.pause = min(max(2*b.pause, firstPause), lastPause)
	select {
	case <-time.After(b.pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
