package session

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/version"
)

const (
	// helloTimeout bounds the wait for a runner's answer to hello.
	helloTimeout = 10 * time.Second
	// farHelloTimeout is the same for a runner that is not on this machine, with the time to
	// connect to its place.
	farHelloTimeout = 40 * time.Second
	// infoTimeout bounds the wait for answers that a runner can give at once.
	infoTimeout = 10 * time.Second
	// exitTimeout is how long a runner may take to exit once it has nothing more to do, and how
	// far the end of a process and the end of its connection may be apart.
	exitTimeout = 2 * time.Second
)

// stallTimeout is how long a runner may read nothing of the data written to it before the
// connection is closed.
const stallTimeout = 5 * time.Second

// runnerConn is one connection to the runner. It is read until it breaks.
type runnerConn struct {
	conn  *link.Conn
	gone  chan struct{}    // closed when nothing more is read
	hello link.HelloResult // the runner's answer, with its version and protocol

	timer *time.Timer // calls probeIfSilent

	mu      sync.Mutex
	waiting int           // guarded by mu; calls that wait for the runner
	at      time.Time     // guarded by mu; when the timer fires; zero for never
	every   time.Duration // guarded by mu; how long the runner may be silent until it is probed
	probing bool          // guarded by mu
	// caughtUp says that everything that happened to the commands before this connection is
	// published; early holds the events of commands that arrived before that.
	caughtUp bool              // guarded by mu
	early    []json.RawMessage // guarded by mu
}

// beginCall records that a call waits for the runner, until endCall.
func (c *runnerConn) beginCall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting++
	c.every = probeAfter
	if !c.probing && (c.at.IsZero() || time.Until(c.at) > probeAfter) {
		c.armLocked(probeAfter)
	}
}

func (c *runnerConn) endCall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
}

// armLocked sets the timer.
func (c *runnerConn) armLocked(d time.Duration) {
	c.at = time.Now().Add(d)
	c.timer.Reset(d)
}

// probeIsDue reports whether the caller must probe the runner, and then call probed.
func (c *runnerConn) probeIsDue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
	switch rest := c.every - c.conn.Silence(); {
	case c.waiting == 0 || c.probing:
	case rest > 0:
		c.armLocked(rest)
	default:
		c.probing = true
	}
	return c.probing
}

// beginProbe reports whether the caller must probe the runner now, and then call probed.
func (c *runnerConn) beginProbe() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.probing {
		return false
	}
	c.probing = true
	return true
}

// probed ends a probe. The next one comes later, unless another call begins.
func (c *runnerConn) probed(alive bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probing = false
	c.every = min(2*c.every, maxProbe)
	if alive && c.waiting > 0 {
		c.armLocked(c.every)
	}
}

func (c *runnerConn) close() {
	_ = c.conn.Close()
	<-c.gone
}

// catchUp publishes the early events. Then events are published as they come.
func (c *runnerConn) catchUp(publish func(event json.RawMessage)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, event := range c.early {
		publish(event)
	}
	c.caughtUp, c.early = true, nil
}

// isEarly keeps an event of a command for catchUp, and reports whether it did.
func (c *runnerConn) isEarly(event json.RawMessage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.caughtUp {
		c.early = append(c.early, event)
	}
	return !c.caughtUp
}

// runnerEvents receives the events that the runner sends.
type runnerEvents struct {
	s *Session
	c *runnerConn
}

// Handle refuses: a runner sends events only.
func (e runnerEvents) Handle(_ context.Context, in *link.Incoming) error {
	return api.Errorf(api.CodeMethodNotFound, "%s: not a call that a runner can make", in.Name)
}

// Event passes an event to the session.
func (e runnerEvents) Event(name string, header json.RawMessage, _ []byte) {
	e.s.event(e.c, name, header)
}

// open connects to the runner, starts reading the connection, and says hello.
func (s *Session) open(ctx context.Context) (*runnerConn, error) {
	rwc, err := s.runner.Dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &runnerConn{conn: link.NewConn(rwc), gone: make(chan struct{})}
	c.conn.StallAfter(stallTimeout)
	c.timer = time.AfterFunc(time.Hour, func() { s.probeIfSilent(c) })
	c.timer.Stop() // until a call waits
	s.registry.tasks.Go(func() {
		defer close(c.gone)
		defer c.timer.Stop()
		_ = c.conn.Serve(runnerEvents{s, c})
	})
	// A runner that does not read blocks our write; closing the connection ends it.
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	_, err = c.conn.Call(ctx, link.Hello.With(s.helloParams(), nil, &c.hello))
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	switch {
	case err != nil && ctx.Err() == nil && !happened(c.conn.Done()):
		err = &strangerError{said: err.Error()} // the runner lives and refuses this daemon
	case err != nil:
		err = errors.New("the runner does not say hello: " + err.Error())
	case c.hello.SessionID != s.id:
		err = errors.New("the runner belongs to session " + c.hello.SessionID)
	case c.hello.Protocol < link.MinProtocol || c.hello.Protocol > link.Protocol+1:
		err = &strangerError{hello: c.hello}
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// helloParams introduces this daemon to the runner.
func (s *Session) helloParams() *link.HelloParams {
	return &link.HelloParams{Version: version.Version, Protocol: link.Protocol, Key: s.runner.Key()}
}

// strangerError says that a runner is too old or too new for this daemon. A daemon works with
// runners whose protocol is its own, the one before or the one after; a runner with the protocol
// after knows ours, by the same rule.
type strangerError struct {
	hello link.HelloResult
	said  string // the runner's refusal, when it did not answer hello
}

func (e *strangerError) Error() string {
	if e.said != "" {
		return "its runner refuses this daemon (protocol " + strconv.Itoa(link.Protocol) + "): " + e.said
	}
	return "its runner (version " + e.hello.Version + ") speaks protocol " + strconv.Itoa(e.hello.Protocol) +
		", this daemon " + strconv.Itoa(link.Protocol)
}

// tooOld returns the error for a caller that wants to do what only a newer runner can do.
func (s *Session) tooOld(c *runnerConn, what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return api.Errorf(api.CodeRuntimeUnavailable, "session %q: its runner (version %s) is older and cannot %s; create a new session",
		s.labelLocked(), c.hello.Version, what)
}

// startWatching makes c the connection of the session and starts watch. With nil, watch makes
// the first connection.
func (s *Session) startWatching(c *runnerConn) {
	s.mu.Lock()
	s.conn = c
	s.mu.Unlock()
	s.registry.tasks.Go(func() { s.watch(c) })
}

// refresh asks the runner for all details and applies them.
func (s *Session) refresh(ctx context.Context, c *runnerConn) error {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	defer stop()
	s.mu.Lock()
	before := s.reports
	s.mu.Unlock()
	var d link.SessionDetails
	if _, err := c.conn.Call(ctx, link.Info.With(&struct{}{}, nil, &d)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyDetailsLocked(d, before)
	return nil
}

// happens waits for c to be closed, at most for d.
func happens(c <-chan struct{}, d time.Duration) bool {
	if happened(c) {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

func happened(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
