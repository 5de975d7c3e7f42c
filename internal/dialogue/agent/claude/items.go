package claude

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
)

// tool is a tool call that may still change.
type tool struct {
	item  api.DialogueItem
	scope string
}

func (t *tool) open() bool {
	switch t.item.Tool.Status {
	case "pending", "awaiting_approval", "running":
		return true
	}
	return false
}

// assistant handles a part of a message of the model: one line has one block, and the id of the
// message.
func (p *protocol) assistant(l *wireLine) {
	said := readFields(l.raw("message"))
	blocks, ok := readBlocks(said.raw("content"))
	if !ok || l.UUID == "" {
		p.unparsed("bad_shape")
		return
	}
	if l.Scope == "" {
		p.openTurn()
		p.joinTurn(l.texts("user_message_uuids"))
		p.noteContext(readFields(said.raw("usage")))
	}
	p.retractLines(l.texts("supersedes"))
	aborted := l.flag("aborted")
	message := cmp.Or(said.text("id"), l.UUID)
	for _, b := range blocks {
		if strings.HasSuffix(b.Type, "_tool_result") && b.ToolUseID != "" {
			// The model's server has run this tool itself; the result is in the same message.
			p.toolResult(l, b)
			continue
		}
		item := p.blockItem(l.Scope, message, b)
		item.Synthetic, item.Error = said.text("model") == "<synthetic>", l.wording("error")
		if aborted {
			item.Status = "aborted"
		}
		switch {
		case b.Type == "text":
			item.Parts = textParts(b.Text)
		case b.Type == "thinking" || b.Type == "redacted_thinking":
			item.Kind = "reasoning"
			item.Parts = textParts(b.text("thinking"))
		case b.isCall():
			item.Kind = "tool_call"
			item.Tool = newToolCall(b)
			if aborted {
				item.Tool.Status = "cancelled"
			}
		default:
			item.Parts = []api.DialoguePart{{Type: "data", Data: bytes.Clone(b.whole)}}
		}
		p.finishPartial(item.ItemID)
		p.newItem(l.Scope, item)
		if item.Tool == nil { // the outcome of a tool call comes with its result
			p.noteWritten(l.Scope, item)
		}
	}
}

func (b block) isCall() bool { return strings.HasSuffix(b.Type, "tool_use") && b.ID != "" }

// blockItem is the item of a finished block, with its ids. If the block was streamed, these are
// the ids of the streamed item.
func (p *protocol) blockItem(scope, message string, b block) api.DialogueItem {
	n := p.finishedBlocks(message)
	p.blocks.Put(message, n+1)
	if !b.isCall() {
		return p.newText(scope, message, fmt.Sprintf("%s/%d", message, n))
	}
	item := api.DialogueItem{ItemID: p.writtenAs(scope, b.ID), NativeID: b.ID, Status: "final"}
	if item.ItemID == "" {
		item.ItemID = p.newCall(scope, b)
	}
	return item
}

// user handles a message to the model, from a person, from the program or from a tool.
func (p *protocol) user(l *wireLine) {
	blocks, ok := readBlocks(readFields(l.raw("message")).raw("content"))
	if !ok || l.UUID == "" {
		// A terminal that echoes the program's input makes such lines.
		p.unparsed("bad_shape")
		return
	}
	p.retractLines(l.texts("retracted_message_uuids"))
	if l.Scope == "" && p.ours(l.UUID) {
		p.echoed(l.UUID)
		return
	}
	var parts []api.DialoguePart
	var text string
	for _, b := range blocks {
		if b.Type == "tool_result" && b.ToolUseID != "" {
			p.toolResult(l, b)
			continue
		}
		parts = append(parts, blockPart(b))
		text = cmp.Or(text, b.Text)
	}
	if len(parts) == 0 {
		return
	}
	interrupted := strings.HasPrefix(text, "[Request interrupted by user")
	if interrupted {
		p.cutOff(l.Scope)
	}
	if interrupted && l.Scope == "" && p.turn != nil {
		p.turn.interrupted = true
	}
	// In a sub-transcript, the message is the task that the model gives to the subagent.
	// Elsewhere it comes from the program, unless it is the echo of a person's message.
	byProgram := l.flag("isSynthetic") || interrupted || l.Scope == "" && !l.flag("isReplay") ||
		strings.HasPrefix(text, "<local-command") || strings.HasPrefix(text, "<command-name>")
	p.newItem(l.Scope, api.DialogueItem{ItemID: p.ids.Item(), NativeID: l.UUID, Kind: "user", Parts: parts, Status: "final", Synthetic: byProgram})
}

