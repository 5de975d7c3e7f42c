package codex

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
)

type fault struct {
	Message           string
	CodexErrorInfo    json.RawMessage
	AdditionalDetails string
}

// word is the kind of a fault: a string, or an object whose key it is.
func (f fault) word() string {
	var word string
	if json.Unmarshal(f.CodexErrorInfo, &word) == nil && word != "" {
		return word
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(f.CodexErrorInfo, &object) == nil && len(object) == 1 {
		for word = range object {
			return word
		}
	}
	return "error"
}

type tokens struct {
	InputTokens, CachedInputTokens, CacheWriteInputTokens, OutputTokens int64
}

func (t tokens) usage() api.DialogueUsage {
	cached := jsonrpc.Tokens(t.CachedInputTokens)
	return api.DialogueUsage{
		InputTokens: max(0, jsonrpc.Tokens(t.InputTokens)-cached), OutputTokens: jsonrpc.Tokens(t.OutputTokens),
		CacheReadTokens: cached, CacheWriteTokens: jsonrpc.Tokens(t.CacheWriteInputTokens),
	}
}

// tokens takes the figures of a thread, each of which counts for itself, over all
// processes. They are told as the sum over all threads since this process began.
func (c *protocol) tokens(t *thread, total, last api.DialogueUsage) {
	if t.total == nil && (t != c.main || c.options.Resume != "") {
		if t.before = subtract(total, last); t == c.main && t.turn == "" {
			t.before = total // They are told when a thread is resumed.
		}
	}
	if t.base == nil {
		base := subtract(total, last)
		t.base = &base // The first figures of a thread that was there before us.
	}
	t.total = &total
	sum := c.forgotten
	for _, each := range c.threads {
		sum = jsonrpc.AddUsage(sum, each.used())
	}
	sum.ContextTokens, sum.ContextWindow = c.context, c.window
	if sum != c.usage {
		c.usage = sum
		c.Publish(api.DialogueEvent{Type: api.DialogueEventUsage, Usage: &sum})
	}
}

// used is what the thread has used in this process.
func (t *thread) used() api.DialogueUsage {
	if t.total == nil {
		return api.DialogueUsage{}
	}
	return subtract(*t.total, t.before)
}

// subtract is never below nothing: Codex counts anew when it takes turns back.
func subtract(a, b api.DialogueUsage) api.DialogueUsage {
	return api.DialogueUsage{
		InputTokens: max(0, a.InputTokens-b.InputTokens), OutputTokens: max(0, a.OutputTokens-b.OutputTokens),
		CacheReadTokens: max(0, a.CacheReadTokens-b.CacheReadTokens), CacheWriteTokens: max(0, a.CacheWriteTokens-b.CacheWriteTokens),
	}
}

// fault takes an error of the model: Codex tries again, or ends the turn with it. What was
// being said is said anew in the next try, as another item.
func (c *protocol) fault(t *thread, ev event) {
	var f fault
	json.Unmarshal(ev.Error, &f)
	if !ev.WillRetry {
		c.scoped(t, api.DialogueEvent{Type: api.DialogueEventNotice, Notice: &api.DialogueNotice{Level: "error", Code: f.word(), Text: f.Message}})
		return
	}
	if ids := t.dropTexts(); len(ids) > 0 {
		c.scoped(t, api.DialogueEvent{Type: api.DialogueEventRetracted, Retracted: ids})
	}
	retry := &api.DialogueRetry{Cause: f.AdditionalDetails}
	if retry.Cause == "" {
		retry.Cause = f.Message
	}
	// The numbers are only in the text: Reconnecting... 1/5.
	if i := strings.LastIndex(f.Message, " "); i >= 0 {
		fmt.Sscanf(f.Message[i+1:], "%d/%d", &retry.Attempt, &retry.Most)
	}
	c.scoped(t, api.DialogueEvent{Type: api.DialogueEventRetry, Retry: retry})
}

// warn tells a warning once: some come with every turn.
func (c *protocol) warn(method string, ev event) {
	text := ev.Message
	if text == "" {
		text = strings.TrimSuffix(ev.Summary+": "+ev.Details, ": ")
	}
	if c.warned.Again(text) {
		return
	}
	code := map[string]string{"warning": "warning", "guardianWarning": "guardian", "configWarning": "config", "deprecationNotice": "deprecated"}[method]
	c.Notice("warning", code, text)
}

func (c *protocol) compacted(t *thread, turn string) {
	if t.compact != turn || turn == "" { // It is told as an item and as a notification.
		t.compact = turn
		c.scoped(t, api.DialogueEvent{Type: api.DialogueEventCompacted, Notice: &api.DialogueNotice{Level: "info", Code: "compacted", Text: "the conversation was compacted"}})
	}
}
