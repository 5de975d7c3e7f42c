package dialogue

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/trl-dev/trl/api"
)

// A session of an agent that nobody owns would live for ever. There are two ways to one: a
// daemon died between making it and noting it, and another daemon could not be reached when
// it was to end. Here such sessions are known by their tag; over there they are looked for
// when the record says that there may be one (about.Stray), until they are gone.

// chasePause is how often another daemon is asked that could not be reached.
const orphanPause = 5 * time.Second

// chase tries in the background until it is done, as long as another daemon is looked for.
// After that the next start does.
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

// lateTime is after how long it is looked once more: what a daemon asked for before it died
// may still have been on its way.
const secondLook = 5 * time.Second

// lookTwice looks now and once more. It is an error when one of them is, or the daemon ends.
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

// removeUncreated removes the remains of a dialogue whose creation was never answered. It reports
// whether nothing is left.
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

// endLocalOrphans ends the sessions of a dialogue in this daemon, other than the one it owns.
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

// chaseOrphansLocked looks for the sessions of a dialogue that has ended until they are gone, when
// there may be any. mu is held.
func (d *Dialogue) chaseOrphansLocked() {
	if d.about.Orphan && d.about.Created && d.about.Params.Remote != nil {
		d.registry.chase(func() bool { return d.endOrphans() == nil })
	}
}

// endOrphans ends the sessions over there of a dialogue that has ended, when there may be any.
func (d *Dialogue) endOrphans() error {
	err := d.registry.lookTwice(func() error {
		select {
		case d.starting <- struct{}{}: // what is being started is none
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

// killOrphans is one look for them. moving is held.
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
