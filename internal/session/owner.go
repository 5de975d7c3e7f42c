package session

import (
	"context"
	"time"

	"github.com/trl-dev/trl/api"
)

// ownerPatience is how long an ephemeral session waits for its owner at least after a restart of the
// daemon, which closes every connection. A terminal waits as long for its viewers.
const ownerPatience = 10 * time.Second

const causeOwnerGone = "the connection that owned it closed"

// Own makes the connection that ctx carries the owner of an ephemeral session.
func (s *Session) Own(ctx context.Context) (api.SessionInfo, error) {
	if !s.ephemeral() {
		return api.SessionInfo{}, api.Errorf(api.CodeConflict, "session %q: is not ephemeral; it has no owner", s.id)
	}
	if info := s.Info(); info.State == api.SessionTerminated {
		return api.SessionInfo{}, s.endedError()
	}
	s.setOwner(api.Conn(ctx))
	return s.Info(), nil
}

// setOwner makes conn the owner: the session ends when conn has been closed for linger_s.
func (s *Session) setOwner(conn context.Context) {
	s.awaitOwnerChange(time.Time{}, func(gone func()) func() bool { return context.AfterFunc(conn, gone) }, func() {
		s.awaitOwner(0)
	})
}

// awaitOwner ends the session unless a new owner comes within linger_s or within patience, whichever
// is longer.
func (s *Session) awaitOwner(patience time.Duration) {
	s.mu.Lock()
	if given := s.details.LingerS; given != nil {
		patience = max(patience, time.Duration(*given*float64(time.Second)))
	}
	s.mu.Unlock()
	if patience <= 0 {
		s.destroy(false, causeOwnerGone)
		return
	}
	s.awaitOwnerChange(time.Now().Add(patience), func(over func()) func() bool { return time.AfterFunc(patience, over).Stop }, func() {
		s.destroy(false, causeOwnerGone)
	})
}

// awaitOwnerChange replaces the session's wait for a change of its owner: arm starts the wait
// and returns how to stop it; then is called when it is over, unless another wait has replaced it.
// end is when the session ends unless an owner comes; zero while it has one.
func (s *Session) awaitOwnerChange(end time.Time, arm func(happened func()) (stop func() bool), then func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == api.SessionTerminated {
		return
	}
	if s.stopOwnerWait != nil {
		s.stopOwnerWait()
	}
	s.ownerEnd = end
	s.ownerWaits++
	n := s.ownerWaits
	s.stopOwnerWait = arm(func() {
		s.mu.Lock()
		current := s.ownerWaits == n && s.stopOwnerWait != nil
		s.mu.Unlock()
		if current {
			then()
		}
	})
}
