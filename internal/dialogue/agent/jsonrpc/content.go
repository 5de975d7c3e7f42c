package jsonrpc

import (
	"encoding/json"

	"github.com/trl-dev/trl/api"
)

// AddUsage adds tokens. Costs and the context are not added.
func AddUsage(a, b api.DialogueUsage) api.DialogueUsage {
	return api.DialogueUsage{
		InputTokens: a.InputTokens + b.InputTokens, OutputTokens: a.OutputTokens + b.OutputTokens,
		CacheReadTokens: a.CacheReadTokens + b.CacheReadTokens, CacheWriteTokens: a.CacheWriteTokens + b.CacheWriteTokens,
	}
}

// PlanMark is the mark of a plan's step in a Markdown list of tasks.
func PlanMark(status string) string {
	switch status {
	case "completed":
		return "x"
	case "inProgress", "in_progress":
		return "~"
	}
	return " "
}

// RawParts is an output of unknown shape: one part, with the text or the JSON as it came.
func RawParts(raw json.RawMessage) []api.DialoguePart {
	var text string
	switch {
	case NotNull(raw) == nil:
		return nil
	case json.Unmarshal(raw, &text) == nil:
		return []api.DialoguePart{{Type: "text", Text: text}}
	}
	return []api.DialoguePart{{Type: "data", Data: raw}}
}

// Parts reads blocks of content as MCP defines them. ACP uses the same blocks.
func Parts(blocks []json.RawMessage) (parts []api.DialoguePart) {
	for _, raw := range blocks {
		parts = append(parts, Part(raw))
	}
	return parts
}

// Part reads one block of content.
func Part(raw json.RawMessage) api.DialoguePart {
	var b struct {
		Type, Text, Data, MimeType, URI string
		Resource                        struct{ Text, Blob, MimeType, URI string }
	}
	json.Unmarshal(raw, &b)
	switch b.Type {
	case "text":
		return api.DialoguePart{Type: "text", Text: b.Text}
	case "image":
		return api.DialoguePart{Type: "image", MediaType: b.MimeType, DataBase64: b.Data}
	case "resource_link":
		return api.DialoguePart{Type: "resource", Path: b.URI, MediaType: b.MimeType}
	case "resource":
		r := b.Resource
		return api.DialoguePart{Type: "resource", Path: r.URI, MediaType: r.MimeType, Text: r.Text, DataBase64: r.Blob}
	}
	return api.DialoguePart{Type: "data", Data: raw}
}

// ContentParts is the content of a message as the parts of its item.
func ContentParts(content []api.DialogueContent) (parts []api.DialoguePart) {
	for _, c := range content {
		part := api.DialoguePart{Type: "text", Text: c.Text}
		if c.Type == "image" {
			part = api.DialoguePart{Type: "image", MediaType: c.MediaType, DataBase64: c.DataBase64}
		}
		parts = append(parts, part)
	}
	return parts
}

// NotNull returns nil for a JSON null.
func NotNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// Number reads a number. It returns nil if raw is no number, or one that T cannot hold.
func Number[T int | float64](raw json.RawMessage) *T {
	var n *T
	if json.Unmarshal(raw, &n) != nil {
		return nil
	}
	return n
}

// Tokens returns a count of tokens, or 0 for an impossible one, which would spoil every sum.
func Tokens(n int64) int64 {
	if n < 0 || n > 1<<50 {
		return 0
	}
	return n
}
