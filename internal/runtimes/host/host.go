// Package host is the runtime of this machine: it starts runners as processes of
// this user, finds the runners of an earlier daemon, and ends the processes that a
// dead runner has left behind.
//
// A session has a record in the state directory, which survives the daemon, and a
// private directory in the runtime directory, which is in memory where possible.
package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/place"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/session"
)

// Config is what a Runtime needs.
type Config struct {
	// StateDir is where records are kept. One Runtime at a time uses it.
	StateDir string
	// RuntimeDir is where the sessions' private directories are made.
	RuntimeDir string
	// Socket is where the daemon listens, "" if it does not. The lock of the state
	// directory says so to clients.
	Socket string
	// Reaper starts the runners. This process has no children that it did not start,
	// but for those it has when New is called and orphans.
	Reaper *process.Reaper
	Logger *slog.Logger
	// Environ is the environment of the daemon, in the form of os.Environ.
	Environ []string
	// Program is the runner to start; empty for the one that belongs to this build.
	Program string
}

// Runtime is this machine. It is safe for concurrent use.
//
// Goroutines: one for each runner that an earlier daemon started, until that ends;
// Close waits for them.
type Runtime struct {
	stateDir   string
	runtimeDir string
	reaper     *process.Reaper
	log        *slog.Logger
	program    program
	baseEnv    map[string]string
	environ    []string // of runners
	lock       *place.Lock
	cgroups    string // the directory in which runners make their groups; "" without

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	watches sync.WaitGroup

	// forking is held shared while a child is started and not yet known, so that
	// who holds it alone can tell our runners from orphans.
	forking sync.RWMutex
	mu      sync.Mutex
	runners map[int]bool // guarded by mu; children that we started, by pid
	older   map[int]bool // children from before, which are none of our business
}

var _ session.Runtime = (*Runtime)(nil)

// New prepares the directories and takes the lock of the state directory.
func New(c Config) (*Runtime, error) {
	rt := &Runtime{
		stateDir: c.StateDir, runtimeDir: c.RuntimeDir, reaper: c.Reaper, log: c.Logger,
		baseEnv: baseEnv(c.Environ), environ: runnerEnviron(c.Environ),
		runners: map[int]bool{}, older: map[int]bool{},
	}
	rt.ctx, rt.stop = context.WithCancel(context.Background())
	for _, pid := range process.Children(os.Getpid()) {
		rt.older[pid] = true
	}
	if err := makeStateDir(c.StateDir); err != nil {
		return nil, fmt.Errorf("state_dir: %w", err)
	}
	lock, err := place.TakeLock(c.StateDir, c.Socket)
	if err != nil {
		return nil, fmt.Errorf("state_dir %s: %w", c.StateDir, err)
	}
	rt.lock = lock
	if err := rt.prepare(c.Program); err != nil {
		lock.Release()
		return nil, err
	}
	return rt, nil
}

func (rt *Runtime) prepare(runner string) (err error) {
	if err := os.Mkdir(rt.recordDir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("state_dir: %w", err)
	}
	if err := config.MakePrivate(rt.runtimeDir); err != nil {
		return fmt.Errorf("runtime_dir: %w", err)
	}
	if rt.program, err = findProgram(runner, rt.stateDir, rt.log); err != nil {
		return err
	}
	// A runner makes its own group, below the same one as we would.
	if probe, err := process.NewCgroup(fmt.Sprintf("probe-%d", os.Getpid())); err == nil {
		rt.cgroups = filepath.Dir(probe.Path())
		_ = probe.Remove()
		probe.Close()
	}
	return nil
}

// Name is "host".
func (rt *Runtime) Name() string { return "host" }

// BaseEnv is the environment of the daemon, without what is the daemon's own.
func (rt *Runtime) BaseEnv() map[string]string { return rt.baseEnv }

// Cgroups reports whether sessions have cgroups of their own here.
func (rt *Runtime) Cgroups() bool { return rt.cgroups != "" }

// Listens tells clients that the daemon listens at another path from now on.
func (rt *Runtime) Listens(socket string) { rt.lock.Listens(socket) }

// Stopping tells a daemon that wants the state directory that it will be free soon.
func (rt *Runtime) Stopping() { rt.lock.Stopping() }

