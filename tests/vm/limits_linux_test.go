package vm

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// TestInsideEnforced: cgroup v2 enforces every limit, and while a session with a fifth of a processor works
// for a second of processor time, one without limits gets several times as much.
func TestInsideEnforced(t *testing.T) {
	inside(t)
	service := trltest.Start(t).Client(t)
	dir := t.TempDir()
	var ids, work [2]string
	work[0] = `open F, ">begun"; 1 while times < 1; print 1000 * times; open F, ">done"`
	work[1] = `select undef, undef, undef, 0.01 until -e "begun"; $t = times; until (-e "done") { $i++ while $i % 10000 < 9999; $i++ } print 1000 * (times - $t)`
	for i, l := range []*api.Limits{allLimits(), nil} {
		ids[i] = testkit.Must(service.SessionCreate(t.Context(), api.SessionCreateParams{WorkingDir: dir, Limits: l}))(t).SessionID
		info := testkit.Must(service.SessionInfo(t.Context(), api.SessionInfoParams{SessionID: ids[i]}))(t)
		for _, limit := range allLimits().Names() {
			if l != nil && !slices.Contains(info.Limits.Enforced, api.EnforcedLimit{Limit: limit, Mechanism: limits.MechanismV2}) {
				t.Errorf("%s: %+v", limit, info.Limits)
			}
		}
	}
	var used [2]int // milliseconds
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			r, err := service.ExecRun(t.Context(), api.ExecParams{SessionID: id, Command: "perl -e '$| = 1; " + work[i] + "'"})
			whole, _, _ := strings.Cut(r.Stdout, ".")
			if used[i], _ = strconv.Atoi(whole); err != nil || used[i] == 0 || (r.Usage.ThrottledMS > 0) != (i == 0) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	all.Wait()
	t.Logf("with a limit %d ms, without %d ms", used[0], used[1])
	if used[0]*3/2 > used[1] {
		t.Error("the limit of processors makes no difference")
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
