package dialogue

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/journal"
)

// announced is how much of a dialogue is in the journal of the daemon, which event.subscribe pushes.
// The journal keeps it for the next daemon.
type announced struct {
	created bool
	state   api.DialogueState
	seq     int64 // the last event of the dialogue that was considered
}

// collectLocked keeps an event of the record for announceLocked, if subscribers want to know of it
// and the journal does not have it.
func (d *Dialogue) collectLocked(ev api.DialogueEvent) {
	if ev.Seq <= d.announced.seq {
		return
	}
	d.announced.seq = ev.Seq
	out := api.StreamEvent{At: &ev.At, DialogueSeq: ev.Seq}
	switch {
	case ev.Type == api.DialogueEventState:
		out.Type, out.State = api.EventDialogueState, ev.State
	case ev.Type == api.DialogueEventRequestOpened && ev.Request != nil:
		out.Type, out.RequestID = api.EventDialogueRequestOpened, ev.Request.RequestID
	case ev.Type == api.DialogueEventRequestClosed && ev.Request != nil:
		out.Type, out.RequestID = api.EventDialogueRequestClosed, ev.Request.RequestID
	case ev.Type == api.DialogueEventTurnEnded && ev.Turn != nil:
		out.Type, out.TurnID = api.EventDialogueTurnEnded, ev.Turn.TurnID
	case ev.Type == api.DialogueEventEnded && ev.Ended != nil:
		out.Type, out.State, out.Cause = api.EventDialogueEnded, api.DialogueEnded, ev.Ended.Cause
	default:
		return
	}
	d.news = append(d.news, out)
}

// announceLocked publishes the collected events, which are in the record, and then the state of the
// dialogue if that is still another one. A dialogue that could not be created is never announced.
func (d *Dialogue) announceLocked() {
	if !d.about.Created || d.removed {
		return
	}
	var list []api.StreamEvent
	if !d.announced.created {
		d.announced.created, d.announced.state = true, api.DialogueStarting
		at := d.created.UTC()
		list = append(list, d.describedLocked(api.StreamEvent{Type: api.EventDialogueCreated, At: &at}))
	}
	for _, ev := range d.news {
		d.announced.state = cmp.Or(ev.State, d.announced.state)
		list = append(list, d.describedLocked(ev))
	}
	d.news = nil
	d.publishToJournal(list...)
	d.announceStateLocked()
}

// announceStateLocked publishes the state of the dialogue, if the journal has another one. No event
// in the record has a state that depends on this daemon: a full disk, a start, the end in a record
// that could not be written.
func (d *Dialogue) announceStateLocked() {
	if !d.announced.created || d.removed || d.announced.state == d.state {
		return
	}
	d.announced.state = d.state
	at := time.Now().UTC()
	ev := api.StreamEvent{Type: api.EventDialogueState, At: &at}
	if d.state == api.DialogueEnded {
		ev.Type = api.EventDialogueEnded
		if d.info != nil && d.info.Ended != nil {
			ev.Cause, ev.DialogueSeq = d.info.Ended.Cause, d.info.Seq
		}
	}
	d.publishToJournal(d.describedLocked(ev))
}

// announceRemovedLocked publishes that the record of the dialogue is deleted.
func (d *Dialogue) announceRemovedLocked() {
	if !d.announced.created {
		return
	}
	d.announced.created = false
	at := time.Now().UTC()
	d.publishToJournal(d.describedLocked(api.StreamEvent{Type: api.EventDialogueRemoved, At: &at}))
}

// describedLocked completes an event of this dialogue.
func (d *Dialogue) describedLocked(ev api.StreamEvent) api.StreamEvent {
	ev.DialogueID, ev.Name, ev.SessionID = d.id, d.name, d.about.SessionID
	ev.State = cmp.Or(ev.State, d.announced.state)
	return ev
}

func (d *Dialogue) publishToJournal(events ...api.StreamEvent) {
	if j := d.registry.config.Journal; j != nil {
		j.PublishDialogue(events...)
	}
}

// publishedDialogues returns the dialogues as the journal knows them.
func (r *Registry) publishedDialogues() map[string]journal.PublishedDialogue {
	if r.config.Journal == nil {
		return nil
	}
	return r.config.Journal.Dialogues()
}

// announceLost publishes the removal of dialogues whose records were deleted while no daemon ran.
func (r *Registry) announceLost(published map[string]journal.PublishedDialogue) {
	at := time.Now().UTC()
	for _, id := range slices.Sorted(maps.Keys(published)) {
		r.mu.Lock()
		_, known := r.dialogues[id]
		r.mu.Unlock()
		if !known {
			r.config.Journal.PublishDialogue(api.StreamEvent{Type: api.EventDialogueRemoved, At: &at, DialogueID: id, Name: published[id].Name, State: published[id].State})
		}
	}
}
