package acp

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
)

// toolCall is a new tool call, or a change of one. An absent field does not change.
type toolCall struct {
	ToolCallID, Title, Name, Kind, Status string
	Content                               json.RawMessage // of a chunk: one block; of a tool call: a list
	Locations                             []struct{ Path string }
	RawInput, RawOutput                   json.RawMessage
}

// toolKinds translate ACP's kinds of tools.
var toolKinds = map[string]string{
	"read": "read", "edit": "edit", "delete": "edit", "move": "edit", "search": "search", "execute": "execute", "fetch": "fetch",
}

// definedKinds are the kinds of tools that ACP defines.
var definedKinds = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}

// tool is a tool call with all its changes so far.
type tool struct {
	item  api.DialogueItem
	files []string // the files that the agent names
	about subject
	// announced says that the agent has shown the call, asked that it has asked for permission.
	announced, asked bool
	denied           bool // its request was denied
	named            bool // the agent has sent the name of the tool, not only its kind
}

// The messages about a tool call, besides updates.
const (
	announced = "tool_call"
	asked     = "session/request_permission"
)

// toolCall handles an update of a tool call.
func (a *protocol) toolCall(u toolCall, told string) *tool {
	var t *tool
	for _, known := range a.tools { // the last one with the id counts
		if known.item.NativeID == u.ToolCallID {
			t = known
		}
	}
	if t == nil || t.isAnother(u, told) {
		a.finishText("final")
		a.forgetTools()
		t = &tool{item: api.DialogueItem{
			ItemID: a.IDs.Item(), NativeID: u.ToolCallID, Kind: "tool_call", TurnID: a.turnID(), Status: "final", Tool: &api.DialogueToolCall{Kind: "other", Status: "pending"},
		}}
		a.tools = append(a.tools, t)
	}
	t.announced, t.asked = t.announced || told == announced, t.asked || told == asked
	t.change(u)
	return t
}

// isAnother reports whether an update is for another call than the last one with the same
// id: model servers number the calls of every answer from zero. A call that has ended does
// not start again; an update of a call that has not ended is for the same call.
func (t *tool) isAnother(u toolCall, told string) bool {
	if t.over() || t.denied {
		return told == announced || told == asked || u.Status == "pending" || u.Status == "in_progress"
	}
	title, input := t.item.Tool.Title, string(t.item.Tool.Input)
	raw := jsonrpc.NotNull(u.RawInput)
	if input == "{}" && raw != nil && told == announced && !t.asked && t.item.Tool.Status == "pending" && (u.Kind == "" || cmp.Or(toolKinds[u.Kind], "other") == t.item.Tool.Kind) {
		return false // claude-code-acp announces a call again when the model has written its input
	}
	again := told == announced && t.announced || told == asked && (t.asked || raw == nil && input != "" && input != "{}")
	return again && (title != "" && u.Title != "" && u.Title != title ||
		input != "" && input != "{}" && raw != nil && string(raw) != input)
}

// change applies a change to the call.
func (t *tool) change(u toolCall) {
	tool := t.item.Tool
	if u.Kind != "" {
		tool.Kind = cmp.Or(toolKinds[u.Kind], "other")
	}
	if t.named = t.named || u.Name != ""; u.Name != "" || !t.named {
		kind := u.Kind
		if kind != "" && !slices.Contains(definedKinds, kind) {
			kind = "other" // the tool is unknown: a rule for execute must not miss a kind like shell
		}
		tool.Name = cmp.Or(u.Name, kind, tool.Name, "other") // most agents send only the kind
	}
	tool.Title = cmp.Or(u.Title, tool.Title)
	if raw := jsonrpc.NotNull(u.RawInput); raw != nil {
		tool.Input = raw
	}
	if raw := jsonrpc.NotNull(u.RawOutput); raw != nil {
		tool.Structured = raw
	}
	if u.Locations != nil {
		t.files = nil
		for _, l := range u.Locations {
			if l.Path != "" {
				t.files = append(t.files, l.Path)
			}
		}
	}
	switch u.Status {
	case "pending", "completed", "failed":
		tool.Status = u.Status
	case "in_progress":
		tool.Status = "running"
	}
	var content []json.RawMessage
	if json.Unmarshal(u.Content, &content) == nil && content != nil {
		tool.Output = nil
		for _, raw := range content {
			tool.Output = append(tool.Output, contentPart(raw))
		}
	}
	t.about = findSubject(tool, t.files)
	if tool.Subject = ""; !t.about.request().SubjectGuessed() {
		tool.Subject = t.about.text
	}
}

