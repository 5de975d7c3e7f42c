package dialogue

import (
	"regexp"
	"sync"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// aliases map the ids that this version of trl makes to the ids that an older version recorded for
// the same process, so that later events continue the recorded items and answers find their
// requests. It is empty if the record has no such ids.
type aliases struct {
	recorded map[string]string // the recorded id, by the id that this version makes
	made     map[string]string // the id that this version makes, by the recorded id
}

// madeHere matches ids of this version.
var madeHere = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[ikrt]\d+\.\d+$`) })

// learn compares an event of this version with the recorded event that it stands for.
func (a *aliases) learn(made, recorded api.DialogueEvent) {
	switch {
	case made.Item != nil && recorded.Item != nil && made.Item.Kind == recorded.Item.Kind:
		a.put(made.Item.ItemID, recorded.Item.ItemID)
	case made.Task != nil && recorded.Task != nil && made.Task.Kind == recorded.Task.Kind:
		a.put(made.Task.TaskID, recorded.Task.TaskID)
	case made.Request != nil && recorded.Request != nil && made.Request.Tool == recorded.Request.Tool:
		a.put(made.Request.RequestID, recorded.Request.RequestID)
	case made.Turn != nil && recorded.Turn != nil:
		a.put(made.Turn.TurnID, recorded.Turn.TurnID)
	}
}

// adopt handles an event of this version that was not recorded. An item, task or request that is
// open in the record under the agent's own id is the same thing.
func (a *aliases) adopt(made api.DialogueEvent, open func(id string) bool) {
	id, native := "", ""
	switch {
	case made.Item != nil:
		id, native = made.Item.ItemID, made.Item.NativeID
	case made.Task != nil:
		id, native = made.Task.TaskID, made.Task.NativeID
	case made.Request != nil:
		id, native = made.Request.RequestID, made.Request.NativeID
	}
	if native != "" && open(native) {
		a.put(id, native)
	}
}

func (a *aliases) put(made, recorded string) {
	if made == recorded || !madeHere().MatchString(made) || recorded == "" || madeHere().MatchString(recorded) {
		return
	}
	if a.recorded == nil {
		a.recorded, a.made = map[string]string{}, map[string]string{}
	}
	a.recorded[made], a.made[recorded] = recorded, made
}

// renamed returns an event of this version with recorded ids.
func (a *aliases) renamed(ev api.DialogueEvent) api.DialogueEvent {
	if len(a.recorded) == 0 {
		return ev
	}
	rename := func(ids ...*string) {
		for _, id := range ids {
			if recorded, known := a.recorded[*id]; known {
				*id = recorded
			}
		}
	}
	all := func(ids []string) []string {
		ids = append([]string(nil), ids...) // the protocol may keep the slice
		for i := range ids {
			rename(&ids[i])
		}
		return ids
	}
	rename(&ev.Scope)
	ev.Retracted = all(ev.Retracted)
	if ev.Item != nil {
		item := *ev.Item
		rename(&item.ItemID, &item.TurnID)
		if item.Tool != nil {
			tool := *item.Tool
			rename(&tool.TaskID)
			item.Tool = &tool
		}
		ev.Item = &item
	}
	if ev.Delta != nil {
		delta := *ev.Delta
		rename(&delta.ItemID)
		ev.Delta = &delta
	}
	if ev.Task != nil {
		task := *ev.Task
		rename(&task.TaskID, &task.ToolCallID, &task.ParentID)
		ev.Task = &task
	}
	if ev.Request != nil {
		request := *ev.Request
		rename(&request.RequestID, &request.ToolCallID, &request.TaskID)
		ev.Request = &request
	}
	if ev.Turn != nil {
		turn := *ev.Turn
		rename(&turn.TurnID)
		turn.Denials = all(turn.Denials)
		ev.Turn = &turn
	}
	return ev
}

// call returns a call with the ids of this version.
func (a *aliases) call(c agent.Call) agent.Call {
	if c.Respond == nil {
		return c
	}
	if made, known := a.made[c.Respond.RequestID]; known {
		response := *c.Respond
		response.RequestID = made
		c.Respond = &response
	}
	return c
}
