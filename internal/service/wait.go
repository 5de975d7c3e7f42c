package service

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/search"
	"github.com/trl-dev/trl/internal/session"
)

// lookPatience is how long a wait with a timeout of 0 gives the runner to find out whether a
// process waits for input. The runner has to check twice.
const lookPatience = 100 * time.Millisecond

// ExecWait waits until one or all of several commands meet a condition. First it looks at all of
// them, so that it answers at once if the condition is met already or a command is unknown. Then
// it waits, with up to three goroutines per command, which end before it returns.
func (s *Service) ExecWait(ctx context.Context, p api.ExecWaitParams) (api.ExecWaitResult, error) {
	if err := p.Check(); err != nil {
		return api.ExecWaitResult{}, err
	}
	want, err := newWish(p)
	if err != nil {
		return api.ExecWaitResult{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	targets, err := s.targets(ctx, p, want)
	if err != nil {
		return api.ExecWaitResult{}, err
	}
	if err := each(targets, func(t *target) error { return t.look(ctx) }); err != nil {
		return api.ExecWaitResult{}, err
	}
	w := &waiting{targets: targets, all: p.All}
	if w.happened() || want.onlyLook {
		return w.result(), nil
	}
	if timeout := p.Timeout(); timeout != nil {
		timer := time.NewTimer(*timeout)
		defer timer.Stop()
		w.timeout = timer.C
	}
	if err := w.wait(ctx, cancel); err != nil {
		return api.ExecWaitResult{}, err
	}
	return w.result(), nil
}

// wish are the conditions of a wait, besides the exit.
type wish struct {
	match    string // the pattern; empty for none
	afterSeq int64
	idle     time.Duration // 0 for none
	idleWord string        // the reason that reports idleness to this caller
	input    bool
	onlyLook bool
}

func newWish(p api.ExecWaitParams) (*wish, error) {
	w := &wish{
		afterSeq: p.AfterSeq, input: slices.Contains(p.Until, api.UntilWaitingForInput),
		idleWord: p.IdleReason(),
	}
	if timeout := p.Timeout(); timeout != nil {
		w.onlyLook = *timeout == 0
	}
	if idle := p.Idle(); idle != nil {
		w.idle = *idle
	}
	if p.OutputMatch == "" {
		return w, nil
	}
	w.match = p.OutputMatch
	_, err := search.Compile("output_match", w.match)
	return w, err
}

// targets finds the commands, each once, in the order of the parameters.
func (s *Service) targets(ctx context.Context, p api.ExecWaitParams, want *wish) ([]*target, error) {
	var list []*target
	for _, id := range p.ExecIDs {
		found, err := s.registry.GetByExec(id)
		if err != nil {
			return nil, err
		}
		list = append(list, newTarget(found, id, want))
	}
	for _, ref := range p.SessionIDs {
		found, err := s.session(ctx, ref)
		if err != nil {
			return nil, err
		}
		list = append(list, newTarget(found, "", want))
	}
	if err := each(list, func(t *target) error { return t.findExec(ctx) }); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	return slices.DeleteFunc(list, func(t *target) bool {
		key := cmp.Or(t.id, t.session.ID())
		again := known[key]
		known[key] = true
		return again
	}), nil
}

// each calls f for all targets concurrently and returns the error of the first target that has one.
func each(list []*target, f func(*target) error) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, t := range list {
		all.Go(func() { errs[i] = f(t) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// waiting is one exec.wait after the first look.
type waiting struct {
	targets []*target
	all     bool
	timeout <-chan time.Time // nil for none
	late    bool             // the wait timed out
}

// happened reports whether the wait is over.
func (w *waiting) happened() bool {
	n := 0
	for _, t := range w.targets {
		if t.event != nil {
			n++
		}
	}
	return n == len(w.targets) || n > 0 && !w.all
}

// wait watches all targets until the wait is over.
func (w *waiting) wait(ctx context.Context, cancel context.CancelFunc) error {
	type news struct {
		t     *target
		event *api.WaitEvent
		err   error
	}
	heard := make(chan news, 3*len(w.targets)) // has room for all, so that no watcher blocks
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	for _, t := range w.targets {
		if t.event != nil {
			continue
		}
		for _, watch := range t.watches() {
			watchers.Go(func() {
				event, err := watch(ctx)
				heard <- news{t, event, err}
			})
		}
	}
	take := func(n news) error {
		switch {
		case n.err != nil:
			return n.err
		case n.event != nil && n.t.event == nil:
			n.t.event, n.t.at = n.event, time.Now()
		}
		return nil
	}
	for !w.happened() {
		select {
		case n := <-heard:
			if err := take(n); err != nil {
				return err
			}
		case <-w.timeout:
			w.late = true
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for { // events that came at the same time
		select {
		case n := <-heard:
			_ = take(n)
		default:
			return nil
		}
	}
}

func (w *waiting) result() api.ExecWaitResult {
	r := api.ExecWaitResult{Happened: []api.WaitEvent{}, Pending: []string{}, TimedOut: w.late || !w.happened()}
	done := slices.DeleteFunc(slices.Clone(w.targets), func(t *target) bool { return t.event == nil })
	slices.SortStableFunc(done, func(a, b *target) int { return a.at.Compare(b.at) })
	for _, t := range done {
		if t.event.Outcome != nil {
			session.FillLists(t.event.Outcome)
		}
		r.Happened = append(r.Happened, *t.event)
	}
	for _, t := range w.targets {
		if t.event == nil {
			r.Pending = append(r.Pending, t.id)
		}
	}
	return r
}
