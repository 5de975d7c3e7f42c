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
	// helloTimeout bounds the waiting for a runner's first word.
	helloTimeout = 10 * time.Second
	// infoTimeout bounds the waiting for what a runner can tell at once.
	infoTimeout = 10 * time.Second
	// exitTimeout is how long a runner may take to end once it has nothing more to
	// do, and how long the end of a process and that of its connection may be apart.
	exitTimeout = 2 * time.Second
)

// stallTimeout is how long a runner may take none of what is written to it, before the
// connection is given up.
const stallTimeout = 5 * time.Second

// wire is one connection to the runner, which is read until it breaks.
type wire struct {
	conn *link.Conn
	gone chan struct{} // closed when nothing more is read

	timer *time.Timer // calls look

	mu      sync.Mutex
	waiting int           // guarded by mu; calls that wait for the runner
	at      time.Time     // guarded by mu; when the timer fires; zero for never
	every   time.Duration // guarded by mu; how long the runner may be silent until it is probed
	probing bool          // guarded by mu
}

// begin records that a call waits for the runner, until end.
func (w *wire) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting++
	w.every = probeAfter
	if !w.probing && (w.at.IsZero() || time.Until(w.at) > probeAfter) {
		w.arm(probeAfter)
	}
}

func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting--
}

// arm sets the timer. mu is held.
func (w *wire) arm(d time.Duration) {
	w.at = time.Now().Add(d)
	w.timer.Reset(d)
}

// probeIsDue reports whether the runner is to be probed; then probed is to be called.
func (w *wire) probeIsDue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = time.Time{}
	switch rest := w.every - w.conn.Silence(); {
	case w.waiting == 0 || w.probing:
	case rest > 0:
		w.arm(rest)
	default:
		w.probing = true
	}
	return w.probing
}

// probed notes the end of a probe. As long as nothing else happens, the next one is later.
func (w *wire) probed(alive bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.probing = false
	w.every = min(2*w.every, maxProbe)
	if alive && w.waiting > 0 {
		w.arm(w.every)
	}
}

// open connects to the runner, reads the connection from then on, and says hello.
func (s *Session) open(ctx context.Context) (*wire, link.HelloResult, error) {
	var hello link.HelloResult
	rwc, err := s.runner.Dial(ctx)
	if err != nil {
		return nil, hello, err
	}
	w := &wire{conn: link.NewConn(rwc), gone: make(chan struct{})}
	w.conn.StallAfter(stallTimeout)
	w.timer = time.AfterFunc(time.Hour, func() { s.look(w) })
	w.timer.Stop() // until somebody waits
	s.registry.tasks.Go(func() {
		defer close(w.gone)
		defer w.timer.Stop()
		_ = w.conn.Serve(ear{s})
	})
	// A runner that does not read blocks our writing, which ends with the connection.
	stop := context.AfterFunc(ctx, func() { _ = w.conn.Close() })
	_, err = w.conn.Call(ctx, link.CallHello, s.greeting(), nil, &hello)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	switch {
	case err != nil && ctx.Err() == nil && !happened(w.conn.Done()):
		err = &strangerError{said: err.Error()} // it lives and answers, but not to us
	case err != nil:
		err = errors.New("the runner does not say hello: " + err.Error())
	case hello.SessionID != s.id:
		err = errors.New("the runner is that of session " + hello.SessionID)
	case hello.Protocol < link.MinProtocol || hello.Protocol > link.Protocol+1:
		err = &strangerError{hello: hello}
	}
	if err != nil {
		w.close()
		return nil, hello, err
	}
	s.mu.Lock()
	s.hello = hello
	s.mu.Unlock()
	return w, hello, nil
}

// greeting introduces this daemon.
func (s *Session) greeting() link.HelloParams {
	return link.HelloParams{Version: version.Version, Protocol: link.Protocol, Key: s.runner.Key()}
}

// strangerError says that a runner is too old or too new to be understood. A daemon
// works with runners whose protocol is its own, the one before or the one after; that
// of the one after knows ours, by the same rule.
type strangerError struct {
	hello link.HelloResult
	said  string // instead, the words with which it refused us
}

func (e *strangerError) Error() string {
	if e.said != "" {
		return "its runner refuses this daemon (protocol " + strconv.Itoa(link.Protocol) + "): " + e.said
	}
	return "its runner (version " + e.hello.Version + ") speaks protocol " + strconv.Itoa(e.hello.Protocol) +
		", this daemon " + strconv.Itoa(link.Protocol)
}

// runIDProtocol is the first protocol whose runners know run ids.
const runIDProtocol = 3

// needs refuses what the runner is too old for.
func (s *Session) needs(protocol int, what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hello.Protocol >= protocol {
		return nil
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "session %q: its runner (version %s) is older and cannot %s; create a new session",
		s.label(), s.hello.Version, what)
}

func (w *wire) close() {
	_ = w.conn.Close()
	<-w.gone
}

// ear is the side of a Session that the link talks to.
type ear struct{ s *Session }

func (e ear) Handle(_ context.Context, name string, _ json.RawMessage, _ []byte) (any, []byte, error) {
	return nil, nil, api.Errorf(api.CodeMethodNotFound, "%s: not something a runner can ask", name)
}

func (e ear) Event(name string, header json.RawMessage, _ []byte) { e.s.event(name, header) }

