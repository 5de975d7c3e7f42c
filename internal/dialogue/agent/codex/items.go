package codex

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
)

// openItem is an item that has begun and not ended.
type openItem struct {
	item api.DialogueItem
	turn string
	keys []string           // of its parts, as deltas name them
	text []*strings.Builder // of its parts; a tool call has one, its output so far
	// background says that the command outlived its turn.
	background bool
	// ending says that TRL ends the command after an interrupt.
	ending bool
}

// keep remembers a copy of an item, separate from the published one.
func (o *openItem) keep(item *api.DialogueItem) {
	o.item = *item
	if item.Tool != nil {
		tool := *item.Tool
		o.item.Tool = &tool
	}
}

// said is the item with its text so far.
func (o *openItem) said(status string) *api.DialogueItem {
	item := o.item
	item.Status = status
	item.Parts = nil
	for _, b := range o.text {
		item.Parts = append(item.Parts, api.DialoguePart{Type: "text", Text: b.String()})
	}
	return &item
}

// tool is the item with its tool call in another status.
func (o *openItem) tool(status string) *api.DialogueItem {
	tool := *o.item.Tool
	tool.Status = status
	if len(o.text) > 0 && len(tool.Output) == 0 {
		tool.Output = []api.DialoguePart{{Type: "text", Text: o.text[0].String()}}
	}
	item := o.item
	item.Tool = &tool
	return &item
}

// find is the open item with Codex's id; of several the first.
func (t *thread) find(id string) *openItem {
	for _, o := range t.open {
		if o.item.NativeID == id {
			return o
		}
	}
	return nil
}

// dropTexts drops the open texts, and returns their ids.
func (t *thread) dropTexts() (ids []string) {
	t.open = slices.DeleteFunc(t.open, func(o *openItem) bool {
		if o.item.Tool != nil {
			return false
		}
		ids = append(ids, o.item.ItemID)
		return true
	})
	return ids
}

// item handles the start or the end of an item.
func (c *protocol) item(t *thread, turn string, it wireItem, done bool) (why string) {
	if it.ID == "" {
		return "bad_shape"
	}
	switch it.Type {
	case "userMessage":
		c.userMessage(t, turn, it, done)
		return ""
	case "contextCompaction":
		if done {
			c.compacted(t, turn)
		}
		return ""
	case "enteredReviewMode":
		return ""
	case "subAgentActivity":
		if it.Kind != "started" {
			c.activity(it)
			return ""
		}
	}
	item := it.item(done)
	if item == nil {
		return "unknown_subtype"
	}
	if t == c.main {
		item.TurnID = c.turnID(turn)
	}
	if item.Tool != nil {
		item.Tool.TaskID = c.taskID(item.Tool.TaskID)
	}
	open := t.find(it.ID)
	if !done && open != nil && open.item.Tool != nil && item.Tool != nil && string(open.item.Tool.Input) != string(item.Tool.Input) {
		open = nil // another call with the same id of the model's server
	}
	if open != nil {
		item.ItemID = open.item.ItemID
	} else {
		item.ItemID = c.IDs.Item()
	}
	if !done {
		if open == nil {
			open = &openItem{turn: turn}
			t.open = append(t.open, open)
		}
		open.keep(item)
		c.scoped(t, api.DialogueEvent{Type: api.DialogueEventItem, NativeID: it.ID, Item: item})
		return ""
	}
	t.open = slices.DeleteFunc(t.open, func(o *openItem) bool { return o == open })
	if item.Kind == "agent" && len(item.Parts) > 0 {
		t.text = item.Parts[0].Text
	}
	if it.Status == "declined" {
		t.denials = append(t.denials, item.ItemID)
	}
	background := open != nil && open.background && item.Tool != nil
	if background {
		item.Tool.TaskID = item.ItemID
	}
	if open != nil && open.ending && item.Tool != nil {
		item.Tool.Status = "cancelled" // Codex reports it as failed
	}
	c.scoped(t, api.DialogueEvent{Type: api.DialogueEventItem, NativeID: it.ID, Item: item})
	if background {
		c.scoped(t, shellTask(item))
	}
	switch it.Type {
	case "collabAgentToolCall":
		c.collab(t, it, item.ItemID)
	case "subAgentActivity":
		c.spawned(t, it.AgentThreadID, item.ItemID, it.AgentPath)
	}
	return ""
}

