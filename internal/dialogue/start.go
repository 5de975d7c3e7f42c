package dialogue

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/transcript"
)

// The words for places that dialogues know.
const (
	placeHost = string(api.PlaceHost)
)

// resetLocked gives the dialogue an empty tracker.
func (d *Dialogue) resetLocked() { d.tracker = transcript.NewTracker() }

// start starts the agent's process, as the next epoch, and returns when the agent has answered. If
// that fails, or ctx ends first, the process has ended.
// createID is the caller's name for the creation of the session.
func (d *Dialogue) start(ctx context.Context, resume, createID string) error {
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
	creating, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(d.registry.ctx, func() { stop(context.Cause(d.registry.ctx)) })()
	ctx, cancel := context.WithTimeoutCause(creating, d.registry.config.StartTimeout, errNoAnswer)
	defer cancel()
	// The creation of a session elsewhere has its own limit, which is longer.
	elsewhere := params.Runtime != placeHost
	if !elsewhere {
		creating = ctx
	}
	session := api.SessionCreateParams{
		Name: d.id, // session names are unique, so a dialogue never has two agents
		Kind: api.KindProgram, Command: argv, WorkingDir: params.WorkingDir, Env: merged(needs, env),
		Tags: append([]string{api.TagDialogue, d.id}, params.Tags...), LifetimeS: params.LifetimeS, Limits: params.Limits, LimitsMode: params.LimitsMode,
		Runtime: params.Runtime, Isolation: params.Isolation, IsolationMode: params.IsolationMode,
	}
	if session.Isolation, err = d.isolation(a, o, session); err != nil {
		return err
	}
	session.Place, session.CreateID = params.Place, createID
	if params.Remote != nil {
		place := params.Remote.Options()
		session.Runtime, session.Place = string(api.PlaceTRL), &place
	}
	prog, err := d.openSession(creating, session)
	if err != nil {
		return d.startError(creating, err, nil)
	}
	if elsewhere {
		answering, cancel := context.WithTimeoutCause(creating, d.registry.config.StartTimeout, errNoAnswer)
		defer cancel()
		ctx = answering
	}
	o.WorkingDir = prog.dir()
	p := d.newProcess(prog, a.New(o))
	d.mu.Lock()
	d.about.Epoch, d.about.Options, d.about.Info = o.Epoch, o, nil
	d.about.SessionID, d.about.ExecID = prog.ids()
	err = d.record.begin(o.Epoch)
	if err == nil {
		err = d.record.save(d.about)
	}
	if err != nil {
		d.mu.Unlock()
		d.kill(prog, nil)
		return errNoRecord(err)
	}
	d.process = p
	d.armLingerLocked()
	d.takeLocked(p, p.protocol.Start(), nil)
	d.flushLocked()
	d.mu.Unlock()
	d.startGoroutines(p)
	return d.awaitAnswer(ctx, p)
}

// isolation returns the isolation of the agent's session: that of the dialogue, with what the agent
// needs.
func (d *Dialogue) isolation(a agent.Agent, o agent.Options, session api.SessionCreateParams) (*api.Isolation, error) {
	if session.Isolation == nil {
		return nil, nil
	}
	all, err := d.registry.config.Sessions.Isolation(*session.Isolation)
	if err != nil {
		return nil, err
	}
	needs := a.Needs(o, func(name string) string {
		value, ok := session.Env[name]
		if !ok && session.Runtime == placeHost {
			value = os.Getenv(name) // the session begins with the daemon's environment
		}
		return value
	})
	if all.Files != api.FilesWorkspace && all.Files != api.FilesReadOnly {
		needs.Writable, needs.Readable = nil, nil
	}
	if all.Network != api.NetworkAllow {
		needs.Allow = nil
	}
	all = all.Over(needs)
	return &all, nil
}

func errNoRecord(err error) error {
	code := api.CodeInternal
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		code = api.CodeResourcePressure
	}
	return api.Errorf(code, "dialogue: its record cannot be written: %s", err)
}

// errNoAnswer is the cause when an agent does not answer in time.
var errNoAnswer = errors.New("the agent did not answer in time (dialogue_start_timeout_s)")

// openSession creates the session of the agent. If another session has its name, that is an orphan
// of this dialogue: it is ended, and openSession tries again.
func (d *Dialogue) openSession(ctx context.Context, p api.SessionCreateParams) (program, error) {
	prog, err := d.createSession(ctx, p)
	if errors.Is(err, api.ErrConflict) {
		if earlier := d.endEarlier(ctx); earlier != nil {
			return nil, earlier
		}
		prog, err = d.createSession(ctx, p)
	}
	return prog, err
}

func (d *Dialogue) createSession(ctx context.Context, p api.SessionCreateParams) (program, error) {
	info, err := d.registry.config.Sessions.Create(ctx, p)
	if err != nil {
		return nil, err
	}
	s, err := d.registry.config.Sessions.Get(info.SessionID)
	if err != nil {
		return nil, err
	}
	return newInSession(s, info.ExecID, d.registry.config.Reconnect), nil
}

