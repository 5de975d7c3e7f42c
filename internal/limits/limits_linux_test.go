package limits

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// TestMain hides the cgroups of this machine: the tests use directories that look like them.
func TestMain(m *testing.M) {
	os.Setenv(process.ScanVariable, "subreaper")
	os.Exit(m.Run())
}

func of[T any](v T) *T { return &v }

// tree makes files with contents below a directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func all() api.Limits {
	return api.Limits{CPUs: of(1.5), MemoryBytes: of(int64(64 << 20)), Pids: of(int64(50))}
}

// A group that has processes of its own stays as it is, and the error says what to do.
func TestWithoutDelegation(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"processes": {"cgroup.type": "domain\n", "cgroup.procs": "7\n", "cgroup.controllers": "cpuset cpu memory pids\n", "cgroup.subtree_control": ""},
		// As above, but the group is empty and the file cannot be written.
		"not writable":   {"cgroup.type": "domain\n", "cgroup.procs": "", "cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control/x": ""},
		"no controllers": {"cgroup.procs": "7\n", "cgroup.controllers": "hugetlb\n", "cgroup.subtree_control": ""},
		"empty":          {},
	} {
		files["trl-0/s-1/cgroup.procs"] = ""
		base := tree(t, files)
		g := &Group{id: "s-1", tracked: filepath.Join(base, "trl-0", "s-1"), v1: map[string]string{}}
		_, err := Apply(g, all(), []string{api.LimitPids}, nil)
		e := api.AsError(err)
		if e.Code != api.CodeLimitUnavailable || !strings.Contains(e.Message, "limit pids") || !strings.Contains(e.Message, "DelegateSubgroup") {
			t.Errorf("%s: %v", name, err)
		}
		plan, err := Apply(g, all(), nil, nil)
		if err != nil || len(plan.Report.NotEnforced)+len(plan.Report.Enforced) != 3 || !slices.Contains(plan.Report.Enforced, api.EnforcedLimit{Limit: api.LimitMemory, Mechanism: MechanismWeak}) {
			t.Errorf("%s: best effort: %+v, %v", name, plan, err)
		}
		// No limit needs no group.
		if plan, err := Apply(g, api.Limits{CPUs: of(0.0), MemoryBytes: of(int64(0)), Pids: of(int64(0))}, []string{api.LimitCPUs}, nil); err != nil || len(plan.Report.Enforced) > 0 {
			t.Errorf("%s: no limits: %+v, %v", name, plan, err)
		}
		if on := content(base, "cgroup.subtree_control"); len(on) > 0 {
			t.Errorf("%s: controllers were turned on: %s", name, on)
		}
	}
	// Without the v2 tree.
	if _, err := Apply(NewGroup("s-1", nil), all(), all().Names(), nil); api.AsError(err).Code != api.CodeLimitUnavailable {
		t.Errorf("no tree: %v", err)
	}
}

func TestLimitsOfV2(t *testing.T) {
	base := tree(t, map[string]string{
		"trl-0/s-1/cpu.max": "", "trl-0/s-1/memory.max": "", "trl-0/s-1/memory.swap.max": "", "trl-0/s-1/pids.max": "",
		"trl-0/s-1/cpu.stat":      "usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\nthrottled_usec 7000\n",
		"trl-0/s-1/memory.events": "oom 2\noom_kill 1\n", "trl-0/s-1/memory.events.local": "oom 1\n", "trl-0/s-1/memory.peak": "4096\n", "trl-0/s-1/pids.events": "max 3\n",
	})
	dir := filepath.Join(base, "trl-0", "s-1")
	g := &Group{id: "s-1", tracked: dir, v1: map[string]string{}}
	want := func(files map[string]string) {
		t.Helper()
		for file, text := range files {
			if got := string(content(dir, file)); got != text {
				t.Errorf("%s has %q, want %q", file, got, text)
			}
			os.Truncate(filepath.Join(dir, file), 0) // unlike the kernel, a file keeps the end of a longer text
		}
	}
	plan, err := Apply(g, all(), all().Names(), nil)
	if err != nil || len(plan.Report.Enforced) != 3 || plan.Report.Enforced[0].Mechanism != MechanismV2 || len(plan.Rlimits) > 0 {
		t.Fatalf("%+v, %v", plan, err)
	}
	want(map[string]string{"cpu.max": "150000 100000", "memory.max": "67108864", "memory.swap.max": "0", "pids.max": "50"})
	if _, err := Apply(g, api.Limits{CPUs: of(0.0), MemoryBytes: of(int64(0)), Pids: of(int64(0))}, nil, nil); err != nil {
		t.Fatal(err)
	}
	want(map[string]string{"cpu.max": "max 100000", "memory.max": "max", "memory.swap.max": "max", "pids.max": "max"})
	if s := g.Stats(); s.UserMS != 3 || s.SystemMS != 2 || !s.HasCPU || s.ThrottledMS != 7 || s.OOMKills != 1 || s.OutOfMemory != 1 || s.MemoryPeakBytes != 4096 || s.ForksRefused != 3 {
		t.Errorf("%+v", s)
	}
}

// A refused fork counts once, whether the kernel counts it in the group of the process or in the group
// whose limit refused it, and in all groups above that one.
func TestForksRefused(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"before Linux 6.11": {"pids.events": "max 3\n", "shell/pids.events": "max 2\n", "c-1/pids.events": "max 4\n"},
		"since Linux 6.11": {"pids.events": "max 9\n", "pids.events.local": "max 5\n", "shell/pids.events": "max 0\n", "shell/pids.events.local": "max 0\n",
			"c-1/pids.events": "max 4\n", "c-1/pids.events.local": "max 4\n"},
	} {
		dir := tree(t, files)
		session := &Group{id: "s-1", tracked: dir, inner: true}
		command := &Group{id: "c-1", parent: session, tracked: filepath.Join(dir, "c-1")}
		if s, c := session.Stats().ForksRefused, command.Stats().ForksRefused; s != 5 || c != 4 {
			t.Errorf("%s: %d in the session, %d in the command", name, s, c)
		}
	}
}

func TestKernelLog(t *testing.T) {
	const chosen = "6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/trl-0/s-1,task_memcg=/trl-0/s-1,task=a,pid=9,b,pid=77,uid=0"
	const killed = "3,2,2,-;Memory cgroup out of memory: Killed process 77 (a) b (c) total-vm:900kB, anon-rss:5kB, file-rss:3kB, shmem-rss:1kB, UID:0"
	if pid, group := victimOf(chosen, "s-1"); pid != "77" || group != "s-1" {
		t.Errorf("victim %q of %q", pid, group)
	}
	if pid, _ := victimOf(chosen, "s-2"); pid != "" {
		t.Errorf("victim of another session %q", pid)
	}
	if k, ok := killedIn(killed); !ok || k.PID != 77 || k.Command != "a) b (c" || k.RSSBytes != 9<<10 {
		t.Errorf("%+v, %v", k, ok)
	}
	for _, text := range []string{"", "Killed process ", "Killed process 7", "Killed process 7 (x", "oom-kill:", "oom-kill:/s-1"} {
		pid, _ := victimOf(text, "s-1")
		if _, ok := killedIn(text); ok || pid != "" {
			t.Errorf("%q was understood", text)
		}
	}
}