// userMessage publishes that Codex has begun with a message. A message that TRL did not send, such
// as the task of a subagent, becomes an item.
func (c *protocol) userMessage(t *thread, turn string, it wireItem, done bool) {
	for _, m := range c.messages {
		if !m.is(it) || it.ClientID == "" && (t != c.main || !m.asked || m.turn != "" && m.turn != turn) {
			continue
		}
		if m.turn = turn; !m.started {
			m.started = true
			c.PublishMessage(m.ID, "started")
		}
		return
	}
	if done {
		item := it.item(true)
		item.ItemID = c.IDs.Item()
		if t == c.main {
			item.TurnID = c.turnID(turn)
		}
		c.scoped(t, api.DialogueEvent{Type: api.DialogueEventItem, NativeID: it.ID, Item: item})
	}
}

// is reports whether Codex's item is this message: it has the id from TRL, or the same content if
// Codex sends no id.
func (m *sentMessage) is(it wireItem) bool {
	if it.ClientID != "" {
		return it.ClientID == m.ID
	}
	return slices.EqualFunc(jsonrpc.ContentParts(m.Content), it.userParts(), func(a, b api.DialoguePart) bool {
		return a.Type == b.Type && a.Text == b.Text && a.DataBase64 == b.DataBase64
	})
}

// delta appends to an open text. A delta that begins another part, or continues an earlier one,
// publishes the whole item, because published deltas go to the last part.
func (c *protocol) delta(t *thread, id, key, text string) {
	o := t.find(id)
	if o == nil || o.item.Tool != nil {
		return // the end of the item has the whole text
	}
	i := slices.Index(o.keys, key)
	if i < 0 {
		o.keys = append(o.keys, key)
		o.text = append(o.text, &strings.Builder{})
		i = len(o.keys) - 1
	}
	appends := i == len(o.keys)-1 && (o.text[i].Len() > 0 || i == 0)
	o.text[i].WriteString(text)
	if appends {
		c.scoped(t, api.DialogueEvent{Type: api.DialogueEventDelta, NativeID: id, Delta: &api.DialogueDelta{ItemID: o.item.ItemID, Field: "text", Text: text}})
		return
	}
	c.scoped(t, api.DialogueEvent{Type: api.DialogueEventItem, NativeID: id, Item: o.said("streaming")})
}

// maxOpenOutput is how many bytes of output are kept of a running command, in case Codex never
// reports its end.
const maxOpenOutput = 1 << 20

func (c *protocol) outputDelta(t *thread, id, text string) {
	o := t.find(id)
	if o == nil || o.item.Tool == nil || o.ending {
		return
	}
	if len(o.text) == 0 {
		o.text = []*strings.Builder{{}}
	}
	if o.text[0].Len() < maxOpenOutput {
		o.text[0].WriteString(text)
	}
	c.scoped(t, api.DialogueEvent{Type: api.DialogueEventDelta, NativeID: id, Delta: &api.DialogueDelta{ItemID: o.item.ItemID, Field: "output", Text: text}})
}

func (c *protocol) patchUpdated(t *thread, id string, changes json.RawMessage) {
	o := t.find(id)
	var list []fileChange
	if o == nil || o.item.Tool == nil || json.Unmarshal(changes, &list) != nil {
		return
	}
	item := wireItem{Type: "fileChange", ID: id, Status: "inProgress", Changes: list}.item(false)
	item.ItemID, item.TurnID, item.Tool.Status = o.item.ItemID, o.item.TurnID, o.item.Tool.Status
	o.keep(item)
	c.scoped(t, api.DialogueEvent{Type: api.DialogueEventItem, NativeID: id, Item: item})
}

