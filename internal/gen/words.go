package main

// words is an enumeration whose type in Go is string, with the fields that use it.
type words struct {
	enum
	fields []string // type.field
}

// dialogueWords are the enumerations of dialogues. The comments of the fields in package api
// list the same words; a test compares them.
var dialogueWords = []words{
	{enum{"DialogueDecision", "The answer to a request of an agent.", []string{"allow", "deny"}},
		[]string{"DialogueRespondParams.decision", "DialogueRequest.decision"}},
	{enum{"DialogueAction", "The action of a rule for a matching request.", []string{"allow", "deny", "ask"}},
		[]string{"DialogueRule.action"}},
	{enum{"DialogueContentType", "The type of a block of a message.", []string{"text", "image"}},
		[]string{"DialogueContent.type"}},
	{enum{"RawStream", "A raw stream of an agent's program.", []string{"stdout", "stdin"}},
		[]string{"DialogueRawParams.stream"}},
	{enum{"DialogueFaultReason", "Why a dialogue cannot continue.", []string{"session_gone", "auth_rejected", "unreachable", "refused", "disk"}},
		[]string{"DialogueFault.reason"}},
	{enum{"SubjectKind", "The kind of a request's subject.", []string{"command", "path", "address"}},
		[]string{"DialogueRequest.subject_kind"}},
	{enum{"TurnTrigger", "Why a turn started.", []string{"user", "agent", "resume"}},
		[]string{"DialogueTurn.trigger"}},
	{enum{"TurnOutcome", "How a turn ended.", []string{"completed", "failed", "interrupted", "limit", "lost"}},
		[]string{"DialogueTurn.outcome"}},
	{enum{"ItemKind", "The kind of an item of a transcript.", []string{"user", "agent", "reasoning", "tool_call", "plan"}},
		[]string{"DialogueItem.kind"}},
	{enum{"ItemStatus", "The status of an item.", []string{"streaming", "final", "aborted", "lost"}},
		[]string{"DialogueItem.status"}},
	{enum{"PartType", "The type of a part of an item.", []string{"text", "image", "resource", "diff", "data"}},
		[]string{"DialoguePart.type"}},
	{enum{"ToolKind", "The kind of a tool.", []string{"execute", "read", "edit", "search", "fetch", "agent", "mcp", "question", "plan", "other"}},
		[]string{"DialogueToolCall.kind"}},
	{enum{"ToolStatus", "The status of a tool call.", []string{"pending", "awaiting_approval", "running", "completed", "failed", "cancelled", "lost"}},
		[]string{"DialogueToolCall.status"}},
	{enum{"DeltaField", "The field of an item that a delta extends.", []string{"text", "input", "output"}},
		[]string{"DialogueDelta.field"}},
	{enum{"TaskKind", "The kind of a task.", []string{"agent", "shell", "other"}},
		[]string{"DialogueTask.kind"}},
	{enum{"TaskStatus", "The status of a task.", []string{"running", "completed", "failed", "cancelled", "lost"}},
		[]string{"DialogueTask.status"}},
	{enum{"RequestKind", "The kind of a request.", []string{"permission", "question", "plan", "elicitation", "dialog"}},
		[]string{"DialogueRequest.kind"}},
	{enum{"RequestHow", "How a request was closed.", []string{"answered", "withdrawn", "expired", "lost"}},
		[]string{"DialogueRequest.how"}},
	{enum{"RequestBy", "Who closed a request.", []string{"client", "policy", "agent"}},
		[]string{"DialogueRequest.by"}},
	{enum{"OptionKind", "The meaning of an offered answer.", []string{"allow", "allow_always", "deny", "deny_always"}},
		[]string{"DialogueOption.kind"}},
	{enum{"MessageState", "The state of a message.", []string{"sent", "queued", "started", "done", "cancelled", "lost"}},
		[]string{"DialogueMessage.state", "DialogueItem.message"}},
	{enum{"NoticeLevel", "The severity of a notice.", []string{"info", "warning", "error"}},
		[]string{"DialogueNotice.level"}},
	{enum{"EndCause", "Why the process of an agent ended.", []string{"closed", "exited", "unexpected_exit", "session_destroyed", "start_failed"}},
		[]string{"DialogueEnd.cause"}},
}
