package session

import (
	"context"
	"time"

	"github.com/trl-dev/trl/api"
)

// ownerPatience is how long an ephemeral session waits for its owner after a restart of the
// daemon, which closes every connection, unless its creator said.
const ownerPatience = 10 * time.Second

// Own ties an ephemeral session to the connection that ctx carries, in place of the one before.
func (s *Session) Own(ctx context.Context) (api.SessionInfo, error) {
	if !s.ephemeral() {
		return api.SessionInfo{}, api.Errorf(api.CodeConflict, "session %q: is not ephemeral; it has no owner", s.id)
	}
	if info := s.Info(); info.State == api.SessionTerminated {
		return api.SessionInfo{}, s.endedError()
	}
	s.tie(api.Conn(ctx))
	return s.Info(), nil
}

// tie makes conn the owner: the session ends when it has been gone for as long as the session lingers.
func (s *Session) tie(conn context.Context) {
	s.expectEnd(func(gone func()) func() bool { return context.AfterFunc(conn, gone) }, func() {
		s.awaitOwner(0)
	})
}

// awaitOwner ends the session unless another owner comes, within the time that its creator
// gave or the one given here.
func (s *Session) awaitOwner(patience time.Duration) {
	s.mu.Lock()
	if given := s.details.LingerS; given != nil {
		patience = time.Duration(*given * float64(time.Second))
	}
	s.mu.Unlock()
	const cause = "the connection that owned it closed"
	if patience <= 0 {
		s.destroy(false, cause)
		return
	}
	s.expectEnd(func(over func()) func() bool { return time.AfterFunc(patience, over).Stop }, func() {
		s.destroy(false, cause)
	})
}

// expectEnd has then called when a thing that arm waits for happens, unless something else is
// expected by then. arm returns how the waiting is stopped.
func (s *Session) expectEnd(arm func(happened func()) (stop func() bool), then func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == api.SessionTerminated {
		return
	}
	if s.forget != nil {
		s.forget()
	}
	s.owner++
	n := s.owner
	s.forget = arm(func() {
		s.mu.Lock()
		current := s.owner == n && s.forget != nil
		s.mu.Unlock()
		if current {
			then()
		}
	})
}
