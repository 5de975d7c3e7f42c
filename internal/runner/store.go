package runner

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
)

// reportGrowth is by how much the kept output of a running command grows before the runner
// reports it.
const reportGrowth = 8 << 20

// newStore makes the store for the output of all commands.
func (r *Runner) newStore(lim link.Limits) *output.Store {
	return output.NewStore(output.StoreConfig{
		MemoryBytes: lim.MemoryBytes, Dir: cmp.Or(lim.SpillDir, r.cfg.SpillDir),
		Warn: func(err error) {
			fmt.Fprintf(os.Stderr, "%s: output beyond output_memory_bytes is dropped: %s\n", Name, err)
		},
		GrowBytes: reportGrowth,
		Grown:     r.reportSoon,
	})
}

// minTrim is how many bytes per stream a running command keeps at least.
const minTrim = 64 << 10

// trim drops output until the session keeps no more than it may: first the output of ended
// commands, oldest first, then the middle of the output of running ones. The totals still count
// the dropped bytes.
func (r *Runner) trim(_ context.Context, p *link.TrimParams) (*api.SessionInfo, error) {
	r.mu.Lock()
	var open []*Exec
	for _, e := range r.order {
		switch {
		case r.store.Kept() <= p.Keep:
		case !e.closed():
			open = append(open, e)
		default:
			e.Log.Release()
			r.kept -= e.kept
			e.kept = 0
		}
	}
	limit := r.params.Limits.OutputBytes
	r.mu.Unlock()
	for limit > minTrim && r.store.Kept() > p.Keep {
		limit = max(limit/2, minTrim)
		for _, e := range open {
			e.Log.Trim(limit)
		}
	}
	r.report(true)
	info := r.Info()
	return &info, nil
}
