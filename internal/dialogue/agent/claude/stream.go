package claude

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/trl-dev/trl/api"
)

// partials are the blocks of one message that the model is writing in one scope. The line with
// the finished block replaces the streamed text; a block that never gets such a line is
// retracted.
type partials struct {
	message string
	open    []partial        // oldest first
	writing string           // the item of the block that the model has begun and not ended
	written api.DialogueItem // the same item, if it was already published as finished
}

type partial struct {
	index int64  // of the block in the message
	key   string // identifies the finished block
	id    string // of the item
	field string // of the item, for deltas
}

func (p *protocol) streamed(l *wireLine) {
	ev := readFields(l.raw("event")) // an event of the model's stream
	kind := ev.text("type")
	if l.UUID == "" || kind == "" {
		p.unparsed("bad_shape")
		return
	}
	if l.Scope == "" && kind == "message_start" {
		p.openTurn()
	}
	switch kind {
	case "message_start":
		p.dropPartials(l.Scope)
		p.partials[l.Scope] = &partials{message: readFields(ev.raw("message")).text("id")}
	case "content_block_start":
		p.blockStarted(l.Scope, ev.number("index"), readBlock(ev.raw("content_block")))
	case "content_block_delta":
		s := p.partials[l.Scope]
		delta := readFields(ev.raw("delta"))
		text := cmp.Or(delta.text("text"), delta.text("thinking"), delta.text("partial_json"))
		if s == nil || text == "" {
			return // a signature, or a message whose start was lost
		}
		index := ev.number("index")
		for _, open := range s.open {
			if open.index == index {
				p.publish(api.DialogueEvent{Type: api.DialogueEventDelta, Scope: l.Scope,
					Delta: &api.DialogueDelta{ItemID: open.id, Field: open.field, Text: text}})
			}
		}
	case "content_block_stop":
		if s := p.partials[l.Scope]; s != nil {
			s.writing = ""
		}
	}
}

// blockStarted publishes an item that the model begins to write. The id of its tool call, or its
// number among the blocks of the message, identifies the finished block.
func (p *protocol) blockStarted(scope string, index int64, b block) {
	s := p.partials[scope]
	if s == nil || s.message == "" || len(s.open) >= 1000 {
		return
	}
	key := fmt.Sprintf("%s/%d", s.message, p.finishedBlocks(s.message)+len(s.open))
	item := api.DialogueItem{NativeID: s.message, Kind: "agent", Status: "streaming", TurnID: p.turnOf(scope)}
	field := "text"
	switch b.Type {
	case "text":
		item.Parts = textParts(b.Text)
	case "thinking":
		item.Kind = "reasoning"
		item.Parts = textParts(b.text("thinking"))
	case "tool_use", "server_tool_use", "mcp_tool_use":
		if b.ID == "" {
			return
		}
		key, item.NativeID, item.Kind, field = b.ID, b.ID, "tool_call", "input"
		item.Tool = &api.DialogueToolCall{Name: b.Name, Kind: toolKind(b), Status: "pending"}
	default:
		return // published when it is finished
	}
	if p.writtenAs(scope, key) != "" {
		return // a repeated start, or a wrong number: the finished block will do
	}
	if item.Tool != nil {
		item.ItemID = p.newCall(scope, b)
	} else {
		item.ItemID = p.ids.Item()
	}
	s.open = append(s.open, partial{index: index, key: key, id: item.ItemID, field: field})
	s.writing = item.ItemID
	p.publishItem(scope, item)
}

// writtenAs is the id of the item of a streamed block; empty if the block was not streamed.
func (p *protocol) writtenAs(scope, key string) string {
	if s := p.partials[scope]; s != nil {
		for _, o := range s.open {
			if o.key == key {
				return o.id
			}
		}
	}
	return ""
}

func (p *protocol) finishedBlocks(message string) int {
	n, _ := p.blocks.Get(message)
	return n
}

// finishPartial removes a finished item from the streamed blocks of all scopes, so that it is not
// retracted.
func (p *protocol) finishPartial(id string) {
	for _, s := range p.partials {
		s.open = slices.DeleteFunc(s.open, func(o partial) bool { return o.id == id })
	}
}

// noteWritten remembers an item that is published as finished before the model has ended it.
func (p *protocol) noteWritten(scope string, item api.DialogueItem) {
	if s := p.partials[scope]; s != nil && s.writing == item.ItemID {
		item.TurnID = p.turnOf(scope)
		s.written = item
	}
}

// cutOff marks the unfinished text of an interrupted model as aborted. Old versions send it as
// if it were complete.
func (p *protocol) cutOff(scope string) {
	s := p.partials[scope]
	if s == nil || s.writing == "" || s.written.ItemID != s.writing || s.written.Status != "final" {
		return
	}
	s.written.Status = "aborted"
	p.publishItem(scope, s.written)
}

// dropPartials retracts the unfinished items of a scope: the model is called again, or the turn
// has ended.
func (p *protocol) dropPartials(scope string) {
	s := p.partials[scope]
	delete(p.partials, scope)
	if s == nil {
		return
	}
	var ids []string
	for _, o := range s.open {
		ids = append(ids, o.id)
	}
	p.retract(scope, ids)
}
