// Package runner is the process that owns one session: its shell and commands, or its one
// program, with their output, timeouts, signals and child processes. It is small and
// outlives the daemon; one daemon after another connects to its socket.
package runner

import (
	"cmp"
	"context"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/isolation"
	"github.com/trl-dev/trl/internal/limits"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/recent"
	"github.com/trl-dev/trl/internal/shell"
)

// Config is what a Runner needs.
type Config struct {
	SessionID string
	Dir       string // private directory of the session
	Version   string
	Subreaper bool // the kernel makes orphans children of this process
	// BaseEnv and StartDir are the environment and the directory that a session begins with, and
	// SpillDir the directory for output that does not fit into memory, if the daemon does not know
	// them because the place is not its own machine.
	BaseEnv  map[string]string
	StartDir string
	SpillDir string
	// Secrets are the paths there that isolation hides, beside those of link.CreateParams.
	Secrets []string
	// Program is the path of this program, if isolation should hide it.
	Program string
	// Start starts a process on the thread whose children are watched.
	Start func(process.Spec) (*process.Process, error)
	// Exit ends the runner process.
	Exit func(code int)
}

// Runner owns one session. Its goroutines: those of the link's requests, one per
// command started without a waiting caller, one per argv command, that of a program, the Drainer's, that of
// reportSoon, and timers; all end with the process.
type Runner struct {
	cfg     Config
	calls   []link.Route
	drainer *shell.Drainer
	store   *output.Store // of all output
	cgroup  *process.Cgroup
	group   *limits.Group // what limits its processes; set by create
	bounds  bounds
	// isolation is what the processes may touch; set by create, never changed.
	isolation isolation.Plan
	network   *network // set by create, for isolation with network allow
	// strays finds processes of the session, started since then, that are no longer below the
	// runner; nil where the runner is a subreaper.
	strays    func(since uint64) []process.Info
	startTime uint64 // of this process

	// shellTurn is a lock for the use of the shell: by a command, a checkpoint, the end. It is
	// taken by lockShell, before mu.
	shellTurn chan struct{}
	// create sets shell, or program for a session of another kind.
	shell   *shell.Shell // used with shellTurn only, apart from Wake and PID; nil without a shell
	program *program
	at      place // of argv commands; never changed after create
	besides besides

	// reportMu orders the reports to the daemon.
	reportMu   sync.Mutex
	events     execEvents   // not reported yet
	reportsDue atomic.Int64 // calls of reportSoon since its goroutine last reported

	mu         sync.Mutex
	daemon     *peer               // guarded by mu; nil without a daemon
	conn       *link.Conn          // guarded by mu; the daemon's connection
	key        string              // guarded by mu; the key of its daemons; empty if they have none
	created    bool                // guarded by mu
	unwanted   bool                // guarded by mu; no daemon will fetch the remains: the runner waits for none
	state      api.SessionState    // guarded by mu, written by toLocked only
	params     link.CreateParams   // guarded by mu until created
	found      shell.Program       // like params; the shell, where there is one
	cwd        string              // guarded by mu
	activity   time.Time           // guarded by mu
	born       time.Time           // guarded by mu
	others     bool                // guarded by mu; other processes than the shell ran at the last check
	alone      time.Time           // guarded by mu; when a check first found none again
	commands   int64               // guarded by mu
	restarts   int64               // guarded by mu
	outcome    *api.ExecOutcome    // guarded by mu; the outcome of the ended program of a terminal or program session
	cause      string              // guarded by mu
	endedAt    time.Time           // guarded by mu
	current    *Exec               // guarded by mu
	queue      []*Exec             // guarded by mu
	parallel   []*Exec             // guarded by mu; the argv commands that run
	waiting    []*Exec             // guarded by mu; those that wait for one of them to end
	groups     []commandGroup      // guarded by mu; of ended commands, until they are empty
	execs      map[string]*Exec    // guarded by mu
	order      []*Exec             // guarded by mu; oldest first
	runs       *recent.Map[string] // guarded by mu; the ids of commands by run id
	kept       int64               // guarded by mu; bytes of output of the ended commands in order
	ending     *ending             // guarded by mu; set once the session is being destroyed
	fetch      *fetch              // guarded by mu; the export that the daemon fetches; nil for none
	recording  *recording          // guarded by mu until created; nil for none
	wanted     bool                // guarded by mu; a daemon has asked for an export and does not have all of it
	loneTimer  *time.Timer         // guarded by mu; runs without a daemon
	quietTimer *time.Timer         // guarded by mu; checkpoints and returns memory when the session is quiet

	memory struct {
		sync.Mutex
		kept int64 // what the runner took after the last return of memory; 0 before the first
	}
}

