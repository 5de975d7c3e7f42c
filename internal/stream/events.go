package stream

import (
	"context"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/journal"
)

// eventsAtOnce is how many events a subscriber takes from the journal at a time.
const eventsAtOnce = 256

// EventsConfig says which events a subscriber gets.
type EventsConfig struct {
	StreamID string
	Journal  *journal.Journal
	Session  string   // if not empty, only events of the session with this id
	Types    []string // if not empty, only events of these types
	After    int64    // only events with a higher number
}

// NewEvents makes the stream of a subscriber to the events of sessions and commands.
func NewEvents(ctx context.Context, c EventsConfig) api.Stream {
	sub := &subscription{EventsConfig: c, last: c.After}
	sub.ctx, sub.cancel = context.WithCancel(ctx)
	return sub
}

// subscription reads the journal at its own pace and pushes its events. It has no goroutine: Recv
// reads. Only one goroutine at a time may call Recv; Close may be called at any time.
type subscription struct {
	EventsConfig
	ctx    context.Context
	cancel context.CancelFunc

	// Used by Recv alone.
	ready []api.StreamEvent // the next pushes, in order
	last  int64             // the number of the last event that was read
}

// Start is the immediate answer.
func (sub *subscription) Start() api.StreamStart {
	return api.StreamStart{StreamID: sub.StreamID, Seq: sub.After}
}

// Close ends the subscription.
func (sub *subscription) Close() error {
	sub.cancel()
	return nil
}

// Recv returns the next push. It waits for one until the subscription is closed.
func (sub *subscription) Recv() (api.StreamEvent, error) {
	for len(sub.ready) == 0 {
		if err := sub.Journal.Wait(sub.ctx, sub.last); err != nil {
			return api.StreamEvent{}, err
		}
		sub.read()
	}
	if err := sub.ctx.Err(); err != nil {
		return api.StreamEvent{}, err
	}
	ev := sub.ready[0]
	sub.ready[0] = api.StreamEvent{}
	sub.ready = sub.ready[1:]
	ev.StreamID = sub.StreamID
	return ev, nil
}

func (sub *subscription) read() {
	events, first := sub.Journal.Read(sub.last, eventsAtOnce)
	if from := sub.last + 1; from < first {
		sub.ready = append(sub.ready, api.StreamEvent{Seq: first - 1, Type: api.EventMissed, From: &from, To: &first})
		sub.last = first - 1
	}
	for _, ev := range events {
		sub.last = ev.Seq
		if sub.wants(&ev) {
			sub.ready = append(sub.ready, ev)
		}
	}
}

func (sub *subscription) wants(ev *api.StreamEvent) bool {
	if sub.Session != "" && ev.SessionID != sub.Session {
		return false
	}
	return sub.Has(ev.Type)
}

// Has reports whether events of this type are selected.
func (c EventsConfig) Has(eventType string) bool {
	kind, _, _ := strings.Cut(eventType, ".")
	return len(c.Types) == 0 || slices.Contains(c.Types, eventType) || slices.Contains(c.Types, kind)
}
