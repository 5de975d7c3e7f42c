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
	// probeAfter is how long a runner may be silent while a call waits for it before it is
	// probed. While nothing but waiting happens, this time grows up to maxProbe.
	probeAfter = 2 * time.Second
	maxProbe   = 30 * time.Second
	// probeTimeout bounds the wait for the answer to a probe; overdueTimeout is the same while a
	// call is overdue.
	probeTimeout   = 3 * time.Second
	overdueTimeout = 2 * time.Second
	// awayPatience is how long a call waits for a runner that is silent or cannot be reached;
	// waitPatience is the same for a call that waits for something to happen anyway.
	awayPatience = 5 * time.Second
	waitPatience = 30 * time.Second
	// exportPatience is how long a session that ended by itself waits until its output has been
	// fetched.
	exportPatience = 5 * time.Minute
	// noticeAfter is how long a link may be broken before the journal reports it.
	noticeAfter = time.Second
	// firstPause and lastPause are the times between two attempts to reach a runner.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// reachTimeout bounds one attempt. It is long: a runner that was stopped answers on
	// the connection that is open when it goes on.
	reachTimeout = time.Minute
)

// awaySignals are closed when the runner becomes unreachable: at once, after awayPatience and
// after waitPatience. A call to the runner fails at one of them. When the runner is reached
// again, the session gets new ones.
type awaySignals struct{ now, soon, late chan struct{} }

func newAwaySignals() *awaySignals {
	return &awaySignals{make(chan struct{}), make(chan struct{}), make(chan struct{})}
}

// absence is a time in which the runner cannot be reached.
type absence struct {
	since     time.Time
	why       string
	err       error         // why the last attempt to reach the runner failed; nil before the first
	denied    chan struct{} // closed when an attempt failed because the credentials are not accepted
	published bool          // the journal and Info say so
	over      chan struct{} // closed when the runner is reached again, or never will be
	timers    []*time.Timer
}

func newAbsence(since time.Time, why string) *absence {
	return &absence{since: since, why: why, denied: make(chan struct{}), over: make(chan struct{})}
}

func (a *absence) end() {
	for _, t := range a.timers {
		t.Stop()
	}
	close(a.over)
}

// noteLost notes that the runner cannot be reached through c, if c is still in use, and was not
// heard for the time silence. The journal publishes it when it has lasted for the time notice.
func (s *Session) noteLost(c *runnerConn, why string, silence, notice time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c || s.absence != nil {
		return
	}
	a := newAbsence(time.Now().Add(-silence), why)
	signals := s.away
	close(signals.now)
	s.absence = a
	a.timers = []*time.Timer{
		time.AfterFunc(awayPatience-silence, func() { close(signals.soon) }),
		time.AfterFunc(waitPatience-silence, func() { close(signals.late) }),
		time.AfterFunc(notice, func() { s.publishUnreachable(a) }),
	}
}

// publishUnreachable publishes that the session cannot be reached, if that is still so. A runner that
// has ended its session exits, and to find that out may take long in a place that is slow.
func (s *Session) publishUnreachable(a *absence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.absence != a || a.published || s.ending.step == endLeft || s.ending.result != nil || s.state == api.SessionTerminated {
		return
	}
	a.published = true
	s.log.Warn("session cannot be reached", "cause", a.why)
	s.registry.journal.PublishReachability(s.infoLocked())
}

// noteReached notes that the runner is reached through c.
func (s *Session) noteReached(c *runnerConn) {
	s.mu.Lock()
	if old := s.conn; old != nil && old != c && !happened(old.gone) {
		s.mu.Unlock()
		return // there is a newer connection
	}
	a := s.absence
	published := a != nil && a.published
	s.conn = c
	if a != nil {
		s.absence, s.away = nil, newAwaySignals()
		a.end()
	}
	if published && s.ending.step != endLeft && s.state != api.SessionTerminated {
		s.log.Info("session can be reached again", "after", time.Since(a.since).Round(time.Millisecond))
	}
	s.registry.journal.PublishReachability(s.infoLocked())
	// The size that the owner wanted may not have arrived.
	if t := s.details.Terminal; t != nil && s.viewers.owner != nil && s.viewers.want != (api.TerminalSize{Cols: t.Cols, Rows: t.Rows}) {
		s.applySizeLaterLocked()
	}
	s.mu.Unlock()
	at, _ := s.deadline()
	s.registry.wakeBefore(at)
}

// watch keeps the session connected until its runner has exited, and then ends the session.
// It begins with a connection, or with nil to make one.
func (s *Session) watch(c *runnerConn) {
	broke := false
	for {
		if c == nil {
			if c = s.reach(); c == nil {
				break
			}
			if broke {
				s.registry.reconnects.Add(1)
			}
		}
		select {
		case <-c.gone:
		case <-s.runner.Done():
			// The runner's last events may still arrive. But if another process inherited
			// the connection, it never ends by itself.
			if !happens(c.gone, exitTimeout) {
				c.close()
			}
		}
		if s.isLeft() || happened(s.runner.Done()) {
			break
		}
		s.noteLost(c, "the link to its runner broke", 0, noticeAfter)
		c, broke = nil, true
	}
	s.finishEnding()
}

