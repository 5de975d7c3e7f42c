package wait

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

// command is one command of a wait. Its goroutine (waiting.follow) calls its methods, one after
// another, except for those that watches returns, which use different fields.
type command struct {
	session *session.Session
	id      string // the command; empty for a session that has none
	want    *conditions

	endedAt  time.Time     // the time of an exit that the look found
	after    int64         // the number of the last record that was searched
	position link.Position // where the search goes on
	quiet    time.Time     // since when there has been no output, as far as is known
	queued   bool          // at the last look at its silence the command had not started

	// These belong to waiting.wait, which sets them as the goroutine reports.
	stage stage
	event *api.WaitEvent // nil before a condition is met
	at    time.Time      // the time of the event
	lost  error          // why the runner cannot be reached; nil if it can
}

// stage is how far the first look is.
type stage int

const (
	unanswered stage = iota // the runner has said nothing
	answered                // the runner has answered, and may search
	looked                  // the look has ended
)

func newCommand(t Target, want *conditions) *command {
	return &command{session: t.Session, id: t.ExecID, want: want, after: want.afterSeq, position: link.Position{AfterSeq: want.afterSeq}}
}

// findExec finds the command that a session stands for: the running one, or else the last one.
func (c *command) findExec(ctx context.Context) error {
	if c.id != "" {
		return nil
	}
	list, err := c.session.ExecList(ctx)
	if err != nil && !errors.Is(err, api.ErrSessionTerminated) {
		return err
	}
	for _, x := range list {
		c.id = x.ExecID
		if x.State == api.ExecRunning {
			break
		}
	}
	return nil
}

// name returns the id of the command. If the runner of a session did not answer which command that
// is, name returns the last one known to run, or else the id of the session.
func (c *command) name() string {
	if c.id != "" {
		return c.id
	}
	return cmp.Or(c.session.Info().ExecID, c.session.ID())
}

// look checks the conditions once, and returns an event if one is met. It calls answered when the
// runner has answered. A session without commands has nothing to wait for, which ends the wait at once.
func (c *command) look(ctx context.Context, answered func()) (*api.WaitEvent, error) {
	if c.id == "" {
		if c.session.Info().State == api.SessionTerminated {
			return c.newEvent(api.ReasonTerminated, 0), nil
		}
		return c.newEvent(api.ReasonNoCommand, 0), nil
	}
	info, err := c.session.ExecInfo(ctx, c.id)
	if err == nil && c.after > info.LastSeq {
		return nil, api.InvalidParam("after_seq", "%d is beyond the last number of exec %q, which is %d", c.after, c.id, info.LastSeq)
	}
	var event *api.WaitEvent
	if err == nil {
		answered()
		event, err = c.lookAt(ctx, info)
	}
	if err != nil {
		return c.explain(ctx, err)
	}
	return event, nil
}

// lookAt is look for a command whose state is info.
func (c *command) lookAt(ctx context.Context, info api.ExecInfo) (*api.WaitEvent, error) {
	if c.want.match != "" {
		if event, err := c.lookBack(ctx, info.LastSeq); err != nil || event != nil {
			return event, err
		}
	}
	if info.State == api.ExecExited || info.State == api.ExecClosed {
		outcome, seq, err := c.session.Outcome(ctx, c.id)
		if err != nil || outcome == nil {
			return nil, err
		}
		if info.EndedAt != nil {
			c.endedAt = *info.EndedAt
		}
		return c.exit(outcome, seq), nil
	}
	c.quiet = time.Now()
	if c.want.idle > 0 && c.isQuiet(info) {
		return c.newEvent(c.want.idleReason, info.LastSeq), nil
	}
	if c.want.input && c.want.onlyLook {
		short, cancel := context.WithTimeout(ctx, inputPatience)
		defer cancel()
		event, err := c.awaitInput(short)
		if err != nil && short.Err() != nil && ctx.Err() == nil {
			return nil, nil
		}
		return event, err
	}
	return nil, nil
}

// when returns the time of the event that the goroutine found just now.
func (c *command) when() time.Time {
	if c.endedAt.IsZero() {
		return time.Now()
	}
	return c.endedAt
}

// isQuiet notes since when there has been no output, and reports whether that is long enough. A
// command that waits for its turn cannot write: its silence begins when it starts.
func (c *command) isQuiet(info api.ExecInfo) bool {
	started := c.queued && info.State != api.ExecQueued
	c.queued = info.State == api.ExecQueued
	switch {
	case c.queued:
		c.quiet = time.Now()
		return false
	case info.QuietMS != nil:
		c.quiet = before(*info.QuietMS)
	case started && info.RunningMS != nil:
		c.quiet = before(*info.RunningMS)
	case started: // an older runner does not say since when
		c.quiet = time.Now()
	}
	return time.Since(c.quiet) >= c.want.idle
}

// before returns the time that was ms milliseconds ago.
func before(ms int64) time.Time { return time.Now().Add(-time.Duration(ms) * time.Millisecond) }

// lookBack searches the existing output, up to a record number.
func (c *command) lookBack(ctx context.Context, last int64) (*api.WaitEvent, error) {
	r, text, err := c.session.Match(ctx, link.MatchParams{ExecID: c.id, Pattern: c.want.match, Position: c.position, Until: last})
	if err != nil {
		return nil, err
	}
	c.position, c.after = r.Position, r.LastSeq
	return c.matched(r, text), nil
}

