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
const chasePause = 5 * time.Second

// chase tries in the background until it is done, as long as another daemon is looked for.
// After that the next start does.
func (h *Host) chase(try func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return
	}
	h.tasks.Go(func() {
		for end := time.Now().Add(h.config.Reconnect); !try() && time.Now().Before(end); {
			select {
			case <-time.After(chasePause):
			case <-h.ctx.Done():
				return
			}
		}
	})
}

// lateTime is after how long it is looked once more: what a daemon asked for before it died
// may still have been on its way.
const lateTime = 5 * time.Second

// twice looks now and once more. It is an error when one of them is, or the daemon ends.
func (h *Host) twice(look func() error) error {
	if err := look(); err != nil {
		return err
	}
	select {
	case <-time.After(lateTime):
		return look()
	case <-h.ctx.Done():
		return context.Cause(h.ctx)
	}
}

// undone removes the remains of a dialogue whose creation was never answered. It reports
// whether nothing is left.
func (h *Host) undone(a about) bool {
	if at := a.Params.Remote; at != nil {
		if err := h.twice(func() error { return endThere(h.ctx, *at, a.ID) }); err != nil {
			h.log.Error("another daemon may still have a session of an agent", "dialogue_id", a.ID, "error", err)
			return false
		}
	}
	h.endStraysHere(a.ID, "")
	r := record{dir: filepath.Join(h.config.Dir, a.ID)}
	if err := r.remove(); err != nil && !os.IsNotExist(err) {
		h.log.Error("record of a dialogue cannot be removed", "dialogue_id", a.ID, "error", err)
	}
	return true
}

// endStraysHere ends the sessions of a dialogue in this daemon, other than the one it owns.
func (h *Host) endStraysHere(id, owned string) {
	for _, s := range h.config.Registry.List() {
		if s.ID() == owned || s.Info().Owner() != id {
			continue
		}
		h.log.Warn("ended an orphaned session of an agent", "dialogue_id", id, "session_id", s.ID())
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		if err := s.Kill(ctx); err != nil {
			h.log.Error("session of the agent has not ended", "session_id", s.ID(), "error", err)
		}
		cancel()
	}
}

// chaseStrays looks for the sessions of a dialogue that has ended until they are gone, when
// there may be any. mu is held.
func (d *Dialogue) chaseStrays() {
	if d.about.Stray && d.about.Created && d.about.Params.Remote != nil {
		d.host.chase(func() bool { return d.endStrays() == nil })
	}
}

// endStrays ends the sessions over there of a dialogue that has ended, when there may be any.
func (d *Dialogue) endStrays() error {
	err := d.host.twice(func() error {
		select {
		case d.moving <- struct{}{}: // what is being started is none
			defer func() { <-d.moving }()
			return d.killStrays()
		case <-d.host.ctx.Done():
			return context.Cause(d.host.ctx)
		}
	})
	if err != nil {
		return err
	}
	d.moving <- struct{}{}
	defer func() { <-d.moving }()
	d.mu.Lock()
	ended := d.process == nil && d.about.Stray
	d.mu.Unlock()
	if ended {
		return d.noteStray(false)
	}
	return nil
}

// killStrays is one look for them. moving is held.
func (d *Dialogue) killStrays() error {
	d.mu.Lock()
	at, stray := d.about.Params.Remote, d.about.Stray && d.process == nil
	d.mu.Unlock()
	if at == nil || !stray {
		return nil
	}
	if err := endThere(d.host.ctx, *at, d.id); err != nil {
		d.log.Error("another daemon may still have a session of the agent", "error", err)
		e := api.AsError(err)
		return api.Errorf(e.Code, "dialogue %q: its agent may still run over there, and cannot be ended: %s", d.id, e.Message)
	}
	return nil
}
