package session

import (
	"slices"
	"time"
)

// keep is the housekeeping: it ends sessions whose time is over, forgets those that
// ended long ago, removes recordings that are too much, and tells when the daemon is of no
// more use. It sleeps until the
// next of these is due. Its clock is that of package time, which a test replaces with
// testing/synctest.
func (r *Registry) keep() {
	defer close(r.kept)
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

// tidy does what is due and returns when something will be due again; zero for never.
func (r *Registry) tidy(now time.Time) (next time.Time) {
	r.mu.Lock()
	r.next = time.Time{} // a deadline that changes from here on makes us look again
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
	r.recordings.sweep(r.lives)

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
	if r.config.AutoExit > 0 && !r.free.IsZero() {
		if at := r.free.Add(r.config.AutoExit); at.After(now) {
			sooner(at)
		} else if r.closing == nil {
			// From here on nobody can need it: who comes now must find another one.
			r.closing = errStopping
			close(r.unused)
		}
	}
	r.next = next
	return next
}

// endedSince is when the session ended, by a clock that cannot be set.
func (s *Session) endedSince() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// lives reports whether a session lives, or is about to.
func (r *Registry) lives(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, begun := r.starting[id]
	return begun || r.living[id] != nil
}

// expect makes sure that keep is awake at that time.
func (r *Registry) expect(at time.Time) {
	if at.IsZero() {
		return
	}
	r.mu.Lock()
	late := r.next.IsZero() || at.Before(r.next)
	r.mu.Unlock()
	if late {
		r.nudge()
	}
}

func (r *Registry) nudge() {
	select {
	case r.wake <- struct{}{}:
	default: // it is about to look anyway
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
	r.noteFree()
	var released bool // guarded by r.mu
	return func() {
		r.mu.Lock()
		if !released {
			released = true
			r.holds--
			r.noteFree()
		}
		r.mu.Unlock()
		r.nudge()
	}, nil
}

// Unused is closed when there was no session and no hold for the time AutoExit. There
// will be none any more.
func (r *Registry) Unused() <-chan struct{} { return r.unused }

// noteFree records since when the daemon has been idle. mu is held.
func (r *Registry) noteFree() {
	switch {
	case r.holds+len(r.starting)+len(r.living) > 0:
		r.free = time.Time{}
	case r.free.IsZero():
		r.free = time.Now()
	}
}
