package terminal

import (
	"context"
	"regexp"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

const (
	// lookEvery is how long two looks at a busy screen are apart, at least.
	lookEvery = 10 * time.Millisecond
	// lookShare bounds what the looks of one who waits take of a processor: so many times
	// as long as the last one took is nothing done, but not longer than lookLast.
	lookShare = 4
	lookLast  = 250 * time.Millisecond
	// maxParts is in how many parts one look is made, for the largest of all scrollbacks.
	maxParts = 1 + api.MaxScrollback*api.MaxCols/lookCells
)

// Wait waits until something of what p names is the case, or the program has ended, and
// says which. How the program ended, and the id of the session, are left to the caller.
//
// Idle is a screen on which nothing has changed while nothing was typed either, so that
// who types and then waits does not find the idleness of before.
func (t *Terminal) Wait(ctx context.Context, p api.SessionWaitParams) (api.SessionWaitResult, error) {
	w := waiter{t: t, params: p}
	if p.Text != "" {
		pattern, err := regexp.Compile(p.Text)
		if err != nil {
			return api.SessionWaitResult{}, invalid("text", "%s", err)
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

// waiter is one call of Wait. While it waits for a process to wait for input it has a
// goroutine, which ends before Wait returns.
type waiter struct {
	t       *Terminal
	params  api.SessionWaitParams
	pattern *regexp.Regexp // nil: nobody waits for text
	lines   lineLook
	input   <-chan inputResult // nil: nobody asked
	timeout <-chan time.Time   // nil: none
	over    bool               // the time is over: this look is the last
}

// inputResult is what AwaitInput has found.
type inputResult struct {
	process *api.Process
	err     error
}

// moment is what one look has seen.
type moment struct {
	version  uint64
	cursor   api.ScreenCursor
	lines    []string        // that were written since the look before
	more     bool            // not all of them: the rest is to be looked at next
	complete bool            // the program has ended
	idleAt   time.Time       // when it will be idle, if nothing happens
	changes  <-chan struct{} // closed when something happens
}

// awaitInput looks for a process that waits for input, beside the rest. The function it
// returns ends that.
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

// look looks at everything at one moment.
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
		// It is in the middle of something, unless it has left that as it is.
		if left := t.output.Add(batchTime); left.After(at) {
			at = left
		}
		if !time.Now().Before(at) {
			v.EndBatch()
		}
	})
	return at
}

// decide fills in what has happened, if something has.
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
	case now.more: // what else there is to see comes first
	case now.complete:
		res.Reason = api.WaitExit
	case w.params.Idle() != nil && !time.Now().Before(now.idleAt):
		res.Reason = api.WaitIdle
	}
}

// sleep returns when it is worth to look again: when something has changed or it may be
// idle, but not before pause is over; or when the time is. It returns also when
// somebody waits for input.
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