// awaitAnswer waits for the first answer of the agent. If none comes before ctx ends, the process is
// killed.
func (d *Dialogue) awaitAnswer(ctx context.Context, p *agentProcess) error {
	select {
	case <-p.opening.settled:
	case <-ctx.Done():
	}
	d.mu.Lock()
	if ctx.Err() != nil {
		p.opening.to(openFailed, context.Cause(ctx).Error())
	}
	answered := p.opening.step == openAnswered && d.process == p
	d.mu.Unlock()
	if answered {
		return nil
	}
	select { // its last output may give the reason
	case <-p.done:
	case <-time.After(lastWords):
		d.kill(p.program, p)
		d.reap(p)
	}
	d.mu.Lock()
	why := p.opening.why
	d.mu.Unlock()
	return d.startError(ctx, errors.New(why), p)
}

// lastWords is how long an agent that refused may take to exit on its own.
const lastWords = 200 * time.Millisecond

// startError returns the error of a start that failed with err. p is nil when there is no process.
func (d *Dialogue) startError(ctx context.Context, err error, p *agentProcess) error {
	e := api.AsError(err)
	var given *api.Error
	if p == nil && errors.As(err, &given) && given.Code != api.CodeShellNotFound && given.Code != api.CodeShellFailed && given.Code != api.CodeInternal {
		return err
	}
	switch cause := context.Cause(ctx); {
	case cause != nil && cause != errNoAnswer:
		return cause
	case cause != nil && p == nil: // the time was over before the process was started
		e = api.AsError(cause)
	}
	// The caller has named an agent, and has never seen the session of this dialogue.
	why := strings.TrimPrefix(e.Message, `session "`+d.id+`": `)
	out := api.Errorf(api.CodeAgentFailed, "agent %s: %s", d.about.Params.Agent, why)
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
	if p.opening.why == "" {
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
	case d.starting <- struct{}{}:
		defer func() { <-d.starting }()
	case <-ctx.Done():
		return api.DialogueInfo{}, ctx.Err()
	}
	info := d.Info()
	if info.State != api.DialogueEnded {
		return info, api.Errorf(api.CodeConflict, "dialogue %q: has not ended; it is %s", d.id, info.State)
	}
	if err := d.registry.reserve(d.id, reserved{info.Name, info.Agent, info.NativeSession, d.argv}); err != nil {
		return info, err
	}
	defer d.registry.release(d.id)
	if err := d.endEarlier(ctx); err != nil {
		return info, err
	}
	if err := d.reopen(p.Env); err != nil {
		return info, err
	}
	if err := d.start(ctx, info.NativeSession, ""); err != nil {
		d.markEnded()
		return d.Info(), err
	}
	if err := d.endIfClosing(false); err != nil {
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

// reopen loads the events of an ended dialogue and moves it to the state starting.
func (d *Dialogue) reopen(env map[string]string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed {
		return api.Errorf(api.CodeDialogueNotFound, "dialogue %q: not found", d.id)
	}
	if err := d.reloadLocked(); err != nil {
		return errNoRecord(err)
	}
	if err := d.toLocked(api.DialogueStarting); err != nil {
		return err
	}
	if env != nil {
		d.env = env
	}
	d.info = nil
	d.announceLocked()
	return nil
}

// reloadLocked reads the events of an ended dialogue. If the end itself could not be written at the
// time, it is written now, so that nothing of the old process is open in the next one.
func (d *Dialogue) reloadLocked() error {
	d.resetLocked()
	d.shared.drop() // a damaged end of the record may be put aside
	d.messages = map[string]int64{}
	d.published, d.seq = "", 0
	var last api.DialogueEventType
	err := d.record.repair(d.log, func(ev api.DialogueEvent) {
		d.applyLocked(ev)
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
		d.publishLocked(nil, ev)
	}
	d.publishLocked(nil, api.DialogueEvent{Type: api.DialogueEventEnded, NativeID: own, Ended: end})
	return d.writeLocked(true)
}

// markEnded moves a dialogue back to the state ended when its process could not be started at all.
func (d *Dialogue) markEnded() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.info != nil || d.process != nil { // the process was started, and finish or leave handles its end
		return
	}
	d.moveLocked(api.DialogueEnded)
	d.settleLocked()
	d.announceLocked()
}

// settleLocked saves the last snapshot of a dialogue that has ended, and releases the rest.
func (d *Dialogue) settleLocked() {
	info := d.infoLocked()
	d.about.Info = &info
	if err := d.record.save(d.about); err != nil {
		d.log.Error("dialogue cannot be saved", "error", err)
	}
	d.record.end()
	d.process, d.info, d.tracker = nil, &info, nil
	d.armLingerLocked()
}
