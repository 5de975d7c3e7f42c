package server_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

// head is the beginning of a request that may do everything.
func head(line string, headers ...string) string {
	text := line + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + fullToken + "\r\nContent-Type: application/json\r\n"
	for _, h := range headers {
		text += h + "\r\n"
	}
	return text + "\r\n"
}

// TestHTTPSmuggling sends requests whose end two readers could see in different
// places. Each is refused, the connection closed, and what hides behind is not run.
func TestHTTPSmuggling(t *testing.T) {
	body := command("echo outer")
	hidden := head("POST /v1/exec.run", fmt.Sprintf("Content-Length: %d", len(command("echo hidden")))) + command("echo hidden")
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	length := fmt.Sprintf("Content-Length: %d", len(body))
	for name, request := range map[string]string{
		"two lengths":             head("POST /v1/exec.run", "Content-Length: 5", length) + body + hidden,
		"list of lengths":         head("POST /v1/exec.run", "Content-Length: 5, 6") + body + hidden,
		"signed length":           head("POST /v1/exec.run", "Content-Length: +5") + body + hidden,
		"hex length":              head("POST /v1/exec.run", "Content-Length: 0x5") + body + hidden,
		"negative length":         head("POST /v1/exec.run", "Content-Length: -1") + hidden,
		"huge length":             head("POST /v1/exec.run", "Content-Length: 99999999999999999999") + hidden,
		"unknown coding":          head("POST /v1/exec.run", "Transfer-Encoding: xchunked") + chunk(body) + "0\r\n\r\n" + hidden,
		"two codings":             head("POST /v1/exec.run", "Transfer-Encoding: gzip, chunked") + chunk(body) + "0\r\n\r\n" + hidden,
		"coding twice":            head("POST /v1/exec.run", "Transfer-Encoding: chunked", "Transfer-Encoding: identity") + chunk(body) + "0\r\n\r\n" + hidden,
		"space before colon":      head("POST /v1/exec.run", "Transfer-Encoding : chunked", length) + body + hidden,
		"bad chunk size":          head("POST /v1/exec.run", "Transfer-Encoding: chunked") + "zz\r\n" + body + "\r\n0\r\n\r\n" + hidden,
		"negative chunk":          head("POST /v1/exec.run", "Transfer-Encoding: chunked") + "-5\r\n" + body + "\r\n0\r\n\r\n" + hidden,
		"huge chunk":              head("POST /v1/exec.run", "Transfer-Encoding: chunked") + "fffffffffffffffff\r\n" + body + "\r\n0\r\n\r\n" + hidden,
		"chunk without its end":   head("POST /v1/exec.run", "Transfer-Encoding: chunked") + fmt.Sprintf("%x\r\n%sxx", len(body), body) + "\r\n0\r\n\r\n" + hidden,
		"folded header":           head("POST /v1/exec.run", "X-A: b", " Transfer-Encoding: chunked", "X-Y", length) + body + hidden,
		"header without a name":   head("POST /v1/exec.run", ": x", length) + body + hidden,
		"NUL in a header":         head("POST /v1/exec.run", "X-A: \x00", length) + body + hidden,
		"bare CR in a header":     head("POST /v1/exec.run", "X-A: b\rX-B: c", length) + body + hidden,
		"two hosts":               head("POST /v1/exec.run", "Host: localhost", length) + body + hidden,
		"space in the path":       head("POST /v1/exec.run x", length) + body + hidden,
		"no version":              "POST /v1/exec.run\r\n\r\n" + hidden,
		"other version":           "POST /v1/exec.run HTTP/3.1\r\n\r\n" + hidden,
		"not HTTP":                "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + hidden,
		"body of a GET":           head("GET /v1/exec/x-1/stdout", fmt.Sprintf("Content-Length: %d", len(hidden))) + hidden,
		"body of another GET":     head("GET /healthz", "Transfer-Encoding: chunked") + chunk(hidden) + "0\r\n\r\n",
		"HTTP/1.0 and chunked":    strings.Replace(head("POST /v1/exec.run", "Transfer-Encoding: chunked"), "HTTP/1.1", "HTTP/1.0", 1) + chunk(body) + "0\r\n\r\n" + hidden,
		"CONNECT":                 strings.Replace(head("CONNECT localhost:1"), "Content-Type", "X-Type", 1) + hidden,
		"preface of HTTP/2":       "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden,
		"huge header":             head("POST /v1/exec.run", "X-A: "+strings.Repeat("a", 100<<10), length) + body + hidden,
		"very many small headers": head("POST /v1/exec.run", strings.Split(strings.Repeat("A: b\n", 20<<10)+"X: y", "\n")...) + hidden,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(svc *service, conn net.Conn) { // where those that wait for more do not take long
				go func() { _, _ = io.WriteString(conn, request) }()
				r := bufio.NewReader(conn)
				resp, err := http.ReadResponse(r, nil)
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					if resp.StatusCode < 400 {
						t.Errorf("%d", resp.StatusCode)
					}
					if again, err := http.ReadResponse(r, nil); err == nil && again.StatusCode == 200 {
						t.Errorf("what hides behind is answered: %d", again.StatusCode)
					}
				}
				if n := svc.calls.Load(); n != 0 {
					t.Errorf("%d commands were run", n)
				}
			})
		})
	}
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	// Both a length and chunks: the chunks count (RFC 9112, 6.3), once, and the connection ends.
	before := w.service.calls.Load()
	answer := w.rawBytes(head("POST /v1/exec.run", "Content-Length: 3", "Transfer-Encoding: chunked") + chunk(body) + "0\r\n\r\n" + hidden)
	if n := w.service.calls.Load() - before; n > 1 || strings.Contains(answer, "hidden") {
		t.Errorf("%d commands, %q", n, answer)
	}
	w.ping()
}

