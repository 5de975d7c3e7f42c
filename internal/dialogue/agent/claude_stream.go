package agent

import (
	"fmt"
	"slices"

	"github.com/trl-dev/trl/api"
)

// claudeEvent is an event of the model's stream, as the program passes it on.
type claudeEvent struct {
	Type    string      `json:"type"`
	Index   int         `json:"index"`
	Message claudeWords `json:"message"`
	Block   claudeBlock `json:"content_block"`
	Delta   struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Thinking string `json:"thinking"`
		JSON     string `json:"partial_json"`
	} `json:"delta"`
}

// claudePartials is what is being written in one scope: the blocks of one message that
// have begun and are not finished. Only the line with the finished block counts in the
// end; what never gets one is taken back.
type claudePartials struct {
	message string
	open    []claudePartial // in the order in which they began
}

type claudePartial struct {
	index int // of the block in the message
	id    string
	field string // where its deltas go
}

func (p *claudeProtocol) streamed(l *claudeLine) {
	if l.UUID == "" || l.Event.Type == "" {
		p.unparsed("bad_shape")
		return
	}
	ev := &l.Event
	if l.Scope == "" && ev.Type == "message_start" {
		p.openTurn()
	}
	switch ev.Type {
	case "message_start":
		p.dropPartials(l.Scope)
		p.partials[l.Scope] = &claudePartials{message: ev.Message.ID}
	case "content_block_start":
		p.blockStarted(l.Scope, ev)
	case "content_block_delta":
		s := p.partials[l.Scope]
		text := or(ev.Delta.Text, ev.Delta.Thinking, ev.Delta.JSON)
		if s == nil || text == "" {
			return // a signature, or a message whose beginning was not heard
		}
		for _, open := range s.open {
			if open.index == ev.Index {
				p.tell(api.DialogueEvent{Type: api.ToldDelta, Scope: l.Scope,
					Delta: &api.DialogueDelta{ItemID: open.id, Field: open.field, Text: text}})
			}
		}
	}
}

// blockStarted tells of an item that is being written. Its id is the one that it will have
// when it is finished: its number counts the finished blocks of the message.
func (p *claudeProtocol) blockStarted(scope string, ev *claudeEvent) {
	s := p.partials[scope]
	if s == nil || s.message == "" || len(s.open) >= 1000 {
		return
	}
	item := api.DialogueItem{
		ItemID: fmt.Sprintf("%s/%d", s.message, p.blocks[s.message]+len(s.open)),
		Kind:   "agent", Status: "streaming", TurnID: p.turnOf(scope),
	}
	field := "text"
	switch ev.Block.Type {
	case "text":
		item.Parts = textParts(ev.Block.Text)
	case "thinking":
		item.Kind = "reasoning"
		item.Parts = textParts(ev.Block.Thinking)
	case "tool_use", "server_tool_use", "mcp_tool_use":
		if ev.Block.ID == "" || p.tools[ev.Block.ID] != nil {
			return
		}
		item.ItemID, item.Kind, field = ev.Block.ID, "tool_call", "input"
		item.Tool = &api.DialogueToolCall{Name: ev.Block.Name, Kind: toolKind(&ev.Block), Status: "pending"}
	default:
		return // told when it is finished
	}
	s.open = append(s.open, claudePartial{index: ev.Index, id: item.ItemID, field: field})
	p.tellItem(scope, item)
}

// finishPartial says that an item is told as a whole now.
func (p *claudeProtocol) finishPartial(scope, id string) {
	if s := p.partials[scope]; s != nil {
		s.open = slices.DeleteFunc(s.open, func(o claudePartial) bool { return o.id == id })
	}
}

// dropPartials takes back what was being written and will not be finished: the model is
// asked again, or the turn is over.
func (p *claudeProtocol) dropPartials(scope string) {
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