// closeItems closes the open items of a turn that has ended: after an interrupt Codex does not
// report their end. Commands outlive their turn. After an interrupt TRL ends them; otherwise they
// become background tasks.
func (c *protocol) closeItems(t *thread, outcome string) {
	var commands []*openItem
	open := t.open
	t.open = nil
	for _, o := range open {
		id, command := o.item.NativeID, o.item.Tool != nil && o.item.Tool.Name == "commandExecution"
		switch {
		case o.background || o.ending:
			t.open = append(t.open, o)
		case command && outcome != "interrupted":
			t.open = append(t.open, o)
			o.background = true
			o.item.Tool.TaskID = o.item.ItemID
			item := o.tool("running")
			c.scoped(t, api.DialogueEvent{Type: api.DialogueEventItem, NativeID: id, Item: item})
			c.scoped(t, shellTask(item))
		case command:
			t.open = append(t.open, o)
			commands = append(commands, o)
			c.scoped(t, api.DialogueEvent{Type: api.DialogueEventItem, NativeID: id, Item: o.tool("cancelled")})
		case o.item.Tool != nil:
			c.scoped(t, api.DialogueEvent{Type: api.DialogueEventItem, NativeID: id, Item: o.tool("cancelled")})
		case outcome == "interrupted" && len(o.text) > 0:
			c.scoped(t, api.DialogueEvent{Type: api.DialogueEventItem, NativeID: id, Item: o.said("aborted")})
		default:
			c.scoped(t, api.DialogueEvent{Type: api.DialogueEventRetracted, Retracted: []string{o.item.ItemID}})
		}
	}
	c.endCommands(t, commands)
}

// endCommands ends running commands. Codex ends them by the id of their process, which not every
// item has, so endCommands asks for the list first.
func (c *protocol) endCommands(t *thread, commands []*openItem) {
	if len(commands) == 0 {
		return
	}
	c.Ask("thread/backgroundTerminals/list", params{"threadId": t.id}, func(result json.RawMessage, _ *jsonrpc.Error) {
		var r struct {
			Data []struct{ ItemID, ProcessID string }
		}
		json.Unmarshal(result, &r)
		for _, terminal := range r.Data {
			if o := t.find(terminal.ItemID); o != nil && slices.Contains(commands, o) {
				c.Ask("thread/backgroundTerminals/terminate", params{"threadId": t.id, "processId": terminal.ProcessID}, func(json.RawMessage, *jsonrpc.Error) {})
			}
		}
	})
	for _, o := range commands {
		o.ending = true
	}
}

func shellTask(item *api.DialogueItem) api.DialogueEvent {
	return api.DialogueEvent{Type: api.DialogueEventTask, Task: &api.DialogueTask{
		TaskID: item.ItemID, NativeID: item.NativeID, ToolCallID: item.ItemID, Kind: "shell", Name: item.Tool.Subject, Background: true, Status: item.Tool.Status,
	}}
}

// planned publishes the plan of a turn. Codex sends the whole plan with every change.
func (c *protocol) planned(t *thread, ev event) {
	var b strings.Builder
	if ev.Explanation != "" {
		fmt.Fprintf(&b, "%s\n\n", ev.Explanation)
	}
	for _, step := range ev.Plan {
		fmt.Fprintf(&b, "- [%s] %s\n", jsonrpc.PlanMark(step.Status), step.Step)
	}
	if t.plan == "" || t.planOf != ev.TurnID {
		t.plan, t.planOf = c.IDs.Item(), ev.TurnID
	}
	item := &api.DialogueItem{ItemID: t.plan, Kind: "plan", Status: "final", Parts: []api.DialoguePart{{Type: "text", Text: b.String()}}}
	if t == c.main {
		item.TurnID = c.turnID(ev.TurnID)
	}
	c.scoped(t, api.DialogueEvent{Type: api.DialogueEventItem, Item: item})
}
