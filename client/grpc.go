package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

// Defaults of GRPCOptions.
const (
	DefaultKeepAlive        = 10 * time.Second
	DefaultKeepAliveTimeout = 10 * time.Second
	DefaultConnectTimeout   = 10 * time.Second
)

// aloneBytes is the size from which a request gets a gRPC call of its own: if the daemon rejects
// it, no other request is lost with the call.
const aloneBytes = 1 << 20

// GRPCOptions says how a daemon is reached over gRPC. Zero values stand for the defaults.
type GRPCOptions struct {
	// Token authenticates the client, if it is not empty. To another machine it needs grpcs.
	Token string
	// CAFile has the certificates, in PEM, to verify the daemon's certificate with, instead of those
	// of the system.
	CAFile string
	// CertFile and KeyFile are the client's certificate and its key, in PEM.
	CertFile, KeyFile string
	// ServerName is the name in the daemon's certificate, if it differs from the address.
	ServerName string
	// KeepAlive is how long the daemon may be silent before the client pings it, and
	// KeepAliveTimeout how long the answer may take before the connection counts as lost.
	KeepAlive, KeepAliveTimeout time.Duration
	// ConnectTimeout bounds each attempt to connect.
	ConnectTimeout time.Duration
}

// DialGRPC connects to the daemon at an address such as grpc://127.0.0.1:7331, or
// grpcs://box.example:7331 for TLS, and returns when the daemon has answered. Calls share one
// gRPC call, and each stream has its own; all of them share one TCP connection, which the Client
// watches (see GRPCOptions.KeepAlive) and replaces when it is lost.
func DialGRPC(ctx context.Context, address string, o GRPCOptions) (*Client, error) {
	w, err := newRemote(address, o)
	if err != nil {
		return nil, err
	}
	c := newClient(w, 0)
	w.lost = c.lostConnection
	if _, err := c.SystemPing(ctx, api.SystemPingParams{}); err != nil {
		_ = c.Close()
		return nil, err
	}
	c.ReconnectFor = DefaultReconnectFor
	return c, nil
}

// IsGRPC reports whether an address is one of gRPC.
func IsGRPC(address string) bool {
	return strings.HasPrefix(address, "grpc://") || strings.HasPrefix(address, "grpcs://")
}

// remote is the transport of DialGRPC. It is safe for concurrent use.
type remote struct {
	labelled
	url     string // as it was given, for messages
	address string // host and port
	tls     *tls.Config
	o       GRPCOptions
	lost    func()        // called when the gRPC call that requests share is lost
	dialing chan struct{} // a semaphore of one: its holder makes the next link

	mu     sync.Mutex
	link   *link // guarded by mu; may be lost
	closed bool  // guarded by mu
}

