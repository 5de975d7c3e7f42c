package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/archive"
	"github.com/trl-dev/trl/internal/journal"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/metrics"
	"github.com/trl-dev/trl/internal/terminal/cast"
)

// maxPast bounds the terminated sessions that stay readable, however long the
// retention time is and however fast sessions come and go.
const maxPast = 1024

// Config configures a Registry.
type Config struct {
	// Runtimes start and reach the runners. Each serves other kinds of places.
	Runtimes []Runtime
	// Resolve finds the place that a word means; an empty word means the default. The options, if
	// any, are those of the caller. If Resolve is nil, every session is in the first runtime.
	Resolve func(word string, options *api.PlaceOptions) (Target, error)
	// CreateTimeout bounds the creation of a session in a place that is not the host, unless the
	// caller sets another bound; 0 = no bound.
	CreateTimeout time.Duration
	// OwnerLost is how long a session of another daemon lives here without a connection of that
	// daemon; 0 = without a limit.
	OwnerLost time.Duration
	Logger    *slog.Logger
	// MaxSessions is how many sessions may live at once.
	MaxSessions int
	// DefaultShell is the shell of sessions whose creator names none. If it is empty, such a
	// session gets the shell that its creator prefers, or else api.DefaultShell.
	DefaultShell string
	// Limits are passed on to the runners.
	Limits link.Limits
	// DefaultLimits are those of sessions whose creator chooses none, and MaxLimits the most that a
	// caller may choose. LimitsMode says whether these must be enforced.
	DefaultLimits, MaxLimits api.Limits
	LimitsMode               api.LimitsMode
	// Isolation are the profiles of the configuration.
	Isolation map[string]api.Isolation
	// Secrets are the files and directories of the daemon, which isolation hides.
	Secrets []string
	// Pressure returns an error while the machine has no room for another session; nil: it always
	// has.
	Pressure func() error
	// DialogueOutput is how many bytes of output are kept of a session that belongs to a
	// dialogue, if that is more than Limits allow: a dialogue must not lose output.
	DialogueOutput int64
	// KillGrace is the time between SIGTERM and SIGKILL.
	KillGrace time.Duration
	// IdleTimeout and Lifetime end a session by themselves; 0 = never.
	IdleTimeout, Lifetime time.Duration
	// Retention is how long a terminated session stays readable.
	Retention time.Duration
	// Archive keeps the output of ended sessions. If it is nil, their output is lost.
	Archive *archive.Archive
	// RecordingsDir is where the recordings of terminals are; made when it is needed. If it is
	// empty, terminals cannot be recorded.
	RecordingsDir string
	// TotalRecordings bounds the bytes of all recordings; 0 = no bound.
	TotalRecordings int64
	// TotalOutput bounds the bytes of output kept over all sessions; 0 = no bound.
	TotalOutput int64
	// Journal is where events are published. If it is nil, events are kept in memory only. The
	// registry closes it.
	Journal *journal.Journal
	// AutoExit is how long the daemon may be idle before Unused is closed; 0 = without a limit.
	AutoExit time.Duration
}

// Registry is the set of all sessions of a daemon.
//
// Goroutines: runHousekeeping, and those of all sessions. Close and Leave wait for them. A
// Registry is safe for concurrent use.
type Registry struct {
	config     Config
	log        *slog.Logger
	journal    *journal.Journal
	recordings *recordings

	wake             chan struct{} // a deadline may have come nearer
	stop             chan struct{}
	housekeepingDone chan struct{} // closed when runHousekeeping returns
	unused           chan struct{} // closed when the daemon has been idle for AutoExit

	mu       sync.Mutex
	closing  error               // guarded by mu; why no session can be created any more
	starting map[string]starting // guarded by mu; by id
	living   map[string]*Session // guarded by mu; idle or running, by id
	past     map[string]*Session // guarded by mu; terminated, by id
	names    map[string]string   // guarded by mu; name → id of those starting and living
	// guests and pastGuests are the runners of sessions that belong to other daemons, by id: those that
	// live or are being started, and those that have ended.
	guests, pastGuests map[string]*guest          // guarded by mu
	strangers          map[string]<-chan struct{} // guarded by mu; sessions that this daemon does not understand, by id: closed when the runner has ended
	commands           int64                      // guarded by mu; run by sessions that are not living any more
	nextWake           time.Time                  // guarded by mu; when the housekeeping is due; zero = when wake is signalled
	holds              int                        // guarded by mu; connections and others that need the daemon
	idleSince          time.Time                  // guarded by mu; zero while there is a session or a hold

	closed         atomic.Bool  // the output of sessions that end from now on is not kept
	liveOutput     atomic.Int64 // bytes of output that live sessions keep
	droppingOutput atomic.Bool  // dropOutput runs
	reconnects     atomic.Int64 // links to runners that were made again

	creating sync.WaitGroup // calls of Create that hold a place
	tasks    sync.WaitGroup // goroutines of sessions
}

