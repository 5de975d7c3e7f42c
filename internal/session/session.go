package session

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/archive"
	"github.com/trl-dev/trl/internal/link"
)

// Session is one session: the daemon's end of the link to its runner, and the runner's last
// report. The runner's reports are authoritative; the Session itself decides only that the
// session has ended, when its runner has exited.
//
// Goroutines: watch, from the first connection to the end; one per connection that
// reads the link; two while a silent runner is probed; one per request to end the session;
// one when a viewer that owned the size of the terminal detaches. The registry counts them all.
//
// A Session is safe for concurrent use.
type Session struct {
	id       string
	registry *Registry
	log      *slog.Logger

	// runner is set once, before the session is connected.
	runner Runner
	// done is closed when the session has ended and nothing of it is left, or when
	// it was left to a later daemon.
	done chan struct{}
	// ctx ends when the session is left or has ended: nobody tries to reach its runner then.
	ctx      context.Context
	quit     context.CancelFunc
	expiring atomic.Bool // somebody looks whether its time is over
	// kick makes who tries to reach the runner try at once.
	kick chan struct{}
	// met is closed when the runner of an earlier daemon has been reached, and what it had to
	// tell of an end is done; nil for a session of this daemon.
	met chan struct{}
	// dismissals are the calls of dismiss; none begins when the session is over.
	dismissals sync.WaitGroup
	// sizing is held by who resizes the terminal.
	sizing chan struct{}

	setting sync.Mutex // held while the name or the tags are changed; taken before mu

	mu       sync.Mutex          // taken after the registry's, where both are
	state    api.SessionState    // guarded by mu; written by to alone
	hello    link.HelloResult    // guarded by mu; what the runner said of itself
	awaited  map[string]*awaited // guarded by mu; commands whose end somebody waits for, by id
	details  api.SessionDetails  // guarded by mu; its State is not used, state is
	viewers  viewers             // guarded by mu; of a terminal
	first    []api.ExecInfo      // guarded by mu; before it is admitted, the commands it began with
	events   int                 // guarded by mu; how many the runner has sent
	known    bool                // guarded by mu; its runner has told what it is
	wire     *wire               // guarded by mu; nil before the first connection and after the end
	spell    *spell              // guarded by mu
	absence  *absence            // guarded by mu; set while the runner cannot be reached
	ending   string              // guarded by mu; why the session is being ended, when it is
	forced   bool                // guarded by mu; a forced end was asked for
	left     bool                // guarded by mu; the session is left to a later daemon
	heard    api.SessionState    // guarded by mu; the state the runner told last
	born     time.Time           // guarded by mu; when it was made, by a clock that cannot be set, as the following
	idle     time.Time           // guarded by mu; since when it is idle; zero while it is in use
	ends     link.Ends           // guarded by mu; the limits of this session alone
	looked   time.Time           // guarded by mu; when the runner was last heard to have something else than its shell
	gone     time.Time           // guarded by mu; when it ended
	farewell string              // guarded by mu; why the runner said it would end by itself
	endedAt  *time.Time          // guarded by mu; when it said that it had ended
	receipt  *link.DestroyResult // guarded by mu; the runner's report of a complete end
	killed   []api.KilledProcess // guarded by mu; after the end, what had to be killed
	bidden   bool                // guarded by mu; a runner that ends by itself was asked for what is to be kept
	over     bool                // guarded by mu; the last act has begun
	entry    *archive.Entry      // guarded by mu; after the end, where its output is; nil when it is not kept
	forget   func() bool         // guarded by mu; stops waiting for the end of the owner's connection, or for another owner
	owner    int                 // guarded by mu; counts what was waited for
}

func newSession(r *Registry, id, name string) *Session {
	s := &Session{
		id: id, registry: r, log: r.log.With("session_id", id),
		done: make(chan struct{}), sizing: make(chan struct{}, 1), state: api.SessionCreating,
		kick: make(chan struct{}, 1), spell: newSpell(),
	}
	s.ctx, s.quit = context.WithCancel(context.Background())
	s.details.SessionID, s.details.Name, s.details.Runtime = id, name, r.runtime.Name()
	return s
}

