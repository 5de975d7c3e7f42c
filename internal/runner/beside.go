package runner

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/limits"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/shell"
)

// beside is a program that runs next to the shell: the task of an exec with argv. Its goroutine
// is that of attend.
type beside struct {
	stopper
	runner *Runner
	id     string // of the exec
	params link.ExecParams
	pipesConfig
	dir    string                // where it runs
	run    atomic.Pointer[pipes] // nil until it has started
	cgroup *process.Cgroup       // of its processes; nil where there is none
	group  *limits.Group         // nil if nothing limits it
	limits *api.LimitReport      // nil if it has no limits of its own
	before limits.Stats          // of the session when it began
	since  uint64                // when it was started, as an Info.StartTime
	closed chan struct{}         // closed when the exec is

	known map[int]uint64 // guarded by besides.mu; its processes at the last look: pid → start time
}

// besideOf returns the program of an exec that runs beside the shell; nil for other execs.
func besideOf(e *Exec) *beside {
	b, _ := e.task.(*beside)
	return b
}

// newBeside makes the task of an exec with argv.
func (r *Runner) newBeside(e *Exec, p link.ExecParams, stdin []byte) *beside {
	b := &beside{
		stopper: newStopper(), runner: r, id: e.ID, params: p, dir: r.at.cwd, closed: make(chan struct{}),
		pipesConfig: pipesConfig{log: e.Log, merge: p.Merge, pty: p.Pty},
	}
	if p.WorkingDir != "" {
		b.dir = p.WorkingDir
	}
	if p.OpenStdin || p.HasStdin || p.Pty != nil {
		b.in = shell.NewInput(r.params.Limits.MaxStdinBytes, stdin)
	}
	if p.HasStdin && p.Pty == nil {
		_, _, _, _ = b.in.Write(nil, true)
	}
	if e.pace != nil {
		b.full = e.full
	}
	return b
}

// findBeside returns the file of the program.
func (r *Runner) findBeside(p api.ExecParams) (string, error) {
	path, dir := r.at.path, r.at.cwd
	if own, ok := p.Env["PATH"]; ok {
		path = own
	}
	if p.WorkingDir != "" {
		dir = p.WorkingDir
	}
	return shell.FindProgram(p.Argv[0], path, dir)
}

