package agent

import (
	"fmt"
	"strings"

	"github.com/trl-dev/trl/api"
)

// claudeAbout is what the program says of itself: in init, and of its mode also in status.
type claudeAbout struct {
	Cwd          string     `json:"cwd"`
	Model        string     `json:"model"`
	Mode         string     `json:"permissionMode"`
	Version      string     `json:"claude_code_version"`
	Tools        []string   `json:"tools"`
	Capabilities []string   `json:"capabilities"`
	CompactError claudeText `json:"compact_error"`
}

// system takes the lines in which the program speaks of itself.
func (p *claudeProtocol) system(l *claudeLine) {
	switch l.Subtype {
	case "init": // once a turn, not once a process
		p.tellAbout(api.DialogueOpened{Version: l.Version, NativeSession: l.SessionID, Model: l.Model,
			PermissionMode: l.Mode, WorkingDir: l.Cwd, Tools: l.Tools, Capabilities: l.Capabilities})
		p.openTurn()
	case "session_state_changed":
		p.stateChanged(l)
	case "status":
		p.tellAbout(api.DialogueOpened{PermissionMode: l.Mode})
		if text := l.CompactError.text(); text != "" {
			p.notice("warning", "compact_failed", text)
		}
	case "task_started", "task_progress", "task_updated", "task_notification":
		p.task(l)
	case "background_tasks_changed":
		p.backgroundTasks(l)
	case "api_retry":
		p.retry(l)
	case "compact_boundary":
		var in struct {
			About struct {
				Trigger string `json:"trigger"`
				Before  int64  `json:"pre_tokens"`
			} `json:"compact_metadata"`
		}
		lenient(l.raw, &in)
		text := fmt.Sprintf("the conversation was compacted (%s; it had %d tokens)", or(in.About.Trigger, "by the agent"), in.About.Before)
		p.tell(api.DialogueEvent{Type: api.ToldCompacted, Notice: &api.DialogueNotice{Level: "info", Code: "compacted", Text: text}})
	case "local_command_output":
		p.newItem("", api.DialogueItem{ItemID: or(l.UUID, "local"), Kind: "agent", Status: "final", Synthetic: true, Parts: textParts(systemText(l))})
	case "informational", "notification":
		p.notice(systemLevel(l), "informational", systemText(l))
	case "permission_denied":
		p.notice("warning", "permission_denied", systemText(l))
	case "hook_response":
		p.hook(l)
	case "model_refusal_fallback":
		p.retractLines(l.Retracted)
		p.notice("warning", "model_fallback", or(systemText(l), "another model answers"))
	case "model_refusal_no_fallback":
		p.notice("warning", "model_refusal", or(systemText(l), "the model refused"))
	case "mirror_error", "session_writes_lost", "worker_shutting_down":
		p.notice("warning", l.Subtype, or(systemText(l), strings.ReplaceAll(l.Subtype, "_", " ")))
	case "hook_started", "hook_progress", "memory_recall", "thinking_tokens", "commands_changed",
		"files_persisted", "elicitation_complete", "plugin_install", "control_request_progress":
		// Nothing that belongs to the conversation.
	default:
		p.unparsed("unknown_subtype")
	}
}

// retry tells that the model is called again. What it was writing is gone.
func (p *claudeProtocol) retry(l *claudeLine) {
	p.dropPartials(l.Scope)
	var in struct {
		Attempt int     `json:"attempt"`
		Most    int     `json:"max_retries"`
		Delay   float64 `json:"retry_delay_ms"`
		Status  int     `json:"error_status"`
	}
	lenient(l.raw, &in)
	cause := l.Error.text()
	if in.Status != 0 {
		cause = strings.TrimSpace(fmt.Sprintf("%s (HTTP %d)", cause, in.Status))
	}
	p.tell(api.DialogueEvent{Type: api.ToldRetry, Retry: &api.DialogueRetry{Attempt: in.Attempt, Most: in.Most, DelayMS: int64(in.Delay), Cause: cause}})
}

// hook tells of a hook that did not go well.
func (p *claudeProtocol) hook(l *claudeLine) {
	var in struct {
		Name    string `json:"hook_name"`
		Outcome string `json:"outcome"`
		Stderr  string `json:"stderr"`
		Output  string `json:"output"`
	}
	lenient(l.raw, &in)
	if in.Outcome != "" && in.Outcome != "success" {
		p.notice("warning", "hook", strings.TrimSpace(fmt.Sprintf("hook %s: %s: %s", in.Name, in.Outcome, or(in.Stderr, in.Output))))
	}
}

func (p *claudeProtocol) rateLimit(l *claudeLine) {
	var in struct {
		Info struct {
			Status string `json:"status"`
			Kind   string `json:"rateLimitType"`
		} `json:"rate_limit_info"`
	}
	lenient(l.raw, &in)
	if in.Info.Status != "" && in.Info.Status != "allowed" {
		p.notice("warning", "rate_limit", strings.TrimSpace(in.Info.Status+" "+in.Info.Kind))
	}
}

// systemText is the text of a line that has one, under the names that are used for it.
func systemText(l *claudeLine) string {
	var in struct {
		Content claudeText `json:"content"`
		Text    claudeText `json:"text"`
		Message claudeText `json:"message"`
		Reason  claudeText `json:"reason"`
	}
	lenient(l.raw, &in)
	return or(in.Content.text(), in.Text.text(), in.Message.text(), l.Error.text(), in.Reason.text())
}

func systemLevel(l *claudeLine) string {
	var in struct {
		Level string `json:"level"`
	}
	if lenient(l.raw, &in); in.Level == "warning" || in.Level == "error" {
		return in.Level
	}
	return "info"
}
