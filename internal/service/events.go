package service

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/journal"
)

// eventsAtOnce is how many events a subscriber takes from the journal at a time.
const eventsAtOnce = 256

// EventSubscribe pushes the events of sessions and commands.
func (s *Service) EventSubscribe(ctx context.Context, p api.EventSubscribeParams) (api.Stream, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	sub := &subscription{journal: s.registry.Journal(), types: p.Types}
	if p.SessionID != "" {
		id, err := s.everKnown(p.SessionID)
		if err != nil {
			return nil, err
		}
		sub.session = id
	}
	sub.after = sub.journal.Last()
	if p.AfterSeq != nil {
		if *p.AfterSeq > sub.after {
			return nil, invalid("after_seq", "%d is beyond the last event, which is %d", *p.AfterSeq, sub.after)
		}
		sub.after = *p.AfterSeq
	}
	sub.start = api.StreamStart{StreamID: "events/" + strconv.FormatInt(s.streams.Add(1), 10), Seq: sub.after}
	sub.ctx, sub.cancel = context.WithCancel(ctx)
	return sub, nil
}

// everKnown finds the id of a live session, or of one that the journal has events of.
func (s *Service) everKnown(ref string) (string, error) {
	found, err := s.registry.Get(ref)
	if err == nil {
		return found.ID(), nil
	}
	if id, ok := s.registry.Journal().Find(ref); ok {
		return id, nil
	}
	return "", err
}

// subscription reads the journal at its own pace and pushes its events. It has no goroutine: Recv
// reads. Only one goroutine at a time may call Recv; Close may be called at any time.
type subscription struct {
	ctx     context.Context
	cancel  context.CancelFunc
	journal *journal.Journal
	start   api.StreamStart
	session string   // if not empty, only events of this session
	types   []string // if not empty, only events of these types

	// Used by Recv alone.
	ready []api.StreamEvent
	after int64 // the number of the last event that was read
}

// Start is the immediate answer.
func (sub *subscription) Start() api.StreamStart { return sub.start }

// Close ends the subscription.
func (sub *subscription) Close() error {
	sub.cancel()
	return nil
}

// Recv returns the next push. It waits for one until the subscription is closed.
func (sub *subscription) Recv() (api.StreamEvent, error) {
	for len(sub.ready) == 0 {
		if err := sub.journal.Wait(sub.ctx, sub.after); err != nil {
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
	ev.StreamID = sub.start.StreamID
	return ev, nil
}

func (sub *subscription) read() {
	events, first := sub.journal.Read(sub.after, eventsAtOnce)
	if from := sub.after + 1; from < first {
		sub.ready = append(sub.ready, api.StreamEvent{Seq: first - 1, Type: api.EventMissed, From: &from, To: &first})
		sub.after = first - 1
	}
	for _, ev := range events {
		sub.after = ev.Seq
		if sub.wants(&ev) {
			sub.ready = append(sub.ready, ev)
		}
	}
}

func (sub *subscription) wants(ev *api.StreamEvent) bool {
	if sub.session != "" && ev.SessionID != sub.session {
		return false
	}
	kind, _, _ := strings.Cut(ev.Type, ".")
	return len(sub.types) == 0 || slices.Contains(sub.types, ev.Type) || slices.Contains(sub.types, kind)
}
