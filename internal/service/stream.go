package service

import (
	"context"
	"strconv"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/stream"
)

// ExecStream starts a command and pushes its output. When the caller goes away, the command goes
// on, unless detach is false. With an exec_id it pushes the output of an earlier command
// instead, which does not depend on the caller.
func (s *Service) ExecStream(ctx context.Context, p api.ExecStreamParams) (api.Stream, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.ExecID != "" {
		return s.followExec(ctx, p)
	}
	found, err := s.execSession(ctx, &p.ExecParams, true)
	if err != nil {
		return nil, err
	}
	if p.Backpressure == nil {
		p.Backpressure = new(true)
	}
	info, err := found.Start(ctx, p.ExecParams)
	if err != nil {
		return nil, err
	}
	endStdinWithInput(ctx, found, p.ExecParams, info.ExecID)
	return stream.NewExec(ctx, found, info.ExecID, p), nil
}

// followExec makes a stream of an earlier command.
func (s *Service) followExec(ctx context.Context, p api.ExecStreamParams) (api.Stream, error) {
	found, err := s.registry.GetByExec(p.ExecID)
	if err != nil {
		return nil, err
	}
	if err := s.isIn(ctx, found, p.ExecID, p.SessionID); err != nil {
		return nil, err
	}
	return stream.FollowExec(ctx, found, s.newStreamID(p.ExecID), p)
}

// SessionAttach pushes a snapshot of a terminal and then the output of its program.
func (s *Service) SessionAttach(ctx context.Context, p api.SessionAttachParams) (api.Stream, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	found, err := s.sessionOfKind(ctx, "session.attach", p.SessionID, api.KindTerminal)
	if err != nil {
		return nil, err
	}
	return stream.NewView(ctx, found, p)
}

// EventSubscribe pushes the events of sessions and commands.
func (s *Service) EventSubscribe(ctx context.Context, p api.EventSubscribeParams) (api.Stream, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	events := s.registry.Journal()
	c := stream.EventsConfig{Journal: events, Types: p.Types, After: events.Last()}
	if p.SessionID != "" {
		id, err := s.everKnown(ctx, p.SessionID)
		if err != nil {
			return nil, err
		}
		c.Session = id
	}
	if p.AfterSeq != nil {
		if *p.AfterSeq > c.After {
			return nil, api.InvalidParam("after_seq", "%d is beyond the last event, which is %d", *p.AfterSeq, c.After)
		}
		c.After = *p.AfterSeq
	}
	if by := api.CallerOf(ctx); by != nil && by.LoginID != "" && by.ShareID == "" && !p.Passive && c.Session == "" && c.Has(api.EventDialogueRequestOpened) {
		s.config.Dialogues.PageOpen(ctx)
	}
	c.StreamID = s.newStreamID("events")
	return stream.NewEvents(ctx, c), nil
}

// StreamClose ends one stream of the caller's connection.
func (s *Service) StreamClose(ctx context.Context, p api.StreamCloseParams) (api.StreamCloseResult, error) {
	if err := p.Check(); err != nil {
		return api.StreamCloseResult{}, err
	}
	closed, err := api.CloseStream(ctx, p.StreamID)
	return api.StreamCloseResult{Closed: closed}, err
}

// everKnown finds the id of a live session, or of one that the journal has events of.
func (s *Service) everKnown(ctx context.Context, ref string) (string, error) {
	found, err := s.live(ctx, ref)
	if err == nil {
		return found.ID(), nil
	}
	if id, ok := s.registry.Journal().Find(ref); ok {
		return id, nil
	}
	return "", err
}

// newStreamID returns the id of a stream that is not the first of its command.
func (s *Service) newStreamID(of string) string {
	return of + "/" + strconv.FormatInt(s.streams.Add(1), 10)
}

// UsageSubscribe pushes what sessions use.
func (s *Service) UsageSubscribe(ctx context.Context, p api.UsageSubscribeParams) (api.Stream, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.SessionID != "" {
		if _, err := s.registry.Get(p.SessionID); err != nil {
			return nil, err
		}
	}
	return stream.NewUsage(ctx, stream.UsageConfig{
		StreamID: s.newStreamID("usage"), Interval: p.Interval(),
		Measure: func(ctx context.Context) ([]api.SessionUsage, error) {
			var measure []func(context.Context) (api.SessionUsage, error)
			for _, one := range s.registry.List() {
				if info := one.Info(); p.SessionID == "" || p.SessionID == info.SessionID || p.SessionID == info.Name {
					measure = append(measure, one.Usage)
				}
			}
			return stream.MeasureAll(ctx, measure), nil
		},
	}), nil
}