// use makes w the connection of the session, or lets one be made when it is nil, and
// watches over it.
func (s *Session) use(w *wire) {
	s.mu.Lock()
	s.wire = w
	s.mu.Unlock()
	s.registry.tasks.Go(func() { s.watch(w) })
}

// refresh asks the runner for everything and takes it over.
func (s *Session) refresh(ctx context.Context, w *wire) error {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = w.conn.Close() })
	defer stop()
	s.mu.Lock()
	before := s.events
	s.mu.Unlock()
	var d link.SessionDetails
	if _, err := w.conn.Call(ctx, link.CallInfo, struct{}{}, nil, &d); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adopt(d, before)
	return nil
}

// adopt applies the answer to a call that was sent when the runner had sent before events.
// An event that came since is at least as new as the answer, because a runner reports a
// change before it answers. mu is held.
func (s *Session) adopt(told link.SessionDetails, before int) {
	if s.state == api.SessionTerminated {
		return
	}
	d, heard := told.SessionDetails, s.events != before
	info := d.SessionInfo
	d.SessionInfo = s.details.SessionInfo
	s.details = d
	if !heard {
		s.take(info, told.Ages)
	}
	if told.AgeMS == nil && len(d.Processes) > 0 { // an older runner
		s.idle, s.looked = time.Time{}, time.Now()
	}
}

// harmless are the calls that change nothing, or nothing when they are made twice: after
// the link broke they are made again.
var harmless = map[string]bool{
	link.CallExecRead: true, link.CallExecOutput: true, link.CallExecAwait: true, link.CallExecDrop: true,
	link.CallExecInfo: true, link.CallExecList: true, link.CallInfo: true,
	link.CallScreen: true, link.CallWait: true, link.CallSnapshot: true, link.CallFollow: true, link.CallResize: true, link.CallSet: true,
}

// repeatable reports whether a call can be made again when it is not known whether it
// was heard. Commands and input are when they have an id, by which the runner knows them
// again; a cancel is when it names its command, which it can end only once.
func (s *Session) repeatable(name string, params any) bool {
	switch p := params.(type) {
	case link.ExecParams:
		return s.needs(runIDProtocol, "run a command only once") == nil
	case api.ExecCancelParams:
		return p.ExecID != ""
	case link.SessionInputParams:
		return p.WriteID != ""
	case link.InputParams:
		return p.WriteID != ""
	}
	return harmless[name]
}

// unsure is the answer to a call that may have been heard or not.
func (s *Session) unsure(name string, err error) error {
	if name != link.CallInput && name != link.CallExecInput {
		return err
	}
	return api.Errorf(api.CodeRuntimeUnavailable,
		"session %q: %s; it is not known whether the input was written: give it a write_id, and it can be repeated", s.Label(), err)
}

// call asks the runner, which may be away for awayPatience.
func (s *Session) call(ctx context.Context, name string, params any, body []byte, result any) ([]byte, error) {
	return s.callWithin(ctx, awayPatience, name, params, body, result)
}

// callWithin asks the runner, which may be away for that time: none, awayPatience,
// waitPatience or forever. When the link breaks meanwhile it waits until it is known what
// that means, so that the caller of a session that died hears why.
func (s *Session) callWithin(ctx context.Context, patience time.Duration, name string, params any, body []byte, result any) ([]byte, error) {
	for {
		if err := s.awaitReach(ctx, patience); err != nil {
			return nil, err
		}
		w, giveUp := s.line(patience)
		if w == nil {
			return s.callPast(params, result)
		}
		w.begin()
		answer, err := w.conn.CallUnless(ctx, giveUp, name, params, body, result)
		w.end()
		if errors.Is(err, link.ErrGivenUp) {
			return nil, s.unreachable(name)
		}
		if err == nil || ctx.Err() != nil || !errors.Is(err, api.ErrRuntimeUnavailable) || !happened(w.conn.Done()) {
			return answer, err
		}
		s.lose(w, "the link to its runner broke", noticeAfter)
		if s.repeatable(name, params) {
			continue
		}
		if waiting := s.awaitReach(ctx, patience); waiting != nil {
			return nil, waiting
		}
		if w, _ := s.line(patience); w == nil {
			return s.callPast(params, result)
		}
		return nil, s.unsure(name, err)
	}
}

// forever is the patience of who waits for a runner until it is reached or has ended.
const forever = time.Duration(1<<63 - 1)

// line is the connection of the session, nil when it has ended; and what is closed when
// the runner has been away for that time.
func (s *Session) line(patience time.Duration) (w *wire, giveUp <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if happened(s.done) {
		return nil, nil
	}
	switch patience {
	case 0:
		giveUp = s.spell.away
	case awayPatience:
		giveUp = s.spell.soon
	case waitPatience:
		giveUp = s.spell.late
	}
	return s.wire, giveUp
}

// ask is call for what a runner can tell at once.
func (s *Session) ask(ctx context.Context, name string, params, result any) error {
	_, err := s.askFor(ctx, name, params, result)
	return err
}

// askFor is ask for an answer that has bytes.
func (s *Session) askFor(ctx context.Context, name string, params, result any) ([]byte, error) {
	asking, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	text, err := s.call(asking, name, params, nil, result)
	if err != nil && ctx.Err() == nil && asking.Err() != nil {
		return nil, s.unreachable(name)
	}
	return text, err
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
