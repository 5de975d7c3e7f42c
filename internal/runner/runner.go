// Package runner is the process that owns one session: its shell, its commands
// and their output, time-outs, signals, and everything they start. It is small
// and outlives the daemon; daemons come and go on its socket.
package runner

import (
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/shell"
)

// Config says what a Runner is made of.
type Config struct {
	SessionID string
	Dir       string // private directory of the session
	Version   string
	Subreaper bool // orphans come to this process
	// Start starts a process on the thread whose children are watched.
	Start func(process.Spec) (*process.Process, error)
	// Exit ends the runner process.
	Exit func(code int)
}

// Runner owns one session. Its goroutines: those of the link's requests, one per
// command started without a waiting caller, the Drainer's, those that tell the daemon
// what the Drainer saw, and timers; all end with the process.
type Runner struct {
	cfg     Config
	drainer *shell.Drainer
	store   *output.Store // of all output
	cgroup  *process.Cgroup

	// shellTurn is held by whoever uses the shell: a command, a checkpoint, the end.
	shellTurn chan struct{}
	shell     *shell.Shell // set by create; used with shellTurn only, apart from Wake and PID

	// tellMu orders what is told to the daemon.
	tellMu sync.Mutex
	news   news // what is still to be told of execs

	mu         sync.Mutex
	conn       *link.Conn        // guarded by mu; the newest
	created    bool              // guarded by mu
	state      api.SessionState  // guarded by mu, written by to only
	params     link.CreateParams // guarded by mu until created
	program    shell.Program     // like params
	cwd        string            // guarded by mu
	activity   time.Time         // guarded by mu
	commands   int64             // guarded by mu
	restarts   int64             // guarded by mu
	cause      string            // guarded by mu
	endedAt    time.Time         // guarded by mu
	current    *Exec             // guarded by mu
	queue      []*Exec           // guarded by mu
	execs      map[string]*Exec  // guarded by mu
	order      []*Exec           // guarded by mu; oldest first
	kept       int64             // guarded by mu; memory of the output of the commands in order that have ended
	ending     *ending           // guarded by mu; set once the session is being destroyed
	export     *export           // guarded by mu; what a daemon fetches of it
	wanted     bool              // guarded by mu; a daemon has asked for an export and has not got all of it
	loneTimer  *time.Timer       // guarded by mu; runs while no daemon is there
	quietTimer *time.Timer       // guarded by mu; checkpoint and memory when nothing happens
}

// New makes a Runner. It does nothing until a daemon says create.
func New(cfg Config) (*Runner, error) {
	d, err := shell.NewDrainer()
	if err != nil {
		return nil, err
	}
	return &Runner{
		cfg: cfg, drainer: d, store: output.NewStore(output.StoreConfig{}), shellTurn: make(chan struct{}, 1),
		state: api.SessionCreating, execs: map[string]*Exec{},
	}, nil
}

// to moves the session to another state. An illegal move is refused. Call with mu held.
func (r *Runner) to(next api.SessionState, cause string) error {
	if !r.state.CanBecome(next) {
		return api.Errorf(api.CodeInternal, "session %q: cannot go from %s to %s", r.cfg.SessionID, r.state, next)
	}
	r.state = next
	r.activity = time.Now()
	if next == api.SessionTerminated {
		r.cause, r.endedAt = cause, r.activity
	}
	return nil
}