// New makes a Runner. It does nothing until a daemon calls Create.
func New(cfg Config) (*Runner, error) {
	d, err := shell.NewDrainer()
	if err != nil {
		return nil, err
	}
	r := &Runner{
		cfg: cfg, drainer: d, store: output.NewStore(output.StoreConfig{}), shellTurn: make(chan struct{}, 1),
		state: api.SessionCreating, execs: map[string]*Exec{}, runs: recent.New[string](runsKept),
	}
	r.besides.leaders = map[int]*beside{}
	r.calls = r.routes()
	if !cfg.Subreaper {
		self, _ := process.Stat(os.Getpid())
		r.startTime = self.StartTime
		r.strays = func(since uint64) []process.Info {
			return process.Strays(api.SessionMarker, cfg.SessionID, max(since, r.startTime))
		}
	}
	return r, nil
}

// toLocked moves the session to another state. An illegal move is an error and changes nothing.
func (r *Runner) toLocked(next api.SessionState, cause string) error {
	if !r.state.CanBecome(next) {
		return api.Errorf(api.CodeInternal, "session %q: cannot go from %s to %s", r.cfg.SessionID, r.state, next)
	}
	r.state = next
	r.activity = time.Now()
	if r.born.IsZero() {
		r.born = r.activity
	}
	if next == api.SessionTerminated {
		r.cause, r.endedAt = cause, r.activity
	}
	return nil
}

// Info returns a snapshot of the session.
func (r *Runner) Info() api.SessionInfo {
	r.mu.Lock()
	info, p := r.infoLocked(), r.program
	r.mu.Unlock()
	if p != nil {
		p.describe(&info)
	}
	return info
}

// infoLocked is Info without the state of the program.
func (r *Runner) infoLocked() api.SessionInfo {
	p := r.params.Params
	info := api.SessionInfo{
		SessionID: r.cfg.SessionID, Name: p.Name, Kind: r.kindLocked(), Runtime: cmp.Or(r.params.Runtime, "host"), Shell: r.found.Path, ShellFamily: string(r.found.Family),
		WorkingDir: r.cwd, State: r.state, CreatedAt: r.params.CreatedAt.UTC(), LastActivity: r.activity.UTC(), CommandCount: r.commands, Parallel: len(r.parallel),
		TimeoutS: r.sessionTimeoutLocked(), OutputBytes: r.store.Kept(), Tags: p.Tags, Cause: r.cause,
	}
	if info.Tags == nil {
		info.Tags = []string{}
	}
	if r.current != nil {
		info.ExecID = r.current.ID
	}
	if r.outcome != nil {
		info.ExitCode, info.Signal = &r.outcome.ExitCode, r.outcome.Signal
	}
	if !r.endedAt.IsZero() {
		t := r.endedAt.UTC()
		info.TerminatedAt = &t
	}
	return info
}

