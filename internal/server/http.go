package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/login"
)

// Defaults of HTTPConfig.
const (
	DefaultMaxHTTPConnections = 1024
	DefaultHeaderTimeout      = 10 * time.Second
	DefaultIdleTimeout        = 2 * time.Minute
	DefaultBodyTimeout        = 30 * time.Second
	DefaultKeepAlive          = 15 * time.Second
)

const (
	// maxHeaderBytes bounds the header of a request; net/http adds a little.
	maxHeaderBytes = 32 << 10
	// spareConnections is how many connections beyond the limit get an error as their answer.
	// Further ones are closed without an answer.
	spareConnections = 64
)

// HTTPConfig says how a Server speaks HTTP. Zero values stand for the defaults.
type HTTPConfig struct {
	// Tokens decides which callers are admitted. It is required.
	Tokens *Tokens
	// Logins are those of browsers that show the console. Nil: there is no console.
	Logins *login.Store
	// TLS, when it is set, is spoken on every connection.
	TLS *tls.Config
	// Hosts are names that requests may address, beside those of the loopback and the
	// address a request came to.
	Hosts []string
	// Origins are those of the web pages that may call, beside the daemon's own.
	Origins []string
	// MaxConnections limits the connections at any one time. One more gets RESOURCE_PRESSURE.
	MaxConnections int
	// HeaderTimeout bounds the time a request's header takes, IdleTimeout the time
	// between requests. BodyTimeout is how long nothing may come of a body.
	HeaderTimeout, IdleTimeout, BodyTimeout time.Duration
	// KeepAlive is how long a stream is silent at most.
	KeepAlive time.Duration
	// Handlers serve the paths of their keys, and the paths below them, to callers of scope full. Host, origin, token and limits have been checked, and the context
	// knows the connection (see api.Conn). A handler keeps the daemon alive itself where it must.
	Handlers map[string]http.Handler
}

func (c *HTTPConfig) setDefaults() {
	c.MaxConnections = orDefault(c.MaxConnections, DefaultMaxHTTPConnections)
	c.HeaderTimeout = orDefault(c.HeaderTimeout, DefaultHeaderTimeout)
	c.IdleTimeout = orDefault(c.IdleTimeout, DefaultIdleTimeout)
	c.BodyTimeout = orDefault(c.BodyTimeout, DefaultBodyTimeout)
	c.KeepAlive = orDefault(c.KeepAlive, DefaultKeepAlive)
}

// HTTP serves the Service of a Server over HTTP/1.1. It is safe for concurrent use.
//
// Goroutines: one per connection, those of net/http beside it, and those of the
// WebSockets; the Server's Shutdown waits for all of them.
type HTTP struct {
	server     *Server
	cfg        HTTPConfig
	http       *http.Server
	log        *slog.Logger
	ready      atomic.Bool
	complaints complaints
	active     sync.WaitGroup // one per entry of the Server's webConns that is of this HTTP

	// Guarded by the Server's mu.
	listener net.Listener // nil before Serve
	off      bool         // Close was called
}

// errHTTPOff is why the connections end when HTTP is turned off while the daemon goes on.
var errHTTPOff = api.Errorf(api.CodeRuntimeUnavailable, "http: was turned off")

// NewHTTP makes an HTTP that ends with the Server. Requests for the Service are
// refused until Ready is called.
func (s *Server) NewHTTP(cfg HTTPConfig) *HTTP {
	cfg.setDefaults()
	h := &HTTP{server: s, cfg: cfg, log: s.cfg.Logger}
	h.http = &http.Server{
		Handler:                      http.HandlerFunc(h.handle),
		ReadHeaderTimeout:            cfg.HeaderTimeout,
		IdleTimeout:                  cfg.IdleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		ErrorLog:                     slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
		ConnContext:                  h.addConn,
		ConnState:                    h.connState,
		DisableGeneralOptionsHandler: true,
		Protocols:                    new(http.Protocols),
	}
	// A connection carries one request at a time: its end is the end of the caller.
	h.http.Protocols.SetHTTP1(true)
	s.mu.Lock()
	s.webs = append(s.webs, h)
	s.mu.Unlock()
	return h
}

// Ready says that the Service can be called now.
func (h *HTTP) Ready() { h.ready.Store(true) }

// Serve serves the clients that connect to ln until the Server is shut down, and
// closes ln. It returns nil, unless accepting itself does not work any more.
func (h *HTTP) Serve(ln net.Listener) error {
	if !h.server.addListener(ln) {
		ln.Close()
		return ErrShutdown
	}
	defer h.server.removeListener(ln)
	if h.listen(ln) != nil {
		return nil
	}
	serve := net.Listener(steadyListener{ln})
	if h.cfg.TLS != nil {
		serve = tls.NewListener(serve, h.cfg.TLS)
	}
	err := h.http.Serve(serve)
	if h.server.isClosing() || h.isOff() {
		return nil
	}
	return fmt.Errorf("http: accept: %w", err)
}

// listen notes the listener that Close closes.
func (h *HTTP) listen(ln net.Listener) error {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	h.listener = ln
	if h.off {
		return errHTTPOff
	}
	return nil
}

func (h *HTTP) isOff() bool {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	return h.off
}

