package service

import (
	"context"

	"github.com/trl-dev/trl/api"
)

var errNoConsole = api.Errorf(api.CodeConflict, "daemon: has no console here")

// WebOpen returns an address of the console.
func (s *Service) WebOpen(ctx context.Context, p api.WebOpenParams) (api.WebOpenResult, error) {
	if err := p.Check(); err != nil {
		return api.WebOpenResult{}, err
	}
	if s.config.Console == nil {
		return api.WebOpenResult{}, errNoConsole
	}
	return s.config.Console.Open(ctx, p)
}

// WebShare returns an address for viewers of one session or dialogue.
func (s *Service) WebShare(ctx context.Context, p api.WebShareParams) (api.WebShareResult, error) {
	if err := p.Check(); err != nil {
		return api.WebShareResult{}, err
	}
	if s.config.Console == nil {
		return api.WebShareResult{}, errNoConsole
	}
	if p.SessionID != "" {
		found, err := s.registry.Get(p.SessionID)
		if err != nil {
			return api.WebShareResult{}, err
		}
		p.SessionID = found.ID()
		if owner := found.Info().Owner(); owner != "" { // the agent's raw lines, which no share shows
			p.SessionID, p.DialogueID = "", owner
		}
	} else {
		found, err := s.config.Dialogues.Get(p.DialogueID)
		if err != nil {
			return api.WebShareResult{}, err
		}
		p.DialogueID = found.ID()
	}
	return s.config.Console.Share(ctx, p)
}

// WebList lists the browsers that are logged in.
func (s *Service) WebList(context.Context, api.WebListParams) (api.WebListResult, error) {
	if s.config.Console == nil {
		return api.WebListResult{}, errNoConsole
	}
	return api.WebListResult{Logins: s.config.Console.Logins(), Shares: s.config.Console.Shares()}, nil
}

// WebRevoke logs browsers out.
func (s *Service) WebRevoke(_ context.Context, p api.WebRevokeParams) (api.WebRevokeResult, error) {
	if err := p.Check(); err != nil {
		return api.WebRevokeResult{}, err
	}
	if s.config.Console == nil {
		return api.WebRevokeResult{}, errNoConsole
	}
	ended, err := s.config.Console.Revoke(p.LoginID)
	if err == nil && p.LoginID != "" && len(ended) == 0 {
		err = api.InvalidParam("login_id", "there is no login or share %q; web.list lists them", p.LoginID)
	}
	return api.WebRevokeResult{Revoked: ended}, err
}
