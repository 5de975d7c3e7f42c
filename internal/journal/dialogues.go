package journal

import (
	"cmp"
	"maps"

	"github.com/trl-dev/trl/api"
)

// PublishedDialogue is the last state that the journal published for a dialogue. It is part of
// the file: see beginning.
type PublishedDialogue struct {
	Name  string            `json:"name,omitempty"`
	State api.DialogueState `json:"state"`
	// Seq is the number, in the dialogue, of the last event that was published.
	Seq int64 `json:"seq"`
}

// PublishDialogue publishes events of a dialogue. The caller knows which of them are new.
func (j *Journal) PublishDialogue(events ...api.StreamEvent) {
	if len(events) == 0 {
		return
	}
	j.lockDecoded()
	defer j.mu.Unlock()
	defer j.scheduleWrite()
	for _, ev := range events {
		j.publishLocked(ev)
	}
}

// Dialogues returns the published dialogues that are not removed, by id.
func (j *Journal) Dialogues() map[string]PublishedDialogue {
	j.lockDecoded()
	defer j.mu.Unlock()
	return maps.Clone(j.dialogues)
}

// applyDialogueLocked updates the published state with an event of a dialogue.
func (j *Journal) applyDialogueLocked(ev *api.StreamEvent) {
	if ev.Type == api.EventDialogueRemoved {
		delete(j.dialogues, ev.DialogueID)
		return
	}
	d := j.dialogues[ev.DialogueID]
	j.dialogues[ev.DialogueID] = PublishedDialogue{Name: ev.Name, State: cmp.Or(ev.State, d.State), Seq: cmp.Or(ev.DialogueSeq, d.Seq)}
}
