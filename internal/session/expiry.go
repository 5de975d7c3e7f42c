package session

import (
	"context"
	"time"

	"github.com/trl-dev/trl/api"
)

// deadline returns when and why the session will expire; the zero time for never. With an empty
// cause the session is in use: at that time the runner must be asked whether it still is.
func (s *Session) deadline() (at time.Time, cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadlineLocked()
}

func (s *Session) deadlineLocked() (at time.Time, cause string) {
	lifetime, idle := s.limitsLocked()
	if s.ending.step != endNone || s.absence != nil || s.state == api.SessionTerminated {
		return time.Time{}, "" // an unreachable session may be in use
	}
	if lifetime > 0 {
		at, cause = s.createdAt.Add(lifetime), "lived for "+lifetime.String()+" (lifetime_s)"
	}
	// A viewer may be a person who only reads, so a session with a viewer is in use.
	if idle > 0 && len(s.viewers.list) == 0 && (s.state == api.SessionIdle || s.kindLocked() != api.KindShell) {
		end, why := s.idleSince.Add(idle), idleCause(idle)
		if s.idleSince.IsZero() {
			end, why = s.lastBusy.Add(idle), ""
		}
		if left := s.viewers.left; !left.IsZero() && left.Add(idle).After(end) {
			end = left.Add(idle)
		}
		if at.IsZero() || end.Before(at) {
			at, cause = end, why
		}
	}
	return at, cause
}

// announcedEndLocked returns when and why the session will end, for the caller to see; without a
// cause, nothing will end it.
func (s *Session) announcedEndLocked() (at time.Time, cause string) {
	at, cause = s.deadlineLocked()
	if s.ownerEnd.IsZero() || s.ending.step != endNone || s.state == api.SessionTerminated {
		return at, cause
	}
	if cause == "" || s.ownerEnd.Before(at) {
		return s.ownerEnd, causeOwnerGone
	}
	return at, cause
}

// limitsLocked returns after what age and after what idle time the session expires; 0 for
// never.
func (s *Session) limitsLocked() (lifetime, idle time.Duration) {
	lifetime = s.registry.config.Lifetime
	if s.kindLocked() == api.KindShell {
		idle = s.registry.config.IdleTimeout
	}
	if l := s.timeouts.LifetimeS; l != nil {
		lifetime = time.Duration(*l * float64(time.Second))
	}
	if i := s.timeouts.IdleTimeoutS; i != nil {
		idle = time.Duration(*i * float64(time.Second))
	}
	return lifetime, idle
}

func idleCause(d time.Duration) string { return "idle for " + d.String() + " (idle_timeout_s)" }

// expire ends a session whose deadline has passed. Before it ends an idle session, it asks the
// runner whether a process runs in the session.
func (s *Session) expire(cause string) {
	s.mu.Lock()
	_, idle := s.limitsLocked()
	s.mu.Unlock()
	if cause == "" || cause == idleCause(idle) {
		ctx, cancel := context.WithTimeout(s.ctx, infoTimeout)
		defer cancel()
		if _, err := s.Details(ctx); err != nil {
			s.log.Debug("idle session did not report whether it is in use", "error", err)
			return
		}
	}
	at, cause := s.deadline()
	if cause != "" && !at.After(time.Now()) {
		s.destroy(false, cause)
		return
	}
	s.registry.wakeBefore(at)
}
