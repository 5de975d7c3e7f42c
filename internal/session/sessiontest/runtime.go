package sessiontest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

// Runtime is a place in memory.
type Runtime struct {
	// Called is the name of the runtime; empty for "memory".
	Called string
	// Places are the kinds of its places; empty for host alone.
	Places []api.PlaceKind
	// OnStart, when set, may refuse the start of a runner or change how it behaves.
	OnStart func(*Runner) error
	// Command does what a command does and returns its exit code. It ends when ctx
	// does. When nil every command succeeds at once.
	Command func(ctx context.Context, x *Exec) int
	// RecordDir is the directory for recordings that the place shares with the daemon; empty for
	// none.
	RecordDir string
	// SetLimit changes a limit of memory or processes, which places of the runtime then enforce; nil
	// if they enforce none.
	SetLimit func(ctx context.Context, limit string, value float64) error

	mu      sync.Mutex
	runners map[string]*Runner // guarded by mu; those that were not removed
	removed []string           // guarded by mu
}

var _ session.Runtime = (*Runtime)(nil)

// Name is "memory", or that which the test chose.
func (rt *Runtime) Name() string { return cmp.Or(rt.Called, "memory") }

// Capabilities are none.
func (rt *Runtime) Capabilities() []string { return nil }

// Kinds returns the kinds of its places.
func (rt *Runtime) Kinds() []api.PlaceKind {
	if len(rt.Places) > 0 {
		return rt.Places
	}
	return []api.PlaceKind{api.PlaceHost}
}

// Check reports that the place can always be reached.
func (rt *Runtime) Check(_ context.Context, t session.Target) api.RuntimeCheckResult {
	return api.RuntimeCheckResult{Runtime: t.Word, Kind: t.Kind, Reachable: true, Enforced: []string{}}
}

// Start makes a runner.
func (rt *Runtime) Start(ctx context.Context, spec session.Spec) (session.Runner, error) {
	r := &Runner{id: spec.SessionID, Spec: spec, about: spec.About, rt: rt, done: make(chan struct{}), conns: map[*link.Conn]bool{}, execs: map[string]*Exec{}, asked: map[string]int{}, runs: map[string]*Exec{}, changed: make(chan struct{})}
	if rt.OnStart != nil {
		if err := rt.OnStart(r); err != nil {
			return nil, err
		}
	}
	if r.Starting != nil {
		r.Starting(ctx)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.runners == nil {
		rt.runners = map[string]*Runner{}
	}
	rt.runners[r.id] = r
	return r, nil
}

// Recover returns the runners that live, and removes those that are dead.
func (rt *Runtime) Recover(context.Context) ([]session.Runner, error) {
	var list []session.Runner
	for _, r := range rt.Runners() {
		if r.ended() {
			r.Remove(false)
		} else {
			list = append(list, r)
		}
	}
	return list, nil
}

// Runners returns those that were started and not removed.
func (rt *Runtime) Runners() []*Runner {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var list []*Runner
	for _, r := range rt.runners {
		list = append(list, r)
	}
	return list
}

// Runner returns the runner of a session, or nil.
func (rt *Runtime) Runner(id string) *Runner {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.runners[id]
}

// Removed lists the sessions whose remains were removed, in that order.
func (rt *Runtime) Removed() []string {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return append([]string(nil), rt.removed...)
}

// Runner is a runner in memory.
type Runner struct {
	// The knobs are set before the runner is used, in OnStart.

	// Mute makes it accept connections and say nothing.
	Mute bool
	// NoDial makes it refuse connections.
	NoDial bool
	// CreateError is what create answers.
	CreateError error
	// Protocol is the answer to hello; 0 for the present one.
	Protocol int
	// Refuse is what hello answers.
	Refuse error
	// Stubborn makes it answer no destroy that is not forced.
	Stubborn bool
	// Limit accepts a change of limits, or refuses it; nil for an older runner, which ignores it.
	Limit func(link.SetParams) error
	// Left are processes that outlive it when it crashes.
	Left []api.KilledProcess
	// Starting does what takes time before it has started.
	Starting func(ctx context.Context)
	// Creating does what takes time before create is answered, when the program has begun. ctx ends with
	// the connection.
	Creating func(ctx context.Context)

	// Spec is what it was started with.
	Spec session.Spec

	id    string
	about session.About
	rt    *Runtime
	done  chan struct{}

	tasks sync.WaitGroup

	mu      sync.Mutex
	dials   int
	asked   map[string]int // calls by name
	hellos  int
	born    time.Time
	skew    time.Duration
	others  []api.Process
	alone   time.Time           // since when there are no others
	conn    *link.Conn          // the daemon's; nil before its hello
	conns   map[*link.Conn]bool // all that are open
	created *link.CreateParams
	info    api.SessionInfo
	limits  *api.SessionLimits
	execs   map[string]*Exec
	order   []*Exec
	screen  screen
	changed chan struct{} // closed and replaced whenever an exec changes
	crash   string
	clean   bool
	trims   []int64
	runs    map[string]*Exec // by run id; nil is a command that was dropped before it arrived
	lose    string           // the call after whose next answer the connection breaks
	miss    string           // the call whose next request is lost with the connection
	frozen  chan struct{}    // closed by Thaw; nil while it is not frozen

	decisions []link.NetworkEvent // each connection gets them
	recording []byte              // of a place that does not share the directory of the daemon
	exporting bool                // the daemon has not yet said that it has the export
	fetched   bool                // the daemon has said that it has the recording
}

// About is the session it was started for.
func (r *Runner) About() session.About {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.about
}

// Place has a small environment.
func (r *Runner) Place() session.Place {
	p := session.Place{Info: api.PlaceInfo{Kind: r.Spec.Target.Kind, OS: "memory"}, Env: map[string]string{"PATH": "/bin"}, RecordDir: r.rt.RecordDir, SetLimit: r.rt.SetLimit}
	if p.SetLimit != nil {
		p.Limits = []api.EnforcedLimit{{Limit: api.LimitMemory, Mechanism: "docker"}, {Limit: api.LimitPids, Mechanism: "docker"}}
	}
	return p
}

// Describe changes the answer of About.
func (r *Runner) Describe(name string, tags []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.about.Name, r.about.Tags = name, tags
	return nil
}

// Key is none.
func (r *Runner) Key() string { return "" }

// Dials returns how often a daemon has connected to it.
func (r *Runner) Dials() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dials
}

