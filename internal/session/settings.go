package session

import (
	"context"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Set changes the name, the tags, the timeouts or the limits of a session. The runner has
// them too, and a later daemon learns them from it. The new name is reserved before the runner
// is called, and the old one is released when it has answered, so no two sessions ever have the
// same name.
func (r *Registry) Set(ctx context.Context, s *Session, p api.SessionSetParams) (api.SessionInfo, error) {
	required, err := r.limitChange(&p)
	if err != nil {
		return api.SessionInfo{}, err
	}
	s.settingMu.Lock()
	defer s.settingMu.Unlock()
	before := s.Info().Name
	rename := p.Name != nil && *p.Name != before
	if rename {
		if err := r.takeName(*p.Name, s.id); err != nil {
			return api.SessionInfo{}, err
		}
	}
	timeouts := link.Timeouts{LifetimeS: p.LifetimeS, IdleTimeoutS: p.IdleTimeoutS}
	var answer link.SessionInfo
	_, err = s.call(ctx, link.Set.With(&link.SetParams{Name: p.Name, Tags: p.Tags, Timeouts: timeouts, Limits: p.Limits, Required: required}, nil, &answer))
	if err == nil && (timeouts.LifetimeS != nil && answer.LifetimeS == nil || timeouts.IdleTimeoutS != nil && answer.IdleTimeoutS == nil) {
		err = api.Errorf(api.CodeRuntimeUnavailable, "session %q: its runner is of an older version and cannot change the timeouts; create a new session", s.Label())
	}
	if err != nil {
		if rename {
			r.freeName(*p.Name, s.id)
		}
		return api.SessionInfo{}, err
	}
	s.mu.Lock()
	s.details.Name, s.details.Tags = answer.Name, answer.Tags
	if answer.AgeMS != nil {
		s.applyAgesLocked(answer.SessionInfo, answer.Ages)
	}
	info := s.infoLocked()
	at, _ := s.deadlineLocked()
	s.mu.Unlock()
	r.wakeBefore(at)
	if rename {
		r.freeName(before, s.id)
	}
	r.journal.PublishUpdate(info)
	if err := s.runner.Describe(info.Name, info.Tags); err != nil {
		// The runner has the new ones: only a daemon that cannot reach it will show the old ones.
		s.log.Warn("session record has an old name or old tags", "error", err)
	}
	return info, nil
}

// takeName reserves a name for a session.
func (r *Registry) takeName(name, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner, taken := r.names[name]; taken {
		return api.Errorf(api.CodeConflict, "session name %q is taken by %s", name, owner)
	}
	if name != "" {
		r.names[name] = id
	}
	return nil
}

// freeName gives a name back, if the session has it.
func (r *Registry) freeName(name, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[name] == id {
		delete(r.names, name)
	}
}
