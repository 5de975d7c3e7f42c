package dialogue

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/journal"
)

// Recover finds the dialogues of earlier daemons. If the agent's process still lives, the dialogue
// goes on; otherwise its open requests, items and tasks are lost. The sessions must be recovered
// before.
//
// Reading a long conversation takes a while, so that happens in the background. Meanwhile the
// dialogue is listed with the basics of its record; only callers that ask for this dialogue wait
// (see Dialogue.ready).
func (r *Registry) Recover(ctx context.Context) error {
	list, err := os.ReadDir(r.config.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	published := r.publishedDialogues()
	turns := make(chan struct{}, runtime.NumCPU())
	for _, e := range list {
		switch {
		case ctx.Err() != nil || !e.IsDir():
		case strings.HasPrefix(e.Name(), removedPrefix):
			_ = os.RemoveAll(filepath.Join(r.config.Dir, e.Name()))
		case strings.HasPrefix(e.Name(), "d-"):
			r.recoverOne(e.Name(), published[e.Name()], turns)
		}
	}
	r.announceLost(published)
	r.sweepSoon()
	return nil
}

// recoverOne registers one dialogue of an earlier daemon, and recovers it in the background. turns
// bounds how many records are read at the same time.
func (r *Registry) recoverOne(id string, published journal.PublishedDialogue, turns chan struct{}) {
	dir := filepath.Join(r.config.Dir, id)
	rec, a, err := openRecord(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && emptyRecord(dir), err == nil && !a.Created: // no client got its id
		r.log.Warn("dialogue was incomplete when its daemon died; removed it", "dialogue_id", id)
		r.tasks.Go(func() { r.removeUncreated(id) })
		return
	case err != nil: // perhaps a later version wrote it: leave it alone
		r.log.Warn("record of a dialogue cannot be read", "dialogue_id", id, "error", err)
		return
	}
	release, err := r.config.Sessions.Hold()
	if err != nil {
		release = func() {} // the daemon is ending anyway
	}
	d := r.newDialogue(rec, a)
	d.announced = announced{created: published.State != "", state: published.State, seq: published.Seq}
	d.starting <- struct{}{} // Resume waits until the dialogue is recovered
	ready := make(chan struct{})
	if a.Info != nil { // it has ended, and Info is all that is needed
		d.setEnded(a.Info)
		close(ready)
	}
	d.ready, d.basics = ready, basicInfo(a)
	r.mu.Lock()
	r.dialogues[d.id] = d
	r.mu.Unlock()
	r.tasks.Go(func() {
		defer release()
		defer func() { <-d.starting }()
		owned := ""
		if a.Info == nil {
			turns <- struct{}{}
			var err error
			owned, err = d.recover()
			<-turns
			if err != nil {
				r.drop(d, err)
			}
			d.endRecovery(ready)
			if err != nil {
				return
			}
		}
		r.endOrphans(a.ID, owned)
	})
}

// endRecovery wakes the callers that wait for the dialogue.
func (d *Dialogue) endRecovery(ready chan struct{}) {
	close(ready)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process != nil {
		d.armReportLocked() // countPages has left it out
	}
}

// setEnded makes a new dialogue one that has ended.
func (d *Dialogue) setEnded(info *api.DialogueInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if info.Capabilities == nil { // an earlier version wrote the snapshot
		basics := basicInfo(d.about)
		info.Capabilities, info.Modes, info.Policy, info.Remote = basics.Capabilities, basics.Modes, basics.Policy, basics.Remote
	}
	d.info, d.seq = info, info.Seq
	d.moveLocked(api.DialogueEnded)
	d.announceLocked()
}

// drop gives up a dialogue that cannot be recovered. Its record stays on the disk.
func (r *Registry) drop(d *Dialogue, why error) {
	d.mu.Lock()
	d.removed = true // for callers that wait for it
	d.moveLocked(api.DialogueEnded)
	d.record.end()
	d.announceRemovedLocked()
	sessionID := d.about.SessionID
	d.mu.Unlock()
	r.mu.Lock()
	delete(r.dialogues, d.id)
	r.mu.Unlock()
	r.log.Error("dialogue cannot be recovered; its agent may still run in the session", "dialogue_id", d.id, "session_id", sessionID, "error", why)
}

// recover takes over the process of an earlier daemon, or publishes that it has ended. It returns
// the id of the session in which the process lives; empty when it has ended.
func (d *Dialogue) recover() (sessionID string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.recoverLocked(); err != nil || d.state == api.DialogueEnded {
		return "", err
	}
	return d.about.SessionID, nil
}

func (d *Dialogue) recoverLocked() error {
	d.resetLocked()
	var first int64 // the number of the first event of this process
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
	if _, last, _, _ := d.record.state(); d.announced.seq > last { // the machine stopped before the record was on the disk
		d.announced.seq = last
	}
	known, err := d.record.since(first)
	if err != nil {
		return err
	}
	defer known.close()
	if over { // the end was published, but dialogue.json does not have it
		for ev := known.pop(); ev != nil; ev = known.pop() {
			d.applyLocked(*ev)
		}
		d.moveLocked(api.DialogueEnded)
		d.settleLocked()
		d.announceLocked()
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
	d.process = p
	if err := d.rejoinLocked(p, known); err != nil {
		d.log.Warn("record of the dialogue has a gap", "error", err)
	}
	if !p.opening.isSettled() { // the earlier daemon died before the agent had answered
		d.registry.tasks.Go(func() { d.endUnlessAnswered(p) })
	}
	if d.moveLocked(d.liveStateLocked(p)); d.published == api.DialogueError { // the agent is searched for again
		d.publishOwnLocked(p, api.DialogueEvent{Type: api.DialogueEventState, State: d.state})
	}
	d.applyPolicyLocked(p)
	d.watchStallLocked(p)
	d.armLingerLocked()
	d.flushLocked()
	d.startGoroutines(p)
	return nil
}

// endUnlessAnswered ends a process of an earlier daemon if the agent does not answer in time.
func (d *Dialogue) endUnlessAnswered(p *agentProcess) {
	select {
	case <-p.opening.settled:
	case <-time.After(d.registry.config.StartTimeout):
	case <-p.done:
		return
	}
	d.mu.Lock()
	answered := p.opening.step == openAnswered
	d.mu.Unlock()
	if !answered {
		d.end(errNoAnswer.Error(), alreadyClosed)
	}
}

// findProgramLocked finds the program that an earlier daemon started.
func (d *Dialogue) findProgramLocked() program {
	s, err := d.registry.config.Sessions.Get(d.about.SessionID)
	if err != nil {
		return vanished{d.about.SessionID, d.about.ExecID}
	}
	return newInSession(s, d.about.ExecID, d.registry.config.Reconnect)
}
