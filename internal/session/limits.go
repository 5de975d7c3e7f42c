package session

import (
	"context"
	"slices"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
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

// undoTimeout bounds how long the place may take for getting its old limits back.
const undoTimeout = 10 * time.Second

// limitPlace changes those limits that the place of the session itself enforces, before the runner
// gets the change, and notes in p what the place did. undo gives the place its old limits back, if the
// runner does not accept the change. A daemon that is killed between the two steps leaves a runner that
// reports the old limits until the next change.
func (s *Session) limitPlace(ctx context.Context, p *link.SetParams) (undo func(), err error) {
	place := s.runner.Place()
	undo = func() {}
	if p.Limits == nil || place.SetLimit == nil {
		return undo, nil
	}
	var d link.SessionDetails
	if err := s.ask(ctx, link.Info.With(&struct{}{}, nil, &d)); err != nil {
		return undo, err
	}
	old := map[string]float64{}
	if l := d.Limits; l != nil {
		old = map[string]float64{api.LimitCPUs: l.CPUs, api.LimitMemory: float64(l.MemoryBytes), api.LimitPids: float64(l.Pids)}
	}
	undo = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		for _, e := range p.Enforced {
			value := 0.0
			if d.Limits != nil && slices.Contains(d.Limits.Enforced, e) {
				value = old[e.Limit]
			}
			if err := place.SetLimit(ctx, e.Limit, value); err != nil {
				s.log.Warn("place keeps a limit that the session does not have", "limit", e.Limit, "error", err)
			}
		}
	}
	p.Limits.Each(func(limit string, value float64) {
		i := slices.IndexFunc(place.Limits, func(e api.EnforcedLimit) bool { return e.Limit == limit })
		if i < 0 || err != nil {
			return
		}
		switch e := place.SetLimit(ctx, limit, value); {
		case e == nil:
			p.Enforced = append(p.Enforced, place.Limits[i])
		case slices.Contains(p.Required, limit) || api.AsError(e).Code != api.CodeLimitUnavailable:
			err = e
			if api.AsError(e).Code != api.CodeLimitUnavailable { // the change may have happened
				p.Enforced = append(p.Enforced, place.Limits[i])
			}
		default:
			p.Refused = append(p.Refused, api.UnenforcedLimit{Limit: limit, Reason: api.AsError(e).Message})
		}
	})
	if err != nil {
		undo()
		return func() {}, err
	}
	return undo, nil
}
