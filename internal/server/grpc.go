package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/rpc"
)

const (
	// grpcSilence is how long a client says nothing before it is asked whether it is there,
	// grpcPatience how long it may take to say yes.
	grpcSilence  = 30 * time.Second
	grpcPatience = 20 * time.Second
	// grpcPingEvery is how often a client may ask that of the daemon.
	grpcPingEvery = 5 * time.Second
	// frameSlack is how much larger than a request a frame may be. What is larger than a
	// request is refused by name then; what is larger than that ends the call.
	frameSlack = 2 << 20
)

// GRPCConfig says how a Server speaks gRPC. Zero values stand for the defaults.
type GRPCConfig struct {
	// Tokens decides which callers are admitted. It is required.
	Tokens *Tokens
	// TLS, when it is set, is spoken on every connection. A client whose certificate it
	// has verified needs no token.
	TLS *tls.Config
	// MaxConnections is how many TCP connections there may be at once. One more is closed.
	MaxConnections int
}

// GRPC serves the Service of a Server over gRPC: each call is a connection of its own,
// with the line protocol in frames. It is safe for concurrent use.
//
// Goroutines: those of package grpc, among them one per call, and those of the call's
// connection; the Server's Shutdown waits for all of them.
type GRPC struct {
	server     *Server
	cfg        GRPCConfig
	grpc       *grpc.Server
	log        *slog.Logger
	ready      atomic.Bool
	health     *health.Server
	complaints complaints
	leaving    sync.WaitGroup // what reads and writes for calls that have returned

	mu    sync.Mutex
	conns map[net.Conn]struct{} // guarded by mu
}

const (
	// grpcWriteBuffer is how much is written at once.
	grpcWriteBuffer = 256 << 10
	// Windows of HTTP/2: what a client may send before it is taken, in one call and in all.
	grpcStreamWindow = 1 << 20
	grpcConnWindow   = 4 << 20
)

// NewGRPC makes a GRPC that ends with the Server. Calls are refused until Ready is called.
func (s *Server) NewGRPC(cfg GRPCConfig) *GRPC {
	cfg.MaxConnections = orDefault(cfg.MaxConnections, DefaultMaxHTTPConnections)
	g := &GRPC{server: s, cfg: cfg, log: s.cfg.Logger, conns: map[net.Conn]struct{}{}}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(rpc.Codec()), experimental.BufferPool(rpc.Buffers),
		grpc.MaxRecvMsgSize(s.cfg.MaxRequestBytes + frameSlack),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		// A frame of HTTP/2 has 16 KiB: many of them go into one write. Idle connections have no buffer.
		grpc.WriteBufferSize(grpcWriteBuffer),
		grpc.StaticStreamWindowSize(grpcStreamWindow), grpc.StaticConnWindowSize(grpcConnWindow),
		grpc.ConnectionTimeout(DefaultHeaderTimeout),
		// A call beyond the limit gets an error; calls far beyond it wait at the client.
		grpc.MaxConcurrentStreams(uint32(s.cfg.MaxConnections + spareConnections)),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: grpcSilence, Timeout: grpcPatience, MaxConnectionIdle: DefaultIdleTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: grpcPingEvery, PermitWithoutStream: true}),
	}
	options = append(options, grpc.StreamInterceptor(g.guard))
	if cfg.TLS != nil {
		secure := cfg.TLS.Clone()
		secure.NextProtos = []string{"h2"}
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	g.grpc = grpc.NewServer(options...)
	rpc.RegisterTRLServer(g.grpc, g)
	g.offerHealth()
	g.offerReflection()
	s.mu.Lock()
	s.grpcs = append(s.grpcs, g)
	s.mu.Unlock()
	return g
}

// Ready says that the Service can be called now.
func (g *GRPC) Ready() {
	g.ready.Store(true)
	g.health.Resume()
}

// ListenGRPC listens on a host and port. Without TLS it must be of this machine alone.
func ListenGRPC(address string, secure bool) (*net.TCPListener, error) {
	return listenTCP("grpc", address, secure, "give tls_cert and tls_key")
}

// Serve serves the clients that connect to ln until the Server is shut down, and
// closes ln. It returns nil, unless accepting itself does not work any more.
func (g *GRPC) Serve(ln net.Listener) error {
	if !g.server.addListener(ln) {
		ln.Close()
		return ErrShutdown
	}
	defer g.server.removeListener(ln)
	err := g.grpc.Serve(&countingListener{ln, g})
	if g.server.isClosing() {
		return nil
	}
	return fmt.Errorf("grpc: accept: %w", err)
}

