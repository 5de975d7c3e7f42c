// Package client speaks to a TRL daemon. Client implements api.Service, so code that
// works with a daemon in the same process also works over a socket, a pair of pipes,
// HTTP or gRPC.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/place"
)

// DefaultReconnectFor is how long a Client tries to reach a daemon again after a lost connection.
const DefaultReconnectFor = 30 * time.Second

// Client is a client of one daemon. It is safe for concurrent use: calls wait neither for each
// other nor for streams.
//
// A Client reconnects to a daemon that is restarted. Streams continue where they stopped (see
// Stream). A call whose connection breaks is sent again if that cannot do anything twice: if the
// request was never sent, if it only reads, if it is exec.input or session.input with a write_id,
// if it destroys a session by its id, or if it creates an ephemeral session that has no name and
// does not linger: the session of the first request ends without its connection. ExecRun, ExecStart
// and ExecStream give each command a run_id, so that a repeated request finds the command instead of
// running it again. A session or dialogue is created with the next daemon if the old one answered that
// it is ending, because it has then created none. Ephemeral sessions of a Client survive if it reconnects.
// Any other call returns RUNTIME_UNAVAILABLE, with a message that it is not known whether the call
// took effect.
//
// A context bounds only how long a call waits for its answer. The protocol cannot take a request
// back: a command whose ExecRun was given up goes on until it ends, ExecCancel cancels it, or the
// Client is closed.
type Client struct {
	// ReconnectFor is how long the Client tries to reconnect after each loss; 0 means not at all.
	// Set it before the Client is used. It has no effect on a Client of New or Spawn, which has
	// only one connection.
	ReconnectFor time.Duration
	// Revive, if set, may start the daemon again. A call or stream that tries to reconnect calls it
	// every 2 s while no daemon listens on the socket; several goroutines may call it at once. If the
	// daemon stays away, its error is returned. Set it before the Client is used.
	Revive func(context.Context) error
	// Stopped, if set, reports that the daemon was stopped on purpose, so that no supervisor will
	// start it: Revive is then called without the pause. Set it before the Client is used.
	Stopped func() bool

	way  way
	done chan struct{} // closed when the Client can no longer be used

	mu      sync.Mutex
	closed  bool                 // guarded by mu
	streams map[*Stream]struct{} // guarded by mu; streams that have not ended
	noRunID atomic.Bool          // the daemon is older than run_id
	losses  int                  // guarded by mu; how often the connection that calls share was lost
	owned   map[string]bool      // guarded by mu; ephemeral sessions by id; true while one is being reclaimed
}

var _ api.Service = (*Client)(nil)

// way is a transport to a daemon. Its methods try once; an error of type *lost says that a later
// attempt may reach the daemon.
type way interface {
	call(ctx context.Context, method string, params any) (json.RawMessage, error)
	// open opens a stream, which ends with ctx.
	open(ctx context.Context, method string, params any) (api.Stream, error)
	// peer is the process id of the daemon.
	peer() (int, bool)
	close() error
}

func newClient(w way, reconnectFor time.Duration) *Client {
	return &Client{ReconnectFor: reconnectFor, way: w, done: make(chan struct{}), streams: map[*Stream]struct{}{}}
}

// Dial connects to the daemon that listens on the unix socket at the path. A socket of
// another user is refused. The error has the code RUNTIME_UNAVAILABLE, and the system's
// cause for errors.Is.
func Dial(ctx context.Context, path string) (*Client, error) {
	return dialSocket(ctx, func() []string { return []string{path} })
}

// DialUser connects to the daemon of this user, independent of the environment of the process
// that started it: at the default places for its socket, or where the holder of the lock of the
// state directory listens. The places are looked up again whenever the daemon is lost.
func DialUser(ctx context.Context, stateDir string) (*Client, error) {
	return dialSocket(ctx, func() []string { return place.Find(stateDir) })
}

func dialSocket(ctx context.Context, paths func() []string) (*Client, error) {
	s := newSocket(paths)
	c := newClient(s, DefaultReconnectFor)
	s.lost = c.lostConnection
	if _, err := s.connection(ctx); err != nil {
		return nil, unwrapLost(err)
	}
	return c, nil
}

// New makes a Client that speaks the line protocol over rwc, which it owns. Calls and streams share
// rwc: once the buffer of a Stream with a slow consumer is full, that Stream blocks everything else.
func New(rwc io.ReadWriteCloser) *Client {
	p := &pipe{}
	c := newClient(p, 0)
	p.conn = newConn(rwc, c.finish)
	return c
}

// Done is closed when the Client can no longer be used: it was closed, or it has lost the only
// connection that it can have.
func (c *Client) Done() <-chan struct{} { return c.done }

func (c *Client) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.done)
	}
}

// Close ends the connection and all streams. Every call that waits returns
// RUNTIME_UNAVAILABLE.
func (c *Client) Close() error {
	c.finish()
	c.mu.Lock()
	streams := c.streams
	c.streams = map[*Stream]struct{}{}
	c.mu.Unlock()
	for s := range streams {
		s.end(errClosed)
	}
	return c.way.close()
}

