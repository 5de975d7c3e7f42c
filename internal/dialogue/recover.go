package dialogue

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/trl-dev/trl/api"
)

// Recover finds the dialogues of earlier daemons. Those whose program lives go on; of the
// others what was open is lost. It is called after the registry has recovered its sessions.
func (h *Host) Recover(ctx context.Context) error {
	list, err := os.ReadDir(h.config.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), "d-") || !e.IsDir() || ctx.Err() != nil {
			continue
		}
		if owned, ok := h.find(e.Name()); ok {
			h.endStrays(e.Name(), owned)
		}
	}
	h.nudge()
	return nil
}

// find finds one dialogue, and tells which session it owns, when that is known.
func (h *Host) find(id string) (sessionID string, ok bool) {
	dir := filepath.Join(h.config.Dir, id)
	r, a, err := openRecord(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && emptyRecord(dir): // it was being made
		_ = os.RemoveAll(dir)
		return "", true
	case err == nil && !a.Created: // nobody was told of it
		h.log.Warn("dialogue was not complete when its daemon died, and is undone", "dialogue_id", id)
		_ = os.RemoveAll(dir)
		return "", true
	case err != nil: // it is not ours to understand
		h.log.Warn("record of a dialogue cannot be read", "dialogue_id", id, "error", err)
		return "", false
	}
	d := h.newDialogue(r, a)
	if a.Info != nil {
		d.info, d.state, d.seq = a.Info, api.DialogueEnded, a.Info.Seq
	} else if err := d.recover(); err != nil {
		r.end()
		h.log.Error("dialogue cannot be taken over", "dialogue_id", id, "error", err)
		return "", false
	}
	h.mu.Lock()
	h.dialogues[d.id] = d
	h.mu.Unlock()
	if info := d.Info(); info.State != api.DialogueEnded {
		return info.SessionID, true
	}
	return "", true
}

// endStrays ends the sessions of a dialogue other than the one it owns: a daemon died
// between making one and noting it, and nobody would ever end it.
func (h *Host) endStrays(id, owned string) {
	for _, s := range h.config.Registry.List() {
		if s.ID() == owned || s.Info().Owner() != id {
			continue
		}
		h.log.Warn("session of an agent was not noted by the daemon that made it, and is ended", "dialogue_id", id, "session_id", s.ID())
		h.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
			defer cancel()
			if err := s.Kill(ctx); err != nil {
				h.log.Error("session of the agent is not gone", "session_id", s.ID(), "error", err)
			}
		})
	}
}

// recover takes over the process that an earlier daemon had, or closes what it left open.
func (d *Dialogue) recover() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reset()
	var known []api.DialogueEvent
	err := d.record.load(func(ev api.DialogueEvent) {
		if ev.Epoch < d.about.Epoch {
			d.apply(nil, ev)
		} else {
			known = append(known, ev)
		}
	})
	if err != nil {
		return err
	}
	if n := len(known); n > 0 && known[n-1].Type == api.ToldEnded { // all was told, but it was not noted
		for _, ev := range known {
			d.apply(nil, ev)
		}
		d.state = api.DialogueEnded
		d.settle()
		return nil
	}
	if err := d.record.begin(d.about.Epoch); err != nil {
		return err
	}
	a, err := findAgent(d.about.Params.Agent)
	if err != nil {
		return err
	}
	p := d.newProcess(d.find(), a.New(d.about.Options))
	d.state, d.process = api.DialogueStarting, p
	if err := d.rejoin(p, known); err != nil {
		d.log.Warn("record of the dialogue has a gap", "error", err)
	}
	if !p.isReady { // its first daemon died before the agent had answered
		p.isReady, p.base = true, api.DialogueIdle
		close(p.ready)
	}
	d.to(d.recovered(p))
	d.attend(p)
	d.watchSilence(p)
	d.flush()
	d.run(p)
	return nil
}

// find is the program of an earlier daemon. mu is held.
func (d *Dialogue) find() program {
	if r := d.about.Params.Remote; r != nil {
		return findRemote(*r, d.host.config.Reconnect, d.about.SessionID, d.about.ExecID)
	}
	s, err := d.host.config.Registry.Get(d.about.SessionID)
	if err != nil {
		return vanished{d.about.SessionID, d.about.ExecID}
	}
	return newLocal(s, d.about.ExecID)
}
