package session

import (
	"context"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// outputBytes returns how many bytes of output are kept, of live and of ended sessions.
func (r *Registry) outputBytes() int64 {
	n := r.liveOutput.Load()
	if r.config.Archive != nil {
		n += r.config.Archive.Size()
	}
	return n
}

// enforceOutputLimit starts to drop output if more is kept than the limit allows. Only one of
// the registry's tasks may call it.
func (r *Registry) enforceOutputLimit() {
	if r.config.TotalOutput <= 0 || r.outputBytes() <= r.config.TotalOutput || r.droppingOutput.Swap(true) {
		return
	}
	r.tasks.Go(func() {
		defer r.droppingOutput.Store(false)
		r.dropOutput()
	})
}

// dropOutput drops output until a tenth of the limit is free: first that of ended sessions,
// the oldest first; then that of the live sessions which keep the most.
func (r *Registry) dropOutput() {
	r.log.Warn("dropped output above the limit (total_output_bytes)", "bytes", r.outputBytes(), "most", r.config.TotalOutput)
	target := r.config.TotalOutput / 10 * 9
	if a := r.config.Archive; a != nil {
		a.Shrink(r.outputBytes() - target)
	}
	for tried := map[*Session]bool{}; r.outputBytes() > target; {
		var largest *Session
		size := int64(0)
		for _, s := range r.List() {
			if n := s.Info().OutputBytes; n > size && !tried[s] && s.Reachable() {
				largest, size = s, n
			}
		}
		if largest == nil {
			return
		}
		// Several large sessions share the loss.
		left, err := largest.trimOutput(max(size-(r.outputBytes()-target), size/2))
		if err != nil || left >= size {
			tried[largest] = true // it cannot drop more
		}
	}
}

// trimOutput makes the runner drop output until it keeps at most that many bytes, and returns how
// many it keeps.
func (s *Session) trimOutput(keep int64) (int64, error) {
	var info api.SessionInfo
	err := s.ask(context.Background(), link.Trim.With(&link.TrimParams{Keep: keep}, nil, &info))
	return info.OutputBytes, err
}
