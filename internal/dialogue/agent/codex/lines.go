package codex

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
)

// thread is a thread of the app server: the dialogue, or a subagent.
type thread struct {
	id       string
	task     *api.DialogueTask // the subagent; nil for the thread of the dialogue
	told     api.DialogueTask  // the task, as published last
	active   bool              // Codex reports that it works
	turn     string            // Codex's id of the running turn; empty between turns
	begun    bool              // it has had a turn
	starts   bool              // Codex has spawned the subagent, and its first turn has not begun
	unwanted bool              // everything was interrupted before that turn
	open     []*openItem       // oldest first
	text     string            // the last text of the turn
	// denials are the tool calls of the turn that were denied.
	denials []string
	total   *api.DialogueUsage // of all its turns, as Codex reported last
	before  api.DialogueUsage  // the part of total from before this process
	base    *api.DialogueUsage // total at the start of the turn; nil if unknown
	compact string             // the turn whose compaction was published last
	plan    string             // the item of the last plan
	planOf  string             // its turn
}

// scope is the tool call that contains the thread's items.
func (t *thread) scope() string {
	if t.task == nil {
		return ""
	}
	if t.task.ToolCallID == "" {
		return t.task.TaskID
	}
	return t.task.ToolCallID
}

// event has the fields of all notifications.
type event struct {
	ThreadID, TurnID, ItemID string
	Delta                    string
	SummaryIndex             int
	ContentIndex             int
	Changes                  json.RawMessage
	Item                     wireItem
	Turn                     turnInfo
	Status                   json.RawMessage
	TokenUsage               struct {
		Total, Last        tokens
		ModelContextWindow int64
	}
	Error              json.RawMessage
	WillRetry          bool
	Message, Summary   string
	Details            string
	RequestID          json.RawMessage
	Explanation        string
	Plan               []struct{ Step, Status string }
	FromModel, ToModel string
	ThreadSettings     threadSettings
	RateLimits         struct{ RateLimitReachedType string }
	Name               string
	Run                struct{ EventName, Status, StatusMessage string }
	Review             struct{ Status, Rationale string }
	// When an item began and ended; absent in old versions.
	StartedAtMs, CompletedAtMs int64
}

// turnInfo is a turn as Codex reports it.
type turnInfo struct {
	ID         string
	Status     string
	Error      *fault
	DurationMs int64
}

// silentMethods are the prefixes of notifications that TRL ignores: about other work of the app
// server, about facts that another line reports too, or for the window of an editor.
var silentMethods = []string{
	"account/", "app/", "autoApprovalReview/", "command/exec/", "externalAgentConfig/", "fs/", "fuzzyFileSearch/",
	"hook/started", "item/autoApprovalReview/started", "item/commandExecution/terminalInteraction", "item/fileChange/outputDelta", "item/mcpToolCall/progress",
	"mcpServer/", "model/safetyBuffering/", "model/verification", "process/", "project/", "rawResponse", "remoteControl/", "skills/",
	"thread/archived", "thread/attachment/", "thread/closed", "thread/deleted", "thread/environment/", "thread/goal/", "thread/name/",
	"thread/prediction/", "thread/project/", "thread/queue/", "thread/readState/", "thread/realtime/", "thread/reverted", "thread/unarchived",
	"turn/diff/", "turn/moderationMetadata", "windows",
}

// Notification implements jsonrpc.Peer.
func (c *protocol) Notification(m jsonrpc.Message) (why string) {
	var ev event
	if len(m.Params) > 0 && m.Params[0] != '{' {
		return "bad_shape"
	}
	json.Unmarshal(m.Params, &ev) // a field of an unexpected shape counts as absent
	defer c.settle()
	switch m.Method {
	case "thread/started":
		c.threadStarted(m.Params)
		return ""
	case "warning", "guardianWarning", "configWarning", "deprecationNotice":
		c.warn(m.Method, ev)
		return ""
	case "account/rateLimits/updated":
		if ev.RateLimits.RateLimitReachedType != "" {
			c.Notice("warning", "rate_limit", "a limit of the account is reached: "+ev.RateLimits.RateLimitReachedType)
		}
		return ""
	case "mcpServer/startupStatus/updated":
		var status string
		if json.Unmarshal(ev.Status, &status) == nil && status == "failed" {
			var reason string
			json.Unmarshal(ev.Error, &reason)
			c.Notice("warning", "mcp_server", fmt.Sprintf("MCP server %s did not start: %s", ev.Name, reason))
		}
		return ""
	case "serverRequest/resolved":
		c.resolved(ev.RequestID)
		return ""
	}
	if slices.ContainsFunc(silentMethods, func(s string) bool { return strings.HasPrefix(m.Method, s) }) {
		return ""
	}
	switch m.Method {
	case "turn/started", "turn/completed", "item/started", "item/completed":
		// A repeated line must not start an ended turn or item again. But a model server
		// that numbers calls anew in every answer may send the same call with the same id.
		if c.lines.Again(m.Method+string(m.Params)) && !c.repeats(m.Method, ev) {
			c.Step.Ignored = m.Method + " (repeated)"
			return ""
		}
	}
	switch {
	case c.main == nil && strings.HasPrefix(m.Method, "thread/"):
		return "" // about the thread that is being resumed; the answer will have it all
	case c.main == nil || ev.ThreadID == "":
		return "unknown_type"
	}
	return c.inThread(c.thread(ev.ThreadID), m.Method, ev)
}

