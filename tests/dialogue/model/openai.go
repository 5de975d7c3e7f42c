package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// OpenAI starts a model that speaks the Responses API, with CodexScripts, for the time of a test.
func OpenAI(t testing.TB) *Server { return ServeOpenAI().during(t) }

// ServeOpenAI starts the same for a program that is no test.
func ServeOpenAI() *Server { return serve(responses{}, CodexScripts()) }

// CodexConfig is the config.toml with which Codex talks to this model alone.
func (s *Server) CodexConfig() string {
	return fmt.Sprintf(`model = "scripted-model"
model_provider = "scripted"
model_reasoning_summary = "auto"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "%s/v1"
wire_api = "responses"
request_max_retries = 3
stream_max_retries = 3
[agents]
max_depth = 3
[features]
default_mode_request_user_input = true
enable_request_compression = false
apps = false
plugins = false
plugin_discovery_prefetch = false
[analytics]
enabled = false
[history]
persistence = "none"
`, s.URL)
}

type responses struct{}

// openaiItem is an entry of a conversation.
type openaiItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	CallID  string          `json:"call_id"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`
}

func (responses) read(r *http.Request, body []byte) (Request, error) {
	if e := r.Header.Get("content-encoding"); e != "" {
		return Request{}, fmt.Errorf("the request is packed with %s; the scripted model reads it plain", e)
	}
	var q struct {
		Model string
		Input []openaiItem
		Tools []struct{ Type, Name string }
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return Request{}, err
	}
	req := Request{Model: q.Model}
	for _, t := range q.Tools {
		if t.Name == "" {
			t.Name = t.Type
		}
		req.Tools = append(req.Tools, t.Name)
	}
	// What the model says in a row is one answer. Its calls have the number of the answer in
	// their ids, and may have outputs between them.
	answer, open, last := 0, false, ""
	next := func(same bool) string {
		if !open && !same {
			answer++
		}
		open = true
		return fmt.Sprint(answer)
	}
	for _, it := range q.Input {
		switch {
		case strings.HasSuffix(it.Type, "_output"):
			req.Messages = append(req.Messages, Message{Role: "tool", Text: words(it.Output)})
			open = false
		case strings.HasSuffix(it.Type, "_call"):
			n, _, _ := strings.Cut(strings.TrimPrefix(it.CallID, "call_"), "_")
			req.Messages = append(req.Messages, Message{Role: "assistant", answer: next(n == last)})
			last = n
		case it.Type == "message" && it.Role == "assistant":
			req.Messages = append(req.Messages, Message{Role: "assistant", Text: words(it.Content), answer: next(false)})
		case it.Type == "message":
			req.Messages = append(req.Messages, Message{Role: it.Role, Text: words(it.Content), markers: it.Role == "user"})
			open = false
		}
	}
	return req, nil
}

// words are all texts of a content or output, which is a text or a list of parts.
func words(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var list []struct{ Text string }
	_ = json.Unmarshal(content, &list)
	var texts []string
	for _, part := range list {
		texts = append(texts, part.Text)
	}
	return strings.Join(texts, "\n")
}

func (responses) fail(w http.ResponseWriter, f Fault) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(f.Status)
	fmt.Fprintf(w, `{"error":{"type":%q,"code":%q,"message":"scripted %d"}}`, f.Kind, f.Kind, f.Status)
}

func (m responses) answer(w *reply, req Request, s Step) {
	w.w.Header().Set("content-type", "text/event-stream")
	id := fmt.Sprintf("resp_%05d", w.id)
	if !w.event("response.created", map[string]any{"response": map[string]any{"id": id}}) {
		return
	}
	at := 0
	if s.Thinking != "" {
		if !m.think(w, s.Thinking) {
			return
		}
		at++
	}
	for i, text := range s.Texts {
		if !m.say(w, at, text, s.Hold && i == len(s.Texts)-1) {
			return
		}
		at++
	}
	for i, t := range s.Tools {
		if !w.event("response.output_item.done", map[string]any{"output_index": at, "item": call(t.fill(req), fmt.Sprintf("call_%05d_%d", w.id, i))}) {
			return
		}
		at++
	}
	usage := map[string]any{
		"input_tokens": 10, "input_tokens_details": map[string]any{"cached_tokens": 0},
		"output_tokens": 5, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": 15,
	}
	w.event("response.completed", map[string]any{"response": map[string]any{"id": id, "usage": usage}})
}

// call is how a tool is called. A tool whose only input is "text" gets the text itself.
func call(t Tool, id string) map[string]any {
	if text, ok := t.Input["text"].(string); ok && len(t.Input) == 1 {
		return map[string]any{"type": "custom_tool_call", "call_id": id, "name": t.Name, "input": text}
	}
	input, err := json.Marshal(t.Input)
	if err != nil {
		panic(err) // a script holds what JSON cannot
	}
	item := map[string]any{"type": "function_call", "call_id": id, "name": t.Name, "arguments": string(input)}
	if space, name, ok := strings.Cut(t.Name, "."); ok {
		item["namespace"], item["name"] = space, name
	}
	return item
}

func (responses) think(w *reply, text string) bool {
	id := fmt.Sprintf("rs_%05d", w.id)
	item := map[string]any{"type": "reasoning", "id": id, "summary": []any{}, "encrypted_content": nil}
	if !w.event("response.output_item.added", map[string]any{"output_index": 0, "item": item}) ||
		!w.event("response.reasoning_summary_part.added", map[string]any{"item_id": id, "output_index": 0, "summary_index": 0}) {
		return false
	}
	for _, piece := range pieces(text) {
		if !w.event("response.reasoning_summary_text.delta", map[string]any{"item_id": id, "output_index": 0, "summary_index": 0, "delta": piece}) {
			return false
		}
	}
	item["summary"] = []any{map[string]any{"type": "summary_text", "text": text}}
	return w.event("response.output_item.done", map[string]any{"output_index": 0, "item": item})
}

func (responses) say(w *reply, at int, text string, hold bool) bool {
	id := fmt.Sprintf("msg_%05d_%d", w.id, at)
	item := map[string]any{"type": "message", "role": "assistant", "id": id, "content": []any{}}
	if !w.event("response.output_item.added", map[string]any{"output_index": at, "item": item}) {
		return false
	}
	for _, piece := range pieces(text) {
		if !w.event("response.output_text.delta", map[string]any{"output_index": at, "content_index": 0, "item_id": id, "delta": piece}) || w.cut {
			return false
		}
	}
	if hold {
		w.hold()
		return false
	}
	item["content"] = []any{map[string]any{"type": "output_text", "text": text}}
	return w.event("response.output_item.done", map[string]any{"output_index": at, "item": item})
}
