// Package wait waits for commands, for exec.wait: until one or all of them exit, write a line that
// matches, are silent for some time, or wait for input.
//
// The runner searches the output and watches the processes; this package combines the conditions of
// one command (command.go) and the commands of one wait (wait.go).
package wait

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/search"
	"github.com/trl-dev/trl/internal/session"
)

// inputPatience is how long a wait with a timeout of 0 gives the runner to find out whether a
// process waits for input. The runner has to check twice.
const inputPatience = 100 * time.Millisecond

// A runner that does not answer and one that is slow look alike at first. These times are for a first
// look that has not ended, of a session that is not known to be unreachable.
const (
	// lookPatience is how long a wait with a shorter timeout waits for the runners to answer.
	lookPatience = time.Second
	// searchPatience is the same for runners that have answered, and search much output.
	searchPatience = 10 * time.Second
	// othersPatience is how long a wait lasts at least that is over before it has looked at all commands:
	// what had happened when it began shall be in one answer.
	othersPatience = 200 * time.Millisecond
)

// Target is a command to wait for.
type Target struct {
	Session *session.Session
	// ExecID is the command; empty for the running command of the session, or else its last one.
	ExecID string
}

// For waits until one or all of the targets meet a condition of p, whose ids it ignores. It looks at
// each of them, and then watches it, with up to four goroutines per command, which end before it
// returns. A session that cannot be reached delays no other one.
func For(ctx context.Context, targets []Target, p api.ExecWaitParams) (api.ExecWaitResult, error) {
	want, err := newConditions(p)
	if err != nil {
		return api.ExecWaitResult{}, err
	}
	w := newWaiting(targets, want, p)
	if err := w.wait(ctx); err != nil {
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

// waiting is one exec.wait.
type waiting struct {
	commands []*command
	all      bool
	began    time.Time
	timeout  *time.Duration // nil for none
	over     time.Time      // since when isOver; zero before
	reports  chan report

	mu     sync.Mutex
	owners map[string]*command // guarded by mu; by the id of a command, or of a session that has none
}

// report is what the goroutine of a command found out. At most one field besides from and at is set;
// none says that the first look has ended, and found nothing.
type report struct {
	from     *command
	answered bool           // the runner answered, but the look goes on
	event    *api.WaitEvent // a condition is met
	at       time.Time      // the time of the event
	again    bool           // from is the same command as another one
	lost     error          // the runner does not answer
	reached  bool           // the runner can be reached again
	err      error          // the wait fails
}

// newWaiting makes a wait for the targets, each once, in their order.
func newWaiting(targets []Target, want *conditions, p api.ExecWaitParams) *waiting {
	w := &waiting{all: p.All, began: time.Now(), timeout: p.Timeout(), owners: map[string]*command{}}
	sessions := map[*session.Session]bool{}
	for _, t := range targets {
		c := newCommand(t, want)
		if t.ExecID == "" && sessions[t.Session] || t.ExecID != "" && !w.owns(c) {
			continue
		}
		sessions[t.Session] = sessions[t.Session] || t.ExecID == ""
		w.commands = append(w.commands, c)
	}
	// The first look and the event of every command have room, so that events of the same time are
	// there together.
	w.reports = make(chan report, 3*len(w.commands))
	return w
}

// owns reports whether no other entry of the wait is the same command.
func (w *waiting) owns(c *command) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := cmp.Or(c.id, c.session.ID())
	if w.owners[key] == nil {
		w.owners[key] = c
	}
	return w.owners[key] == c
}

// wait runs a goroutine for each command until the wait is over or its timeout expires.
func (w *waiting) wait(ctx context.Context) error {
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for _, c := range w.commands {
		all.Go(func() { w.follow(ctx, c) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var expired <-chan time.Time
		if end := w.end(); !end.IsZero() {
			if left := time.Until(end); left > 0 {
				timer.Reset(left)
				expired = timer.C
			} else {
				break
			}
		}
		select {
		case r := <-w.reports:
			if err := w.note(r); err != nil {
				return err
			}
		case <-expired:
		case <-caller.Done():
			return caller.Err()
		}
	}
	for noted := true; noted; { // note also the events that came at the same time
		select {
		case r := <-w.reports:
			_ = w.note(r)
		default:
			noted = false
		}
	}
	for _, c := range w.commands {
		if c.stage == unanswered {
			c.session.Doubt()
		}
	}
	return nil
}

// follow reports what happens to a command, until a condition is met or the wait ends. While the runner
// does not answer it tries again, because the wait may last for the sake of other commands.
func (w *waiting) follow(ctx context.Context, c *command) {
	tell := func(r report) {
		r.from = c
		select {
		case w.reports <- r:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		event, err := w.attempt(ctx, c, tell)
		switch {
		case errors.Is(err, errAgain):
			tell(report{again: true})
			return
		case session.IsUnreachable(err):
			tell(report{lost: err})
			if c.session.AwaitReached(ctx) == nil {
				tell(report{reached: true})
			}
		case err != nil:
			tell(report{err: err})
			return
		default:
			if event != nil {
				tell(report{event: event, at: c.when()})
			}
			return
		}
	}
}

// errAgain says that an entry of a wait is the same command as another one.
var errAgain = errors.New("this command is listed already")

// attempt finds the command, looks at it, and watches it until a condition is met.
func (w *waiting) attempt(ctx context.Context, c *command, tell func(report)) (*api.WaitEvent, error) {
	if err := c.findExec(ctx); err != nil {
		return nil, err
	}
	if !w.owns(c) {
		return nil, errAgain
	}
	event, err := c.look(ctx, func() { tell(report{answered: true}) })
	if err != nil || event != nil {
		return event, err
	}
	tell(report{})
	if c.want.onlyLook {
		return nil, nil
	}
	return c.watch(ctx)
}

// note takes a report. It returns an error if the wait fails.
func (w *waiting) note(r report) error {
	c := r.from
	switch {
	case r.err != nil:
		return r.err
	case r.again:
		w.commands = slices.DeleteFunc(w.commands, func(other *command) bool { return other == c })
	case r.answered:
		c.stage = max(c.stage, answered)
	case r.lost != nil:
		c.stage, c.lost = looked, r.lost
	case r.reached:
		c.lost = nil
	case r.event != nil:
		c.stage, c.event, c.at = looked, r.event, r.at
	default:
		c.stage = looked
	}
	if w.isOver() {
		if w.over.IsZero() {
			w.over = time.Now()
		}
		return nil
	}
	return w.allLost()
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

// allLost returns an error if nothing more will happen, as far as is known: no command that is pending
// can be reached. A wait with a timeout lasts until then, as the runners may come back.
func (w *waiting) allLost() error {
	var first error
	for _, c := range w.commands {
		switch {
		case c.event != nil:
		case c.lost == nil || w.timeout != nil:
			return nil
		case first == nil:
			first = c.lost
		}
	}
	return first
}

// end returns the time at which the wait ends if nothing more is reported; zero for never.
func (w *waiting) end() time.Time {
	if w.over.IsZero() && w.timeout == nil {
		return time.Time{}
	}
	patience := w.lookPatience()
	switch {
	case w.over.IsZero():
		return w.began.Add(max(*w.timeout, patience))
	case patience > 0 && w.over.Before(w.began.Add(othersPatience)):
		return w.began.Add(othersPatience)
	}
	return w.over
}

// lookPatience returns how long the wait must last, at least, for its first look; 0 if the look has
// ended, or will not end soon.
func (w *waiting) lookPatience() (patience time.Duration) {
	for _, c := range w.commands {
		switch {
		case c.stage == answered:
			return searchPatience
		case c.stage == unanswered && patience == 0 && c.session.Reachable():
			patience = lookPatience
		}
	}
	return patience
}

func (w *waiting) result() api.ExecWaitResult {
	r := api.ExecWaitResult{Happened: []api.WaitEvent{}, Pending: []string{}, TimedOut: !w.isOver()}
	done := slices.DeleteFunc(slices.Clone(w.commands), func(c *command) bool { return c.event == nil })
	slices.SortStableFunc(done, func(a, b *command) int { return a.at.Compare(b.at) })
	for _, c := range done {
		if c.event.Outcome != nil {
			session.FillLists(c.event.Outcome)
		}
		r.Happened = append(r.Happened, *c.event)
	}
	for _, c := range w.commands {
		if c.event == nil && (c.id != "" || !slices.Contains(r.Pending, c.name())) {
			r.Pending = append(r.Pending, c.name())
		}
	}
	return r
}