// newItem publishes an item, and remembers its line and, for a tool call, the call.
func (p *protocol) newItem(scope string, item api.DialogueItem) {
	item.TurnID = p.turnOf(scope)
	p.noteItem(item.ItemID)
	if item.Tool == nil {
		p.publishItem(scope, item)
		return
	}
	item.Tool.TaskID, _ = p.taskOf.Get(item.ItemID) // old versions may report the task first
	t := &tool{item: item, scope: scope}
	if input, changed := p.calls.inputs.Get(item.ItemID); changed {
		t.changeInput(input)
	}
	p.keepTool(t)
	p.publishTool(t)
}

// noteItem remembers an item of the current line, in case the program retracts the line.
func (p *protocol) noteItem(item string) {
	if p.line.UUID != "" {
		items, _ := p.made.Get(p.line.UUID)
		p.made.Put(p.line.UUID, append(items, item))
	}
}

func (p *protocol) publishItem(scope string, item api.DialogueItem) {
	p.publish(api.DialogueEvent{Type: api.DialogueEventItem, Scope: scope, Item: &item})
}

// publishTool publishes the whole tool call; the item replaces the earlier one.
func (p *protocol) publishTool(t *tool) {
	tool := *t.item.Tool
	item := t.item
	item.Tool = &tool
	p.publishItem(t.scope, item)
}

// turnOf is the turn of an item. Items of a subagent belong to the turn of its tool call, even
// after that turn has ended.
func (p *protocol) turnOf(scope string) string {
	if id, ok := p.callTurn.Get(scope); ok && scope != "" {
		return id
	}
	if p.turn != nil {
		return p.turn.id
	}
	return ""
}

// toolResult closes a tool call.
func (p *protocol) toolResult(l *wireLine, b block) {
	t := p.call(l.Scope, b.ToolUseID)
	if t == nil { // the program has not shown the call
		t = &tool{scope: l.Scope, item: api.DialogueItem{
			ItemID: cmp.Or(p.writtenAs(l.Scope, b.ToolUseID), p.awaitCall(b.ToolUseID)), NativeID: b.ToolUseID, Kind: "tool_call", Status: "final", TurnID: p.turnOf(l.Scope),
			Tool: &api.DialogueToolCall{Name: "unknown", Kind: "other"},
		}}
		p.calls.awaited.Put(b.ToolUseID, "")
		p.calls.inside.Put(l.Scope+" "+b.ToolUseID, t.item.ItemID)
		p.keepTool(t)
	}
	p.finishPartial(t.item.ItemID)
	if t.item.Status == "streaming" {
		t.item.Status = "final"
	}
	p.noteItem(t.item.ItemID)
	tool := t.item.Tool
	tool.Output = contentParts(b.raw("content"))
	tool.Status = "completed"
	failed := b.flag("is_error")
	structured := readFields(l.raw("tool_use_result"))
	if raw := l.raw("tool_use_result"); len(raw) > 0 && (raw[0] == '{' || raw[0] == '[') {
		tool.Structured = bytes.Clone(raw)
	}
	rejected := strings.Contains(l.text("tool_use_result"), "User rejected tool use")
	switch {
	case rejected || structured.flag("interrupted"):
		tool.Status = "cancelled"
	case failed:
		tool.Status = "failed"
	}
	if tool.Kind == "execute" && failed && len(tool.Output) > 0 {
		var code int
		if n, _ := fmt.Sscanf(tool.Output[0].Text, "Exit code %d", &code); n == 1 {
			tool.ExitCode = &code
		}
	}
	p.publishTool(t)
	shell := structured.text("backgroundTaskId")
	if id := cmp.Or(shell, structured.text("agentId")); id != "" {
		p.launched(id, t.item.ItemID, shell != "" || structured.text("status") == "async_launched")
	}
	// A request for the call needs no answer any more, even if the program did not withdraw it.
	for _, id := range slices.Clone(p.waiting) {
		if p.requests[id].info.ToolCallID == t.item.ItemID {
			p.closeRequest(id, "withdrawn")
		}
	}
}

