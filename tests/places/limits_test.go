//go:build linux

package places

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	moby "github.com/moby/moby/client"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/runtimes/docker/dockertest"
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
	if p.name == "kubernetes" {
		_, err := p.SessionSet(p.ctx, api.SessionSetParams{SessionID: id, Limits: &api.Limits{MemoryBytes: new(int64(2 * most))}})
		testkit.WantError(t, err, api.CodeLimitUnavailable, "cannot change while the session lives")
		testkit.Must(p.SessionSet(p.ctx, api.SessionSetParams{SessionID: id, Limits: &api.Limits{MemoryBytes: new(int64(most))}}))(t)
		set := testkit.Must(p.SessionSet(p.ctx, api.SessionSetParams{SessionID: id, Limits: &api.Limits{MemoryBytes: new(int64(2 * most))}, LimitsMode: api.LimitsBestEffort}))(t)
		info = testkit.Must(p.SessionInfo(p.ctx, api.SessionInfoParams{SessionID: set.SessionID}))(t)
		if info.Limits.MemoryBytes != most || len(info.Limits.NotEnforced) != 1 {
			t.Errorf("after a change with best effort: %+v", info.Limits)
		}
	}

	_, err := p.ExecRun(p.ctx, api.ExecParams{SessionID: id, Command: "true", Limits: &api.CommandLimits{MemoryBytes: new(int64(most / 2))}})
	testkit.WantError(t, err, api.CodeLimitUnavailable, "limit memory_bytes cannot be enforced")

	run := func(x api.ExecParams) api.ExecResult {
		t.Helper()
		x.SessionID = id
		return testkit.Must(p.ExecRun(p.ctx, x))(t)
	}
	run(api.ExecParams{Command: "x=kept"})
	p.victims(t, run)
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

// victims compares the scores by which the kernel chooses its victims. The limit counts the runner too,
// without which the session would end.
func (p *place) victims(t *testing.T, run func(api.ExecParams) api.ExecResult) {
	score := func(x api.ExecParams) int {
		t.Helper()
		x.TimeoutS = new(60.0)
		r := run(x)
		return testkit.Must(strconv.Atoi(strings.TrimSpace(r.Stdout)))(t)
	}
	runner := score(api.ExecParams{Command: "cat /proc/$PPID/oom_score_adj"})
	shell := score(api.ExecParams{Command: "cat /proc/$$/oom_score_adj"})
	beside := score(api.ExecParams{Argv: []string{"cat", "/proc/self/oom_score_adj"}})
	// A command of the shell begins as a copy of it.
	command := score(api.ExecParams{Command: fmt.Sprintf("sh -c 'until s=$(cat /proc/$$/oom_score_adj); [ $s -gt %d ]; do :; done; echo $s'", shell)})
	if runner >= shell || shell >= command || command != beside {
		t.Errorf("the scores are %d of the runner, %d of the shell, %d of its commands, %d beside it", runner, shell, command, beside)
	}
}

// exhausted tests that the kernel kills shells, not runners, when the memory of a container is full of a
// file. A process may give its memory back only after the kernel has chosen the next victim, so there are
// more shells than one.
func (p *place) exhausted(t *testing.T) {
	first := p.create(api.SessionCreateParams{Limits: &api.Limits{MemoryBytes: new(int64(64 << 20))}})
	defer p.destroy(first.SessionID)
	ids := []string{first.SessionID}
	for range 3 {
		ids = append(ids, testkit.Must(p.SessionCreate(p.ctx, api.SessionCreateParams{Beside: first.SessionID}))(t).SessionID)
		defer p.destroy(ids[len(ids)-1])
	}
	for _, id := range ids {
		// A shell with a megabyte gives something back, and is smaller than its runner.
		for _, text := range []string{"x=kept", `y=$(head -c 1000000 /dev/zero | tr '\0' y)`} {
			testkit.Must(p.ExecRun(p.ctx, api.ExecParams{SessionID: id, Command: text}))(t)
		}
	}
	killed, restarted := exhaust(t, first.Place.Container), 0
	for _, id := range ids {
		r := testkit.Must(p.ExecRun(p.ctx, api.ExecParams{SessionID: id, Command: "echo $x"}))(t)
		if r.Stdout != "kept\n" {
			t.Errorf("session %s: %+v", id, r)
		}
		if r.ShellRestarted {
			restarted++
		}
	}
	if killed == 0 || restarted != killed {
		t.Errorf("the kernel killed %d processes, and %d shells were restarted", killed, restarted)
	}
}

