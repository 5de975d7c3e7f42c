package transcript

import (
	"cmp"
	"iter"
	"slices"

	"github.com/trl-dev/trl/api"
)

// over is what the last event says is over, of which tool calls may be left open.
type over struct {
	turn  *string // a turn that was not completed
	done  string  // a turn that was
	scope string  // a sub-transcript: its task, or its tool call, has ended
	idle  bool    // the agent rests
}

// Follow returns what follows from the event that was applied last, for the record to have
// it: tool calls that were left open and can have no result any more are cancelled. They
// are not applied.
//
// An agent that is interrupted does not tell of each tool call that it left: not of those
// of its subagents, and some not of their own. A call of the agent itself is over when its
// turn is, and that of a subagent when the subagent's task has ended, or its
// tool call has, unless a task goes on with it; and when the agent rests without any. Work
// whose task still runs goes on, whatever its turn came to. A result that comes after all
// replaces what is said here.
func (t *Tracker) Follow() []api.DialogueEvent {
	if t.over == (over{}) || t.items.len() == 0 {
		return nil
	}
	working := t.working()
	var left []*item
	for _, it := range t.items.each() {
		if it.call() && t.left(it, working) {
			left = append(left, it)
		}
	}
	t.deepestFirst(left)
	var events []api.DialogueEvent
	for _, it := range left {
		events = append(events, it.event(statusAborted, toolCancelled))
	}
	return events
}

// working has the tool calls whose tasks run.
func (t *Tracker) working() map[string]bool {
	calls := make(map[string]bool, t.tasks.len())
	for _, task := range t.tasks.each() {
		if task.ToolCallID != "" {
			calls[task.ToolCallID] = true
		}
	}
	return calls
}

// left reports whether a tool call that is open is part of what is over, or in what is.
func (t *Tracker) left(it *item, working map[string]bool) bool {
	if t.over.done != "" {
		return t.forgotten(it, working)
	}
	ofTurn, top := t.ofTurn(it), it
	for scope := range t.above(it.scope) {
		if working[scope] {
			return false
		}
		if scope == t.over.scope {
			return true
		}
		if call, open := t.items.get(scope); open {
			ofTurn, top = ofTurn || t.ofTurn(call), call
		}
	}
	return ofTurn || t.over.idle && top.scope != ""
}

// forgotten reports whether a tool call, or one that it is below, is of the turn that was
// completed, and no task goes on with it: its result will not come any more.
func (t *Tracker) forgotten(it *item, working map[string]bool) bool {
	own := func(call *item) bool { return call.scope == "" && call.whole.TurnID == t.over.done }
	for scope := range t.above(it.scope) {
		if working[scope] {
			return false
		}
		if call, open := t.items.get(scope); open && own(call) {
			return true
		}
	}
	return own(it) && !working[it.whole.ItemID]
}

func (t *Tracker) ofTurn(it *item) bool {
	return t.over.turn != nil && (it.whole.TurnID == "" || it.whole.TurnID == *t.over.turn)
}

// above goes from a scope to the one that it is in, as far as is known.
func (t *Tracker) above(scope string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for range maxDepth {
			if scope == "" || !yield(scope) {
				return
			}
			if it, open := t.items.get(scope); open {
				scope = it.scope
			} else {
				scope, _ = t.callsClosed.Get(scope)
			}
		}
	}
}

// Lost returns the events that close everything that is open, in an order in which nothing
// is closed before what it contains. They are not applied.
func (t *Tracker) Lost() []api.DialogueEvent {
	var events []api.DialogueEvent
	for _, r := range t.requests.each() {
		closed := api.DialogueRequest{RequestID: r.RequestID, Kind: r.Kind, Tool: r.Tool, ToolCallID: r.ToolCallID, TaskID: r.TaskID, How: statusLost}
		events = append(events, api.DialogueEvent{Type: api.DialogueEventRequestClosed, Request: &closed})
	}
	var items []*item
	for _, it := range t.items.each() {
		items = append(items, it)
	}
	t.deepestFirst(items)
	for _, it := range items {
		events = append(events, it.event(statusLost, statusLost))
	}
	for _, task := range t.tasksDeepestFirst() {
		task.Status = statusLost
		events = append(events, api.DialogueEvent{Type: api.DialogueEventTask, Task: &task})
	}
	for id := range t.messages.each() {
		events = append(events, api.DialogueEvent{Type: api.DialogueEventMessage, Message: &api.DialogueMessage{MessageID: id, State: statusLost}})
	}
	for _, turn := range t.turns.each() {
		turn.Outcome = statusLost
		events = append(events, api.DialogueEvent{Type: api.DialogueEventTurnEnded, Turn: &turn})
	}
	return events
}

// event tells that the item is closed.
func (i *item) event(status, tool string) api.DialogueEvent {
	it := i.closed(status, tool)
	return api.DialogueEvent{Type: api.DialogueEventItem, Scope: i.scope, Item: &it}
}

func (t *Tracker) deepestFirst(items []*item) {
	depth := make(map[*item]int, len(items))
	for _, it := range items {
		for range t.above(it.scope) {
			depth[it]++
		}
	}
	slices.SortStableFunc(items, func(a, b *item) int { return cmp.Compare(depth[b], depth[a]) })
}

func (t *Tracker) tasksDeepestFirst() []api.DialogueTask {
	tasks := make([]api.DialogueTask, 0, t.tasks.len())
	depth := make(map[string]int, t.tasks.len())
	for id, task := range t.tasks.each() {
		tasks = append(tasks, task)
		for above, ok := task, true; ok && above.ParentID != "" && depth[id] < maxDepth; depth[id]++ {
			above, ok = t.tasks.get(above.ParentID)
		}
	}
	slices.SortStableFunc(tasks, func(a, b api.DialogueTask) int { return cmp.Compare(depth[b.TaskID], depth[a.TaskID]) })
	return tasks
}
