// Package server serves an api.Service over the line protocol (one JSON object per
// line, on unix sockets, stdio and WebSockets; in frames, over gRPC) and over HTTP. It
// authenticates callers, enforces limits and orders the output; only the Service knows the
// meaning of a request.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/metrics"
	"github.com/trl-dev/trl/internal/wire"
)

// Defaults of Config.
const (
	DefaultMaxRequestBytes = 32 << 20
	DefaultMaxConnections  = 4096
	DefaultMaxInFlight     = 1024
	DefaultBufferBytes     = 256 << 20
	DefaultMaxUnsentBytes  = 16 << 20
	DefaultWriteTimeout    = 600 * time.Second
)

// Config is the configuration of a Server. Zero values stand for the defaults.
type Config struct {
	// Service answers the requests. It is required.
	Service api.Service
	// Hold keeps the daemon from exiting until release is called; it returns an error if the daemon
	// is already about to exit. The Server holds it for every client that has called a method.
	// Without it, clients keep nothing alive.
	Hold func() (release func(), err error)
	// Answered is called after each call of the Service; nil for none.
	Answered func()
	// Audit records a call that changes something and is refused before it reaches the Service, a
	// login or a wrong token. Nil: nothing is recorded.
	Audit func(caller *api.Caller, method string, params json.RawMessage, loginID string, err error)
	// Metrics write the families of other parts of the daemon to /metrics.
	Metrics []func(*metrics.Page)
	// Logger receives events of connections; nil discards them.
	Logger *slog.Logger
	// MaxRequestBytes is the longest line of a client. A longer one is answered
	// with REQUEST_TOO_LARGE and not stored.
	MaxRequestBytes int
	// MaxConnections is how many clients are served at once. One more gets RESOURCE_PRESSURE.
	MaxConnections int
	// MaxInFlight is how many requests of one connection run at once. The next one is not read
	// before one of them is answered. A few of them are reserved for requests that are no streams,
	// because a stream may have no end; a stream beyond that gets RESOURCE_PRESSURE.
	MaxInFlight int
	// BufferBytes limits the memory of all requests above 64 KiB together, from their first byte to
	// their answer. A request that would need more gets RESOURCE_PRESSURE.
	BufferBytes int64
	// MaxUnsentBytes is how many bytes of answers may wait for a slow client before the server
	// stops reading its requests and making its answers.
	MaxUnsentBytes int
	// WriteTimeout is how long a client may read nothing of its data before its connection is
	// closed.
	WriteTimeout time.Duration
}

func (c *Config) setDefaults() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.MaxRequestBytes = orDefault(c.MaxRequestBytes, DefaultMaxRequestBytes)
	c.MaxConnections = orDefault(c.MaxConnections, DefaultMaxConnections)
	c.MaxInFlight = orDefault(c.MaxInFlight, DefaultMaxInFlight)
	c.BufferBytes = orDefault(c.BufferBytes, DefaultBufferBytes)
	c.MaxUnsentBytes = orDefault(c.MaxUnsentBytes, DefaultMaxUnsentBytes)
	c.WriteTimeout = orDefault(c.WriteTimeout, DefaultWriteTimeout)
}

// maxStreams is how many streams one connection may have, so that there is always
// room for a request that has an end.
func (c *Config) maxStreams() int64 { return int64(c.MaxInFlight - c.MaxInFlight/64) }

func orDefault[T int | int64 | time.Duration](v, fallback T) T {
	if v <= 0 {
		return fallback
	}
	return v
}

// ErrShutdown is why connections end when the Server is shut down.
var ErrShutdown error = api.ErrDaemonEnding

// Server serves one api.Service to many clients. It is safe for concurrent use.
//
// Goroutines: one per connection, one per request, and short-lived ones of a
// connection; Shutdown waits for all of them.
type Server struct {
	cfg     Config
	budget  *wire.Budget
	methods map[string]api.Method
	naming  [][]byte // the names of the methods that take a name, in quotes
	counts  *counts
	lastID  atomic.Int64   // of connections, for the log
	active  sync.WaitGroup // one per entry of conns and of webConns
	audited complaints     // refused calls that were recorded

	mu        sync.Mutex
	closing   bool                      // guarded by mu
	listeners map[net.Listener]struct{} // guarded by mu
	conns     map[*conn]struct{}        // guarded by mu
	webs      []*HTTP                   // guarded by mu
	webConns  map[net.Conn]*webConn     // guarded by mu
	grpcs     []*GRPC                   // guarded by mu
}