// TestHTTPPipelined: requests that are sent at once are answered in order.
func TestHTTPPipelined(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	conn := w.dial()
	var all string
	for i := range 20 {
		body := command(fmt.Sprintf("echo %d", i))
		all += head("POST /v1/exec.run", fmt.Sprintf("Content-Length: %d", len(body))) + body
	}
	if _, err := io.WriteString(conn, all); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for i := range 20 {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		if !strings.Contains(string(text), fmt.Sprintf(`"stdout":"%d"`, i)) {
			t.Fatalf("%d: %s", i, text)
		}
	}
}

// TestHTTPSlowClients: the time for a header, for a body and of an unused connection is bounded. Each case has one limit that is reached soon, and the others are far away.
func TestHTTPSlowClients(t *testing.T) {
	const soon = 50 * time.Millisecond
	body := command("echo x")
	for name, c := range map[string]struct {
		limits        server.HTTPConfig
		request, want string
	}{
		"nothing":         {server.HTTPConfig{HeaderTimeout: soon}, "", ""},
		"half a header":   {server.HTTPConfig{HeaderTimeout: soon}, "POST /v1/exec.run HTT", ""},
		"half a body":     {server.HTTPConfig{BodyTimeout: soon}, head("POST /v1/exec.run", "Content-Length: 100") + body, "HTTP/1.1 408 "},
		"half a chunk":    {server.HTTPConfig{BodyTimeout: soon}, head("POST /v1/exec.run", "Transfer-Encoding: chunked") + "ff\r\n{", "HTTP/1.1 408 "},
		"idle":            {server.HTTPConfig{IdleTimeout: soon}, head("GET /healthz"), "HTTP/1.1 200 "},
		"nobody reads it": {server.HTTPConfig{BodyTimeout: soon}, strings.Replace(head("POST /v1/exec.run", "Content-Length: 1000"), fullToken, "wrong-token-0123456789", 1), "HTTP/1.1 401 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startWeb(t, server.Config{}, c.limits)
			if got := w.rawBytes(c.request); !strings.HasPrefix(got, c.want) || c.want == "" && strings.Contains(got, " 200 ") {
				t.Errorf("%.200q", got)
			}
		})
	}
}

