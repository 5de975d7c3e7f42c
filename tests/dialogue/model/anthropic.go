package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Anthropic starts a model that speaks the Messages API, with ClaudeScripts, for the time of a test.
func Anthropic(t testing.TB) *Server { return ServeAnthropic().during(t) }

// ServeAnthropic starts the same for a program that is no test.
func ServeAnthropic() *Server { return serve(messages{}, ClaudeScripts()) }

type messages struct{}

// anthropicBlock is a part of a message; the output of a tool has such blocks too.
type anthropicBlock struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"`
}

func (messages) read(_ *http.Request, body []byte) (Request, error) {
	var q struct {
		Model    string
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []struct{ Name string }
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return Request{}, err
	}
	req := Request{Model: q.Model}
	for _, t := range q.Tools {
		req.Tools = append(req.Tools, t.Name)
	}
	for i, m := range q.Messages {
		var said, told []string
		for _, b := range blocks(m.Content) {
			if b.Type == "tool_result" {
				for _, inner := range blocks(b.Content) {
					told = append(told, inner.Text)
				}
			} else {
				said = append(said, b.Text)
			}
		}
		if told != nil {
			req.Messages = append(req.Messages, Message{Role: "tool", Text: strings.Join(told, "\n")})
		}
		if said != nil {
			req.Messages = append(req.Messages, Message{Role: m.Role, Text: strings.Join(said, "\n"), markers: m.Role != "assistant", answer: fmt.Sprint(i)})
		}
	}
	return req, nil
}

// blocks reads a content, which is a text or a list.
func blocks(content json.RawMessage) []anthropicBlock {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []anthropicBlock{{Type: "text", Text: text}}
	}
	var list []anthropicBlock
	_ = json.Unmarshal(content, &list)
	return list
}

func (messages) fail(w http.ResponseWriter, f Fault) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(f.Status)
	fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":"scripted %d"}}`, f.Kind, f.Status)
}

func (m messages) answer(w *reply, req Request, s Step) {
	var q struct{ Stream bool }
	_ = json.Unmarshal(req.Body, &q)
	switch {
	case strings.HasSuffix(req.Path, "/count_tokens"):
		w.w.Header().Set("content-type", "application/json")
		_, _ = io.WriteString(w.w, `{"input_tokens":100}`)
	case q.Stream:
		w.w.Header().Set("content-type", "text/event-stream")
		m.stream(w, req, s)
	default: // what Claude Code asks for after a stream that broke
		w.w.Header().Set("content-type", "application/json")
		_ = json.NewEncoder(w.w).Encode(m.whole(w, req, s))
		w.cut = false
	}
}

// content is one block of an answer: its empty beginning, and the pieces that follow.
type content struct {
	begin map[string]any
	field string // in begin
	text  string
	delta string // type of the deltas
	piece string // their field
}

func (messages) contents(w *reply, s Step) []content {
	var list []content
	if s.Thinking != "" {
		list = append(list, content{map[string]any{"type": "thinking", "thinking": "", "signature": "c2NyaXB0"}, "thinking", s.Thinking, "thinking_delta", "thinking"})
	}
	for _, text := range s.Texts {
		list = append(list, content{map[string]any{"type": "text", "text": ""}, "text", text, "text_delta", "text"})
	}
	for i, t := range s.Tools {
		input, err := json.Marshal(t.Input)
		if err != nil {
			panic(err) // a script holds what JSON cannot
		}
		id := fmt.Sprintf("toolu_%05d_%d", w.id, i)
		list = append(list, content{map[string]any{"type": "tool_use", "id": id, "name": t.Name, "input": map[string]any{}}, "input", string(input), "input_json_delta", "partial_json"})
	}
	return list
}

func (messages) message(w *reply, req Request) map[string]any {
	return map[string]any{
		"id": fmt.Sprintf("msg_%05d", w.id), "type": "message", "role": "assistant", "model": req.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": 10, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
	}
}

func stopReason(s Step) string {
	if len(s.Tools) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func (m messages) whole(w *reply, req Request, s Step) map[string]any {
	message := m.message(w, req)
	list := []any{}
	for _, c := range m.contents(w, s) {
		if c.field == "input" {
			c.begin["input"] = json.RawMessage(c.text)
		} else {
			c.begin[c.field] = c.text
		}
		list = append(list, c.begin)
	}
	message["content"], message["stop_reason"] = list, stopReason(s)
	return message
}

func (m messages) stream(w *reply, req Request, s Step) {
	if !w.event("message_start", map[string]any{"message": m.message(w, req)}) {
		return
	}
	for i, c := range m.contents(w, s) {
		if !w.event("content_block_start", map[string]any{"index": i, "content_block": c.begin}) {
			return
		}
		for _, piece := range pieces(c.text) {
			if !w.event("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": c.delta, c.piece: piece}}) || w.cut {
				return
			}
		}
		if s.Hold && i == len(s.Texts)-1 {
			w.hold()
			return
		}
		if !w.event("content_block_stop", map[string]any{"index": i}) {
			return
		}
	}
	w.event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stopReason(s), "stop_sequence": nil}, "usage": map[string]any{"output_tokens": 20}})
	w.event("message_stop", map[string]any{})
}
