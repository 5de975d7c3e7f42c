package session

import (
	"context"
	"errors"
	"time"

	"github.com/trl-dev/trl/api"
)

// attempts counts the attempts to reach a runner.
type attempts struct {
	begun, failed int
	changed       chan struct{} // closed, and replaced, when an attempt has failed
}

// reachPatience is how long Reach waits for the attempt that it asked for.
const reachPatience = 10 * time.Second

// noteFailedAttempt notes why the runner was not reached.
func (s *Session) noteFailedAttempt(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts.failed = s.attempts.begun
	close(s.attempts.changed)
	s.attempts.changed = make(chan struct{})
	if a := s.absence; a != nil {
		a.why, a.err = err.Error(), err
		if IsDenied(err) && !happened(a.denied) {
			close(a.denied)
		}
	}
}

// IsDenied reports whether a place does not accept the credentials: other attempts fail too, until
// there are other ones.
func IsDenied(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && (e.Code == api.CodeAuthFailed || e.Code == api.CodeForbidden)
}

// LostSince returns since when the runner cannot be reached; zero if it can.
func (s *Session) LostSince() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.absence == nil {
		return time.Time{}
	}
	return s.absence.since
}

// AwaitAway waits until the runner could not be reached for the time patience, or the place does not
// accept the credentials, and returns why. It returns nil if the session or ctx ends before that.
func (s *Session) AwaitAway(ctx context.Context, patience time.Duration) error {
	for {
		s.mu.Lock()
		a, lost := s.absence, s.away.now
		s.mu.Unlock()
		if a == nil {
			select {
			case <-lost:
				continue
			case <-s.done:
			case <-ctx.Done():
			}
			return nil
		}
		timer := time.NewTimer(time.Until(a.since.Add(patience)))
		select {
		case <-timer.C:
			return s.awayError(a)
		case <-a.denied:
			timer.Stop()
			return s.awayError(a)
		case <-a.over:
		case <-s.done:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil || happened(s.done) {
			return nil
		}
	}
}

// awayError says why the runner cannot be reached.
func (s *Session) awayError(a *absence) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.err != nil {
		return a.err
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "session %q: %s", s.labelLocked(), a.why)
}

// Reach makes an attempt to reach the runner at once, and returns why it failed. It returns nil if the
// runner is reached, or the session has ended.
func (s *Session) Reach(ctx context.Context) error {
	s.mu.Lock()
	a, next := s.absence, s.attempts.begun+1
	s.mu.Unlock()
	if a == nil {
		return nil
	}
	select {
	case s.retryNow <- struct{}{}:
	default: // an attempt is about to be made anyway
	}
	timer := time.NewTimer(reachPatience)
	defer timer.Stop()
	for {
		s.mu.Lock()
		tried, changed := s.attempts.failed >= next, s.attempts.changed
		s.mu.Unlock()
		if tried {
			return s.awayError(a)
		}
		select {
		case <-changed:
		case <-a.over:
			return nil
		case <-s.done:
			return nil
		case <-timer.C:
			return s.awayError(a)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// AwaitReached waits until the runner is reached or the session has ended.
func (s *Session) AwaitReached(ctx context.Context) error {
	return s.awaitReach(ctx, forever)
}

// Doubt probes the runner, after a call that ended without its answer. Otherwise short calls alone would
// never find out that the session cannot be reached, and each of them would wait for it.
func (s *Session) Doubt() {
	s.mu.Lock()
	c, known := s.conn, s.absence != nil || happened(s.done)
	s.mu.Unlock()
	if c != nil && !known {
		s.probeNow(c)
	}
}

// finisher is a Runtime that may have sessions which have ended, but whose runners may still live in a
// place that could not be reached.
type finisher interface {
	// Finish carries out the removals of the sessions that match. The error says that one of them may
	// still run.
	Finish(ctx context.Context, match func(About) bool) error
}

// Finish makes sure that nothing runs any more of the ended sessions that match. The error says that
// one of them may still run, because its place cannot be reached.
func (r *Registry) Finish(ctx context.Context, match func(About) bool) error {
	for _, rt := range r.config.Runtimes {
		if f, ok := rt.(finisher); ok {
			if err := f.Finish(ctx, match); err != nil {
				return err
			}
		}
	}
	return nil
}
