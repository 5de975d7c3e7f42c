package claude

import (
	"bytes"
	"encoding/json"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/recent"
)

// callIndex finds tool calls by the ids of the model's server. Several calls may have the same
// id: in one answer after the other, or in a subagent and in its parent.
type callIndex struct {
	last   *recent.Map[string] // our id of the last call with a native id, in any scope
	inside *recent.Map[string] // our id of the last call, by scope and native id
	agents *recent.Map[string] // our id of the last call that starts a subagent, by native id
	// awaited has our ids of calls that the program has mentioned but not yet shown: old
	// versions report a subagent before the call that starts it.
	awaited *recent.Map[string]
	native  *recent.Map[string] // native ids, by ours
	// inputs are the inputs that answers to requests gave to calls instead of the model's.
	inputs *recent.Map[json.RawMessage]
}

// newCall makes the id of a new tool call.
func (p *protocol) newCall(scope string, b block) string {
	id, _ := p.calls.awaited.Get(b.ID)
	if id == "" {
		id = p.ids.Item()
	}
	p.calls.awaited.Put(b.ID, "")
	p.calls.last.Put(b.ID, id)
	p.calls.native.Put(id, b.ID)
	p.calls.inside.Put(scope+" "+b.ID, id)
	if toolKind(b) == "agent" {
		p.calls.agents.Put(b.ID, id)
	}
	return id
}

// awaitCall is the id of a tool call that the program has not shown yet.
func (p *protocol) awaitCall(native string) string {
	id, _ := p.calls.awaited.Get(native)
	if id == "" {
		id = p.ids.Item()
		p.calls.awaited.Put(native, id)
		p.calls.native.Put(id, native)
	}
	return id
}

// scope is our id of the tool call whose subagent a line comes from.
func (p *protocol) scope(native, task string) string {
	if native == "" {
		return ""
	}
	if t, known := p.knownTask(task); known && t.ToolCallID != "" {
		return t.ToolCallID
	}
	if id, known := p.calls.agents.Get(native); known {
		return id
	}
	if id, known := p.calls.last.Get(native); known {
		return id
	}
	return p.awaitCall(native)
}

// openCall is the tool call in a scope that has the native id and no result yet; of several the
// first, because results come in order. It returns nil if there is none.
func (p *protocol) openCall(scope, native string, fits func(*tool) bool) *tool {
	for _, id := range p.toolOrder {
		if t := p.tools[id]; t.open() && t.scope == scope && t.item.NativeID == native && fits(t) {
			return t
		}
	}
	return nil
}

// call is the tool call that a result belongs to; nil if the program has not shown it.
func (p *protocol) call(scope, native string) *tool {
	if t := p.openCall(scope, native, func(*tool) bool { return true }); t != nil {
		return t
	}
	id, _ := p.calls.inside.Get(scope + " " + native)
	return p.tools[id]
}

// askingCall is our id of the tool call that a request is about.
func (p *protocol) askingCall(in controlRequest) string {
	if in.ToolUseID == "" {
		return ""
	}
	scope := ""
	if t, known := p.knownTask(in.AgentID); known {
		scope = t.ToolCallID
	}
	for _, fits := range []func(*tool) bool{
		func(t *tool) bool {
			return t.item.Tool.Status == "running" && bytes.Equal(t.item.Tool.Input, in.Input)
		},
		func(t *tool) bool { return t.item.Tool.Status == "running" },
	} {
		if t := p.openCall(scope, in.ToolUseID, fits); t != nil {
			return t.item.ItemID
		}
	}
	return p.callID(in.ToolUseID)
}

// callID is our id of the last tool call with a native id.
func (p *protocol) callID(native string) string {
	if native == "" {
		return ""
	}
	if id, known := p.calls.last.Get(native); known {
		return id
	}
	return p.awaitCall(native)
}

// taskID is our id of the task with a native id.
func (p *protocol) taskID(native string) string {
	if native == "" {
		return ""
	}
	id, known := p.taskIDs.Get(native)
	if !known {
		id = p.ids.Task()
		p.taskIDs.Put(native, id)
	}
	return id
}

// changeInput records that an answer gave the tool another input than the model's.
func (p *protocol) changeInput(id string, input json.RawMessage) {
	p.calls.inputs.Put(id, input)
	if t := p.tools[id]; t != nil {
		t.changeInput(input)
		p.publishTool(t)
	}
}

func (t *tool) changeInput(input json.RawMessage) {
	tool := t.item.Tool
	tool.EffectiveInput = input
	s := toolSubject(tool.Name, input)
	tool.Subject, tool.Title = s.text, s.title
}

// resolveScope replaces the native id in the scope of a line by ours.
func (p *protocol) resolveScope(l *wireLine) {
	if l.Type != "tool_progress" { // whose scope is the tool itself
		l.Scope = p.scope(l.Scope, l.text("agent_id"))
	}
}

// newText makes the item of a text, or returns the one that is being written.
func (p *protocol) newText(scope, message, key string) api.DialogueItem {
	item := api.DialogueItem{ItemID: p.writtenAs(scope, key), NativeID: message, Kind: "agent", Status: "final"}
	if item.ItemID == "" {
		item.ItemID = p.ids.Item()
	}
	return item
}