// repeats reports whether a line that came before is about another item with the same id: the
// first item has ended before the line that starts it, or another one is open at the line that
// ends it. A line with a time belongs to one item only.
func (c *protocol) repeats(method string, ev event) bool {
	if c.main == nil || ev.ThreadID == "" || ev.StartedAtMs != 0 || ev.CompletedAtMs != 0 {
		return false
	}
	open := c.thread(ev.ThreadID).find(ev.Item.ID) != nil
	return method == "item/started" && !open || method == "item/completed" && open
}

// turnID is our id of a turn.
func (c *protocol) turnID(native string) string {
	if native == "" {
		return ""
	}
	id, known := c.turnIDs.Get(native)
	if !known {
		id = c.IDs.Turn()
		c.turnIDs.Put(native, id)
	}
	return id
}

// inThread handles a notification about a thread.
func (c *protocol) inThread(t *thread, method string, ev event) (why string) {
	switch method {
	case "thread/status/changed":
		var status struct{ Type string }
		json.Unmarshal(ev.Status, &status)
		t.active = status.Type == "active"
		if status.Type == "systemError" || status.Type == "notLoaded" {
			t.starts = false // it will not
		}
	case "thread/settings/updated":
		if t == c.main {
			c.settings(ev.ThreadSettings)
		}
	case "thread/tokenUsage/updated":
		if t == c.main {
			last := ev.TokenUsage.Last
			c.context, c.window = jsonrpc.Tokens(last.InputTokens)+jsonrpc.Tokens(last.OutputTokens), jsonrpc.Tokens(ev.TokenUsage.ModelContextWindow)
		}
		c.tokens(t, ev.TokenUsage.Total.usage(), ev.TokenUsage.Last.usage())
	case "thread/compacted":
		c.compacted(t, ev.TurnID)
	case "turn/started", "turn/completed":
		switch {
		case ev.Turn.ID == "":
			return "bad_shape"
		case method == "turn/started":
			c.turnStarted(t, ev.Turn.ID)
		default:
			c.turnCompleted(t, ev.Turn)
		}
	case "turn/plan/updated":
		c.planned(t, ev)
	case "item/started", "item/completed":
		return c.item(t, ev.TurnID, ev.Item, method == "item/completed")
	case "item/agentMessage/delta", "item/plan/delta":
		c.delta(t, ev.ItemID, "text", ev.Delta)
	case "item/reasoning/summaryTextDelta":
		c.delta(t, ev.ItemID, fmt.Sprint("summary", ev.SummaryIndex), ev.Delta)
	case "item/reasoning/textDelta":
		c.delta(t, ev.ItemID, fmt.Sprint("content", ev.ContentIndex), ev.Delta)
	case "item/reasoning/summaryPartAdded":
		// The next delta implies it.
	case "item/commandExecution/outputDelta":
		c.outputDelta(t, ev.ItemID, ev.Delta)
	case "item/fileChange/patchUpdated":
		c.patchUpdated(t, ev.ItemID, ev.Changes)
	case "item/autoApprovalReview/completed":
		if ev.Review.Status == "denied" {
			c.scoped(t, api.DialogueEvent{Type: api.DialogueEventNotice, Notice: &api.DialogueNotice{Level: "warning", Code: "permission_denied", Text: ev.Review.Rationale}})
		}
	case "hook/completed":
		if ev.Run.Status == "failed" || ev.Run.Status == "blocked" || ev.Run.Status == "stopped" {
			c.scoped(t, api.DialogueEvent{Type: api.DialogueEventNotice, Notice: &api.DialogueNotice{Level: "warning", Code: "hook", Text: strings.TrimSuffix("hook "+ev.Run.EventName+" "+ev.Run.Status+": "+ev.Run.StatusMessage, ": ")}})
		}
	case "model/rerouted":
		c.scoped(t, api.DialogueEvent{Type: api.DialogueEventNotice, Notice: &api.DialogueNotice{Level: "warning", Code: "model_fallback", Text: "the model is " + ev.ToModel + " in place of " + ev.FromModel}})
	case "modelProvider/authRecoveryStarted", "modelProvider/authRecoveryCompleted":
		c.scoped(t, api.DialogueEvent{Type: api.DialogueEventNotice, Notice: &api.DialogueNotice{Level: "info", Code: "auth", Text: ev.Message}})
	case "error":
		c.fault(t, ev)
	default:
		return "unknown_type"
	}
	return ""
}

