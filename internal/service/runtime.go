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
	table := s.config.Places
	result := api.RuntimeListResult{Runtimes: []api.RuntimeInfo{}, Default: table.Default(), Adhoc: table.Adhoc()}
	for _, name := range table.Names() {
		named, _ := table.Named(name)
		row := s.describePlace(name, named.Kind)
		row.Configured, row.Options = true, append(row.Options, named.Allow...)
		result.Runtimes = append(result.Runtimes, row)
	}
	for _, kind := range api.PlaceKinds() {
		row := s.describePlace(string(kind.Kind), kind.Kind)
		row.Argument = kind.Argument
		switch {
		case table.Adhoc():
			row.Options = append(row.Options, kind.Options...)
		case kind.Argument != "" && row.Usable:
			row.Usable, row.Why = false, "the configuration allows only the places that it names (adhoc_places)"
		}
		result.Runtimes = append(result.Runtimes, row)
	}
	for _, live := range s.registry.List() {
		word := live.Info().Runtime
		i := slices.IndexFunc(result.Runtimes, func(r api.RuntimeInfo) bool { return r.Runtime == word })
		if i < 0 {
			if kind, _, err := api.ParsePlace(word); err == nil {
				i = slices.IndexFunc(result.Runtimes, func(r api.RuntimeInfo) bool { return r.Runtime == string(kind.Kind) })
			}
		}
		if i >= 0 { // the configuration may no longer have the name
			result.Runtimes[i].Sessions++
		}
	}
	return result, nil
}

// describePlace says whether sessions can be created in a place.
func (s *Service) describePlace(word string, kind api.PlaceKind) api.RuntimeInfo {
	row := api.RuntimeInfo{Runtime: word, Kind: kind, Options: []string{}}
	switch {
	case !s.config.Places.Permits(kind):
		row.Why = "the configuration forbids places of kind " + string(kind) + " (runtime_kinds)"
	case !slices.Contains(s.registry.Kinds(), kind):
		row.Why = "this daemon cannot create sessions in places of this kind"
	default:
		row.Usable = true
	}
	return row
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
