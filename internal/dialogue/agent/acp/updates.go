package acp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
)

// update has the fields of all session updates.
type update struct {
	SessionUpdate string
	toolCall
	MessageID     string
	Entries       []struct{ Content, Status string }
	CurrentModeID string
	ConfigOptions []configOption

	AvailableCommands []struct{ Name string }
	Used, Size        json.RawMessage
	Cost              struct {
		Amount   json.RawMessage
		Currency string
	}
	Meta                  meta `json:"_meta"`
	Severity, Description string
	Error                 string
}

// Notification implements jsonrpc.Peer.
func (a *protocol) Notification(m jsonrpc.Message) (why string) {
	switch m.Method {
	case "session/update":
		var p struct {
			SessionID string
			Update    json.RawMessage
		}
		if json.Unmarshal(m.Params, &p) != nil || len(p.Update) == 0 || p.Update[0] != '{' {
			return "bad_shape"
		}
		if a.session != "" && p.SessionID != a.session {
			a.Step.Ignored = "session/update of another session"
			return ""
		}
		var u update
		json.Unmarshal(p.Update, &u) // a field of an unexpected shape counts as absent
		a.Step.Ignored = "session/update " + u.SessionUpdate
		if a.loading && a.options.Epoch > 1 {
			return "" // the dialogue has it in its record
		}
		why = a.update(u)
		if len(a.Step.Events) > 0 || why != "" {
			a.Step.Ignored = ""
		}
		return why
	case "$/cancel_request":
		var p struct{ RequestID json.RawMessage }
		json.Unmarshal(m.Params, &p)
		a.withdraw("agent", func(r *request) bool { return bytes.Equal(r.ID, p.RequestID) })
		return ""
	case "elicitation/complete":
		return ""
	}
	if strings.HasPrefix(m.Method, "_") && m.ID == nil {
		return "" // an extension of this agent, which needs no answer
	}
	return "unknown_type"
}

func (a *protocol) update(u update) (why string) {
	switch u.SessionUpdate {
	case "user_message_chunk":
		a.chunk("user", u)
	case "agent_message_chunk":
		a.called(u.Meta.Usage)
		if part := jsonrpc.Part(u.Content); u.Meta.Usage == nil || part.Type != "text" || part.Text != "" {
			a.chunk("agent", u)
		}
	case "agent_thought_chunk":
		a.chunk("reasoning", u)
	case "tool_call", "tool_call_update":
		if u.ToolCallID == "" {
			return "bad_shape"
		}
		a.publishTool(a.toolCall(u.toolCall, u.SessionUpdate))
	case "plan":
		a.finishText("final")
		var b strings.Builder
		for _, e := range u.Entries {
			fmt.Fprintf(&b, "- [%s] %s\n", jsonrpc.PlanMark(e.Status), e.Content)
		}
		a.Publish(api.DialogueEvent{Type: api.DialogueEventItem, Item: &api.DialogueItem{
			ItemID: a.planID(), Kind: "plan", TurnID: a.turnID(), Status: "final", Parts: []api.DialoguePart{{Type: "text", Text: b.String()}},
		}})
	case "current_mode_update":
		if a.config.Modes == nil {
			a.config.Modes = &sessionModes{}
		}
		a.config.Modes.CurrentModeID = u.CurrentModeID
		a.configured()
	case "config_option_update":
		a.config.ConfigOptions = u.ConfigOptions
		a.configured()
	case "usage_update":
		before := a.usage
		if used, size := jsonrpc.Number[int](u.Used), jsonrpc.Number[int](u.Size); used != nil && size != nil {
			a.usage.ContextTokens, a.usage.ContextWindow = jsonrpc.Tokens(int64(*used)), jsonrpc.Tokens(int64(*size))
		}
		if amount := jsonrpc.Number[float64](u.Cost.Amount); amount != nil && u.Cost.Currency == "USD" {
			a.cost(*amount)
		}
		if a.usage != before {
			a.publishUsage()
		}
	case "notice":
		level := map[string]string{"info": "info", "warning": "warning", "error": "error"}[u.Severity]
		a.Notice(cmp.Or(level, "info"), "informational", strings.TrimSuffix(u.Title+": "+u.Description, ": "))
	case "compaction_update":
		if u.Status == "completed" {
			a.Publish(api.DialogueEvent{Type: api.DialogueEventCompacted, Notice: &api.DialogueNotice{Level: "info", Code: "compacted", Text: "the conversation was compacted"}})
		} else if u.Status == "failed" {
			a.Notice("warning", "compaction_failed", "the conversation could not be compacted: "+u.Error)
		}
	case "available_commands_update":
		var names []string
		for _, c := range u.AvailableCommands {
			names = append(names, c.Name)
		}
		if slices.Equal(a.opened.Commands, agent.SlashCommands(names)) {
			return ""
		}
		a.opened.Commands = agent.SlashCommands(names)
		if now := a.opened; a.ready {
			a.Publish(api.DialogueEvent{Type: api.DialogueEventOpened, NativeID: a.session, Opened: &now})
		}
	case "session_info_update":
		if u.Title == "" || u.Title == a.opened.Title {
			return ""
		}
		a.opened.Title = u.Title
		if now := a.opened; a.ready {
			a.Publish(api.DialogueEvent{Type: api.DialogueEventOpened, NativeID: a.session, Opened: &now})
		}
	case "compaction_summary_chunk":
	default:
		return "unknown_subtype"
	}
	return ""
}

