package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Set changes the name, the tags, the timeouts or the limits of a session. The runner has
// them too, and a later daemon learns them from it. The new name is reserved before the runner
// is called, and the old one is released when it has answered, so no two sessions ever have the
// same name. If the runner's answer is lost, settle makes the change of name, tags and timeouts once
// more. If the daemon is killed before it has published the change, the next daemon publishes it.
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
	set := link.SetParams{Name: p.Name, Tags: p.Tags, Timeouts: timeouts, Limits: p.Limits, Required: required}
	var answer link.SetResult
	undo, err := s.limitPlace(ctx, &set)
	if err == nil {
		_, err = s.call(ctx, link.Set.With(&set, nil, &answer))
		if err != nil || len(answer.Enforced) < len(set.Enforced) {
			undo()
		}
	}
	if err == nil && (timeouts.LifetimeS != nil && answer.LifetimeS == nil || timeouts.IdleTimeoutS != nil && answer.IdleTimeoutS == nil) {
		err = api.Errorf(api.CodeRuntimeUnavailable, "session %q: its runner is of an older version and cannot change the timeouts; create a new session", s.Label())
	}
	if err != nil {
		if IsUnreachable(err) || ctx.Err() != nil {
			r.settleLater(s, link.SetParams{Name: p.Name, Tags: p.Tags, Timeouts: timeouts})
		}
		if rename && !s.isUnsettled() {
			r.freeName(*p.Name, s.id)
		}
		return api.SessionInfo{}, err
	}
	if p.Limits != nil {
		_, _ = s.Details(ctx) // it has the new limits, which the answer does not
	}
	r.applySettingsLocked(s, answer)
	s.mu.Lock()
	info, settings := s.infoLocked(), s.settingsLocked()
	s.mu.Unlock()
	r.journal.PublishUpdate(info, settings)
	s.describe(info)
	return info, nil
}

// applySettingsLocked adopts the settings that the runner has. It needs settingMu.
func (r *Registry) applySettingsLocked(s *Session, answer link.SetResult) {
	s.mu.Lock()
	s.unsettled = nil
	s.details.Name, s.details.Tags = answer.Name, answer.Tags
	if answer.AgeMS != nil {
		s.applyAgesLocked(answer.SessionInfo.SessionInfo, answer.Ages)
	}
	at, _ := s.deadlineLocked()
	s.mu.Unlock()
	r.wakeBefore(at)
	r.keepName(answer.Name, s.id)
}

// settleLater starts settle, unless the session has ended. Changes that settle has not made yet are
// joined; of two of the same setting, the later one counts.
func (r *Registry) settleLater(s *Session, change link.SetParams) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending.step.isFinal() {
		return
	}
	earlier := s.unsettled
	if s.unsettled = &change; earlier != nil {
		change.Name, change.Tags = cmp.Or(change.Name, earlier.Name), cmp.Or(change.Tags, earlier.Tags)
		change.LifetimeS, change.IdleTimeoutS = cmp.Or(change.LifetimeS, earlier.LifetimeS), cmp.Or(change.IdleTimeoutS, earlier.IdleTimeoutS)
		return
	}
	// watch is one of the tasks and still runs, so the count does not start from zero.
	r.tasks.Go(func() { r.settle(s) })
}

// isUnsettled reports whether it is not known which settings the runner has.
func (s *Session) isUnsettled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsettled != nil
}

// settle makes the change whose outcome is not known once more, as soon as the runner can be reached.
// To ask for the settings would not be enough: the runner may still have the first request before it,
// and carry it out after the question.
func (r *Registry) settle(s *Session) {
	for s.awaitReach(s.ctx, forever) == nil && !r.settleNow(s) {
	}
}

// settleNow makes one attempt to settle. It reports whether no further one is needed.
func (r *Registry) settleNow(s *Session) bool {
	s.settingMu.Lock()
	defer s.settingMu.Unlock()
	s.mu.Lock()
	change := s.unsettled
	s.mu.Unlock()
	if change == nil {
		return true
	}
	var answer link.SetResult
	if _, err := s.call(s.ctx, link.Set.With(change, nil, &answer)); err != nil {
		return !IsUnreachable(err)
	}
	_, _ = s.Details(s.ctx) // it has the limits, which the answer does not
	r.applySettingsLocked(s, answer)
	s.publishMissedSettingsLocked()
	return true
}

// noteSettings publishes the settings that the runner has reported on a new connection, if they are
// news. If Set is changing them right now, Set publishes them; if it is not known whether Set has
// changed them, settle does.
func (s *Session) noteSettings() {
	if !s.settingMu.TryLock() {
		return
	}
	defer s.settingMu.Unlock()
	if !s.isUnsettled() {
		s.publishMissedSettingsLocked()
	}
}

// publishMissedSettingsLocked publishes settings whose change was not published, and completes the record
// of the session. It needs settingMu.
func (s *Session) publishMissedSettingsLocked() {
	s.mu.Lock()
	ended := s.ending.report != nil || s.state == api.SessionTerminated
	info := s.infoLocked()
	if !ended {
		s.registry.journal.PublishMissedUpdate(info, s.settingsLocked())
	}
	s.mu.Unlock()
	if about := s.runner.About(); !ended && (about.Name != info.Name || !slices.Equal(about.Tags, info.Tags)) {
		s.describe(info)
	}
}

// describe writes the name and the tags to the record of the session.
func (s *Session) describe(info api.SessionInfo) {
	if err := s.runner.Describe(info.Name, info.Tags); err != nil {
		// The runner has the new ones: only a daemon that cannot reach it will show the old ones.
		s.log.Warn("session record has an old name or old tags", "error", err)
	}
}

// settingsLocked identifies the settings of the session: equal settings give the same text.
func (s *Session) settingsLocked() string {
	all := struct {
		Name     string
		Tags     []string
		Timeouts link.Timeouts
		Limits   api.SessionLimits
	}{Name: s.details.Name, Tags: append([]string{}, s.details.Tags...), Timeouts: s.timeouts}
	if l := s.details.Limits; l != nil {
		all.Limits = *l
		all.Limits.LimitReport = api.LimitReport{} // what enforces them is no setting
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "" // texts and finite numbers have a form in JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// takeName reserves a name for a session.
func (r *Registry) takeName(name, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner, taken := r.names[name]; taken && owner != id {
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

// keepName frees all names of a session but one.
func (r *Registry) keepName(name, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.names, func(other, owner string) bool { return owner == id && other != name })
}
