package api

import (
	"encoding/json"
	"time"
)

// DialogueEventType is the type of a dialogue's event. It decides which field is set.
type DialogueEventType string

// The types of events of a dialogue.
const (
	DialogueEventOpened        DialogueEventType = "opened"         // opened: the agent describes itself
	DialogueEventReset         DialogueEventType = "reset"          // opened: the agent continues the conversation under a new id
	DialogueEventState         DialogueEventType = "state"          // state
	DialogueEventTurnStarted   DialogueEventType = "turn_started"   // turn
	DialogueEventTurnEnded     DialogueEventType = "turn_ended"     // turn
	DialogueEventItem          DialogueEventType = "item"           // item: a new item, or the new version of an earlier one
	DialogueEventDelta         DialogueEventType = "delta"          // delta: text to append to an unfinished item
	DialogueEventRetracted     DialogueEventType = "retracted"      // retracted: items to remove
	DialogueEventTask          DialogueEventType = "task"           // task: a new task, or the new version of an earlier one
	DialogueEventRequestOpened DialogueEventType = "request_opened" // request: the agent waits for an answer
	DialogueEventRequestClosed DialogueEventType = "request_closed" // request: how it was closed
	DialogueEventMessage       DialogueEventType = "message"        // message: the new state of a message
	DialogueEventUsage         DialogueEventType = "usage"          // usage: since the process started
	DialogueEventCompacted     DialogueEventType = "compacted"      // notice: the agent shortened its context
	DialogueEventRetry         DialogueEventType = "retry"          // retry: the agent calls its model again
	DialogueEventNotice        DialogueEventType = "notice"         // notice
	DialogueEventUnparsed      DialogueEventType = "unparsed"       // unparsed: a line that TRL does not understand
	DialogueEventEnded         DialogueEventType = "ended"          // ended: the agent's process has ended; the last event, unless the dialogue is resumed
)

// DialogueEventTypes lists the types of the events of a dialogue.
var DialogueEventTypes = []DialogueEventType{
	DialogueEventOpened, DialogueEventReset, DialogueEventState, DialogueEventTurnStarted, DialogueEventTurnEnded, DialogueEventItem, DialogueEventDelta, DialogueEventRetracted, DialogueEventTask,
	DialogueEventRequestOpened, DialogueEventRequestClosed, DialogueEventMessage, DialogueEventUsage, DialogueEventCompacted, DialogueEventRetry, DialogueEventNotice, DialogueEventUnparsed, DialogueEventEnded,
}

// DialogueEvent is one entry of the record of a dialogue. The record only grows.
type DialogueEvent struct {
	Seq   int64             `json:"seq"`   // 1, 2, 3 … in the dialogue
	At    time.Time         `json:"at"`    // when TRL received it
	Type  DialogueEventType `json:"type"`  // decides which of the other fields is set
	Epoch int               `json:"epoch"` // number of the agent's process, from 1
	// Offset is the position, in the raw stream of the epoch, of the line that caused the
	// event. Absent: TRL itself is the source.
	Offset *int64 `json:"offset,omitempty"`
	// Scope is the tool call whose sub-transcript the event belongs to. Empty: none.
	Scope string `json:"scope,omitempty"`
	// NativeID is the agent's own id of the line, if any.
	NativeID string `json:"native_id,omitempty"`

	Opened    *DialogueOpened   `json:"opened,omitempty"`    // for opened and reset
	State     DialogueState     `json:"state,omitempty"`     // for state
	Turn      *DialogueTurn     `json:"turn,omitempty"`      // for turn_started and turn_ended
	Item      *DialogueItem     `json:"item,omitempty"`      // for item; without its sub-transcript
	Delta     *DialogueDelta    `json:"delta,omitempty"`     // for delta
	Retracted []string          `json:"retracted,omitempty"` // for retracted: ids of items
	Task      *DialogueTask     `json:"task,omitempty"`      // for task
	Request   *DialogueRequest  `json:"request,omitempty"`   // for request_opened and request_closed
	Message   *DialogueMessage  `json:"message,omitempty"`   // for message
	Usage     *DialogueUsage    `json:"usage,omitempty"`     // for usage
	Retry     *DialogueRetry    `json:"retry,omitempty"`     // for retry
	Notice    *DialogueNotice   `json:"notice,omitempty"`    // for notice and compacted
	Unparsed  *DialogueUnparsed `json:"unparsed,omitempty"`  // for unparsed
	Ended     *DialogueEnd      `json:"ended,omitempty"`     // for ended
}

