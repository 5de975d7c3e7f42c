package runner

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/search"
)

// wait is session.wait.
func (r *Runner) wait(ctx context.Context, p *api.SessionWaitParams) (*api.SessionWaitResult, error) {
	pr, err := r.theProgram()
	if err != nil {
		return nil, err
	}
	var res api.SessionWaitResult
	if pr.terminal != nil {
		res, err = pr.terminal.Wait(ctx, *p)
	} else {
		res, err = r.waitProgram(ctx, pr, *p)
	}
	if err != nil {
		return nil, err
	}
	res.SessionID = r.cfg.SessionID
	if res.Reason == api.WaitExit {
		// The program has ended; its outcome is known when no process of it is left.
		select {
		case <-pr.exec.ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if oc, _ := pr.exec.result(); oc != nil {
		res.ExitCode, res.Signal = &oc.ExitCode, oc.Signal
	}
	return &res, nil
}

// waiting is one session.wait on a program with pipes.
type waiting struct {
	program *program
	params  api.SessionWaitParams
	begun   time.Time
	seq     int64        // the last record that was searched
	lines   *lineMatcher // nil if the caller does not wait for text
}

// inputSeen is the cause that ends the context of a wait: a process waits for input, or the
// system does not show whether one does.
type inputSeen struct {
	process *api.Process
	err     error
}

func (inputSeen) Error() string { return "a process waits for input" }

func (r *Runner) waitProgram(ctx context.Context, pr *program, p api.SessionWaitParams) (api.SessionWaitResult, error) {
	if p.Cursor != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return api.SessionWaitResult{}, r.wrongKindLocked("it has no cursor")
	}
	w := &waiting{program: pr, params: p, begun: time.Now()}
	if p.Text != "" {
		expr, err := search.Compile("text", p.Text)
		if err != nil {
			return api.SessionWaitResult{}, err
		}
		w.lines = &lineMatcher{expr: expr, lines: [2]search.Lines{{Tail: true}, {Tail: true}}}
	}
	if p.SinceVersion != nil {
		w.seq = int64(min(*p.SinceVersion, uint64(pr.exec.Log.Last())))
	}
	looking, stop := context.WithCancelCause(ctx)
	if !p.WaitingForInput {
		defer stop(nil)
		return w.run(ctx, looking)
	}
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		if who, err := pr.exec.awaitInput(looking); who != nil || err != nil {
			stop(inputSeen{who, err})
		}
	}()
	res, err := w.run(ctx, looking)
	stop(nil)
	<-looked
	return res, err
}

// run waits until one of the conditions holds. looking is derived from ctx and ends earlier, with
// the cause inputSeen, when a process waits for input.
func (w *waiting) run(ctx, looking context.Context) (res api.SessionWaitResult, err error) {
	for {
		ended := happened(w.program.exec.ended) // before look, so that look sees the last output
		if w.look(&res) {
			res.Reason = api.WaitText
			return res, nil
		}
		idleAt, timeoutAt := w.deadlines()
		now := time.Now()
		switch {
		case ended:
			res.Reason = api.WaitExit
			return res, nil
		case !idleAt.IsZero() && !now.Before(idleAt):
			res.Reason = api.WaitIdle
			return res, nil
		case !timeoutAt.IsZero() && !now.Before(timeoutAt):
			res.Reason, res.TimedOut = api.WaitTimeout, true
			return res, nil
		}
		err := w.pause(looking, idleAt, timeoutAt)
		var seen inputSeen
		switch {
		case errors.As(err, &seen):
			res.Reason, res.Process = api.WaitInput, seen.process
			return res, seen.err
		case ctx.Err() != nil:
			return res, ctx.Err()
		}
	}
}

// leastLook is the shortest time of a wait for input, because it takes two checks to see that a
// process waits.
const leastLook = 100 * time.Millisecond

// deadlines returns when the program will have been idle for long enough, if nothing happens, and
// when the wait times out; zero for never.
func (w *waiting) deadlines() (idle, timeout time.Time) {
	if period := w.params.Idle(); period != nil {
		idle = w.program.activity().Add(*period)
	}
	if limit := w.params.Timeout(); limit != nil {
		patience := *limit
		if w.params.WaitingForInput {
			patience = max(patience, leastLook)
		}
		timeout = w.begun.Add(patience)
	}
	return idle, timeout
}

// pause waits for output, until one of the deadlines.
func (w *waiting) pause(ctx context.Context, deadlines ...time.Time) error {
	for _, at := range deadlines {
		if !at.IsZero() {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, at)
			defer cancel()
		}
	}
	return w.program.exec.Log.Wait(ctx, w.seq)
}

// look searches the output since the last look, including the lines that were not complete then.
func (w *waiting) look(res *api.SessionWaitResult) (found bool) {
	log := w.program.exec.Log
	if w.lines == nil {
		w.seq = log.Last()
	}
	for w.lines != nil && !found {
		recs, data, next := log.Read(w.seq, 256<<10, w.lines.buf)
		if next == w.seq {
			break
		}
		w.seq, w.lines.buf = next, data
		for _, rec := range recs {
			n := rec.Len
			if rec.Gap {
				n = 0
			}
			w.lines.add(rec, data[:n])
			data = data[n:]
		}
		w.lines.unfinished()
		found = w.lines.found
	}
	res.Version = uint64(w.seq)
	if found {
		res.Match, res.Groups = w.lines.match, w.lines.groups
	}
	return found
}

// lineMatcher tries an expression on the lines of two streams.
type lineMatcher struct {
	expr   *regexp.Regexp
	lines  [2]search.Lines
	buf    []byte
	found  bool
	match  string // the line that matched
	groups []string
}

// add appends to a stream and tries the lines that are now complete.
func (m *lineMatcher) add(rec output.Record, data []byte) {
	if rec.Gap {
		m.lines[rec.Stream].Drop()
	} else if !m.found {
		m.lines[rec.Stream].Feed(rec.Offset, data, m.try)
	}
}

// unfinished tries the lines that are not complete. One may be a question.
func (m *lineMatcher) unfinished() {
	for i := range m.lines {
		if line, ok := m.lines[i].Open(0); ok && !m.found {
			m.try(line)
		}
	}
}

// try tries one line. It returns false if the line matches.
func (m *lineMatcher) try(line search.Line) bool {
	at := m.expr.FindSubmatchIndex(line.Text)
	if at == nil {
		return true
	}
	m.found, m.match = true, strings.ToValidUTF8(string(line.Text), "\uFFFD")
	for i := 0; i < len(at); i += 2 {
		group := ""
		if at[i] >= 0 {
			group = strings.ToValidUTF8(string(line.Text[at[i]:at[i+1]]), "\uFFFD")
		}
		m.groups = append(m.groups, group)
	}
	return false
}
