package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
)

// acpToolCall is a tool call, or what has changed of one: what is absent stays.
type acpToolCall struct {
	ToolCallID, Title, Name, Kind, Status string
	Content                               json.RawMessage // of a chunk: one block; of a tool call: a list
	Locations                             []struct{ Path string }
	RawInput, RawOutput                   json.RawMessage
}

// acpKinds are the kinds of tools as TRL has them.
var acpKinds = map[string]string{
	"read": "read", "edit": "edit", "delete": "edit", "move": "edit", "search": "search", "execute": "execute", "fetch": "fetch",
}

func (a *acpProtocol) toolCall(u acpToolCall) *api.DialogueItem {
	i := slices.IndexFunc(a.tools, func(t *api.DialogueItem) bool { return t.ItemID == u.ToolCallID })
	if i < 0 {
		a.finishText("final")
		a.tools = append(a.tools, &api.DialogueItem{
			ItemID: u.ToolCallID, Kind: "tool_call", TurnID: a.turnID(), Status: "final", Tool: &api.DialogueToolCall{Kind: "other", Status: "pending"},
		})
		i = len(a.tools) - 1
	}
	item := a.tools[i]
	u.into(item.Tool)
	a.tellTool(item)
	return item
}

// into puts what is told into what was told before.
func (u acpToolCall) into(tool *api.DialogueToolCall) {
	if u.Kind != "" {
		tool.Kind = cmp.Or(acpKinds[u.Kind], "other")
	}
	if unnamed := tool.Name == "" || tool.Name == "other"; u.Name != "" || unnamed {
		tool.Name = cmp.Or(u.Name, u.Kind, "other") // Most agents tell only of what kind a tool is.
	}
	tool.Title = cmp.Or(u.Title, tool.Title)
	if raw := rpcNotNull(u.RawInput); raw != nil {
		tool.Input = raw
	}
	if raw := rpcNotNull(u.RawOutput); raw != nil {
		tool.Structured = raw
	}
	if subject := u.subject(tool.Kind); subject != "" {
		tool.Subject = subject
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
			tool.Output = append(tool.Output, acpContent(raw))
		}
	}
}

func acpContent(raw json.RawMessage) api.DialoguePart {
	var c struct {
		Type, Path, OldText, NewText string
		Content                      json.RawMessage
	}
	json.Unmarshal(raw, &c)
	switch c.Type {
	case "content":
		return rpcPart(c.Content)
	case "diff":
		return api.DialoguePart{Type: "diff", Path: c.Path, Old: c.OldText, Text: c.NewText}
	}
	return api.DialoguePart{Type: "data", Data: raw}
}

// subject is what the call is about: the command, the files, the address. Agents name the
// fields of their inputs as they like; these are the usual ones.
func (u acpToolCall) subject(kind string) string {
	var input map[string]json.RawMessage
	json.Unmarshal(u.RawInput, &input)
	field := func(names ...string) string {
		for _, name := range names {
			var text string
			var words []string
			if json.Unmarshal(input[name], &text) == nil && text != "" {
				return text
			}
			if json.Unmarshal(input[name], &words) == nil && len(words) > 0 {
				return strings.Join(words, " ")
			}
		}
		return ""
	}
	var files []codexChange
	for _, l := range u.Locations {
		files = append(files, codexChange{Path: l.Path})
	}
	switch kind {
	case "execute":
		return field("command", "cmd")
	case "fetch":
		return field("url", "uri")
	case "search":
		return cmp.Or(field("pattern", "query"), codexPlace(files))
	}
	return cmp.Or(codexPlace(files), field("file_path", "filePath", "filepath", "path", "abs_path", "command", "url"))
}

// tellTool tells a copy: the call goes on changing.
func (a *acpProtocol) tellTool(item *api.DialogueItem) {
	told, tool := *item, *item.Tool
	told.Tool = &tool
	a.tell(api.DialogueEvent{Type: api.ToldItem, NativeID: item.ItemID, Item: &told})
}

// acpOver reports whether a tool call has ended.
func acpOver(item *api.DialogueItem) bool {
	return slices.Contains([]string{"completed", "failed", "cancelled"}, item.Tool.Status)
}

// maxKeptTools is how many tool calls are remembered behind their turn: an agent may tell
// more of one that has ended.
const maxKeptTools = 100

// closeTools ends the tool calls of which the agent did not tell how they ended.
func (a *acpProtocol) closeTools() {
	for _, item := range a.tools {
		if !acpOver(item) {
			item.Tool.Status = "cancelled"
			a.tellTool(item)
		}
	}
	a.tools = slices.Delete(a.tools, 0, max(0, len(a.tools)-maxKeptTools))
}

