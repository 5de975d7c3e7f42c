package dialogue

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/trl-dev/trl/api"
)

// An orphan is a session of an agent that no dialogue owns; it would never end. There are two
// ways to get one: a daemon died after it created the session and before it noted the session's id,
// or another daemon could not be reached when the session had to end. Orphans of this daemon are
// found by their tag. Another daemon is asked when the record says that it may have one
// (about.Orphan), until there is none.

// orphanPause is the time between two attempts to reach another daemon.
const orphanPause = 5 * time.Second

// chase repeats an attempt in the background until it succeeds, at most for Config.Reconnect. After
// that, the next start of the daemon tries again.
func (r *Registry) chase(try func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return
	}
	r.tasks.Go(func() {
		for end := time.Now().Add(r.config.Reconnect); !try() && time.Now().Before(end); {
			select {
			case <-time.After(orphanPause):
			case <-r.ctx.Done():
				return
			}
		}
	})
}

// secondLook is the time after which orphans are looked for once more: a request that a daemon sent
// before it died may have arrived in the meantime.
const secondLook = 5 * time.Second

// lookTwice looks now, and again after secondLook. It returns the first error, or one if the daemon
// ends.
func (r *Registry) lookTwice(look func() error) error {
	if err := look(); err != nil {
		return err
	}
	select {
	case <-time.After(secondLook):
		return look()
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// removeUncreated removes a dialogue whose creation was never answered, and its sessions. It
// reports whether nothing is left.
func (r *Registry) removeUncreated(a about) bool {
	if at := a.Params.Remote; at != nil {
		if err := r.lookTwice(func() error { return endRemoteSessions(r.ctx, *at, a.ID) }); err != nil {
			r.log.Error("another daemon may still have a session of an agent", "dialogue_id", a.ID, "error", err)
			return false
		}
	}
	r.endLocalOrphans(a.ID, "")
	rec := record{dir: filepath.Join(r.config.Dir, a.ID)}
	if err := rec.remove(); err != nil && !os.IsNotExist(err) {
		r.log.Error("record of a dialogue cannot be removed", "dialogue_id", a.ID, "error", err)
	}
	return true
}

// endLocalOrphans ends the sessions of a dialogue in this daemon, except the one that it owns.
func (r *Registry) endLocalOrphans(id, owned string) {
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

// chaseOrphansLocked ends the sessions that an ended dialogue may have on another daemon, in the
// background.
func (d *Dialogue) chaseOrphansLocked() {
	if d.about.Orphan && d.about.Created && d.about.Params.Remote != nil {
		d.registry.chase(func() bool { return d.endOrphans() == nil })
	}
}

// endOrphans ends the sessions that an ended dialogue may have on another daemon.
func (d *Dialogue) endOrphans() error {
	err := d.registry.lookTwice(func() error {
		select {
		case d.starting <- struct{}{}: // a session that is being started right now is not an orphan
			defer func() { <-d.starting }()
			return d.killOrphans()
		case <-d.registry.ctx.Done():
			return context.Cause(d.registry.ctx)
		}
	})
	if err != nil {
		return err
	}
	d.starting <- struct{}{}
	defer func() { <-d.starting }()
	d.mu.Lock()
	ended := d.process == nil && d.about.Orphan
	d.mu.Unlock()
	if ended {
		return d.noteOrphan(false)
	}
	return nil
}

// killOrphans is one attempt of endOrphans. The caller holds starting.
func (d *Dialogue) killOrphans() error {
	d.mu.Lock()
	at, stray := d.about.Params.Remote, d.about.Orphan && d.process == nil
	d.mu.Unlock()
	if at == nil || !stray {
		return nil
	}
	if err := endRemoteSessions(d.registry.ctx, *at, d.id); err != nil {
		d.log.Error("another daemon may still have a session of the agent", "error", err)
		e := api.AsError(err)
		return api.Errorf(e.Code, "dialogue %q: its agent may still run over there, and cannot be ended: %s", d.id, e.Message)
	}
	return nil
}
