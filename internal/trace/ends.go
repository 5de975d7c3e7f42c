package trace

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/trl-dev/trl/api"
)

// Events is the journal of the daemon, as far as a Tracer reads it.
type Events interface {
	// Last returns the number of the last event.
	Last() int64
	// Wait waits until there is an event after that number, or ctx ends.
	Wait(ctx context.Context, after int64) error
	// Read returns events after a number, at most limit, and the number of the first that is kept.
	Read(after int64, limit int) (events []api.StreamEvent, first int64)
}

// Follow reads events until Close. They end the spans of commands and turns that outlive their calls.
// While there are none, it does not wait for events, because a journal with a reader does more for each
// of them. It is called once, before the first call.
func (t *Tracer) Follow(events Events) {
	seen := events.Last()
	t.reading.Go(func() {
		for done := false; !done; {
			select {
			case <-t.opened:
			case <-t.ctx.Done():
			}
			seen = t.read(events, seen, false) // what was missed is older than the span
			for t.hasOpen() && !done {
				done = events.Wait(t.ctx, seen) != nil
				// Also when it is done: the daemon may have ended the commands just before.
				seen = t.read(events, seen, true)
			}
			done = done || t.ctx.Err() != nil
		}
	})
}

// read receives the events after a number, and returns that of the last one. If some are no longer kept,
// and that matters, all spans end: one of the events may have been their end.
func (t *Tracer) read(events Events, seen int64, matters bool) int64 {
	for {
		list, first := events.Read(seen, 256)
		if matters && first > seen+1 {
			t.unfinished()
		}
		if len(list) == 0 {
			return seen
		}
		for _, ev := range list {
			t.receive(ev)
		}
		seen = list[len(list)-1].Seq
	}
}

func (t *Tracer) hasOpen() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting > 0
}

// receive ends the spans that waited for an event, and remembers the event for those that come late.
func (t *Tracer) receive(ev api.StreamEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var id string
	switch ev.Type {
	case api.EventExecExited, api.EventExecClosed:
		id = ev.ExecID
	case api.EventDialogueTurnEnded, api.EventDialogueEnded, api.EventDialogueRemoved:
		id = ev.DialogueID
	default:
		return
	}
	if ev.Type == api.EventExecClosed && t.open[id] == nil && t.ended.Has(id) {
		return // exec.exited has the outcome
	}
	t.ended.Put(id, ev)
	var rest []openSpan
	for _, o := range t.open[id] {
		if !ends(ev, o) {
			rest = append(rest, o)
			continue
		}
		end(o.span, ev)
		t.waiting--
	}
	if t.open[id] = rest; rest == nil {
		delete(t.open, id)
	}
}

// ends reports whether an event of the same command or dialogue ends a span.
func ends(ev api.StreamEvent, o openSpan) bool {
	return ev.DialogueSeq == 0 || ev.DialogueSeq > o.after
}

// endWith ends a span when the command or the dialogue reports its end, which may have happened
// already. A span that is one too many ends now.
func (t *Tracer) endWith(id string, o openSpan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ev, known := t.ended.Get(id)
	switch {
	case known && ends(ev, o):
		end(o.span, ev)
	case id == "" || t.waiting >= maxOpen:
		endUnfinished(o.span)
	default:
		t.open[id] = append(t.open[id], o)
		t.waiting++
		select {
		case t.opened <- struct{}{}:
		default:
		}
	}
}

// unfinished ends all spans that wait for an event.
func (t *Tracer) unfinished() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, list := range t.open {
		for _, o := range list {
			endUnfinished(o.span)
		}
		delete(t.open, id)
	}
	t.waiting = 0
}

// end ends a span with its event. The time is now: the clock of another machine may be wrong.
func end(span trace.Span, ev api.StreamEvent) {
	if ev.ExecOutcome != nil {
		span.SetAttributes(outcome(ev.ExecOutcome)...)
	}
	if ev.TurnID != "" {
		span.SetAttributes(attribute.String("trl.dialogue.turn_id", ev.TurnID))
	}
	if strings.HasPrefix(ev.Type, "dialogue.") {
		span.SetAttributes(attribute.String("trl.dialogue.state", string(ev.State)))
	}
	span.End()
}

// endUnfinished ends the span of a command or a turn that goes on.
func endUnfinished(span trace.Span) {
	span.SetAttributes(attribute.Bool("trl.unfinished", true))
	span.End()
}

// outcome describes how a command ended.
func outcome(o *api.ExecOutcome) []attribute.KeyValue {
	list := []attribute.KeyValue{
		attribute.Int("process.exit.code", o.ExitCode),
		attribute.Int64("trl.exec.stdout_bytes", o.StdoutBytes),
		attribute.Int64("trl.exec.stderr_bytes", o.StderrBytes),
	}
	for name, is := range map[string]bool{"trl.exec.timed_out": o.TimedOut, "trl.exec.cancelled": o.Cancelled} {
		if is {
			list = append(list, attribute.Bool(name, true))
		}
	}
	return list
}