// ID returns the session's id.
func (s *Session) ID() string { return s.id }

// Done is closed when the session has ended and nothing of it is left.
func (s *Session) Done() <-chan struct{} { return s.done }

// Label is what an error calls the session: its name, or its id.
func (s *Session) Label() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.label()
}

func (s *Session) label() string {
	if s.details.Name != "" {
		return s.details.Name
	}
	return s.id
}

// Info returns a snapshot, without asking the runner.
func (s *Session) Info() api.SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info()
}

// info is Info with mu held.
func (s *Session) info() api.SessionInfo {
	info := s.details.SessionInfo
	info.State = s.state
	if info.Tags == nil {
		info.Tags = []string{}
	}
	if info.Terminal != nil {
		terminal := *info.Terminal
		terminal.Viewers = len(s.viewers.list)
		info.Terminal = &terminal
	}
	if at, why := s.deadlineLocked(); why != "" {
		left := max(0, math.Ceil(time.Until(at).Seconds()))
		info.EndsInS, info.EndsWhy = &left, why
	}
	info.Reachable = true
	if a := s.absence; a != nil && a.told && s.state != api.SessionTerminated {
		since := a.since.UTC()
		info.Reachable, info.UnreachableSince, info.UnreachableWhy = false, &since, a.why
	}
	return info
}

// to moves the session to its next state; nothing else writes it. mu is held.
func (s *Session) to(next api.SessionState, cause string) error {
	if !s.state.CanBecome(next) {
		return api.Errorf(api.CodeInternal, "session %q: cannot go from %s to %s", s.label(), s.state, next)
	}
	s.state = next
	if next == api.SessionTerminated {
		if s.gone.IsZero() {
			s.gone = time.Now()
		}
		at := time.Now().UTC()
		if s.endedAt != nil {
			at = *s.endedAt // it may be found ended long after
		}
		s.details.TerminatedAt, s.details.Cause = &at, cause
		if s.details.Queued = 0; s.kind() == api.KindShell {
			s.details.ExecID = ""
		}
		s.details.ShellPID, s.details.RunnerPID = 0, 0 // they may be somebody else's now
		s.details.Processes = []api.Process{}
	}
	return nil
}

// tell writes the state into the journal, when that is news. mu is held, so that the
// order there is the order here.
func (s *Session) tell() {
	s.registry.journal.session(s.info())
}

// event takes what the runner tells of itself. What has another name is of a later version.
func (s *Session) event(name string, header json.RawMessage) {
	switch name {
	case link.EventSession:
		var info link.SessionInfo
		if err := json.Unmarshal(header, &info); err != nil {
			s.log.Error("runner's event cannot be read", "error", err)
			return
		}
		s.sessionEvent(info)
	case link.EventExec:
		s.registry.journal.hear(s.id, header)
		s.wakeAwaiting(header)
	}
}

func (s *Session) sessionEvent(info link.SessionInfo) {
	s.mu.Lock()
	s.events++
	s.take(info.SessionInfo, info.Ages)
	idle := s.state == api.SessionIdle
	if s.heard == api.SessionTerminated {
		s.bid()
	}
	s.mu.Unlock()
	s.registry.weigh()
	s.registry.recordings.grown(info.SessionInfo)
	if idle {
		at, _ := s.deadline()
		s.registry.expect(at)
	}
}

// take adopts the runner's view of the session. Two states are not taken: a session
// is idle for the first time when its creator hears of it, and terminated when its
// runner is gone. mu is held.
func (s *Session) take(info api.SessionInfo, ages link.Ages) {
	next := info.State
	if s.state == api.SessionTerminated || s.heard == api.SessionTerminated && next != s.heard {
		return // an answer that was overtaken by the last word
	}
	s.age(info, ages)
	s.heard = next
	if next == api.SessionTerminated {
		s.farewell, s.endedAt = info.Cause, info.TerminatedAt
	}
	// What the registry knows it by stays as it is; but of the name it had when it was made,
	// a later daemon learns only from its runner that there is another.
	info.SessionID, info.Runtime = s.id, s.details.Runtime
	if s.details.Name != "" && (s.met == nil || s.known) {
		info.Name = s.details.Name
	}
	info.TerminatedAt, info.Cause = nil, ""
	s.registry.weight.Add(info.OutputBytes - s.details.OutputBytes)
	s.details.SessionInfo = info
	if next == s.state || next == api.SessionTerminated || s.state == api.SessionCreating {
		return
	}
	if err := s.to(next, ""); err != nil {
		s.log.Error("runner's event is invalid", "error", err)
		return
	}
	s.tell()
}

