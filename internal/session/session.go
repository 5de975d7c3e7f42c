package session

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
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
// A Session is safe for concurrent use. Methods whose name ends in Locked need mu.
type Session struct {
	id       string
	registry *Registry
	log      *slog.Logger

	// home is where the session lives, or is to live; it does not change.
	home home
	// runner is set once, before the session is connected.
	runner Runner
	// mayHaveRun is set before the runner is asked to start a program. Only Create uses it.
	mayHaveRun bool
	// done is closed when the session has ended and nothing of it is left, or when this
	// daemon has left it to a later one.
	done chan struct{}
	// ctx ends when the session has ended or is left to a later daemon. It stops the attempts
	// to reach the runner.
	ctx      context.Context
	quit     context.CancelFunc
	expiring atomic.Bool // a goroutine runs expire
	// retryNow makes reach try again without waiting for its pause to end.
	retryNow chan struct{}
	// recovered is closed when the runner of an earlier daemon has answered for the first time
	// and, if it reported the session's end, the session has ended; nil for a session that
	// this daemon created.
	recovered chan struct{}
	// runnerEndings counts the running calls of endRunner; none begins in a final step of ending.
	runnerEndings sync.WaitGroup
	// sizing is a semaphore: its one slot is taken while the terminal is resized.
	sizing chan struct{}
	// fetching is a semaphore: its one slot is taken while the recording is fetched from the
	// runner.
	fetching chan struct{}

	settingMu sync.Mutex // held while the name, the tags or the limits are changed; taken before mu
	// unsettled is a change of the settings that may or may not have reached the runner; nil for none.
	// The session keeps both names until settle has made it. Guarded by mu.
	unsettled *unsettledChange

	mu          sync.Mutex          // taken after the registry's mu by a goroutine that needs both
	state       api.SessionState    // guarded by mu; only toLocked writes it
	step        string              // guarded by mu; the last slow step of the creation, for people
	execWaiters map[string]*execEnd // guarded by mu; commands whose end a caller waits for, by id
	details     api.SessionDetails  // guarded by mu; its State is unused, see state
	viewers     viewers             // guarded by mu; the viewers of a terminal
	firstExecs  []api.ExecInfo      // guarded by mu; until the session is admitted: the commands that it began with
	reports     int                 // guarded by mu; how many session events the runner has sent
	recorded    int64               // guarded by mu; how much of a recording in another place was fetched, or is being fetched
	described   bool                // guarded by mu; the runner has reported what the session is
	conn        *runnerConn         // guarded by mu; nil before the first connection and after the end
	away        *awaySignals        // guarded by mu; replaced when the runner is reached again
	absence     *absence            // guarded by mu; set while the runner cannot be reached
	attempts    attempts            // guarded by mu; to reach the runner
	ending      ending              // guarded by mu; how the session ends, or has ended
	createdAt   time.Time           // guarded by mu; when it was created; like the next two it has a monotonic reading
	idleSince   time.Time           // guarded by mu; zero while it is in use
	lastBusy    time.Time           // guarded by mu; when the runner last reported processes besides the shell
	timeouts    link.Timeouts       // guarded by mu; the lifetime and idle timeout set for this session alone
	// stopOwnerWait stops waiting for the owner's connection to close, or for a new owner.
	stopOwnerWait func() bool // guarded by mu
	ownerEnd      time.Time   // guarded by mu; when the session ends unless an owner comes; zero while it has one
	ownerWaits    int         // guarded by mu; counts these waits, so that a stale one is recognised
}

func newSession(r *Registry, id, name string, h home) *Session {
	s := &Session{
		id: id, registry: r, home: h, log: r.log.With("session_id", id),
		done: make(chan struct{}), sizing: make(chan struct{}, 1), fetching: make(chan struct{}, 1), state: api.SessionCreating,
		retryNow: make(chan struct{}, 1), away: newAwaySignals(), attempts: attempts{changed: make(chan struct{})},
	}
	s.ctx, s.quit = context.WithCancel(context.Background())
	s.details.SessionID, s.details.Name, s.details.Runtime = id, name, h.target.Word
	return s
}

// ID returns the session's id.
func (s *Session) ID() string { return s.id }

// Done is closed when the session has ended and nothing of it is left.
func (s *Session) Done() <-chan struct{} { return s.done }

// Label returns what error messages call the session: its name, or else its id.
func (s *Session) Label() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.labelLocked()
}

func (s *Session) labelLocked() string {
	if s.details.Name != "" {
		return s.details.Name
	}
	return s.id
}

// Kind says what the session is.
func (s *Session) Kind() api.SessionKind {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kindLocked()
}

func (s *Session) kindLocked() api.SessionKind {
	if s.details.Kind == "" {
		return api.KindShell
	}
	return s.details.Kind
}

// Info returns a snapshot, without asking the runner.
func (s *Session) Info() api.SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.infoLocked()
}

func (s *Session) infoLocked() api.SessionInfo {
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
	if at, why := s.announcedEndLocked(); why != "" {
		left := max(0, math.Ceil(time.Until(at).Seconds()))
		info.EndsInS, info.EndsWhy = &left, why
	}
	info.Reachable = true
	if a := s.absence; a != nil && a.published && s.state != api.SessionTerminated {
		since := a.since.UTC()
		info.Reachable, info.UnreachableSince, info.UnreachableWhy = false, &since, a.why
	}
	return info
}

// toLocked moves the session to its next state; nothing else writes it.
func (s *Session) toLocked(next api.SessionState, cause string) error {
	if !s.state.CanBecome(next) {
		return api.Errorf(api.CodeInternal, "session %q: cannot go from %s to %s", s.labelLocked(), s.state, next)
	}
	s.state = next
	if next == api.SessionTerminated {
		if s.ending.at.IsZero() {
			s.ending.at = time.Now()
		}
		at := time.Now().UTC()
		if r := s.ending.report; r != nil && r.at != nil {
			at = *r.at // a later daemon may find the session long after its end
		}
		s.details.TerminatedAt, s.details.Cause = &at, cause
		if s.details.Queued = 0; s.kindLocked() == api.KindShell {
			s.details.ExecID = ""
		}
		s.details.ShellPID, s.details.RunnerPID = 0, 0 // other processes may have these ids by now
		s.details.Processes = []api.Process{}
	}
	return nil
}

// beginLocked makes the first move of a new session: to idle, and on to running if it runs a
// program.
func (s *Session) beginLocked(running bool) error {
	err := s.toLocked(api.SessionIdle, "")
	if err == nil && running {
		err = s.toLocked(api.SessionRunning, "")
	}
	return err
}

// publishLocked publishes the state in the journal if it changed. It runs under mu so that
// the journal has the changes in their order.
func (s *Session) publishLocked() {
	s.registry.journal.PublishSession(s.infoLocked())
}

// endedError is the error of calls to a session that has ended.
func (s *Session) endedError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endedErrorLocked()
}

func (s *Session) endedErrorLocked() error {
	if s.ending.step == endLeft {
		return api.ErrDaemonEnding // the session goes on, with the next daemon
	}
	cause := s.details.Cause
	if cause == "" {
		cause = s.ending.cause
	}
	return api.Errorf(api.CodeSessionTerminated, "session %q: has ended: %s", s.labelLocked(), cause)
}
