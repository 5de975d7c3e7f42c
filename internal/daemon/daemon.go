// Package daemon builds the parts of the daemon from the configuration, starts them
// in order and stops them in reverse.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/archive"
	"github.com/trl-dev/trl/internal/audit"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/dialogue"
	"github.com/trl-dev/trl/internal/hook"
	"github.com/trl-dev/trl/internal/journal"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/login"
	"github.com/trl-dev/trl/internal/logring"
	"github.com/trl-dev/trl/internal/place"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runtimes"
	"github.com/trl-dev/trl/internal/runtimes/host"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/service"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/state"
	"github.com/trl-dev/trl/internal/trace"
	"github.com/trl-dev/trl/internal/version"
)

// answerTimeout is how long clients may take to read their last answers.
const answerTimeout = 5 * time.Second

// spareThreads is how many files the daemon can wait for at the same time without starting another
// thread. Sockets and runners need none.
const spareThreads = 24

// Options are the caller's choices beside the configuration.
type Options struct {
	Logger *slog.Logger
	// Stdio serves one client on Stdin and Stdout. The end of Stdin ends the daemon.
	// There is no socket then, unless a flag names one.
	Stdio  bool
	Stdin  io.ReadCloser
	Stdout io.WriteCloser
	// ReadyFD is a descriptor to which the daemon writes "ready" when it serves; 0 for none. The
	// daemon closes it then, or when it fails to start.
	ReadyFD int
}

// daemon has the parts of the daemon, in the order in which they are started.
type daemon struct {
	config config.Config
	o      Options
	log    *slog.Logger  // also keeps what it writes in recent
	recent *logring.Ring // for system.log
	ready  *os.File
	// executable is the path that this program was started from. The file may have been replaced.
	executable string
	replace    chan replacement
	manager    string // the socket of the service manager to which the daemon reports, see notify; "" for none

	memory memory
	quiet  quiet // returns memory

	listener *server.Listener              // nil without a socket
	tokens   atomic.Pointer[server.Tokens] // nil before the first front
	logins   *login.Store
	audit    *audit.Log    // nil if it is off
	hook     *hook.Hook    // nil if none is configured
	traces   *trace.Tracer // nil if they are off
	reaper   *process.Reaper
	state    *state.Dir
	runtime  *host.Runtime
	runtimes []session.Runtime // the host first
	remotes  []*remote.Runtime // the runtimes other than the host
	id       string            // of this daemon, for others; it outlives the daemon
	places   *runtimes.Table
	keys     []byte // of archived sessions, from the program before this one
	archive  *archive.Archive
	registry *session.Registry
	talks    *dialogue.Registry
	plain    *service.Service // whose calls are not recorded
	service  api.Service
	server   *server.Server
	ends     chan ending // why the daemon must end; the first reason counts

	switching sync.Mutex // held while a front is turned on or off
	// frontsMu guards the fields below it once the daemon serves.
	frontsMu    sync.Mutex
	fronts      []*front
	frontsFinal bool // the daemon ends, or hands the fronts over
	// chosen has the addresses of fronts that were turned on or off by hand, by the name of the
	// front; "" for off. The program after this one gets it.
	chosen map[string]string
}

// ending is why the daemon ends.
type ending struct {
	why string
	err error
}

// ErrRunning is the error of Run when another daemon has the socket.
var ErrRunning = server.ErrRunning

