package claude

import (
	"cmp"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
)

// turn is the open turn.
type turn struct {
	id          string
	trigger     string
	messages    []string
	interrupted bool // a text of the program reports it
}

// sentMessage is a message that was sent and is not done.
type sentMessage struct {
	state     string
	turn      string // the turn that answers it
	lifecycle bool   // the program reports its progress
	noticed   bool   // the program has reacted to it
}

// openTurn begins a turn, unless one is open.
func (p *protocol) openTurn() {
	if p.turn != nil {
		return
	}
	p.forgetEnded()
	p.reporting = false
	t := &turn{id: p.ids.Turn(), trigger: "agent"}
	for _, id := range p.unfinished {
		m := p.messages[id]
		m.noticed = m.noticed || m.state != "sent"
		switch {
		case m.state == "started" && m.turn == "":
			m.turn, t.trigger = t.id, "user"
			t.messages = append(t.messages, id)
		case m.state == "sent" && !p.lifecycle:
			t.trigger = "user" // the result will say which messages it answers
		}
	}
	if t.trigger == "agent" && p.turns == 0 && p.options.Resume != "" {
		t.trigger = "resume"
	}
	if t.trigger == "agent" && p.hushed {
		// The program reports the stopped tasks to the model, in an unwanted turn.
		p.control(map[string]any{"subtype": "interrupt"}, func(controlAnswer) {})
	}
	p.turn = t
	p.turns++
	p.publish(api.DialogueEvent{Type: api.DialogueEventTurnStarted, Turn: &api.DialogueTurn{TurnID: t.id, Trigger: t.trigger, Messages: slices.Clone(t.messages)}})
}

// joinTurn adds messages to the open turn. A message that arrives during a turn joins it, so a
// turn may have several.
func (p *protocol) joinTurn(ids []string) {
	if p.turn == nil {
		return
	}
	for _, id := range ids {
		if id == "" || slices.Contains(p.turn.messages, id) {
			continue
		}
		p.turn.messages = append(p.turn.messages, id)
		if m := p.messages[id]; m != nil {
			m.turn, m.noticed = p.turn.id, true
		}
	}
}

// leaveTurn removes a message from the open turn, which does not answer it.
func (p *protocol) leaveTurn(id string) {
	p.messages[id].turn = ""
	if p.turn != nil {
		p.turn.messages = slices.DeleteFunc(p.turn.messages, func(s string) bool { return s == id })
	}
}

// lifecycleOf handles the progress of a message.
func (p *protocol) lifecycleOf(l *wireLine) {
	p.lifecycle = true
	id := l.text("command_uuid")
	m := p.messages[id]
	if m == nil {
		return
	}
	m.lifecycle = true
	switch l.text("state") {
	case "queued": // also when a started message goes back to the queue
		p.leaveTurn(id)
		m.noticed = false
		p.moveMessage(id, "queued")
	case "started":
		p.moveMessage(id, "started")
		p.joinTurn([]string{id})
	case "completed":
		p.moveMessage(id, "done")
	case "cancelled":
		p.moveMessage(id, "cancelled")
	}
}

// ours reports whether TRL sent a message to this process.
func (p *protocol) ours(id string) bool {
	return p.finished.Has(id) || p.messages[id] != nil
}

// echoed handles the echo of a message: the agent has begun to work on it.
func (p *protocol) echoed(id string) {
	if m := p.messages[id]; m != nil && !m.lifecycle && m.state == "sent" {
		p.moveMessage(id, "started")
		p.joinTurn([]string{id})
	}
}

func (p *protocol) moveMessage(id, state string) {
	m := p.messages[id]
	if m.state == state {
		return
	}
	m.state = state
	if state == "done" || state == "cancelled" {
		delete(p.messages, id)
		p.unfinished = slices.DeleteFunc(p.unfinished, func(s string) bool { return s == id })
		p.finished.Put(id, true)
	}
	p.publish(api.DialogueEvent{Type: api.DialogueEventMessage, Message: &api.DialogueMessage{MessageID: id, State: state}})
}

// result handles the end of a turn. Subagents may go on, and report in a turn that no message
// started.
func (p *protocol) result(l *wireLine) {
	wrong := strings.Join(l.texts("errors"), "; ")
	text := l.text("result") // absent after an error
	failed := l.flag("is_error")
	if !p.ready && p.turn == nil && failed {
		// A conversation that cannot be resumed ends with a result instead of an answer.
		p.step.Failed = cmp.Or(wrong, text, l.Subtype)
		return
	}
	p.openTurn()
	p.joinTurn(l.texts("user_message_uuids"))
	turn := p.turn
	if turn.trigger == "user" && len(turn.messages) == 0 {
		p.joinTurn(p.unnoticed()) // old versions do not name the messages of a turn
	}
	if readFields(l.raw("origin")).text("kind") == "task-notification" {
		turn.trigger = "agent"
	}
	p.dropPartials("")

	reason := l.text("terminal_reason")
	usage := readFields(l.raw("usage"))
	told := &api.DialogueTurn{
		TurnID: turn.id, Trigger: turn.trigger, Messages: turn.messages,
		Native: cmp.Or(reason, l.Subtype), Text: text, Steps: int(l.number("num_turns")), DurationMS: int64(l.fraction("duration_ms")),
		Usage: &api.DialogueUsage{
			InputTokens: usage.number("input_tokens"), OutputTokens: usage.number("output_tokens"),
			CacheReadTokens: usage.number("cache_read_input_tokens"), CacheWriteTokens: usage.number("cache_creation_input_tokens"),
		},
	}
	switch {
	case strings.HasPrefix(l.Subtype, "error_max_"):
		told.Outcome, told.Text = "limit", cmp.Or(told.Text, wrong)
	case strings.HasPrefix(reason, "aborted") || l.Subtype == "error_during_execution" && turn.interrupted:
		told.Outcome = "interrupted"
	case failed || l.Subtype != "success":
		told.Outcome, told.Text = "failed", cmp.Or(told.Text, wrong)
	default:
		told.Outcome = "completed"
	}
	denials, _ := readElements(l.raw("permission_denials"))
	for _, d := range denials {
		told.Denials = append(told.Denials, p.callID(readFields(d).text("tool_use_id")))
	}
	p.figures(l, told.Usage)
	p.settleTurn(turn)
	p.turn = nil
	p.publish(api.DialogueEvent{Type: api.DialogueEventTurnEnded, Turn: told})
}