// scoped publishes an event of a thread.
func (c *protocol) scoped(t *thread, ev api.DialogueEvent) {
	ev.Scope = t.scope()
	c.Publish(ev)
}

// settle publishes a changed state. An unfinished message counts as work, so the agent is not
// idle between the message and its turn. A turn counts as work, because Codex reports its end a
// moment after its thread became idle. So does a subagent that starts, because the turn of its
// parent may end first.
func (c *protocol) settle() {
	if c.main == nil {
		return
	}
	running := len(c.messages) > 0 || slices.ContainsFunc(c.threads, func(t *thread) bool { return t.turn != "" || t.active || t.starts })
	if running == c.running && c.told {
		return
	}
	c.running, c.told = running, true
	state := api.DialogueIdle
	if running {
		state = api.DialogueRunning
	}
	c.Publish(api.DialogueEvent{Type: api.DialogueEventState, State: state})
}

func (c *protocol) turnStarted(t *thread, id string) {
	if t.turn != "" && t.turn != id {
		c.turnCompleted(t, turnInfo{ID: t.turn, Status: "lost"})
	}
	t.turn, t.text, t.denials, t.base = id, "", nil, nil
	unwanted := t.starts && t.unwanted
	t.begun, t.starts, t.unwanted = true, false, false
	if unwanted {
		c.interruptAgent(t)
	}
	if t.total != nil || (t == c.main && c.options.Resume == "") {
		base := api.DialogueUsage{}
		if t.total != nil {
			base = *t.total
		}
		t.base = &base
	}
	if t != c.main {
		c.taskStatus(t, "running", "")
		return
	}
	turn := &api.DialogueTurn{TurnID: c.turnID(id), Trigger: "agent", Messages: c.messagesOf(id)}
	if len(turn.Messages) > 0 {
		turn.Trigger = "user"
	}
	c.Publish(api.DialogueEvent{Type: api.DialogueEventTurnStarted, NativeID: id, Turn: turn})
	c.interruptLater()
}

// messagesOf are the messages that a turn answers. A message without a known turn started it.
func (c *protocol) messagesOf(turn string) (ids []string) {
	for _, m := range c.messages {
		if m.turn == "" && m.asked {
			m.turn = turn
		}
		if m.turn == turn {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

func (c *protocol) turnCompleted(t *thread, end turnInfo) {
	outcome, task := "completed", "completed"
	switch end.Status {
	case "interrupted":
		outcome, task = "interrupted", "cancelled"
	case "lost":
		outcome, task = "lost", "failed"
	case "failed":
		outcome, task = "failed", "failed"
	}
	text, native := t.text, end.Status
	if end.Error != nil {
		text, native = end.Error.Message, end.Error.word()
		if end.Status == "failed" && slices.Contains([]string{"contextWindowExceeded", "sessionBudgetExceeded", "usageLimitExceeded"}, native) {
			outcome = "limit"
		}
	}
	c.closeItems(t, outcome)
	c.withdraw(t)
	t.turn = ""
	if t != c.main {
		c.taskStatus(t, task, text)
		return
	}
	turn := &api.DialogueTurn{TurnID: c.turnID(end.ID), Outcome: outcome, Native: native, Text: text, DurationMS: end.DurationMs, Denials: t.denials}
	if t.base != nil && t.total != nil {
		usage := subtract(*t.total, *t.base)
		turn.Usage = &usage
	}
	for _, m := range c.messages {
		if m.turn != end.ID {
			continue
		}
		turn.Messages = append(turn.Messages, m.ID)
		if m.started || outcome == "completed" {
			c.PublishMessage(m.ID, "done")
		} else {
			c.PublishMessage(m.ID, "cancelled")
		}
	}
	c.messages = slices.DeleteFunc(c.messages, func(m *sentMessage) bool { return m.turn == end.ID })
	c.Publish(api.DialogueEvent{Type: api.DialogueEventTurnEnded, NativeID: end.ID, Turn: turn})
	for _, m := range c.messages {
		if !m.asked {
			c.turnStart(m)
		}
	}
	c.interruptLater()
}