// TestHTTPSlowBody: a body that comes slowly but comes is waited for, longer than the limit
// for each of its pieces.
func TestHTTPSlowBody(t *testing.T) {
	inBubble(t, func(_ *service, conn net.Conn) {
		body := command("echo x")
		fmt.Fprint(conn, head("POST /v1/exec.run", fmt.Sprintf("Content-Length: %d", len(body))))
		for _, c := range []byte(body) {
			time.Sleep(server.DefaultBodyTimeout / 4) // the client is slow
			if _, err := conn.Write([]byte{c}); err != nil {
				t.Fatal(err)
			}
		}
		if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

// TestHTTPSlowAnswer: once the request is there, the answer may take longer than any limit.
func TestHTTPSlowAnswer(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	extra := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 3 { // behind its end, too
			_, _ = io.Copy(io.Discard, r.Body)
		}
		select {
		case <-r.Context().Done():
		case <-time.After(2 * limit):
			_, _ = w.Write([]byte("patient"))
		}
	})
	w := startWeb(t, server.Config{}, server.HTTPConfig{BodyTimeout: limit, IdleTimeout: limit, Handlers: map[string]http.Handler{"/extra": extra}})
	done := make(chan string)
	go func() {
		_, text := w.do("POST", "/v1/exec.run", command("hold a"))
		done <- text
	}()
	receive(t, w.service.started)
	if resp, text := w.do("POST", "/extra", "{}"); resp.StatusCode != 200 || text != "patient" {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
	w.service.release("a") // after all limits
	if text := receive(t, done); !strings.Contains(text, `"stdout":"a"`) {
		t.Error(text)
	}
}

func TestHTTPTooManyConnections(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{MaxConnections: 2})
	one, two := w.dial(), w.dial()
	for _, c := range []*net.TCPConn{one, two} {
		if _, err := io.WriteString(c, head("GET /healthz")); err != nil {
			t.Fatal(err)
		}
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v, %v", resp, err)
		}
	}
	resp, e := w.refused(503, api.CodeResourcePressure, "POST", "/v1/system.ping", "")
	if !strings.Contains(e.Message, "max_http_connections (2)") || !resp.Close {
		t.Errorf("%s, close %v", e.Message, resp.Close)
	}
	// Far too many are not even told.
	var all []net.Conn
	for range 70 {
		all = append(all, w.dial())
	}
	last := all[len(all)-1]
	if n, err := last.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, c := range all {
		c.Close()
	}
	one.Close()
	testkit.Eventually(t, "at most one connection is open", func() bool { return w.Connections() <= 1 })
	w.ping()
}

// TestHTTPLargeRequests share a budget.
func TestHTTPLargeRequests(t *testing.T) {
	w := startWeb(t, server.Config{BufferBytes: 1 << 20}, server.HTTPConfig{})
	large := command("echo " + strings.Repeat("x", 600<<10))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			resp, text := w.do("POST", "/v1/exec.run", large)
			if resp.StatusCode != 200 && !strings.Contains(text, "RESOURCE_PRESSURE") {
				t.Errorf("%d %.200s", resp.StatusCode, text)
			}
		})
	}
	wg.Wait()
	w.refused(503, api.CodeResourcePressure, "POST", "/v1/exec.run", command("echo "+strings.Repeat("x", 2<<20)))
	if resp, _ := w.do("POST", "/v1/exec.run", large); resp.StatusCode != 200 {
		t.Errorf("the budget was not given back: %d", resp.StatusCode)
	}
}

func TestHTTPPanic(t *testing.T) {
	boom := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/boom/late" {
			_, _ = w.Write([]byte("begun"))
			w.(http.Flusher).Flush()
		}
		panic("the secret of the panic")
	})
	w := startWeb(t, server.Config{}, server.HTTPConfig{Handlers: map[string]http.Handler{"/boom": boom}})
	for _, c := range []struct{ path, body string }{{"/v1/exec.run", command("panic")}, {"/boom", "{}"}} {
		if _, e := w.refused(500, api.CodeInternal, "POST", c.path, c.body); strings.Contains(e.Message, "secret") {
			t.Errorf("the panic went to the client: %s", e.Message)
		}
	}
	resp := w.send(w.request("POST", "/boom/late", "{}"))
	if text, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("what broke off looks complete: %q", text)
	}
	w.service.oldExec("x-panic", "abc").exit()
	if resp, err := w.client.Do(w.request("GET", "/v1/exec/x-panic/stdout", "")); err == nil {
		if text, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("what broke off looks complete: %q", text)
		}
		resp.Body.Close()
	}
	if n := strings.Count(w.log.String(), "the secret of the panic"); n != 4 {
		t.Errorf("%d times in the log", n)
	}
	w.ping()
}

