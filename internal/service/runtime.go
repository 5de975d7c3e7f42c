package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes"
)

// checkTimeout bounds runtime.check if the caller does not.
const checkTimeout = 10 * time.Second

// RuntimeList lists the places: the names of the configuration, then the kinds.
func (s *Service) RuntimeList(context.Context, api.RuntimeListParams) (api.RuntimeListResult, error) {
	var words []string
	for _, live := range s.registry.List() {
		words = append(words, live.Info().Runtime)
	}
	return s.config.Places.List(s.registry.Kinds(), words), nil
}

// usableKinds returns the kinds of places in which sessions can be created.
func (s *Service) usableKinds() []api.PlaceKind {
	return slices.DeleteFunc(s.registry.Kinds(), func(k api.PlaceKind) bool { return !s.config.Places.Permits(k) })
}

// RuntimeCheck says whether sessions can be created in a place.
func (s *Service) RuntimeCheck(ctx context.Context, p api.RuntimeCheckParams) (api.RuntimeCheckResult, error) {
	if err := p.Check(); err != nil {
		return api.RuntimeCheckResult{}, err
	}
	limit := checkTimeout
	if p.TimeoutS != nil {
		limit = time.Duration(*p.TimeoutS * float64(time.Second))
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err := s.registry.Check(bounded, p.Runtime, p.Place)
	if ctx.Err() != nil {
		return api.RuntimeCheckResult{}, ctx.Err()
	}
	if err == nil && !result.Reachable && bounded.Err() != nil {
		result.Why = strings.TrimSuffix("did not answer within "+limit.String()+": "+result.Why, ": ")
	}
	return result, err
}

// RuntimePrune removes what belongs to no session.
func (s *Service) RuntimePrune(ctx context.Context, _ api.RuntimePruneParams) (api.RuntimePruneResult, error) {
	result := s.registry.Prune(ctx)
	return result, ctx.Err()
}

// noPlaces is the table of a Service that was made without one: the host alone.
var noPlaces = runtimes.New(runtimes.Config{Default: string(api.PlaceHost)})