// create starts the session. It has the shell's turn: whoever ends the session
// meanwhile waits, and finds what there is to end.
func (r *Runner) create(p link.CreateParams) (api.SessionDetails, error) {
	r.lockShell()
	defer r.unlockShell()
	env, path := environment(p)
	cwd := p.Params.WorkingDir
	if cwd == "" {
		cwd = envValue(env, "HOME")
	}
	if cwd == "" {
		cwd = "/"
	}
	if fi, err := os.Stat(cwd); err != nil || !fi.IsDir() {
		if p.Params.WorkingDir != "" {
			return api.SessionDetails{}, api.Errorf(api.CodeInvalidParams, "params.working_dir: %q is not a directory", cwd)
		}
		cwd = "/"
	}
	program, err := shell.Find(p.Params.Shell, path, cwd)
	if err != nil {
		return api.SessionDetails{}, err
	}
	cgroupFD := 0
	if r.cgroup, err = process.NewCgroup(p.SessionID); err == nil {
		cgroupFD = r.cgroup.FD()
	}
	sh, err := shell.Start(shell.Config{
		Program: program, Dir: r.cfg.Dir + "/sh", Env: env, WorkingDir: cwd, Login: p.Params.Login, RC: p.Params.RC,
		StartTimeout: seconds(p.Limits.ShellStartTimeout), Start: r.cfg.Start, CgroupFD: cgroupFD,
	})
	if err != nil {
		return api.SessionDetails{}, err
	}
	r.mu.Lock()
	r.store = r.newStore(p.Limits)
	r.shell, r.params, r.program, r.cwd, r.created = sh, p, program, sh.WorkingDir(), true
	err = r.to(api.SessionIdle, "")
	r.mu.Unlock()
	if err != nil {
		return api.SessionDetails{}, err
	}
	r.scheduleQuiet()
	return r.Details(), nil
}

// Info is a snapshot.
func (r *Runner) Info() api.SessionInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.infoLocked()
}

func (r *Runner) infoLocked() api.SessionInfo {
	p := r.params.Params
	info := api.SessionInfo{
		SessionID: r.cfg.SessionID, Name: p.Name, Kind: "shell", Runtime: "host", Shell: r.program.Path, ShellFamily: string(r.program.Family),
		WorkingDir: r.cwd, State: r.state, CreatedAt: r.params.CreatedAt.UTC(), LastActivity: r.activity.UTC(), CommandCount: r.commands,
		TimeoutS: r.sessionTimeout(), OutputBytes: r.store.Kept(), Tags: p.Tags, Cause: r.cause,
	}
	if info.Tags == nil {
		info.Tags = []string{}
	}
	if r.current != nil {
		info.ExecID = r.current.id
	}
	if !r.endedAt.IsZero() {
		t := r.endedAt.UTC()
		info.TerminatedAt = &t
	}
	return info
}

func (r *Runner) sessionTimeout() float64 {
	if t := r.params.Params.TimeoutS; t != nil {
		return *t
	}
	return r.params.Limits.DefaultTimeoutS
}

// Details is everything session.info tells.
func (r *Runner) Details() api.SessionDetails {
	r.mu.Lock()
	d := api.SessionDetails{
		SessionInfo: r.infoLocked(), EnvKeys: envKeys(r.params.Params.Env), Ephemeral: r.params.Params.Ephemeral,
		RunnerPID: os.Getpid(), ShellRestarts: r.restarts, Queued: len(r.queue), Processes: []api.Process{}, Enforcement: r.enforcement(),
	}
	sh, ended := r.shell, r.state == api.SessionTerminated
	r.mu.Unlock()
	if sh == nil || ended {
		return d
	}
	d.ShellPID = sh.PID()
	for _, p := range process.Descendants(os.Getpid(), nil) {
		if p.PID != d.ShellPID {
			d.Processes = append(d.Processes, api.Process{PID: p.PID, Command: process.CommandLine(p.PID)})
		}
	}
	return d
}

func (r *Runner) lockShell()   { r.shellTurn <- struct{}{} }
func (r *Runner) unlockShell() { <-r.shellTurn }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// signalOf is the first signal of a cancel.
func signalOf(name string) (syscall.Signal, error) {
	if name == "" {
		return syscall.SIGTERM, nil
	}
	if sig, ok := process.ParseSignal(name); ok {
		return sig, nil
	}
	return 0, api.Errorf(api.CodeInvalidParams, "params.signal: %q is not one of TERM, INT, HUP, QUIT, KILL, USR1, USR2", name)
}
