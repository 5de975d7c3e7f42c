package session

import (
	"github.com/trl-dev/trl/api"
)

// isolate applies the profile of a request for a session.
func (r *Registry) isolate(p *api.SessionCreateParams) error {
	if p.Isolation == nil {
		return nil
	}
	all, err := p.Isolation.Apply(r.config.Isolation)
	if err != nil {
		return err
	}
	p.Isolation = &all
	if all.IsZero() {
		p.Isolation = nil // nothing for the runner, which may be of an earlier version
	}
	return nil
}
