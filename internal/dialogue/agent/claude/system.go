package claude

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// system handles the lines that the program writes about itself.
func (p *protocol) system(l *wireLine) {
	switch l.Subtype {
	case "init": // once per turn, not once per process
		p.publishAbout(api.DialogueOpened{Version: l.text("claude_code_version"), NativeSession: l.SessionID, Model: l.text("model"),
			PermissionMode: l.text("permissionMode"), WorkingDir: l.text("cwd"), Tools: l.texts("tools"), Capabilities: l.texts("capabilities"),
			Commands: agent.SlashCommands(l.texts("slash_commands"))})
		p.openTurn()
	case "session_state_changed":
		p.stateChanged(l)
	case "status":
		p.publishAbout(api.DialogueOpened{PermissionMode: l.text("permissionMode")})
		if text := l.wording("compact_error"); text != "" {
			p.notice("warning", "compact_failed", text)
		}
	case "task_started", "task_progress", "task_updated", "task_notification":
		p.task(l)
	case "background_tasks_changed":
		p.backgroundTasks(l)
	case "api_retry":
		p.retry(l)
	case "compact_boundary":
		about := readFields(l.raw("compact_metadata"))
		text := fmt.Sprintf("the conversation was compacted (%s; it had %d tokens)", cmp.Or(about.text("trigger"), "by the agent"), about.number("pre_tokens"))
		p.publish(api.DialogueEvent{Type: api.DialogueEventCompacted, Notice: &api.DialogueNotice{Level: "info", Code: "compacted", Text: text}})
	case "local_command_output":
		p.newItem("", api.DialogueItem{ItemID: p.ids.Item(), NativeID: l.UUID, Kind: "agent", Status: "final", Synthetic: true, Parts: textParts(systemText(l))})
	case "informational", "notification":
		p.notice(systemLevel(l), "informational", systemText(l))
	case "permission_denied":
		p.notice("warning", "permission_denied", systemText(l))
	case "hook_response":
		p.hook(l)
	case "model_refusal_fallback":
		p.retractLines(l.texts("retracted_message_uuids"))
		p.notice("warning", "model_fallback", cmp.Or(systemText(l), "another model answers"))
	case "model_refusal_no_fallback":
		p.notice("warning", "model_refusal", cmp.Or(systemText(l), "the model refused"))
	case "mirror_error", "session_writes_lost", "worker_shutting_down":
		p.notice("warning", l.Subtype, cmp.Or(systemText(l), strings.ReplaceAll(l.Subtype, "_", " ")))
	case "hook_started", "hook_progress", "memory_recall", "thinking_tokens", "commands_changed",
		"files_persisted", "elicitation_complete", "plugin_install", "control_request_progress":
		// These do not belong to the conversation.
	default:
		p.unparsed("unknown_subtype")
	}
}

// retry publishes that the program calls the model again, and retracts its unfinished answer.
func (p *protocol) retry(l *wireLine) {
	p.dropPartials(l.Scope)
	cause := l.wording("error")
	if status := l.number("error_status"); status != 0 {
		cause = strings.TrimSpace(fmt.Sprintf("%s (HTTP %d)", cause, status))
	}
	p.publish(api.DialogueEvent{Type: api.DialogueEventRetry, Retry: &api.DialogueRetry{Attempt: int(l.number("attempt")), Most: int(l.number("max_retries")), DelayMS: int64(l.fraction("retry_delay_ms")), Cause: cause}})
}

// hook publishes the failure of a hook.
func (p *protocol) hook(l *wireLine) {
	if outcome := l.text("outcome"); outcome != "" && outcome != "success" {
		p.notice("warning", "hook", strings.TrimSpace(fmt.Sprintf("hook %s: %s: %s", l.text("hook_name"), outcome, cmp.Or(l.text("stderr"), l.text("output")))))
	}
}

func (p *protocol) rateLimit(l *wireLine) {
	info := readFields(l.raw("rate_limit_info"))
	if status := info.text("status"); status != "" && status != "allowed" {
		p.notice("warning", "rate_limit", strings.TrimSpace(status+" "+info.text("rateLimitType")))
	}
}

// systemText is the text of a line. Lines have it in different fields.
func systemText(l *wireLine) string {
	return cmp.Or(l.wording("content"), l.wording("text"), l.wording("message"), l.wording("error"), l.wording("reason"))
}

func systemLevel(l *wireLine) string {
	if level := l.text("level"); level == "warning" || level == "error" {
		return level
	}
	return "info"
}