// set changes the name, the tags and the limits of the session.
func (r *Runner) set(_ context.Context, p *link.SetParams) (*link.SetResult, error) {
	r.bounds.changing.Lock() // a later call, such as one that only asks, gets the outcome of this one
	defer r.bounds.changing.Unlock()
	if p.Limits != nil {
		if !r.isCreated() {
			return nil, api.Errorf(api.CodeInternal, "session %q: not created", r.cfg.SessionID)
		}
		if err := r.changeLocked(*p); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	if p.Name != nil {
		r.params.Params.Name = *p.Name
	}
	if p.Tags != nil {
		r.params.Params.Tags = *p.Tags
	}
	if p.LifetimeS != nil {
		r.params.Params.LifetimeS = p.LifetimeS
	}
	if p.IdleTimeoutS != nil {
		r.params.Params.IdleTimeoutS = p.IdleTimeoutS
	}
	r.mu.Unlock()
	return &link.SetResult{SessionInfo: link.SessionInfo{SessionInfo: r.Info(), Ages: r.ages()}, Enforced: p.Enforced}, nil
}

// ages returns how old the session is and for how long it has been idle.
func (r *Runner) ages() link.Ages {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := time.Since(r.born).Milliseconds()
	p := r.params.Params
	a := link.Ages{AgeMS: &age, Timeouts: link.Timeouts{LifetimeS: p.LifetimeS, IdleTimeoutS: p.IdleTimeoutS}}
	if r.program != nil && r.state != api.SessionTerminated {
		if p.IdleTimeoutS != nil {
			idle := time.Since(r.program.activity()).Milliseconds()
			a.IdleMS = &idle
		}
		return a
	}
	if used := r.current != nil || len(r.queue) > 0 || len(r.parallel) > 0 || r.others; !used || r.state == api.SessionTerminated {
		idle := min(time.Since(r.activity), time.Since(r.alone)).Milliseconds()
		a.IdleMS = &idle
	}
	return a
}

// noteOthers notes whether other processes than the shell run. It reports whether that changed.
func (r *Runner) noteOthers(others bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.others != others
	r.others = others
	if changed && !others {
		r.alone = time.Now()
	}
	return changed
}

// hasOthers looks for processes other than the shell.
func (r *Runner) hasOthers() bool {
	for _, p := range process.Descendants(os.Getpid(), nil) {
		if r.shell == nil || p.PID != r.shell.PID() {
			return true
		}
	}
	return false
}

// kindLocked is the kind of the session.
func (r *Runner) kindLocked() api.SessionKind {
	if k := r.params.Params.Kind; k != "" {
		return k
	}
	return api.KindShell
}

// labelLocked is what errors call the session: its name, or its id.
func (r *Runner) labelLocked() string {
	if name := r.params.Params.Name; name != "" {
		return name
	}
	return r.cfg.SessionID
}

func (r *Runner) sessionTimeoutLocked() float64 {
	if r.program != nil {
		return 0
	}
	if t := r.params.Params.TimeoutS; t != nil {
		return *t
	}
	return r.params.Limits.DefaultTimeoutS
}

// info is session.info.
func (r *Runner) info(context.Context, *struct{}) (*link.SessionDetails, error) {
	// The first question of a new daemon. If the answer says that the session has ended, the daemon may
	// want nothing more, so the decisions come first.
	r.reportNetwork(r.createdNetwork())
	return r.details(), nil
}

// details is Details with the ages.
func (r *Runner) details() *link.SessionDetails {
	d := r.Details()
	if d.Kind == api.KindShell {
		r.noteOthers(len(d.Processes) > 0)
	}
	return &link.SessionDetails{SessionDetails: d, Ages: r.ages()}
}

// Details returns everything that session.info reports.
func (r *Runner) Details() api.SessionDetails {
	info := r.Info()
	r.mu.Lock()
	d := api.SessionDetails{
		SessionInfo: info, EnvKeys: envKeys(r.params.Params.Env), Ephemeral: r.params.Params.Ephemeral, LingerS: r.params.Params.LingerS,
		RunnerPID: os.Getpid(), ShellRestarts: r.restarts, Queued: len(r.queue) + len(r.waiting), Processes: []api.Process{}, Enforcement: r.enforcement(), Limits: r.limitsInfo(), Isolation: r.isolationInfoLocked(),
	}
	sh, p := r.shell, r.program
	r.mu.Unlock()
	switch {
	case info.State == api.SessionTerminated:
		return d
	case sh != nil:
		d.ShellPID = sh.PID()
	case p != nil && p.Running():
		d.ShellPID = p.Process().PID
	}
	list := process.Descendants(os.Getpid(), nil)
	if r.strays != nil {
		list = append(list, r.strays(r.startTime)...)
	}
	for _, p := range list {
		if p.PID != d.ShellPID {
			d.Processes = append(d.Processes, api.Process{PID: p.PID, Command: process.CommandLine(p.PID)})
		}
	}
	return d
}

func (r *Runner) lockShell()   { r.shellTurn <- struct{}{} }
func (r *Runner) unlockShell() { <-r.shellTurn }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// signalOf returns the first signal of a cancel.
func signalOf(name string) (syscall.Signal, error) {
	if name == "" {
		return syscall.SIGTERM, nil
	}
	if sig, ok := process.ParseSignal(name); ok {
		return sig, nil
	}
	return 0, api.InvalidParam("signal", "%q is not one of TERM, INT, HUP, QUIT, KILL, USR1, USR2", name)
}
