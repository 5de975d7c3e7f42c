// Package host is the runtime of this machine: it starts runners as processes of
// this user, finds the runners of an earlier daemon, and ends the processes that a
// dead runner has left behind.
//
// A session has a record in the state directory (package state), which survives the daemon, and a
// private directory in the runtime directory, which is in memory where possible.
package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/limits"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/state"
)

// Config configures a Runtime.
type Config struct {
	// State has the records of the sessions. The unpacked runners are beside them.
	State *state.Dir
	// RuntimeDir is where the sessions' private directories are made.
	RuntimeDir string
	// SpillDir is where output that does not fit into memory is kept, in files without a name.
	SpillDir string
	// RecordDir is the daemon's directory for recordings, which the runners write to.
	RecordDir string
	// Subreaper says that this process adopts the orphans of its sessions.
	Subreaper bool
	// Reaper starts the runners. Every other child that this process gets after New is an orphan
	// of a session.
	Reaper *process.Reaper
	Logger *slog.Logger
	// Environ is the environment of the daemon, in the form of os.Environ.
	Environ []string
	// Secrets are the paths that isolation hides from the sessions of other daemons.
	Secrets []string
	// Program is the runner to start; empty for the one that belongs to this build.
	Program string
}

// Runtime is this machine. It is safe for concurrent use.
//
// Goroutines: one for each runner that an earlier daemon started, until that ends;
// Close waits for them.
type Runtime struct {
	state      *state.Dir
	runtimeDir string
	place      session.Place
	subreaper  bool
	reaper     *process.Reaper
	log        *slog.Logger
	program    string   // of runners
	environ    []string // of runners
	secrets    []string // of runners whose owner is another daemon
	cgroups    string   // the directory in which runners make their groups; "" without
	limits     []string // the directories of cgroup v1 in which they make groups with limits

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	watches sync.WaitGroup

	// forking is read-locked while a child is started and not yet in runners, so that sweep, which
	// locks it, can tell our children from orphans.
	forking sync.RWMutex
	mu      sync.Mutex
	runners map[int]bool // guarded by mu; children that Spawn started, by pid
	older   map[int]bool // children that this process had before New; they are left alone
}

var _ session.Runtime = (*Runtime)(nil)

// New prepares the runtime directory and the program of the runner.
func New(c Config) (*Runtime, error) {
	rt := &Runtime{
		state: c.State, runtimeDir: c.RuntimeDir, reaper: c.Reaper, log: c.Logger,
		place: session.Place{
			Info: api.PlaceInfo{Kind: api.PlaceHost, OS: runtime.GOOS, Arch: runtime.GOARCH},
			Env:  baseEnv(c.Environ), SpillDir: c.SpillDir, RecordDir: c.RecordDir,
		},
		subreaper: c.Subreaper, environ: runnerEnviron(c.Environ), secrets: c.Secrets,
		runners: map[int]bool{}, older: map[int]bool{},
	}
	rt.ctx, rt.stop = context.WithCancel(context.Background())
	for _, pid := range process.Children(os.Getpid()) {
		rt.older[pid] = true
	}
	if err := rt.prepare(c.Program); err != nil {
		return nil, err
	}
	return rt, nil
}

func (rt *Runtime) prepare(runner string) (err error) {
	if err := config.MakePrivate(rt.runtimeDir); err != nil {
		return fmt.Errorf("runtime_dir: %w", err)
	}
	if rt.program, err = findProgram(runner, rt.state.Path(), rt.log); err != nil {
		return err
	}
	rt.cgroups, rt.limits = process.CgroupRoot(), limits.Roots()
	return nil
}

// name is the name of this runtime on the wire and in records.
const name = "host"

// Name returns "host".
func (rt *Runtime) Name() string { return name }

// Kinds returns the one kind of this machine.
func (rt *Runtime) Kinds() []api.PlaceKind { return []api.PlaceKind{api.PlaceHost} }

