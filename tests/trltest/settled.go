package trltest

import (
	"context"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// Settled returns the descriptors and goroutines of the daemon once their number has not changed for
// half a second, or as soon as it is not larger than before. before may be nil.
func Settled(ctx context.Context, t testing.TB, s api.Service, before *api.SystemStatsResult) api.SystemStatsResult {
	t.Helper()
	last := testkit.Must(s.SystemStats(ctx, api.SystemStatsParams{}))(t)
	for calm := 0; calm < 50; time.Sleep(10 * time.Millisecond) {
		now := testkit.Must(s.SystemStats(ctx, api.SystemStatsParams{}))(t)
		if before != nil && now.OpenFDs <= before.OpenFDs && now.Goroutines <= before.Goroutines {
			return now
		}
		if calm++; now.OpenFDs != last.OpenFDs || now.Goroutines != last.Goroutines {
			calm = 0
		}
		last = now
	}
	return last
}
