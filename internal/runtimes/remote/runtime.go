package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/state"
)

// Config configures a Runtime.
type Config struct {
	Driver Driver
	// State has the records of the sessions, and the id of this daemon.
	State  *state.Dir
	Logger *slog.Logger
}

// Runtime starts runners in the places of one driver. It is safe for concurrent use.
//
// Goroutines: one for each runner that is being killed, one for each session that must still be
// removed, one for each closed connection until its program has ended, and one that sweeps. Close
// ends them and waits for them.
type Runtime struct {
	driver Driver
	state  *state.Dir
	log    *slog.Logger
	daemon string // the id of this daemon in labels

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu      sync.Mutex
	closed  bool               // guarded by mu
	runners map[string]*runner // guarded by mu; all that have a record, by session
	shared  map[string]*shared // guarded by mu; by Site.ID
}

// shared is a place with the sessions in it.
type shared struct {
	// turn is a semaphore of one slot, held while a session is removed from the place and while
	// another session is put beside it.
	turn  chan struct{}
	users map[*runner]bool // guarded by Runtime.mu
}

var _ session.Runtime = (*Runtime)(nil)

// New returns the runtime of a driver. Close also closes the driver.
func New(c Config) (*Runtime, error) {
	id, err := c.State.ID()
	if err != nil {
		return nil, err
	}
	rt := &Runtime{
		driver: c.Driver, state: c.State, log: c.Logger.With("runtime", c.Driver.Name()), daemon: id,
		runners: map[string]*runner{}, shared: map[string]*shared{},
	}
	rt.ctx, rt.stop = context.WithCancel(context.Background())
	return rt, nil
}

// Name returns the name of the driver.
func (rt *Runtime) Name() string { return rt.driver.Name() }

// Kinds returns the kinds of places that the driver makes or finds.
func (rt *Runtime) Kinds() []api.PlaceKind { return rt.driver.Kinds() }

// Capabilities returns nothing: Check says what each place has.
func (rt *Runtime) Capabilities() []string { return []string{} }

// Check asks the driver.
func (rt *Runtime) Check(ctx context.Context, t session.Target) api.RuntimeCheckResult {
	return rt.driver.Check(ctx, t)
}

// Close ends the connections of the driver. The runners stay alive.
func (rt *Runtime) Close() {
	rt.mu.Lock()
	rt.closed = true
	rt.mu.Unlock()
	rt.stop()
	rt.driver.Close()
	rt.tasks.Wait()
}

// spawn runs f in a goroutine that Close waits for. It returns false, and does nothing, after Close.
func (rt *Runtime) spawn(f func()) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if !rt.closed {
		rt.tasks.Go(f)
	}
	return !rt.closed
}

// Recover returns the runners of earlier daemons without contacting their places. A runner that
// died without a daemon is found dead when it is dialled. Removals that an earlier daemon could not
// carry out are carried out in the background, and then strays are removed. If no earlier daemon left a
// record, Recover does not look for strays: the record of a session is written before its place is
// made. Prune looks for them in any case.
func (rt *Runtime) Recover(ctx context.Context) ([]session.Runner, error) {
	records, err := state.Records(rt.state, rt.Name(), func(rec record) error {
		if len(rec.Site) == 0 {
			return nil
		}
		_, err := rt.driver.Restore(rec.Site)
		return err
	})
	if err != nil {
		return nil, err
	}
	var alive []session.Runner
	for _, rec := range records {
		r := newRunner(rt, rec)
		if len(rec.Site) == 0 {
			r.forget() // either no place was made, or the sweep finds it by its label
			continue
		}
		if r.site, err = rt.driver.Restore(rec.Site); err != nil {
			return nil, err // it was possible a moment ago
		}
		rt.mu.Lock()
		rt.runners[rec.SessionID] = r
		rt.mu.Unlock()
		rt.join(rec.SiteID, r)
		if rec.Doomed || rec.Ended != "" || rec.Report.PID == 0 {
			r.doomed = true
			rt.spawn(func() { r.removeLater(0) })
			continue
		}
		alive = append(alive, r)
	}
	if len(records) == 0 {
		return alive, ctx.Err()
	}
	rt.spawn(func() {
		if removed, err := rt.sweep(rt.ctx); err != nil && rt.ctx.Err() == nil {
			rt.log.Warn("cannot look for leftovers of an earlier daemon", "error", err)
		} else if len(removed) > 0 {
			rt.log.Info("removed places that belonged to no session", "places", removed)
		}
	})
	return alive, ctx.Err()
}

