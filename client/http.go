package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

// silence is how long a stream over HTTP may be silent before its connection counts as lost. The
// daemon sends a sign of life every 15 s.
const silence = 50 * time.Second

// maxIdleConns is how many connections are kept for the next calls.
const maxIdleConns = 64

// web is the transport of DialHTTP. Each call is a request; each stream is a request whose
// answer does not end. The token authenticates the client.
type web struct {
	base   string // scheme and host, without a path
	token  string
	client *http.Client
	life   context.Context // ends with close
	end    context.CancelFunc
}

// DialHTTP makes a Client for the daemon at a URL such as http://127.0.0.1:7330. It
// connects with the first call. Certificates are checked against those of the system,
// or of $SSL_CERT_FILE.
//
// Giving up a call ends its connection, and with it a command that is not detached. Do not create
// ephemeral sessions over HTTP, where connections come and go.
func DialHTTP(address, token string) (*Client, error) {
	u, err := parseURL(address)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(token, "\r\n") {
		return nil, api.Errorf(api.CodeInvalidParams, "token: has a line break")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = maxIdleConns, maxIdleConns
	transport.DisableCompression = true // output is exact, and the loopback is fast
	transport.ForceAttemptHTTP2 = false // a stream without a reader must not hold up the others
	transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	w := &web{base: u.Scheme + "://" + u.Host, token: token, client: &http.Client{
		Transport: transport,
		// The token is for this daemon, not for the target of a redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	w.life, w.end = context.WithCancel(context.Background())
	return newClient(w, DefaultReconnectFor), nil
}

func parseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, api.Errorf(api.CodeInvalidParams, "address: %s", err)
	case !isHTTP(address) || u.Host == "":
		return nil, api.Errorf(api.CodeInvalidParams, "address %q: must be a URL such as http://127.0.0.1:7330", address)
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil:
		return nil, api.Errorf(api.CodeInvalidParams, "address %q: must have only a scheme, a host and a port", address)
	}
	return u, nil
}

// request begins a request. The answer's body ends with ctx, with the returned function,
// and when the Client is closed.
func (w *web) request(ctx context.Context, method, path string, body []byte, header http.Header) (*http.Response, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(w.life, cancel)
	end := func() { stop(); cancel() }
	req, err := http.NewRequestWithContext(ctx, method, w.base+path, bytes.NewReader(body))
	if err != nil {
		end()
		return nil, nil, api.Errorf(api.CodeInvalidParams, "address: %s", err)
	}
	for key, values := range header {
		req.Header[key] = values
	}
	if traceparent := api.Traceparent(ctx); traceparent != "" && !strings.ContainsAny(traceparent, "\r\n") {
		req.Header.Set("Traceparent", traceparent)
	}
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		end()
		return nil, nil, err
	}
	return resp, end, nil
}

// post sends the parameters of a method.
func (w *web) post(ctx context.Context, method string, params any, accept string) (*http.Response, func(), error) {
	var body bytes.Buffer
	if in, ok := params.(api.ExecInputParams); ok {
		params = in.InJSON()
	}
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(params); err != nil {
		return nil, nil, badParams(method, err)
	}
	resp, end, err := w.request(ctx, http.MethodPost, "/v1/"+method, body.Bytes(),
		http.Header{"Content-Type": {"application/json"}, "Accept": {accept}})
	if err != nil {
		var known *api.Error
		if errors.As(err, &known) {
			return nil, nil, err
		}
		return nil, nil, w.failed(ctx, err)
	}
	return resp, end, nil
}

func (w *web) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	resp, end, err := w.post(ctx, method, params, "application/json")
	if err != nil {
		return nil, err
	}
	defer end()
	defer resp.Body.Close()
	if m, _ := api.FindMethod(method); m.Streams && resp.StatusCode == http.StatusOK {
		line, err := wire.NewReader(resp.Body, maxAnswer, keepBuffer, nil).Next()
		if err != nil {
			return nil, w.failed(ctx, err)
		}
		return bytes.Clone(line), nil
	}
	body, err := w.body(ctx, resp)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, w.refused(resp.StatusCode, body)
	}
	// The header of an answer that takes long is sent before its outcome is known.
	if e, ok := onlyError(body); ok {
		return nil, e
	}
	return body, nil
}

func (w *web) body(ctx context.Context, resp *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	if err != nil {
		return nil, w.failed(ctx, err)
	}
	return bytes.TrimSpace(body), nil
}

func (w *web) open(ctx context.Context, method string, params any) (api.Stream, error) {
	resp, end, err := w.post(ctx, method, params, "application/x-ndjson")
	if err != nil {
		return nil, err
	}
	body := newWatched(resp.Body, end)
	if resp.StatusCode != http.StatusOK {
		defer body.Close()
		text, err := w.body(ctx, resp)
		if err != nil {
			return nil, err
		}
		return nil, w.refused(resp.StatusCode, text)
	}
	l := newLines(ctx, body)
	line, err := l.reader.Next()
	if err != nil {
		_ = l.Close()
		return nil, w.failed(ctx, err)
	}
	if err := json.Unmarshal(line, &l.start); err != nil {
		_ = l.Close()
		return nil, api.Errorf(api.CodeInternal, "%s: answer: %s", method, err)
	}
	return l, nil
}

// failed explains why a request got no answer.
func (w *web) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if w.life.Err() != nil {
		return errClosed
	}
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	var op *net.OpError
	unsent := errors.As(err, &op) && op.Op == "dial"
	if unsent {
		err = op.Err
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the daemon closed the connection")
	}
	cause := fmt.Errorf("%w: %w", api.Errorf(api.CodeRuntimeUnavailable, "daemon at %s", w.base), err)
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return cause
	}
	return &lost{cause: cause, sent: !unsent}
}

// refused returns the error of an answer with that status.
func (w *web) refused(status int, body []byte) error {
	if e, ok := onlyError(body); ok {
		return e
	}
	// The answer is not from a daemon.
	e := api.Errorf(api.CodeInternal, "daemon at %s: HTTP status %d: the server there may not be a TRL daemon", w.base, status)
	if status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout {
		e.Code = api.CodeRuntimeUnavailable
		return &lost{cause: e, sent: status != http.StatusServiceUnavailable}
	}
	return e
}

// onlyError reads {"error":{...}}.
func onlyError(body []byte) (*api.Error, bool) {
	if !bytes.HasPrefix(body, []byte(`{"error":`)) {
		return nil, false
	}
	var answer struct{ Error *api.Error }
	err := json.Unmarshal(body, &answer)
	return answer.Error, err == nil && answer.Error != nil && answer.Error.Code != ""
}

func (w *web) peer() (int, bool) { return 0, false }

func (w *web) close() error {
	w.end()
	w.client.CloseIdleConnections()
	return nil
}

// watched is the body of an answer that does not end. It is closed when the daemon is silent too long.
type watched struct {
	body  io.ReadCloser
	end   func()
	timer *time.Timer
}

func newWatched(body io.ReadCloser, end func()) *watched {
	return &watched{body: body, end: end, timer: time.AfterFunc(silence, end)}
}

func (b *watched) Read(p []byte) (int, error) {
	// The time between two reads is the consumer's, not silence of the daemon.
	b.timer.Reset(silence)
	n, err := b.body.Read(p)
	b.timer.Stop()
	return n, err
}

func (b *watched) Close() error {
	b.timer.Stop()
	b.end()
	return b.body.Close()
}
