package session

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/trl-dev/trl/api"
)

// Runtime is a place where runners can be started and reached. Implementations are
// safe for concurrent use.
type Runtime interface {
	// Name returns the name of the runtime in records, such as "host" or "docker".
	Name() string
	// Kinds returns the kinds of places that the runtime starts runners in.
	Kinds() []api.PlaceKind
	// Capabilities returns what sessions have here and may lack in other places, such as
	// "cgroup.kill".
	Capabilities() []string
	// Check says whether sessions can be created in a place. It makes nothing there.
	Check(ctx context.Context, t Target) api.RuntimeCheckResult
	// Start starts the runner of a session. ctx bounds only the start. After an error nothing
	// is left of the runner, nor of a container or pod that was made for it.
	Start(ctx context.Context, spec Spec) (Runner, error)
	// Recover finds the runners that an earlier daemon left alive, and removes the remains of
	// those that have died.
	Recover(ctx context.Context) ([]Runner, error)
}

// Spec says which session a runner is started for.
type Spec struct {
	About
	// Target is where the session will live.
	Target Target
	// Beside, if set, is a runner of the same runtime, in whose container, pod or machine the
	// session will live. Target is then that of the other session.
	Beside Runner
	// Progress, if set, is called for every slow step of Start, from one goroutine.
	Progress func(api.PlaceProgress)
	// Params are the parameters of session.create. The runner gets them over its link.
	Params api.SessionCreateParams
}

// Target names a place and its options.
type Target struct {
	// Word is the place as the caller wrote it: a name from the configuration, a kind, or
	// KIND:ARGUMENT. It is the session's runtime on the wire.
	Word string
	Kind api.PlaceKind
	// Options are those of the configuration, changed by those of the caller. The argument of
	// the word is one of them: the image, the container, the destination, the pod or the address.
	Options api.PlaceOptions
}

// Place describes the surroundings of a runner. Its paths are those of the place, which may be
// another machine.
type Place struct {
	// Info describes the place to callers.
	Info api.PlaceInfo
	// Env is the environment that the session begins with; nil for that of the runner itself. The
	// caller must not change the map.
	Env map[string]string
	// SpillDir is the directory for output that does not fit into memory; empty for the private
	// directory of the runner.
	SpillDir string
	// RecordDir is the name that the daemon's directory for recordings has in the place; empty if
	// the place does not share that directory. The runner then keeps the recording of a terminal
	// to itself, and the daemon fetches it over the link.
	RecordDir string
	// Limits are the limits of a session that the place itself enforces, because it was made for
	// the session.
	Limits []api.EnforcedLimit
	// SetLimit changes one of Limits while the session lives; 0 removes it. The error is
	// LIMIT_UNAVAILABLE with the reason if the engine refuses. Nil if they cannot change.
	SetLimit func(ctx context.Context, limit string, value float64) error
}

// Enforces returns those of the limits that the place itself enforces.
func (p Place) Enforces(l *api.Limits) (list []api.EnforcedLimit) {
	if l == nil {
		return nil
	}
	l.Each(func(name string, value float64) {
		i := slices.IndexFunc(p.Limits, func(e api.EnforcedLimit) bool { return e.Limit == name })
		if value > 0 && i >= 0 {
			list = append(list, p.Limits[i])
		}
	})
	return list
}

// About describes a session to a later daemon until its runner answers. It contains neither
// variables nor commands.
type About struct {
	SessionID string
	// Word is the place as the creator named it: the session's runtime on the wire. It is empty
	// in the records of earlier versions, whose sessions are on the host.
	Word      string
	Name      string
	Kind      api.SessionKind // empty if it is unknown
	Tags      []string
	CreatedAt time.Time
	// Guest is set for a session that belongs to another daemon. Nil for a session of this one.
	Guest *api.GuestOwner
}

// Runner is the process at the other end of a link. Implementations are safe for
// concurrent use.
type Runner interface {
	// About returns the session that it was started for.
	About() About
	// Place returns the surroundings of the runner.
	Place() Place
	// Describe replaces the name and the tags that About returns, also in a later daemon.
	Describe(name string, tags []string) error
	// Dial connects to the runner. It may be called again after a connection broke; the runner
	// serves the newest connection that has said hello.
	Dial(ctx context.Context) (io.ReadWriteCloser, error)
	// Key returns the secret that proves to the runner that a connection comes from a daemon;
	// empty if there is none.
	Key() string
	// Done is closed when the runner has exited, also with the place that it lived in. A runner
	// that cannot be reached has not exited, as far as is known.
	Done() <-chan struct{}
	// Kill ends the runner at once, and only the runner. It does not wait for a place that cannot
	// be reached.
	Kill()
	// Remove ends every process that the runner left behind, removes the container or pod that
	// was made for the session unless another session lives there, and forgets the session. It is
	// the last call, made once, when the runner has exited or could not be killed. Clean says that
	// the runner itself has reported a complete end. What cannot be done because the place cannot
	// be reached is remembered and done later, also by a later daemon.
	Remove(clean bool) Remains
}

// Remains describes what Remove found.
type Remains struct {
	// Cause says how the runner ended, for people: "killed by SIGKILL".
	Cause string
	// PlaceEnded says that the runner ended with its container, pod or machine. Cause then says how
	// that ended.
	PlaceEnded bool
	// NoRoom says that the runner ended because the system refused it a thread.
	NoRoom bool
	// Killed are the processes that outlived the runner.
	Killed []api.KilledProcess
}
