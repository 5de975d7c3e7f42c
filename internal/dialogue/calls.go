package dialogue

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// Send sends the agent a message. A message id that was sent before is not sent again.
func (d *Dialogue) Send(ctx context.Context, p api.DialogueSendParams) (api.DialogueSendResult, error) {
	r := api.DialogueSendResult{MessageID: p.MessageID}
	if r.MessageID == "" {
		r.MessageID = newUUID()
	}
	c := agent.Call{Send: &agent.Message{ID: r.MessageID, Content: p.Blocks()}}
	err := d.call(ctx, c, func() error {
		if r.Seq, r.Repeated = d.messages[r.MessageID]; r.Repeated {
			return errRepeated
		}
		if n := d.process.input.waiting(); n > mostUnsent {
			return api.Errorf(api.CodeResourcePressure, "dialogue %q: the agent does not read its input: %d bytes are waiting; try again later, or end it", d.labelLocked(), n)
		}
		return nil
	})
	if err == errRepeated {
		return r, nil
	}
	if err == nil {
		d.mu.Lock()
		r.Seq = d.messages[r.MessageID]
		d.mu.Unlock()
	}
	return r, err
}

// mostUnsent is how many bytes may be queued for an agent that does not read. With more, new
// messages are refused.
const mostUnsent = 64 << 20

// errRepeated makes call return without sending the message again.
var errRepeated error = api.Errorf(api.CodeConflict, "was already done")

// Unsend takes back a message that the agent has not started with.
func (d *Dialogue) Unsend(ctx context.Context, id string) (api.DialogueInfo, error) {
	err := d.call(ctx, agent.Call{Unsend: &agent.Unsend{MessageID: id}}, func() error {
		if _, sent := d.messages[id]; !sent {
			return api.InvalidParam("message_id", "dialogue %q has no message %.100q", d.labelLocked(), id)
		}
		return nil
	})
	return d.Info(), err
}

// Interrupt stops the agent's current turn.
func (d *Dialogue) Interrupt(ctx context.Context) (api.DialogueInfo, error) {
	err := d.call(ctx, agent.Call{Interrupt: &agent.Interrupt{}}, nil)
	return d.Info(), err
}

// Respond answers a request of the agent. The first of several answers counts.
func (d *Dialogue) Respond(ctx context.Context, p api.DialogueRespondParams) (api.DialogueInfo, error) {
	answer := &agent.Response{DialogueRespondParams: p, By: "client"}
	if c := api.CallerOf(ctx); c != nil {
		answer.AnsweredBy = &api.DialogueAnswerer{Transport: c.Transport, Label: c.Label, LoginID: c.LoginID}
	}
	err := d.call(ctx, agent.Call{Respond: answer}, func() error { return d.checkOpenLocked(p.RequestID) })
	return d.Info(), err
}

// checkOpenLocked returns an error if a request is not open.
func (d *Dialogue) checkOpenLocked(id string) error {
	r, known := d.tracker.Request(id)
	switch {
	case !known:
		return api.InvalidParam("request_id", "dialogue %q has no request %.100q", d.labelLocked(), id)
	case r.How != "":
		how := r.How
		if r.Decision != "" {
			by := r.By
			if r.AnsweredBy != nil && r.AnsweredBy.Label != "" {
				by += " " + r.AnsweredBy.Label
			}
			how += " (" + r.Decision + ", by " + by + ")"
		}
		e := api.Errorf(api.CodeConflict, "request %q of dialogue %q: is closed: %s", id, d.labelLocked(), how)
		e.Details = map[string]any{"how": r.How, "decision": r.Decision, "by": r.By}
		if r.AnsweredBy != nil {
			e.Details["answered_by"] = r.AnsweredBy
		}
		if r.AnsweredAt != nil {
			e.Details["answered_at"] = r.AnsweredAt
		}
		return e
	}
	return nil
}

// Set changes the agent's model or permission mode, and the policy.
func (d *Dialogue) Set(ctx context.Context, p api.DialogueSetParams) (api.DialogueInfo, error) {
	var err error
	if p.Model != "" || p.PermissionMode != "" {
		err = d.call(ctx, agent.Call{Set: &agent.Setting{Model: p.Model, PermissionMode: p.PermissionMode}}, nil)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		err = d.checkLiveLocked()
	}
	if err != nil {
		return d.infoLocked(), err
	}
	// A resumed agent starts with the same settings.
	about := d.about
	params := &about.Params
	params.Model, params.PermissionMode = cmp.Or(p.Model, params.Model), cmp.Or(p.PermissionMode, params.PermissionMode)
	params.Policy = cmp.Or(p.Policy, params.Policy)
	if err := d.record.save(about); err != nil {
		return d.infoLocked(), api.Errorf(api.CodeInternal, "dialogue %q: %s", d.labelLocked(), err)
	}
	d.about = about
	if p.Policy != nil {
		d.stopDenyTimerLocked() // the new policy may have another deny_after_s
	}
	d.applyPolicyLocked(d.process)
	d.flushLocked()
	return d.infoLocked(), nil
}

// Retry tries again to reach an agent, or to write the record, and returns after that attempt.
func (d *Dialogue) Retry(ctx context.Context) (api.DialogueInfo, error) {
	d.mu.Lock()
	p, state := d.process, d.state
	if p == nil {
		defer d.mu.Unlock()
		return api.DialogueInfo{}, d.endedErrorLocked()
	}
	retried := p.retried
	d.mu.Unlock()
	if state != api.DialogueError {
		return d.Info(), nil
	}
	p.retryNow()
	select {
	case <-retried:
	case <-p.done:
	case <-ctx.Done():
		return d.Info(), ctx.Err()
	}
	return d.Info(), nil
}