// reach connects to the runner, however long that takes. It returns nil when the runner has
// exited, has no session or none to keep, or is left to a later daemon.
func (s *Session) reach() *runnerConn {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		s.mu.Lock()
		s.attempts.begun++
		s.mu.Unlock()
		c, err := s.reconnect()
		var stranger *strangerError
		switch {
		case err == nil:
			return c
		case errors.Is(err, errNotCreated):
			s.endUncreated()
			return nil
		case errors.Is(err, errNothingToKeep):
			return nil
		case errors.As(err, &stranger) && s.leaveStranger(stranger):
			return nil
		}
		s.noteFailedAttempt(err)
		// The random pause spreads the attempts of sessions that lost their runners together.
		wait := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-wait.C:
		case <-s.retryNow:
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

// endUncreated ends and forgets a session that its runner does not have: an earlier daemon ended,
// or the link broke, before the session was created.
func (s *Session) endUncreated() {
	s.mu.Lock()
	s.endLocked(endForced, "was never completed")
	s.mu.Unlock()
	s.registry.unregister(s)
}

var (
	// errNotCreated says that a runner has no session.
	errNotCreated = errors.New("it has no session")
	// errNothingToKeep says that a runner's session has ended, and TRL keeps nothing of it.
	errNothingToKeep = errors.New("its session has ended")
)

// reconnect makes a connection and applies everything that the runner reports.
func (s *Session) reconnect() (*runnerConn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, reachTimeout)
	defer cancel()
	c, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if !c.hello.Created {
		c.close()
		return nil, errNotCreated
	}
	err = s.refresh(ctx, c)
	if err == nil {
		err = s.applyFirstReport()
	}
	if err == nil {
		err = s.publishExecs(ctx, c)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	s.noteReached(c)
	if s.recovered != nil && !happened(s.recovered) {
		s.finishRecovery()
	}
	// Reports may have been lost with the earlier connection.
	s.noteSettings()
	s.noteOutput(s.Info())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requestExportLocked()
	return c, nil
}

// Reachable reports whether the runner answers, as far as is known.
func (s *Session) Reachable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.absence == nil
}

// awaitReach waits until the runner is reached, at most for the time patience. It returns nil
// when the runner is reached or the session has ended.
func (s *Session) awaitReach(ctx context.Context, patience time.Duration) error {
	s.mu.Lock()
	a := s.absence
	s.mu.Unlock()
	if a == nil {
		return nil
	}
	select {
	case s.retryNow <- struct{}{}:
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
		return s.unreachable(nil)
	}
	select { // the session is ending; the caller shall learn why
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Known waits until the kind of the session is known. After a restart that takes an answer of
// the runner if an earlier version wrote the record.
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

// unreachable is the error of a call that waited long enough. If the call was sent and
// may take effect later, the error warns of that.
func (s *Session) unreachable(sent *link.Row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := "its runner did not answer in time"
	details := map[string]any{"reason": reasonUnreachable, "session_id": s.id}
	if a := s.absence; a != nil {
		why = "has been unreachable for " + time.Since(a.since).Round(time.Second).String() + ": " + a.why
		details["since"] = a.since.UTC()
	}
	if sent != nil && sent.Repeat != link.Always {
		why += "; it is not known whether it has taken the request"
	}
	e := api.Errorf(api.CodeRuntimeUnavailable, "session %q: %s; its processes keep running, and TRL keeps trying: "+
		"see session.info, or end it with session.destroy and force", s.labelLocked(), why)
	e.Details = details
	return e
}

// probeIfSilent is called by the timer of a connection on which a call waits. It probes a
// runner that has been silent.
func (s *Session) probeIfSilent(c *runnerConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.probeIsDue() || s.ending.step.isFinal() || s.conn != c {
		return
	}
	// watch is one of the tasks and still runs, so the count does not start from zero.
	s.registry.tasks.Go(func() { s.probe(c) })
}

// probeNow probes the runner, unless it is being probed.
func (s *Session) probeNow(c *runnerConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending.step.isFinal() || s.conn != c || !c.beginProbe() {
		return
	}
	s.registry.tasks.Go(func() { s.probe(c) })
}

// untilOverdue returns how long a call that is due waits for an unreachable runner.
func untilOverdue(patience time.Duration, due time.Time) time.Duration {
	if due.IsZero() {
		return patience
	}
	return min(patience, max(0, time.Until(due))+overdueTimeout)
}

// watchDue returns a channel that is closed if the runner does not answer a probe at the time due or
// later. A runner that answers is busy ending the command. The caller must call stop.
func (s *Session) watchDue(c *runnerConn, due time.Time) (overdue <-chan struct{}, stop func()) {
	if due.IsZero() {
		return nil, func() {}
	}
	over, stopped, finished := make(chan struct{}), make(chan struct{}), make(chan struct{})
	pauses := func(d time.Duration) bool { return !happens(stopped, d) }
	timer := time.AfterFunc(time.Until(due), func() {
		defer close(finished)
		for pause := time.Second; ; pause = min(2*pause, maxProbe) {
			asked := time.Now()
			s.probeNow(c)
			switch {
			case !pauses(overdueTimeout):
				return
			case c.conn.Silence() > time.Since(asked):
				close(over)
				return
			case !pauses(pause):
				return
			}
		}
	})
	return over, func() {
		close(stopped)
		if !timer.Stop() {
			<-finished
		}
	}
}

// probe waits for an answer as long as the connection lasts: a runner that was stopped
// answers when it continues.
func (s *Session) probe(c *runnerConn) {
	answered := make(chan error, 1)
	s.registry.tasks.Go(func() {
		_, err := c.conn.Call(s.ctx, link.Hello.With(s.helloParams(), nil, &link.HelloResult{}))
		answered <- err
	})
	patience := time.NewTimer(probeTimeout)
	defer patience.Stop()
	select {
	case err := <-answered:
		c.probed(err == nil)
	case <-patience.C:
		// Before the probe, the runner may have had nothing to say for hours.
		s.noteLost(c, "its runner does not answer", min(c.conn.Silence(), probeAfter+probeTimeout), 0)
		if err := <-answered; err == nil {
			s.noteReached(c)
			c.probed(true)
		}
	}
}
