package codex

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
)

// fault is an error of the model or its server.
type fault struct {
	Message           string
	CodexErrorInfo    json.RawMessage
	AdditionalDetails string
}

// word is the kind of a fault. Codex sends a string, or an object with the kind as its key.
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

// tokens handles the figures of a thread. Codex counts each thread over all processes; TRL
// publishes the sum over all threads since this process began.
func (c *protocol) tokens(t *thread, total, last api.DialogueUsage) {
	if t.total == nil && (t != c.main || c.options.Resume != "") {
		if t.before = subtract(total, last); t == c.main && t.turn == "" {
			t.before = total // Codex sends them when it resumes a thread
		}
	}
	if t.base == nil {
		base := subtract(total, last)
		t.base = &base // the first figures of a thread that existed before this process
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

// used is the usage of the thread in this process.
func (t *thread) used() api.DialogueUsage {
	if t.total == nil {
		return api.DialogueUsage{}
	}
	return subtract(*t.total, t.before)
}

// subtract returns a - b, and never less than 0, because Codex counts from 0 after a rollback.
func subtract(a, b api.DialogueUsage) api.DialogueUsage {
	return api.DialogueUsage{
		InputTokens: max(0, a.InputTokens-b.InputTokens), OutputTokens: max(0, a.OutputTokens-b.OutputTokens),
		CacheReadTokens: max(0, a.CacheReadTokens-b.CacheReadTokens), CacheWriteTokens: max(0, a.CacheWriteTokens-b.CacheWriteTokens),
	}
}

// fault handles an error of the model. Codex tries again, or ends the turn. A new try repeats the
// unfinished texts as new items, so the old ones are retracted.
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
	// Only the text has the numbers: Reconnecting... 1/5.
	if i := strings.LastIndex(f.Message, " "); i >= 0 {
		fmt.Sscanf(f.Message[i+1:], "%d/%d", &retry.Attempt, &retry.Most)
	}
	c.scoped(t, api.DialogueEvent{Type: api.DialogueEventRetry, Retry: retry})
}

// warn publishes a warning once. Codex repeats some with every turn.
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
	if t.compact != turn || turn == "" { // Codex reports it as an item and as a notification
		t.compact = turn
		c.scoped(t, api.DialogueEvent{Type: api.DialogueEventCompacted, Notice: &api.DialogueNotice{Level: "info", Code: "compacted", Text: "the conversation was compacted"}})
	}
}
