package session

import (
	"slices"

	"github.com/trl-dev/trl/api"
)

// limit completes the limits of a request for a session. The maxima stand in for limits that neither
// the caller nor the defaults set. It returns the names of the limits that must be enforced.
func (r *Registry) limit(p *api.SessionCreateParams) (required []string, err error) {
	asked := api.Limits{LifetimeS: p.LifetimeS}.Over(p.Limits)
	if err := r.tooMuch(asked); err != nil {
		return nil, err
	}
	all := r.config.MaxLimits.Over(&r.config.DefaultLimits).Over(&asked)
	p.LifetimeS = all.LifetimeS
	if all == (api.Limits{LifetimeS: all.LifetimeS}) && p.Limits == nil {
		return nil, nil // no limits for the runner, which may be of an earlier version
	}
	p.Limits = &all
	return r.required(asked, p.LimitsMode), nil
}

// limitChange completes a change of limits. It returns the names of the limits that must be enforced.
func (r *Registry) limitChange(p *api.SessionSetParams) (required []string, err error) {
	asked := api.Limits{LifetimeS: p.LifetimeS}.Over(p.Limits)
	if err := r.tooMuch(asked); err != nil {
		return nil, err
	}
	p.LifetimeS = asked.LifetimeS
	return r.required(asked, p.LimitsMode), nil
}

// required returns the names of the limits that a caller requires, and of those that the
// configuration requires: best effort of a caller does not weaken these.
func (r *Registry) required(asked api.Limits, mode api.LimitsMode) []string {
	required := asked.Required(mode)
	if r.config.LimitsMode == api.LimitsRequire {
		required = slices.Concat(required, r.config.DefaultLimits.Names(), r.config.MaxLimits.Names())
	}
	return required
}

// tooMuch returns an error for a limit above the maximum. No limit is more than any.
func (r *Registry) tooMuch(asked api.Limits) (err error) {
	most := map[string]float64{}
	r.config.MaxLimits.Each(func(name string, v float64) { most[name] = v })
	asked.Each(func(name string, v float64) {
		if limit := most[name]; err == nil && limit > 0 && (v == 0 || v > limit) {
			err = api.InvalidParam("limits."+name, "at most %v (max_limit_%s)", limit, name)
		}
	})
	return err
}
