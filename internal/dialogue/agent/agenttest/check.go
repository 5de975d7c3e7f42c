package agenttest

import (
	"fmt"
	"slices"

	"github.com/trl-dev/trl/api"
)

// Check fails the test if something is wrong with the transcript after everything in it was
// closed: an id that comes twice, or something that is still open.
func (k *Talk) Check() {
	k.t.Helper()
	r := k.Tree.Result()
	ids := map[string]bool{}
	var walk func([]api.DialogueItem)
	walk = func(items []api.DialogueItem) {
		for _, it := range items {
			if it.ItemID == "" || ids[it.ItemID] {
				k.t.Errorf("item id %q: empty, or twice in the transcript", it.ItemID)
			}
			ids[it.ItemID] = true
			if it.Status == "streaming" {
				k.t.Errorf("item %s is still open", it.ItemID)
			}
			if (it.Tool != nil) != (it.Kind == "tool_call") {
				k.t.Errorf("item %s: kind %s does not fit", it.ItemID, it.Kind)
			}
			if it.Tool != nil {
				if slices.Contains([]string{"pending", "awaiting_approval", "running", ""}, it.Tool.Status) {
					k.t.Errorf("tool call %s is still %q", it.ItemID, it.Tool.Status)
				}
				walk(it.Tool.Items)
			}
		}
	}
	walk(r.Items)
	for _, turn := range r.Turns {
		if turn.Outcome == "" {
			k.t.Errorf("turn %s is still open", turn.TurnID)
		}
	}
	for _, task := range r.Tasks {
		if task.Status == "running" {
			k.t.Errorf("task %s still runs", task.TaskID)
		}
	}
	for _, q := range r.Requests {
		if q.How == "" {
			k.t.Errorf("request %s still waits", q.RequestID)
		}
	}
}

// misfit says what is wrong with an event; empty when nothing is. An event has the body of its
// type and no other.
func misfit(ev api.DialogueEvent) string {
	bodies := map[string]bool{
		"opened": ev.Opened != nil, "state": ev.State != "", "turn": ev.Turn != nil, "item": ev.Item != nil,
		"delta": ev.Delta != nil, "retracted": len(ev.Retracted) > 0, "task": ev.Task != nil, "request": ev.Request != nil,
		"message": ev.Message != nil, "usage": ev.Usage != nil, "retry": ev.Retry != nil, "notice": ev.Notice != nil, "unparsed": ev.Unparsed != nil,
	}
	want := map[api.DialogueEventType]string{
		api.DialogueEventOpened: "opened", api.DialogueEventReset: "opened", api.DialogueEventState: "state", api.DialogueEventTurnStarted: "turn", api.DialogueEventTurnEnded: "turn",
		api.DialogueEventItem: "item", api.DialogueEventDelta: "delta", api.DialogueEventRetracted: "retracted", api.DialogueEventTask: "task", api.DialogueEventRequestOpened: "request",
		api.DialogueEventRequestClosed: "request", api.DialogueEventMessage: "message", api.DialogueEventUsage: "usage", api.DialogueEventCompacted: "notice", api.DialogueEventRetry: "retry",
		api.DialogueEventNotice: "notice", api.DialogueEventUnparsed: "unparsed",
	}[ev.Type]
	if want == "" {
		return "a protocol does not publish events of this type"
	}
	for body, set := range bodies {
		if set != (body == want) {
			return fmt.Sprintf("body %s: set %v", body, set)
		}
	}
	switch {
	case ev.Type == api.DialogueEventState && ev.State != api.DialogueIdle && ev.State != api.DialogueRunning:
		return "a protocol publishes only the states running and idle"
	case ev.Item != nil && (ev.Item.ItemID == "" || ev.Item.Kind == "" || ev.Item.Status == "" || len(ev.Item.Parts) > 0 && ev.Item.Parts[0].Type == ""):
		return "an item needs an id, a kind and a status"
	case ev.Item != nil && (ev.Item.Tool != nil) != (ev.Item.Kind == "tool_call"):
		return "a tool call, and nothing else, has a tool"
	case ev.Turn != nil && (ev.Turn.TurnID == "" || (ev.Type == api.DialogueEventTurnEnded) != (ev.Turn.Outcome != "")):
		return "a turn needs an id, and an outcome exactly when it has ended"
	case ev.Task != nil && (ev.Task.TaskID == "" || ev.Task.Kind == "" || ev.Task.Status == ""):
		return "a task needs an id, a kind and a status"
	case ev.Request != nil && (ev.Request.RequestID == "" || (ev.Type == api.DialogueEventRequestClosed) != (ev.Request.How != "")):
		return "a request needs an id, and how exactly when it is closed"
	case ev.Unparsed != nil && (ev.Unparsed.Why == "" || len(ev.Unparsed.Text) > 3*4096):
		return "what is unparsed needs a reason, and the beginning of its text"
	case ev.Notice != nil && (ev.Notice.Level == "" || ev.Notice.Code == ""):
		return "a notice needs a level and a code"
	}
	return ""
}
