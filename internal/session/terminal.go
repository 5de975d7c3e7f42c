package session

import (
	"context"
	"errors"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Type types into a terminal, or writes to a program.
func (s *Session) Type(ctx context.Context, p link.SessionInputParams, data []byte) (api.SessionInputResult, error) {
	var r api.SessionInputResult
	_, err := s.call(ctx, link.Input.With(&p, data, &r))
	return r, err
}

// Screen returns what a terminal shows, or showed last.
func (s *Session) Screen(ctx context.Context, p api.SessionScreenParams) (r api.SessionScreenResult, err error) {
	p.SessionID = s.id
	err = s.readFrom(ctx, func(from source) (err error) {
		r, err = from.Screen(p)
		return err
	})
	r.SessionID, r.State = s.id, s.Info().State
	return r, err
}

// Await waits for something to happen in a terminal or program. The exit of the program always
// ends the wait; Await then waits for the end of the session too, unless the timeout comes first.
func (s *Session) Await(ctx context.Context, p api.SessionWaitParams) (api.SessionWaitResult, error) {
	p.SessionID = s.id
	patience, due := ctx, time.Time{}
	if timeout := p.Timeout(); timeout != nil {
		due = time.Now().Add(*timeout)
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(ctx, *timeout)
		defer cancel()
	}
	var r api.SessionWaitResult
	_, err := s.callRunner(ctx, waitPatience, due, link.Wait.With(&p, nil, &r))
	switch {
	case !errors.Is(err, errRunnerGone):
	case s.isLeft():
		err = s.endedError()
	default:
		r, err = s.waitResult(), nil
	}
	if err == nil && r.Reason == api.WaitExit {
		s.awaitDone(patience)
		err = ctx.Err()
	}
	r.SessionID = s.id
	return r, err
}

// awaitDone waits until a session whose program has ended has ended as well.
func (s *Session) awaitDone(ctx context.Context) {
	select {
	case <-s.done:
	case <-ctx.Done():
	}
}

// Resize changes the size of a terminal, unless a viewer owns the size: see viewers.
func (s *Session) Resize(ctx context.Context, p api.SessionResizeParams) (api.SessionResizeResult, error) {
	resize, err := s.wantSize(p)
	if err != nil {
		return api.SessionResizeResult{}, err
	}
	if resize {
		if err := s.applySize(ctx); err != nil {
			return api.SessionResizeResult{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := api.SessionResizeResult{OwnerID: s.viewers.ownerID()}
	if t := s.details.Terminal; t != nil {
		r.Cols, r.Rows = t.Cols, t.Rows
	}
	r.Applied = r.Cols == p.Cols && r.Rows == p.Rows
	return r, nil
}

// wantSize notes the size that a caller asks for, and reports whether the terminal must be resized.
func (s *Session) wantSize(p api.SessionResizeParams) (resize bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == api.SessionTerminated {
		return false, s.endedErrorLocked()
	}
	size := api.TerminalSize{Cols: p.Cols, Rows: p.Rows}
	defer s.wakeViewersLocked()
	if p.ViewerID == "" {
		if !s.viewers.set(size, p.Force) {
			e := api.Errorf(api.CodeConflict, "session %q: its size is that of viewer %s; resize with force, or as that viewer", s.labelLocked(), s.viewers.ownerID())
			e.Details = map[string]any{"owner_id": s.viewers.ownerID()}
			return false, e
		}
		return true, nil
	}
	v := s.viewers.find(p.ViewerID)
	wrong := ""
	switch {
	case v == nil:
		wrong = "is not attached"
	case v.readOnly && p.Force:
		wrong = "is read-only: its size does not count"
	}
	if wrong != "" {
		return false, api.InvalidParam("viewer_id", "viewer %.100q of session %q: %s", p.ViewerID, s.labelLocked(), wrong)
	}
	return s.viewers.measured(v, size, p.Force), nil
}

// applySizeLaterLocked lets a goroutine give the terminal the size of its owner. If the runner cannot
// be reached, reconnect does it.
func (s *Session) applySizeLaterLocked() {
	if s.ending.step.isFinal() {
		return
	}
	// watch is one of the tasks and still runs, so the count does not start from zero.
	s.registry.tasks.Go(func() {
		if err := s.applySize(context.Background()); err != nil {
			s.log.Debug("terminal does not have the size of its owner", "error", err)
		}
	})
}

// applySize waits for its turn and then gives the terminal the size that is wanted by then: of
// several concurrent changes, the last one is applied last.
func (s *Session) applySize(ctx context.Context) error {
	select {
	case s.sizing <- struct{}{}:
		defer func() { <-s.sizing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	want := s.viewers.want
	s.mu.Unlock()
	size := link.ResizeParams(want)
	var r link.ResizeResult
	if err := s.ask(ctx, link.Resize.With(&size, nil, &r)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.details.Terminal; t != nil { // the runner's event may come later
		now := *t
		now.Cols, now.Rows = r.Cols, r.Rows
		s.details.Terminal = &now
	}
	return nil
}