// acpRequest is a request of the agent that waits for an answer.
type acpRequest struct {
	id      string
	native  json.RawMessage
	tool    *api.DialogueItem
	options []api.DialogueOption
}

// acpOptionKinds are the kinds of options as TRL has them.
var acpOptionKinds = map[string]string{
	"allow_once": "allow", "allow_always": "allow_always", "reject_once": "deny", "reject_always": "deny_always",
}

// request takes a question of the agent. There is one that can be answered: whether a tool
// may be used. Files and terminals it was told that we have none of.
func (a *acpProtocol) request(m rpcMessage) (why string) {
	if m.Method != "session/request_permission" {
		return "unknown_type"
	}
	var p struct {
		ToolCall acpToolCall
		Options  []struct{ OptionID, Name, Kind string }
	}
	json.Unmarshal(m.Params, &p)
	if p.ToolCall.ToolCallID == "" || len(p.Options) == 0 {
		return "bad_shape"
	}
	r := &acpRequest{id: fmt.Sprintf("r%d.%s", a.options.Epoch, strings.Trim(string(m.ID), `"`)), native: m.ID}
	for _, o := range p.Options {
		r.options = append(r.options, api.DialogueOption{ID: o.OptionID, Label: o.Name, Kind: acpOptionKinds[o.Kind]})
	}
	p.ToolCall.Status = ""
	r.tool = a.toolCall(p.ToolCall)
	tool := r.tool.Tool
	tool.Status = "awaiting_approval"
	a.step.Events[len(a.step.Events)-1].Item.Tool.Status = tool.Status
	a.requests = append(a.requests, r)
	a.tell(api.DialogueEvent{Type: api.ToldRequestOpened, Request: &api.DialogueRequest{
		RequestID: r.id, Kind: "permission", Tool: tool.Name, ToolCallID: r.tool.ItemID, Subject: tool.Subject, Title: tool.Title, Input: tool.Input, Options: r.options,
	}})
	return ""
}

func (a *acpProtocol) respond(answer Response) *api.Error {
	i := slices.IndexFunc(a.requests, func(r *acpRequest) bool { return r.id == answer.RequestID })
	if i < 0 {
		return api.Errorf(api.CodeConflict, "request %q does not wait for an answer", answer.RequestID)
	}
	r := a.requests[i]
	if answer.Input != nil {
		return api.Errorf(api.CodeInvalidParams, "input: ACP does not let the input of a tool be changed")
	}
	option, err := r.choose(answer)
	if err != nil {
		return err
	}
	decision, outcome := "deny", acpParams{"outcome": "cancelled"}
	if option != nil {
		outcome = acpParams{"outcome": "selected", "optionId": option.ID}
		if strings.HasPrefix(option.Kind, "allow") {
			decision = "allow"
		}
	}
	a.requests = slices.Delete(a.requests, i, i+1)
	a.reply(r.native, acpParams{"outcome": outcome})
	a.tell(api.DialogueEvent{Type: api.ToldRequestClosed, Request: &api.DialogueRequest{RequestID: r.id, Kind: "permission", How: "answered", Decision: decision, By: answer.By}})
	if decision == "allow" {
		r.tool.Tool.Status = "running"
		a.tellTool(r.tool)
	} else if p := a.turn(); p != nil {
		p.denials = append(p.denials, r.tool.ItemID)
	}
	if decision == "deny" && answer.Message != "" {
		a.notice("info", "informational", "ACP has no words for a refusal; the agent was not told: "+answer.Message)
	}
	if decision == "deny" && answer.Interrupt {
		a.interrupt(false)
	}
	return nil
}

// choose finds the option that fits an answer; nil is none, which ACP understands as
// cancelled. What is allowed once is never allowed for ever because nothing else is offered.
func (r *acpRequest) choose(answer Response) (*api.DialogueOption, *api.Error) {
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

// withdraw closes requests that no longer wait.
func (a *acpProtocol) withdraw(by string, which func(*acpRequest) bool) {
	a.requests = slices.DeleteFunc(a.requests, func(r *acpRequest) bool {
		if !which(r) {
			return false
		}
		a.tell(api.DialogueEvent{Type: api.ToldRequestClosed, Request: &api.DialogueRequest{RequestID: r.id, Kind: "permission", How: "withdrawn", By: by}})
		return true
	})
}