// NewRegistry makes an empty registry and starts its housekeeping.
func NewRegistry(c Config) *Registry {
	r := &Registry{
		config: c, log: c.Logger, journal: c.Journal,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), housekeepingDone: make(chan struct{}), unused: make(chan struct{}),
		starting: map[string]starting{}, living: map[string]*Session{}, past: map[string]*Session{},
		names: map[string]string{}, guests: map[string]*guest{}, pastGuests: map[string]*guest{}, strangers: map[string]<-chan struct{}{}, idleSince: time.Now(),
	}
	if r.journal == nil {
		r.journal = journal.New(c.Logger)
	}
	r.recordings = &recordings{dir: c.RecordingsDir, total: c.TotalRecordings, log: c.Logger, nudge: r.wakeNow, sizes: map[string]int64{}, headers: map[string]cast.Header{}}
	go r.runHousekeeping()
	return r
}

// WriteMetrics writes what the sessions and their commands did.
func (r *Registry) WriteMetrics(p *metrics.Page) {
	p.Single("trl_runner_reconnects_total", "counter", "Links to runners that broke and were made again.", float64(r.reconnects.Load()))
	r.journal.WriteMetrics(p)
}

// Journal returns the events of the sessions.
func (r *Registry) Journal() *journal.Journal { return r.journal }

// Get finds a session by its id or, while it lives, by its name. A session that is being created
// cannot be used yet; see AwaitCreated.
func (r *Registry) Get(ref string) (*Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := ref
	if named, ok := r.names[ref]; ok {
		id = named
	}
	if s := r.living[id]; s != nil {
		return s, nil
	}
	if s := r.past[id]; s != nil {
		return s, nil
	}
	if g := r.guests[id]; g != nil {
		return nil, g.guestError(ref)
	}
	if _, ok := r.starting[id]; ok {
		return nil, api.Errorf(api.CodeConflict, "session %q: is being created; try again when it is ready", ref)
	}
	return nil, api.Errorf(api.CodeSessionNotFound, "session %.100q: not found", ref)
}

// Look is Get for calls that only read: it also finds an ended session by its name, if no
// live session has that name. Of several ended ones it returns the one that ended last.
func (r *Registry) Look(ref string) (*Session, error) {
	s, err := r.Get(ref)
	if !errors.Is(err, api.ErrSessionNotFound) {
		return s, err
	}
	var last time.Time
	for _, past := range r.Past() {
		// terminated_at is by the clock of the place.
		if at := past.endedSince(); past.Info().Name == ref && at.After(last) {
			s, err, last = past, nil, at
		}
	}
	return s, err
}

// List returns the living sessions, oldest first.
func (r *Registry) List() []*Session { return r.list(func() map[string]*Session { return r.living }) }

// Present returns the living sessions and those that are being created, oldest first.
func (r *Registry) Present() []*Session {
	return r.list(func() map[string]*Session {
		all := maps.Clone(r.living)
		for id, s := range r.starting {
			all[id] = s.session
		}
		return all
	})
}

// Past returns the terminated sessions that can still be read, oldest first.
func (r *Registry) Past() []*Session { return r.list(func() map[string]*Session { return r.past }) }

