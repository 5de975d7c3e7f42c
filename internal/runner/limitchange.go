package runner

import (
	"slices"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/limits"
	"github.com/trl-dev/trl/internal/link"
)

// changeLocked carries out session.set with limits. It needs bounds.changing.
func (r *Runner) changeLocked(p link.SetParams) error {
	changes, required := *p.Limits, p.Required
	b := &r.bounds
	b.mu.Lock()
	before, place, enforced := b.limits, b.place, b.plan.Report.Enforced
	changed := changes.Names()
	for _, name := range b.required {
		if !slices.Contains(changed, name) {
			required = append(required, name)
		}
	}
	b.mu.Unlock()
	for _, l := range []struct {
		name     string
		old, new *int64
	}{
		{api.LimitOpenFiles, before.OpenFiles, changes.OpenFiles}, {api.LimitFileBytes, before.FileBytes, changes.FileBytes},
		{api.LimitMemory, before.MemoryBytes, changes.MemoryBytes}, {api.LimitPids, before.Pids, changes.Pids},
	} {
		weak := slices.Contains(enforced, api.EnforcedLimit{Limit: l.name, Mechanism: api.MechanismWeak})
		if (l.name == api.LimitMemory || l.name == api.LimitPids) && !weak {
			continue // a cgroup can be raised
		}
		if l.new != nil && positive(l.old) > 0 && (*l.new == 0 || *l.new > *l.old) {
			return api.InvalidParam("limits."+l.name, "is %d now and can only become smaller, because processes that run cannot raise it", *l.old)
		}
	}
	var kept []api.UnenforcedLimit
	for _, u := range unchanged(differing(before, changes), place, p) {
		if slices.Contains(required, u.Limit) {
			return api.Errorf(api.CodeLimitUnavailable, "limit %s: %s", u.Limit, u.Reason)
		}
		u.Reason = "the new value is not in force: " + u.Reason
		kept = append(kept, u)
		switch u.Limit {
		case api.LimitCPUs:
			changes.CPUs = before.CPUs
		case api.LimitMemory:
			changes.MemoryBytes = before.MemoryBytes
		case api.LimitPids:
			changes.Pids = before.Pids
		}
	}
	if len(p.Enforced) > 0 && !r.group.Observes() {
		r.group.Observe()
	}
	place = slices.Clone(place)
	for _, e := range p.Enforced {
		if !slices.Contains(place, e) {
			place = append(place, e)
		}
	}
	after := before.Over(&changes)
	plan, err := limits.Apply(r.group, after, required, place)
	plan.Report.NotEnforced = append(plan.Report.NotEnforced, kept...)
	if err == nil {
		err = r.group.MoveTracked()
	}
	if err == nil && r.cgroup == nil {
		err = r.group.Adopt(r.pids()...)
	}
	if err == nil {
		err = plan.Change(r.pids())
	}
	if err != nil {
		none := withoutCgroups(before)
		_, _ = limits.Apply(r.group, none, nil, place)
		return err
	}
	b.mu.Lock()
	b.limits, b.required, b.place, b.plan = after, required, place, plan
	b.mu.Unlock()
	b.weigh(&after, place)
	if shell, _ := b.scores(0); shell != nil {
		limits.Prefer(r.pids(), *shell)
	}
	return nil
}

// withoutCgroups returns limits that undo a change: the previous ones, and none where there were none.
func withoutCgroups(before api.Limits) api.Limits {
	none, zero := int64(0), 0.0
	return api.Limits{CPUs: &zero, MemoryBytes: &none, Pids: &none}.Over(&before)
}

// differing returns the names of the limits that changes give another value.
func differing(before, changes api.Limits) (names []string) {
	old := map[string]float64{}
	before.Each(func(name string, value float64) { old[name] = value })
	changes.Each(func(name string, value float64) {
		if v, ok := old[name]; !ok || v != value {
			names = append(names, name)
		}
	})
	return names
}

// unchanged returns those of the changed limits that the place enforces and that keep their old value.
func unchanged(changed []string, place []api.EnforcedLimit, p link.SetParams) (list []api.UnenforcedLimit) {
	for _, u := range p.Refused {
		if slices.Contains(changed, u.Limit) {
			list = append(list, u)
		}
	}
	for _, e := range place {
		refused := slices.ContainsFunc(p.Refused, func(u api.UnenforcedLimit) bool { return u.Limit == e.Limit })
		if slices.Contains(changed, e.Limit) && !slices.Contains(p.Enforced, e) && !refused {
			list = append(list, api.UnenforcedLimit{Limit: e.Limit, Reason: "the limit is enforced by " + e.Mechanism + " and cannot change while the session lives"})
		}
	}
	return list
}
