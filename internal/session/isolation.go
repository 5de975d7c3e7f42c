package session

import (
	"github.com/trl-dev/trl/api"
)

// isolate applies the profile of a request for a session.
func (r *Registry) isolate(p *api.SessionCreateParams) error {
	if p.Isolation == nil {
		return nil
	}
	all, err := r.Isolation(*p.Isolation)
	if err != nil {
		return err
	}
	p.Isolation = &all
	if all.IsZero() {
		p.Isolation = nil // nothing for the runner, which may be of an earlier version
	}
	return nil
}

// Isolation returns isolation with its profile applied. Applying it again changes nothing.
func (r *Registry) Isolation(i api.Isolation) (api.Isolation, error) {
	return i.Apply(r.config.Isolation)
}