func (r *Registry) list(which func() map[string]*Session) []*Session {
	r.mu.Lock()
	all := which()
	list := make([]*Session, 0, len(all))
	for _, s := range all {
		list = append(list, s)
	}
	r.mu.Unlock()
	created := make(map[*Session]time.Time, len(list))
	for _, s := range list {
		created[s] = s.Info().CreatedAt
	}
	slices.SortFunc(list, func(a, b *Session) int {
		if c := created[a].Compare(created[b]); c != 0 {
			return c
		}
		return compare(a.id, b.id)
	})
	return list
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Stats counts the live sessions, and the commands run since the oldest of all sessions was
// created.
func (r *Registry) Stats() (sessions int, commands int64) {
	list := r.List()
	r.mu.Lock()
	commands = r.commands
	sessions = len(list) + len(r.guests)
	r.mu.Unlock()
	for _, s := range list {
		commands += s.Info().CommandCount
	}
	return sessions, commands
}

// Destroy ends a session and waits until no process of it is left. It is idempotent.
func (r *Registry) Destroy(ctx context.Context, ref string, force bool) (api.SessionDestroyResult, error) {
	if _, guest := r.GuestSession(ref); guest {
		ended, err := r.EndGuest(ctx, "", ref, "destroyed on the daemon of its place")
		return api.SessionDestroyResult{SessionID: ref, State: api.SessionTerminated, Killed: ended.Killed}, err
	}
	s, err := r.Get(ref)
	if err != nil {
		return api.SessionDestroyResult{}, err
	}
	s.destroy(force, "destroyed")
	select {
	case <-s.done:
		return s.destroyResult(), nil
	case <-ctx.Done():
		return api.SessionDestroyResult{}, ctx.Err()
	}
}

// retireLocked moves a session that has ended from the live to the past ones. The caller holds
// r.mu and s.mu.
func (r *Registry) retireLocked(s *Session) {
	r.startedLocked(s) // a session that dies while it is created was never published
	if r.living[s.id] == s {
		delete(r.living, s.id)
		r.commands += s.details.CommandCount
		if r.config.Retention > 0 {
			r.past[s.id] = s
		}
	}
	maps.DeleteFunc(r.names, func(_, id string) bool { return id == s.id }) // two if it was being renamed
	r.noteFreeLocked()
}

// Close ends every session, including those that are being created, and waits until no process
// of them is left. No session can be created from then on. When force is closed, the sessions
// are killed without the grace time.
func (r *Registry) Close(force <-chan struct{}) {
	const cause = "the daemon is shutting down"
	r.closed.Store(true)
	list := r.stopCreating(api.ErrDaemonStopped)
	for _, s := range list {
		s.destroy(happened(force), cause)
	}
	for _, s := range list {
		select {
		case <-s.done:
		case <-force:
			for _, s := range list {
				s.destroy(true, cause)
			}
			<-s.done
		}
	}
	r.endGuests(false)
	r.wait(list)
	if a := r.config.Archive; a != nil {
		a.Clear()
	}
}

// Leave disconnects from the sessions and lets them live. A later daemon finds them with
// Recover.
func (r *Registry) Leave() {
	list := r.stopCreating(api.ErrDaemonEnding)
	for _, s := range list {
		s.leave()
	}
	r.endGuests(true)
	r.wait(list)
}

// stopCreating refuses new sessions, cancels those that are being created, and returns the live
// ones. why tells the creators of those that are cancelled whether to ask the next daemon.
func (r *Registry) stopCreating(why error) []*Session {
	r.mu.Lock()
	r.closing = why
	for _, s := range r.starting {
		s.cancel(why)
	}
	for _, g := range r.guests {
		if g.runner == nil {
			g.cancel(why)
		}
	}
	r.mu.Unlock()
	r.creating.Wait()
	return r.List()
}

func (r *Registry) wait(list []*Session) {
	for _, s := range list {
		<-s.done
	}
	close(r.stop)
	<-r.housekeepingDone
	r.tasks.Wait()
	r.journal.Close()
}

func newID() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return "s-" + hex.EncodeToString(b[:])
}