// DialogueOpened is the agent's description of itself. The agent did not report fields that
// are empty.
type DialogueOpened struct {
	Agent          string   `json:"agent,omitempty"`           // as in dialogue.create
	Version        string   `json:"version,omitempty"`         // version of the agent's program
	NativeSession  string   `json:"native_session,omitempty"`  // the agent's own id of the conversation
	Model          string   `json:"model,omitempty"`           // the current model
	PermissionMode string   `json:"permission_mode,omitempty"` // one of the agent's own modes
	WorkingDir     string   `json:"working_dir,omitempty"`     // the directory the agent works in
	Tools          []string `json:"tools,omitempty"`           // tools of the agent
	Capabilities   []string `json:"capabilities,omitempty"`    // capabilities that the agent declares
	Commands       []string `json:"commands,omitempty"`        // commands that the agent accepts as messages, such as /compact
	Models         []string `json:"models,omitempty"`          // models that dialogue.set accepts
	Modes          []string `json:"modes,omitempty"`           // permission modes that dialogue.set accepts
	Title          string   `json:"title,omitempty"`           // the agent's title of the conversation
	Why            string   `json:"why,omitempty"`             // reason of a reset: cleared, forked …
}

// DialogueTurn is the agent's work between two idle periods.
type DialogueTurn struct {
	TurnID string `json:"turn_id"` // assigned by TRL; never reused in the dialogue
	// Trigger is why the turn started: user, agent (on its own) or resume.
	Trigger string `json:"trigger,omitempty"`
	// Messages are the ids of the messages that the turn answers, as far as known.
	Messages []string `json:"messages,omitempty"`
	// Outcome is how the turn ended: completed, failed, interrupted, limit or lost. Empty
	// while it goes on.
	Outcome string `json:"outcome,omitempty"`
	Native  string `json:"native,omitempty"` // the agent's own word for the outcome
	Text    string `json:"text,omitempty"`   // the agent's summary of its answer, or the error
	// Usage is the usage of this turn, as the agent reported it.
	Usage      *DialogueUsage `json:"usage,omitempty"`
	DurationMS int64          `json:"duration_ms,omitempty"` // as the agent reported it
	Steps      int            `json:"steps,omitempty"`       // number of model calls, as the agent reported it
	// Denials are the tool calls that were denied.
	Denials []string `json:"denials,omitempty"`
}

// DialogueItem is one entry of the transcript: a message, reasoning, a tool call or a plan.
type DialogueItem struct {
	ItemID string `json:"item_id"` // assigned by TRL; never reused in the dialogue
	// NativeID is the agent's own id of the tool call or the message. It may not be unique.
	NativeID string `json:"native_id,omitempty"`
	// Kind is user, agent, reasoning, tool_call or plan.
	Kind   string         `json:"kind"`
	TurnID string         `json:"turn_id,omitempty"` // the turn that the item belongs to
	Parts  []DialoguePart `json:"parts,omitempty"`   // the content
	// Status is streaming, final, aborted or lost.
	Status string            `json:"status"`
	Tool   *DialogueToolCall `json:"tool,omitempty"` // for kind tool_call
	// Synthetic reports that the agent's program wrote the item, not its model or a person.
	Synthetic bool `json:"synthetic,omitempty"`
	// Message is the state of a message that a client sent: sent, queued, started, done, cancelled
	// or lost. Absent in events, which report each state on its own.
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"` // the error, in the agent's words
}

