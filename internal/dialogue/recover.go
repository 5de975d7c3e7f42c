package dialogue

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
)

// Recover finds the dialogues of earlier daemons. Those whose program lives go on; of the
// others what was open is lost. It is called after the registry has recovered its sessions.
//
// A long conversation takes a while to read. That is done in the background: who asks for
// that dialogue waits (see Dialogue.known), and the rest of the daemon does not.
func (r *Registry) Recover(ctx context.Context) error {
	list, err := os.ReadDir(r.config.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	turns := make(chan struct{}, runtime.NumCPU())
	for _, e := range list {
		switch {
		case ctx.Err() != nil || !e.IsDir():
		case strings.HasPrefix(e.Name(), removedPrefix):
			_ = os.RemoveAll(filepath.Join(r.config.Dir, e.Name()))
		case strings.HasPrefix(e.Name(), "d-"):
			r.recoverOne(e.Name(), turns)
		}
	}
	r.sweepSoon()
	return nil
}

// recoverOne finds one dialogue. Those who read much of the disk for it take turns.
func (r *Registry) recoverOne(id string, turns chan struct{}) {
	dir := filepath.Join(r.config.Dir, id)
	rec, a, err := openRecord(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && emptyRecord(dir), err == nil && !a.Created: // nobody was told of it
		r.log.Warn("dialogue was incomplete when its daemon died; removed it", "dialogue_id", id)
		a.ID = id
		r.chase(func() bool { return r.removeUncreated(a) })
		return
	case err != nil: // it is not ours to understand
		r.log.Warn("record of a dialogue cannot be read", "dialogue_id", id, "error", err)
		return
	}
	release, err := r.config.Sessions.Hold()
	if err != nil {
		release = func() {} // the daemon ends anyway
	}
	d := r.newDialogue(rec, a)
	d.starting <- struct{}{} // it is resumed when it is known what there is of it
	known := make(chan struct{})
	if a.Info != nil {
		d.info, d.state, d.seq = a.Info, api.DialogueEnded, a.Info.Seq
	} else {
		d.ready, d.basics = known, basicInfo(a)
	}
	r.mu.Lock()
	r.dialogues[d.id] = d
	r.mu.Unlock()
	r.tasks.Go(func() {
		defer release()
		defer func() { <-d.starting }()
		owned := ""
		if a.Info == nil {
			turns <- struct{}{}
			d.mu.Lock()
			err := d.recoverLocked()
			if d.state != api.DialogueEnded {
				owned = a.SessionID
			}
			d.mu.Unlock()
			<-turns
			if err != nil {
				r.drop(d, err)
				close(known)
				return
			}
			close(known)
		}
		r.endLocalOrphans(a.ID, owned)
		d.mu.Lock()
		d.chaseOrphansLocked()
		d.mu.Unlock()
	})
}

// basicInfo is what can be said of a dialogue before its events are read: it is being
// started again.
func basicInfo(a about) api.DialogueInfo {
	p := a.Params
	info := api.DialogueInfo{
		DialogueID: a.ID, Name: p.Name, Agent: p.Agent, State: api.DialogueStarting, SessionID: a.SessionID, NativeSession: a.Options.Resume,
		WorkingDir: cmp.Or(a.Options.WorkingDir, p.WorkingDir), Runtime: p.Runtime, Model: p.Model, PermissionMode: p.PermissionMode,
		Tags: p.Tags, Epoch: a.Epoch, CreatedAt: a.CreatedAt, LastActivity: a.CreatedAt,
	}
	if info.Tags == nil {
		info.Tags = []string{}
	}
	return info
}

// drop lets go of a dialogue that cannot be taken over. What there is of it stays.
func (r *Registry) drop(d *Dialogue, why error) {
	d.mu.Lock()
	d.removed, d.state = true, api.DialogueEnded // for who has found it meanwhile
	d.record.end()
	sessionID := d.about.SessionID
	d.mu.Unlock()
	r.mu.Lock()
	delete(r.dialogues, d.id)
	r.mu.Unlock()
	r.log.Error("dialogue cannot be recovered; its agent may still run in the session", "dialogue_id", d.id, "session_id", sessionID, "error", why)
}

// recoverLocked takes over the process that an earlier daemon had, or closes what it left open.
// mu is held.
func (d *Dialogue) recoverLocked() error {
	d.resetLocked()
	var first int64 // event of this process
	over := false
	err := d.record.repair(d.log, func(ev api.DialogueEvent) {
		if ev.Epoch < d.about.Epoch {
			d.applyLocked(ev)
		} else if over = ev.Type == api.DialogueEventEnded; first == 0 {
			first = ev.Seq
		}
	})
	if err != nil {
		return err
	}
	known, err := d.record.since(first)
	if err != nil {
		return err
	}
	defer known.close()
	if over { // all was told, but it was not noted
		for ev := known.pop(); ev != nil; ev = known.pop() {
			d.applyLocked(*ev)
		}
		d.state = api.DialogueEnded
		d.settleLocked()
		return nil
	}
	if err := d.record.begin(d.about.Epoch); err != nil {
		return err
	}
	a, err := findAgent(d.about.Params.Agent)
	if err != nil {
		return err
	}
	p := d.newProcess(d.findProgramLocked(), a.New(d.about.Options))
	d.state, d.process = api.DialogueStarting, p
	if err := d.rejoinLocked(p, known); err != nil {
		d.log.Warn("record of the dialogue has a gap", "error", err)
	}
	if !p.isReady { // the earlier daemon died before the agent had answered
		d.registry.tasks.Go(func() { d.endUnlessAnswered(p) })
	}
	if d.toLocked(d.liveStateLocked(p)); d.published == api.DialogueError { // it is looked for anew
		d.publishOwnLocked(p, api.DialogueEvent{Type: api.DialogueEventState, State: d.state})
	}
	d.applyPolicyLocked(p)
	d.watchStallLocked(p)
	d.armLingerLocked()
	d.flushLocked()
	d.startGoroutines(p)
	return nil
}

// endUnlessAnswered ends a process of an earlier daemon that does not answer, as start would have.
func (d *Dialogue) endUnlessAnswered(p *agentProcess) {
	select {
	case <-p.ready:
	case <-time.After(d.registry.config.StartTimeout):
	case <-p.done:
		return
	}
	d.mu.Lock()
	ready := p.isReady && p.failed == ""
	d.mu.Unlock()
	if !ready {
		d.end(errNoAnswer.Error(), alreadyClosed)
	}
}

// findProgramLocked is the program of an earlier daemon. mu is held.
func (d *Dialogue) findProgramLocked() program {
	if r := d.about.Params.Remote; r != nil {
		return adoptRemote(*r, d.registry.config.Reconnect, d.about.SessionID, d.about.ExecID)
	}
	s, err := d.registry.config.Sessions.Get(d.about.SessionID)
	if err != nil {
		return vanished{d.about.SessionID, d.about.ExecID}
	}
	return newLocal(s, d.about.ExecID)
}
