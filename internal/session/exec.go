package session

import (
	"context"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Run runs a command and waits for its outcome. When ctx ends first, the command is
// cancelled by the runner, unless it was detached.
func (s *Session) Run(ctx context.Context, p api.ExecParams) (api.ExecResult, error) {
	params, stdin := s.execParams(p)
	var r link.RunResult
	text, err := s.call(ctx, link.CallExecRun, params, stdin, &r)
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

// Start starts or queues a command and returns at once.
func (s *Session) Start(ctx context.Context, p api.ExecParams) (api.ExecInfo, error) {
	params, stdin := s.execParams(p)
	var info api.ExecInfo
	_, err := s.call(ctx, link.CallExecStart, params, stdin, &info)
	return info, err
}

// execParams brings a request into the form of the link: stdin travels apart.
func (s *Session) execParams(p api.ExecParams) (link.ExecParams, []byte) {
	stdin, has := p.StdinData()
	p.SessionID, p.Stdin, p.StdinBase64 = s.id, nil, ""
	return link.ExecParams{ExecParams: p, HasStdin: has}, stdin
}

// Read reads the output of a command as the runner has it.
func (s *Session) Read(ctx context.Context, p link.ReadParams) (link.ReadResult, []byte, error) {
	var r link.ReadResult
	text, err := s.call(ctx, link.CallExecRead, p, nil, &r)
	return r, text, err
}

// Cancel stops a command and waits for its end. One that has ended already is told as it is.
func (s *Session) Cancel(ctx context.Context, p api.ExecCancelParams) (api.ExecInfo, error) {
	p.SessionID = s.id
	if p.ExecID != "" {
		if info, ended, err := s.kept(p.ExecID); ended {
			return info, err
		}
	}
	var info api.ExecInfo
	_, err := s.call(ctx, link.CallExecCancel, p, nil, &info)
	return info, err
}

// ExecInfo tells the state of one command.
func (s *Session) ExecInfo(ctx context.Context, id string) (api.ExecInfo, error) {
	if info, ended, err := s.kept(id); ended {
		return info, err
	}
	var info api.ExecInfo
	err := s.ask(ctx, link.CallExecInfo, api.ExecInfoParams{ExecID: id}, &info)
	return info, err
}

// ExecList lists the commands of the session, oldest first.
func (s *Session) ExecList(ctx context.Context) ([]api.ExecInfo, error) {
	s.mu.Lock()
	ended, receipt := s.state == api.SessionTerminated, s.receipt
	s.mu.Unlock()
	if ended {
		if receipt == nil {
			return nil, nil
		}
		return receipt.Execs, nil
	}
	var r api.ExecListResult
	err := s.ask(ctx, link.CallExecList, struct{}{}, &r)
	return r.Execs, err
}

// kept looks for a command of a session that has ended, among what its runner told last.
func (s *Session) kept(id string) (info api.ExecInfo, ended bool, err error) {
	s.mu.Lock()
	ended, receipt := s.state == api.SessionTerminated, s.receipt
	s.mu.Unlock()
	switch {
	case !ended:
		return api.ExecInfo{}, false, nil
	case receipt == nil:
		return api.ExecInfo{}, true, s.endedError()
	}
	for _, e := range receipt.Execs {
		if e.ExecID == id {
			return e, true, nil
		}
	}
	return api.ExecInfo{}, true, api.Errorf(api.CodeExecNotFound, "exec %q: not found", id)
}

// Details tells everything about the session; that of one that has ended is what
// was known last.
func (s *Session) Details(ctx context.Context) (api.SessionDetails, error) {
	s.mu.Lock()
	before, ended := s.events, s.state == api.SessionTerminated
	s.mu.Unlock()
	if !ended {
		var d api.SessionDetails
		err := s.ask(ctx, link.CallInfo, struct{}{}, &d)
		s.mu.Lock()
		if err == nil {
			s.adopt(d, before)
		}
		ended = s.state == api.SessionTerminated
		s.mu.Unlock()
		if err != nil && !ended {
			return api.SessionDetails{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.details
	d.State = s.state
	if d.Tags == nil {
		d.Tags = []string{}
	}
	if d.EnvKeys == nil {
		d.EnvKeys = []string{}
	}
	if d.Processes == nil {
		d.Processes = []api.Process{}
	}
	return d, nil
}

// FillLists makes lists that are missing empty: on the wire they are never null.
func FillLists(o *api.ExecOutcome) {
	if o.LeftRunning == nil {
		o.LeftRunning = []api.Process{}
	}
	if o.Killed == nil {
		o.Killed = []api.KilledProcess{}
	}
}
