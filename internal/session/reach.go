package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

const (
	// probeAfter is how long a runner may be silent while somebody waits for it, before
	// it is asked whether it is there; while nothing but waiting happens, up to maxProbe.
	probeAfter = 2 * time.Second
	maxProbe   = 30 * time.Second
	// probeTimeout is how long it may take for the answer.
	probeTimeout = 3 * time.Second
	// awayPatience is how long a call waits for a runner that cannot be reached, and
	// waitPatience the same for a call that waits for something to happen anyway.
	awayPatience = 5 * time.Second
	waitPatience = 30 * time.Second
	// noticeAfter is how long a link may be broken before that is news.
	noticeAfter = time.Second
	// firstPause and lastPause are the times between two attempts to reach a runner.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// reachTimeout bounds one attempt. It is long: a runner that was stopped answers on
	// the connection that is open when it goes on.
	reachTimeout = time.Minute
)

// spell is a time in which the runner is reached, with the absence that ends it. Its
// channels are closed when the runner is away: at once, after awayPatience and after
// waitPatience. A call to the runner fails at one of them.
type spell struct{ away, soon, late chan struct{} }

func newSpell() *spell {
	return &spell{make(chan struct{}), make(chan struct{}), make(chan struct{})}
}

// absence is a time in which the runner cannot be reached.
type absence struct {
	since  time.Time
	why    string
	told   bool          // it is in the journal, and in what is told of the session
	over   chan struct{} // closed when the runner is reached again, or never will be
	timers []*time.Timer
}

func (a *absence) end() {
	for _, t := range a.timers {
		t.Stop()
	}
	close(a.over)
}

// lose notes that the runner cannot be reached through w, if w is still in use. The
// world hears of it when it has lasted for the time notice.
func (s *Session) lose(w *wire, why string, notice time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire != w || s.absence != nil || s.ended() {
		return
	}
	a := &absence{since: time.Now(), why: why, over: make(chan struct{})}
	sp := s.spell
	close(sp.away)
	s.absence = a
	a.timers = []*time.Timer{
		time.AfterFunc(awayPatience, func() { close(sp.soon) }),
		time.AfterFunc(waitPatience, func() { close(sp.late) }),
		time.AfterFunc(notice, func() { s.tellAway(a) }),
	}
}

// tellAway tells the world that the session cannot be reached, when that is still so.
func (s *Session) tellAway(a *absence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.absence != a || a.told || s.left || s.state == api.SessionTerminated {
		return
	}
	a.told = true
	s.log.Warn("session cannot be reached", "cause", a.why)
	s.registry.journal.reach(s.info())
}

// found notes that the runner is reached through w.
func (s *Session) found(w *wire) {
	s.mu.Lock()
	if old := s.wire; old != nil && old != w && !happened(old.gone) {
		s.mu.Unlock()
		return // there is a newer one
	}
	a := s.absence
	told := a != nil && a.told
	s.wire = w
	if a != nil {
		s.absence, s.spell = nil, newSpell()
		a.end()
	}
	if told && !s.left && s.state != api.SessionTerminated {
		s.log.Info("session can be reached again", "after", time.Since(a.since).Round(time.Millisecond))
	}
	s.registry.journal.reach(s.info())
	s.mu.Unlock()
	at, _ := s.deadline()
	s.registry.expect(at)
}

// ended reports whether there is no runner any more. mu is held.
func (s *Session) ended() bool { return s.wire == nil && s.absence == nil }

// watch keeps the session connected until its runner is gone, and then ends the session.
// It begins with a connection, or with nil to make one.
func (s *Session) watch(w *wire) {
	for {
		if w == nil {
			if w = s.reach(); w == nil {
				break
			}
		}
		select {
		case <-w.gone:
		case <-s.runner.Done():
			// Its last words may still be on the way; but should something have
			// inherited the connection, it never ends by itself.
			if !happens(w.gone, exitTimeout) {
				w.close()
			}
		}
		if s.isLeft() || happened(s.runner.Done()) {
			break
		}
		s.lose(w, "the link to its runner broke", noticeAfter)
		w = nil
	}
	s.end()
}

