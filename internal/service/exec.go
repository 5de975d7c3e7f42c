package service

import (
	"context"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/wait"
)

// ExecRun runs a command and waits for its outcome. When its caller goes away, the command is
// cancelled, unless it is detached.
func (s *Service) ExecRun(ctx context.Context, p api.ExecParams) (api.ExecResult, error) {
	if p.Backpressure != nil && *p.Backpressure {
		return api.ExecResult{}, api.InvalidParam("backpressure", "is only for exec.stream")
	}
	if p.StdinOpen {
		return api.ExecResult{}, api.InvalidParam("stdin_open", "is only for exec.start and exec.stream")
	}
	found, err := s.execSession(ctx, &p, false)
	if err != nil {
		return api.ExecResult{}, err
	}
	return found.Run(ctx, p)
}

// ExecStart starts or queues a command and answers at once. When its caller goes away, the
// command goes on, unless detach is false.
func (s *Service) ExecStart(ctx context.Context, p api.ExecParams) (api.ExecInfo, error) {
	if p.Backpressure != nil && *p.Backpressure {
		return api.ExecInfo{}, api.InvalidParam("backpressure", "is only for exec.stream")
	}
	found, err := s.execSession(ctx, &p, true)
	if err != nil {
		return api.ExecInfo{}, err
	}
	info, err := found.Start(ctx, p)
	if err == nil && !*p.Detach {
		context.AfterFunc(api.Conn(ctx), func() {
			found.Drop(info.ExecID)
		})
	}
	if err == nil {
		endStdinWithInput(ctx, found, p, info.ExecID)
	}
	return info, err
}

// endStdinWithInput closes the open stdin of a command when its caller can send no more input:
// otherwise a command that reads to the end would never exit.
func endStdinWithInput(ctx context.Context, found *session.Session, p api.ExecParams, id string) {
	input := api.Input(ctx)
	if input == nil || !p.KeepsStdinOpen() {
		return
	}
	context.AfterFunc(input, func() {
		_, _ = found.Input(context.WithoutCancel(ctx), link.InputParams{ExecID: id, Close: true}, nil) // it may have ended
	})
}

