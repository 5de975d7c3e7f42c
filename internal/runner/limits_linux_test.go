package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	bounds "github.com/trl-dev/trl/internal/limits"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/testkit"
)

// limited starts a session with limits, or skips the test loudly if this machine cannot enforce
// them.
func limited(t *testing.T, p api.SessionCreateParams) *daemon {
	t.Helper()
	var d *daemon
	t.Cleanup(func() { noGroups(t, d.id) }) // after the end of the runner
	d = launch(t)
	details, err := d.create(p, "")
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if p.Limits == nil {
		return d
	}
	for _, u := range details.Limits.NotEnforced {
		t.Skipf("NO LIMITS TESTED: %s: %s", u.Limit, u.Reason)
	}
	return d
}

// noGroups checks that no cgroup with limits is left of a session.
func noGroups(t *testing.T, id string) {
	t.Helper()
	for _, root := range bounds.Roots() {
		dir := filepath.Join(root, id)
		testkit.Eventually(t, dir+" is removed", func() bool {
			_, err := os.Stat(dir)
			return os.IsNotExist(err)
		})
	}
}

// fill is a command that takes memory, in mebibytes, in one process.
func fill(mebibytes int) string {
	return "perl -e '$x = \"x\" x (" + strconv.Itoa(mebibytes) + " << 20); print length $x'"
}

func TestMemoryLimit(t *testing.T) {
	d := limited(t, api.SessionCreateParams{Shell: "bash", Limits: &api.Limits{MemoryBytes: ptr(int64(48 << 20))}})
	d.mustRun("kept=1")
	out, oc := d.runText(api.ExecParams{Command: fill(12)})
	if oc.ExitCode != 0 || oc.OOMKilled || out != strconv.Itoa(12<<20) || oc.Usage.MemoryPeakBytes < 12<<20 {
		t.Fatalf("within the limit: %q, %+v", out, oc)
	}
	// Of a pipeline, only the process that takes the memory dies.
	out, oc = d.runText(api.ExecParams{Command: "echo before; " + fill(200) + " | cat; echo ${PIPESTATUS[0]} $kept"})
	if out != "before\n137 1\n" || !oc.OOMKilled || oc.OOM == nil || oc.OOM.LimitBytes != 48<<20 {
		t.Fatalf("beyond the limit: %q, %+v, %+v", out, oc, oc.OOM)
	}
	if oc.OOM.PID > 0 && (oc.OOM.Command != "perl" || oc.OOM.RSSBytes < 12<<20) {
		t.Errorf("victim = %+v", oc.OOM)
	}
	t.Logf("victim: %+v", oc.OOM)
	if _, oc = d.runText(api.ExecParams{Command: "true"}); oc.OOMKilled {
		t.Errorf("a later command reports it again: %+v", oc.OOM)
	}
	// A smaller peak after a greater one. The kernel of the virtual machine cannot begin it anew, and reports none.
	if _, oc = d.runText(api.ExecParams{Command: fill(12)}); oc.Usage.MemoryPeakBytes != 0 && (oc.Usage.MemoryPeakBytes < 12<<20 || oc.Usage.MemoryPeakBytes > 44<<20) {
		t.Errorf("the peak of a later command: %+v", oc.Usage)
	}
	t.Logf("later peak: %d", oc.Usage.MemoryPeakBytes)
	// Beside the shell.
	_, oc = d.runText(api.ExecParams{Argv: []string{"perl", "-e", `$x = "x" x (200 << 20)`}})
	if oc.ExitCode != 137 || !oc.OOMKilled || oc.Signal != "SIGKILL" {
		t.Errorf("argv: %+v", oc)
	}
	// In a background job, while nothing else runs.
	job := filepath.Join(t.TempDir(), "job")
	d.mustRun("(" + fill(200) + "; echo $? > " + job + ") >/dev/null 2>&1 &")
	testkit.Eventually(t, "the job has ended", func() bool { return fileHas(job, "137") })
	// In the shell itself: the session goes on.
	_, oc = d.runText(api.ExecParams{Command: `x=$(printf '%*s' 1000000 ''); while :; do x=$x$x; done`})
	if !oc.OOMKilled || !oc.ShellRestarted {
		t.Fatalf("shell: %+v", oc)
	}
	if out := d.mustRun("echo $kept"); out != "1\n" {
		t.Errorf("the session after the death of its shell: %q", out)
	}
	// The new shell is limited too.
	if _, oc = d.runText(api.ExecParams{Command: fill(200)}); !oc.OOMKilled {
		t.Errorf("after the restart: %+v", oc)
	}
}

