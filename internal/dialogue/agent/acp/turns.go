package acp

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
)

// send sends a message, after the messages before it are done: a session takes one prompt at a
// time.
func (a *protocol) send(m agent.Message) {
	a.PublishSent(m)
	a.prompts = append(a.prompts, &prompt{Message: m})
	if !a.ready || len(a.prompts) > 1 {
		a.PublishMessage(m.ID, "queued")
	}
	a.next()
}

// next starts the turn of the oldest message.
func (a *protocol) next() {
	if !a.ready || len(a.prompts) == 0 {
		a.settle()
		return
	}
	p := a.prompts[0]
	if p.turn != "" {
		return // it has started
	}
	a.turns++
	p.turn = a.IDs.Turn()
	blocks := []params{}
	for _, c := range p.Content {
		if c.Type == "image" {
			blocks = append(blocks, params{"type": "image", "mimeType": c.MediaType, "data": c.DataBase64})
		} else {
			blocks = append(blocks, params{"type": "text", "text": c.Text})
		}
	}
	a.settle()
	a.Publish(api.DialogueEvent{Type: api.DialogueEventTurnStarted, Turn: &api.DialogueTurn{TurnID: p.turn, Trigger: "user", Messages: []string{p.ID}}})
	a.PublishMessage(p.ID, "started")
	a.Ask("session/prompt", params{"sessionId": a.session, "prompt": blocks}, func(result json.RawMessage, err *jsonrpc.Error) {
		a.turnEnded(p, result, err)
	})
}

// settle publishes a changed state. ACP has no state, so the agent is running while a message is
// not done.
func (a *protocol) settle() {
	running := len(a.prompts) > 0
	if running == a.running || !a.ready {
		return
	}
	a.running = running
	state := api.DialogueIdle
	if running {
		state = api.DialogueRunning
	}
	a.Publish(api.DialogueEvent{Type: api.DialogueEventState, State: state})
}

// outcomes translate ACP's stop reasons.
var outcomes = map[string]string{
	"end_turn": "completed", "max_tokens": "limit", "max_turn_requests": "limit", "refusal": "failed", "cancelled": "interrupted",
}

func (a *protocol) turnEnded(p *prompt, result json.RawMessage, err *jsonrpc.Error) {
	turn := &api.DialogueTurn{TurnID: p.turn, Messages: []string{p.ID}, Denials: p.denials}
	var r struct {
		StopReason string
		Usage      *tokens
		Meta       meta `json:"_meta"`
	}
	json.Unmarshal(result, &r)
	switch {
	case err != nil && p.interrupted:
		turn.Outcome, turn.Native = "interrupted", fmt.Sprint("error ", err.Code)
	case err != nil:
		turn.Outcome, turn.Native, turn.Text = "failed", fmt.Sprint("error ", err.Code), a.why(err)
	default:
		turn.Outcome, turn.Native = outcomes[r.StopReason], r.StopReason
		if turn.Outcome == "" {
			turn.Outcome = "completed" // a newer reason
		}
	}
	if turn.Outcome == "interrupted" {
		a.finishText("aborted")
	} else {
		a.finishText("final")
	}
	a.closeTools()
	a.withdraw("agent", func(*request) bool { return true })
	if turn.Text == "" {
		turn.Text = p.text
	}
	usage := p.used // reported with its messages
	if r.Usage != nil {
		usage = r.Usage.usage()
	} else if q := r.Meta.Quota.TokenCount; q.InputTokens+q.OutputTokens > 0 {
		usage = api.DialogueUsage{InputTokens: jsonrpc.Tokens(q.InputTokens), OutputTokens: jsonrpc.Tokens(q.OutputTokens)}
	}
	if usage != (api.DialogueUsage{}) {
		turn.Usage = &usage
	}
	if u := turn.Usage; u != nil {
		a.usage.InputTokens += u.InputTokens
		a.usage.OutputTokens += u.OutputTokens
		a.usage.CacheReadTokens += u.CacheReadTokens
		a.usage.CacheWriteTokens += u.CacheWriteTokens
		a.publishUsage()
	}
	a.PublishMessage(p.ID, "done")
	a.Publish(api.DialogueEvent{Type: api.DialogueEventTurnEnded, Turn: turn})
	a.prompts = slices.DeleteFunc(a.prompts, func(o *prompt) bool { return o == p })
	a.next()
}

// publishUsage publishes the figures of this process.
func (a *protocol) publishUsage() {
	usage := a.usage
	a.Publish(api.DialogueEvent{Type: api.DialogueEventUsage, Usage: &usage})
}

// interrupt cancels the turn; all also drops the queued messages. The agent ends the turn itself
// when its work has stopped. Open requests still need an answer, see withdraw.
func (a *protocol) interrupt(all bool) {
	if all && len(a.prompts) > 0 {
		for _, p := range a.prompts[1:] {
			a.PublishMessage(p.ID, "cancelled")
		}
		a.prompts = a.prompts[:1]
	}
	if p := a.turn(); p != nil {
		p.interrupted = true
		a.Notify("session/cancel", params{"sessionId": a.session})
		a.withdraw("client", func(*request) bool { return true })
	}
}

// unsend drops a message whose turn has not started.
func (a *protocol) unsend(id string) *api.Error {
	i := slices.IndexFunc(a.prompts, func(p *prompt) bool { return p.ID == id })
	if i < 0 {
		return agent.NotUnsent(id, "it is no longer queued: the agent has processed it, or it was cancelled or lost")
	}
	if a.prompts[i].turn != "" {
		return agent.NotUnsent(id, "the agent has already started to process it")
	}
	a.prompts = slices.Delete(a.prompts, i, i+1)
	a.PublishMessage(id, "cancelled")
	a.settle()
	return nil
}

// turn is the prompt whose turn runs; nil for none.
func (a *protocol) turn() *prompt {
	if len(a.prompts) > 0 && a.prompts[0].turn != "" {
		return a.prompts[0]
	}
	return nil
}

func (a *protocol) turnID() string {
	if p := a.turn(); p != nil {
		return p.turn
	}
	return ""
}
