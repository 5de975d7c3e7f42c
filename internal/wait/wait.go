// Package wait waits for commands, for exec.wait: until one or all of them exit, write a line that
// matches, are silent for some time, or wait for input.
//
// The runner searches the output and watches the processes; this package combines the conditions of
// one command (command.go) and the commands of one wait (wait.go).
package wait

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

// Target is a command to wait for.
type Target struct {
	Session *session.Session
	// ExecID is the command; empty for the running command of the session, or else its last one.
	ExecID string
}

// For waits until one or all of the targets meet a condition of p, whose ids it ignores. First it
// looks at all of them, so that it answers at once if a condition is met already or a command is
// unknown. Then it waits, with up to three goroutines per command, which end before it returns.
func For(ctx context.Context, targets []Target, p api.ExecWaitParams) (api.ExecWaitResult, error) {
	want, err := newConditions(p)
	if err != nil {
		return api.ExecWaitResult{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	commands, err := find(ctx, targets, want)
	if err != nil {
		return api.ExecWaitResult{}, err
	}
	if err := each(commands, func(c *command) error { return c.look(ctx) }); err != nil {
		return api.ExecWaitResult{}, err
	}
	w := &waiting{commands: commands, all: p.All}
	if w.isOver() || want.onlyLook {
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

// conditions are those of one wait. The exit of a command always is one.
type conditions struct {
	match      string        // a line of output matches this pattern; empty for none
	afterSeq   int64         // the search begins behind this record
	idle       time.Duration // there was no output for so long; 0 for none
	idleReason string        // the word that reports idleness to this caller
	input      bool          // a process waits for input
	onlyLook   bool          // the timeout is 0
}

func newConditions(p api.ExecWaitParams) (*conditions, error) {
	want := &conditions{
		match: p.OutputMatch, afterSeq: p.AfterSeq, idleReason: p.IdleReason(),
		input: slices.Contains(p.Until, api.UntilWaitingForInput),
	}
	if timeout := p.Timeout(); timeout != nil {
		want.onlyLook = *timeout == 0
	}
	if idle := p.Idle(); idle != nil {
		want.idle = *idle
	}
	if want.match == "" {
		return want, nil
	}
	_, err := search.Compile("output_match", want.match)
	return want, err
}

// find returns the commands of the targets, each once, in the order of the targets.
func find(ctx context.Context, targets []Target, want *conditions) ([]*command, error) {
	var list []*command
	for _, t := range targets {
		list = append(list, newCommand(t, want))
	}
	if err := each(list, func(c *command) error { return c.findExec(ctx) }); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	return slices.DeleteFunc(list, func(c *command) bool {
		key := cmp.Or(c.id, c.session.ID())
		again := known[key]
		known[key] = true
		return again
	}), nil
}

// each calls f for all commands concurrently and returns the error of the first command that has one.
func each(list []*command, f func(*command) error) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, c := range list {
		all.Go(func() { errs[i] = f(c) })
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
	commands []*command
	all      bool
	timeout  <-chan time.Time // fires at the timeout; nil for none
	timedOut bool
}

// isOver reports whether the wait is over.
func (w *waiting) isOver() bool {
	n := 0
	for _, c := range w.commands {
		if c.event != nil {
			n++
		}
	}
	return n == len(w.commands) || n > 0 && !w.all
}

// wait watches all commands until the wait is over.
func (w *waiting) wait(ctx context.Context, cancel context.CancelFunc) error {
	type report struct {
		from  *command
		event *api.WaitEvent
		err   error
	}
	reports := make(chan report, 3*len(w.commands)) // has room for all, so that no watcher blocks
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	for _, c := range w.commands {
		if c.event != nil {
			continue
		}
		for _, watch := range c.watches() {
			watchers.Go(func() {
				event, err := watch(ctx)
				reports <- report{c, event, err}
			})
		}
	}
	note := func(r report) error {
		switch {
		case r.err != nil:
			return r.err
		case r.event != nil && r.from.event == nil:
			r.from.event, r.from.at = r.event, time.Now()
		}
		return nil
	}
	for !w.isOver() {
		select {
		case r := <-reports:
			if err := note(r); err != nil {
				return err
			}
		case <-w.timeout:
			w.timedOut = true
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for { // note also the events that came at the same time
		select {
		case r := <-reports:
			_ = note(r)
		default:
			return nil
		}
	}
}

func (w *waiting) result() api.ExecWaitResult {
	r := api.ExecWaitResult{Happened: []api.WaitEvent{}, Pending: []string{}, TimedOut: w.timedOut || !w.isOver()}
	done := slices.DeleteFunc(slices.Clone(w.commands), func(c *command) bool { return c.event == nil })
	slices.SortStableFunc(done, func(a, b *command) int { return a.at.Compare(b.at) })
	for _, c := range done {
		if c.event.Outcome != nil {
			session.FillLists(c.event.Outcome)
		}
		r.Happened = append(r.Happened, *c.event)
	}
	for _, c := range w.commands {
		if c.event == nil {
			r.Pending = append(r.Pending, c.id)
		}
	}
	return r
}