// Asked returns how often a daemon has made the call with that name.
func (r *Runner) Asked(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[name]
}

// Hellos returns how often a daemon has said hello.
func (r *Runner) Hellos() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hellos
}

// Created returns the parameters of create, or nil.
func (r *Runner) Created() *link.CreateParams {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.created
}

// Clean reports whether Remove was called for a clean end.
func (r *Runner) Clean() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clean
}

// Dial connects to it.
func (r *Runner) Dial(context.Context) (io.ReadWriteCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dials++
	if r.NoDial || r.ended() {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	if r.Mute {
		r.tasks.Go(func() { _, _ = io.Copy(io.Discard, ours); ours.Close() })
		return theirs, nil
	}
	conn := link.NewConn(&gate{Conn: ours, runner: r})
	r.conns[conn] = true
	r.tasks.Go(func() {
		_ = conn.Serve(served{r, conn})
		r.mu.Lock()
		delete(r.conns, conn)
		r.mu.Unlock()
	})
	return theirs, nil
}

// served is a connection that the runner serves.
type served struct {
	*Runner
	conn *link.Conn
}

// Handle is the runner's side of the link. The newest connection that has said hello is the daemon's.
func (s served) Handle(ctx context.Context, in *link.Incoming) error {
	if in.Name != link.Hello.Name || s.Refuse != nil {
		return s.Runner.Handle(ctx, in)
	}
	s.mu.Lock()
	older, decisions := s.Runner.conn, slices.Clone(s.decisions)
	s.Runner.conn = s.conn
	s.mu.Unlock()
	if older == s.conn {
		decisions = nil
	} else if older != nil {
		_ = older.Close()
	}
	err := s.Runner.Handle(ctx, in)
	for _, e := range decisions {
		_ = s.conn.Notify(link.EventNetwork, e, nil)
	}
	return err
}

// Break breaks the connections while the runner lives.
func (r *Runner) Break() {
	r.mu.Lock()
	list := slices.Collect(maps.Keys(r.conns))
	r.mu.Unlock()
	for _, conn := range list {
		_ = conn.Close()
	}
}

// Freeze stops it, as SIGSTOP stops a process: what arrives waits, and it says nothing.
func (r *Runner) Freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen == nil {
		r.frozen = make(chan struct{})
	}
}

