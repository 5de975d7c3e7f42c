package session

import (
	"context"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// total is how many bytes of output are kept, of sessions that live and that have ended.
func (r *Registry) total() int64 {
	n := r.weight.Load()
	if r.config.Archive != nil {
		n += r.config.Archive.Size()
	}
	return n
}

// weigh looks whether too much output is kept, and lets some of it be dropped. It is
// called by one of the tasks.
func (r *Registry) weigh() {
	if r.config.TotalOutput <= 0 || r.total() <= r.config.TotalOutput || r.lightening.Swap(true) {
		return
	}
	r.tasks.Go(func() {
		defer r.lightening.Store(false)
		r.lighten()
	})
}

// lighten drops output until there is some room again: first sessions that have ended,
// the oldest first; then what the largest of those that live keep.
func (r *Registry) lighten() {
	r.log.Warn("dropped output above the limit (total_output_bytes)", "bytes", r.total(), "most", r.config.TotalOutput)
	target := r.config.TotalOutput / 10 * 9
	if a := r.config.Archive; a != nil {
		a.Shrink(r.total() - target)
	}
	for tried := map[*Session]bool{}; r.total() > target; {
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
		// Several large ones share the loss.
		left, err := largest.trim(max(size-(r.total()-target), size/2))
		if err != nil || left >= size {
			tried[largest] = true // nothing more can be had there
		}
	}
}

// trim lets the runner keep less output, and returns how much it keeps then.
func (s *Session) trim(keep int64) (int64, error) {
	var info api.SessionInfo
	err := s.ask(context.Background(), link.CallTrim, link.TrimParams{Keep: keep}, &info)
	return info.OutputBytes, err
}
