package transcript

import (
	"cmp"
	"iter"
	"slices"

	"github.com/trl-dev/trl/api"
)

// finished is the work that the last event has ended. Tool calls in it may still be open.
type finished struct {
	turn  *string // a turn that did not complete; nil for none
	done  string  // a turn that completed
	scope string  // a sub-transcript, whose task or tool call has ended
	idle  bool    // the agent is idle
}

// Follow returns the events that follow from the event applied last: they cancel open tool calls
// that cannot get a result any more. The caller records and applies them.
//
// An interrupted agent does not report the end of every tool call: no agent does for the calls of
// its subagents, and some not for their own. A call of the agent itself ends with its turn. A call
// of a subagent ends when the subagent's task or tool call has ended and no other task continues
// it, and when the agent is idle. A call whose task still runs stays open, however its turn ended.
// A late result replaces the cancelled call.
func (t *Tracker) Follow() []api.DialogueEvent {
	if t.finished == (finished{}) || t.items.len() == 0 {
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

// working are the tool calls whose tasks run.
func (t *Tracker) working() map[string]bool {
	calls := make(map[string]bool, t.tasks.len())
	for _, task := range t.tasks.each() {
		if task.ToolCallID != "" {
			calls[task.ToolCallID] = true
		}
	}
	return calls
}

// left reports whether an open tool call belongs to finished work, at any depth.
func (t *Tracker) left(it *item, working map[string]bool) bool {
	if t.finished.done != "" {
		return t.forgotten(it, working)
	}
	ofTurn, top := t.ofTurn(it), it
	for scope := range t.above(it.scope) {
		if working[scope] {
			return false
		}
		if scope == t.finished.scope {
			return true
		}
		if call, open := t.items.get(scope); open {
			ofTurn, top = ofTurn || t.ofTurn(call), call
		}
	}
	return ofTurn || t.finished.idle && top.scope != ""
}

// forgotten reports whether a tool call, or one above it, belongs to the completed turn, and no
// task continues it. Its result will not come any more.
func (t *Tracker) forgotten(it *item, working map[string]bool) bool {
	own := func(call *item) bool { return call.scope == "" && call.whole.TurnID == t.finished.done }
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
	return t.finished.turn != nil && (it.whole.TurnID == "" || it.whole.TurnID == *t.finished.turn)
}

// above yields a scope and the scopes around it, innermost first, as far as they are known.
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

// Lost returns the events that close everything that is open, the innermost first. The caller
// records and applies them.
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

// event is the event that closes the item.
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