// Close gives the state directory back. Runners that live stay alive.
func (rt *Runtime) Close() {
	rt.stop()
	rt.watches.Wait()
	rt.lock.Release()
}

// Spawn starts a process of the daemon's own: sweep leaves it alone, until Forget.
func (rt *Runtime) Spawn(spec process.Spec) (*process.Process, error) {
	rt.forking.RLock()
	defer rt.forking.RUnlock()
	p, err := rt.reaper.Start(spec)
	if err != nil {
		return nil, err
	}
	rt.mu.Lock()
	rt.runners[p.PID] = true
	rt.mu.Unlock()
	return p, nil
}

// Forget is called when such a process has been reaped.
func (rt *Runtime) Forget(pid int) {
	rt.mu.Lock()
	delete(rt.runners, pid)
	rt.mu.Unlock()
}

// sweep ends every child of this process that is neither a runner nor from before:
// an orphan that was handed to us when its runner died.
func (rt *Runtime) sweep() []process.Killed {
	rt.forking.Lock()
	defer rt.forking.Unlock()
	self := os.Getpid()
	mine := func(pid int) bool {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		return rt.runners[pid] || rt.older[pid]
	}
	orphans := false
	for _, pid := range process.Children(self) {
		if info, ok := process.Stat(pid); !mine(pid) && ok && !info.Ended() {
			orphans = true
		}
	}
	if !orphans {
		return nil
	}
	return process.KillTree(self, syscall.SIGKILL, 0, func(i process.Info) bool { return i.PPID == self && mine(i.PID) })
}

// daemonOnly are the variables that say something about the daemon itself.
var daemonOnly = map[string]bool{
	"NOTIFY_SOCKET": true, "INVOCATION_ID": true, "JOURNAL_STREAM": true, "WATCHDOG_PID": true, "WATCHDOG_USEC": true,
	"OLDPWD": true, "PWD": true, "SHLVL": true, "_": true, "GORACE": true, "GOCOVERDIR": true,
}

// baseEnv makes what sessions begin with out of the daemon's environment.
func baseEnv(environ []string) map[string]string {
	env := map[string]string{}
	for _, kv := range environ {
		key, value, ok := strings.Cut(kv, "=")
		if ok && key != "" && !daemonOnly[key] && !strings.HasPrefix(key, "TRL_") && !strings.HasPrefix(key, "LISTEN_") {
			env[key] = value
		}
	}
	if env["PATH"] == "" {
		env["PATH"] = defaultPath
	}
	// The daemon's terminal is not the sessions'.
	env["TERM"] = "dumb"
	return env
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// runnerEnviron is what a runner itself needs; that of its session comes over the link.
func runnerEnviron(environ []string) []string {
	keep := map[string]bool{"PATH": true, "HOME": true, "GORACE": true, "GOCOVERDIR": true, process.ScanVariable: true}
	// Told at its start, the Go runtime of a runner makes room for one processor only, and
	// need not look how many there are: that is 0.2 MB of every session.
	env := []string{"GOMAXPROCS=1"}
	for _, kv := range environ {
		if key, _, _ := strings.Cut(kv, "="); keep[key] {
			env = append(env, kv)
		}
	}
	return env
}

// Recover finds the runners of earlier daemons by their records.
func (rt *Runtime) Recover(ctx context.Context) ([]session.Runner, error) {
	records, err := rt.readRecords()
	if err != nil {
		return nil, fmt.Errorf("state_dir: %w", err)
	}
	var alive []session.Runner
	var dead sync.WaitGroup
	boot := process.BootID()
	for _, rec := range records {
		if ctx.Err() != nil {
			break
		}
		r := &runner{rt: rt, rec: rec, info: process.Info{PID: rec.RunnerPID, StartTime: rec.RunnerStart}}
		if rec.BootID != boot {
			rt.log.Info("removed a session from before the last boot", "session_id", rec.SessionID)
			r.removeFiles()
			continue
		}
		if r.adopt() {
			alive = append(alive, r)
			continue
		}
		dead.Go(func() {
			remains := r.Remove(false)
			rt.log.Warn("removed a session of an earlier daemon, because its runner has exited",
				"session_id", rec.SessionID, "cause", remains.Cause, "killed", len(remains.Killed))
		})
	}
	dead.Wait()
	return alive, ctx.Err()
}
