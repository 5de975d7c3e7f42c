// Package session is the daemon's view of sessions: how they are created, their state,
// how they end, and the registry of all of them. The runner, at the other end of a link,
// is responsible for everything inside a session.
package session

import (
	"context"
	"io"
	"time"

	"github.com/trl-dev/trl/api"
)

// Runtime is a place where runners can be started and reached. Implementations are
// safe for concurrent use.
type Runtime interface {
	// Name is the word for the runtime on the wire, such as "host".
	Name() string
	// BaseEnv is the environment that a session there begins with. It is not changed
	// by the caller.
	BaseEnv() map[string]string
	// Start starts the runner of a session. ctx bounds the starting only. After an error
	// nothing is left of it.
	Start(ctx context.Context, about About) (Runner, error)
	// Recover finds the runners that an earlier daemon left alive, and removes what
	// is left of those that are dead.
	Recover(ctx context.Context) ([]Runner, error)
}

// About is what a later daemon knows of a session before its runner answers. It holds no
// variable and no command.
type About struct {
	SessionID string
	Name      string
	Kind      api.SessionKind // empty when it is not known
	Tags      []string
	CreatedAt time.Time
}

// Runner is the process at the other end of a link. Implementations are safe for
// concurrent use.
type Runner interface {
	// About is the session it was started for.
	About() About
	// Describe replaces the name and the tags that About tells, also to a later daemon.
	Describe(name string, tags []string) error
	// Dial connects to the runner. It may be called again after a connection broke;
	// to the runner the newest connection that has said hello is the one that counts.
	Dial(ctx context.Context) (io.ReadWriteCloser, error)
	// Key is a secret of the daemons and the runner, which proves to the runner that a
	// connection is a daemon's; empty when there is none.
	Key() string
	// Done is closed when the runner has ended.
	Done() <-chan struct{}
	// Kill ends the runner at once, and only the runner.
	Kill()
	// Remove ends every process that the runner left behind and forgets the session.
	// It is called once, last, when the runner has ended or could not be ended.
	// Clean says that the runner itself has reported a complete end.
	Remove(clean bool) Remains
}

// Remains is what Remove found.
type Remains struct {
	// Cause tells how the runner ended, for people: "killed by SIGKILL".
	Cause string
	// NoRoom says that it ended because the system refused it a thread.
	NoRoom bool
	// Killed are the processes that had outlived the runner.
	Killed []api.KilledProcess
}