// TestHTTPShutdown: what runs is answered, what waits is closed at once, and streams
// say why they end.
func TestHTTPShutdown(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	w.service.oldExec("x-1", "abc")
	answers := make(chan string, 2)
	for _, request := range []struct{ path, body string }{{"/v1/exec.run", command("wait")}, {"/v1/exec.stream", `{"session_id":"a","command":"tick"}`}} {
		go func() {
			_, text := w.do("POST", request.path, request.body)
			answers <- text
		}()
	}
	receive(t, w.service.started)
	receiveTick(t, w.service, "one")
	follow := w.send(w.request("GET", "/v1/exec/x-1/stdout?follow=1", ""))
	if _, err := io.ReadFull(follow.Body, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	silent, half := w.dial(), w.dial()
	if _, err := io.WriteString(half, head("GET /healthz")); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(half), nil); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v, %v", resp, err)
	}
	if _, err := io.WriteString(half, "GET /hea"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "five connections are open", func() bool { return w.Connections() == 5 })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begin := time.Now()
	if err := w.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d >= server.DefaultHeaderTimeout {
		t.Errorf("it took %s: it waited for a header", d)
	}
	for range 2 {
		if text := receive(t, answers); !strings.Contains(text, `"error":{"code":"RUNTIME_UNAVAILABLE","message":"the daemon is shutting down"`) {
			t.Errorf("%s", text)
		}
	}
	if _, err := io.ReadAll(follow.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("raw output looks complete: %v", err)
	}
	for _, c := range []*net.TCPConn{silent, half} {
		if n, _ := c.Read(make([]byte, 100)); n > 0 {
			t.Errorf("%d bytes", n)
		}
	}
	if _, err := net.Dial("tcp", w.address); err == nil {
		t.Error("it still listens")
	}
}

