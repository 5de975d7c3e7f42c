package isolation

import (
	"os"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/confine"
)

// NewPlan writes the profile for sandbox-exec.
func NewPlan(r Request) (Plan, error) {
	var p paths
	var err error
	if r.limited() {
		if p, err = r.resolve(); err == nil {
			err = os.MkdirAll(r.Private, 0o700)
		}
		if err != nil {
			return Plan{}, err
		}
	}
	plan := Plan{
		Isolation: &confine.Isolation{Profile: profile(r, p)},
		Report:    api.IsolationReport{Enforced: []api.EnforcedAspect{}, NotEnforced: []api.UnenforcedAspect{}},
	}
	if r.limited() {
		plan.Env = append(plan.Env, "TMPDIR="+r.Private)
		for _, aspect := range []string{api.AspectFiles, api.AspectPaths, api.AspectTmp, api.AspectAttributes, api.AspectSockets} {
			plan.enforced(aspect, mechanismSandbox)
		}
	}
	switch r.Isolation.Network {
	case api.NetworkNone:
		plan.enforced(api.AspectNetwork, mechanismSandbox)
	case api.NetworkAllow:
		plan.missing(api.AspectNetwork, "network allow needs Linux; the session has no network")
	}
	if r.Isolation.Processes == api.ProcessesOwn {
		plan.enforced(api.AspectProcesses, mechanismSandbox)
		plan.enforced(api.AspectSignals, mechanismSandbox)
		plan.missing(api.AspectProcessList, "macOS shows the names and arguments of all processes")
	}
	if !r.BestEffort {
		return plan, r.unavailable(plan)
	}
	return plan, nil
}
