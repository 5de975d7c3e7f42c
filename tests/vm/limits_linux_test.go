package vm

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/limits"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// inside skips a test outside of the machine: TestVirtualMachine runs it there.
func inside(t *testing.T) {
	t.Helper()
	if _, ok := os.LookupEnv(placeVariable); !ok {
		t.Skip("runs in the virtual machine")
	}
}

func allLimits() *api.Limits {
	return &api.Limits{CPUs: new(0.2), MemoryBytes: new(int64(64 << 20)), Pids: new(int64(50))}
}

// TestInsideEnforced: cgroup v2 enforces every limit, and a session with a fifth of a processor does less
// work than one without limits that runs at the same time.
func TestInsideEnforced(t *testing.T) {
	inside(t)
	service := trltest.Start(t).Client(t)
	var done [2]int
	var all sync.WaitGroup
	for i, l := range []*api.Limits{allLimits(), nil} {
		id := testkit.Must(service.SessionCreate(t.Context(), api.SessionCreateParams{Limits: l}))(t).SessionID
		if l != nil {
			info := testkit.Must(service.SessionInfo(t.Context(), api.SessionInfoParams{SessionID: id}))(t)
			for _, limit := range l.Names() {
				if !slices.Contains(info.Limits.Enforced, api.EnforcedLimit{Limit: limit, Mechanism: limits.MechanismV2}) {
					t.Errorf("%s: %+v", limit, info.Limits)
				}
			}
		}
		all.Go(func() {
			r, err := service.ExecRun(t.Context(), api.ExecParams{SessionID: id, Command: `perl -e '$end = time + 4; $n++ while time < $end; print $n'`})
			if done[i], _ = strconv.Atoi(r.Stdout); err != nil || done[i] == 0 || (r.Usage.ThrottledMS > 0) != (l != nil) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	all.Wait()
	t.Logf("work done with a limit %d, without %d", done[0], done[1])
	if done[0]*2 > done[1] {
		t.Errorf("with a limit %d, without %d", done[0], done[1])
	}
}

// TestInsideRefused: without a subtree that may be used, a required limit is refused with the way to get it,
// sessions work, and the groups of others stay as they are.
func TestInsideRefused(t *testing.T) {
	inside(t)
	service := trltest.Start(t).Client(t)
	_, err := service.SessionCreate(t.Context(), api.SessionCreateParams{Limits: allLimits()})
	testkit.WantError(t, err, api.CodeLimitUnavailable, "DelegateSubgroup=trl-daemon")
	id := testkit.Must(service.SessionCreate(t.Context(), api.SessionCreateParams{Limits: allLimits(), LimitsMode: api.LimitsBestEffort}))(t).SessionID
	info := testkit.Must(service.SessionInfo(t.Context(), api.SessionInfoParams{SessionID: id}))(t)
	for _, e := range info.Limits.Enforced {
		if e.Mechanism != limits.MechanismWeak {
			t.Errorf("%+v", e)
		}
	}
	if r := testkit.Must(service.ExecRun(t.Context(), api.ExecParams{SessionID: id, Command: "echo works | cat"}))(t); r.Stdout != "works\n" {
		t.Errorf("%+v", r)
	}
	if on := testkit.Must(os.ReadFile(filepath.Join(cgroups, os.Getenv(placeVariable), "cgroup.subtree_control")))(t); len(on) > 0 {
		t.Errorf("controllers were turned on: %s", on)
	}
}