// Run runs the daemon until ctx ends, its client on stdio has closed the connection, or it has been
// idle for auto_exit_s. Then it ends all sessions, unless keep_sessions is set; meanwhile SIGTERM
// or SIGINT makes it skip the grace time. Nothing else in this process may start children.
func Run(ctx context.Context, c config.Config, o Options) error {
	d := &daemon{config: c, o: o, recent: logring.New(), replace: make(chan replacement, 1), ends: make(chan ending, 1), chosen: map[string]string{}}
	d.quiet.then = d.memory.giveBackWaste
	defer d.quiet.stop()
	d.log = slog.New(d.recent.Handler(o.Logger.Handler()))
	d.executable, _ = os.Executable()
	d.manager = os.Getenv(notifyVariable)
	for _, name := range []string{notifyVariable, "TRACEPARENT", "TRACESTATE"} {
		os.Unsetenv(name) // not for our children
	}
	if o.ReadyFD > 0 {
		d.ready = os.NewFile(uintptr(o.ReadyFD), "ready")
	}
	defer d.tellReady("")
	process.Sanitize()
	// The reader of the log or of the answers may exit first, and the sessions must be ended all
	// the same. The signal is caught, not ignored, because children would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	process.ReserveThreads(spareThreads + runtime.GOMAXPROCS(0))
	// The daemon keeps little and passes much through: without this the garbage collector would
	// run for every few megabytes of output, and take half of the time. The slice counts as
	// allocated, but it is never touched, so it takes no memory.
	headroom := make([]byte, 32<<20)
	defer runtime.KeepAlive(headroom)
	for _, note := range c.Notes() {
		d.log.Warn(note)
	}
	if err := d.listen(); err != nil {
		return err
	}
	if d.listener != nil {
		defer d.listener.Close()
	}
	defer d.closeFronts()
	d.reaper = process.NewReaper()
	defer d.reaper.Close()
	slot, err := d.openState()
	if err != nil {
		return err
	}
	defer d.state.Close()
	d.runtime, err = host.New(host.Config{
		State: d.state, RuntimeDir: d.config.RuntimeDir, SpillDir: d.spillDir(), RecordDir: d.recordingsDir(),
		Subreaper: process.BecomeSubreaper(), Reaper: d.reaper, Logger: d.log, Environ: os.Environ(), Secrets: secrets(d.config),
	})
	if err != nil {
		return err
	}
	defer d.runtime.Close()
	defer d.closeRuntimes() // first: they have children that the runtime of this machine knows
	if err := d.openRuntimes(); err != nil {
		return err
	}
	if len(d.fronts) > 0 {
		if err := d.openTokens(); err != nil {
			return err
		}
	}
	if err := d.openLogins(); err != nil {
		return err
	}
	if d.archive, err = d.openArchive(); err != nil {
		return err
	}
	events, err := journal.Open(filepath.Join(d.state.Path(), "events.jsonl"), d.log)
	if err != nil {
		return err
	}
	d.registry = d.newRegistry(events)
	if err = d.openHook(); err != nil {
		return err
	}
	defer d.closeHook()
	d.talks = d.newDialogues()
	if err = d.openAudit(); err != nil {
		return err
	}
	defer d.closeAudit()
	if err = d.openTraces(); err != nil {
		return err
	}
	defer d.closeTraces()
	d.newServer()
	if err = d.startFronts(); err == nil {
		err = d.registry.Recover(ctx, slot)
	}
	if err == nil {
		err = d.talks.Recover(ctx)
	}
	if err != nil && ctx.Err() == nil {
		d.talks.Leave()
		d.registry.Leave()
		_ = d.server.Shutdown(context.Background())
		d.stopFronts()
		return err
	}
	return d.serve(ctx)
}

// listen makes the socket, before anything else: the socket keeps a second daemon out.
func (d *daemon) listen() (err error) {
	given, err := inherit()
	d.keys = takeKeys(given.keys)
	maps.Copy(d.chosen, given.chosen)
	switch {
	case err != nil:
		return err
	case given.socket.Socket > 0:
		d.keepStateDir()
		d.listener, err = server.Adopt(given.socket)
	case d.o.Stdio && !strings.HasPrefix(d.config.Origin("socket"), "flag "):
	default:
		d.listener, err = server.Listen(d.config.Socket)
	}
	if err != nil {
		return err
	}
	if err = d.listenFronts(given.fronts); err != nil && d.listener != nil {
		d.listener.Close()
	}
	return err
}

// openState takes the state directory. A daemon on stdio takes a directory of its own below it,
// unless the configuration names one, so that several can run beside each other and beside the
// daemon that listens. openState reports whether it did: the sessions that are found there
// belonged to a client that has disconnected.
func (d *daemon) openState() (slot bool, err error) {
	c := state.Config{Path: d.config.StateDir, Logger: d.log}
	if d.listener != nil {
		c.Socket = d.listener.Addr().String()
	}
	if !d.o.Stdio || d.listener != nil || d.config.Origin("state_dir") != config.OriginDefault {
		d.state, err = state.Open(c)
		return false, err
	}
	const most = 1000
	for n := range most {
		c.Path = filepath.Join(d.config.StateDir, "stdio", strconv.Itoa(n))
		if d.state, err = state.Open(c); !errors.Is(err, place.ErrInUse) {
			return true, err
		}
	}
	return true, err
}