// age takes over how old the session is and for how long it has been idle. An older runner
// does not tell: then the time counts from when something was heard of. mu is held.
func (s *Session) age(info api.SessionInfo, ages link.Ages) {
	now := time.Now()
	ago := func(ms int64) time.Time { return now.Add(-time.Duration(ms) * time.Millisecond) }
	switch {
	case ages.AgeMS != nil:
		s.born, s.ends = ago(*ages.AgeMS), ages.Ends
	case s.born.IsZero():
		s.born = now
	}
	switch {
	case ages.IdleMS != nil:
		s.idle = ago(*ages.IdleMS)
	case ages.AgeMS != nil:
		s.idle, s.looked = time.Time{}, now
	case s.idle.IsZero() || !info.LastActivity.Equal(s.details.LastActivity):
		s.idle = now
	}
	if info.State == api.SessionTerminated && ages.IdleMS != nil {
		s.gone = s.idle
	}
}

// deadline returns when the session is to be ended by itself, and why; zero for never.
// Without a cause the runner is to be asked then whether the session is in use.
func (s *Session) deadline() (at time.Time, cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadlineLocked()
}

func (s *Session) deadlineLocked() (at time.Time, cause string) {
	lifetime, idle := s.limits()
	if s.ending != "" || s.left || s.absence != nil || s.state == api.SessionTerminated {
		return time.Time{}, "" // one that cannot be reached may be in use
	}
	if lifetime > 0 {
		at, cause = s.born.Add(lifetime), "lived for "+lifetime.String()+" (lifetime_s)"
	}
	if idle > 0 && (s.state == api.SessionIdle || s.kind() != api.KindShell) {
		end, why := s.idle.Add(idle), idleCause(idle)
		if s.idle.IsZero() {
			end, why = s.looked.Add(idle), ""
		}
		if at.IsZero() || end.Before(at) {
			at, cause = end, why
		}
	}
	return at, cause
}

// limits are after what time the session is ended by itself, and after what time of idleness;
// 0 for never. mu is held.
func (s *Session) limits() (lifetime, idle time.Duration) {
	lifetime = s.registry.config.Lifetime
	if s.kind() == api.KindShell {
		idle = s.registry.config.IdleTimeout
	}
	if l := s.ends.LifetimeS; l != nil {
		lifetime = time.Duration(*l * float64(time.Second))
	}
	if i := s.ends.IdleTimeoutS; i != nil {
		idle = time.Duration(*i * float64(time.Second))
	}
	return lifetime, idle
}

func idleCause(d time.Duration) string { return "idle for " + d.String() + " (idle_timeout_s)" }

// expire ends a session whose time is over. Before an idle one is ended, its runner is asked
// whether something runs in it.
func (s *Session) expire(cause string) {
	s.mu.Lock()
	_, idle := s.limits()
	s.mu.Unlock()
	if cause == "" || cause == idleCause(idle) {
		ctx, cancel := context.WithTimeout(s.ctx, infoTimeout)
		defer cancel()
		if _, err := s.Details(ctx); err != nil {
			s.log.Debug("idle session did not report whether it is in use", "error", err)
			return
		}
	}
	at, cause := s.deadline()
	if cause != "" && !at.After(time.Now()) {
		s.destroy(false, cause)
		return
	}
	s.registry.expect(at)
}

// endedError is the error of calls to a session that has ended.
func (s *Session) endedError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.terminated()
}

// terminated is endedError with mu held.
func (s *Session) terminated() error {
	if s.left {
		return api.ErrDaemonEnding // the session goes on, with the next one
	}
	cause := s.details.Cause
	if cause == "" {
		cause = s.ending
	}
	return api.Errorf(api.CodeSessionTerminated, "session %q: has ended: %s", s.label(), cause)
}
