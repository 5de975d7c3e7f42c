package daemon

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestQuiet: memory is returned once after calls, not during them, and again after later ones.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var returned atomic.Int64
		var q quiet
		q.then = func() {
			if returned.Add(1) == 3 {
				q.note() // a call while memory is being returned
			}
		}
		is := func(want int64) {
			t.Helper()
			synctest.Wait()
			if n := returned.Load(); n != want {
				t.Fatalf("memory was returned %d times, want %d", n, want)
			}
		}
		time.Sleep(time.Hour)
		is(0)
		for range 20 {
			q.note()
			time.Sleep(quietAfter - time.Millisecond)
		}
		is(0)
		time.Sleep(2 * quietAfter)
		is(1)
		time.Sleep(time.Hour)
		is(1)
		q.note()
		time.Sleep(time.Hour)
		is(2)
		q.note()
		time.Sleep(time.Hour)
		is(4)
	})
}

// TestQuietStops: stop waits for memory that is being returned, and none is returned later.
func TestQuietStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q quiet
		var returned atomic.Bool
		returning, goOn := make(chan struct{}), make(chan struct{})
		q.then = func() {
			close(returning)
			<-goOn
			returned.Store(true)
		}
		q.note()
		<-returning
		go close(goOn)
		q.stop()
		if !returned.Load() {
			t.Error("stop did not wait")
		}
		q.note()
		time.Sleep(time.Hour) // returning would be closed twice
	})
}
