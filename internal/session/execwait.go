package session

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// execEnd is the end of a command that callers wait for.
type execEnd struct {
	ended   chan struct{} // closed when the runner has reported the end
	waiters int           // guarded by the session's mu
}

// AwaitEnd waits for the end of a command. It returns the outcome and its sequence number.
func (s *Session) AwaitEnd(ctx context.Context, id string) (*api.ExecOutcome, int64, error) {
	s.mu.Lock()
	a := s.execWaiters[id]
	if a == nil {
		a = &execEnd{ended: make(chan struct{})}
		if s.execWaiters == nil {
			s.execWaiters = map[string]*execEnd{}
		}
		s.execWaiters[id] = a
	}
	a.waiters++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if a.waiters--; a.waiters == 0 && s.execWaiters[id] == a {
			delete(s.execWaiters, id)
		}
	}()
	for {
		if err := s.awaitReach(ctx, waitPatience); err != nil {
			return nil, 0, err
		}
		c, giveUp := s.currentConn(waitPatience)
		outcome, seq, err := s.Outcome(ctx, id)
		if c != nil && ctx.Err() == nil && errors.Is(err, api.ErrRuntimeUnavailable) && happened(c.conn.Done()) {
			continue // the link broke; this call waits longer than Outcome does
		}
		if c == nil || err != nil || outcome != nil {
			return outcome, seq, err
		}
		if err := s.awaitExecEvent(ctx, c, a.ended, giveUp); err != nil {
			return nil, 0, err
		}
	}
}

// awaitExecEvent waits until the runner reports the end of a command, or until the report may
// have been lost with the link.
func (s *Session) awaitExecEvent(ctx context.Context, c *runnerConn, ended, giveUp <-chan struct{}) error {
	c.beginCall()
	defer c.endCall()
	select {
	case <-ended:
	case <-c.gone:
	case <-s.done:
	case <-giveUp:
		return s.unreachable(nil)
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// wakeExecWaiters wakes the callers that wait for the end of the command that an event is about.
func (s *Session) wakeExecWaiters(event json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.execWaiters) == 0 {
		return
	}
	e, err := link.DecodeExecEvent(event)
	if err != nil || e.State != api.ExecExited && e.State != api.ExecClosed {
		return
	}
	if a := s.execWaiters[e.ExecID]; a != nil {
		close(a.ended)
		delete(s.execWaiters, e.ExecID)
	}
}

// Outcome returns the outcome of a command and its sequence number; nil while the command runs.
func (s *Session) Outcome(ctx context.Context, id string) (*api.ExecOutcome, int64, error) {
	info, err := s.ExecInfo(ctx, id)
	if err != nil || info.State != api.ExecExited && info.State != api.ExecClosed {
		return nil, 0, err
	}
	r, _, err := s.Read(ctx, link.ReadParams{ExecID: id, AfterSeq: info.LastSeq})
	return r.Outcome, r.Seq, err
}