// settleTurn closes the requests and messages of a turn that has ended.
func (p *protocol) settleTurn(turn *turn) {
	for _, id := range slices.Clone(p.waiting) {
		if p.requests[id].info.TaskID == "" {
			p.closeRequest(id, "withdrawn")
		}
	}
	for _, id := range slices.Clone(p.unfinished) {
		m := p.messages[id]
		if m.turn == turn.id && !m.lifecycle { // old versions do not report its end
			p.moveMessage(id, "done")
		}
	}
}

// unnoticed are the messages that the program has not mentioned.
func (p *protocol) unnoticed() (ids []string) {
	for _, id := range p.unfinished {
		if m := p.messages[id]; m.state == "sent" && !m.lifecycle {
			ids = append(ids, id)
		}
	}
	return ids
}

// stateChanged handles the state that the program reports.
func (p *protocol) stateChanged(l *wireLine) {
	p.ownState = cmp.Or(l.text("state"), p.ownState)
	p.reporting = p.reporting && p.ownState != "idle"
	for _, id := range p.unfinished {
		m := p.messages[id]
		m.noticed = m.noticed || m.state != "sent"
	}
}

// publishState publishes a change between working and idle. The agent works during a turn, while
// a subagent works, while the program reports that it does, and while it has not noticed a
// message yet. It is not enough that the program calls itself idle: old versions do so while
// subagents work in the background.
func (p *protocol) publishState() {
	running := p.agents > 0 || p.reporting || p.turn != nil || p.ownState != "" && p.ownState != "idle"
	for _, id := range p.unfinished {
		running = running || !p.messages[id].noticed
	}
	state := api.DialogueIdle
	if running {
		state = api.DialogueRunning
	}
	if p.state == state || !running && !p.ready && p.state == "" {
		return
	}
	p.state = state
	p.publish(api.DialogueEvent{Type: api.DialogueEventState, State: state})
}

// publishAbout publishes new facts about the program. The first call always publishes, because a
// resumed process may have no other fact than its name.
func (p *protocol) publishAbout(new api.DialogueOpened) {
	now, changed := p.about, false
	for _, f := range []struct {
		told *string
		new  string
	}{
		{&now.Agent, "claude"}, {&now.Version, new.Version}, {&now.NativeSession, new.NativeSession}, {&now.Model, new.Model},
		{&now.PermissionMode, new.PermissionMode}, {&now.WorkingDir, new.WorkingDir},
	} {
		if f.new != "" && f.new != *f.told {
			*f.told, changed = f.new, true
		}
	}
	if new.Tools != nil && !slices.Equal(new.Tools, now.Tools) {
		now.Tools, changed = new.Tools, true
	}
	if len(new.Commands) > 0 && !slices.Equal(new.Commands, now.Commands) {
		now.Commands, changed = new.Commands, true
	}
	if len(new.Models) > 0 && !slices.Equal(new.Models, now.Models) {
		now.Models, changed = new.Models, true
	}
	if new.Capabilities != nil && !slices.Equal(new.Capabilities, now.Capabilities) {
		now.Capabilities, changed = new.Capabilities, true
	}
	if !changed {
		return
	}
	p.about = now
	p.publish(api.DialogueEvent{Type: api.DialogueEventOpened, Opened: &now})
}

// follow publishes a new id of the conversation. The id changes when the conversation is cleared,
// and differs from the resumed one when it is forked.
func (p *protocol) follow(l *wireLine) {
	if l.SessionID == "" || l.SessionID == p.session || l.Type == "conversation_reset" {
		return
	}
	before := cmp.Or(p.session, p.options.Resume)
	p.renamed = p.renamed || p.session != ""
	p.session = l.SessionID
	if before == "" || before == l.SessionID {
		return // publishAbout publishes it with the line init
	}
	why := "forked"
	if p.renamed {
		why = "cleared"
	}
	p.about.NativeSession = l.SessionID
	p.publish(api.DialogueEvent{Type: api.DialogueEventReset, Opened: &api.DialogueOpened{Agent: "claude", NativeSession: l.SessionID, Why: why}})
}