// Thaw lets it go on.
func (r *Runner) Thaw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen != nil {
		close(r.frozen)
		r.frozen = nil
	}
}

// Deny makes it refuse connections from now on, or take them again.
func (r *Runner) Deny(deny bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.NoDial = deny
}

// LoseAnswer breaks the connection when the next call of that name has been done, before
// it is answered.
func (r *Runner) LoseAnswer(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose = name
}

// LoseRequest breaks the connection when the next call of that name arrives, which is not
// done.
func (r *Runner) LoseRequest(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.miss = name
}

// loses reports whether this call is the one to lose.
func (r *Runner) loses(which *string, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if *which != name {
		return false
	}
	*which = ""
	return true
}

// Crash ends the runner as a fault in it would.
func (r *Runner) Crash(how string) {
	r.mu.Lock()
	if r.crash == "" {
		r.crash = how
	}
	r.mu.Unlock()
	r.exit()
}

func (r *Runner) exit() {
	r.mu.Lock()
	r.NoDial = true
	r.mu.Unlock()
	r.Break() // first: the dead do not speak
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended() {
		close(r.done)
	}
	for _, x := range r.order {
		x.cancel()
	}
}

func (r *Runner) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Done is closed when it has ended.
func (r *Runner) Done() <-chan struct{} { return r.done }

// Kill ends it at once.
func (r *Runner) Kill() { r.Crash("killed by SIGKILL") }

// Remove forgets it.
func (r *Runner) Remove(clean bool) session.Remains {
	r.mu.Lock()
	r.clean = clean
	remains := session.Remains{Cause: r.crash}
	if !clean {
		remains.Killed = r.Left
	}
	r.mu.Unlock()
	r.rt.mu.Lock()
	delete(r.rt.runners, r.id)
	r.rt.removed = append(r.rt.removed, r.id)
	r.rt.mu.Unlock()
	return remains
}

// Skew makes its reported times differ by d from now on, as if the clock had been set.
func (r *Runner) Skew(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skew = d
}

// SetOthers says whether something besides the shell runs.
func (r *Runner) SetOthers(list ...api.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.others, r.alone = list, time.Now()
}

// reportLocked is the runner's report, with the ages by its own clock.
func (r *Runner) reportLocked() link.SessionInfo {
	info := link.SessionInfo{SessionInfo: r.info}
	age := time.Since(r.born).Milliseconds()
	info.AgeMS = &age
	info.Timeouts = link.Timeouts{LifetimeS: r.created.Params.LifetimeS, IdleTimeoutS: r.created.Params.IdleTimeoutS}
	if r.info.State != api.SessionRunning && len(r.others) == 0 {
		idle := min(time.Since(r.info.LastActivity), time.Since(r.alone)).Milliseconds()
		info.IdleMS = &idle
	} else if p := r.created.Params; p.Kind == api.KindTerminal && p.IdleTimeoutS != nil {
		idle := time.Since(r.info.LastActivity).Milliseconds()
		info.IdleMS = &idle
	}
	info.CreatedAt, info.LastActivity = info.CreatedAt.Add(r.skew), info.LastActivity.Add(r.skew)
	return info
}

// detailsLocked is the report with all details.
func (r *Runner) detailsLocked() link.SessionDetails {
	info := r.reportLocked()
	d := link.SessionDetails{SessionDetails: r.details(), Ages: info.Ages}
	d.SessionInfo = info.SessionInfo
	d.Processes = r.others
	return d
}

func (r *Runner) details() api.SessionDetails {
	return api.SessionDetails{
		SessionInfo: r.info, EnvKeys: keys(r.created.Params.Env), Ephemeral: r.created.Params.Ephemeral, LingerS: r.created.Params.LingerS,
		ShellPID: 2, RunnerPID: 1, Enforcement: "memory", Limits: r.limits,
	}
}

func keys(m map[string]string) []string {
	list := []string{}
	for k := range m {
		list = append(list, k)
	}
	return list
}

func (r *Runner) execID(n int) string { return fmt.Sprintf("x-%s-%d", r.id[len("s-"):], n) }
