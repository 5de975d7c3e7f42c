package service

import (
	"context"
	"errors"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

// target is one command of a wait. Its methods are called one after another, except for those
// that watches returns, which use different fields.
type target struct {
	session *session.Session
	id      string // the command; empty for a session that has none
	want    *wish

	event *api.WaitEvent // nil before a condition is met
	at    time.Time      // the time of the event

	after    int64         // the number of the last record that was searched
	position link.Position // where the search goes on
	quiet    time.Time     // since when there has been no output, as far as is known
}

func newTarget(s *session.Session, id string, want *wish) *target {
	return &target{session: s, id: id, want: want, after: want.afterSeq, position: link.Position{AfterSeq: want.afterSeq}}
}

// findExec finds the command that a session stands for: the running one, or else the last one.
func (t *target) findExec(ctx context.Context) error {
	if t.id != "" {
		return nil
	}
	list, err := t.session.ExecList(ctx)
	if err != nil && !errors.Is(err, api.ErrSessionTerminated) {
		return err
	}
	for _, x := range list {
		t.id = x.ExecID
		if x.State == api.ExecRunning {
			break
		}
	}
	return nil
}

// look checks the conditions once.
func (t *target) look(ctx context.Context) error {
	if t.id == "" {
		t.event, t.at = t.tell(api.UntilExit, 0), time.Now()
		if t.session.Info().State == api.SessionTerminated {
			t.event.Reason = api.ReasonTerminated
		}
		return nil
	}
	info, err := t.session.ExecInfo(ctx, t.id)
	if err == nil && t.after > info.LastSeq {
		return api.InvalidParam("after_seq", "%d is beyond the last number of exec %q, which is %d", t.after, t.id, info.LastSeq)
	}
	if err == nil {
		err = t.lookAt(ctx, info)
	}
	if err != nil {
		t.event, err = t.settle(ctx, err)
	}
	if t.event != nil && t.at.IsZero() {
		t.at = time.Now()
	}
	return err
}

func (t *target) lookAt(ctx context.Context, info api.ExecInfo) error {
	if t.want.match != "" {
		if err := t.lookBack(ctx, info.LastSeq); err != nil || t.event != nil {
			return err
		}
	}
	if info.State == api.ExecExited || info.State == api.ExecClosed {
		outcome, seq, err := t.session.Outcome(ctx, t.id)
		if err == nil && outcome != nil {
			t.event = t.exit(outcome, seq)
			if info.EndedAt != nil {
				t.at = *info.EndedAt
			}
		}
		return err
	}
	t.quiet = time.Now()
	if t.want.idle > 0 && t.isQuiet(info) {
		t.event = t.tell(t.want.idleWord, info.LastSeq)
		return nil
	}
	if t.want.input && t.want.onlyLook {
		short, cancel := context.WithTimeout(ctx, lookPatience)
		defer cancel()
		event, err := t.awaitInput(short)
		if err != nil && short.Err() != nil && ctx.Err() == nil {
			return nil
		}
		t.event = event
		return err
	}
	return nil
}

// isQuiet notes since when there has been no output, and reports whether that is long enough.
func (t *target) isQuiet(info api.ExecInfo) bool {
	if info.QuietMS != nil {
		t.quiet = time.Now().Add(-time.Duration(*info.QuietMS) * time.Millisecond)
	}
	return time.Since(t.quiet) >= t.want.idle
}

// lookBack searches the existing output, up to a record number.
func (t *target) lookBack(ctx context.Context, last int64) error {
	r, text, err := t.session.Match(ctx, link.MatchParams{ExecID: t.id, Pattern: t.want.match, Position: t.position, Until: last})
	if err == nil {
		t.event, t.position, t.after = t.matched(r, text), r.Position, r.LastSeq
	}
	return err
}

// matched returns the event of a line that matches; nil if there is none.
func (t *target) matched(r link.MatchResult, text []byte) *api.WaitEvent {
	if r.Line == nil {
		return nil
	}
	event := t.tell(api.UntilOutputMatch, r.Seq)
	line := outputLine(*r.Line, text)
	event.Match, event.Stream, event.Outcome = &line, r.Stream, r.Outcome
	return event
}

// watches returns one function for each condition; they run concurrently. A function that returns
// no event leaves the decision to the others.
func (t *target) watches() []func(context.Context) (*api.WaitEvent, error) {
	list := []func(context.Context) (*api.WaitEvent, error){t.awaitEnd}
	if t.want.match != "" {
		list[0] = t.follow
	}
	if t.want.idle > 0 {
		list = append(list, t.awaitSilence)
	}
	if t.want.input {
		list = append(list, t.awaitInput)
	}
	for i, watch := range list {
		list[i] = func(ctx context.Context) (*api.WaitEvent, error) {
			event, err := watch(ctx)
			if err != nil && ctx.Err() == nil {
				return t.settle(ctx, err)
			}
			return event, err
		}
	}
	return list
}

func (t *target) awaitEnd(ctx context.Context) (*api.WaitEvent, error) {
	outcome, seq, err := t.session.AwaitEnd(ctx, t.id)
	if err != nil {
		return nil, err
	}
	return t.exit(outcome, seq), nil
}

// awaitSilence checks again whenever the silence may have been long enough.
func (t *target) awaitSilence(ctx context.Context) (*api.WaitEvent, error) {
	for {
		timer := time.NewTimer(max(time.Until(t.quiet.Add(t.want.idle)), time.Millisecond))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		info, err := t.session.ExecInfo(ctx, t.id)
		if err != nil || info.State == api.ExecExited || info.State == api.ExecClosed {
			return nil, err
		}
		if t.isQuiet(info) {
			return t.tell(t.want.idleWord, info.LastSeq), nil
		}
	}
}

// awaitInput waits for a process that waits for input. It returns nil when the command has ended,
// which awaitEnd or follow reports.
func (t *target) awaitInput(ctx context.Context) (*api.WaitEvent, error) {
	process, err := t.session.AwaitInput(ctx, t.id)
	if err != nil || process == nil {
		return nil, err
	}
	info, err := t.session.ExecInfo(ctx, t.id)
	if err != nil {
		return nil, err
	}
	event := t.tell(api.UntilWaitingForInput, info.LastSeq)
	event.Process = process
	return event, nil
}

// follow searches new output until it matches or the command ends.
func (t *target) follow(ctx context.Context) (*api.WaitEvent, error) {
	r, text, err := t.session.Match(ctx, link.MatchParams{ExecID: t.id, Pattern: t.want.match, Position: t.position, Wait: true})
	switch {
	case err != nil:
		return nil, err
	case r.Line != nil:
		return t.matched(r, text), nil
	case r.Outcome == nil: // the session ended, and the command with it
		return t.tell(api.ReasonTerminated, r.LastSeq), nil
	}
	return t.exit(r.Outcome, r.ExitSeq), nil
}

// settle finds out what an error means. A command that could not start has ended without an
// outcome; one whose session has ended may have none.
func (t *target) settle(ctx context.Context, err error) (*api.WaitEvent, error) {
	info, infoErr := t.session.ExecInfo(ctx, t.id)
	switch {
	case errors.Is(infoErr, api.ErrExecNotFound):
		return nil, infoErr
	case infoErr == nil && (info.State == api.ExecExited || info.State == api.ExecClosed):
		event := t.exit(info.Outcome, info.LastSeq)
		event.Error = info.Error
		return event, nil
	case errors.Is(err, api.ErrSessionTerminated):
		return t.tell(api.ReasonTerminated, t.after), nil
	}
	return nil, err
}

func (t *target) tell(reason string, seq int64) *api.WaitEvent {
	return &api.WaitEvent{ExecID: t.id, SessionID: t.session.ID(), Reason: reason, Seq: seq}
}

func (t *target) exit(outcome *api.ExecOutcome, seq int64) *api.WaitEvent {
	event := t.tell(api.UntilExit, seq)
	event.Outcome = outcome
	return event
}