// exhaust fills the memory of a container with a file, until the kernel kills, and returns how many it killed. The
// writer is not of the session and is smaller than a runner. It starts no process before it has given the
// memory back, because that would need more.
func exhaust(t *testing.T, container string) (killed int) {
	t.Helper()
	const script = `
		counter=/sys/fs/cgroup/memory.events
		[ -e $counter ] || counter=/sys/fs/cgroup/memory/memory.oom_control
		block=0123456789abcdef
		for i in 1 2 3 4 5 6 7 8; do block=$block$block; done
		kills() { while read -r name value; do [ $name != oom_kill ] || n=$value; done <$counter; }
		kills; before=$n
		while [ $n = $before ]; do printf %s $block >>/dev/shm/fill || break; kills; done
		: >/dev/shm/fill; kills; rm /dev/shm/fill; echo $((n - before))`
	engine := dockertest.Shared(t)
	made := testkit.Must(engine.ExecCreate(t.Context(), container, moby.ExecCreateOptions{Cmd: []string{"sh", "-c", script}, TTY: true, AttachStdout: true, AttachStderr: true}))(t)
	joined := testkit.Must(engine.ExecAttach(t.Context(), made.ID, moby.ExecAttachOptions{TTY: true}))(t)
	defer joined.Close()
	out := testkit.Must(io.ReadAll(joined.Reader))(t)
	return testkit.Must(strconv.Atoi(strings.TrimSpace(string(out))))(t)
}

// changing is a session in a container whose limits change.
type changing struct {
	*testing.T
	*client.Client
	ctx       context.Context
	id        string
	container string
}

// set changes the limits, which must succeed.
func (c changing) set(l api.Limits, mode api.LimitsMode) {
	c.Helper()
	testkit.Must(c.SessionSet(c.ctx, api.SessionSetParams{SessionID: c.id, Limits: &l, LimitsMode: mode}))(c)
}

// refused changes the limits, which must fail.
func (c changing) refused(l api.Limits, code api.Code, text string) {
	c.Helper()
	_, err := c.SessionSet(c.ctx, api.SessionSetParams{SessionID: c.id, Limits: &l})
	testkit.WantError(c, err, code, text)
}

// want compares the limits of the session and those of its container; 0 is none. It returns the reasons
// for changes that were not made.
func (c changing) want(cpus float64, memory, pids int64) (reasons string) {
	c.Helper()
	l := testkit.Must(c.SessionInfo(c.ctx, api.SessionInfoParams{SessionID: c.id}))(c).Limits
	if l.CPUs != cpus || l.MemoryBytes != memory || l.Pids != pids {
		c.Errorf("the session reports %+v", l)
	}
	for name, value := range map[string]float64{api.LimitCPUs: cpus, api.LimitMemory: float64(memory), api.LimitPids: float64(pids)} {
		if slices.Contains(l.Enforced, api.EnforcedLimit{Limit: name, Mechanism: "docker"}) != (value > 0) {
			c.Errorf("limit %s is %v, and the session reports %+v", name, value, l)
		}
	}
	r := c.resources()
	if cpus > 0 && r.NanoCPUs != int64(cpus*1e9) || memory > 0 && (r.Memory != memory || r.MemorySwap != memory) || pids > 0 && (r.PidsLimit == nil || *r.PidsLimit != pids+32) {
		c.Errorf("the engine reports cpus %d, memory %d, swap %d, pids %v", r.NanoCPUs, r.Memory, r.MemorySwap, r.PidsLimit)
	}
	for _, u := range l.NotEnforced {
		reasons += u.Limit + ": " + u.Reason + "\n"
	}
	return reasons
}

// resources returns the limits of the container, as the engine reports them.
func (c changing) resources() container.Resources {
	c.Helper()
	return testkit.Must(dockertest.Shared(c).ContainerInspect(c.ctx, c.container, moby.ContainerInspectOptions{}))(c).Container.HostConfig.Resources
}

