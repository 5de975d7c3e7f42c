package terminal

import (
	"context"
	"regexp"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/search"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

const (
	// lookEvery is the least time between two looks at a busy screen.
	lookEvery = 10 * time.Millisecond
	// lookShare bounds the looks of one wait to a share of a processor: after a look, the wait
	// pauses for that many times its duration, at most lookLast.
	lookShare = 4
	lookLast  = 250 * time.Millisecond
	// maxParts is in how many parts one look reads the largest scrollback.
	maxParts = 1 + api.MaxScrollback*api.MaxCols/lookCells
)

// Wait waits until one of the conditions of p holds, or until the program has ended, and returns
// which. The caller fills in the outcome of the program and the id of the session.
//
// A terminal is idle while its screen does not change and nothing is typed. Typing restarts the
// idle period, so a caller who types and then waits does not match the silence before the
// keystroke.
func (t *Terminal) Wait(ctx context.Context, p api.SessionWaitParams) (api.SessionWaitResult, error) {
	w := waiter{t: t, params: p}
	if p.Text != "" {
		pattern, err := search.Compile("text", p.Text)
		if err != nil {
			return api.SessionWaitResult{}, err
		}
		w.pattern, w.lines.since = pattern, p.SinceVersion
	}
	if p.WaitingForInput {
		stop := w.awaitInput(ctx)
		defer stop()
	}
	if timeout := p.Timeout(); timeout != nil {
		patience := *timeout
		if p.WaitingForInput {
			patience = max(patience, inputLooks)
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		w.timeout, w.over = timer.C, patience == 0
	}
	return w.wait(ctx)
}

// waiter is one call of Wait. If it waits for a process to wait for input, it has a goroutine,
// which ends before Wait returns.
type waiter struct {
	t       *Terminal
	params  api.SessionWaitParams
	pattern *regexp.Regexp // nil: not for text
	lines   lineLook
	input   <-chan inputResult // nil: not for input
	timeout <-chan time.Time   // nil: none
	over    bool               // the timeout has passed: this look is the last
}

// inputResult is the result of AwaitInput.
type inputResult struct {
	process *api.Process
	err     error
}

// moment is the state of the terminal at one look.
type moment struct {
	version  uint64
	cursor   api.ScreenCursor
	lines    []string        // the lines that were written since the last look
	more     bool            // lines has only the first of them
	behind   bool            // more lines were written while these were read in parts
	complete bool            // the program has ended
	idleAt   time.Time       // when the terminal will be idle, if nothing happens
	changes  <-chan struct{} // closed when something happens
}

// awaitInput starts the goroutine that looks for a process that waits for input. The returned
// function ends it.
func (w *waiter) awaitInput(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	found, ended := make(chan inputResult, 1), make(chan struct{})
	w.input = found
	go func() {
		defer close(ended)
		if p, err := w.t.AwaitInput(ctx); p != nil || err != nil {
			found <- inputResult{p, err}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (w *waiter) wait(ctx context.Context) (api.SessionWaitResult, error) {
	begun := time.Now()
	for parts := 1; ; parts++ {
		now := w.look()
		res := api.SessionWaitResult{Version: now.version, Cursor: &now.cursor}
		if w.decide(now, &res); res.Reason != "" {
			return res, nil
		}
		if now.more && parts < maxParts {
			continue
		}
		if w.over {
			res.Reason, res.TimedOut = api.WaitTimeout, true
			return res, nil
		}
		found, err := w.sleep(ctx, now, min(max(lookEvery, lookShare*time.Since(begun)), lookLast))
		begun, parts = time.Now(), 0
		switch {
		case err != nil:
			return api.SessionWaitResult{}, err
		case found != nil:
			now = w.look()
			return api.SessionWaitResult{Reason: api.WaitInput, Process: found, Version: now.version, Cursor: &now.cursor}, nil
		}
	}
}

// look reads the state of the terminal.
func (w *waiter) look() (m moment) {
	t := w.t
	t.mu.Lock()
	defer t.mu.Unlock()
	t.screen.do(t.offset, func(v *vt.Terminal) {
		m.cursor = cursorOf(v)
		if w.pattern != nil {
			m.lines, m.more = w.lines.read(&t.screen, v)
		}
		m.version = t.screen.at()
		m.behind = w.pattern != nil && !m.more && w.lines.version != m.version
	})
	m.complete, m.changes = t.complete, t.changesLocked()
	if idle := w.params.Idle(); idle != nil {
		m.idleAt = t.idleAtLocked(*idle)
	}
	return m
}

// idleAtLocked is when the terminal will have been idle for that long, if nothing happens.
func (t *Terminal) idleAtLocked(long time.Duration) (at time.Time) {
	if at = t.screen.changed; t.typed.After(at) {
		at = t.typed
	}
	at = at.Add(long)
	t.screen.do(t.offset, func(v *vt.Terminal) {
		if !v.InBatch() && !v.Unfinished() {
			return
		}
		// The program is drawing, unless it has stopped in the middle.
		if left := t.output.Add(batchTime); left.After(at) {
			at = left
		}
		if !time.Now().Before(at) {
			v.EndBatch()
		}
	})
	return at
}

// decide fills in the reason if one of the conditions holds.
func (w *waiter) decide(now moment, res *api.SessionWaitResult) {
	for _, line := range now.lines {
		if groups := w.pattern.FindStringSubmatch(line); groups != nil {
			res.Reason, res.Match, res.Groups = api.WaitText, line, groups
			return
		}
	}
	at := w.params.Cursor
	switch {
	case at != nil && (at.X == nil || *at.X == now.cursor.X) && (at.Y == nil || *at.Y == now.cursor.Y):
		res.Reason = api.WaitCursor
	case now.more, now.behind: // the other lines come first
	case now.complete:
		res.Reason = api.WaitExit
	case w.params.Idle() != nil && !time.Now().Before(now.idleAt):
		res.Reason = api.WaitIdle
	}
}

// sleep returns when another look is worthwhile: pause after the last look if something has
// changed, when the terminal may be idle, or at the timeout. It returns the process that waits
// for input, if there is one.
func (w *waiter) sleep(ctx context.Context, now moment, pause time.Duration) (*api.Process, error) {
	rest := time.NewTimer(pause)
	defer rest.Stop()
	var idle <-chan time.Time
	if w.params.Idle() != nil {
		timer := time.NewTimer(time.Until(now.idleAt))
		defer timer.Stop()
		idle = timer.C
	}
	changes, rested := now.changes, (<-chan time.Time)(nil)
	if now.behind {
		changes, rested = nil, rest.C
	}
	for {
		select {
		case <-changes:
			changes, rested = nil, rest.C
		case <-rested:
			return nil, nil
		case <-idle:
			return nil, nil
		case <-w.timeout:
			w.over = true
			return nil, nil
		case found := <-w.input:
			return found.process, found.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
