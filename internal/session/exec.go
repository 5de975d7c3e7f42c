package session

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Run runs a command and waits for its outcome, also while the session reconnects to its runner.
// If ctx ends first, the runner cancels the command, unless it was detached. Run passes the
// stdin "open" through literally; only Start treats it as a request to keep stdin open.
func (s *Session) Run(ctx context.Context, p api.ExecParams) (api.ExecResult, error) {
	params, stdin := s.execParams(p)
	var r link.RunResult
	patience, due := s.patienceOf(p)
	text, err := s.callDue(ctx, patience, due, link.ExecRun.With(&params, stdin, &r))
	if ctx.Err() != nil && (p.Detach == nil || !*p.Detach) && !errors.Is(context.Cause(ctx), api.ErrDaemonEnding) {
		// If the link is broken, the runner does not know that the caller has left.
		go func() {
			_, _ = s.callWithin(context.Background(), forever, link.ExecDrop.With(&link.DropParams{RunID: params.RunID}, nil, &struct{}{}))
		}()
	}
	if err != nil {
		return api.ExecResult{}, err
	}
	if r.StdoutLen < 0 || r.StdoutLen > len(text) {
		return api.ExecResult{}, api.Errorf(api.CodeInternal, "exec %q: %d bytes of stdout in an answer of %d", r.ExecID, r.StdoutLen, len(text))
	}
	result := api.ExecResult{ExecID: r.ExecID, SessionID: s.id, ExecOutcome: r.ExecOutcome}
	result.Stdout, result.StdoutBase64 = api.Text(text[:r.StdoutLen])
	result.Stderr, result.StderrBase64 = api.Text(text[r.StdoutLen:])
	FillLists(&result.ExecOutcome)
	return result, nil
}

// patienceOf returns how long the runner may be unreachable while a command runs, and when the
// command reaches its timeout; zero if it has none. A caller that set a short timeout gets its
// answer soon.
func (s *Session) patienceOf(p api.ExecParams) (patience time.Duration, due time.Time) {
	timeout := s.Info().TimeoutS
	if p.TimeoutS != nil {
		timeout = *p.TimeoutS
	}
	if timeout <= 0 || timeout > waitPatience.Seconds() {
		return waitPatience, time.Time{} // waitPatience comes first
	}
	return awayPatience, time.Now().Add(time.Duration(timeout * float64(time.Second)))
}

// Due returns when a command that is started now reaches its timeout; zero if it has none, or one
// that is too long to matter for a runner that does not answer.
func (s *Session) Due(p api.ExecParams) time.Time {
	_, due := s.patienceOf(p)
	return due
}

// patienceFor returns how long the runner may be unreachable during a call.
func patienceFor(waits bool) time.Duration {
	if waits {
		return waitPatience
	}
	return awayPatience
}

// Start starts or queues a command and returns at once.
func (s *Session) Start(ctx context.Context, p api.ExecParams) (api.ExecInfo, error) {
	params, stdin := s.execParams(p)
	if p.KeepsStdinOpen() {
		params.OpenStdin, params.HasStdin, stdin = true, false, nil
	}
	var info api.ExecInfo
	patience, due := s.patienceOf(p)
	_, err := s.callDue(ctx, min(patience, awayPatience), due, link.ExecStart.With(&params, stdin, &info))
	return info, err
}

// execParams converts a request to the form of the link, where stdin is in the body. The run id
// allows the session to send the request again if the link broke and it is unknown whether the
// request arrived.
func (s *Session) execParams(p api.ExecParams) (link.ExecParams, []byte) {
	stdin, has := p.StdinData()
	p.SessionID, p.Stdin, p.StdinBase64, p.StdinOpen = s.id, nil, "", false
	if p.RunID == "" {
		p.RunID = rand.Text()
	}
	return link.ExecParams{ExecParams: p, HasStdin: has}, stdin
}

// Read reads records of the output of a command. The caller owns the bytes and may pass them to
// link.Release.
func (s *Session) Read(ctx context.Context, p link.ReadParams) (r link.ReadResult, text []byte, err error) {
	return s.ReadDue(ctx, p, time.Time{})
}

// ReadDue is Read for a command that reaches its timeout at the time due; zero for never. From then
// on it waits only while the runner answers.
func (s *Session) ReadDue(ctx context.Context, p link.ReadParams, due time.Time) (r link.ReadResult, text []byte, err error) {
	err = s.readDue(ctx, due, func(from source) (err error) {
		r, text, err = from.Read(p)
		return err
	})
	return r, text, s.orUnknownExec(p.ExecID, err)
}

// orUnknownExec returns the error of a read; if the session has ended and never had the command,
// the error that says this.
func (s *Session) orUnknownExec(id string, err error) error {
	if errors.Is(err, api.ErrSessionTerminated) {
		if _, ended, unknown := s.keptExec(id); ended && unknown != nil {
			return unknown
		}
	}
	return err
}

// Match searches the output of a command for a line that matches, or waits for one.
func (s *Session) Match(ctx context.Context, p link.MatchParams) (r link.MatchResult, text []byte, err error) {
	err = s.readFrom(ctx, func(from source) (err error) {
		r, text, err = from.Match(p)
		return err
	})
	return r, text, s.orUnknownExec(p.ExecID, err)
}

// Input writes to the stdin of a command.
func (s *Session) Input(ctx context.Context, p link.InputParams, data []byte) (api.ExecInputResult, error) {
	var r api.ExecInputResult
	if err := s.refuseIfEnded(p.ExecID); err != nil {
		return r, err
	}
	_, err := s.call(ctx, link.ExecInput.With(&p, data, &r))
	return r, err
}