// spillDir returns the directory for output in files without a name.
func (d *daemon) spillDir() string {
	if d.config.SpillDir != "" {
		return d.config.SpillDir
	}
	return d.state.Path()
}

// openArchive finds the archived sessions.
func (d *daemon) openArchive() (*archive.Archive, error) {
	return archive.Open(archive.Config{
		Dir: filepath.Join(d.state.Path(), "past"), KeyDir: filepath.Join(d.config.RuntimeDir, "past"),
		SpillDir: d.spillDir(), Keys: d.keys, Logger: d.log,
	})
}

// chosenShell returns the configured default_shell, "" if none is configured.
func chosenShell(c config.Config) string {
	if c.Origin("default_shell") == config.OriginDefault {
		return ""
	}
	return c.DefaultShell
}

// recordingsDir returns the directory for the recordings of terminals.
func (d *daemon) recordingsDir() string { return filepath.Join(d.state.Path(), "recordings") }

func (d *daemon) newRegistry(events *journal.Journal) *session.Registry {
	c := d.config
	return session.NewRegistry(session.Config{
		Runtimes:    d.runtimes,
		Resolve:     d.places.Resolve,
		Logger:      d.log,
		Journal:     events,
		Archive:     d.archive,
		TotalOutput: c.TotalOutputBytes,

		RecordingsDir:   d.recordingsDir(),
		TotalRecordings: c.RecordingsTotalBytes,

		MaxSessions:   int(c.MaxSessions),
		CreateTimeout: config.Seconds(c.CreateTimeoutS),
		OwnerLost:     config.Seconds(c.OwnerLostS),
		DefaultShell:  chosenShell(c),
		KillGrace:     config.Seconds(c.KillGraceS),
		IdleTimeout:   config.Seconds(c.IdleTimeoutS),
		Lifetime:      config.Seconds(c.LifetimeS),
		Retention:     config.Seconds(c.RetentionS),

		DefaultLimits: defaultLimits(c),
		MaxLimits:     maxLimits(c),
		LimitsMode:    api.LimitsMode(c.LimitsMode),
		Pressure:      d.pressure,
		Isolation:     c.Isolation,
		Secrets:       secrets(c),

		DialogueOutput: c.DialogueOutputBytes,
		AutoExit:       config.Seconds(c.AutoExitS),
		Limits: link.Limits{
			DefaultTimeoutS:   c.DefaultTimeoutS,
			KillGraceS:        c.KillGraceS,
			MaxCommands:       c.MaxCommands,
			MaxQueued:         int(c.MaxQueued),
			MaxParallel:       int(c.MaxParallel),
			MaxStdinBytes:     c.MaxStdinBytes,
			OutputBytes:       c.OutputBytes,
			SessionOutput:     c.SessionOutputBytes,
			MemoryBytes:       c.OutputMemoryBytes,
			ExecsKept:         int(c.ExecsKept),
			RecordingBytes:    c.RecordingBytes,
			ReaderStallS:      c.ReaderStallS,
			RetentionS:        retention(c.RetentionS),
			IdleTimeoutS:      c.IdleTimeoutS,
			ShellStartTimeout: c.ShellStartTimeoutS,
		},
	})
}

// retention returns for how long a runner waits for the next daemon; a negative number if it must
// not wait, because 0 means the default.
func retention(seconds float64) float64 {
	if seconds <= 0 {
		return -1
	}
	return seconds
}

func (d *daemon) newServer() {
	capabilities := []string{"shell", "terminal", "program", "exec.stream", "dialogue"}
	capabilities = append(capabilities, d.runtime.Capabilities()...)
	d.plain = service.New(service.Config{
		Registry: d.registry, DaemonID: d.id, Places: d.places, Dialogues: d.talks, Limits: d.config.Limits(), Capabilities: capabilities,
		Connections: func() map[string]int { return d.server.Transports() }, Disk: d.diskUsage, Doctor: d.examine, Log: d.recent.Stream,
		Settings: api.SystemSettingsResult{File: d.config.File(), Settings: d.config.Public(), Notes: d.config.Notes()}, Upgrade: d.upgrade, HTTP: d.switchHTTP, Console: console{d}, Fronts: d.frontURLs, ConfigFile: d.config.File(),
	})
	d.service = d.traced(d.audited(d.plain, nil))
	c := server.Config{
		Service:         d.service,
		Hold:            d.registry.Hold,
		Answered:        d.quiet.note,
		Logger:          d.log,
		MaxRequestBytes: int(d.config.MaxRequestBytes),
		MaxConnections:  int(d.config.MaxConnections),
		WriteTimeout:    config.Seconds(d.config.ReaderStallS),
		Metrics:         d.metrics(),
	}
	d.server = server.New(d.recordRefusals(c))
}