// Call implements rpc.TRLServer.
func (g *GRPC) Call(stream grpc.BidiStreamingServer[rpc.Frame, rpc.Frame]) error {
	s := g.server
	caller := callerOf(stream.Context())
	who := api.Caller{Transport: transportGRPC.String(), Address: caller}
	scope, token, refusal := g.authorised(stream.Context(), &who)
	if refusal == nil && !g.ready.Load() {
		refusal = api.ErrDaemonStarting
	}
	if refusal != nil {
		s.counts.request(transportGRPC, "", refusal)
		return rpc.Status(refusal)
	}
	frames := &frameStream{stream: stream, timeout: s.cfg.WriteTimeout}
	c := s.newConn(context.Background(), frames, caller, transportGRPC, who)
	c.frames, c.halfClose, c.scope = true, true, scope
	if md, _ := metadata.FromIncomingContext(stream.Context()); len(md.Get(headerTraceparent)) == 1 {
		c.requests = api.WithTraceparent(c.requests, md.Get(headerTraceparent)[0])
	}
	stop := context.AfterFunc(stream.Context(), func() { c.cancel(errClientGone) })
	defer stop()
	if token != "" {
		defer g.cfg.Tokens.while(token, scope, func() { c.cancel(errTokenOver) })()
	}
	frames.stalled = time.AfterFunc(frames.timeout, func() {
		c.cancel(fmt.Errorf("the peer read nothing for %s", frames.timeout))
		c.writer.Close() // its peer no longer reads
	})
	frames.stalled.Stop()
	if refusal := s.addConn(c); refusal != nil {
		s.counts.request(transportGRPC, "", refusal)
		return rpc.Status(refusal)
	}
	defer s.removeConn(c)
	err := c.serve()
	// The end of this call releases goroutines that still receive or send.
	g.leaving.Go(func() {
		c.writer.Wait()
		c.reading.Wait()
	})
	if err != nil {
		c.log.Debug("call ended", "error", err)
		if err == error(errTokenOver) {
			return rpc.Status(errTokenOver)
		}
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

// callerOf is the address of a client without its port.
func callerOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "unknown"
	}
	return addressOf(p.Addr)
}

// authorised says what the caller may do: that for which its token is good; without one,
// everything, if TLS has verified its certificate. It notes in caller which of them it was.
func (g *GRPC) authorised(ctx context.Context, caller *api.Caller) (scope Scope, token string, refusal *api.Error) {
	presented := 0
	md, _ := metadata.FromIncomingContext(ctx)
	for _, value := range md.Get("authorization") {
		kind, shown, _ := strings.Cut(value, " ")
		if shown = strings.TrimSpace(shown); !strings.EqualFold(kind, "Bearer") || shown == "" {
			continue
		}
		presented++
		if s := g.cfg.Tokens.scopeOf(shown); s != "" && scope != ScopeFull {
			scope, token, caller.Token = s, shown, tokenName(shown)
		}
	}
	switch {
	case scope != "":
		return scope, token, nil
	case presented > 0:
		if g.complaints.due(caller.Address+" token", time.Now()) {
			g.log.Warn("wrong token", "caller", caller.Address, "transport", transportGRPC.String())
		}
		wrong := api.Errorf(api.CodeAuthFailed, "token: is wrong")
		g.server.audit(caller, auditAuth, nil, wrong)
		return "", "", wrong
	case certified(ctx) != nil:
		caller.Certificate = certified(ctx).Subject.CommonName
		return ScopeFull, "", nil
	}
	return "", "", api.Errorf(api.CodeAuthFailed, "token: is required, as authorization: Bearer TOKEN")
}

// certified returns the certificate of the client, nil if TLS has verified none.
func certified(ctx context.Context) *x509.Certificate {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil
	}
	return info.State.VerifiedChains[0][0]
}

// end stops the gRPC server once no call is left: it asks clients to leave, and disconnects
// those that do not.
func (g *GRPC) end() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.grpc.GracefulStop()
	}()
	late := time.AfterFunc(goodbye, g.cut)
	<-done
	late.Stop()
	g.leaving.Wait()
}

// cut closes all connections as they are.
func (g *GRPC) cut() {
	g.mu.Lock()
	var conns []net.Conn
	for nc := range g.conns {
		conns = append(conns, nc)
	}
	g.mu.Unlock()
	for _, nc := range conns {
		nc.Close()
	}
}

// countingListener closes the connections that are too many, before anything is said.
type countingListener struct {
	net.Listener
	grpc *GRPC
}

// Accept implements net.Listener.
func (l *countingListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c, ok := l.grpc.add(nc); ok {
			return c, nil
		}
		nc.Close()
	}
}

func (g *GRPC) add(nc net.Conn) (net.Conn, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.conns) >= g.cfg.MaxConnections {
		return nil, false
	}
	c := &countedConn{Conn: nc, grpc: g}
	g.conns[c] = struct{}{}
	return c, true
}

// countedConn is forgotten when it is closed.
type countedConn struct {
	net.Conn
	grpc *GRPC
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.grpc.mu.Lock()
	delete(c.grpc.conns, c)
	c.grpc.mu.Unlock()
	err := c.Conn.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
