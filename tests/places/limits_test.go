//go:build linux

package places

import (
	"slices"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// limits tests the limits that the engine of a place enforces, on a place that is made for one session.
func (p *place) limits(t *testing.T) {
	const most = 64 << 20
	want := map[string][]string{"docker": {api.LimitCPUs, api.LimitMemory, api.LimitPids}, "kubernetes": {api.LimitCPUs, api.LimitMemory}}[p.name]
	if want == nil {
		t.Skip("the runner enforces the limits, as on the host")
	}
	all := api.Limits{CPUs: new(0.5), MemoryBytes: new(int64(most)), Pids: new(int64(40))}
	params := api.SessionCreateParams{Runtime: p.at.Runtime, Place: p.at.Place, Limits: &all}
	if !slices.Contains(want, api.LimitPids) {
		_, err := p.SessionCreate(p.ctx, params)
		testkit.WantError(t, err, api.CodeLimitUnavailable, "limit pids cannot be enforced")
		all.Pids = nil
	}
	id := p.create(params).SessionID
	defer p.destroy(id)
	info := testkit.Must(p.SessionInfo(p.ctx, api.SessionInfoParams{SessionID: id}))(t)
	if info.Limits == nil || len(info.Limits.Enforced) != len(want) || len(info.Limits.NotEnforced) > 0 {
		t.Fatalf("%+v", info.Limits)
	}
	for _, e := range info.Limits.Enforced {
		if e.Mechanism != p.name || !slices.Contains(want, e.Limit) {
			t.Errorf("%+v", e)
		}
	}
	_, err := p.SessionSet(p.ctx, api.SessionSetParams{SessionID: id, Limits: &api.Limits{MemoryBytes: new(int64(2 * most))}})
	testkit.WantError(t, err, api.CodeLimitUnavailable, "cannot change while the session lives")

	_, err = p.ExecRun(p.ctx, api.ExecParams{SessionID: id, Command: "true", Limits: &api.CommandLimits{MemoryBytes: new(int64(most / 2))}})
	testkit.WantError(t, err, api.CodeLimitUnavailable, "limit memory_bytes cannot be enforced")

	run := func(x api.ExecParams) api.ExecResult {
		t.Helper()
		x.SessionID = id
		return testkit.Must(p.ExecRun(p.ctx, x))(t)
	}
	run(api.ExecParams{Command: "x=kept"})
	hungry := []string{"dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"}
	for _, x := range []api.ExecParams{{Command: "dd if=/dev/zero of=/dev/null bs=200M count=1"}, {Argv: hungry}} {
		r := run(x)
		if r.ExitCode == 0 || !r.OOMKilled || r.OOM == nil || r.OOM.LimitBytes != most {
			t.Errorf("out of memory: %+v, %+v", r, r.OOM)
		}
	}
	if r := run(api.ExecParams{Command: "echo $x"}); r.Stdout != "kept\n" || r.OOMKilled {
		t.Errorf("the shell died with its command: %+v", r)
	}
	if slices.Contains(want, api.LimitPids) {
		r := run(api.ExecParams{Argv: []string{"sh", "-c", "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done"}})
		if r.ExitCode == 0 || r.Usage.ForksRefused == 0 {
			t.Errorf("too many processes: %+v", r)
		}
	}
}
