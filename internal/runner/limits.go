package runner

import (
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/confine"
	"github.com/trl-dev/trl/internal/limits"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
)

// bounds are the limits of the session.
type bounds struct {
	// changing is held by session.set, which takes several steps.
	changing sync.Mutex

	mu       sync.Mutex
	limits   api.Limits          // guarded by mu
	required []string            // guarded by mu; the limits without which the session must not go on
	place    []api.EnforcedLimit // guarded by mu; what the place enforces
	plan     limits.Plan         // guarded by mu
	shared   bool                // guarded by mu; a memory limit counts the runner too
	victims  limits.Scores       // guarded by mu
}

// get returns the limits and how they are enforced.
func (b *bounds) get() (api.Limits, limits.Plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limits, b.plan
}

// positive returns a limit that is set; 0 for none.
func positive(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// newGroups makes the cgroup for the session's processes, where the system allows it, and enforces
// the limits.
func (r *Runner) newGroups(p link.CreateParams) (fd int, err error) {
	if r.cgroup, err = process.NewCgroup(r.cfg.SessionID); err != nil {
		r.cgroup = nil
	}
	r.group = limits.NewGroup(r.cfg.SessionID, r.cgroup)
	b := &r.bounds
	b.weigh(p.Params.Limits, p.Enforced)
	if p.Params.Limits == nil {
		return r.cgroup.FD(), nil
	}
	if len(p.Enforced) > 0 {
		r.group.Observe()
	}
	plan, err := limits.Apply(r.group, *p.Params.Limits, p.Required, p.Enforced)
	if err != nil {
		r.removeGroups()
		return 0, err
	}
	b.mu.Lock()
	b.limits, b.required, b.place, b.plan = *p.Params.Limits, p.Required, p.Enforced, plan
	b.mu.Unlock()
	return r.cgroup.FD(), nil
}

// removeGroups removes the cgroups of the session.
func (r *Runner) removeGroups() {
	_ = r.group.Remove()
	if r.cgroup != nil {
		_ = r.cgroup.Remove()
		r.cgroup.Close()
	}
}

// startProcess starts every process of the session that the runner itself starts, except for commands that
// have limits of their own. Confinement is applied here and in startBeside.
func (r *Runner) startProcess(spec process.Spec) (*process.Process, error) {
	return r.startConfined(spec, r.confinement(r.group))
}

// startConfined starts a process, and serves the listener of the proxy in its network.
func (r *Runner) startConfined(spec process.Spec, c *confine.Confinement) (*process.Process, error) {
	var door *os.File
	c.Door = func(f *os.File) { door = f }
	p, err := confine.Start(r.cfg.Start, spec, c)
	switch {
	case door == nil:
	case err != nil:
		door.Close()
	default:
		r.network.serve(door, p.Done())
	}
	return p, err
}

// confinement returns that of a process in a group.
func (r *Runner) confinement(g *limits.Group, more ...confine.Rlimit) *confine.Confinement {
	_, plan := r.bounds.get()
	c := &confine.Confinement{Rlimits: append(slices.Clone(plan.Rlimits), more...), Isolation: r.isolation.Isolation}
	if g.Active() || g != r.group && r.group.Active() {
		c.Join = g.Join()
	}
	c.OOMScoreAdj, _ = r.bounds.scores(0)
	return c
}

// pids returns the processes of the session.
func (r *Runner) pids() (pids []int) {
	for _, p := range process.Descendants(os.Getpid(), nil) {
		pids = append(pids, p.PID)
	}
	return pids
}

// limitsInfo returns the limits for session.info; nil if there are none.
func (r *Runner) limitsInfo() *api.SessionLimits {
	b := &r.bounds
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limits.IsZero() {
		return nil
	}
	return b.limits.Report(b.plan.Report)
}

// maxCommandsLocked is how many commands the session may run; 0 for any number.
func (r *Runner) maxCommandsLocked() int64 {
	if l, _ := r.bounds.get(); l.Commands != nil {
		return *l.Commands
	}
	return r.params.Limits.MaxCommands
}

// boundOutput cancels a command that writes more than it may.
func (r *Runner) boundOutput(e *Exec) {
	l, _ := r.bounds.get()
	most := positive(l.OutputBytes)
	if most == 0 {
		return
	}
	giveUp := func() {
		e.because("it wrote more than " + strconv.FormatInt(most, 10) + " bytes, which is the limit (output_bytes)")
		r.abandon(e, syscall.SIGTERM)
	}
	e.Log.Bound(most, func() { go giveUp() })
}

// commandGroup is the cgroups of one command.
type commandGroup struct {
	tracked *process.Cgroup
	group   *limits.Group
}

// remove removes the groups if they are empty, and reports whether it did.
func (g commandGroup) remove() bool {
	if !g.group.RemoveEmpty() || !g.tracked.RemoveEmpty() {
		return false
	}
	g.tracked.Close()
	return true
}

// meter measures one command of the shell, in its own group or in that of the session.
type meter struct {
	runner *Runner
	beside int64                        // programs that had begun beside the shell; -1 if one runs
	free   bool                         // nothing limits the command, so only its processor time is measured
	long   atomic.Pointer[limits.Stats] // of the session, soon after a free command began; nil if that was short
	own    *commandGroup                // nil without limits of its own
	name   string                       // of its group
	report *api.LimitReport
	before limits.Stats  // of the session
	peak   *limits.Peak  // nil if the kernel cannot begin the peak of memory with the command
	stop   chan struct{} // ends preferVictims; nil where that does not run
}

// newMeter begins to measure a command. The shell moves into the group of a command with limits of its
// own, so that its processes begin there.
func (r *Runner) newMeter(e *Exec) (*meter, error) {
	own := e.params.Limits.Of()
	session, _ := r.bounds.get()
	m := &meter{runner: r, beside: r.begunBeside()}
	_, score := r.bounds.scores(positive(own.MemoryBytes))
	if own.IsZero() && !r.group.Active() && session.IsZero() {
		m.free = true
		m.preferVictims(e, score, 10*time.Second) // there may be many sessions below a limit of the service
		return m, nil
	}
	if !own.IsZero() {
		if pids := positive(own.Pids); pids > 0 {
			pids++ // the shell
			own.Pids = &pids
		}
		if err := m.enter(e, own); err != nil {
			return nil, err
		}
	}
	m.before, m.peak = r.group.Stats(), r.group.NewPeak()
	m.preferVictims(e, score, time.Second)
	return m, nil
}

// takesLong begins to measure a command that nothing limits. To read the time of a group takes longer
// than a short command, whose detached processes cannot have used much.
func (m *meter) takesLong() {
	if m != nil && m.free {
		now := m.runner.processors()
		m.long.Store(&now)
	}
}

// processors returns the processor time of the session.
func (r *Runner) processors() (s limits.Stats) {
	s.UserMS, s.SystemMS, s.HasCPU = limits.CPU(r.cgroup.Path())
	return s
}

// enter makes a group for the command and moves the shell into it.
func (m *meter) enter(e *Exec, own api.Limits) error {
	r := m.runner
	m.name = "c-" + e.ID[2:] // not the id: that names a program beside the shell
	g := &commandGroup{tracked: r.cgroup.Sub(m.name)}
	g.group = r.group.Sub(m.name, g.tracked)
	plan, err := limits.Apply(g.group, own, own.Required(e.params.LimitsMode), nil)
	if err == nil {
		err = g.group.Adopt(r.shell.PID())
	}
	if err != nil {
		r.keepGroup(g)
		r.sweepGroups()
		return err
	}
	// The shell keeps its limits after the command, so limits of processes are not for it.
	enforced := plan.Report.Enforced
	plan.Report.Enforced = []api.EnforcedLimit{}
	for _, l := range enforced {
		if l.Mechanism != limits.MechanismWeak {
			plan.Report.Enforced = append(plan.Report.Enforced, l)
			continue
		}
		plan.Report.NotEnforced = append(plan.Report.NotEnforced, api.UnenforcedLimit{Limit: l.Limit, Reason: "there is no cgroup, and limits of processes would stay with the shell"})
	}
	m.own, m.report = g, &plan.Report
	return nil
}

func (r *Runner) keepGroup(g *commandGroup) {
	r.mu.Lock()
	r.groups = append(r.groups, *g)
	r.mu.Unlock()
}

// end completes the outcome, and moves the shell back. Alone is that of the shell's outcome.
func (m *meter) end(out *api.ExecOutcome, alone bool) {
	if m == nil {
		return
	}
	r := m.runner
	if m.stop != nil {
		close(m.stop)
	}
	if m.free {
		if before := m.long.Load(); before != nil && out != nil {
			m.before = *before
			m.processorTime(&out.Usage, r.processors(), alone)
		}
		return
	}
	now, peak := r.group.Stats(), m.peak.End()
	var own limits.Stats
	if m.own != nil {
		own = m.own.group.Stats()
		if pid := r.shell.PID(); pid > 0 {
			_ = r.group.Adopt(pid)
		}
		r.keepGroup(m.own)
	}
	if out == nil {
		return
	}
	out.Limits = m.report
	u := &out.Usage
	u.ThrottledMS = now.ThrottledMS - m.before.ThrottledMS + own.ThrottledMS
	u.ForksRefused = now.ForksRefused - m.before.ForksRefused + own.ForksRefused
	switch {
	case own.MemoryPeakBytes > 0:
		u.MemoryPeakBytes = own.MemoryPeakBytes
	case peak > 0:
		u.MemoryPeakBytes = peak
	case now.MemoryPeakBytes > m.before.MemoryPeakBytes:
		u.MemoryPeakBytes = now.MemoryPeakBytes
	}
	m.processorTime(u, now, alone)
	r.noteOOM(out, m.before, now, own, m.name)
}

// processorTime reports the time of all processes of the command, also of those for which no shell
// waits. The group counts it, unless other processes of the session worked meanwhile.
func (m *meter) processorTime(u *api.Usage, now limits.Stats, alone bool) {
	if m.beside < 0 || m.runner.begunBeside() != m.beside {
		alone = false
	}
	user, system := now.UserMS-m.before.UserMS, now.SystemMS-m.before.SystemMS
	if now.HasCPU && m.before.HasCPU && user+system > u.UserMS+u.SystemMS && alone {
		u.UserMS, u.SystemMS = user, system
	}
}

// begunBeside counts the programs that were started beside the shell; -1 if one of them runs.
func (r *Runner) begunBeside() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.parallel) > 0 {
		return -1
	}
	return r.besides.begun.Load()
}

