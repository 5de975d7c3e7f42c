package api

import (
	"encoding/json"
	"time"
)

// DialogueEventType says what an event of a dialogue tells, and which of its fields is set.
type DialogueEventType string

// The types of events of a dialogue.
const (
	ToldOpened        DialogueEventType = "opened"         // opened: the agent tells of itself
	ToldReset         DialogueEventType = "reset"          // opened: the conversation goes on under another id of the agent's
	ToldState         DialogueEventType = "state"          // state
	ToldTurnStarted   DialogueEventType = "turn_started"   // turn
	ToldTurnEnded     DialogueEventType = "turn_ended"     // turn
	ToldItem          DialogueEventType = "item"           // item: it is new, or takes the place of what was told of it
	ToldDelta         DialogueEventType = "delta"          // delta: more of an item that is being written
	ToldRetracted     DialogueEventType = "retracted"      // retracted: items that are no more
	ToldTask          DialogueEventType = "task"           // task: it is new, or takes the place of what was told of it
	ToldRequestOpened DialogueEventType = "request_opened" // request: it waits for an answer
	ToldRequestClosed DialogueEventType = "request_closed" // request: with how
	ToldMessage       DialogueEventType = "message"        // message: what became of one that was sent
	ToldUsage         DialogueEventType = "usage"          // usage: since the process began
	ToldCompacted     DialogueEventType = "compacted"      // notice: the agent shortened what it remembers
	ToldRetry         DialogueEventType = "retry"          // retry: the agent calls its model again
	ToldNotice        DialogueEventType = "notice"         // notice
	ToldUnparsed      DialogueEventType = "unparsed"       // unparsed: a line that says nothing we know
	ToldEnded         DialogueEventType = "ended"          // ended: the process is gone; the last event, unless the dialogue is resumed
)