// Raw reads the recorded stdout or stdin of a process.
func (d *Dialogue) Raw(p api.DialogueRawParams) (api.DialogueRawResult, error) {
	d.mu.Lock()
	last, live := d.about.Epoch, d.process != nil
	d.mu.Unlock()
	if p.Epoch == 0 {
		p.Epoch = last
	}
	if p.Epoch > last {
		return api.DialogueRawResult{}, api.InvalidParam("epoch", "%d is beyond the last epoch of dialogue %q, which is %d", p.Epoch, d.id, last)
	}
	if p.Stream == "" {
		p.Stream = api.EventStdout
	}
	limit := int64(1 << 20)
	if p.Limit != nil {
		limit = *p.Limit
	}
	data, total, err := d.record.raw(p.Stream, p.Epoch, p.Offset, limit)
	if err != nil {
		return api.DialogueRawResult{}, api.Errorf(api.CodeInternal, "dialogue %q: %s.%d: %s", d.id, p.Stream, p.Epoch, err)
	}
	if p.Offset > total {
		return api.DialogueRawResult{}, api.InvalidParam("offset", "%d is beyond the end, which is %d", p.Offset, total)
	}
	r := api.DialogueRawResult{DialogueID: d.id, Epoch: p.Epoch, Offset: p.Offset, Total: total}
	r.Data, r.DataBase64 = api.Text(data)
	r.Complete = p.Offset+int64(len(data)) == total && (p.Epoch < last || !live)
	return r, nil
}

// errNoReply ends the wait for the answer to a call.
var errNoReply = api.Errorf(api.CodeAgentFailed, "the agent did not answer in time; the request may still take effect")

// call makes a call to the agent and waits for its answer, until ctx ends or the start timeout has
// passed. check is called with mu held and may refuse the call.
func (d *Dialogue) call(ctx context.Context, c agent.Call, check func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.registry.config.StartTimeout, errNoReply)
	defer cancel()
	d.mu.Lock()
	p := d.process
	err := d.checkLiveLocked()
	if err == nil && check != nil {
		err = check()
	}
	if err != nil {
		d.mu.Unlock()
		return err
	}
	answer := d.callLocked(p, c)
	d.mu.Unlock()
	select {
	case err := <-answer:
		return asError(err)
	case <-p.done:
		select {
		case err := <-answer: // it came with the end
			return asError(err)
		default:
		}
		return d.endedError()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// asError keeps a nil *api.Error from becoming an error that is not nil.
func asError(err *api.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// callLocked makes a call to the agent, and lets the policy answer requests that it opens. The
// answer comes through the channel.
func (d *Dialogue) callLocked(p *agentProcess, c agent.Call) <-chan *api.Error {
	answer, requests := d.submitLocked(p, c)
	if requests {
		d.applyPolicyLocked(p)
	}
	return answer
}

// submitLocked records a call, passes it to the protocol and does what the protocol asks for. It
// reports whether requests were opened or closed.
func (d *Dialogue) submitLocked(p *agentProcess, c agent.Call) (answer chan *api.Error, requests bool) {
	answer = make(chan *api.Error, 1)
	c.ID = "c" + strconv.Itoa(p.calls+1)
	if err := d.record.addCall(callAt{p.lines.end, c}); err != nil {
		answer <- api.Errorf(api.CodeResourcePressure, "dialogue %q: its record cannot be written (%s)", d.labelLocked(), err)
		return answer, false
	}
	p.calls++
	p.waiting[c.ID] = answer
	p.lastOutput = time.Now() // the agent's silence counts from the call on
	requests = d.applyStepLocked(p, p.protocol.Do(p.aliases.call(c)), nil)
	d.flushLocked()
	d.watchStallLocked(p)
	return answer, requests
}

// checkLiveLocked returns an error if no agent can take a call.
func (d *Dialogue) checkLiveLocked() error {
	switch {
	case d.process == nil || d.process.ending.isRequested():
		return d.endedErrorLocked()
	case d.state == api.DialogueStarting:
		return api.Errorf(api.CodeConflict, "dialogue %q: the agent has not answered yet", d.labelLocked())
	case d.state == api.DialogueError:
		return d.faultErrorLocked()
	case d.process.ending.isLeft():
		return api.ErrDaemonEnding
	}
	return nil
}

// faultErrorLocked is the error of calls to a dialogue in state error.
func (d *Dialogue) faultErrorLocked() error {
	if d.fault.Code == recordFailed {
		return api.Errorf(api.CodeResourcePressure, "dialogue %q: its record cannot be written (%s); it continues when the disk has room", d.labelLocked(), d.fault.Message)
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "dialogue %q: the agent cannot be reached (%s); dialogue.retry tries again", d.labelLocked(), d.fault.Reason)
}

func (d *Dialogue) endedErrorLocked() error {
	return api.Errorf(api.CodeDialogueEnded, "dialogue %q: has ended; dialogue.resume starts the agent again", d.labelLocked())
}

// endedError is the error of a call that was waiting when its process ended, or was left to the
// next daemon.
func (d *Dialogue) endedError() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process != nil && d.process.ending.isLeft() {
		return api.ErrDaemonEnding
	}
	return d.endedErrorLocked()
}

// newUUID returns a random UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