// TestHTTPClose: HTTP ends with its connections, whose callers learn why, and the Server goes on.
func TestHTTPClose(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	answers := make(chan string, 2)
	for _, request := range []struct{ path, body string }{{"/v1/exec.run", command("wait")}, {"/v1/exec.stream", `{"session_id":"a","command":"tick"}`}} {
		go func() {
			_, text := w.do("POST", request.path, request.body)
			answers <- text
		}()
	}
	receive(t, w.service.started)
	receiveTick(t, w.service, "one")
	silent := w.dial()
	busy, idle := w.mustWebSocket(bearer(fullToken)), w.mustWebSocket(bearer(fullToken))
	busy.send(run(1, "wait"))
	receive(t, w.service.started)
	testkit.Eventually(t, "five connections are open", func() bool { return w.Connections() == 5 })
	ends := make(chan error, 1)
	go func() {
		_, _, err := idle.Read(idle.ctx)
		ends <- err
	}()
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go func() { done <- w.http.Close(ctx) }()
	for range 2 {
		if text := receive(t, answers); !strings.Contains(text, `"error":{"code":"RUNTIME_UNAVAILABLE","message":"http: was turned off"`) {
			t.Errorf("%s", text)
		}
	}
	busy.expect(`{"id":1,"ok":false,"error":{"code":"RUNTIME_UNAVAILABLE","message":"http: was turned off"`)
	if _, _, err := busy.Read(busy.ctx); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("%v", err)
	}
	if err := receive(t, ends); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("%v", err)
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("a connection without a request is open")
	}
	if err := receive(t, done); err != nil {
		t.Error(err)
	}
	if n := w.Connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
	if nc, err := net.Dial("tcp", w.address); err == nil {
		nc.Close()
		t.Error("it still listens")
	}
	// The Server serves others.
	here, there := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- w.ServeConn(t.Context(), there, "test") }()
	if _, err := io.WriteString(here, `{"id":1,"method":"system.ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(here).ReadString('\n'); err != nil || !strings.HasPrefix(line, `{"id":1,"ok":true`) {
		t.Errorf("%s, %v", line, err)
	}
	here.Close()
	receive(t, served)
}

// TestHTTPCloseCutsOffTheStubborn: a client that reads nothing does not keep HTTP on.
func TestHTTPCloseCutsOffTheStubborn(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	w.service.oldExec("x-1", strings.Repeat("x", 64<<20))
	resp := w.send(w.request("GET", "/v1/exec/x-1/stdout", "")) // and then reads nothing
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := w.http.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 connections cut off") {
		t.Errorf("%v", err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("it looks complete")
	}
	testkit.Eventually(t, "no connection is left", func() bool { return w.Connections() == 0 })
	ln, err := server.ListenHTTP("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.http.Serve(ln); err != nil {
		t.Errorf("serve after close: %v", err)
	}
}

// TestLocalMethods: no token is enough for a method that is for callers on the socket.
func TestLocalMethods(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	s := w.mustWebSocket(bearer(fullToken))
	n := 0
	for _, m := range api.Methods() {
		if m.Access != api.AccessLocal {
			continue
		}
		n++
		if _, e := w.refused(403, api.CodeForbidden, "POST", "/v1/"+m.Name, "{}"); !strings.Contains(e.Message, "only for callers on the daemon's socket") {
			t.Errorf("%s", e.Message)
		}
		s.send(`{"id":1,"method":"` + m.Name + `"}`)
		s.expect(`{"id":1,"ok":false,"error":{"code":"FORBIDDEN"`)
	}
	if n == 0 {
		t.Error("there is no such method")
	}
}

func TestHTTPShutdownCutsOffTheStubborn(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	w.service.oldExec("x-1", strings.Repeat("x", 64<<20))
	resp := w.send(w.request("GET", "/v1/exec/x-1/stdout", "")) // and then reads nothing
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := w.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 connections cut off") {
		t.Errorf("%v", err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("it looks complete")
	}
	if ln, err := server.ListenHTTP("127.0.0.1:0", false); err != nil {
		t.Error(err)
	} else if err := w.http.Serve(ln); !errors.Is(err, server.ErrShutdown) {
		t.Errorf("serve after shutdown: %v", err)
	}
}

func TestListenHTTP(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		ln, err := server.ListenHTTP(address, false)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		ln.Close()
	}
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:0", ":0"} {
		if _, err := server.ListenHTTP(address, false); err == nil || !strings.Contains(err.Error(), "give tls_cert and tls_key, or http_insecure") {
			t.Errorf("%s: %v", address, err)
		}
	}
	ln, err := server.ListenHTTP("127.0.0.1:0", true)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := server.ListenHTTP(ln.Addr().String(), false); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("%v", err)
	}
	if _, err := server.ListenHTTP("no.such.host.invalid:0", false); err == nil {
		t.Error("a host that does not exist")
	}
}

// certificate writes a new one for localhost, and returns it for the client's pool.
func certificate(t *testing.T, dir string) (certFile, keyFile string, cert *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<60))
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "trl"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, _ = x509.ParseCertificate(der)
	return certFile, keyFile, cert
}

// TestTLS: spoken from 1.2 on, and a new certificate is taken without a restart.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, first := certificate(t, dir)
	log := &testkit.Buffer{}
	config, err := server.NewTLS(certFile, keyFile, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	w := startWeb(t, server.Config{}, server.HTTPConfig{TLS: config})
	ask := func(c *tls.Config, origin string) (*http.Response, error) {
		transport := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		req := w.request("POST", "/v1/system.ping", "", "Origin", origin)
		req.URL.Scheme = "https"
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return resp, err
	}
	trusting := func(cert *x509.Certificate) *tls.Config {
		pool := x509.NewCertPool()
		pool.AddCert(cert)
		return &tls.Config{RootCAs: pool}
	}
	resp, err := ask(trusting(first), "https://"+w.address)
	if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 1 {
		t.Fatalf("%v, %v", resp, err)
	}
	if resp, err := ask(trusting(first), "http://"+w.address); err != nil || resp.StatusCode != 403 {
		t.Errorf("another scheme is another origin: %v, %v", resp, err)
	}
	old := trusting(first)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := ask(old, ""); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if got := w.rawBytes(head("GET /healthz")); !strings.HasPrefix(got, "HTTP/1.0 400 ") {
		t.Errorf("without TLS: %q", got)
	}
	_, _, second := certificate(t, dir)
	if _, err := ask(trusting(first), ""); err == nil {
		t.Error("the old certificate is still shown")
	}
	if resp, err := ask(trusting(second), ""); err != nil || resp.StatusCode != 200 {
		t.Errorf("%v, %v", resp, err)
	}
	if err := os.WriteFile(keyFile, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if resp, err := ask(trusting(second), ""); err != nil || resp.StatusCode != 200 {
			t.Errorf("%v, %v", resp, err)
		}
	}
	if n := strings.Count(log.String(), "keeping the old one"); n != 1 {
		t.Errorf("%d times in the log: %s", n, log)
	}
	if _, err := server.NewTLS(certFile, keyFile, nil); err == nil || !strings.Contains(err.Error(), "tls_cert, tls_key: ") {
		t.Errorf("%v", err)
	}
}