// environ returns the environment of the program: that of the session, that of the command, and
// for a terminal the variables that describe it.
func (b *beside) environ() []string {
	r := b.runner
	set := map[string]string{}
	if b.pty != nil {
		for _, k := range otherTerminal {
			set[k] = ""
		}
		set["TERM"], set["COLORTERM"] = api.DefaultTerm, "truecolor"
		for k := range set {
			if v, ok := r.params.Params.Env[k]; ok {
				set[k] = v
			}
		}
	}
	maps.Copy(set, b.params.Env)
	set["PWD"], set[api.ExecMarker] = b.dir, b.id
	var env []string
	for _, kv := range r.at.env {
		if k, _, _ := strings.Cut(kv, "="); set[k] == "" {
			if _, ok := set[k]; !ok {
				env = append(env, kv)
			}
		}
	}
	for k, v := range set {
		if v != "" || !slices.Contains(otherTerminal, k) {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// begin starts the program.
func (b *beside) begin() (err error) {
	r := b.runner
	if b.spec.Path, err = r.findBeside(b.params.ExecParams); err != nil {
		return err
	}
	if err = shell.CheckDir(b.params.WorkingDir); err != nil {
		return err
	}
	b.cgroup = r.cgroup.Sub(b.id)
	b.spec.Args, b.spec.Env, b.spec.Dir, b.spec.CgroupFD = b.params.Argv, b.environ(), b.dir, b.cgroup.FD()
	if b.start, err = b.startBeside(); err != nil {
		return err
	}
	b.since = process.Now()
	r.besides.begun.Add(1)
	r.besides.mu.Lock()
	run, err := startOnPipes(b.pipesConfig)
	if err == nil {
		b.run.Store(run)
		r.besides.leaders[run.proc.PID] = b
	}
	r.besides.mu.Unlock()
	b.params.Env, b.spec.Env = nil, nil
	return err
}

// describe adds the program to a snapshot of its exec.
func (b *beside) describe(info *api.ExecInfo, argv []string) {
	if run := b.run.Load(); run != nil {
		info.PID = run.proc.PID
	}
	size := 0
	for i, arg := range argv {
		if size += len(arg); size > maxCommandShown {
			argv = argv[:max(i, 1)]
			break
		}
	}
	info.Argv = argv
}

func (b *beside) Running() bool {
	run := b.run.Load()
	return run != nil && !happened(run.proc.Done())
}

func (b *beside) LastOutput() time.Time {
	if run := b.run.Load(); run != nil {
		return run.LastOutput()
	}
	return time.Time{}
}

func (b *beside) Usage() (userMS, systemMS, maxRSSBytes int64, ok bool) {
	if !b.Running() {
		return 0, 0, 0, false
	}
	return usageOf(b.all())
}

func (b *beside) BlockedReader() (shell.Reader, bool, error) {
	if !b.Running() {
		return shell.Reader{}, false, nil
	}
	return b.run.Load().blockedReader(b.all)
}

func (b *beside) processes(leaders bool) []process.Info {
	if leaders {
		if !b.Running() {
			return nil
		}
		return statAll(b.run.Load().proc.PID)
	}
	return b.all()
}

func (b *beside) reads() bool { return b.in != nil && b.in.Open() }

func (b *beside) stdin() *shell.Input {
	if !b.params.OpenStdin && b.pty == nil {
		return nil // the whole input was given at the start
	}
	return b.in
}

func (b *beside) wake() {
	if run := b.run.Load(); run != nil {
		run.wake()
	}
}

// forget is called when the program has ended or was never started. A process that it left
// running still gets the rest of the input.
func (b *beside) forget() {
	b.params.Env = nil
	switch {
	case b.in == nil:
	case b.run.Load() == nil:
		b.in.Discard()
	default:
		_, _, _, _ = b.in.Write(nil, true)
		b.wake()
	}
}

// runBeside runs the program of an exec when it is its turn, until its output is complete.
func (r *Runner) runBeside(e *Exec) {
	<-e.turn
	if !e.givenUp() && r.launch(e) == nil {
		r.attend(e)
	}
}

// launch starts the program.
func (r *Runner) launch(e *Exec) error {
	_ = e.to(api.ExecRunning)
	b := besideOf(e)
	err := b.begin()
	if err != nil {
		r.endBeside(e, nil, err)
		b.close(e)
	}
	return err
}

// attend waits for the end of a program and of its output.
func (r *Runner) attend(e *Exec) {
	b := besideOf(e)
	run, started := b.run.Load(), time.Now()
	tell := time.AfterFunc(reportRunningAfter, func() { r.report(false) })
	oc := b.await(e.timeout)
	tell.Stop()
	if oc.Signal != 0 {
		b.kill(&oc)
	}
	<-run.proc.Done()
	exit := run.proc.Exit()
	oc.UserMS, oc.SystemMS, oc.MaxRSSBytes = exit.UserMS, exit.SystemMS, exit.MaxRSSBytes
	switch {
	case oc.TimedOut:
		oc.ExitCode = api.ExitTimedOut
	case oc.Cancelled:
		oc.ExitCode = api.ExitCancelled
	default:
		oc.ExitCode = exit.Code()
	}
	if exit.Signal != 0 {
		oc.Signal = exit.Signal
	}
	oc.LeftRunning = b.settle()
	out := e.newOutcome(oc, started, b.dir)
	b.measure(out)
	r.endBeside(e, out, nil)
	<-run.Done()
	b.close(e)
	r.flush()
}

// await waits until the program has ended, or has to be ended: then the outcome has the signal.
func (b *beside) await(timeout time.Duration) (oc shell.Outcome) {
	run := b.run.Load()
	var late, look <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		late = t.C
	}
	next := 5 * time.Millisecond
	lookTimer := time.NewTimer(next)
	defer lookTimer.Stop()
	if b.cgroup == nil {
		look = lookTimer.C
	}
	for {
		select {
		case <-run.proc.Done():
			return oc
		case sig := <-b.first:
			if !happened(run.proc.Done()) {
				oc.Cancelled, oc.Signal = true, sig
			}
			return oc
		case <-late:
			if !happened(run.proc.Done()) {
				oc.TimedOut, oc.Signal = true, syscall.SIGTERM
			}
			return oc
		case <-look:
			b.look()
			next = min(next*4, next+time.Second)
			lookTimer.Reset(next)
		}
	}
}

// kill ends all processes of the program.
func (b *beside) kill(oc *shell.Outcome) {
	r, run := b.runner, b.run.Load()
	l := process.NewLadder(run.proc.PID, oc.Signal, seconds(r.params.Limits.KillGraceS), nil)
	defer l.Close()
	l.Search(b.all)
	l.Add(statAll(run.proc.PID)...)
	if b.pty != nil {
		l.HangUp()
	}
	for l.Step() > 0 && !l.GivenUp() {
		select {
		case <-b.force:
			l.Force()
		case <-run.Done():
			time.Sleep(time.Millisecond) // processes without its output are left
		case <-time.After(20 * time.Millisecond):
		}
	}
	_ = b.cgroup.Kill()
	oc.Killed = l.Killed()
	oc.Signal = strongest(oc.Signal, oc.Killed)
}

// settle waits for the end of the output, unless processes that the program has left running
// hold it open and are going to stay. It returns these.
func (b *beside) settle() (left []shell.Holder) {
	const (
		every = 2 * time.Millisecond
		busy  = time.Second // the limit while a process is ready to run but has no processor, or no process seems to hold the output
		young = 20          // milliseconds of processor time within which a program starts or ends
	)
	run, begun := b.run.Load(), time.Now()
	isRead := run.rest() // all that the program itself has written
	var pipes []process.FileID
	for _, o := range run.out {
		pipes = append(pipes, o.pipe)
	}
	for before := -1; ; {
		happens(run.Done(), every)
		if happened(run.Done()) {
			return nil
		}
		left = nil
		waits := !run.drained()
		for _, p := range b.all() {
			if process.PipesOf(p.PID, pipes...).Holds {
				left = append(left, shell.Holder{PID: p.PID, Command: process.CommandLine(p.PID)})
				waits = waits || p.State != 'S' && p.State != 'T' && p.UserMS+p.SystemMS <= young
			}
		}
		took := time.Since(begun)
		if took >= busy && isRead() || took >= settleTime && !waits && len(left) > 0 && before == len(left) {
			return left
		}
		before = len(left)
	}
}

// close moves the exec to its last state.
func (b *beside) close(e *Exec) {
	_ = e.to(api.ExecClosed)
	close(b.closed)
	b.runner.sweepGroups()
	b.runner.reportExecs(true)
}

// endBeside publishes the end of a program, and begins the next one that waits.
func (r *Runner) endBeside(e *Exec, out *api.ExecOutcome, err error) {
	b := besideOf(e)
	b.forget()
	e.exited(out, err)
	r.mu.Lock()
	r.parallel = slices.DeleteFunc(r.parallel, func(x *Exec) bool { return x == e })
	memory, file := e.Log.Kept()
	e.kept = memory + file
	r.kept += e.kept
	r.activity = time.Now()
	if b.cgroup != nil || b.group != nil {
		r.groups = append(r.groups, commandGroup{b.cgroup, b.group})
	}
	if r.ending == nil && len(r.waiting) > 0 {
		next := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.parallel = append(r.parallel, next)
		close(next.turn)
	}
	r.mu.Unlock()
	r.sweepGroups()
	r.report(true)
	e.end()
	r.scheduleQuiet()
}

// sweepGroups removes the cgroups of ended programs that have no process any more.
func (r *Runner) sweepGroups() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups = slices.DeleteFunc(r.groups, commandGroup.remove)
}

// acceptBesideLocked begins an exec with argv, or queues it.
func (r *Runner) acceptBesideLocked(e *Exec) {
	if r.hasRoomLocked() {
		r.parallel = append(r.parallel, e)
		close(e.turn)
	} else {
		r.waiting = append(r.waiting, e)
	}
}

// hasRoomLocked reports whether another program may run beside the shell.
func (r *Runner) hasRoomLocked() bool {
	most := r.params.Limits.MaxParallel
	return most <= 0 || len(r.parallel) < most
}

// roomErrorLocked returns the error for an exec with argv that can neither run nor wait.
func (r *Runner) roomErrorLocked(wait bool) error {
	lim := r.params.Limits
	switch {
	case r.hasRoomLocked():
		return nil
	case !wait:
		return api.Errorf(api.CodeResourcePressure, "session %q: runs %d programs, which is the limit (max_parallel); try again later, or set wait: true", r.labelLocked(), len(r.parallel))
	case len(r.waiting) >= lim.MaxQueued:
		return api.Errorf(api.CodeResourcePressure, "session %q: %d programs are waiting, which is the limit (max_queued); try again later", r.labelLocked(), len(r.waiting))
	}
	return nil
}

// closeBesides closes the output of the programs when no process of the session is left.
func (r *Runner) closeBesides() {
	r.mu.Lock()
	order := slices.Clone(r.order)
	r.mu.Unlock()
	for _, e := range order {
		if b := besideOf(e); b != nil && b.run.Load() != nil {
			happens(b.closed, drainTime)
			b.run.Load().Close()
			<-b.closed
		}
	}
	r.sweepGroups()
}