// serve serves until there is a reason to stop, and then stops.
func (d *daemon) serve(ctx context.Context) error {
	stopSignals := d.upgradeOnSignal() // before a client can know that the daemon serves
	ends := make(chan ending, 2)
	var tasks sync.WaitGroup
	// The server ends the contexts of requests itself, so that their callers learn why.
	if d.listener != nil {
		d.listener.Watch(server.WatchConfig{Logger: d.log, Elsewhere: d.otherSocket, Moved: d.state.Listens})
		tasks.Go(func() {
			err := d.server.Serve(context.Background(), d.listener)
			ends <- ending{"no client can connect any more", err}
		})
	}
	if d.o.Stdio {
		tasks.Go(func() {
			err := d.server.ServeConn(context.Background(), stdio{d.o.Stdin, d.o.Stdout}, "stdio")
			ends <- ending{"end of input", err}
		})
	}
	about := []any{"version", version.Version, "pid", os.Getpid(), "socket", d.address(),
		"state_dir", d.config.StateDir, "sessions", len(d.registry.List())}
	d.frontsMu.Lock() // a client on the socket may turn HTTP on already
	for _, f := range d.fronts {
		f.server.Ready()
		about = append(about, f.name, f.url())
	}
	d.frontsMu.Unlock()
	d.log.Info("daemon started", about...)
	d.tellReady("ready\n")
	d.memory.giveBack() // what only the start needed
	notify(d.manager, "READY=1")

	var end ending
	select {
	case r := <-d.replace:
		stopSignals()
		return d.become(r)
	case <-ctx.Done():
		end.why = context.Cause(ctx).Error()
	case <-d.registry.Unused():
		end.why = fmt.Sprintf("nothing to do for %s (auto_exit_s)", config.Seconds(d.config.AutoExitS))
	case end = <-ends:
	case end = <-d.ends:
	}
	stopSignals()
	notify(d.manager, "STOPPING=1")
	d.log.Info("daemon is stopping", "cause", end.why)
	d.stop()
	d.stopFronts()
	tasks.Wait()
	d.log.Info("daemon stopped")
	return end.err
}

// otherSocket returns where the daemon listens if its socket cannot be made again; "" if the
// configuration names the socket.
func (d *daemon) otherSocket() string {
	if d.config.Origin("socket") != config.OriginDefault {
		return ""
	}
	return place.Sockets()[0]
}

func (d *daemon) address() string {
	if d.listener == nil {
		return "stdio"
	}
	return d.listener.Addr().String()
}

// stop ends connections and sessions at the same time: a client that waits for a command gets its
// answer at once, and a client that reads slowly does not delay the others.
func (d *daemon) stop() {
	d.state.Stopping()
	if d.config.KeepSessions {
		// First the sessions: otherwise a call that waits for a command would look as if its caller
		// had gone, and the command would be cancelled.
		d.talks.Leave()
		d.registry.Leave()
	}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
		defer cancel()
		end := d.server.Stop
		if d.config.KeepSessions {
			end = d.server.Shutdown
		}
		if err := end(ctx); err != nil {
			d.log.Warn("clients did not read their last answers", "error", err)
		}
	})
	if !d.config.KeepSessions {
		again, forget := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		d.talks.Close(again.Done())
		d.registry.Close(again.Done())
		forget()
	}
	tasks.Wait()
}

// tellReady writes a word to Options.ReadyFD and closes it, once; without a word it only closes
// it.
func (d *daemon) tellReady(word string) {
	if d.ready == nil {
		return
	}
	if word != "" {
		_, _ = d.ready.WriteString(word)
	}
	_ = d.ready.Close()
	d.ready = nil
}