// DialoguePart is a part of an item's content, or of the output of a tool.
type DialoguePart struct {
	// Type is text, image, resource, diff or data.
	Type       string          `json:"type"`
	Text       string          `json:"text,omitempty"`        // for text; the new text of a diff
	Old        string          `json:"old,omitempty"`         // the old text of a diff
	Path       string          `json:"path,omitempty"`        // of a diff or resource
	MediaType  string          `json:"media_type,omitempty"`  // of an image or resource
	DataBase64 string          `json:"data_base64,omitempty"` // of an image or resource
	Data       json.RawMessage `json:"data,omitempty"`        // for data: as the agent sent it
	Cut        int64           `json:"cut,omitempty"`         // length of the longest field, if cut_bytes shortened or omitted one
}

// DialogueToolCall is one call of a tool.
type DialogueToolCall struct {
	Name string `json:"name"` // the agent's name of the tool
	// Kind is execute, read, edit, search, fetch, agent, mcp, question, plan or other.
	Kind string `json:"kind"`
	// Subject is the object of the call: a command, a path or an address.
	Subject string          `json:"subject,omitempty"`
	Title   string          `json:"title,omitempty"` // for people, if the agent sends one
	Input   json.RawMessage `json:"input,omitempty"` // as the model wrote it
	// EffectiveInput is the input that the tool received, if the answer to a request changed
	// it. The subject is then taken from this input.
	EffectiveInput json.RawMessage `json:"effective_input,omitempty"`
	Output         []DialoguePart  `json:"output,omitempty"` // output of the tool
	// Structured is the tool's output in the agent's own format.
	Structured json.RawMessage `json:"structured,omitempty"`
	// Status is pending, awaiting_approval, running, completed, failed, cancelled or lost.
	Status   string `json:"status"`
	ExitCode *int   `json:"exit_code,omitempty"` // exit status of a command, if reported
	// TaskID is the task that the call started. The task may outlive the call.
	TaskID string `json:"task_id,omitempty"`
	// Items are the sub-transcript: the items of a subagent that the call started.
	Items []DialogueItem `json:"items,omitempty"`
	// ItemsCount is the number of items below the call, at all levels, if depth omitted them.
	ItemsCount int `json:"items_count,omitempty"`
	// Cut has the lengths of the fields that cut_bytes omitted: input, effective_input, structured.
	Cut map[string]int64 `json:"cut,omitempty"`
}

// DialogueDelta is text to append to an item.
type DialogueDelta struct {
	ItemID string `json:"item_id"` // the unfinished item
	// Field is the field to append to: text (of the last part), input or output of a tool call.
	Field string `json:"field"`
	Text  string `json:"text"` // text to append
}

// DialogueTask is work that can outlive the tool call that started it: a subagent, or a
// command in the background.
type DialogueTask struct {
	TaskID     string `json:"task_id"`                // assigned by TRL; never reused in the dialogue
	NativeID   string `json:"native_id,omitempty"`    // the agent's own id of the task
	ToolCallID string `json:"tool_call_id,omitempty"` // the tool call that started the task
	ParentID   string `json:"parent_id,omitempty"`    // the task that started this task
	Kind       string `json:"kind"`                   // agent, shell or other
	Name       string `json:"name,omitempty"`         // purpose of the task
	Depth      int    `json:"depth,omitempty"`        // nesting depth, as reported
	Background bool   `json:"background,omitempty"`   // true if the tool call does not wait for the task
	// Status is running, completed, failed, cancelled or lost.
	Status  string         `json:"status"`
	Summary string         `json:"summary,omitempty"` // current or last activity
	Usage   *DialogueUsage `json:"usage,omitempty"`   // usage of the task, as reported
}

