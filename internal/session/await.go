package session

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// awaited is a command whose end is waited for.
type awaited struct {
	ended   chan struct{} // closed when the runner has told it
	waiters int           // guarded by the session's mu
}

// AwaitEnd waits for the end of a command. It returns the outcome and its number.
func (s *Session) AwaitEnd(ctx context.Context, id string) (*api.ExecOutcome, int64, error) {
	s.mu.Lock()
	a := s.awaited[id]
	if a == nil {
		a = &awaited{ended: make(chan struct{})}
		if s.awaited == nil {
			s.awaited = map[string]*awaited{}
		}
		s.awaited[id] = a
	}
	a.waiters++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if a.waiters--; a.waiters == 0 && s.awaited[id] == a {
			delete(s.awaited, id)
		}
	}()
	for {
		if err := s.awaitReach(ctx, waitPatience); err != nil {
			return nil, 0, err
		}
		w, giveUp := s.line(waitPatience)
		outcome, seq, err := s.Outcome(ctx, id)
		if w != nil && ctx.Err() == nil && errors.Is(err, api.ErrRuntimeUnavailable) && happened(w.conn.Done()) {
			continue // the link broke; this call is more patient than the question
		}
		if w == nil || err != nil || outcome != nil {
			return outcome, seq, err
		}
		if err := s.awaitWord(ctx, w, a.ended, giveUp); err != nil {
			return nil, 0, err
		}
	}
}

// awaitWord waits until the runner says that a command has ended, or until the word may
// have been lost with the link.
func (s *Session) awaitWord(ctx context.Context, w *wire, ended, giveUp <-chan struct{}) error {
	w.begin()
	defer w.end()
	select {
	case <-ended:
	case <-w.gone:
	case <-s.done:
	case <-giveUp:
		return s.unreachable("")
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// wakeAwaiting wakes those who wait for the end of the command that an event is about.
func (s *Session) wakeAwaiting(event json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.awaited) == 0 {
		return
	}
	e, err := link.DecodeExecEvent(event)
	if err != nil || e.State != api.ExecExited && e.State != api.ExecClosed {
		return
	}
	if a := s.awaited[e.ExecID]; a != nil {
		close(a.ended)
		delete(s.awaited, e.ExecID)
	}
}

// Outcome returns the outcome of a command and its number; nil while it has none.
func (s *Session) Outcome(ctx context.Context, id string) (*api.ExecOutcome, int64, error) {
	info, err := s.ExecInfo(ctx, id)
	if err != nil || info.State != api.ExecExited && info.State != api.ExecClosed {
		return nil, 0, err
	}
	r, _, err := s.Read(ctx, link.ReadParams{ExecID: id, AfterSeq: info.LastSeq})
	return r.Outcome, r.Seq, err
}