// noteOOM reports processes that the kernel killed, by the counters of the session before and after the
// command, and by those of the command's own group with that name. In the v2 tree the session's include the
// command's. The limit is that of the group that had no more memory.
func (r *Runner) noteOOM(out *api.ExecOutcome, before, now, own limits.Stats, name string) {
	if now.OOMKills <= before.OOMKills && own.OOMKills <= 0 {
		return
	}
	kill, group := limits.LastOOM(r.cfg.SessionID)
	reached := group == name || own.OutOfMemory > 0
	if group != name && group != r.cfg.SessionID { // the log cannot be read, or lacks this kill
		reached = reached || own.OutOfMemory < 0 && own.MemoryPeakBytes >= own.MemoryLimit
	}
	kill.LimitBytes = now.MemoryLimit
	if own.MemoryLimit > 0 && (reached || now.MemoryLimit <= 0) {
		kill.LimitBytes = own.MemoryLimit
	}
	out.OOMKilled, out.OOM = true, &kill
}

// startBeside returns the function that starts the program of an exec, in groups of its own.
func (b *beside) startBeside() (func(process.Spec) (*process.Process, error), error) {
	r := b.runner
	own := b.params.Limits.Of()
	session, _ := r.bounds.get()
	_, score := r.bounds.scores(positive(own.MemoryBytes))
	start := func(c *confine.Confinement) func(process.Spec) (*process.Process, error) {
		c.OOMScoreAdj = score
		return func(spec process.Spec) (*process.Process, error) { return r.startConfined(spec, c) }
	}
	if own.IsZero() && session.IsZero() && !r.group.Active() {
		return start(r.confinement(r.group)), nil
	}
	b.group = r.group.Sub(b.id, b.cgroup)
	var more []confine.Rlimit
	if !own.IsZero() {
		plan, err := limits.Apply(b.group, own, own.Required(b.params.LimitsMode), nil)
		if err != nil {
			return nil, err
		}
		b.limits, more = &plan.Report, plan.Rlimits
	}
	b.group.Watch()
	b.before = r.group.Stats()
	return start(r.confinement(b.group, more...)), nil
}

