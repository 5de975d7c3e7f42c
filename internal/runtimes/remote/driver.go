package remote

import (
	"context"
	"encoding/json"
	"io"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
)

// Driver knows one kind of engine: docker, ssh, kubernetes. Implementations are safe for concurrent
// use. Their errors are those of package api, and quote the engine's own reason.
type Driver interface {
	// Name is the name of the runtime in records.
	Name() string
	// Kinds are the kinds of places that it makes or finds.
	Kinds() []api.PlaceKind
	// Check says whether sessions can be created in a place. It makes nothing there.
	Check(ctx context.Context, t session.Target) api.RuntimeCheckResult
	// Open makes the place of a new session, or finds it if it exists. What it makes is labelled
	// with the ids of the daemon and the session. After an error nothing is left.
	Open(ctx context.Context, o Opening) (Site, error)
	// Restore returns the place that Site.Record described, without contacting it.
	Restore(record json.RawMessage) (Site, error)
	// Sweep removes what carries the label of this daemon and belongs to none of the sessions for
	// which keep reports true, and returns the names of what it removed. It contacts only engines
	// that it knows without a target, or that were used since the daemon started.
	Sweep(ctx context.Context, daemon string, keep func(sessionID string) bool) ([]string, error)
	// Close ends what the driver keeps open, such as shared connections. Places stay.
	Close()
}

// Opening asks for the place of a session.
type Opening struct {
	Daemon    string // the id of the daemon, which outlives it
	SessionID string
	Target    session.Target
	// Limits are those of the session, for a place that is made for it; nil for none.
	Limits *api.Limits
	// Progress reports slow steps; it is never nil.
	Progress func(api.PlaceProgress)
}

// Site is one place: a container, a machine or a pod. Implementations are safe for concurrent use. A
// Site is also a Machine or a Keeper.
type Site interface {
	// ID identifies the place: two sessions that live beside each other have the same.
	ID() string
	// Record describes the place to a later daemon. It contains no secret.
	Record() json.RawMessage
	// Info describes the place to callers. Complete after Install.
	Info() api.PlaceInfo
	// Remove removes the place if TRL made it; otherwise it does nothing. A place that does not
	// exist any more is not an error.
	Remove(ctx context.Context) error
}

// Machine is a Site in which programs can be started: the runner is brought there, and trl-runner is
// run there to start it, to connect to it and to end it.
type Machine interface {
	Site
	// Install makes sure that the runner is in the place, and returns its path there. It asks for
	// the architecture, looks for the runner in the cache of the place by the hash of its content,
	// and otherwise copies it into the first directory that is writable and executable.
	Install(ctx context.Context, progress func(api.PlaceProgress)) (path string, err error)
	// Exec starts a program in the place. ctx bounds the start alone. The error is an EndedError
	// if the place does not exist any more.
	Exec(ctx context.Context, argv []string) (Process, error)
}

// Keeper is a Site that has runners itself, such as another daemon.
type Keeper interface {
	Site
	// Start starts the runner of a session, beside that of another one if spec has one. It reports
	// the runner that already runs for the session, if there is one.
	Start(ctx context.Context, spec session.Spec) (Report, error)
	// Connect connects to the runner. The error is a GoneError if the runner has ended, and an
	// EndedError if the place has ended it.
	Connect(ctx context.Context, sessionID string) (io.ReadWriteCloser, error)
	// End ends the runner and all processes of its session, and returns when nothing is left of them.
	// A runner that does not exist any more is not an error.
	End(ctx context.Context, sessionID string) (link.Removed, error)
}

// Limiter is a Site that enforces limits of the session for which it was made.
type Limiter interface {
	// Limits returns these limits. Complete once the runner was started.
	Limits() []api.EnforcedLimit
}

// LimitSetter is a Limiter that can change the limits while the session lives.
type LimitSetter interface {
	// SetLimit changes one of the limits; 0 removes it. The error is LIMIT_UNAVAILABLE with the
	// reason if the engine refuses.
	SetLimit(ctx context.Context, limit string, value float64) error
}

// Starter is a Site that has started the runner of its first session itself, as the first process
// of a container.
type Starter interface {
	// Started returns the report of trl-runner about the runner of the session for which Open was
	// called; false if there is none.
	Started(ctx context.Context) (Report, bool, error)
}

// Process is a program that runs in a place, joined to this side by its stdin and stdout. Close
// ends the join without waiting for the program. Reading and writing may happen at the same time.
type Process interface {
	io.ReadWriteCloser
	// CloseWrite is the end of the program's stdin.
	CloseWrite() error
	// Wait returns when the program has ended. The error says that this is not known, because the
	// connection to the place broke. It must be called once, after the last Read or Close.
	Wait() (Exit, error)
}

// Exit says how a program ended.
type Exit struct {
	Status int
	Stderr string // the last 4 KiB of what the program wrote
}

// EndedError says that a place has ended, with everything in it.
type EndedError struct {
	Cause string // for people: "container build-1 was OOM-killed"
}

func (e *EndedError) Error() string { return e.Cause }

// GoneError says that a runner has ended.
type GoneError struct {
	Cause string // for people: "killed by SIGKILL"
}

func (e *GoneError) Error() string { return e.Cause }

// Report is what trl-runner prints about a runner that it has started in a place.
type Report = link.Report
