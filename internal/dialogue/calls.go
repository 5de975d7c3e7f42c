package dialogue

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// Send gives the agent a message, once for each id.
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

// mostUnsent is how much may wait for an agent that does not read before it is sent no
// more messages.
const mostUnsent = 64 << 20

// errRepeated says that there is nothing to do.
var errRepeated error = api.Errorf(api.CodeConflict, "was done before")

// Interrupt stops what the agent does now.
func (d *Dialogue) Interrupt(ctx context.Context) (api.DialogueInfo, error) {
	err := d.call(ctx, agent.Call{Interrupt: &agent.Interrupt{}}, nil)
	return d.Info(), err
}

// Respond answers a request of the agent. Of several answers the first counts.
func (d *Dialogue) Respond(ctx context.Context, p api.DialogueRespondParams) (api.DialogueInfo, error) {
	err := d.call(ctx, agent.Call{Respond: &agent.Response{DialogueRespondParams: p, By: "client"}}, func() error { return d.checkOpenLocked(p.RequestID) })
	return d.Info(), err
}

// checkOpenLocked refuses the answer to a request that does not wait for one. mu is held.
func (d *Dialogue) checkOpenLocked(id string) error {
	r, known := d.tracker.Request(id)
	switch {
	case !known:
		e := api.Errorf(api.CodeInvalidParams, "params.request_id: dialogue %q has no request %.100q", d.labelLocked(), id)
		e.Details = map[string]any{"field": "request_id"}
		return e
	case r.How != "":
		how := r.How
		if r.Decision != "" {
			how += " (" + r.Decision + ", by " + r.By + ")"
		}
		e := api.Errorf(api.CodeConflict, "request %q of dialogue %q: is closed: %s", id, d.labelLocked(), how)
		e.Details = map[string]any{"how": r.How, "decision": r.Decision, "by": r.By}
		return e
	}
	return nil
}

// Set changes how the agent works.
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
	// The next process begins with it.
	about := d.about
	params := &about.Params
	params.Model, params.PermissionMode = cmp.Or(p.Model, params.Model), cmp.Or(p.PermissionMode, params.PermissionMode)
	params.Policy = cmp.Or(p.Policy, params.Policy)
	if err := d.record.save(about); err != nil {
		return d.infoLocked(), api.Errorf(api.CodeInternal, "dialogue %q: %s", d.labelLocked(), err)
	}
	d.about = about
	if p.Policy != nil {
		d.stopDenyTimerLocked() // it may have another time
	}
	d.applyPolicyLocked(d.process)
	d.flushLocked()
	return d.infoLocked(), nil
}

// Retry looks again for a program that could not be reached, and returns when it is
// found, or not.
func (d *Dialogue) Retry(ctx context.Context) (api.DialogueInfo, error) {
	d.mu.Lock()
	p, state := d.process, d.state
	if p == nil {
		defer d.mu.Unlock()
		return api.DialogueInfo{}, d.endedErrorLocked()
	}
	tried := p.retried
	d.mu.Unlock()
	if state != api.DialogueError {
		return d.Info(), nil
	}
	select {
	case p.retry <- struct{}{}:
	default:
	}
	select {
	case <-tried:
	case <-p.done:
	case <-ctx.Done():
		return d.Info(), ctx.Err()
	}
	return d.Info(), nil
}

// Raw reads what a process wrote, or was written.
func (d *Dialogue) Raw(p api.DialogueRawParams) (api.DialogueRawResult, error) {
	d.mu.Lock()
	last, live := d.about.Epoch, d.process != nil
	d.mu.Unlock()
	if p.Epoch == 0 {
		p.Epoch = last
	}
	if p.Epoch > last {
		return api.DialogueRawResult{}, api.Errorf(api.CodeInvalidParams, "params.epoch: dialogue %q has had %d", d.id, last)
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
		return api.DialogueRawResult{}, api.Errorf(api.CodeInvalidParams, "params.offset: %d is beyond the end, which is %d", p.Offset, total)
	}
	r := api.DialogueRawResult{DialogueID: d.id, Epoch: p.Epoch, Offset: p.Offset, Total: total}
	r.Data, r.DataBase64 = api.Text(data)
	r.Complete = p.Offset+int64(len(data)) == total && (p.Epoch < last || !live)
	return r, nil
}

// newUUID makes a random UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
