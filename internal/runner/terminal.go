package runner

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/terminal"
)

// theProgram returns the program of a session of kind terminal or program.
func (r *Runner) theProgram() (*program, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.created:
		return nil, api.Errorf(api.CodeInternal, "session %q: not created", r.cfg.SessionID)
	case r.program == nil:
		return nil, r.wrongKindLocked("it takes commands, by exec.run or exec.stream")
	}
	return r.program, nil
}

// theTerminal returns the terminal of a session of kind terminal.
func (r *Runner) theTerminal() (*terminal.Terminal, *program, error) {
	p, err := r.theProgram()
	if err == nil && p.terminal == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return nil, nil, r.wrongKindLocked("it has no screen")
	}
	if err != nil {
		return nil, nil, err
	}
	return p.terminal, p, nil
}

// wrongKindLocked is the error for a call that the kind of the session does not support.
func (r *Runner) wrongKindLocked(instead string) error {
	e := api.Errorf(api.CodeInvalidParams, "session %q: is a %s; %s", r.labelLocked(), r.kindLocked(), instead)
	e.Details = map[string]any{"kind": r.kindLocked()}
	return e
}

// ifLives returns an error if the program has ended.
func (r *Runner) ifLives(p *program) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.state == api.SessionTerminated || r.ending != nil:
		return r.terminatedErrorLocked()
	case !p.Running():
		return api.Errorf(api.CodeSessionTerminated, "session %q: has ended: %s", r.labelLocked(), causeOf(p.Process().Exit()))
	}
	return nil
}

// typed is session.input.
func (r *Runner) typed(ctx context.Context, q *link.Request[*link.SessionInputParams, *api.SessionInputResult]) error {
	pr, err := r.theProgram()
	if err != nil {
		return err
	}
	var res api.SessionInputResult
	if pr.terminal != nil {
		res, err = pr.terminal.Input(ctx, *q.Params, q.Body)
	} else {
		res, err = r.writeProgram(ctx, pr, *q.Params, q.Body)
	}
	if err != nil {
		if ended := r.ifLives(pr); ended != nil {
			err = ended
		}
		return err
	}
	now := time.Now()
	pr.typed.Store(&now)
	q.Answer(&res, nil)
	return nil
}

// writeProgram is session.input of a program on pipes, by way of exec.input.
func (r *Runner) writeProgram(ctx context.Context, pr *program, p link.SessionInputParams, data []byte) (api.SessionInputResult, error) {
	if p.Paste || len(p.Keys) > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return api.SessionInputResult{}, r.wrongKindLocked("it takes text, neither keys nor a paste")
	}
	res, err := pr.exec.input(ctx, link.InputParams{WriteID: p.WriteID, Close: p.Close}, data)
	n := int64(len(data))
	if res.Repeated {
		n = 0
	}
	return api.SessionInputResult{Bytes: n, Written: res.StdinBytes, Repeated: res.Repeated}, err
}

// resize is session.resize.
func (r *Runner) resize(_ context.Context, p *link.ResizeParams) (*link.ResizeResult, error) {
	t, pr, err := r.theTerminal()
	if err == nil {
		err = r.ifLives(pr)
	}
	if err != nil {
		return nil, err
	}
	res, err := t.Resize(p.Cols, p.Rows)
	return &res, err
}

// screen is session.screen.
func (r *Runner) screen(_ context.Context, p *api.SessionScreenParams) (*api.SessionScreenResult, error) {
	t, _, err := r.theTerminal()
	if err != nil {
		return nil, err
	}
	res := t.Screen(*p)
	r.mu.Lock()
	defer r.mu.Unlock()
	res.SessionID, res.State = r.cfg.SessionID, r.state
	return &res, nil
}

// snapshot is the beginning of session.attach.
func (r *Runner) snapshot(ctx context.Context, q *link.Request[*link.SnapshotParams, *link.SnapshotResult]) error {
	t, _, err := r.theTerminal()
	if err != nil {
		return err
	}
	res, data, err := t.Snapshot(ctx, q.Params.Scrollback)
	if err == nil {
		q.Answer(&res, data)
	}
	return err
}

// follow continues session.attach.
func (r *Runner) follow(ctx context.Context, q *link.Request[*link.FollowParams, *link.FollowResult]) error {
	t, pr, err := r.theTerminal()
	if err != nil {
		return err
	}
	res, body, complete, err := t.Follow(ctx, *q.Params)
	if err != nil {
		return err
	}
	if complete && len(body) == 0 && res.Resize == nil { // only the outcome is missing
		select {
		case <-pr.exec.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
		if res.Outcome, err = pr.exec.result(); err != nil {
			return err
		}
	}
	q.Answer(&res, body)
	return nil
}

// warn writes to the runner's log.
func (r *Runner) warn(err error) { fmt.Fprintf(os.Stderr, "%s: %s\n", Name, err) }

// quoted returns the name of a session that is being created, or its id, for errors.
func quoted(p link.CreateParams) string {
	if p.Params.Name != "" {
		return strconv.Quote(p.Params.Name)
	}
	return strconv.Quote(p.SessionID)
}
