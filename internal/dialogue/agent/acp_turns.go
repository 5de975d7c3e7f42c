package agent

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/trl-dev/trl/api"
)

// send gives the agent a message, or keeps it until the turn has ended: a session takes
// one prompt at a time.
func (a *acpProtocol) send(m Message) {
	a.sent(m)
	a.prompts = append(a.prompts, &acpPrompt{Message: m})
	if !a.ready || len(a.prompts) > 1 {
		a.message(m.ID, "queued")
	}
	a.next()
}

// next starts the turn of the message that has waited longest.
func (a *acpProtocol) next() {
	if !a.ready || len(a.prompts) == 0 {
		a.settle()
		return
	}
	p := a.prompts[0]
	if p.turn != "" {
		return // It runs.
	}
	a.turns++
	p.turn = a.ids.Turn()
	blocks := []acpParams{}
	for _, c := range p.Content {
		if c.Type == "image" {
			blocks = append(blocks, acpParams{"type": "image", "mimeType": c.MediaType, "data": c.DataBase64})
		} else {
			blocks = append(blocks, acpParams{"type": "text", "text": c.Text})
		}
	}
	a.settle()
	a.tell(api.DialogueEvent{Type: api.DialogueEventTurnStarted, Turn: &api.DialogueTurn{TurnID: p.turn, Trigger: "user", Messages: []string{p.ID}}})
	a.message(p.ID, "started")
	a.ask("session/prompt", acpParams{"sessionId": a.session, "prompt": blocks}, func(result json.RawMessage, err *rpcError) {
		a.turnEnded(p, result, err)
	})
}

// settle tells the state when it has changed. ACP has none of its own: a message that is
// not done is work.
func (a *acpProtocol) settle() {
	running := len(a.prompts) > 0
	if running == a.running || !a.ready {
		return
	}
	a.running = running
	state := api.DialogueIdle
	if running {
		state = api.DialogueRunning
	}
	a.tell(api.DialogueEvent{Type: api.DialogueEventState, State: state})
}

// acpOutcomes are the stop reasons as outcomes of a turn.
var acpOutcomes = map[string]string{
	"end_turn": "completed", "max_tokens": "limit", "max_turn_requests": "limit", "refusal": "failed", "cancelled": "interrupted",
}

func (a *acpProtocol) turnEnded(p *acpPrompt, result json.RawMessage, err *rpcError) {
	turn := &api.DialogueTurn{TurnID: p.turn, Messages: []string{p.ID}, Denials: p.denials}
	var r struct {
		StopReason string
		Usage      *acpTokens
		Meta       acpMeta `json:"_meta"`
	}
	json.Unmarshal(result, &r)
	switch {
	case err != nil && p.interrupted:
		turn.Outcome, turn.Native = "interrupted", fmt.Sprint("error ", err.Code)
	case err != nil:
		turn.Outcome, turn.Native, turn.Text = "failed", fmt.Sprint("error ", err.Code), a.why(err)
	default:
		turn.Outcome, turn.Native = acpOutcomes[r.StopReason], r.StopReason
		if turn.Outcome == "" {
			turn.Outcome = "completed" // A reason that is newer than we are.
		}
	}
	if turn.Outcome == "interrupted" {
		a.finishText("aborted")
	} else {
		a.finishText("final")
	}
	a.closeTools()
	a.withdraw("agent", func(*acpRequest) bool { return true })
	if turn.Text == "" {
		turn.Text = p.text
	}
	usage := p.used // told with its messages
	if r.Usage != nil {
		usage = r.Usage.usage()
	} else if q := r.Meta.Quota.TokenCount; q.InputTokens+q.OutputTokens > 0 {
		usage = api.DialogueUsage{InputTokens: rpcTokens(q.InputTokens), OutputTokens: rpcTokens(q.OutputTokens)}
	}
	if usage != (api.DialogueUsage{}) {
		turn.Usage = &usage
	}
	if u := turn.Usage; u != nil {
		a.usage.InputTokens += u.InputTokens
		a.usage.OutputTokens += u.OutputTokens
		a.usage.CacheReadTokens += u.CacheReadTokens
		a.usage.CacheWriteTokens += u.CacheWriteTokens
		a.tellUsage()
	}
	a.message(p.ID, "done")
	a.tell(api.DialogueEvent{Type: api.DialogueEventTurnEnded, Turn: turn})
	a.prompts = slices.DeleteFunc(a.prompts, func(o *acpPrompt) bool { return o == p })
	a.next()
}

// tellUsage tells the figures of this process.
func (a *acpProtocol) tellUsage() {
	usage := a.usage
	a.tell(api.DialogueEvent{Type: api.DialogueEventUsage, Usage: &usage})
}

// interrupt cancels the turn; all also drops what waits behind it. The agent ends the turn
// itself, once it has stopped what it does; the requests that wait have to be answered.
func (a *acpProtocol) interrupt(all bool) {
	if all && len(a.prompts) > 0 {
		for _, p := range a.prompts[1:] {
			a.message(p.ID, "cancelled")
		}
		a.prompts = a.prompts[:1]
	}
	if p := a.turn(); p != nil {
		p.interrupted = true
		a.notify("session/cancel", acpParams{"sessionId": a.session})
		a.withdraw("client", func(*acpRequest) bool { return true })
	}
}

// turn is the prompt that runs; nil when none does.
func (a *acpProtocol) turn() *acpPrompt {
	if len(a.prompts) > 0 && a.prompts[0].turn != "" {
		return a.prompts[0]
	}
	return nil
}

func (a *acpProtocol) turnID() string {
	if p := a.turn(); p != nil {
		return p.turn
	}
	return ""
}