// launchWithin starts a runner process in a cgroup with a memory limit, as a container is.
func launchWithin(t *testing.T, most float64) *daemon {
	t.Helper()
	var place *bounds.Group
	t.Cleanup(func() { // after the end of the runner
		if err := place.Remove(); err != nil {
			t.Error(err)
		}
	})
	d := launch(t)
	place = bounds.NewGroup("place-"+d.id, nil)
	if _, err := place.Set(api.LimitMemory, most); err != nil {
		t.Skipf("NO LIMITS TESTED: %s", err)
	}
	if err := place.Adopt(d.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestLimitsOfThePlace: where the place enforces the limits, as a container does, outcomes report what its
// cgroup counts.
func TestLimitsOfThePlace(t *testing.T) {
	const most = 256 << 20 // for the runner too
	d := launchWithin(t, most)
	limit := api.EnforcedLimit{Limit: api.LimitMemory, Mechanism: "docker"}
	var details link.SessionDetails
	_, err := d.conn.Call(t.Context(), link.Create.With(&link.CreateParams{
		SessionID: d.id, Params: api.SessionCreateParams{Shell: "bash", Limits: &api.Limits{MemoryBytes: ptr(int64(most))}}, Limits: limits,
		BaseEnv: map[string]string{"PATH": os.Getenv("PATH")}, Required: []string{api.LimitMemory}, Enforced: []api.EnforcedLimit{limit},
	}, nil, &details))
	if err != nil || len(details.Limits.Enforced) != 1 || details.Limits.Enforced[0] != limit {
		t.Fatalf("%+v, %v", details.Limits, err)
	}
	// The place keeps its limit. A caller who requires another one is refused, one with best effort is not.
	changed := link.SetParams{Limits: &api.Limits{MemoryBytes: ptr(int64(2 * most)), Commands: ptr(int64(100))}, Required: []string{api.LimitMemory}}
	testkit.WantError(t, d.set(changed), api.CodeLimitUnavailable, "enforced by docker and cannot change")
	changed.Required = nil
	if err := d.set(changed); err != nil {
		t.Fatal(err)
	}
	if l := d.details().Limits; l.MemoryBytes != most || l.Commands != 100 || len(l.NotEnforced) != 1 || l.NotEnforced[0].Limit != api.LimitMemory {
		t.Errorf("after a change with best effort: %+v", l)
	}
	for _, p := range []api.ExecParams{{Command: fill(600)}, {Argv: []string{"perl", "-e", `$x = "x" x (600 << 20)`}}} {
		if _, oc := d.runText(p); !oc.OOMKilled || oc.OOM.LimitBytes != most || oc.ExitCode != 137 {
			t.Errorf("%v: %+v, %+v", p, oc, oc.OOM)
		}
		if _, oc := d.runText(api.ExecParams{Argv: []string{"true"}}); oc.OOMKilled {
			t.Errorf("a later command reports it again: %+v", oc.OOM)
		}
	}
}

// The value that a limit already has is no change, also where the place cannot change the limit.
func TestLimitOfPlaceStays(t *testing.T) {
	const most = int64(1 << 30)
	d := launch(t)
	limit := api.EnforcedLimit{Limit: api.LimitMemory, Mechanism: "kubernetes"}
	_, err := d.conn.Call(t.Context(), link.Create.With(&link.CreateParams{
		SessionID: d.id, Params: api.SessionCreateParams{Shell: "bash", Limits: &api.Limits{MemoryBytes: ptr(most)}}, Limits: limits,
		BaseEnv: map[string]string{"PATH": os.Getenv("PATH")}, Required: []string{api.LimitMemory}, Enforced: []api.EnforcedLimit{limit},
	}, nil, &link.SessionDetails{}))
	if err != nil {
		t.Fatal(err)
	}
	set := func(value int64, refused ...api.UnenforcedLimit) error {
		return d.set(link.SetParams{Limits: &api.Limits{MemoryBytes: &value}, Required: []string{api.LimitMemory}, Refused: refused})
	}
	testkit.WantError(t, set(most/2), api.CodeLimitUnavailable, "enforced by kubernetes and cannot change")
	testkit.WantError(t, set(0), api.CodeLimitUnavailable, "enforced by kubernetes and cannot change")
	for _, refused := range [][]api.UnenforcedLimit{nil, {{Limit: api.LimitMemory, Reason: "not now"}}} {
		if err := set(most, refused...); err != nil {
			t.Errorf("the same value: %v", err)
		}
	}
	if l := d.details().Limits; l.MemoryBytes != most || len(l.Enforced) != 1 || l.Enforced[0] != limit || len(l.NotEnforced) > 0 {
		t.Errorf("%+v", l)
	}
}

func fileHas(path, text string) bool {
	got, _ := os.ReadFile(path)
	return strings.Contains(string(got), text)
}

func TestMemoryLimitOfCommand(t *testing.T) {
	d := limited(t, api.SessionCreateParams{Shell: "bash", Limits: &api.Limits{Pids: ptr(int64(1000))}})
	few := &api.CommandLimits{MemoryBytes: ptr(int64(32 << 20))}
	for _, p := range []api.ExecParams{
		{Command: fill(100), Limits: few},
		{Argv: []string{"perl", "-e", `$x = "x" x (100 << 20)`}, Limits: few},
	} {
		_, oc := d.runText(p)
		if !oc.OOMKilled || oc.OOM.LimitBytes != 32<<20 || oc.Limits == nil || len(oc.Limits.Enforced) != 1 {
			t.Errorf("%v: %+v", p, oc)
		}
	}
	// The next command has its own limits, which are none; the shell came back.
	if out, oc := d.runText(api.ExecParams{Command: fill(100)}); oc.OOMKilled || out != strconv.Itoa(100<<20) {
		t.Errorf("without limits: %q %+v", out, oc)
	}
}

// TestUsageOfAll: where the session has a cgroup, the processor time of a command includes that of a process
// for which no shell waits. What an earlier command left behind does not count as a later command's.
func TestUsageOfAll(t *testing.T) {
	testkit.Long(t)
	for name, l := range map[string]*api.Limits{"without limits": nil, "with limits": {Pids: ptr(int64(100))}} {
		t.Run(name, func(t *testing.T) {
			d := limited(t, api.SessionCreateParams{Shell: "bash", WorkingDir: t.TempDir(), Limits: l})
			if e := d.details().Enforcement; e != "cgroup" {
				t.Skip("NO CGROUP TESTED: the session has " + e)
			}
			d.mustRun("mkfifo done begin")
			_, oc := d.runText(api.ExecParams{Command: `(setsid perl -e '1 while times < 0.5; open F, ">done"' >/dev/null 2>&1 &); cat done`})
			if used := oc.Usage.UserMS + oc.Usage.SystemMS; used < 450 || oc.ExitCode != 0 {
				t.Errorf("a daemon: %+v", oc)
			}
			d.mustRun(`(setsid perl -e 'open F, "<begin"; $t = times; 1 while times < $t + 0.5; open F, ">done"; close F; sleep 600' >/dev/null 2>&1 &)`)
			_, oc = d.runText(api.ExecParams{Command: "echo > begin; cat done"})
			if used := oc.Usage.UserMS + oc.Usage.SystemMS; used >= 450 {
				t.Errorf("the work of an earlier command counts: %+v", oc)
			}
		})
	}
}

// TestLimitReached: the limit in an outcome is that of the group without memory, be it the command's or the
// session's, whichever is smaller.
func TestLimitReached(t *testing.T) {
	const session, command = 64 << 20, 48 << 20
	d := limited(t, api.SessionCreateParams{Shell: "bash", Limits: &api.Limits{MemoryBytes: ptr(int64(session))}})
	run := func(p api.ExecParams, want int64) {
		t.Helper()
		if _, oc := d.runText(p); !oc.OOMKilled || oc.OOM.LimitBytes != want {
			t.Errorf("%+v: %+v, %+v, want the limit %d", p, oc, oc.OOM, want)
		}
	}
	argv := func(mebibytes int) []string {
		return []string{"perl", "-e", hold(mebibytes)}
	}
	small, large := &api.CommandLimits{MemoryBytes: ptr(int64(command))}, &api.CommandLimits{MemoryBytes: ptr(int64(2 * session))}
	run(api.ExecParams{Command: fill(200), Limits: small}, command)
	run(api.ExecParams{Argv: argv(200), Limits: small}, command)
	run(api.ExecParams{Command: fill(200), Limits: large}, session)
	run(api.ExecParams{Argv: argv(200), Limits: large}, session)
	run(api.ExecParams{Argv: argv(200)}, session)
	// A job has most of the memory of the session, so a command within its own limit reaches that of the session.
	ready := filepath.Join(t.TempDir(), "ready")
	d.mustRun("mkfifo " + ready + "; (perl -e '" + hold(25) + "; open F, \">" + ready + "\"; close F; sleep 600' >/dev/null 2>&1 &); cat " + ready)
	run(api.ExecParams{Argv: argv(42), Limits: small}, session)
}

// hold is Perl that takes memory, in mebibytes, neither more nor less.
func hold(mebibytes int) string { return "vec($x, (" + strconv.Itoa(mebibytes) + " << 20) - 1, 8) = 1" }

func TestPidsLimit(t *testing.T) {
	d := limited(t, api.SessionCreateParams{Shell: "bash", Limits: &api.Limits{Pids: ptr(int64(12))}})
	const crowd = "for (1..16) { $p = fork; sleep 60 if defined $p && !$p; push @p, $p if $p } kill 9, @p; print scalar @p"
	_, oc := d.runText(api.ExecParams{Command: "perl -e '" + crowd + "'", TimeoutS: ptr(60.0)})
	if oc.Usage.ForksRefused == 0 || oc.TimedOut {
		t.Errorf("session: %+v", oc)
	}
	if out := d.mustRun("echo lives"); out != "lives\n" {
		t.Errorf("afterwards: %q", out)
	}
	// One process is enough for a program that forks none.
	if out, oc := d.runText(api.ExecParams{Command: "/bin/echo one", Limits: &api.CommandLimits{Pids: ptr(int64(1))}}); out != "one\n" || oc.Usage.ForksRefused != 0 {
		t.Errorf("pids 1: %q %+v", out, oc)
	}
	_, oc = d.runText(api.ExecParams{Argv: []string{"sh", "-c", "/bin/true; /bin/true"}, Limits: &api.CommandLimits{Pids: ptr(int64(1))}})
	if oc.Usage.ForksRefused == 0 || oc.ExitCode == 0 {
		t.Errorf("argv with pids 1: %+v", oc)
	}
	// The commands above have groups below that of the session. Its limit still counts, in the shell and beside it.
	for _, p := range []api.ExecParams{{Command: "perl -e '" + crowd + "'"}, {Argv: []string{"perl", "-e", crowd}}} {
		if _, oc = d.runText(p); oc.Usage.ForksRefused == 0 {
			t.Errorf("%v: %+v", p, oc)
		}
	}
}

// The kernel stops a command that needs more than its share, and one without a limit gets several times as
// much work done meanwhile. The share is small enough to be used up on a busy machine too: 2 ms in each tenth
// of a second.
func TestCPULimit(t *testing.T) {
	testkit.Long(t)
	dir := t.TempDir()
	d := limited(t, api.SessionCreateParams{Shell: "bash", WorkingDir: dir, Limits: &api.Limits{CPUs: ptr(4.0)}})
	free := limited(t, api.SessionCreateParams{Shell: "bash", WorkingDir: dir})
	if err := d.set(link.SetParams{Limits: &api.Limits{CPUs: ptr(0.02)}, Required: []string{api.LimitCPUs}}); err != nil {
		t.Fatal(err)
	}
	spin := "perl -e '1 while times < 0.1'" // seconds of processor time
	worked := make(chan int)
	go func() {
		defer close(worked)
		out, _ := free.runText(api.ExecParams{Command: `perl -e 'until (-e "done") { $i++ while $i % 10000 < 9999; $i++ } print int(1000 * times)'`})
		n, _ := strconv.Atoi(out)
		worked <- n
	}()
	_, oc := d.runText(api.ExecParams{Command: spin + "; : >done"})
	if n := <-worked; n < 150 {
		t.Errorf("in the time in which a session with a limit worked for 100 ms, one without worked for %d ms", n)
	}
	if used := oc.Usage.UserMS + oc.Usage.SystemMS; oc.Usage.ThrottledMS == 0 || used < 90 {
		t.Errorf("used %d ms, throttled for %d ms", used, oc.Usage.ThrottledMS)
	}
	if err := d.set(link.SetParams{Limits: &api.Limits{CPUs: ptr(0.0)}}); err != nil {
		t.Fatal(err)
	}
	if _, oc = d.runText(api.ExecParams{Command: spin}); oc.Usage.ThrottledMS != 0 {
		t.Errorf("without the limit: %+v", oc.Usage)
	}
}

func (d *daemon) set(p link.SetParams) error {
	var info link.SetResult
	_, err := d.conn.Call(context.Background(), link.Set.With(&p, nil, &info))
	return err
}

// runText runs a command and returns its stdout.
func (d *daemon) runText(p api.ExecParams) (string, api.ExecOutcome) {
	d.t.Helper()
	p.SessionID = d.id
	var res link.RunResult
	body, err := d.conn.Call(context.Background(), link.ExecRun.With(&link.ExecParams{ExecParams: p}, nil, &res))
	if err != nil {
		d.t.Fatalf("%v: %v", p, err)
	}
	return string(body[:res.StdoutLen]), res.ExecOutcome
}

func (d *daemon) mustRun(command string) string {
	d.t.Helper()
	out, oc := d.runText(api.ExecParams{Command: command})
	if oc.ExitCode != 0 {
		d.t.Fatalf("%s: %+v", command, oc)
	}
	return out
}