// New makes a Server. It does nothing before Serve or ServeConn.
func New(cfg Config) *Server {
	cfg.setDefaults()
	s := &Server{
		cfg: cfg, budget: wire.NewBudget(cfg.BufferBytes), methods: map[string]api.Method{},
		counts: newCounts(), listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{}, webConns: map[net.Conn]*webConn{},
	}
	for _, m := range api.Methods() {
		s.methods[m.Name] = m
		if m.Names {
			s.naming = append(s.naming, []byte(strconv.Quote(m.Name)))
		}
	}
	return s
}

// audit records a call that was refused, once a minute for each caller and method, so that a client
// that keeps trying does not push older records out of the log.
func (s *Server) audit(caller *api.Caller, method string, params json.RawMessage, cause *api.Error) {
	if s.cfg.Audit == nil {
		return
	}
	key := fmt.Sprint(caller.Transport, caller.PID, caller.Address, caller.Token, caller.LoginID, method, cause.Code)
	if s.audited.due(key, time.Now()) {
		s.cfg.Audit(caller, method, params, "", cause)
	}
}

// Connections is how many clients are connected now.
func (s *Server) Connections() (n int) {
	for _, of := range s.connections() {
		n += of
	}
	return n
}

// Serve serves the clients that connect to ln, until ctx ends or Shutdown is
// called, and closes ln. It returns when all these clients have disconnected; nil, unless
// accepting connections fails.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(ErrShutdown)
	if !s.addListener(ln) {
		ln.Close()
		return ErrShutdown
	}
	defer s.removeListener(ln)
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()

	var clients sync.WaitGroup
	defer clients.Wait()
	for pause := time.Duration(0); ; {
		nc, err := ln.Accept()
		if err == nil {
			pause = 0
			clients.Go(func() { s.welcome(ctx, nc) })
			continue
		}
		if ctx.Err() != nil || s.isClosing() {
			return nil
		}
		if !passes(err) {
			cancel(err) // before clients.Wait
			return fmt.Errorf("accept: %w", err)
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.cfg.Logger.Warn("accept a client", "error", err, "again_in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// passes reports whether an error of accept goes away by itself: a client that
// left again, or resources that others will give back.
func passes(err error) bool {
	for _, e := range []syscall.Errno{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// welcome serves one client of a listener, if it may speak.
func (s *Server) welcome(ctx context.Context, nc net.Conn) {
	peer, caller := nc.RemoteAddr().String(), api.Caller{}
	if unix, ok := nc.(*net.UnixConn); ok {
		cred, err := wire.PeerOf(unix)
		if err != nil {
			s.refuse(nc, api.Errorf(api.CodeForbidden, "connection: %s", err))
			return
		}
		if cred.UID != 0 && cred.UID != os.Geteuid() {
			s.cfg.Logger.Warn("client refused", "uid", cred.UID, "pid", cred.PID)
			s.refuse(nc, api.Errorf(api.CodeForbidden, "connection: uid %d may not use the daemon of uid %d", cred.UID, os.Geteuid()))
			return
		}
		peer, caller = fmt.Sprintf("pid %d", cred.PID), api.Caller{UID: &cred.UID, PID: cred.PID}
		wire.Widen(unix)
	}
	c := s.newConn(ctx, nc, peer, transportSocket, caller)
	c.halfClose, c.scope = true, scopeLocal
	if refusal := s.addConn(c); refusal != nil {
		s.refuse(nc, refusal)
		return
	}
	defer s.removeConn(c)
	if err := c.serve(); err != nil {
		c.log.Debug("connection ended", "error", err)
	}
}

// refuse sends a client the reason why it is not served, and closes the connection.
func (s *Server) refuse(nc net.Conn, cause *api.Error) {
	defer nc.Close()
	e := wire.NewEncoder()
	defer e.Release()
	e.Error(nil, cause)
	_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = nc.Write(e.Bytes())
}

// ServeConn serves one client over rwc, which it closes. At the end of input, the requests
// that were read are answered, and streams of commands go on until these exit; then all
// other streams end, and ServeConn returns nil. If rwc has a method Output for the file
// that answers are written to, and that file has no reader any more, the client has disconnected.
// ServeConn also returns when ctx ends or Shutdown is called, even if rwc is a file whose
// Read cannot be interrupted.
func (s *Server) ServeConn(ctx context.Context, rwc io.ReadWriteCloser, peer string) error {
	c := s.newConn(ctx, rwc, peer, transportStdio, api.Caller{})
	c.halfClose, c.scope = true, scopeLocal
	if files, ok := rwc.(interface{ Output() *os.File }); ok {
		c.output = files.Output()
	}
	if refusal := s.addConn(c); refusal != nil {
		rwc.Close()
		return refusal
	}
	defer s.removeConn(c)
	return c.serve()
}

// Shutdown stops accepting, ends the contexts of all requests, and waits until
// their answers are written and the connections closed. When ctx ends first, the
// connections are cut off and an error is returned.
func (s *Server) Shutdown(ctx context.Context) error { return s.shutdown(ctx, ErrShutdown) }

// Stop is Shutdown for a daemon that ends its sessions, too: clients that wait for a command
// need not look for the next daemon.
func (s *Server) Stop(ctx context.Context) error { return s.shutdown(ctx, api.ErrDaemonStopped) }

func (s *Server) shutdown(ctx context.Context, why error) error {
	s.mu.Lock()
	s.closing = true
	for ln := range s.listeners {
		ln.Close()
	}
	for c := range s.conns {
		c.cancel(why)
	}
	var unused []*webConn
	for _, c := range s.webConns {
		c.cancel(why)
		if !c.busy {
			unused = append(unused, c)
		}
	}
	webs, grpcs := s.webs, s.grpcs
	s.mu.Unlock()
	for _, c := range unused {
		c.cut()
	}
	for _, g := range grpcs {
		g.health.Shutdown()
	}
	for _, h := range webs {
		h.http.SetKeepAlivesEnabled(false) // busy connections end with their answer
	}

	done := make(chan struct{})
	go func() {
		s.active.Wait()
		for _, g := range grpcs {
			g.end()
		}
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	left := s.cutOff()
	return fmt.Errorf("shutdown: %d connections cut off: %w", left, context.Cause(ctx))
}

// cutOff closes all connections as they are and returns how many there were.
func (s *Server) cutOff() int {
	s.mu.Lock()
	var cuts []func()
	for c := range s.conns {
		cuts = append(cuts, c.cut)
	}
	for _, c := range s.webConns {
		if !c.upgraded {
			cuts = append(cuts, c.cut)
		}
	}
	grpcs := s.grpcs
	s.mu.Unlock()
	for _, cut := range cuts {
		cut()
	}
	for _, g := range grpcs {
		g.cut()
	}
	return len(cuts)
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

func (s *Server) addListener(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.listeners[ln] = struct{}{}
	}
	return !s.closing
}

func (s *Server) removeListener(ln net.Listener) {
	s.mu.Lock()
	delete(s.listeners, ln)
	s.mu.Unlock()
	ln.Close()
}

// addConn counts a connection, unless there are too many.
func (s *Server) addConn(c *conn) *api.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return api.AsError(ErrShutdown)
	}
	if len(s.conns) >= s.cfg.MaxConnections {
		e := api.Errorf(api.CodeResourcePressure, "connection: max_connections (%d) reached", s.cfg.MaxConnections)
		e.Details = map[string]any{"max_connections": s.cfg.MaxConnections}
		return e
	}
	s.conns[c] = struct{}{}
	s.active.Add(1)
	return nil
}

func (s *Server) removeConn(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.active.Done()
}