// DialogueRequest is a request of the agent's program that needs an answer.
type DialogueRequest struct {
	RequestID string `json:"request_id"`          // for dialogue.respond; never reused in the dialogue
	NativeID  string `json:"native_id,omitempty"` // the agent's own id of the request
	// Kind is permission, question, plan, elicitation or dialog.
	Kind       string `json:"kind"`
	Tool       string `json:"tool,omitempty"`         // the tool that the agent wants to use
	ToolCallID string `json:"tool_call_id,omitempty"` // the tool call that needs the answer
	TaskID     string `json:"task_id,omitempty"`      // the task that asks
	Subject    string `json:"subject,omitempty"`      // the text that rules match; its kind is in subject_kind
	// SubjectKind is command, path or address; empty for other subjects.
	SubjectKind string `json:"subject_kind,omitempty"`
	// SubjectSource is the source of the subject: input (a field of the tool's input), request
	// (a field of the request), locations (the files that the agent lists); or, if the agent
	// sends it only in text for people, title, content or title_and_content. Empty: there is
	// no subject. A rule whose pattern might have denied such a request keeps every later
	// rule from allowing it.
	SubjectSource string `json:"subject_source,omitempty"`
	// Paths are all files that the request names, if these are more than the subject or others. A
	// rule that denies or asks decides if it matches one of them or the subject; a rule that
	// allows a path must match them all.
	Paths    []string        `json:"paths,omitempty"`
	Title    string          `json:"title,omitempty"`    // for people
	Reason   string          `json:"reason,omitempty"`   // why the agent asks
	Input    json.RawMessage `json:"input,omitempty"`    // input of the tool
	Editable bool            `json:"editable,omitempty"` // true if the answer may replace the input
	// EffectiveInput is the input that the answer set, or the fields that it added.
	EffectiveInput json.RawMessage    `json:"effective_input,omitempty"`
	Questions      []DialogueQuestion `json:"questions,omitempty"` // for kind question
	Options        []DialogueOption   `json:"options,omitempty"`   // answers that the agent offers
	// OpenedAt is when the agent asked. Absent in events, which have their own time.
	OpenedAt *time.Time `json:"opened_at,omitempty"`
	// How is how the request was closed: answered, withdrawn, expired or lost. Empty while it waits.
	How      string `json:"how,omitempty"`
	Decision string `json:"decision,omitempty"` // allow or deny, if it was answered
	By       string `json:"by,omitempty"`       // who answered: client, policy or agent
	// AnsweredBy is the client that answered; absent for a policy, and if TRL does not know it.
	AnsweredBy *DialogueAnswerer `json:"answered_by,omitempty"`
	// AnsweredAt is when it was answered. Absent in events, which have their own time.
	AnsweredAt *time.Time `json:"answered_at,omitempty"`
}

// DialogueAnswerer is a client that answered a request.
type DialogueAnswerer struct {
	// Transport is how the client was connected: socket, stdio, http, websocket, grpc or mcp.
	Transport string `json:"transport"`
	Label     string `json:"label,omitempty"`    // label of its connection, from system.hello
	LoginID   string `json:"login_id,omitempty"` // login of the console, as web.list has it
}

// SubjectGuessed reports whether the subject is text that the agent wrote for people. It may
// contain more than the command, the path or the address.
func (r DialogueRequest) SubjectGuessed() bool {
	switch r.SubjectSource {
	case "title", "content", "title_and_content":
		return true
	}
	return false
}

// DialogueQuestion is one question of a request.
type DialogueQuestion struct {
	ID       string           `json:"id,omitempty"`       // key for the answer; the question's text works too
	Question string           `json:"question"`           // the text
	Header   string           `json:"header,omitempty"`   // a short title
	Options  []DialogueOption `json:"options,omitempty"`  // answers to choose from
	Multiple bool             `json:"multiple,omitempty"` // true if several options may be chosen, separated by commas
}

// DialogueOption is an answer that the agent offers.
type DialogueOption struct {
	ID          string `json:"id,omitempty"`          // for dialogue.respond
	Label       string `json:"label"`                 // for people
	Description string `json:"description,omitempty"` // meaning of the option
	Kind        string `json:"kind,omitempty"`        // allow, allow_always, deny or deny_always
}

