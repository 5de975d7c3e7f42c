// Package client speaks to a TRL daemon. Client implements api.Service, so code that
// works with a daemon in the same process also works over a socket, a pair of pipes,
// HTTP or gRPC.
package client

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/place"
)

// DefaultReconnectFor is how long a Client looks for a daemon that went away.
const DefaultReconnectFor = 30 * time.Second

// Client is a caller of one daemon. It is safe for concurrent use: calls do not wait
// for each other, and neither for streams.
//
// A daemon that is restarted is found again. Streams go on by themselves where they
// were (see Stream). A call whose connection breaks is made again when that cannot do
// anything twice: when it never left, when it only reads, and for exec.input and
// session.input with a write_id. A command that is waited for is found again: ExecRun, ExecStart and ExecStream
// give it a run_id, so that it runs once. Ephemeral sessions of a Client stay when it finds the daemon again.
// Any other call answers RUNTIME_UNAVAILABLE and says that it is not known whether it was done.
//
// A context bounds only the waiting for an answer. The wire has no way to take a
// request back: a command whose ExecRun was given up goes on until it ends, is
// cancelled with ExecCancel, or the Client is closed.
type Client struct {
	// ReconnectFor is how long a daemon that cannot be reached is looked for, after each
	// loss; 0 means not at all. It is set before the Client is used. Behind New and Spawn
	// there is only one connection, and it means nothing.
	ReconnectFor time.Duration
	// Revive, if set, may start the daemon again. A call or stream that looks for a daemon calls
	// it every 2 s while no daemon listens on the socket; several callers may call it at once. Its error is
	// returned when the daemon does not come back. It is set before the Client is used.
	Revive func(context.Context) error
	// Stopped, if set, reports that the daemon was stopped on purpose, so that no supervisor will
	// start it: Revive is then called without the pause. It is set before the Client is used.
	Stopped func() bool

	way  way
	done chan struct{} // closed when the Client is of no more use

	mu      sync.Mutex
	closed  bool                 // guarded by mu
	streams map[*Stream]struct{} // guarded by mu; those that have not ended
	noRunID atomic.Bool          // the daemon is older than run_id
	owned   map[string]bool      // guarded by mu; ephemeral sessions by id, and whether one is being reclaimed
}

var _ api.Service = (*Client)(nil)

// way is how a daemon is reached. Its methods try once; an error of type *lost says
// that the daemon may be there again later.
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

// New makes a Client that speaks the line protocol over rwc and owns it. Calls and
// streams share it: a Stream whose consumer does not keep up holds up everything else
// once its buffer is full.
func New(rwc io.ReadWriteCloser) *Client {
	p := &pipe{}
	c := newClient(p, 0)
	p.conn = newConn(rwc, c.finish)
	return c
}

// Done is closed when the Client is of no more use: it was closed, or it has lost the only
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

// PeerPID is the process id of the daemon, where it is known: behind a unix socket,
// and of one that Spawn started.
func (c *Client) PeerPID() (int, bool) { return c.way.peer() }

// Socket is the path of the unix socket that the Client is connected to; "" for other ways.
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

// Call calls a method by its name and returns the answer's data as it came. Nil
// params are none. What a streaming method pushes is not delivered.
func (c *Client) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if params == nil {
		params = json.RawMessage("null")
	}
	return c.call(ctx, method, params)
}

// call makes a call, again where that is harmless.
func (c *Client) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	o := c.outage()
	for {
		began := time.Now()
		data, err := c.way.call(ctx, method, params)
		if err == nil {
			return data, nil
		}
		if !retry(err, harmless(method, params)) || isCommand(method) && api.SessionsEnded(err) {
			return nil, uncertain(err, method)
		}
		// A daemon that was stopped has ended its sessions, so nothing is left to own. The next one is
		// for the next request of the user.
		if method == "session.own" && c.Stopped != nil && isAbsent(err) && c.Stopped() {
			return nil, unwrapLost(err)
		}
		o.served(time.Since(began), err)
		if err := o.wait(ctx, c.done, err); err != nil {
			return nil, err
		}
	}
}

// isCommand reports whether a method waits for what happens in a session.
func isCommand(method string) bool { return method == "exec.run" || method == "exec.start" }

// harmless reports whether a request may be sent twice.
func harmless(method string, params any) bool {
	if m, ok := api.FindMethod(method); ok && m.Access == api.AccessRead || method == "session.own" {
		return true
	}
	switch p := params.(type) { // an id makes it be done once
	case api.ExecInputParams:
		return p.WriteID != ""
	case api.ExecParams:
		return p.RunID != ""
	case api.SessionInputParams:
		return p.WriteID != ""
	case api.DialogueSendParams:
		return p.MessageID != ""
	case json.RawMessage:
		var given struct {
			WriteID   string `json:"write_id"`
			RunID     string `json:"run_id"`
			MessageID string `json:"message_id"`
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
		}
	}
	return false
}

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
