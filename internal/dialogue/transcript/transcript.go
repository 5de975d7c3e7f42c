// Package transcript reduces the events of a dialogue: to the open turns, items, tasks and
// requests (Tracker), and to the tree that dialogue.transcript returns (Tree). Both are pure:
// the result depends only on the events, in order, and they do not change the events.
//
// Both ignore an event whose number is not above that of the previous one.
package transcript

import (
	"cmp"
	"time"

	"github.com/trl-dev/trl/api"
)

// maxDepth bounds the nesting of sub-transcripts. The scopes of an agent's items may nest deeper,
// or form a circle.
const maxDepth = 100

// Words in events on which this package decides.
const (
	kindAgent = "agent" // a tool call that starts a subagent

	statusStreaming = "streaming"
	statusAborted   = "aborted"
	statusLost      = "lost"

	toolCompleted = "completed"
	toolFailed    = "failed"
	toolCancelled = "cancelled"

	taskRunning = "running"
	kindOther   = "other" // a task of unknown kind

	turnCompleted = "completed"

	messageStarted = "started"
	messageDone    = "done"
)

// progress is the state of a dialogue after its last event, which Tracker and Tree share.
type progress struct {
	seq   int64
	epoch int
	told  api.DialogueState // as in the last event, before open requests make it requires_action
	ended *api.DialogueEnd
	usage usage
}

// take applies an event. It returns false for an event that was applied before.
func (c *progress) take(ev api.DialogueEvent) bool {
	if ev.Seq != 0 && ev.Seq <= c.seq {
		return false
	}
	c.seq = max(c.seq, ev.Seq)
	if ev.Epoch > c.epoch {
		c.epoch = ev.Epoch
		c.told, c.ended = api.DialogueStarting, nil
	}
	switch {
	case ev.Type == api.DialogueEventState && ev.State != api.DialogueRequiresAction && ev.State != "":
		c.told = ev.State
	case ev.Type == api.DialogueEventEnded:
		c.told, c.ended = api.DialogueEnded, &api.DialogueEnd{}
		if ev.Ended != nil {
			*c.ended = *ev.Ended
		}
	case ev.Type == api.DialogueEventUsage && ev.Usage != nil:
		c.usage.take(c.epoch, *ev.Usage)
	}
	return true
}

// state is the state of the dialogue with that many open requests.
func (c *progress) state(waiting int) api.DialogueState {
	switch {
	case c.told == "":
		return api.DialogueStarting
	case c.told == api.DialogueEnded || c.told == api.DialogueError || waiting == 0:
		return c.told
	}
	return api.DialogueRequiresAction
}

// usage adds up the usage of all processes. Each figure counts from the start of its process.
type usage struct {
	epoch  int
	before api.DialogueUsage // of the processes before epoch
	now    api.DialogueUsage // the last figure of epoch
}

func (u *usage) take(epoch int, figure api.DialogueUsage) {
	if epoch != u.epoch {
		u.epoch, u.before = epoch, u.total()
	}
	u.now = figure
}

func (u *usage) total() api.DialogueUsage {
	sum := api.DialogueUsage{
		InputTokens:      u.before.InputTokens + u.now.InputTokens,
		OutputTokens:     u.before.OutputTokens + u.now.OutputTokens,
		CacheReadTokens:  u.before.CacheReadTokens + u.now.CacheReadTokens,
		CacheWriteTokens: u.before.CacheWriteTokens + u.now.CacheWriteTokens,
		ContextTokens:    cmp.Or(u.now.ContextTokens, u.before.ContextTokens),
		ContextWindow:    cmp.Or(u.now.ContextWindow, u.before.ContextWindow),
	}
	for _, cost := range []*float64{u.before.CostUSD, u.now.CostUSD} {
		if cost == nil {
			continue
		}
		if sum.CostUSD == nil {
			sum.CostUSD = new(float64)
		}
		*sum.CostUSD += *cost
	}
	return sum
}

// openRequest is a request as it opens, without an answer.
func openRequest(r api.DialogueRequest, at time.Time) api.DialogueRequest {
	if !at.IsZero() {
		r.OpenedAt = &at
	}
	r.How, r.Decision, r.By, r.EffectiveInput = "", "", "", nil
	r.AnsweredBy, r.AnsweredAt = nil, nil
	return r
}

// closeRequest is the request r with the answer in by, given at that time. A closed request does not
// change.
func closeRequest(r, by api.DialogueRequest, at time.Time) api.DialogueRequest {
	if r.How != "" {
		return r
	}
	if r.RequestID == "" {
		r = by
	}
	r.How, r.Decision, r.By, r.EffectiveInput = cmp.Or(by.How, "answered"), by.Decision, by.By, by.EffectiveInput
	r.AnsweredBy = by.AnsweredBy
	if r.How == "answered" && !at.IsZero() {
		r.AnsweredAt = &at
	}
	return r
}

// updateTask is a task with the fields of a newer event. Absent fields do not change.
func updateTask(task, newer api.DialogueTask) api.DialogueTask {
	task.TaskID = newer.TaskID
	task.NativeID = cmp.Or(newer.NativeID, task.NativeID)
	task.ToolCallID = cmp.Or(newer.ToolCallID, task.ToolCallID)
	task.ParentID = cmp.Or(newer.ParentID, task.ParentID)
	task.Name = cmp.Or(newer.Name, task.Name)
	task.Depth = cmp.Or(newer.Depth, task.Depth)
	task.Background = newer.Background || task.Background
	task.Status = cmp.Or(newer.Status, task.Status, taskRunning)
	task.Summary = cmp.Or(newer.Summary, task.Summary)
	task.Usage = cmp.Or(newer.Usage, task.Usage)
	if task.Kind == "" || newer.Kind != "" && newer.Kind != kindOther {
		task.Kind = cmp.Or(newer.Kind, kindOther)
	}
	return task
}

// startTurn is a turn with the fields of its turn_started event.
func startTurn(turn, newer api.DialogueTurn) api.DialogueTurn {
	turn = updateTurn(turn, newer)
	turn.Outcome = ""
	return turn
}

// endTurn is a turn with the fields of its turn_ended event.
func endTurn(turn, newer api.DialogueTurn) api.DialogueTurn {
	turn = updateTurn(turn, newer)
	turn.Outcome = cmp.Or(turn.Outcome, turnCompleted)
	return turn
}

// updateTurn is a turn with the fields of a newer event. Absent fields do not change.
func updateTurn(turn, newer api.DialogueTurn) api.DialogueTurn {
	turn.TurnID = newer.TurnID
	turn.Trigger = cmp.Or(newer.Trigger, turn.Trigger)
	turn.Outcome = cmp.Or(newer.Outcome, turn.Outcome)
	turn.Native = cmp.Or(newer.Native, turn.Native)
	turn.Text = cmp.Or(newer.Text, turn.Text)
	turn.Usage = cmp.Or(newer.Usage, turn.Usage)
	turn.DurationMS = cmp.Or(newer.DurationMS, turn.DurationMS)
	turn.Steps = cmp.Or(newer.Steps, turn.Steps)
	if len(newer.Messages) > 0 {
		turn.Messages = newer.Messages
	}
	if len(newer.Denials) > 0 {
		turn.Denials = newer.Denials
	}
	return turn
}