// sweep removes the places of this daemon that belong to no session.
func (rt *Runtime) sweep(ctx context.Context) ([]string, error) {
	return rt.driver.Sweep(ctx, rt.daemon, func(sessionID string) bool {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		for _, r := range rt.runners {
			if r.rec.Owner == sessionID || r.rec.SessionID == sessionID {
				return true
			}
		}
		return false
	})
}

// Prune removes at once the sessions that ended while their places could not be reached, and the places
// of this daemon that belong to no session. It returns the names of everything that it removed, and the
// sessions whose places still cannot be reached.
func (rt *Runtime) Prune(ctx context.Context) (removed, pending []string, err error) {
	doomed := rt.doomed()
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, r := range doomed {
		all.Go(func() {
			trying, cancel := context.WithTimeout(ctx, removeTimeout)
			defer cancel()
			_, failed := r.remove(trying)
			mu.Lock()
			defer mu.Unlock()
			name := "session " + r.rec.SessionID
			if failed == nil {
				removed = append(removed, name)
				return
			}
			pending = append(pending, fmt.Sprintf("%s: %s", name, failed))
		})
	}
	all.Wait()
	slices.Sort(removed)
	slices.Sort(pending)
	strays, err := rt.sweep(ctx)
	return append(removed, strays...), pending, err
}

// doomed returns the sessions that have ended, and whose removal must still be carried out.
func (rt *Runtime) doomed() []*runner {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var doomed []*runner
	for _, r := range rt.runners {
		if r.isDoomed() {
			doomed = append(doomed, r)
		}
	}
	return doomed
}

// Finish carries out the removals of ended sessions that match. The error says that one of them may
// still run.
func (rt *Runtime) Finish(ctx context.Context, match func(session.About) bool) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for _, r := range rt.doomed() {
		if !match(r.About()) {
			continue
		}
		if _, err := r.remove(ctx); err != nil {
			return err
		}
	}
	return nil
}

// join adds a session to the users of a place.
func (rt *Runtime) join(siteID string, r *runner) *shared {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	s := rt.shared[siteID]
	if s == nil {
		s = &shared{turn: make(chan struct{}, 1), users: map[*runner]bool{}}
		rt.shared[siteID] = s
	}
	s.users[r] = true
	r.shared = s
	return s
}

// leave removes a session from the users of its place.
func (rt *Runtime) leave(r *runner) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	delete(rt.runners, r.rec.SessionID)
	if r.shared == nil {
		return
	}
	delete(r.shared.users, r)
	if len(r.shared.users) == 0 {
		delete(rt.shared, r.rec.SiteID)
	}
}

// isLast reports whether a session is the only one in its place.
func (rt *Runtime) isLast(r *runner) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return len(r.shared.users) == 1 && r.shared.users[r]
}

// take takes the turn of a place.
func (s *shared) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *shared) give() { <-s.turn }

// record has the facts that a later daemon needs to find a runner, or to remove its remains.
type record struct {
	state.Record
	// Owner is the session for which the place was made; its id is in the label of the place.
	Owner string `json:"owner"`
	// Site describes the place; empty before it is made or found.
	Site   json.RawMessage `json:"site,omitempty"`
	SiteID string          `json:"site_id,omitempty"`
	// Program is the path of trl-runner there.
	Program string `json:"program,omitempty"`
	// Report identifies the runner; zero before it is started.
	Report Report `json:"report"`
	// Ended says how the runner ended; empty while it may live.
	Ended string `json:"ended,omitempty"`
	// Doomed says that the session has ended, and what is left of it must be removed. Clean says
	// that its runner has reported a complete end.
	Doomed bool `json:"doomed,omitempty"`
	Clean  bool `json:"clean,omitempty"`
}

// asEnded returns the error of a place that has ended; nil for any other error.
func asEnded(err error) *EndedError {
	var ended *EndedError
	if errors.As(err, &ended) {
		return ended
	}
	return nil
}