// measure completes the outcome of a program beside the shell.
func (b *beside) measure(out *api.ExecOutcome) {
	u := &out.Usage
	if b.group == nil {
		if user, system, ok := limits.CPU(b.cgroup.Path()); ok {
			u.UserMS, u.SystemMS = user, system
		}
		return
	}
	now, session := b.group.Stats(), b.runner.group.Stats()
	if now.HasCPU {
		u.UserMS, u.SystemMS = now.UserMS, now.SystemMS
	}
	u.MemoryPeakBytes = now.MemoryPeakBytes
	u.ThrottledMS = max(now.ThrottledMS, 0) + session.ThrottledMS - b.before.ThrottledMS
	u.ForksRefused = now.ForksRefused + session.ForksRefused - b.before.ForksRefused
	out.Limits = b.limits
	if !b.runner.group.Observes() {
		b.before.OOMKills = session.OOMKills // those of other commands; the container has only one group
	}
	b.runner.noteOOM(out, b.before, session, now, b.id)
}

// measureProgram completes the outcome of the program of a session.
func (r *Runner) measureProgram(out *api.ExecOutcome) {
	now := r.group.Stats()
	if now.HasCPU {
		out.Usage.UserMS, out.Usage.SystemMS = now.UserMS, now.SystemMS
	}
	out.Usage.MemoryPeakBytes, out.Usage.ThrottledMS, out.Usage.ForksRefused = now.MemoryPeakBytes, now.ThrottledMS, now.ForksRefused
	r.noteOOM(out, limits.Stats{}, now, limits.Stats{}, "")
}