// retractLines retracts the items of lines that the program has replaced.
func (p *protocol) retractLines(uuids []string) {
	var ids []string
	for _, uuid := range uuids {
		made, _ := p.made.Get(uuid)
		for _, id := range made {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		if made != nil {
			p.made.Put(uuid, nil)
		}
	}
	p.retract(p.line.Scope, ids)
}

func (p *protocol) retract(scope string, ids []string) {
	if len(ids) == 0 {
		return
	}
	for _, id := range ids {
		if _, ok := p.tools[id]; ok {
			delete(p.tools, id)
			p.toolOrder = slices.DeleteFunc(p.toolOrder, func(s string) bool { return s == id })
		}
	}
	p.publish(api.DialogueEvent{Type: api.DialogueEventRetracted, Scope: scope, Retracted: ids})
}

func textParts(s string) []api.DialoguePart {
	if s == "" {
		return nil
	}
	return []api.DialoguePart{{Type: "text", Text: s}}
}

func blockPart(b block) api.DialoguePart {
	switch b.Type {
	case "text":
		return api.DialoguePart{Type: "text", Text: b.Text}
	case "image":
		source := readFields(b.raw("source"))
		if data := source.text("data"); data != "" {
			return api.DialoguePart{Type: "image", MediaType: source.text("media_type"), DataBase64: data}
		}
	}
	return api.DialoguePart{Type: "data", Data: bytes.Clone(b.whole)}
}

// contentParts reads the content of a tool's result: a text, or blocks.
func contentParts(content []byte) []api.DialoguePart {
	blocks, ok := readBlocks(content)
	if !ok {
		if len(content) == 0 || string(content) == "null" {
			return nil
		}
		return []api.DialoguePart{{Type: "data", Data: bytes.Clone(content)}}
	}
	var parts []api.DialoguePart
	for _, b := range blocks {
		if b.Type != "text" || b.Text != "" {
			parts = append(parts, blockPart(b))
		}
	}
	return parts
}

// newToolCall makes the tool call of a block whose input is complete.
func newToolCall(b block) *api.DialogueToolCall {
	tool := &api.DialogueToolCall{Name: b.Name, Kind: toolKind(b), Input: b.copied("input"), Status: "running"}
	s := toolSubject(b.Name, tool.Input)
	tool.Subject, tool.Title = s.text, s.title
	return tool
}

func toolKind(b block) string {
	switch b.Name {
	case "Bash", "PowerShell", "BashOutput", "KillShell", "KillBash":
		return "execute"
	case "Read", "NotebookRead":
		return "read"
	case "Edit", "MultiEdit", "Write", "NotebookEdit":
		return "edit"
	case "Glob", "Grep", "LS", "ToolSearch":
		return "search"
	case "WebFetch", "WebSearch", "web_search", "web_fetch":
		return "fetch"
	case "Agent", "Task":
		return "agent"
	case "AskUserQuestion":
		return "question"
	case "ExitPlanMode", "EnterPlanMode":
		return "plan"
	}
	if strings.HasPrefix(b.Name, "mcp__") || b.Type == "mcp_tool_use" {
		return "mcp"
	}
	return "other"
}