// DialogueEvent is one entry of the record of a dialogue, which only grows.
type DialogueEvent struct {
	Seq   int64             `json:"seq"`   // 1, 2, 3 … in the dialogue
	At    time.Time         `json:"at"`    // when it was heard
	Type  DialogueEventType `json:"type"`  // what it tells
	Epoch int               `json:"epoch"` // which process of the agent, from 1
	// Offset is where the line begins that it was made of, in the raw stream of the
	// epoch. Absent: TRL made it.
	Offset *int64 `json:"offset,omitempty"`
	// Scope is the tool call whose sub-transcript it belongs to. Empty: none.
	Scope string `json:"scope,omitempty"`
	// NativeID is the agent's own id of the line, where it has one.
	NativeID string `json:"native_id,omitempty"`

	Opened    *DialogueOpened   `json:"opened,omitempty"`    // for opened and reset
	State     DialogueState     `json:"state,omitempty"`     // for state
	Turn      *DialogueTurn     `json:"turn,omitempty"`      // for turn_started and turn_ended
	Item      *DialogueItem     `json:"item,omitempty"`      // for item; without the items below it
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

// DialogueOpened is what an agent tells of itself. A field that is empty was not told.
type DialogueOpened struct {
	Agent          string   `json:"agent,omitempty"`           // as in dialogue.create
	Version        string   `json:"version,omitempty"`         // of its program
	NativeSession  string   `json:"native_session,omitempty"`  // its own id of the conversation
	Model          string   `json:"model,omitempty"`           // that answers
	PermissionMode string   `json:"permission_mode,omitempty"` // in its own words
	WorkingDir     string   `json:"working_dir,omitempty"`     // where it works
	Tools          []string `json:"tools,omitempty"`           // that it has
	Capabilities   []string `json:"capabilities,omitempty"`    // that it declares
	Commands       []string `json:"commands,omitempty"`        // that it takes as messages, such as /compact
	Models         []string `json:"models,omitempty"`          // that dialogue.set takes
	Why            string   `json:"why,omitempty"`             // of a reset: cleared, forked …
}

// DialogueTurn is the work between two rests of the agent.
type DialogueTurn struct {
	TurnID string `json:"turn_id"` // TRL's own; never used again in the dialogue
	// Trigger is why it began: user, agent (by itself) or resume.
	Trigger string `json:"trigger,omitempty"`
	// Messages are the ids of what was sent that it answers, as far as known.
	Messages []string `json:"messages,omitempty"`
	// Outcome is how it ended: completed, failed, interrupted, limit or lost. Empty: it has not.
	Outcome string `json:"outcome,omitempty"`
	Native  string `json:"native,omitempty"` // the agent's own word for the outcome
	Text    string `json:"text,omitempty"`   // the answer, as the agent sums it up; or what went wrong
	// Usage is that of this turn, as the agent reported it.
	Usage      *DialogueUsage `json:"usage,omitempty"`
	DurationMS int64          `json:"duration_ms,omitempty"` // as the agent reported it
	Steps      int            `json:"steps,omitempty"`       // calls of the model, as the agent reported it
	// Denials are the tool calls that were not allowed.
	Denials []string `json:"denials,omitempty"`
}

// DialogueItem is one thing that was said or done.
type DialogueItem struct {
	ItemID string `json:"item_id"` // TRL's own; never used again in the dialogue
	// NativeID is the agent's own id of the tool call or the message. Others may have it too.
	NativeID string `json:"native_id,omitempty"`
	// Kind is user, agent, reasoning, tool_call or plan.
	Kind   string         `json:"kind"`
	TurnID string         `json:"turn_id,omitempty"` // the turn it belongs to
	Parts  []DialoguePart `json:"parts,omitempty"`   // what was said
	// Status is streaming, final, aborted or lost.
	Status string            `json:"status"`
	Tool   *DialogueToolCall `json:"tool,omitempty"` // for kind tool_call
	// Synthetic says that the agent's program wrote it, not its model and not a person.
	Synthetic bool   `json:"synthetic,omitempty"`
	Error     string `json:"error,omitempty"` // what went wrong, in the agent's words
}

// DialoguePart is a part of what was said, or of the output of a tool.
type DialoguePart struct {
	// Type is text, image, resource, diff or data.
	Type       string          `json:"type"`
	Text       string          `json:"text,omitempty"`        // for text; the new text of a diff
	Old        string          `json:"old,omitempty"`         // the old text of a diff
	Path       string          `json:"path,omitempty"`        // of a diff or resource
	MediaType  string          `json:"media_type,omitempty"`  // of an image or resource
	DataBase64 string          `json:"data_base64,omitempty"` // of an image or resource
	Data       json.RawMessage `json:"data,omitempty"`        // for data: as the agent told it
}

// DialogueToolCall is the use of a tool.
type DialogueToolCall struct {
	Name string `json:"name"` // as the agent calls it
	// Kind is execute, read, edit, search, fetch, agent, mcp, question, plan or other.
	Kind string `json:"kind"`
	// Subject is what it is about: a command, a path, an address.
	Subject string          `json:"subject,omitempty"`
	Title   string          `json:"title,omitempty"` // for people, when the agent has one
	Input   json.RawMessage `json:"input,omitempty"` // as the model gave it
	// EffectiveInput is what the tool was given, when the answer to a request changed the
	// input. Then the subject is that of this one.
	EffectiveInput json.RawMessage `json:"effective_input,omitempty"`
	Output         []DialoguePart  `json:"output,omitempty"` // what it gave
	// Structured is its output as the agent's program has it.
	Structured json.RawMessage `json:"structured,omitempty"`
	// Status is pending, awaiting_approval, running, completed, failed, cancelled or lost.
	Status   string `json:"status"`
	ExitCode *int   `json:"exit_code,omitempty"` // of a command, where it is told
	// TaskID is the work that it started, which may go on when the call has ended.
	TaskID string `json:"task_id,omitempty"`
	// Items are the sub-transcript: what a subagent that it started said and did.
	Items []DialogueItem `json:"items,omitempty"`
}

// DialogueDelta is more of an item.
type DialogueDelta struct {
	ItemID string `json:"item_id"` // that is being written
	// Field is where it is appended: text (of the last part), input or output of a tool call.
	Field string `json:"field"`
	Text  string `json:"text"` // to append
}

// DialogueTask is work that has a life of its own: a subagent, or a command in the background.
type DialogueTask struct {
	TaskID     string `json:"task_id"`                // TRL's own; never used again in the dialogue
	NativeID   string `json:"native_id,omitempty"`    // the agent's own id of it
	ToolCallID string `json:"tool_call_id,omitempty"` // what started it
	ParentID   string `json:"parent_id,omitempty"`    // the task that started it
	Kind       string `json:"kind"`                   // agent, shell or other
	Name       string `json:"name,omitempty"`         // what it is for
	Depth      int    `json:"depth,omitempty"`        // of nesting, as reported
	Background bool   `json:"background,omitempty"`   // its tool call does not wait for it
	// Status is running, completed, failed, cancelled or lost.
	Status  string         `json:"status"`
	Summary string         `json:"summary,omitempty"` // what it does or did last
	Usage   *DialogueUsage `json:"usage,omitempty"`   // its own, as reported
}

// DialogueRequest is a question of the agent's program to whoever drives it.
type DialogueRequest struct {
	RequestID string `json:"request_id"`          // for dialogue.respond; never used again in the dialogue
	NativeID  string `json:"native_id,omitempty"` // the agent's own id of it
	// Kind is permission, question, plan, elicitation or dialog.
	Kind       string `json:"kind"`
	Tool       string `json:"tool,omitempty"`         // whose use is asked for
	ToolCallID string `json:"tool_call_id,omitempty"` // the item it is about
	TaskID     string `json:"task_id,omitempty"`      // the task that asks
	Subject    string `json:"subject,omitempty"`      // what rules look at; subject_kind says what it is
	// SubjectKind is command, path or address; empty for something else.
	SubjectKind string `json:"subject_kind,omitempty"`
	// SubjectSource is where the subject comes from: input (a field of the tool's input),
	// request (a field of the request), locations (the files that the agent names); or, where
	// the agent says it only in words for people, title, content or title_and_content. Empty:
	// there is no subject, and no rule allows the request behind one with a pattern that
	// might have denied it.
	SubjectSource string          `json:"subject_source,omitempty"`
	Title         string          `json:"title,omitempty"`    // for people
	Reason        string          `json:"reason,omitempty"`   // why it is asked
	Input         json.RawMessage `json:"input,omitempty"`    // of the tool
	Editable      bool            `json:"editable,omitempty"` // the answer may carry another input
	// EffectiveInput is what the answer put in the place of input, or what it added to it.
	EffectiveInput json.RawMessage    `json:"effective_input,omitempty"`
	Questions      []DialogueQuestion `json:"questions,omitempty"` // for kind question
	Options        []DialogueOption   `json:"options,omitempty"`   // answers that the agent offers
	// How it was closed: answered, withdrawn, expired or lost. Empty while it waits.
	How      string `json:"how,omitempty"`
	Decision string `json:"decision,omitempty"` // allow or deny, when it was answered
	By       string `json:"by,omitempty"`       // who answered: client, policy or agent
}

// SubjectGuessed reports whether the subject is what the agent wrote for people: there may be
// more in it than the command, the path or the address.
func (r DialogueRequest) SubjectGuessed() bool {
	switch r.SubjectSource {
	case "title", "content", "title_and_content":
		return true
	}
	return false
}

// DialogueQuestion is one question of a request.
type DialogueQuestion struct {
	ID       string           `json:"id,omitempty"`       // by which it is answered, beside its text
	Question string           `json:"question"`           // the text
	Header   string           `json:"header,omitempty"`   // a word for it
	Options  []DialogueOption `json:"options,omitempty"`  // to choose from
	Multiple bool             `json:"multiple,omitempty"` // several can be chosen, with commas between
}

// DialogueOption is an answer that is offered.
type DialogueOption struct {
	ID          string `json:"id,omitempty"`          // for dialogue.respond
	Label       string `json:"label"`                 // for people
	Description string `json:"description,omitempty"` // what it means
	Kind        string `json:"kind,omitempty"`        // allow, allow_always, deny or deny_always
}

// DialogueMessage is what became of a message that was sent.
type DialogueMessage struct {
	MessageID string `json:"message_id"` // as in dialogue.send
	// State is sent, queued, started, done, cancelled or lost.
	State string `json:"state"`
}

// DialogueUsage is what the work took, as the agent reported it.
type DialogueUsage struct {
	InputTokens      int64    `json:"input_tokens"`       // without those read from a cache
	OutputTokens     int64    `json:"output_tokens"`      // thinking included
	CacheReadTokens  int64    `json:"cache_read_tokens"`  // read from a cache
	CacheWriteTokens int64    `json:"cache_write_tokens"` // written to a cache
	CostUSD          *float64 `json:"cost_usd,omitempty"` // absent when the agent does not tell
	// ContextTokens is how much of the model's window the conversation takes now, in the
	// figures of a dialogue; absent when the agent does not tell.
	ContextTokens int64 `json:"context_tokens,omitempty"`
	// ContextWindow is how much that window holds; absent when the agent does not tell.
	ContextWindow int64 `json:"context_window,omitempty"`
}

// DialogueRetry tells that the agent calls its model again.
type DialogueRetry struct {
	Attempt int    `json:"attempt"`            // which try this is
	Most    int    `json:"most,omitempty"`     // how many there may be
	DelayMS int64  `json:"delay_ms,omitempty"` // before it
	Cause   string `json:"cause,omitempty"`    // what went wrong
}

// DialogueNotice is something worth knowing.
type DialogueNotice struct {
	Level string `json:"level"` // info, warning or error
	Code  string `json:"code"`  // stable, such as stalled or permission_denied
	Text  string `json:"text"`  // for people
}

// DialogueUnparsed is a line of the agent that says nothing we know.
type DialogueUnparsed struct {
	Why string `json:"why"` // such as not_json, unknown_type, too_long, gap
	// Text is the line, or its beginning; dialogue.raw has all of it.
	Text  string `json:"text"`
	Bytes int64  `json:"bytes"` // of the line
}

// DialogueEnd is how the process of an agent ended.
type DialogueEnd struct {
	// Cause is closed (it was asked to end), exited (by itself, at rest),
	// unexpected_exit, session_destroyed, or start_failed.
	Cause    string `json:"cause"`
	ExitCode *int   `json:"exit_code,omitempty"` // when it is known
	Signal   string `json:"signal,omitempty"`    // that it died of, such as SIGKILL
	// StderrTail is the end of what it wrote to stderr.
	StderrTail string `json:"stderr_tail,omitempty"`
	Tail       string `json:"tail,omitempty"` // of stdout: what it wrote of a last line that has no end
	Text       string `json:"text,omitempty"` // for people
}

// DialogueTranscriptResult is the transcript: the events reduced to a tree.
type DialogueTranscriptResult struct {
	DialogueID string            `json:"dialogue_id"`     // its id, also when a name was given
	Seq        int64             `json:"seq"`             // of the last event that is in it
	State      DialogueState     `json:"state"`           // after that event
	Turns      []DialogueTurn    `json:"turns"`           // in order
	Items      []DialogueItem    `json:"items"`           // in order; those of subagents are in their tool calls
	Tasks      []DialogueTask    `json:"tasks"`           // in order
	Requests   []DialogueRequest `json:"requests"`        // those that wait, and those that were closed
	Notices    []DialogueNotice  `json:"notices"`         // in order
	Usage      DialogueUsage     `json:"usage"`           // over all turns
	Ended      *DialogueEnd      `json:"ended,omitempty"` // how the process ended last, when it has
}
