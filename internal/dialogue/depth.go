package dialogue

import (
	"encoding/json"
	"slices"

	"github.com/trl-dev/trl/api"
)

// mostDepth bounds the depth of JSON that an agent chose. A reader in Go fails at 10,000 levels and one
// in Python at 1,000, and then with everything else in the answer.
const mostDepth = 500

// flat returns an event in which JSON that is too deep is a string with its text.
func flat(ev api.DialogueEvent) api.DialogueEvent {
	parts := func(list []api.DialoguePart) []api.DialoguePart {
		if !slices.ContainsFunc(list, func(p api.DialoguePart) bool { return isDeep(p.Data) }) {
			return list
		}
		list = slices.Clone(list) // the protocol may keep it
		for i := range list {
			list[i].Data = asText(list[i].Data)
		}
		return list
	}
	if ev.Item != nil {
		item := *ev.Item
		item.Parts = parts(item.Parts)
		if item.Tool != nil {
			tool := *item.Tool
			tool.Input, tool.EffectiveInput, tool.Structured = asText(tool.Input), asText(tool.EffectiveInput), asText(tool.Structured)
			tool.Output = parts(tool.Output)
			item.Tool = &tool
		}
		ev.Item = &item
	}
	if ev.Request != nil {
		request := *ev.Request
		request.Input, request.EffectiveInput = asText(request.Input), asText(request.EffectiveInput)
		ev.Request = &request
	}
	return ev
}

func asText(raw json.RawMessage) json.RawMessage {
	if !isDeep(raw) {
		return raw
	}
	text, _ := json.Marshal(string(raw)) // of a string: never fails
	return text
}

// isDeep reports whether valid JSON has too many levels.
func isDeep(raw json.RawMessage) bool {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > mostDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}
