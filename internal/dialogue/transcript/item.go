package transcript

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/trl-dev/trl/api"
)

// item is an item that arrives in pieces. The pieces stay separate until the item is read,
// so that a thousand of them do not copy the text a thousand times.
type item struct {
	scope   string // of its first event
	parent  bool   // it was the scope of another open item
	whole   api.DialogueItem
	message string   // the state of the message that the item is; empty for other items
	written *written // deltas since whole; nil for none
}

// written is the text of the deltas of an item.
type written struct {
	text, input, output strings.Builder
}

// replace stores a new version of the item. If the new version has no links to other items,
// the old links stay, and so does input that has arrived only in pieces.
func (i *item) replace(by api.DialogueItem) {
	by.TurnID = cmp.Or(by.TurnID, i.whole.TurnID)
	if by.Tool != nil {
		tool := *by.Tool
		tool.Items = nil
		if i.call() {
			tool.TaskID = cmp.Or(tool.TaskID, i.whole.Tool.TaskID)
		}
		by.Tool = &tool
	}
	if by.Status == statusStreaming && by.Tool != nil && i.written != nil {
		i.written.text.Reset()
		i.written.output.Reset()
	} else {
		i.written = nil
	}
	i.whole = by
}

// open reports whether the item is incomplete: it is being written, or it is a tool call without
// a result.
func (i *item) open() bool {
	return i.whole.Status == statusStreaming || i.call() && !toolEnded(i.whole.Tool.Status)
}

// call reports whether the item is a tool call.
func (i *item) call() bool { return i.whole.Tool != nil }

func toolEnded(status string) bool {
	return status == toolCompleted || status == toolFailed || status == toolCancelled || status == statusLost
}

// write applies a delta. A delta of a complete item has no effect.
func (i *item) write(d api.DialogueDelta) {
	if !i.open() || d.Text == "" {
		return
	}
	if i.written == nil {
		i.written = &written{}
	}
	switch {
	case d.Field == "input" && i.call():
		i.written.input.WriteString(d.Text)
	case d.Field == "output" && i.call():
		i.written.output.WriteString(d.Text)
	default:
		i.written.text.WriteString(d.Text)
	}
}

// current is the item so far, without the items below it. Later events do not change it.
func (i *item) current() api.DialogueItem {
	it := i.whole
	it.Message = i.message
	if it.Tool != nil {
		tool := *it.Tool
		it.Tool = &tool
	}
	if i.written == nil {
		return it
	}
	it.Parts = appendText(it.Parts, i.written.text.String())
	if it.Tool != nil {
		it.Tool.Output = appendText(it.Tool.Output, i.written.output.String())
		// An incomplete input is not valid JSON.
		if input := i.written.input.String(); it.Tool.Input == nil && json.Valid([]byte(input)) {
			it.Tool.Input = json.RawMessage(input)
		}
	}
	return it
}

// appendText returns a copy of parts with the text added to the last part, or as a new part.
func appendText(parts []api.DialoguePart, text string) []api.DialoguePart {
	if text == "" {
		return parts
	}
	n := len(parts)
	longer := append(make([]api.DialoguePart, 0, n+1), parts...)
	if n > 0 && parts[n-1].Type == "text" {
		longer[n-1].Text += text
		return longer
	}
	return append(longer, api.DialoguePart{Type: "text", Text: text})
}

// closed is the item with an end that the agent did not report. An unfinished text gets the
// status, and an unfinished tool call gets the status tool.
func (i *item) closed(status, tool string) api.DialogueItem {
	it := i.current()
	if it.Status == statusStreaming {
		it.Status = status
	}
	if it.Tool != nil && !toolEnded(it.Tool.Status) {
		it.Tool.Status = tool
	}
	return it
}
