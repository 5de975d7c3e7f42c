package dialogue

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/transcript"
)

// reset creates the parts of a dialogue without events. mu is held, or no other goroutine has
// the dialogue yet.
func (d *Dialogue) reset() { d.tracker = transcript.NewTracker() }

// start starts the agent's program, as the next epoch, and returns when the agent has
// answered. When it cannot, or ctx ends before, the program is gone.
func (d *Dialogue) start(ctx context.Context, resume string) error {
	d.mu.Lock()
	params, env := d.about.Params, d.env
	o := agent.Options{
		Argv: params.Argv, Model: params.Model, PermissionMode: params.PermissionMode, WorkingDir: params.WorkingDir,
		Resume: resume, Epoch: d.about.Epoch + 1, ModelList: true,
	}
	if resume != "" {
		o.Tasks = d.tracker.LostTasks()
	}
	d.mu.Unlock()
	a, err := findAgent(params.Agent)
	if err != nil {
		return err
	}
	argv, needs, err := a.Command(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d.host.config.StartTimeout, errNoAnswer)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(d.host.ctx, func() { stop(api.ErrDaemonEnding) })()
	if err := d.noteStray(true); err != nil {
		return err
	}
	prog, err := d.open(ctx, api.SessionCreateParams{
		Name: d.id, // which only one can have: there are never two agents
		Kind: api.KindProgram, Command: argv, WorkingDir: params.WorkingDir, Env: merged(needs, env),
		Tags: append([]string{api.TagDialogue, d.id}, params.Tags...),
	})
	if err != nil {
		if unsure := new(unanswered); !errors.As(err, &unsure) {
			_ = d.noteStray(false)
		}
		return d.startError(ctx, err, nil)
	}
	o.WorkingDir = prog.dir()
	p := d.newProcess(prog, a.New(o))
	d.mu.Lock()
	d.about.Epoch, d.about.Options, d.about.Info, d.about.Stray = o.Epoch, o, nil, false
	d.about.SessionID, d.about.ExecID = prog.ids()
	err = d.record.begin(o.Epoch)
	if err == nil {
		err = d.record.save(d.about)
	}
	if err != nil {
		d.mu.Unlock()
		d.kill(prog, nil)
		prog.close()
		return errNoRecord(err)
	}
	d.process = p
	d.linger()
	d.take(p, p.protocol.Start(), nil)
	d.flush()
	d.mu.Unlock()
	d.run(p)
	return d.await(ctx, p)
}

// noteStray records whether an ownerless session may exist.
func (d *Dialogue) noteStray(yes bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.about.Stray = yes; d.removed {
		return nil
	}
	if err := d.record.save(d.about); err != nil {
		return errNoRecord(err)
	}
	return nil
}

func errNoRecord(err error) error {
	code := api.CodeInternal
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		code = api.CodeResourcePressure
	}
	return api.Errorf(code, "dialogue: its record cannot be written: %s", err)
}

// errNoAnswer is why an agent that does not answer is given up.
var errNoAnswer = errors.New("the agent did not answer in time (dialogue_start_timeout_s)")

// open makes the session of the program. Another one of the dialogue that has its name is a
// stray.
func (d *Dialogue) open(ctx context.Context, p api.SessionCreateParams) (program, error) {
	prog, err := d.tryOpen(ctx, p)
	if errors.Is(err, api.ErrConflict) {
		if at := d.about.Params.Remote; at != nil {
			err = endThere(ctx, *at, d.id)
		} else {
			d.host.endStraysHere(d.id, "")
			err = nil
		}
		if err == nil {
			prog, err = d.tryOpen(ctx, p)
		}
	}
	return prog, err
}

func (d *Dialogue) tryOpen(ctx context.Context, p api.SessionCreateParams) (program, error) {
	if r := d.about.Params.Remote; r != nil {
		return createRemote(ctx, *r, d.host.config.Reconnect, p)
	}
	info, err := d.host.config.Registry.Create(ctx, p)
	if err != nil {
		return nil, err
	}
	s, err := d.host.config.Registry.Get(info.SessionID)
	if err != nil {
		return nil, err
	}
	return newLocal(s, info.ExecID), nil
}

// await waits for the first answer of the agent. Without one the program is ended.
func (d *Dialogue) await(ctx context.Context, p *process) error {
	select {
	case <-p.ready:
	case <-ctx.Done():
	}
	d.mu.Lock()
	ready := p.isReady && p.failed == "" && d.process == p
	if !ready && p.failed == "" && ctx.Err() != nil {
		p.failed = context.Cause(ctx).Error()
	}
	d.mu.Unlock()
	if ready {
		return nil
	}
	// What it still has to say is why.
	select {
	case <-p.done:
	case <-time.After(lastWords):
		d.kill(p.program, p)
		d.reap(p)
	}
	return d.startError(ctx, errors.New(p.failed), p)
}

// lastWords is how long an agent that refused may take to end by itself.
const lastWords = 200 * time.Millisecond

