package service

import (
	"context"
	"crypto/rand"
	"runtime"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/stream"
	"github.com/trl-dev/trl/internal/version"
)

// isMeant returns an error if the caller means another daemon, which had this address before.
func (s *Service) isMeant(daemonID string) error {
	if daemonID == "" || daemonID == s.config.DaemonID {
		return nil
	}
	return api.Errorf(api.CodeConflict, "guest: this daemon is not the one that runs the session")
}

// GuestStart starts the runner of a session that belongs to another daemon.
func (s *Service) GuestStart(ctx context.Context, p api.GuestStartParams) (api.GuestInfo, error) {
	if err := p.Check(); err != nil {
		return api.GuestInfo{}, err
	}
	if err := s.isMeant(p.DaemonID); err != nil {
		return api.GuestInfo{}, err
	}
	if p.OwnerID == s.config.DaemonID {
		return api.GuestInfo{}, api.Errorf(api.CodeConflict, "guest: the other daemon is this daemon itself; use the place host")
	}
	info, err := s.registry.StartGuest(ctx, p)
	info.DaemonID = s.config.DaemonID
	return info, err
}

// GuestConnect joins the owner to the runner of its guest.
func (s *Service) GuestConnect(ctx context.Context, p api.GuestConnectParams) (api.Stream, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := s.isMeant(p.DaemonID); err != nil {
		return nil, err
	}
	conn, err := s.registry.ConnectGuest(ctx, p.OwnerID, p.SessionID)
	if err != nil {
		return nil, err
	}
	id := "guest-" + rand.Text() // guest.send needs it, and no other caller may know it
	s.guests.Store(id, conn)
	start := api.StreamStart{StreamID: id, SessionID: p.SessionID}
	return stream.NewGuest(ctx, conn, start, func() { s.guests.Delete(id) }), nil
}

// GuestSend passes bytes of the owner on to the runner.
func (s *Service) GuestSend(ctx context.Context, p api.GuestSendParams) (api.GuestSendResult, error) {
	if err := p.Check(); err != nil {
		return api.GuestSendResult{}, err
	}
	conn, ok := s.guests.Load(p.StreamID)
	if !ok {
		return api.GuestSendResult{}, api.Errorf(api.CodeRuntimeUnavailable, "guest: there is no such connection")
	}
	next, err := conn.(*session.GuestConnection).WriteAt(ctx, p.Content(), p.Offset)
	return api.GuestSendResult{NextOffset: next}, err
}

// GuestEnd ends a guest and every process in it.
func (s *Service) GuestEnd(ctx context.Context, p api.GuestEndParams) (api.GuestEndResult, error) {
	if err := p.Check(); err != nil {
		return api.GuestEndResult{}, err
	}
	if err := s.isMeant(p.DaemonID); err != nil {
		return api.GuestEndResult{}, err
	}
	return s.registry.EndGuest(ctx, p.OwnerID, p.SessionID, "ended by its owner")
}

// GuestList lists the guests.
func (s *Service) GuestList(_ context.Context, p api.GuestListParams) (api.GuestListResult, error) {
	result := api.GuestListResult{
		Guests: s.registry.Guests(p.OwnerID), DaemonID: s.config.DaemonID, Version: version.Version, OS: runtime.GOOS, Arch: runtime.GOARCH,
		Enforced: s.registry.GuestCapabilities(), OwnerLostS: s.registry.OwnerLost().Seconds(),
	}
	for i := range result.Guests {
		result.Guests[i].DaemonID = s.config.DaemonID
	}
	return result, nil
}