// reach connects to the runner, however long that takes. It returns nil when that is of no
// use any more: the runner has ended, or is to be left alone.
func (s *Session) reach() *wire {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		w, err := s.reconnect()
		var stranger *strangerError
		switch {
		case err == nil:
			return w
		case errors.Is(err, errNoUse):
			s.discard()
			return nil
		case errors.As(err, &stranger) && s.disown(stranger):
			return nil
		}
		s.mu.Lock()
		if s.absence != nil {
			s.absence.why = err.Error()
		}
		s.mu.Unlock()
		// Many sessions that lost their runners together do not come back together.
		wait := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-wait.C:
		case <-s.kick:
			pause = firstPause
		case <-s.runner.Done():
		case <-s.ctx.Done():
		}
		wait.Stop()
		if happened(s.runner.Done()) || s.ctx.Err() != nil {
			return nil
		}
	}
}

// discard gives up a runner that has nothing that anybody could use.
func (s *Session) discard() {
	s.mu.Lock()
	unborn := s.heard == ""
	if unborn && s.ending == "" {
		s.ending = "was never completed"
	}
	s.mu.Unlock()
	if unborn {
		s.registry.unlist(s)
	}
}

// errNoUse says that a runner has nothing that anybody could use.
var errNoUse = errors.New("it has no session")

// reconnect makes a connection and takes over everything that the runner tells.
func (s *Session) reconnect() (*wire, error) {
	ctx, cancel := context.WithTimeout(s.ctx, reachTimeout)
	defer cancel()
	w, hello, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if !hello.Created {
		w.close()
		return nil, errNoUse
	}
	err = s.refresh(ctx, w)
	if err == nil {
		err = s.meet()
	}
	if err == nil {
		err = s.tellExecs(ctx, w)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	s.found(w)
	if s.met != nil && !happened(s.met) {
		s.settle()
	}
	return w, nil
}

// Reachable reports whether the runner answers, as far as is known.
func (s *Session) Reachable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.absence == nil
}

// awaitReach waits until the runner is reached, at most for a time. It returns nil when it
// is, or when the session is over.
func (s *Session) awaitReach(ctx context.Context, patience time.Duration) error {
	s.mu.Lock()
	a := s.absence
	s.mu.Unlock()
	if a == nil {
		return nil
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-a.over:
		return nil
	case <-s.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !happened(s.runner.Done()) {
		return s.unreachable("")
	}
	select { // it is being ended, and who waits is to hear why
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Known waits until it is known what the session is. After a restart that takes an answer
// of the runner when the record was written by an earlier version.
func (s *Session) Known(ctx context.Context) error {
	s.mu.Lock()
	known := s.details.Kind != ""
	s.mu.Unlock()
	if known {
		return nil
	}
	return s.awaitReach(ctx, awayPatience)
}

// reasonUnreachable is in the details of the error that unreachable makes.
const reasonUnreachable = "unreachable"

// IsUnreachable reports whether a call could not be made or finished because the runner
// could not be reached. The session goes on, as far as is known.
func IsUnreachable(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == api.CodeRuntimeUnavailable && e.Details["reason"] == reasonUnreachable
}

// unreachable is the answer to a call that waited long enough. It names a call that was
// sent, and may take effect later.
func (s *Session) unreachable(sent string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := "its runner did not answer in time"
	details := map[string]any{"reason": reasonUnreachable, "session_id": s.id}
	if a := s.absence; a != nil {
		why = "cannot be reached for " + time.Since(a.since).Round(time.Second).String() + ": " + a.why
		details["since"] = a.since.UTC()
	}
	if sent != "" && !harmless[sent] {
		why += "; it is not known whether it has taken the request"
	}
	e := api.Errorf(api.CodeRuntimeUnavailable, "session %q: %s; its processes go on, and TRL keeps trying: "+
		"look with session.info, or end it with session.destroy and force", s.label(), why)
	e.Details = details
	return e
}

// look is called by the timer of a connection on which a call waits. It probes a runner that
// has been silent.
func (s *Session) look(w *wire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.probeIsDue() || s.left || s.over || s.wire != w {
		return
	}
	// watch is one of the tasks and still runs, so the count does not start from zero.
	s.registry.tasks.Go(func() { s.probe(w) })
}

// probe waits for a sign of life as long as the connection lasts: a runner that was stopped
// answers when it goes on.
func (s *Session) probe(w *wire) {
	answered := make(chan error, 1)
	s.registry.tasks.Go(func() {
		_, err := w.conn.Call(s.ctx, link.CallHello, s.greeting(), nil, &link.HelloResult{})
		answered <- err
	})
	patience := time.NewTimer(probeTimeout)
	defer patience.Stop()
	select {
	case err := <-answered:
		w.probed(err == nil)
	case <-patience.C:
		s.lose(w, "its runner does not answer", 0)
		if err := <-answered; err == nil {
			s.found(w)
			w.probed(true)
		}
	}
}