func newRemote(address string, o GRPCOptions) (*remote, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, api.Errorf(api.CodeInvalidParams, "address: %s", err)
	case !IsGRPC(address) || u.Hostname() == "" || u.Port() == "" || u.Path != "" || u.RawQuery != "" || u.User != nil:
		return nil, api.Errorf(api.CodeInvalidParams, "address %q: must be a URL such as grpc://127.0.0.1:7331", address)
	case strings.ContainsAny(o.Token, "\r\n"):
		return nil, api.Errorf(api.CodeInvalidParams, "token: has a line break")
	case u.Scheme == "grpc" && o.Token != "" && !IsLocal(address):
		return nil, api.Errorf(api.CodeInvalidParams, "address %q: the token would cross the network unencrypted; use grpcs", address)
	case u.Scheme == "grpc" && (o.CAFile != "" || o.CertFile != "" || o.KeyFile != "" || o.ServerName != ""):
		return nil, api.Errorf(api.CodeInvalidParams, "address %q: certificates need grpcs", address)
	}
	if o.KeepAlive <= 0 {
		o.KeepAlive = DefaultKeepAlive
	}
	if o.KeepAliveTimeout <= 0 {
		o.KeepAliveTimeout = DefaultKeepAliveTimeout
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	w := &remote{url: u.Scheme + "://" + u.Host, address: u.Host, o: o, dialing: make(chan struct{}, 1)}
	if u.Scheme == "grpcs" {
		if w.tls, err = o.tlsConfig(u.Hostname()); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (o GRPCOptions) tlsConfig(host string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, ServerName: host}
	if o.ServerName != "" {
		c.ServerName = o.ServerName
	}
	if o.CAFile != "" {
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", api.Errorf(api.CodeInvalidParams, "CA file"), err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, api.Errorf(api.CodeInvalidParams, "CA file %s: contains no PEM certificate", o.CAFile)
		}
	}
	if o.CertFile != "" || o.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", api.Errorf(api.CodeInvalidParams, "client certificate"), err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// connection returns the link, and makes one if there is none.
func (w *remote) connection(ctx context.Context) (*link, error) {
	if l, err := w.living(); l != nil || err != nil {
		return l, err
	}
	select {
	case w.dialing <- struct{}{}:
		defer func() { <-w.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l, err := w.living(); l != nil || err != nil {
		return l, err
	}
	l, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	closed := w.closed
	if !closed {
		w.link = l
	}
	w.mu.Unlock()
	if closed {
		l.close()
		return nil, errClosed
	}
	return l, nil
}

// living returns the link unless it is lost, and an error after close.
func (w *remote) living() (*link, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errClosed
	}
	if w.link != nil && w.link.alive() {
		return w.link, nil
	}
	return nil, nil
}

func (w *remote) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	e := wire.NewEncoder()
	defer e.Release()
	e.Trace(api.Traceparent(ctx))
	if err := e.Request(1, method, params); err != nil {
		return nil, badParams(method, err)
	}
	l, err := w.connection(ctx)
	if err != nil {
		return nil, err
	}
	if len(e.Bytes()) <= aloneBytes {
		return l.calls.call(ctx, method, params, nil)
	}
	f, m, err := l.ask(ctx, e.Bytes())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return m.Data, nil
}

func (w *remote) open(ctx context.Context, method string, params any) (api.Stream, error) {
	e := wire.NewEncoder()
	defer e.Release()
	e.Trace(api.Traceparent(ctx))
	if err := e.Request(1, method, params); err != nil {
		return nil, badParams(method, err)
	}
	l, err := w.connection(ctx)
	if err != nil {
		return nil, err
	}
	f, m, err := l.ask(ctx, e.Bytes())
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(m.Data, &f.start); err != nil {
		_ = f.Close()
		return nil, api.Errorf(api.CodeInternal, "%s: answer: %s", method, err)
	}
	return f, nil
}

func (w *remote) peer() (int, bool) { return 0, false }

func (w *remote) close() error {
	w.mu.Lock()
	w.closed = true
	l := w.link
	w.mu.Unlock()
	if l != nil {
		l.close()
	}
	return nil
}

// unreachable explains why there is no connection. A certificate that one side does not trust is not
// a loss, because another attempt would fail as well.
func (w *remote) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if refusal := refusedByTLS(w.url, err); refusal != nil {
		return refusal
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		err = op.Err
	}
	return &lost{cause: fmt.Errorf("%w: %w", api.Errorf(api.CodeRuntimeUnavailable, "daemon at %s", w.url), err)}
}

// refusedByTLS returns the error of a handshake that would fail again; nil for other errors.
func refusedByTLS(url string, err error) error {
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return fmt.Errorf("%w: %w", api.Errorf(api.CodeAuthFailed, "daemon at %s: is not trusted", url), err)
	}
	// An alert of the other side. With TLS 1.3 it comes after the handshake.
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return api.Errorf(api.CodeAuthFailed, "daemon at %s: refused the certificate: %s", url, err)
	}
	var record tls.RecordHeaderError
	if errors.As(err, &record) {
		return api.Errorf(api.CodeRuntimeUnavailable, "daemon at %s: does not speak TLS: %s", url, err)
	}
	return nil
}