// PeerPID returns the process id of the daemon, if it is known: for a unix socket, and for a daemon
// that Spawn started.
func (c *Client) PeerPID() (int, bool) { return c.way.peer() }

// Socket returns the path of the unix socket that the Client is connected to; "" for other
// transports.
func (c *Client) Socket() string {
	s, ok := c.way.(*socket)
	if !ok {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		return ""
	}
	return s.shared.rwc.(net.Conn).RemoteAddr().String()
}

// Call calls a method by its name and returns the data of the answer undecoded. If params is nil,
// the method gets no parameters. Pushes of a streaming method are dropped.
func (c *Client) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if params == nil {
		params = json.RawMessage("null")
	}
	return c.call(ctx, method, params)
}

// call makes a call, and repeats it after a loss if that is harmless.
func (c *Client) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	o := c.outage()
	for {
		began := time.Now()
		data, err := c.way.call(ctx, method, params)
		if err == nil {
			return data, nil
		}
		if !retry(err, harmless(method, params) || notCreated(err, method)) || isOver(err, method) {
			return nil, uncertain(err, method)
		}
		// A daemon that was stopped has ended its sessions, so there is nothing left to own or to
		// destroy. Only the next request of the user may start another daemon.
		if (method == "session.own" || method == "session.destroy") && c.Stopped != nil && isAbsent(err) && c.Stopped() {
			return nil, unwrapLost(err)
		}
		o.served(time.Since(began), err)
		if err := o.wait(ctx, c.done, err); err != nil {
			return nil, err
		}
	}
}

// isOver reports whether a call must not look for the next daemon, because the user stopped this
// one: its sessions have ended, and nothing is created behind the user's back.
func isOver(err error, method string) bool {
	switch method {
	case "exec.run", "exec.start", "session.create", "session.destroy", "dialogue.create":
		return api.SessionsEnded(err)
	}
	return false
}

// notCreated reports whether a daemon that is ending refused or cancelled the creation of a session
// or a dialogue. A creation that fails leaves nothing, so another daemon may try.
func notCreated(err error, method string) bool {
	_, unanswered := asLost(err)
	return (method == "session.create" || method == "dialogue.create") && !unanswered && errors.Is(err, api.ErrDaemonEnding)
}

// harmless reports whether a request may be sent twice.
func harmless(method string, params any) bool {
	if m, ok := api.FindMethod(method); ok && m.Access == api.AccessRead || method == "session.own" {
		return true
	}
	switch p := params.(type) { // with an id, the daemon does the work once
	case api.ExecInputParams:
		return p.WriteID != ""
	case api.ExecParams:
		return p.RunID != ""
	case api.SessionInputParams:
		return p.WriteID != ""
	case api.DialogueSendParams:
		return p.MessageID != ""
	case api.SessionCreateParams: // the first session ends with the connection that is lost; a program of its own has begun
		return p.Ephemeral && p.Name == "" && p.LingerS == nil && (p.Kind == "" || p.Kind == api.KindShell)
	case api.SessionDestroyParams:
		return isSessionID(p.SessionID)
	case json.RawMessage:
		var given struct {
			WriteID   string `json:"write_id"`
			RunID     string `json:"run_id"`
			MessageID string `json:"message_id"`
			SessionID string `json:"session_id"`
		}
		if json.Unmarshal(p, &given) != nil {
			return false
		}
		switch method {
		case "exec.input", "session.input":
			return given.WriteID != ""
		case "dialogue.send":
			return given.MessageID != ""
		case "exec.run", "exec.start":
			return given.RunID != ""
		case "session.destroy":
			return isSessionID(given.SessionID)
		}
	}
	return false
}

// isSessionID tells an id from a name, which may belong to another session when a request is repeated.
func isSessionID(ref string) bool { return strings.HasPrefix(ref, "s-") }

// typed calls a method and decodes its answer.
func typed[R any](ctx context.Context, c *Client, method string, params any) (R, error) {
	var result R
	data, err := c.call(ctx, method, params)
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return result, api.Errorf(api.CodeInternal, "%s: answer: %s", method, err)
	}
	return result, nil
}

// pipe is the transport of New: one connection for everything, which is never replaced.
type pipe struct{ conn *conn }

func (p *pipe) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	data, err := p.conn.call(ctx, method, params, nil)
	return data, unwrapLost(err)
}

func (p *pipe) open(ctx context.Context, method string, params any) (api.Stream, error) {
	s := newPushes(ctx, p.conn)
	if _, err := p.conn.call(ctx, method, params, s); err != nil {
		_ = s.Close()
		return nil, unwrapLost(err)
	}
	return s, nil
}

func (p *pipe) peer() (int, bool) {
	conn, ok := p.conn.rwc.(*net.UnixConn)
	if !ok {
		return 0, false
	}
	return peerPID(conn)
}

func (p *pipe) close() error {
	p.conn.close()
	return nil
}
