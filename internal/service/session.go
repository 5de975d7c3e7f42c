package service

import (
	"context"
	"slices"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

// SessionCreate starts a session.
func (s *Service) SessionCreate(ctx context.Context, p api.SessionCreateParams) (api.SessionInfo, error) {
	if err := p.Check(); err != nil {
		return api.SessionInfo{}, err
	}
	info, err := s.registry.Create(ctx, p)
	if err == nil && info.Kind == api.KindProgram {
		s.endProgramWithInput(ctx, info.SessionID)
	}
	return info, err
}

// endProgramWithInput closes the stdin of a session's program when its caller can send no more input,
// as endStdinWithInput does for a command.
func (s *Service) endProgramWithInput(ctx context.Context, id string) {
	input := api.Input(ctx)
	if input == nil {
		return
	}
	context.AfterFunc(input, func() {
		if found, err := s.registry.Get(id); err == nil {
			_, _ = found.Type(context.WithoutCancel(ctx), link.SessionInputParams{Close: true}, nil) // it may have ended
		}
	})
}

// SessionList lists the live sessions, and those ended ones that a state selects and that can still be
// read.
func (s *Service) SessionList(_ context.Context, p api.SessionListParams) (api.SessionListResult, error) {
	if err := p.Check(); err != nil {
		return api.SessionListResult{}, err
	}
	infos := s.registry.GuestSessions()
	for _, found := range s.registry.Present() {
		infos = append(infos, found.Info())
	}
	if p.State == api.SessionTerminated || slices.Contains(p.States, api.SessionTerminated) {
		for _, found := range s.registry.Past() {
			infos = append(infos, found.Info())
		}
	}
	listed, sessions := map[string]bool{}, []api.SessionInfo{}
	for _, info := range infos {
		// A session may end between Present and Past, and is in both then.
		if listed[info.SessionID] || !p.Selects(info.State, info.Kind) {
			continue
		}
		if len(p.SessionIDs) > 0 && !slices.Contains(p.SessionIDs, info.SessionID) && (info.Name == "" || !slices.Contains(p.SessionIDs, info.Name)) {
			continue
		}
		if hasAll(info.Tags, p.Tags) {
			listed[info.SessionID] = true
			sessions = append(sessions, info)
		}
	}
	sessions, next, err := page(sessions, p.Page, func(s api.SessionInfo) place { return place{s.CreatedAt, s.SessionID} })
	return api.SessionListResult{Sessions: sessions, Next: next}, err
}

func hasAll(tags, wanted []string) bool {
	for _, tag := range wanted {
		if !slices.Contains(tags, tag) {
			return false
		}
	}
	return true
}

// SessionInfo reports everything about one session.
func (s *Service) SessionInfo(ctx context.Context, p api.SessionInfoParams) (api.SessionDetails, error) {
	if d, guest := s.registry.GuestSession(p.SessionID); guest {
		return d, nil
	}
	found, err := s.session(ctx, p.SessionID)
	if err != nil {
		return api.SessionDetails{}, err
	}
	return found.Details(ctx)
}

// SessionSet changes the name, the tags or the limits of a session.
func (s *Service) SessionSet(ctx context.Context, p api.SessionSetParams) (api.SessionInfo, error) {
	if err := p.Check(); err != nil {
		return api.SessionInfo{}, err
	}
	found, err := s.live(ctx, p.SessionID)
	if err != nil {
		return api.SessionInfo{}, err
	}
	if owner := found.Info().Owner(); owner != "" {
		return api.SessionInfo{}, api.Errorf(api.CodeConflict, "session %q: belongs to dialogue %s and keeps its name", found.Label(), owner)
	}
	return s.registry.Set(ctx, found, p)
}

// SessionOwn ties an ephemeral session to the caller's connection.
func (s *Service) SessionOwn(ctx context.Context, p api.SessionOwnParams) (api.SessionInfo, error) {
	found, err := s.session(ctx, p.SessionID)
	if err != nil {
		return api.SessionInfo{}, err
	}
	return found.Own(ctx)
}

// SessionDestroy ends a session and every process in it.
func (s *Service) SessionDestroy(ctx context.Context, p api.SessionDestroyParams) (api.SessionDestroyResult, error) {
	if p.SessionID == "" {
		return api.SessionDestroyResult{}, api.InvalidParam("session_id", "is required")
	}
	if d, guest := s.registry.GuestSession(p.SessionID); guest {
		if owner := d.Owner(); owner != "" && !p.Force {
			e := api.Errorf(api.CodeConflict, "session %q: belongs to dialogue %s of another daemon; use dialogue.terminate there, or force", p.SessionID, owner)
			e.Details = map[string]any{"owner": owner}
			return api.SessionDestroyResult{}, e
		}
	} else if found, err := s.live(ctx, p.SessionID); err == nil {
		if err := notOwned(ctx, found, p.Force, "dialogue.terminate"); err != nil {
			return api.SessionDestroyResult{}, err
		}
	}
	return s.registry.Destroy(ctx, p.SessionID, p.Force)
}

// session finds a session by id or name, including ended ones, for methods that only read.
func (s *Service) session(ctx context.Context, ref string) (*session.Session, error) {
	if ref == "" {
		return nil, api.InvalidParam("session_id", "is required")
	}
	if err := s.registry.AwaitCreated(ctx, ref); err != nil {
		return nil, err
	}
	return s.registry.Look(ref)
}

// live finds a session by id, or a living one by name. If it is being created, live waits for that.
func (s *Service) live(ctx context.Context, ref string) (*session.Session, error) {
	if err := s.registry.AwaitCreated(ctx, ref); err != nil {
		return nil, err
	}
	return s.registry.Get(ref)
}