// startError makes the answer to a start that did not succeed.
func (d *Dialogue) startError(ctx context.Context, err error, p *process) error {
	e := api.AsError(err)
	var given *api.Error
	if p == nil && errors.As(err, &given) && given.Code != api.CodeShellNotFound && given.Code != api.CodeShellFailed && given.Code != api.CodeInternal {
		return err
	}
	switch cause := context.Cause(ctx); {
	case cause != nil && cause != errNoAnswer:
		return cause
	case cause != nil && p == nil: // there was not even the time to start it
		e = api.AsError(cause)
	}
	out := api.Errorf(api.CodeAgentFailed, "agent %s: %s", d.about.Params.Agent, e.Message)
	out.Details = map[string]any{}
	if p == nil {
		return out
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	stderr := strings.TrimSpace(text(p.stderr))
	how := ""
	if d.info != nil && d.info.Ended != nil {
		if code := d.info.Ended.ExitCode; code != nil {
			out.Details["exit_code"] = *code
		}
		if d.info.Ended.Signal != "" {
			out.Details["signal"] = d.info.Ended.Signal
		}
		how = d.info.Ended.Text
	}
	if p.failed == "" {
		out.Message = "agent " + d.about.Params.Agent + ": its program ended before it answered"
		if how != "" {
			out.Message += " (" + how + ")"
		}
	}
	if stderr != "" {
		out.Message += ": " + stderr
	}
	out.Details["stderr"] = stderr
	return out
}

func merged(needs, given map[string]string) map[string]string {
	env := map[string]string{}
	for k, v := range needs {
		env[k] = v
	}
	for k, v := range given {
		env[k] = v
	}
	return env
}

// Resume starts the agent again, in the same dialogue.
func (d *Dialogue) Resume(ctx context.Context, p api.DialogueResumeParams) (api.DialogueInfo, error) {
	select {
	case d.moving <- struct{}{}:
		defer func() { <-d.moving }()
	case <-ctx.Done():
		return api.DialogueInfo{}, ctx.Err()
	}
	if err := d.giveUpGone(ctx); err != nil {
		return api.DialogueInfo{}, err
	}
	info := d.Info()
	if info.State != api.DialogueEnded {
		return info, api.Errorf(api.CodeConflict, "dialogue %q: has not ended; it is %s", d.id, info.State)
	}
	if err := d.host.reserve(d.id, reserved{info.Name, info.Agent, info.NativeSession}); err != nil {
		return info, err
	}
	defer d.host.release(d.id)
	if err := d.killStrays(); err != nil {
		return info, err
	}
	if err := d.wake(p.Env); err != nil {
		return info, err
	}
	if err := d.start(ctx, info.NativeSession); err != nil {
		d.rest()
		return d.Info(), err
	}
	if err := d.tooLate(); err != nil {
		return d.Info(), err
	}
	d.log.Info("dialogue resumed", "epoch", d.Info().Epoch)
	if p.Prompt != "" {
		if _, err := d.Send(ctx, api.DialogueSendParams{DialogueID: d.id, Text: p.Prompt}); err != nil {
			return d.Info(), err
		}
	}
	return d.Info(), nil
}

// giveUpGone ends a process that no longer exists, although its end was not observed.
func (d *Dialogue) giveUpGone(ctx context.Context) error {
	d.mu.Lock()
	p := d.process
	gone := d.state == api.DialogueError && d.fault.Reason == string(client.ReasonSessionGone)
	if gone {
		p.gone = true
	}
	d.mu.Unlock()
	if !gone {
		return nil
	}
	select {
	case p.retry <- struct{}{}: // for awaitRetry
	default:
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wake reads the events of a dialogue that has ended.
func (d *Dialogue) wake(env map[string]string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed {
		return api.Errorf(api.CodeDialogueNotFound, "dialogue %q: not found", d.id)
	}
	if err := d.reload(); err != nil {
		return errNoRecord(err)
	}
	if env != nil {
		d.env = env
	}
	d.info = nil
	d.to(api.DialogueStarting)
	return nil
}

// reload reads the events of a dialogue that has ended. When the end itself could not be
// written, that is done now: what was open must not be so in the next process. mu is held.
func (d *Dialogue) reload() error {
	d.reset()
	d.messages = map[string]int64{}
	d.told, d.seq = "", 0
	var last api.DialogueEventType
	err := d.record.repair(d.log, func(ev api.DialogueEvent) {
		d.apply(ev)
		last = ev.Type
	})
	if err != nil || last == api.DialogueEventEnded {
		return err
	}
	if err := d.record.begin(d.about.Epoch); err != nil {
		return err
	}
	defer d.record.end()
	end := &api.DialogueEnd{Cause: "unexpected_exit"}
	if d.info != nil && d.info.Ended != nil {
		end = d.info.Ended
	}
	for _, ev := range d.tracker.Lost() {
		ev.NativeID = own
		d.append(nil, ev)
	}
	d.append(nil, api.DialogueEvent{Type: api.DialogueEventEnded, NativeID: own, Ended: end})
	return d.record.write(d.seq, true)
}

// rest lets a dialogue be ended again whose program could not be started at all.
func (d *Dialogue) rest() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.info != nil || d.process != nil { // the end of the program was told, or it was left
		return
	}
	d.to(api.DialogueEnded)
	d.settle()
	d.chaseStrays()
}

// settle keeps what is to be known of a dialogue that has ended. mu is held.
func (d *Dialogue) settle() {
	info := d.snapshot()
	d.about.Info = &info
	if err := d.record.save(d.about); err != nil {
		d.log.Error("dialogue cannot be saved", "error", err)
	}
	d.record.end()
	d.process, d.info, d.tracker = nil, &info, nil
	d.linger()
}