// matched returns the event of a line that matches; nil if there is none.
func (c *command) matched(r link.MatchResult, text []byte) *api.WaitEvent {
	if r.Line == nil {
		return nil
	}
	event := c.newEvent(api.UntilOutputMatch, r.Seq)
	line := session.OutputLine(*r.Line, text)
	event.Match, event.Stream, event.Outcome = &line, r.Stream, r.Outcome
	return event
}

// watch waits until a condition is met.
func (c *command) watch(ctx context.Context) (*api.WaitEvent, error) {
	list := c.watches()
	if len(list) == 1 {
		return list[0](ctx)
	}
	type answer struct {
		event *api.WaitEvent
		err   error
	}
	answers := make(chan answer, len(list)) // has room for all, so that no function blocks
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for _, watch := range list {
		all.Go(func() {
			event, err := watch(ctx)
			answers <- answer{event, err}
		})
	}
	for range list {
		if a := <-answers; a.event != nil || a.err != nil {
			return a.event, a.err
		}
	}
	return nil, nil
}

// watches returns one function for each condition; they run concurrently. A function that returns
// no event leaves the decision to the others.
func (c *command) watches() []func(context.Context) (*api.WaitEvent, error) {
	list := []func(context.Context) (*api.WaitEvent, error){c.awaitEnd}
	if c.want.match != "" {
		list[0] = c.follow
	}
	if c.want.idle > 0 {
		list = append(list, c.awaitSilence)
	}
	if c.want.input {
		list = append(list, c.awaitInput)
	}
	for i, watch := range list {
		list[i] = func(ctx context.Context) (*api.WaitEvent, error) {
			event, err := watch(ctx)
			if err != nil && ctx.Err() == nil {
				return c.explain(ctx, err)
			}
			return event, err
		}
	}
	return list
}

func (c *command) awaitEnd(ctx context.Context) (*api.WaitEvent, error) {
	outcome, seq, err := c.session.AwaitEnd(ctx, c.id)
	if err != nil {
		return nil, err
	}
	return c.exit(outcome, seq), nil
}

// queuedPause is the shortest time between two looks at a command that waits for its turn, which can
// take hours, however short the silence is that the caller asks for.
const queuedPause = 50 * time.Millisecond

// awaitSilence checks again whenever the silence may have been long enough.
func (c *command) awaitSilence(ctx context.Context) (*api.WaitEvent, error) {
	for {
		pause := max(time.Until(c.quiet.Add(c.want.idle)), time.Millisecond)
		if c.queued {
			pause = max(pause, queuedPause)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		info, err := c.session.ExecInfo(ctx, c.id)
		if err != nil || info.State == api.ExecExited || info.State == api.ExecClosed {
			return nil, err
		}
		if c.isQuiet(info) {
			return c.newEvent(c.want.idleReason, info.LastSeq), nil
		}
	}
}

// awaitInput waits for a process that waits for input. It returns nil when the command has ended,
// which awaitEnd or follow reports.
func (c *command) awaitInput(ctx context.Context) (*api.WaitEvent, error) {
	process, err := c.session.AwaitInput(ctx, c.id)
	if err != nil || process == nil {
		return nil, err
	}
	info, err := c.session.ExecInfo(ctx, c.id)
	if err != nil {
		return nil, err
	}
	event := c.newEvent(api.UntilWaitingForInput, info.LastSeq)
	event.Process = process
	return event, nil
}

// follow searches new output until it matches or the command ends.
func (c *command) follow(ctx context.Context) (*api.WaitEvent, error) {
	r, text, err := c.session.Match(ctx, link.MatchParams{ExecID: c.id, Pattern: c.want.match, Position: c.position, Wait: true})
	switch {
	case err != nil:
		return nil, err
	case r.Line != nil:
		return c.matched(r, text), nil
	case r.Outcome == nil: // the session ended, and the command with it
		return c.newEvent(api.ReasonTerminated, r.LastSeq), nil
	}
	return c.exit(r.Outcome, r.ExitSeq), nil
}

// explain finds out what an error means. A command that could not start has ended without an
// outcome; one whose session has ended may have none.
func (c *command) explain(ctx context.Context, err error) (*api.WaitEvent, error) {
	info, infoErr := c.session.ExecInfo(ctx, c.id)
	switch {
	case errors.Is(infoErr, api.ErrExecNotFound):
		return nil, infoErr
	case infoErr == nil && (info.State == api.ExecExited || info.State == api.ExecClosed):
		event := c.exit(info.Outcome, info.LastSeq)
		event.Error = info.Error
		return event, nil
	case errors.Is(err, api.ErrSessionTerminated):
		return c.newEvent(api.ReasonTerminated, c.after), nil
	}
	return nil, err
}

func (c *command) newEvent(reason string, seq int64) *api.WaitEvent {
	return &api.WaitEvent{ExecID: c.id, SessionID: c.session.ID(), Reason: reason, Seq: seq}
}

func (c *command) exit(outcome *api.ExecOutcome, seq int64) *api.WaitEvent {
	event := c.newEvent(api.UntilExit, seq)
	event.Outcome = outcome
	return event
}
