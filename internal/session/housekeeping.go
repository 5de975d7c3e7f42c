package session

import (
	"slices"
	"time"

	"github.com/trl-dev/trl/api"
)

// runHousekeeping ends sessions that have expired, forgets sessions that ended long ago, removes
// recordings above the limit, and closes unused when the daemon has been idle for long. It sleeps
// until the next of these is due. Its clock is that of package time, which a test replaces with
// testing/synctest.
func (r *Registry) runHousekeeping() {
	defer close(r.housekeepingDone)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-r.wake:
		case <-timer.C:
		}
		if next := r.tidy(time.Now()); !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// tidy does the housekeeping that is due and returns when it is due again; zero for never.
func (r *Registry) tidy(now time.Time) (next time.Time) {
	r.mu.Lock()
	r.nextWake = time.Time{} // a deadline that changes from here on wakes the housekeeping
	r.mu.Unlock()
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for _, s := range r.List() {
		at, cause := s.deadline()
		switch {
		case at.IsZero():
		case at.After(now):
			sooner(at)
		case !s.expiring.Swap(true):
			r.tasks.Go(func() {
				defer s.expiring.Store(false)
				s.expire(cause)
			})
		}
	}
	r.recordings.sweep(r.isLive)

	var forgotten []*Session
	defer func() {
		for _, s := range forgotten {
			if e := s.archived(); e != nil {
				e.Remove()
			}
		}
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	type ended struct {
		id string
		at time.Time
	}
	var past []ended
	for id, s := range r.past {
		past = append(past, ended{id, s.endedSince()})
	}
	slices.SortFunc(past, func(a, b ended) int { return a.at.Compare(b.at) })
	for i, e := range past {
		over := e.at.Add(r.config.Retention)
		if over.After(now) && len(past)-i <= maxPast {
			sooner(over)
			break // the others are younger
		}
		forgotten = append(forgotten, r.past[e.id])
		delete(r.past, e.id)
	}
	if r.config.AutoExit > 0 && !r.idleSince.IsZero() {
		if at := r.idleSince.Add(r.config.AutoExit); at.After(now) {
			sooner(at)
		} else if r.closing == nil {
			// From here on the daemon accepts no new session or connection: their callers
			// must use another daemon.
			r.closing = api.ErrDaemonEnding
			close(r.unused)
		}
	}
	r.nextWake = next
	return next
}

// endedSince returns when the session ended, as a time with a monotonic reading.
func (s *Session) endedSince() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending.at
}

// isLive reports whether a session lives, or is being created, also if this daemon does not understand
// its runner.
func (r *Registry) isLive(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, begun := r.starting[id]
	if begun || r.living[id] != nil {
		return true
	}
	ended, stranger := r.strangers[id]
	if !stranger {
		return false
	}
	select {
	case <-ended:
		delete(r.strangers, id)
		return false
	default:
		return true
	}
}

// wakeBefore makes sure that the housekeeping runs at that time.
func (r *Registry) wakeBefore(at time.Time) {
	if at.IsZero() {
		return
	}
	r.mu.Lock()
	late := r.nextWake.IsZero() || at.Before(r.nextWake)
	r.mu.Unlock()
	if late {
		r.wakeNow()
	}
}

// wakeNow makes the housekeeping run.
func (r *Registry) wakeNow() {
	select {
	case r.wake <- struct{}{}:
	default: // it is about to run anyway
	}
}

// Hold keeps the daemon from exiting, for a connection for instance, until release is
// called. Release may be called more than once. Hold returns an error if the idle daemon is
// already about to exit.
func (r *Registry) Hold() (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing != nil {
		return nil, r.closing
	}
	r.holds++
	r.noteFreeLocked()
	var released bool // guarded by r.mu
	return func() {
		r.mu.Lock()
		if !released {
			released = true
			r.holds--
			r.noteFreeLocked()
		}
		r.mu.Unlock()
		r.wakeNow()
	}, nil
}

// Unused is closed when there was no session and no hold for the time AutoExit. From then on
// the registry refuses both.
func (r *Registry) Unused() <-chan struct{} { return r.unused }

// noteFreeLocked records since when the daemon has been idle.
func (r *Registry) noteFreeLocked() {
	switch {
	case r.holds+r.countLocked() > 0:
		r.idleSince = time.Time{}
	case r.idleSince.IsZero():
		r.idleSince = time.Now()
	}
}
