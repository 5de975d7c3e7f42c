package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/metadata"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/rpc"
)

// Windows of HTTP/2: how many bytes a daemon may send ahead of the readers, for one stream and
// for all together.
const (
	streamWindow = 1 << 20
	linkWindow   = 8 << 20
	// linkBuffer is how much is read and written at once: many frames of HTTP/2, which have 16 KiB.
	linkBuffer = 256 << 10
)

// link is one TCP connection that carries gRPC. A lost link is not repaired: the next caller that
// needs a connection opens another link, on the schedule of this package and not on that of
// package grpc. It is safe for concurrent use.
//
// Goroutines: watch, the goroutines of calls and those of package grpc; all end with the link.
type link struct {
	way   *remote
	nc    *tapped
	grpc  *grpc.ClientConn
	calls *conn
	life  context.Context // the context of the gRPC call that all calls share
	end   context.CancelFunc
	ended chan struct{} // closed when all goroutines of the link have ended
}

// dial makes a link. It does the TLS handshake itself, because the errors of package grpc would hide
// why a handshake failed.
func (w *remote) dial(ctx context.Context) (*link, error) {
	try, cancel := context.WithTimeout(ctx, w.o.ConnectTimeout)
	defer cancel()
	var d net.Dialer
	nc, err := d.DialContext(try, "tcp", w.address)
	if err != nil {
		return nil, w.unreachable(ctx, err)
	}
	if w.tls != nil {
		secure := tls.Client(nc, w.tls)
		if err = secure.HandshakeContext(try); err == nil && secure.ConnectionState().NegotiatedProtocol != "h2" {
			err = errors.New("does not speak HTTP/2")
		}
		if err != nil {
			nc.Close()
			return nil, w.unreachable(ctx, err)
		}
		nc = secure
	}
	l := &link{way: w, nc: newTapped(nc), ended: make(chan struct{})}
	l.life, l.end = context.WithCancel(context.Background())
	l.grpc, err = grpc.NewClient("passthrough:///"+w.address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the TLS handshake is done
		grpc.WithContextDialer(l.nc.once),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: w.o.ConnectTimeout}),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithIdleTimeout(0),
		experimental.WithBufferPool(rpc.Buffers), grpc.WithReadBufferSize(linkBuffer), grpc.WithWriteBufferSize(linkBuffer),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(linkWindow),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rpc.Codec()), grpc.MaxCallRecvMsgSize(maxAnswer), grpc.MaxCallSendMsgSize(maxAnswer)),
	)
	if err != nil {
		l.end()
		l.nc.Close()
		return nil, api.Errorf(api.CodeInvalidParams, "address %q: %s", w.url, err)
	}
	// The call outlives ctx, which bounds only the time to open it.
	stop := context.AfterFunc(try, l.end)
	stream, err := l.begin(l.life)
	if err != nil || !stop() {
		l.end()
		l.grpc.Close()
		l.nc.Close()
		err = l.reason(err)
		if try.Err() != nil {
			err = fmt.Errorf("it did not answer within %s", w.o.ConnectTimeout)
		}
		return nil, w.unreachable(ctx, err)
	}
	l.calls = newConn(&frameLines{link: l, stream: stream}, w.lost)
	l.calls.takesRaw.Store(true) // a frame carries raw bytes beside its message
	w.hello(l.life, l.calls)
	go l.watch()
	return l, nil
}

// begin starts a gRPC call, which ends with ctx.
func (l *link) begin(ctx context.Context) (grpc.BidiStreamingClient[rpc.Frame, rpc.Frame], error) {
	if token := l.way.o.Token; token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return rpc.NewTRLClient(l.grpc).Call(ctx)
}

func (l *link) alive() bool {
	select {
	case <-l.nc.closed:
		return false
	default:
		return l.calls.alive()
	}
}

// watch pings the daemon when it is silent, and takes the link down when the daemon does not answer.
func (l *link) watch() {
	defer close(l.ended)
	defer func() {
		_ = l.nc.Close()
		_ = l.grpc.Close()
		<-l.calls.read // the reader knows best why the link was lost
		l.end()
		l.calls.writer.Wait()
	}()
	every := l.way.o.KeepAlive
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-l.nc.closed:
			return
		case <-l.calls.done:
			return
		}
		quiet := time.Since(l.nc.lastRead())
		if quiet < every {
			timer.Reset(every - quiet)
			continue
		}
		if !l.ping() {
			l.nc.fail(errStalled)
			return
		}
		timer.Reset(every)
	}
}

var errStalled = errors.New("the connection has stalled")

// ping asks the peer for an answer, and reports whether any bytes came.
func (l *link) ping() bool {
	before := l.nc.lastRead()
	ctx, cancel := context.WithTimeout(l.life, l.way.o.KeepAliveTimeout)
	defer cancel()
	_, _ = l.calls.call(ctx, "system.ping", api.SystemPingParams{}, nil)
	return l.nc.lastRead().After(before)
}

func (l *link) close() {
	l.calls.fail(errClosed)
	<-l.ended
}

// tapped is a connection that remembers when bytes were last read, and why it ended.
type tapped struct {
	net.Conn
	used   atomic.Bool
	last   atomic.Pointer[time.Time]
	closed chan struct{}

	mu  sync.Mutex
	err error // guarded by mu; the first one
	end bool  // guarded by mu; closed is closed
}

func newTapped(nc net.Conn) *tapped {
	c := &tapped{Conn: nc, closed: make(chan struct{})}
	now := time.Now()
	c.last.Store(&now)
	return c
}

// once is a dialer that returns this connection, and fails when it is called again.
func (c *tapped) once(context.Context, string) (net.Conn, error) {
	if c.used.Swap(true) {
		return nil, errors.New("the connection is lost")
	}
	return c, nil
}

func (c *tapped) lastRead() time.Time { return *c.last.Load() }

// Read implements net.Conn.
func (c *tapped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		now := time.Now()
		c.last.Store(&now)
	}
	if err != nil {
		c.note(err)
	}
	return n, err
}

// Write implements net.Conn.
func (c *tapped) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.note(err)
		if _, secure := c.Conn.(*tls.Conn); secure { // the other side may have sent an alert with the reason
			_ = c.Conn.SetReadDeadline(time.Now().Add(lastWords))
			_, err := c.Conn.Read(make([]byte, 1))
			c.note(err)
		}
	}
	return n, err
}

// note keeps the first error, unless this side closed the connection. A TLS alert replaces any other
// error, because it says more.
func (c *tapped) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var op *net.OpError
	if c.err == nil && !c.end || errors.As(err, &op) && op.Op == "remote error" {
		c.err = err
	}
}

func (c *tapped) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail closes the connection for a reason.
func (c *tapped) fail(cause error) {
	c.note(cause)
	_ = c.Close()
}

// Close closes the TCP connection. Closing the TLS connection could block, because TLS first sends an
// alert.
func (c *tapped) Close() error {
	c.mu.Lock()
	first := !c.end
	c.end = true
	c.mu.Unlock()
	if !first {
		return nil
	}
	close(c.closed)
	if t, ok := c.Conn.(*tls.Conn); ok {
		return t.NetConn().Close()
	}
	return c.Conn.Close()
}