// DialogueMessage is the state of a message to the agent.
type DialogueMessage struct {
	MessageID string `json:"message_id"` // as in dialogue.send
	// State is sent, queued, started, done, cancelled or lost.
	State string `json:"state"`
}

// DialogueUsage is the number of tokens and the cost, as the agent reported them.
type DialogueUsage struct {
	InputTokens      int64    `json:"input_tokens"`       // input tokens, without those read from a cache
	OutputTokens     int64    `json:"output_tokens"`      // output tokens, including thinking
	CacheReadTokens  int64    `json:"cache_read_tokens"`  // tokens read from a cache
	CacheWriteTokens int64    `json:"cache_write_tokens"` // tokens written to a cache
	CostUSD          *float64 `json:"cost_usd,omitempty"` // absent if the agent does not report it
	// ContextTokens is how much of the model's context window the conversation fills now, in
	// the usage of a dialogue; absent if the agent does not report it.
	ContextTokens int64 `json:"context_tokens,omitempty"`
	// ContextWindow is the size of that window; absent if the agent does not report it.
	ContextWindow int64 `json:"context_window,omitempty"`
}

// DialogueRetry reports that the agent calls its model again after an error.
type DialogueRetry struct {
	Attempt int    `json:"attempt"`            // number of this attempt
	Most    int    `json:"most,omitempty"`     // maximum number of attempts
	DelayMS int64  `json:"delay_ms,omitempty"` // delay before this attempt
	Cause   string `json:"cause,omitempty"`    // error of the previous attempt
}

// DialogueNotice is a notice for people about the dialogue.
type DialogueNotice struct {
	Level string `json:"level"` // info, warning or error
	Code  string `json:"code"`  // stable, such as stalled or permission_denied
	Text  string `json:"text"`  // for people
}

// DialogueUnparsed is a line of the agent that TRL does not understand.
type DialogueUnparsed struct {
	Why string `json:"why"` // such as not_json, unknown_type, too_long, gap
	// Text is the line, or its beginning; dialogue.raw returns all of it.
	Text  string `json:"text"`
	Bytes int64  `json:"bytes"` // length of the line
}

// DialogueEnd reports how the process of an agent ended.
type DialogueEnd struct {
	// Cause is closed (TRL ended it), exited (on its own, while idle),
	// unexpected_exit, session_destroyed, or start_failed.
	Cause    string `json:"cause"`
	ExitCode *int   `json:"exit_code,omitempty"` // if known
	Signal   string `json:"signal,omitempty"`    // signal that ended it, such as SIGKILL
	// StderrTail is the end of its stderr.
	StderrTail string `json:"stderr_tail,omitempty"`
	Tail       string `json:"tail,omitempty"` // unfinished last line of its stdout
	Text       string `json:"text,omitempty"` // for people
}

// DialogueTranscriptResult is the transcript: the events reduced to a tree.
type DialogueTranscriptResult struct {
	DialogueID string            `json:"dialogue_id"`     // the id, even if the caller used the name
	Seq        int64             `json:"seq"`             // number of the last event in the transcript
	State      DialogueState     `json:"state"`           // state after that event
	Turns      []DialogueTurn    `json:"turns"`           // in order
	Items      []DialogueItem    `json:"items"`           // in order; items of subagents are in their tool calls
	Tasks      []DialogueTask    `json:"tasks"`           // in order
	Requests   []DialogueRequest `json:"requests"`        // open and closed requests
	Notices    []DialogueNotice  `json:"notices"`         // in order
	Usage      DialogueUsage     `json:"usage"`           // over all turns
	Ended      *DialogueEnd      `json:"ended,omitempty"` // how the last process ended; absent while it runs
	// A page has the turns, tasks and requests of its items, and those that are open. It has notices
	// only if it reaches the end.
	TotalItems int  `json:"total_items,omitempty"` // number of items of the scope, on all pages
	HasBefore  bool `json:"has_before,omitempty"`  // true if items precede the page
	HasAfter   bool `json:"has_after,omitempty"`   // true if items follow the page
}