// feel runs programs that need 200 MB and 100 processes, and compares which of them the limits stop.
func (c changing) feel(memory int64, pids bool) {
	c.Helper()
	r := testkit.Must(c.ExecRun(c.ctx, api.ExecParams{SessionID: c.id, Command: "dd if=/dev/zero of=/dev/null bs=200M count=1"}))(c)
	if r.OOMKilled != (memory > 0) || r.OOMKilled && r.OOM.LimitBytes != memory || !r.OOMKilled && r.ExitCode != 0 {
		c.Errorf("200 MB: %+v, %+v", r, r.OOM)
	}
	r = testkit.Must(c.ExecRun(c.ctx, api.ExecParams{SessionID: c.id, Argv: []string{"sh", "-c", `
		i=0; trap 'kill -9 $all' EXIT
		while [ $i -lt 100 ]; do sleep 1000 & all="$all $!"; i=$((i+1)); done`}}))(c)
	if (r.Usage.ForksRefused > 0) != pids || (r.ExitCode != 0) != pids {
		c.Errorf("100 processes: %+v", r)
	}
}

// limitsChanged changes the limits of a container while its session lives. The session begins without any.
func (p *place) limitsChanged(t *testing.T) {
	const small, large = 64 << 20, 512 << 20
	daemon := startDaemon(t, p.env...)
	c := changing{T: t, Client: daemon.Client(t), ctx: p.ctx}
	s := testkit.Must(c.SessionCreate(p.ctx, api.SessionCreateParams{Runtime: p.at.Runtime, Place: p.at.Place}))(t)
	c.id, c.container = s.SessionID, s.Place.Container
	limits := func(cpus float64, memory, pids int64) api.Limits {
		return api.Limits{CPUs: &cpus, MemoryBytes: &memory, Pids: &pids}
	}

	c.set(limits(0.5, small, 40), "")
	c.want(0.5, small, 40)
	c.feel(small, true)
	c.set(limits(1, large, 400), "")
	c.Client = daemon.Crash(t, nil)
	c.want(1, large, 400)
	c.feel(0, false)
	c.set(limits(0.5, small, 40), "")
	c.want(0.5, small, 40)
	c.feel(small, true)

	// What the engine refuses, and what the runner refuses, changes nothing.
	tiny := api.Limits{CPUs: new(1.0), MemoryBytes: new(int64(1 << 20))}
	c.refused(tiny, api.CodeLimitUnavailable, "limit memory_bytes: the engine refuses the change: Minimum memory limit")
	c.want(0.5, small, 40)
	c.set(api.Limits{OpenFiles: new(int64(500))}, "")
	c.refused(api.Limits{MemoryBytes: new(int64(large)), OpenFiles: new(int64(600))}, api.CodeInvalidParams, "can only become smaller")
	c.want(0.5, small, 40)
	// With best effort, the rest changes.
	c.set(tiny, api.LimitsBestEffort)
	if why := c.want(1, small, 40); !strings.HasPrefix(why, "memory_bytes: the new value is not in force") || !strings.Contains(why, "Minimum memory limit") {
		t.Errorf("not enforced: %q", why)
	}

	// A session beside it has no limits of its own, and does not change those of the container.
	beside := c
	beside.id = testkit.Must(c.SessionCreate(p.ctx, api.SessionCreateParams{Beside: c.id}))(t).SessionID
	beside.refused(api.Limits{MemoryBytes: new(int64(large))}, api.CodeLimitUnavailable, "limit memory_bytes cannot be enforced")
	if why := c.want(1, small, 40); why == "" {
		t.Error("the reason is lost")
	}
	testkit.Must(c.SessionDestroy(p.ctx, api.SessionDestroyParams{SessionID: beside.id}))(t)

	c.set(limits(0, 0, 0), "")
	if why := c.want(0, 0, 0); why != "" {
		t.Errorf("not enforced: %q", why)
	}
	c.feel(0, false)
	c.set(limits(0.5, small, 40), "")
	c.want(0.5, small, 40)
	c.feel(small, true)
	testkit.Must(c.SessionDestroy(p.ctx, api.SessionDestroyParams{SessionID: c.id}))(t)
}