// Check reports what this machine allows.
func (rt *Runtime) Check(_ context.Context, t session.Target) api.RuntimeCheckResult {
	return api.RuntimeCheckResult{
		Runtime: t.Word, Kind: api.PlaceHost, Reachable: true, OS: runtime.GOOS, Arch: runtime.GOARCH, Enforced: rt.Capabilities(),
	}
}

// Capabilities returns what this machine allows.
func (rt *Runtime) Capabilities() []string {
	list := []string{}
	if rt.subreaper {
		list = append(list, "subreaper")
	}
	if rt.cgroups != "" {
		list = append(list, "cgroup.kill")
	}
	return list
}

// Close stops watching the runners, which stay alive.
func (rt *Runtime) Close() {
	rt.stop()
	rt.watches.Wait()
}

// Spawn starts a child of the daemon, which sweep spares until Forget.
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

// Forget must be called when a process that Spawn started has been reaped.
func (rt *Runtime) Forget(pid int) {
	rt.mu.Lock()
	delete(rt.runners, pid)
	rt.mu.Unlock()
}

// sweep ends every child of this process that is neither in runners nor in older, nor was left behind
// by a helper of the daemon: an orphan that this process adopted when its runner died.
func (rt *Runtime) sweep() []process.Killed {
	rt.forking.Lock()
	defer rt.forking.Unlock()
	self := os.Getpid()
	spared := func(pid int) bool {
		rt.mu.Lock()
		ours := rt.runners[pid] || rt.older[pid]
		rt.mu.Unlock()
		return ours || process.IsHelper(pid)
	}
	orphans := false
	for _, pid := range process.Children(self) {
		if info, ok := process.Stat(pid); !spared(pid) && ok && !info.Ended() {
			orphans = true
		}
	}
	if !orphans {
		return nil
	}
	return process.KillTree(self, syscall.SIGKILL, 0, func(i process.Info) bool { return i.PPID == self && spared(i.PID) })
}

// daemonOnly are the variables that are about the daemon itself.
var daemonOnly = map[string]bool{
	"NOTIFY_SOCKET": true, "INVOCATION_ID": true, "JOURNAL_STREAM": true, "WATCHDOG_PID": true, "WATCHDOG_USEC": true,
	"OLDPWD": true, "PWD": true, "SHLVL": true, "_": true, "GORACE": true, "GOCOVERDIR": true,
}

// daemonPrefixes begin further ones. Those of OpenTelemetry may have the key of a collector.
var daemonPrefixes = []string{"TRL_", "LISTEN_", "OTEL_EXPORTER_"}

// baseEnv derives the environment that sessions begin with from the daemon's.
func baseEnv(environ []string) map[string]string {
	env := map[string]string{}
	for _, kv := range environ {
		key, value, ok := strings.Cut(kv, "=")
		if ok && key != "" && !daemonOnly[key] && !slices.ContainsFunc(daemonPrefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
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

// runnerEnviron returns the environment of a runner; that of its session comes over the link.
func runnerEnviron(environ []string) []string {
	keep := map[string]bool{"PATH": true, "HOME": true, "GORACE": true, "GOCOVERDIR": true, process.ScanVariable: true}
	// With this the Go runtime of a runner allocates for one processor only, which saves 0.2 MB in
	// every session.
	env := []string{"GOMAXPROCS=1"}
	for _, kv := range environ {
		if key, _, _ := strings.Cut(kv, "="); keep[key] {
			env = append(env, kv)
		}
	}
	return env
}

// guestEnviron returns the environment of a runner that passes the environment of this machine on to
// its session.
func (rt *Runtime) guestEnviron() []string {
	var env []string
	for key, value := range rt.place.Env {
		env = append(env, key+"="+value)
	}
	for _, kv := range rt.environ {
		if key, _, _ := strings.Cut(kv, "="); key != "GOMAXPROCS" && rt.place.Env[key] == "" {
			env = append(env, kv)
		}
	}
	return env
}

// Recover finds the runners of earlier daemons by their records.
func (rt *Runtime) Recover(ctx context.Context) ([]session.Runner, error) {
	records, err := state.Records(rt.state, name, checkRecord)
	if err != nil {
		return nil, err
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