// AwaitInput waits until a process of a command waits for input and returns that process; nil
// if the command has ended.
func (s *Session) AwaitInput(ctx context.Context, id string) (*api.Process, error) {
	var r link.AwaitResult
	if _, ended, err := s.keptExec(id); ended {
		return nil, err
	}
	_, err := s.callWithin(ctx, waitPatience, link.ExecAwait.With(&api.ExecInfoParams{ExecID: id}, nil, &r))
	return r.Process, err
}

// refuseIfEnded returns an error if the session has ended: only its runner could do what the
// caller wants.
func (s *Session) refuseIfEnded(id string) error {
	_, ended, err := s.keptExec(id)
	if ended && err == nil {
		err = s.endedError()
	}
	return err
}

// Cancel stops a command and waits for its end. For a command that has already ended it
// returns the outcome.
func (s *Session) Cancel(ctx context.Context, p api.ExecCancelParams) (api.ExecInfo, error) {
	p.SessionID = s.id
	if p.ExecID != "" {
		if info, ended, err := s.keptExec(p.ExecID); ended {
			return info, err
		}
	}
	var info api.ExecInfo
	_, err := s.call(ctx, link.ExecCancel.With(&link.CancelParams{ExecCancelParams: p}, nil, &info))
	return s.orKeptExec(p.ExecID, info, err)
}

// Signal sends a signal to a running command.
func (s *Session) Signal(ctx context.Context, p api.ExecSignalParams) (api.ExecSignalResult, error) {
	var r api.ExecSignalResult
	if err := s.refuseIfEnded(p.ExecID); err != nil {
		return r, err
	}
	_, err := s.call(ctx, link.ExecSignal.With(&p, nil, &r))
	return r, err
}

// Drop cancels a command whose caller has left. There is no context left to bound the call: Drop
// waits for an unreachable runner until the session has ended.
func (s *Session) Drop(id string) {
	if _, ended, _ := s.keptExec(id); ended {
		return
	}
	_, _ = s.callWithin(context.Background(), forever, link.ExecCancel.With(&link.CancelParams{ExecCancelParams: api.ExecCancelParams{SessionID: s.id, ExecID: id}, Gone: true}, nil, &api.ExecInfo{}))
}

// orKeptExec returns the runner's answer or, if the session ended during the call, the last state
// of the command.
func (s *Session) orKeptExec(id string, info api.ExecInfo, err error) (api.ExecInfo, error) {
	if id != "" && errors.Is(err, api.ErrSessionTerminated) {
		if kept, ended, keptErr := s.keptExec(id); ended {
			return kept, keptErr
		}
	}
	return info, err
}

// ExecInfo returns the state of one command.
func (s *Session) ExecInfo(ctx context.Context, id string) (api.ExecInfo, error) {
	if info, ended, err := s.keptExec(id); ended {
		return info, err
	}
	var info api.ExecInfo
	err := s.ask(ctx, link.ExecInfo.With(&api.ExecInfoParams{ExecID: id}, nil, &info))
	return s.orKeptExec(id, info, err)
}

// ExecList lists the commands of the session, oldest first.
func (s *Session) ExecList(ctx context.Context) ([]api.ExecInfo, error) {
	if list, ended := s.keptExecs(); ended {
		return list, nil
	}
	var r api.ExecListResult
	err := s.ask(ctx, link.ExecList.With(&struct{}{}, nil, &r))
	if errors.Is(err, api.ErrSessionTerminated) { // meanwhile
		if list, ended := s.keptExecs(); ended {
			return list, nil
		}
	}
	return r.Execs, err
}

// keptExecs lists the commands of an ended session.
func (s *Session) keptExecs() (list []api.ExecInfo, ended bool) {
	s.mu.Lock()
	ended, result := s.state == api.SessionTerminated, s.ending.result
	s.mu.Unlock()
	if !ended || result == nil {
		return nil, ended
	}
	for _, e := range result.Execs {
		list = append(list, s.withPresentAge(e))
	}
	return list, true
}

// keptExec finds a command of an ended session in the runner's last report.
func (s *Session) keptExec(id string) (info api.ExecInfo, ended bool, err error) {
	s.mu.Lock()
	ended, result := s.state == api.SessionTerminated, s.ending.result
	s.mu.Unlock()
	switch {
	case !ended:
		return api.ExecInfo{}, false, nil
	case result == nil:
		return api.ExecInfo{}, true, s.endedError()
	}
	for _, e := range result.Execs {
		if e.ExecID == id {
			return s.withPresentAge(e), true, nil
		}
	}
	return api.ExecInfo{}, true, api.Errorf(api.CodeExecNotFound, "exec %q: not found", id)
}

// Details returns everything about the session. If the session has ended or cannot be reached,
// these are its last known details.
func (s *Session) Details(ctx context.Context) (api.SessionDetails, error) {
	s.mu.Lock()
	before, ended := s.reports, s.state == api.SessionTerminated
	s.mu.Unlock()
	if !ended {
		var d link.SessionDetails
		_, err := s.callWithin(ctx, 0, link.Info.With(&struct{}{}, nil, &d))
		s.mu.Lock()
		if err == nil {
			s.applyDetailsLocked(d, before)
		}
		ended = s.state == api.SessionTerminated
		s.mu.Unlock()
		if err != nil && !ended && !IsUnreachable(err) {
			return api.SessionDetails{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.details
	d.SessionInfo = s.infoLocked()
	if d.EnvKeys == nil {
		d.EnvKeys = []string{}
	}
	if d.Processes == nil {
		d.Processes = []api.Process{}
	}
	return d, nil
}

// FillLists replaces nil lists with empty ones: on the wire they are never null.
func FillLists(o *api.ExecOutcome) {
	if o.LeftRunning == nil {
		o.LeftRunning = []api.Process{}
	}
	if o.Killed == nil {
		o.Killed = []api.KilledProcess{}
	}
}