// Close makes Serve return and ends the connections, while the Server goes on. It waits until
// the pending requests are answered with the reason; when ctx ends first, their connections are
// cut off and an error is returned.
func (h *HTTP) Close(ctx context.Context) error {
	s := h.server
	s.mu.Lock()
	h.off = true
	if h.listener != nil {
		h.listener.Close()
	}
	var unused []*webConn
	for _, c := range s.webConns {
		if c.http != h {
			continue
		}
		c.cancel(errHTTPOff)
		if !c.busy {
			unused = append(unused, c)
		}
	}
	s.webs = slices.DeleteFunc(slices.Clone(s.webs), func(other *HTTP) bool { return other == h }) // shutdown reads the old list
	s.mu.Unlock()
	for _, c := range unused {
		c.cut()
	}
	h.http.SetKeepAlivesEnabled(false) // busy connections end with their answer
	done := make(chan struct{})
	go func() {
		h.active.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	var left []*webConn
	for _, c := range s.webConns {
		if c.http == h {
			left = append(left, c)
		}
	}
	s.mu.Unlock()
	for _, c := range left {
		c.cut()
	}
	return fmt.Errorf("http: %d connections cut off: %w", len(left), context.Cause(ctx))
}

// ListenHTTP listens on a host and port. An address that other machines can reach needs secure:
// otherwise anyone on the network path could read the token.
func ListenHTTP(address string, secure bool) (*net.TCPListener, error) {
	return listenTCP("http", address, secure, "give tls_cert and tls_key, or http_insecure if the network is trusted")
}

func listenTCP(name, address string, secure bool, hint string) (*net.TCPListener, error) {
	to, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, address, err)
	}
	if !to.IP.IsLoopback() && !secure {
		return nil, fmt.Errorf("%s %s: other machines can reach this address; %s: without TLS the token crosses the network unencrypted", name, address, hint)
	}
	ln, err := net.ListenTCP("tcp", to)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, address, err)
	}
	return ln, nil
}

// webConn is one connection that speaks HTTP.
type webConn struct {
	http   *HTTP
	nc     net.Conn
	excess bool // one too many
	// ctx is the lifetime of the connection.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// admission is that of the requests; a WebSocket has its own.
	admission *admission

	// Guarded by the Server's mu.
	busy     bool // it has a request whose answer is not written
	upgraded bool // it is a WebSocket now, and one of the Server's conns
}

type webConnKey struct{}

// addConn counts a new connection. It is closed at once when there are far too many.
func (h *HTTP) addConn(ctx context.Context, nc net.Conn) context.Context {
	c := &webConn{http: h, nc: nc}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	s := h.server
	c.admission = s.newAdmission(c.ctx)
	s.mu.Lock()
	n := len(s.webConns)
	taken := !s.closing && !h.off && n < h.cfg.MaxConnections+spareConnections
	if taken {
		c.excess = n >= h.cfg.MaxConnections
		s.webConns[nc] = c
		s.active.Add(1)
		h.active.Add(1)
	}
	s.mu.Unlock()
	if !taken {
		c.cancel(ErrShutdown)
		c.cut()
	}
	return context.WithValue(c.ctx, webConnKey{}, c)
}

// connState is called by net/http when the state of a connection changes. net/http does not
// report the end of a connection that was hijacked.
func (h *HTTP) connState(nc net.Conn, state http.ConnState) {
	switch state {
	case http.StateIdle: // only now is the answer on its way
		h.change(nc, func(c *webConn) { c.busy = false })
	case http.StateHijacked:
		h.change(nc, func(c *webConn) { c.upgraded = true })
	case http.StateClosed:
		h.removeConn(nc)
	}
}

func (h *HTTP) change(nc net.Conn, f func(*webConn)) {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	if c := h.server.webConns[nc]; c != nil {
		f(c)
	}
}

func (h *HTTP) removeConn(nc net.Conn) {
	s := h.server
	s.mu.Lock()
	c := s.webConns[nc]
	delete(s.webConns, nc)
	s.mu.Unlock()
	if c != nil {
		c.cancel(errClientGone)
		s.active.Done()
		h.active.Done()
	}
}

// enter notes that a request has begun, and returns why it is refused, if it is.
func (h *HTTP) enter(c *webConn) *api.Error {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	c.busy = true
	switch {
	case h.server.closing:
		return api.AsError(ErrShutdown)
	case h.off:
		return errHTTPOff
	}
	return nil
}

// leave notes the end of a handler: that of a WebSocket is the end of the connection.
func (h *HTTP) leave(c *webConn) {
	h.server.mu.Lock()
	upgraded := c.upgraded
	h.server.mu.Unlock()
	if upgraded {
		h.removeConn(c.nc)
	}
}

// cut closes the connection as it is. TLS would say goodbye first, and wait for it.
func (c *webConn) cut() {
	if t, ok := c.nc.(*tls.Conn); ok {
		_ = t.NetConn().Close()
		return
	}
	_ = c.nc.Close()
}

// peer is the address of the client without its port.
func (c *webConn) peer() string { return addressOf(c.nc.RemoteAddr()) }

// addressOf is an address without its port.
func addressOf(a net.Addr) string {
	if a, err := netip.ParseAddrPort(a.String()); err == nil {
		return a.Addr().Unmap().String()
	}
	return a.String()
}