func contentPart(raw json.RawMessage) api.DialoguePart {
	var c struct {
		Type, Path, OldText, NewText string
		Content                      json.RawMessage
	}
	json.Unmarshal(raw, &c)
	switch c.Type {
	case "content":
		return jsonrpc.Part(c.Content)
	case "diff":
		return api.DialoguePart{Type: "diff", Path: c.Path, Old: c.OldText, Text: c.NewText}
	}
	return api.DialoguePart{Type: "data", Data: raw}
}

// publishTool publishes a copy of the call, because the call itself may still change.
func (a *protocol) publishTool(t *tool) {
	told, tool := t.item, *t.item.Tool
	told.Tool = &tool
	a.Publish(api.DialogueEvent{Type: api.DialogueEventItem, NativeID: told.NativeID, Item: &told})
}

// over reports whether a tool call has ended.
func (t *tool) over() bool {
	return slices.Contains([]string{"completed", "failed", "cancelled"}, t.item.Tool.Status)
}

// maxKeptTools is how many ended tool calls are kept, because an agent may still change them.
const maxKeptTools = 100

// forgetTools drops the oldest tool calls that have ended.
func (a *protocol) forgetTools() {
	most := len(a.tools) - maxKeptTools
	a.tools = slices.DeleteFunc(a.tools, func(t *tool) bool {
		if most <= 0 || !t.over() {
			return false
		}
		most--
		return true
	})
}

// closeTools cancels the tool calls whose end the agent has not reported.
func (a *protocol) closeTools() {
	for _, t := range a.tools {
		if !t.over() {
			t.item.Tool.Status = "cancelled"
			a.publishTool(t)
		}
	}
	a.forgetTools()
}

// request is an open request of the agent.
type request struct {
	jsonrpc.Asked
	name    string // our id
	tool    *tool
	options []api.DialogueOption
}

// optionKinds translate ACP's kinds of options.
var optionKinds = map[string]string{
	"allow_once": "allow", "allow_always": "allow_always", "reject_once": "deny", "reject_always": "deny_always",
}

// Request implements jsonrpc.Peer. TRL answers only requests for permission; it has told the agent
// that it offers no files and terminals.
func (a *protocol) Request(m jsonrpc.Message) (why string) {
	if m.Method != "session/request_permission" {
		return "unknown_type"
	}
	var p struct {
		SessionID string
		ToolCall  toolCall
		Options   []struct{ OptionID, Name, Kind string }
	}
	json.Unmarshal(m.Params, &p)
	if ours := cmp.Or(a.session, a.options.Resume); ours == "" || p.SessionID != ours {
		return "another_session"
	}
	if p.ToolCall.ToolCallID == "" || len(p.Options) == 0 {
		return "bad_shape"
	}
	if slices.ContainsFunc(a.requests, func(r *request) bool { return r.Is(m) }) {
		a.Step.Ignored = m.Method + " (repeated)"
		return ""
	}
	r := &request{name: a.IDs.Request(), Asked: m.Asked()}
	for _, o := range p.Options {
		r.options = append(r.options, api.DialogueOption{ID: o.OptionID, Label: o.Name, Kind: optionKinds[o.Kind]})
	}
	r.tool = a.toolCall(p.ToolCall, asked)
	tool := r.tool.item.Tool
	tool.Status = "awaiting_approval"
	a.publishTool(r.tool)
	a.requests = append(a.requests, r)
	ask := r.tool.about.request()
	ask.RequestID, ask.NativeID, ask.Kind, ask.Tool, ask.ToolCallID = r.name, m.NativeID(), "permission", tool.Name, r.tool.item.ItemID
	ask.Title, ask.Input, ask.Options = tool.Title, tool.Input, r.options
	a.Publish(api.DialogueEvent{Type: api.DialogueEventRequestOpened, Request: &ask})
	return ""
}

