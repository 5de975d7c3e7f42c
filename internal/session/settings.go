package session

import (
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
// same name. If the runner's answer is lost, settle makes the change once more, and no other change
// happens before that. If the daemon is killed before it has published the change, the next daemon
// publishes it.
func (r *Registry) Set(ctx context.Context, s *Session, p api.SessionSetParams) (api.SessionInfo, error) {
	required, err := r.limitChange(&p)
	if err != nil {
		return api.SessionInfo{}, err
	}
	s.settingMu.Lock()
	defer s.settingMu.Unlock()
	if err := r.settleLocked(ctx, s); IsUnreachable(err) || ctx.Err() != nil && err != nil {
		return api.SessionInfo{}, err
	}
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
		switch {
		case err != nil && (IsUnreachable(err) || ctx.Err() != nil):
			r.settleLaterLocked(s, &unsettledChange{set, undo})
		case happened(s.done): // the runner may have the new limits, or has none any more
		case err != nil || len(answer.Enforced) < len(set.Enforced):
			undo()
		}
	}
	if err == nil && (timeouts.LifetimeS != nil && answer.LifetimeS == nil || timeouts.IdleTimeoutS != nil && answer.IdleTimeoutS == nil) {
		err = api.Errorf(api.CodeRuntimeUnavailable, "session %q: its runner is of an older version and cannot change the timeouts; create a new session", s.Label())
	}
	if err != nil {
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

// unsettledChange is a change of the settings that may or may not have reached the runner.
type unsettledChange struct {
	link.SetParams
	undo func() // see limitPlace
}

// settleLaterLocked starts settle, unless the session has ended. It needs settingMu.
func (r *Registry) settleLaterLocked(s *Session, change *unsettledChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending.step.isFinal() {
		return
	}
	s.unsettled = change
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
	for settled := false; !settled && s.awaitReach(s.ctx, forever) == nil; {
		s.settingMu.Lock()
		settled = !IsUnreachable(r.settleLocked(s.ctx, s))
		s.settingMu.Unlock()
	}
}

// settleLocked makes one attempt to settle, if it is not known which settings the runner has. It needs
// settingMu.
func (r *Registry) settleLocked(ctx context.Context, s *Session) error {
	s.mu.Lock()
	change := s.unsettled
	s.mu.Unlock()
	if change == nil {
		return nil
	}
	var answer link.SetResult
	_, err := s.call(ctx, link.Set.With(&change.SetParams, nil, &answer))
	if change.Limits != nil && err != nil && !IsUnreachable(err) && ctx.Err() == nil && !happened(s.done) {
		// The runner refuses the limits, and with them the whole change. It reports the settings that it has.
		change.undo()
		change = &unsettledChange{}
		s.mu.Lock()
		s.unsettled = change
		s.mu.Unlock()
		_, err = s.call(ctx, link.Set.With(&change.SetParams, nil, &answer))
	}
	if err != nil {
		return err
	}
	if len(answer.Enforced) < len(change.Enforced) {
		change.undo()
	}
	_, _ = s.Details(ctx) // it has the limits, which the answer does not
	r.applySettingsLocked(s, answer)
	s.publishMissedSettingsLocked()
	return nil
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
