package dialogue

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/trl-dev/trl/api"
)

// Recover finds the dialogues of earlier daemons. Those whose program lives go on; of the
// others what was open is lost. It is called after the registry has recovered its sessions.
//
// A long conversation takes a while to read, and nobody who does not ask for it has to wait:
// it is done in the background, with the dialogue's mu held.
func (h *Host) Recover(ctx context.Context) error {
	list, err := os.ReadDir(h.config.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	turns := make(chan struct{}, runtime.NumCPU())
	for _, e := range list {
		if strings.HasPrefix(e.Name(), "d-") && e.IsDir() && ctx.Err() == nil {
			h.find(e.Name(), turns)
		}
	}
	h.nudge()
	return nil
}

// find finds one dialogue. Those who read much of the disk for it take turns.
func (h *Host) find(id string, turns chan struct{}) {
	dir := filepath.Join(h.config.Dir, id)
	r, a, err := openRecord(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && emptyRecord(dir), err == nil && !a.Created: // nobody was told of it
		h.log.Warn("dialogue was not complete when its daemon died, and is undone", "dialogue_id", id)
		a.ID = id
		h.tasks.Go(func() {
			if h.endStrays(a, "") {
				_ = os.RemoveAll(dir)
			}
		})
		return
	case err != nil: // it is not ours to understand
		h.log.Warn("record of a dialogue cannot be read", "dialogue_id", id, "error", err)
		return
	}
	release, err := h.config.Registry.Hold()
	if err != nil {
		release = func() {} // the daemon ends anyway
	}
	d := h.newDialogue(r, a)
	d.moving <- struct{}{} // it is resumed when it is known what there is of it
	d.mu.Lock()
	h.mu.Lock()
	h.dialogues[d.id] = d
	h.mu.Unlock()
	if a.Info != nil {
		d.info, d.state, d.seq = a.Info, api.DialogueEnded, a.Info.Seq
		d.mu.Unlock()
	}
	h.tasks.Go(func() {
		defer release()
		defer func() { <-d.moving }()
		owned := ""
		if a.Info == nil {
			turns <- struct{}{}
			err := d.recover()
			<-turns
			if d.state != api.DialogueEnded {
				owned = a.SessionID
			}
			d.mu.Unlock()
			if err != nil {
				h.drop(d, err)
				return
			}
		}
		if h.endStrays(a, owned) && a.Starting {
			_ = d.noteStarting(false)
		}
	})
}

// drop lets go of a dialogue that cannot be taken over. What there is of it stays.
func (h *Host) drop(d *Dialogue, why error) {
	h.log.Error("dialogue cannot be taken over", "dialogue_id", d.id, "error", why)
	h.mu.Lock()
	delete(h.dialogues, d.id)
	h.mu.Unlock()
	d.mu.Lock()
	d.removed, d.state = true, api.DialogueEnded // for who has found it meanwhile
	d.record.end()
	d.mu.Unlock()
}

// endStrays ends the sessions of a dialogue other than the one it owns: a daemon died
// between making one and noting it, and nobody would ever end it. It reports whether there
// can be none any more.
func (h *Host) endStrays(a about, owned string) bool {
	if at := a.Params.Remote; at != nil {
		if a.Created && !a.Starting {
			return true // it need not be asked
		}
		err := endThere(h.ctx, *at, a.ID, owned)
		if err != nil {
			h.log.Error("session of an agent may be left on another daemon; the next start looks for it again", "dialogue_id", a.ID, "error", err)
		}
		return err == nil
	}
	for _, s := range h.config.Registry.List() {
		if s.ID() == owned || s.Info().Owner() != a.ID {
			continue
		}
		h.log.Warn("session of an agent was not noted by the daemon that made it, and is ended", "dialogue_id", a.ID, "session_id", s.ID())
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		if err := s.Kill(ctx); err != nil {
			h.log.Error("session of the agent is not gone", "session_id", s.ID(), "error", err)
		}
		cancel()
	}
	return true
}

// recover takes over the process that an earlier daemon had, or closes what it left open.
// mu is held.
func (d *Dialogue) recover() error {
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
