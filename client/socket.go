package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/place"
	"github.com/trl-dev/trl/internal/wire"
)

// socket is the transport of Dial. Calls share one connection, which is opened again when
// it is lost. Each stream has its own connection, so that closing it frees the resources
// that serve it, and a slow consumer does not block other calls.
type socket struct {
	paths   func() []string // where the daemon may listen, best first; called before each connection
	dialing chan struct{}   // a semaphore of one: its holder makes the next connection
	lost    func()          // called when the connection that calls share is lost
	labelled

	mu     sync.Mutex
	shared *conn // guarded by mu
	closed bool  // guarded by mu
}

func newSocket(paths func() []string) *socket {
	return &socket{paths: paths, dialing: make(chan struct{}, 1)}
}

// dial makes a connection of its own, at the first place where a daemon listens.
func (s *socket) dial(ctx context.Context) (net.Conn, error) {
	var first error
	for _, path := range s.paths() {
		nc, err := dialUnix(ctx, path)
		if err == nil {
			return nc, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		absent := isAbsent(err)
		err = fmt.Errorf("%w: %w", api.Errorf(api.CodeRuntimeUnavailable, "daemon at %s", path), err)
		if first == nil || !absent {
			first = err
		}
		if !absent {
			break
		}
	}
	if passes(first) {
		return nil, &lost{cause: first}
	}
	return nil, first
}

// dialUnix connects to a socket of this user, and to no other, because the process that listens
// there receives commands and variables. It checks the owner of the file before it connects, and
// the owner of that process afterwards.
func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	if err := place.CheckSocket(path); err != nil {
		return nil, err
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	uc := nc.(*net.UnixConn)
	peer, err := wire.PeerOf(uc)
	if err == nil {
		err = place.CheckOwner(peer.UID)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	wire.Widen(uc)
	return nc, nil
}

// connection returns the connection that calls share, and makes it if there is none.
func (s *socket) connection(ctx context.Context) (*conn, error) {
	if c, err := s.living(); c != nil || err != nil {
		return c, err
	}
	select {
	case s.dialing <- struct{}{}:
		defer func() { <-s.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c, err := s.living(); c != nil || err != nil {
		return c, err
	}
	nc, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	c := newConn(nc, s.lost)
	s.hello(ctx, c)
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.shared = c
	}
	s.mu.Unlock()
	if closed {
		c.close()
		return nil, errClosed
	}
	return c, nil
}

// living returns the shared connection, or nil if it has ended; and an error after close.
func (s *socket) living() (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.shared != nil && s.shared.alive() {
		return s.shared, nil
	}
	return nil, nil
}

func (s *socket) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	c, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	return c.call(ctx, method, params, nil)
}

func (s *socket) open(ctx context.Context, method string, params any) (api.Stream, error) {
	e := wire.NewEncoder()
	defer e.Release()
	e.Trace(api.Traceparent(ctx))
	if err := e.RawRequest(1, method, params); err != nil {
		return nil, badParams(method, err)
	}
	nc, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	l := newLines(ctx, nc) // closes the connection with ctx, which ends a write that the daemon does not read
	// If the write fails, the daemon may still have sent the reason, so the answer is read in any case.
	_, unsent := nc.Write(e.Bytes())
	return opened(ctx, l, unsent == nil)
}

// adopt is open for a request that was sent before.
func adopt(ctx context.Context, b *wire.Begun) (api.Stream, error) {
	f := os.NewFile(uintptr(b.FD), "daemon")
	nc, err := net.FileConn(f)
	_ = f.Close()
	if err != nil {
		return nil, &lost{cause: connectionLost(err), sent: true}
	}
	return opened(ctx, newLines(ctx, struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(b.Received), nc), nc}), true)
}

// opened reads the answer to the only open request of a connection, which the daemon may have read if
// sent is true.
func opened(ctx context.Context, l *lines, sent bool) (api.Stream, error) {
	var err error
	if l.start, err = l.answer(sent); err != nil {
		_ = l.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return l, nil
}

func (l *lines) answer(sent bool) (start api.StreamStart, err error) {
	m, err := l.message()
	if err != nil {
		err.(*lost).sent = sent
		return start, err
	}
	if m.Error != nil {
		if _, ours := callID(m.ID); !ours && passes(m.Error) {
			return start, &lost{cause: m.Error} // an error for the connection as a whole: no request was read
		}
		return start, m.Error
	}
	if err := json.Unmarshal(m.Data, &start); err != nil {
		return start, api.Errorf(api.CodeInternal, "answer: %s", err)
	}
	return start, nil
}

func (s *socket) peer() (int, bool) {
	s.mu.Lock()
	c := s.shared
	s.mu.Unlock()
	if c == nil {
		return 0, false
	}
	return peerPID(c.rwc.(*net.UnixConn))
}

func peerPID(conn *net.UnixConn) (int, bool) {
	peer, err := wire.PeerOf(conn)
	return peer.PID, err == nil && peer.PID > 0
}

func (s *socket) close() error {
	s.mu.Lock()
	c := s.shared
	s.closed = true
	s.mu.Unlock()
	if c != nil {
		c.close()
	}
	return nil
}

func badParams(method string, err error) error {
	return api.Errorf(api.CodeInvalidParams, "%s: params: %s", method, err)
}
