package dialogue_test

import (
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/trltest"
)

func TestDbg(t *testing.T) {
	w := start(t, trltest.Args("--kill-grace-s", "1", "--max-sessions", "100"), trltest.Use(plain()))
	for round := range 4 {
		var workers sync.WaitGroup
		for part := range 4 {
			workers.Go(func() {
				for i := part; i < 1000; i += 4 {
					if err := w.cycle(i); err != nil {
						t.Errorf("cycle %d: %v", i, err)
						return
					}
				}
			})
		}
		workers.Wait()
		w.ctx = timeout(t)
		time.Sleep(time.Second)
		s := must(w.SystemStats(w.ctx, api.SystemStatsParams{}))(w)
		ended := must(w.SessionList(w.ctx, api.SessionListParams{State: api.SessionTerminated}))(w)
		t.Logf("round %d: %d MB, %d goroutines, %d fds, %d ended sessions", round, s.MemoryRSSBytes>>20, s.Goroutines, s.OpenFDs, len(ended.Sessions))
	}
}