// execSession checks the parameters of a command and finds its session. detach is the default of
// p.Detach.
func (s *Service) execSession(ctx context.Context, p *api.ExecParams, detach bool) (*session.Session, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.Detach == nil {
		p.Detach = &detach
	}
	found, err := s.live(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if err := found.Known(ctx); err != nil {
		return nil, err
	}
	return found, takesCommands(found)
}

// ExecSignal sends a signal to a running command.
func (s *Service) ExecSignal(ctx context.Context, p api.ExecSignalParams) (api.ExecSignalResult, error) {
	if err := p.Check(); err != nil {
		return api.ExecSignalResult{}, err
	}
	found, err := s.registry.GetByExec(p.ExecID)
	if err == nil {
		err = notOwned(ctx, found, p.Force, "dialogue.interrupt or dialogue.terminate")
	}
	if err != nil {
		return api.ExecSignalResult{}, err
	}
	return found.Signal(ctx, p)
}

// ExecCancel stops a command and everything it started.
func (s *Service) ExecCancel(ctx context.Context, p api.ExecCancelParams) (api.ExecInfo, error) {
	var found *session.Session
	var err error
	switch {
	case p.ExecID == "" && p.SessionID == "":
		return api.ExecInfo{}, api.InvalidParam("exec_id", "is required, unless session_id is set")
	case p.ExecID == "":
		found, err = s.live(ctx, p.SessionID)
	default:
		found, err = s.registry.GetByExec(p.ExecID)
	}
	if err != nil {
		return api.ExecInfo{}, err
	}
	if err := s.isIn(ctx, found, p.ExecID, p.SessionID); err != nil {
		return api.ExecInfo{}, err
	}
	if err := notOwned(ctx, found, p.Force, "dialogue.interrupt or dialogue.terminate"); err != nil {
		return api.ExecInfo{}, err
	}
	return found.Cancel(ctx, p)
}

// isIn returns an error if the parameters name a command and a session that it is not in.
func (s *Service) isIn(ctx context.Context, found *session.Session, execID, sessionID string) error {
	if execID == "" || sessionID == "" {
		return nil
	}
	if other, err := s.session(ctx, sessionID); err != nil || other != found {
		return api.InvalidParam("session_id", "exec %q is not in session %q", execID, sessionID)
	}
	return nil
}

// ExecInfo reports the state and outcome of one command.
func (s *Service) ExecInfo(ctx context.Context, p api.ExecInfoParams) (api.ExecInfo, error) {
	if p.ExecID == "" {
		return api.ExecInfo{}, api.InvalidParam("exec_id", "is required")
	}
	found, err := s.registry.GetByExec(p.ExecID)
	if err != nil {
		return api.ExecInfo{}, err
	}
	return found.ExecInfo(ctx, p.ExecID)
}

// ExecList lists the commands of one session, or of all.
func (s *Service) ExecList(ctx context.Context, p api.ExecListParams) (api.ExecListResult, error) {
	if err := p.Check(); err != nil {
		return api.ExecListResult{}, err
	}
	result := api.ExecListResult{Execs: []api.ExecInfo{}}
	var execs []api.ExecInfo
	if p.SessionID != "" {
		found, err := s.session(ctx, p.SessionID)
		if err != nil {
			return api.ExecListResult{}, err
		}
		if execs, err = found.ExecList(ctx); err != nil {
			return api.ExecListResult{}, err
		}
	} else {
		execs, result.Unreachable = s.registry.AllExecs(ctx)
	}
	for _, x := range execs {
		if p.Selects(x.State) {
			result.Execs = append(result.Execs, x)
		}
	}
	var err error
	result.Execs, result.Next, err = page(result.Execs, p.Page, func(x api.ExecInfo) place { return place{x.QueuedAt, x.ExecID} })
	return result, err
}

// ExecWait waits until one or all of several commands meet a condition.
func (s *Service) ExecWait(ctx context.Context, p api.ExecWaitParams) (api.ExecWaitResult, error) {
	if err := p.Check(); err != nil {
		return api.ExecWaitResult{}, err
	}
	var targets []wait.Target
	for _, id := range p.ExecIDs {
		found, err := s.registry.GetByExec(id)
		if err != nil {
			return api.ExecWaitResult{}, err
		}
		targets = append(targets, wait.Target{Session: found, ExecID: id})
	}
	for _, ref := range p.SessionIDs {
		found, err := s.session(ctx, ref)
		if err != nil {
			return api.ExecWaitResult{}, err
		}
		targets = append(targets, wait.Target{Session: found})
	}
	return wait.For(ctx, targets, p)
}

var _ api.OutputReader = (*Service)(nil)

// ReadOutput reads a piece of the output of a command as bytes. Before a gap it may be shorter
// than requested.
func (s *Service) ReadOutput(ctx context.Context, p api.ExecOutputParams, wait bool) (api.OutputBytes, error) {
	found, err := s.outputOf(p)
	if err != nil {
		return api.OutputBytes{}, err
	}
	if p.Grep != "" {
		return api.OutputBytes{}, api.InvalidParam("grep", "cannot be combined with bytes")
	}
	return found.OutputBytes(ctx, p, wait)
}

// ExecOutput reads the output of a command: a piece of it as text, or the lines that match.
func (s *Service) ExecOutput(ctx context.Context, p api.ExecOutputParams) (api.ExecOutputResult, error) {
	found, err := s.outputOf(p)
	if err != nil {
		return api.ExecOutputResult{}, err
	}
	if p.Grep != "" {
		return found.OutputLines(ctx, p)
	}
	return found.OutputText(ctx, p)
}

// outputOf checks the parameters and finds the session of the command.
func (s *Service) outputOf(p api.ExecOutputParams) (*session.Session, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return s.registry.GetByExec(p.ExecID)
}

// ExecInput writes to the stdin of a running command.
func (s *Service) ExecInput(ctx context.Context, p api.ExecInputParams) (api.ExecInputResult, error) {
	if err := p.Check(); err != nil {
		return api.ExecInputResult{}, err
	}
	found, err := s.registry.GetByExec(p.ExecID)
	if err != nil {
		return api.ExecInputResult{}, err
	}
	if err := notOwned(ctx, found, p.Force, "dialogue.send"); err != nil {
		return api.ExecInputResult{}, err
	}
	return found.Input(ctx, link.InputParams{ExecID: p.ExecID, WriteID: p.WriteID, Close: p.Close, Pty: p.Pty}, p.Content())
}
