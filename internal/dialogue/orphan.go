package dialogue

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
)

// An orphan is a session of an agent that no dialogue owns; it would never end. A daemon that dies
// after it created the session and before it noted the session's id leaves one. Orphans are found by
// their tag.

// removeUncreated removes a dialogue whose creation was never answered, and its sessions.
func (r *Registry) removeUncreated(id string) {
	r.endOrphans(id, "")
	rec := record{dir: filepath.Join(r.config.Dir, id)}
	if err := rec.remove(); err != nil && !os.IsNotExist(err) {
		r.log.Error("record of a dialogue cannot be removed", "dialogue_id", id, "error", err)
	}
}

// endOrphans ends the sessions of a dialogue, except the one that it owns.
func (r *Registry) endOrphans(id, owned string) {
	for _, s := range r.config.Sessions.List() {
		if s.ID() == owned || s.Info().Owner() != id {
			continue
		}
		r.log.Warn("ended an orphaned session of an agent", "dialogue_id", id, "session_id", s.ID())
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		if err := s.Kill(ctx); err != nil {
			r.log.Error("session of the agent has not ended", "session_id", s.ID(), "error", err)
		}
		cancel()
	}
}

// endEarlier makes sure that no earlier agent of the dialogue runs any more, also in a place that could
// not be reached when its session ended: a dialogue never has two agents.
func (d *Dialogue) endEarlier(ctx context.Context) error {
	d.registry.endOrphans(d.id, "")
	err := d.registry.config.Sessions.Finish(ctx, func(a session.About) bool {
		return slices.Contains(a.Tags, api.TagDialogue) && slices.Contains(a.Tags, d.id)
	})
	if err != nil {
		e := api.AsError(err)
		code := e.Code
		if code == api.CodeInternal {
			code = api.CodeRuntimeUnavailable
		}
		return api.Errorf(code, "dialogue %q: its agent may still run in its place, and cannot be ended: %s", d.id, e.Message)
	}
	return nil
}
