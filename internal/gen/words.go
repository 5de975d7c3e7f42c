package main

// words is a set of words that is a string in Go, with the fields that have one of them.
type words struct {
	enum
	fields []string // type.field
}

// dialogueWords are those of dialogues. The comments of the fields in package api name
// the same ones; a test compares.
var dialogueWords = []words{
	{enum{"DialogueDecision", "What a request of an agent is answered with.", []string{"allow", "deny"}},
		[]string{"DialogueRespondParams.decision", "DialogueRequest.decision"}},
	{enum{"DialogueAction", "What a rule does with a request that it fits.", []string{"allow", "deny", "ask"}},
		[]string{"DialogueRule.action"}},
	{enum{"DialogueContentType", "What a block of a message is.", []string{"text", "image"}},
		[]string{"DialogueContent.type"}},
	{enum{"RawStream", "A raw stream of an agent's program.", []string{"stdout", "stdin"}},
		[]string{"DialogueRawParams.stream"}},
	{enum{"DialogueFaultReason", "Why a dialogue cannot go on.", []string{"session_gone", "auth_rejected", "unreachable", "refused", "disk"}},
		[]string{"DialogueFault.reason"}},
	{enum{"SubjectKind", "What the subject of a request is.", []string{"command", "path", "address"}},
		[]string{"DialogueRequest.subject_kind"}},
	{enum{"TurnTrigger", "Why a turn began.", []string{"user", "agent", "resume"}},
		[]string{"DialogueTurn.trigger"}},
	{enum{"TurnOutcome", "How a turn ended.", []string{"completed", "failed", "interrupted", "limit", "lost"}},
		[]string{"DialogueTurn.outcome"}},
	{enum{"ItemKind", "What an item of a transcript is.", []string{"user", "agent", "reasoning", "tool_call", "plan"}},
		[]string{"DialogueItem.kind"}},
	{enum{"ItemStatus", "How far an item is.", []string{"streaming", "final", "aborted", "lost"}},
		[]string{"DialogueItem.status"}},
	{enum{"PartType", "What a part of an item is.", []string{"text", "image", "resource", "diff", "data"}},
		[]string{"DialoguePart.type"}},
	{enum{"ToolKind", "What a tool does.", []string{"execute", "read", "edit", "search", "fetch", "agent", "mcp", "question", "plan", "other"}},
		[]string{"DialogueToolCall.kind"}},
	{enum{"ToolStatus", "How far a tool call is.", []string{"pending", "awaiting_approval", "running", "completed", "failed", "cancelled", "lost"}},
		[]string{"DialogueToolCall.status"}},
	{enum{"DeltaField", "What of an item grows.", []string{"text", "input", "output"}},
		[]string{"DialogueDelta.field"}},
	{enum{"TaskKind", "What a task is.", []string{"agent", "shell", "other"}},
		[]string{"DialogueTask.kind"}},
	{enum{"TaskStatus", "How far a task is.", []string{"running", "completed", "failed", "cancelled", "lost"}},
		[]string{"DialogueTask.status"}},
	{enum{"RequestKind", "What an agent asks for.", []string{"permission", "question", "plan", "elicitation", "dialog"}},
		[]string{"DialogueRequest.kind"}},
	{enum{"RequestHow", "How a request was closed.", []string{"answered", "withdrawn", "expired", "lost"}},
		[]string{"DialogueRequest.how"}},
	{enum{"RequestBy", "Who closed a request.", []string{"client", "policy", "agent"}},
		[]string{"DialogueRequest.by"}},
	{enum{"OptionKind", "What an offered answer means.", []string{"allow", "allow_always", "deny", "deny_always"}},
		[]string{"DialogueOption.kind"}},
	{enum{"MessageState", "What became of a message.", []string{"sent", "queued", "started", "done", "cancelled", "lost"}},
		[]string{"DialogueMessage.state"}},
	{enum{"NoticeLevel", "How bad it is.", []string{"info", "warning", "error"}},
		[]string{"DialogueNotice.level"}},
	{enum{"EndCause", "Why the process of an agent ended.", []string{"closed", "exited", "unexpected_exit", "session_destroyed", "start_failed"}},
		[]string{"DialogueEnd.cause"}},
}
