package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/trl-dev/trl/api"
)

// home says where a session lives.
type home struct {
	runtime Runtime
	// target is what the creator asked for. In a session of an earlier daemon it has no options.
	target Target
}

// findHome finds the place that a request asks for. If that is the place of another session, it
// also returns the runner there.
func (r *Registry) findHome(p api.SessionCreateParams) (h home, beside Runner, err error) {
	switch {
	case p.Beside != "":
		return r.findBeside(p)
	case r.config.Resolve == nil:
		rt := r.config.Runtimes[0]
		return home{runtime: rt, target: Target{Word: rt.Name(), Kind: rt.Kinds()[0]}}, nil, nil
	}
	if h.target, err = r.config.Resolve(p.Runtime, p.Place); err == nil {
		h.runtime, err = r.runtimeFor(h.target.Kind)
	}
	return h, nil, err
}

func (r *Registry) findBeside(p api.SessionCreateParams) (home, Runner, error) {
	other, err := r.Get(p.Beside)
	if err != nil {
		return home{}, nil, err
	}
	if other.Info().State == api.SessionTerminated {
		return home{}, nil, other.endedError()
	}
	h := other.home
	if p.Runtime != "" && p.Runtime != h.target.Word {
		return home{}, nil, api.InvalidParam("runtime", "%.100q: session %q of beside is in %s; leave runtime out", p.Runtime, other.Label(), h.target.Word)
	}
	return h, other.runner, nil
}

// homeOf returns where a session of an earlier daemon lives.
func homeOf(rt Runtime, runner Runner) home {
	t := Target{Word: runner.About().Word, Kind: runner.Place().Info.Kind}
	if t.Kind == "" {
		t.Kind = rt.Kinds()[0]
	}
	if t.Word == "" {
		t.Word = rt.Name()
	}
	return home{runtime: rt, target: t}
}

// placeOf describes the place of a runner; nil if the runtime says nothing about it.
func placeOf(runner Runner) *api.PlaceInfo {
	info := runner.Place().Info
	if info.Kind == "" {
		return nil
	}
	return &info
}

// Kinds returns the kinds of places that sessions can be created in.
func (r *Registry) Kinds() []api.PlaceKind {
	var list []api.PlaceKind
	for _, rt := range r.config.Runtimes {
		list = append(list, rt.Kinds()...)
	}
	return list
}

// runtimeFor returns the runtime for a kind of place.
func (r *Registry) runtimeFor(kind api.PlaceKind) (Runtime, error) {
	for _, rt := range r.config.Runtimes {
		if slices.Contains(rt.Kinds(), kind) {
			return rt, nil
		}
	}
	return nil, api.Errorf(api.CodeRuntimeUnavailable, "runtime %s: this daemon cannot create sessions in places of this kind; system.info lists the kinds", kind)
}

// Check says whether sessions can be created in a place. It makes nothing there. The error is that
// of a place that does not exist, or that the configuration forbids.
func (r *Registry) Check(ctx context.Context, word string, options *api.PlaceOptions) (api.RuntimeCheckResult, error) {
	h, _, err := r.findHome(api.SessionCreateParams{Runtime: word, Place: options})
	result := api.RuntimeCheckResult{Runtime: h.target.Word, Kind: h.target.Kind, Enforced: []string{}}
	switch {
	case errors.Is(err, api.ErrRuntimeUnavailable):
		result.Why = err.Error()
		return result, nil
	case err != nil:
		return result, err
	}
	found := h.runtime.Check(ctx, h.target)
	found.Runtime, found.Kind = result.Runtime, result.Kind
	if found.Enforced == nil {
		found.Enforced = result.Enforced
	}
	return found, nil
}

// pruner is a Runtime whose places may outlive their sessions.
type pruner interface {
	// Prune removes what belongs to no session, and carries out removals for which a place could
	// not be reached. It returns the names of what it removed, and the sessions whose places
	// still cannot be reached.
	Prune(ctx context.Context) (removed, pending []string, err error)
}

// Prune removes what belongs to no session in all places that the daemon knows.
func (r *Registry) Prune(ctx context.Context) api.RuntimePruneResult {
	result := api.RuntimePruneResult{Removed: []string{}, Pending: []string{}, Faults: []string{}}
	for _, rt := range r.config.Runtimes {
		p, ok := rt.(pruner)
		if !ok {
			continue // such a runtime leaves nothing
		}
		removed, pending, err := p.Prune(ctx)
		result.Removed, result.Pending = append(result.Removed, removed...), append(result.Pending, pending...)
		if err != nil {
			result.Faults = append(result.Faults, rt.Name()+": "+err.Error())
		}
	}
	return result
}

// createTimeout returns how long the creation of a session may take; 0 = without a bound.
func (r *Registry) createTimeout(p api.SessionCreateParams, h home) time.Duration {
	switch {
	case p.CreateTimeoutS != nil:
		return time.Duration(*p.CreateTimeoutS * float64(time.Second))
	case h.target.Kind == api.PlaceHost:
		return 0 // shell_start_timeout_s is enough
	}
	return r.config.CreateTimeout
}

// progressPause is the shortest time between two events about the same step of a creation.
const progressPause = 250 * time.Millisecond

// progress returns the function that publishes the slow steps of the creation. One goroutine at a
// time calls it.
func (s *Session) progress(createID string) func(api.PlaceProgress) {
	return sparse(func(p api.PlaceProgress) {
		s.mu.Lock()
		s.step = p.Message
		info := s.infoLocked()
		s.mu.Unlock()
		s.registry.journal.PublishProgress(info, createID, p)
	})
}

// sparse passes on the begin and the end of each step, and what happens in between not too often.
func sparse(publish func(api.PlaceProgress)) func(api.PlaceProgress) {
	var last api.PlaceProgress
	var at time.Time
	return func(p api.PlaceProgress) {
		if now := time.Now(); p.Step != last.Step || p.Message != last.Message || p.Total > 0 && p.Done >= p.Total || now.Sub(at) >= progressPause {
			last, at = p, now
			publish(p)
		}
	}
}

// tooSlow is the error of a creation that took too long. It names the step that was under way.
func (s *Session) tooSlow(limit time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	during := ""
	if s.step != "" {
		during = ", while " + s.step
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "session %q: was not ready after %s (create_timeout_s)%s", s.labelLocked(), limit, during)
}
