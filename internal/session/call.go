package session

import (
	"context"
	"errors"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// unknownOutcome is the error of a call that the runner may or may not have received.
func (s *Session) unknownOutcome(o link.Outgoing, err error) error {
	if o.Repeat != link.ByWriteID {
		return err
	}
	return api.Errorf(api.CodeRuntimeUnavailable,
		"session %q: %s; it is not known whether the input was written; input with a write_id can be repeated safely", s.Label(), err)
}

// call calls the runner, which may be unreachable for awayPatience. If the session has ended, it
// returns endedError.
func (s *Session) call(ctx context.Context, o link.Outgoing) ([]byte, error) {
	return s.callWithin(ctx, awayPatience, o)
}

// callWithin is call with another patience.
func (s *Session) callWithin(ctx context.Context, patience time.Duration, o link.Outgoing) ([]byte, error) {
	return s.callDue(ctx, patience, time.Time{}, o)
}

// callDue is callWithin for a call that should have its answer at the time due; zero for never.
func (s *Session) callDue(ctx context.Context, patience time.Duration, due time.Time, o link.Outgoing) ([]byte, error) {
	answer, err := s.callRunner(ctx, patience, due, o)
	if errors.Is(err, errRunnerGone) {
		err = s.endedError()
	}
	return answer, err
}

// callRunner calls the runner, which may be unreachable for the time patience: 0, awayPatience,
// waitPatience or forever. If the link breaks during the call, callRunner waits until it is
// known why, and then makes the call again if its row allows that. From the time due on, zero for
// never, callRunner only waits while the runner answers probes. It returns errRunnerGone if the
// session has ended, or ends during the call.
func (s *Session) callRunner(ctx context.Context, patience time.Duration, due time.Time, o link.Outgoing) ([]byte, error) {
	for {
		if err := s.awaitReach(ctx, untilOverdue(patience, due)); err != nil {
			return nil, err
		}
		c, giveUp := s.currentConn(patience)
		if c == nil {
			return nil, errRunnerGone
		}
		if needs, to := o.Needs(); c.hello.Protocol < needs {
			return nil, s.tooOld(c, to)
		}
		c.beginCall()
		overdue, stop := s.watchDue(c, due)
		answer, err := c.conn.CallUnless(ctx, giveUp, overdue, o)
		stop()
		c.endCall()
		if errors.Is(err, link.ErrGivenUp) {
			return nil, s.unreachable(o.Row)
		}
		if err == nil || ctx.Err() != nil || !errors.Is(err, api.ErrRuntimeUnavailable) || !happened(c.conn.Done()) {
			return answer, err
		}
		s.noteLost(c, "the link to its runner broke", 0, noticeAfter)
		if o.Repeatable() {
			continue
		}
		if waiting := s.awaitReach(ctx, untilOverdue(patience, due)); waiting != nil {
			return nil, waiting
		}
		if c, _ := s.currentConn(patience); c == nil {
			return nil, errRunnerGone
		}
		return nil, s.unknownOutcome(o, err)
	}
}

// forever is the patience of a call that waits until the runner is reached or the session has
// ended.
const forever = time.Duration(1<<63 - 1)

// currentConn returns the connection to the runner, nil when the session has ended; and a
// channel that is closed when the runner has been unreachable for the time patience.
func (s *Session) currentConn(patience time.Duration) (c *runnerConn, giveUp <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if happened(s.done) {
		return nil, nil
	}
	switch patience {
	case 0:
		giveUp = s.away.now
	case awayPatience:
		giveUp = s.away.soon
	case waitPatience:
		giveUp = s.away.late
	}
	return s.conn, giveUp
}

// ask is call for answers that a runner can give at once.
func (s *Session) ask(ctx context.Context, o link.Outgoing) error {
	_, err := s.askRunner(ctx, o)
	if errors.Is(err, errRunnerGone) {
		err = s.endedError()
	}
	return err
}

// askRunner is callRunner for answers that a runner can give at once.
func (s *Session) askRunner(ctx context.Context, o link.Outgoing) ([]byte, error) {
	asking, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	text, err := s.callRunner(asking, awayPatience, time.Time{}, o)
	if err != nil && !errors.Is(err, errRunnerGone) && ctx.Err() == nil && asking.Err() != nil {
		return nil, s.unreachable(o.Row)
	}
	return text, err
}