// cost handles the cost of the whole session, and subtracts the cost before this process. In a
// resumed session that is the first figure. If the figure already includes a turn of this
// process, the cost of that turn is not published; otherwise the cost of all earlier turns would
// be published twice.
func (a *protocol) cost(amount float64) {
	if a.costBefore == nil || a.turns == 0 {
		before := 0.0
		if a.options.Resume != "" {
			before = amount
		}
		a.costBefore = &before
	}
	ours := max(0, amount-*a.costBefore)
	if a.usage.CostUSD == nil && ours == 0 || a.usage.CostUSD != nil && *a.usage.CostUSD == ours {
		return
	}
	a.usage.CostUSD = &ours
}

// planID is the id of the plan of a turn; the agent sends the whole plan with every change.
func (a *protocol) planID() string {
	if turn := a.turnID(); a.plan == "" || a.planOf != turn {
		a.plan, a.planOf = a.IDs.Item(), turn
	}
	return a.plan
}

// growingText is a text that the agent sends in chunks.
type growingText struct {
	item    api.DialogueItem
	message string // the agent's id of the message, if it sends one
	last    strings.Builder
	open    bool // the last part still grows
}

// chunk handles a piece of a text. Successive pieces of one kind, with the same id of the message
// if the agent sends one, make an item.
func (a *protocol) chunk(kind string, u update) {
	part := jsonrpc.Part(u.Content)
	if kind == "user" {
		if p := a.turn(); p != nil && echoes(p, part) {
			return
		}
	}
	t := a.saying
	if t == nil || t.item.Kind != kind || t.message != u.MessageID {
		a.finishText("final")
		t = &growingText{message: u.MessageID, item: api.DialogueItem{
			ItemID: a.IDs.Item(), NativeID: u.MessageID, Kind: kind, TurnID: a.turnID(), Status: "streaming", Synthetic: kind == "user" && a.turn() != nil,
		}}
		a.saying = t
		if part.Type == "text" {
			t.open = true
			t.item.Parts = []api.DialoguePart{{Type: "text"}}
			a.publishText(t)
		}
	}
	switch {
	case part.Type == "text" && t.open:
		t.last.WriteString(part.Text)
		a.Publish(api.DialogueEvent{Type: api.DialogueEventDelta, Delta: &api.DialogueDelta{ItemID: t.item.ItemID, Field: "text", Text: part.Text}})
	default:
		t.close()
		t.item.Parts = append(t.item.Parts, part)
		if part.Type == "text" {
			t.open = true
			t.last.WriteString(part.Text)
		}
		a.publishText(t)
	}
}

// echoes reports whether a part repeats the prompt, as some agents do.
func echoes(p *prompt, part api.DialoguePart) bool {
	return slices.ContainsFunc(p.Content, func(c api.DialogueContent) bool {
		return c.Type == part.Type && strings.Contains(c.Text, part.Text)
	})
}

// close puts the text into its part, which does not grow any more.
func (t *growingText) close() {
	if t.open {
		t.item.Parts[len(t.item.Parts)-1].Text = t.last.String()
		t.last.Reset()
		t.open = false
	}
}

func (a *protocol) publishText(t *growingText) {
	item := t.item
	item.Parts = slices.Clone(t.item.Parts)
	if t.open {
		item.Parts[len(item.Parts)-1].Text = t.last.String()
	}
	a.Publish(api.DialogueEvent{Type: api.DialogueEventItem, NativeID: t.message, Item: &item})
}

// finishText ends the text that the agent is writing.
func (a *protocol) finishText(status string) {
	t := a.saying
	if t == nil {
		return
	}
	a.saying = nil
	t.close()
	t.item.Status = status
	if p := a.turn(); p != nil && t.item.Kind == "agent" {
		p.text = ""
		for _, part := range t.item.Parts {
			p.text += part.Text
		}
	}
	a.publishText(t)
}
