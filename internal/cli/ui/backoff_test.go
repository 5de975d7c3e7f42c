package ui

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestBackoff: pauses double up to a limit, and the end of the context ends a pause.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Backoff
		for _, want := range []time.Duration{5, 10, 20, 40, 80, 160, 200, 200} {
			began := time.Now()
			if err := b.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(began); got != want*time.Millisecond {
				t.Errorf("paused %s, want %d ms", got, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a pause after the end of its context returns %v", err)
		}
	})
}
