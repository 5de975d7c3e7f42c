package session

import (
	"github.com/trl-dev/trl/api"
)

// limit completes the limits of a request for a session.
func (r *Registry) limit(p *api.SessionCreateParams) error {
	asked := api.Limits{LifetimeS: p.LifetimeS}.Over(p.Limits)
	all, err := r.bounded(r.config.DefaultLimits.Over(&asked), asked)
	if err != nil {
		return err
	}
	p.LifetimeS = all.LifetimeS
	if all.IsZero() || all == (api.Limits{LifetimeS: all.LifetimeS}) && p.Limits == nil {
		p.Limits = nil // also for runners of an earlier version
		return nil
	}
	p.Limits = &all
	if p.LimitsMode == "" {
		p.LimitsMode = r.config.LimitsMode
	}
	return nil
}

// limitChange completes a change of limits.
func (r *Registry) limitChange(p *api.SessionSetParams) error {
	asked := api.Limits{LifetimeS: p.LifetimeS}.Over(p.Limits)
	if err := r.tooMuch(asked); err != nil {
		return err
	}
	p.LifetimeS = asked.LifetimeS
	return nil
}

// bounded returns the limits with the maxima in place of limits that are missing.
func (r *Registry) bounded(all, asked api.Limits) (api.Limits, error) {
	if err := r.tooMuch(asked); err != nil {
		return all, err
	}
	return r.config.MaxLimits.Over(&all), nil
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