func (a *protocol) respond(answer agent.Response) *api.Error {
	i := slices.IndexFunc(a.requests, func(r *request) bool { return r.name == answer.RequestID })
	if i < 0 {
		return api.Errorf(api.CodeConflict, "request %q is not waiting for an answer", answer.RequestID)
	}
	r := a.requests[i]
	if answer.Input != nil {
		return api.Errorf(api.CodeInvalidParams, "input: ACP does not let the input of a tool be changed")
	}
	if len(answer.Answers) > 0 {
		return api.Errorf(api.CodeInvalidParams, "answers: a permission needs a decision or an option")
	}
	option, err := r.choose(answer)
	if err != nil {
		return err
	}
	decision, outcome := "deny", params{"outcome": "cancelled"}
	if option != nil {
		outcome = params{"outcome": "selected", "optionId": option.ID}
		if decision, err = jsonrpc.Decision(answer, *option); err != nil {
			return err
		}
	}
	a.requests = slices.Delete(a.requests, i, i+1)
	a.Reply(r.ID, params{"outcome": outcome})
	a.Publish(api.DialogueEvent{Type: api.DialogueEventRequestClosed, Request: &api.DialogueRequest{RequestID: r.name, Kind: "permission", How: "answered", Decision: decision, By: answer.By, AnsweredBy: answer.AnsweredBy}})
	if decision == "allow" {
		r.tool.item.Tool.Status = "running"
		a.publishTool(r.tool)
	} else if p := a.turn(); p != nil {
		p.denials = append(p.denials, r.tool.item.ItemID)
	}
	r.tool.denied = decision == "deny"
	if decision == "deny" && answer.Message != "" {
		a.Notice("warning", "not_told", "ACP has no field for the reason of a denial; the agent did not get it: "+answer.Message)
	}
	if decision == "deny" && answer.Interrupt {
		a.interrupt(false)
	}
	return nil
}

// choose finds the option that fits an answer. It returns nil for a denial without an option, for
// which ACP has the outcome cancelled. An answer that allows once never chooses a permanent
// permission, even if the agent offers nothing else.
func (r *request) choose(answer agent.Response) (*api.DialogueOption, *api.Error) {
	find := func(fits func(api.DialogueOption) bool) *api.DialogueOption {
		if i := slices.IndexFunc(r.options, fits); i >= 0 {
			return &r.options[i]
		}
		return nil
	}
	kind := func(kinds ...string) *api.DialogueOption {
		for _, k := range kinds {
			if o := find(func(o api.DialogueOption) bool { return o.Kind == k }); o != nil {
				return o
			}
		}
		return nil
	}
	switch {
	case answer.Option != "":
		o := find(func(o api.DialogueOption) bool { return o.ID == answer.Option })
		if o == nil {
			return nil, api.Errorf(api.CodeInvalidParams, "option %.80q is not one of the request's", answer.Option)
		}
		return o, nil
	case answer.Decision == "deny":
		return kind("deny", "deny_always"), nil
	}
	kinds := []string{"allow"}
	if answer.Remember {
		kinds = []string{"allow_always", "allow"}
	}
	if o := kind(kinds...); o != nil {
		return o, nil
	}
	return nil, api.Errorf(api.CodeInvalidParams, "decision: the agent does not offer to allow this once; give one of its options")
}

// withdraw closes requests that need no decision any more. It still answers them, because
// the agent may wait for the answer.
func (a *protocol) withdraw(by string, which func(*request) bool) {
	a.requests = slices.DeleteFunc(a.requests, func(r *request) bool {
		if !which(r) {
			return false
		}
		a.Reply(r.ID, params{"outcome": params{"outcome": "cancelled"}})
		a.Publish(api.DialogueEvent{Type: api.DialogueEventRequestClosed, Request: &api.DialogueRequest{RequestID: r.name, Kind: "permission", How: "withdrawn", By: by}})
		return true
	})
}
