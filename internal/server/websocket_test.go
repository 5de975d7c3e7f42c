package server_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

// socket is a WebSocket client that sends and receives whole messages.
type socket struct {
	*websocket.Conn
	t   testing.TB
	ctx context.Context
}

func (w *web) webSocket(o *websocket.DialOptions) (*socket, *http.Response, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	w.t.Cleanup(cancel)
	c, resp, err := websocket.Dial(ctx, "ws://"+w.address+"/v1/ws", o)
	if err != nil {
		return nil, resp, err
	}
	w.t.Cleanup(func() { c.CloseNow() })
	c.SetReadLimit(-1)
	return &socket{c, w.t, ctx}, resp, nil
}

func bearer(token string) *websocket.DialOptions {
	return &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}}
}

func (w *web) mustWebSocket(o *websocket.DialOptions) *socket {
	w.t.Helper()
	s, _, err := w.webSocket(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (s *socket) send(message string) {
	s.t.Helper()
	if err := s.Write(s.ctx, websocket.MessageText, []byte(message)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *socket) receive() string {
	s.t.Helper()
	kind, message, err := s.Read(s.ctx)
	if err != nil || kind != websocket.MessageText {
		s.t.Fatalf("%v, %v", kind, err)
	}
	return string(message)
}

func (s *socket) expect(prefix string) {
	s.t.Helper()
	if got := s.receive(); !strings.HasPrefix(got, prefix) || strings.Contains(got, "\n") {
		s.t.Fatalf("got  %.300q\nwant %.300q", got, prefix)
	}
}

func TestWebSocket(t *testing.T) {
	w := startWeb(t, server.Config{MaxRequestBytes: 4096}, server.HTTPConfig{})
	s := w.mustWebSocket(bearer(fullToken))
	for _, message := range []string{`{"id":1,"method":"system.ping"}`, "{\n  \"id\": 1,\r\n  \"method\": \"system.ping\"\n}\n"} {
		s.send(message)
		s.expect(`{"id":1,` + pong)
	}
	// One object per message, both ways, however large.
	s.send("{\"id\":1,\"method\":\"system.ping\"}\n{\"id\":2,\"method\":\"system.ping\"}")
	s.expect(`{"id":null,"ok":false,"error":{"code":"INVALID_PARAMS"`)
	s.send("hello")
	s.expect(`{"id":null,"ok":false,"error":{"code":"INVALID_PARAMS","message":"request: not JSON`)
	s.send(`{"id":3,"method":"exec.run","params":{"command":"` + strings.Repeat("x", 100000) + `"}}`)
	s.expect(`{"id":3,"ok":false,"error":{"code":"REQUEST_TOO_LARGE"`)
	s.send("")
	s.send(run(4, "size 3000000"))
	if got := s.receive(); len(got) < 3000000 || !strings.HasPrefix(got, `{"id":4,"ok":true`) || !strings.HasSuffix(got, "}") {
		t.Errorf("%d bytes", len(got))
	}
	// A message in several frames.
	m, err := s.Writer(s.ctx, websocket.MessageText)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`{"id":5,"met`, `hod":"system.`, `ping"}`} {
		if _, err := io.WriteString(m, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	s.expect(`{"id":5,` + pong)
	// Requests do not wait for each other, and streams push.
	s.send(run(6, "hold a"))
	receive(t, w.service.started)
	s.send(streamRequest("7", "a", "tick"))
	s.expect(`{"id":7,"ok":true,"data":{"stream_id":"x-a"`)
	receiveTick(t, w.service, "one")
	s.expect(`{"stream_id":"x-a","seq":1,"type":"stdout","offset":0,"data":"one"}`)
	w.service.release("a")
	s.expect(`{"id":6,"ok":true`)
	if n := w.Connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
	_, metrics := w.do("GET", "/metrics", "")
	if !strings.Contains(metrics, `trl_connections{transport="websocket"} 1`) ||
		!strings.Contains(metrics, `trl_requests_total{transport="websocket",method="system.ping",code="OK"} 3`) {
		t.Errorf("%s", metrics)
	}
	// The end of the connection is the end of the client.
	s.send(run(8, "wait"))
	receive(t, w.service.started)
	if err := s.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	receive(t, w.service.closed)
	testkit.Eventually(t, "no request is running", func() bool { return w.service.running.Load() == 0 })
}

func TestWebSocketGoneWithoutGoodbye(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	s := w.mustWebSocket(bearer(fullToken))
	s.send(run(1, "wait"))
	receive(t, w.service.started)
	s.CloseNow()
	testkit.Eventually(t, "no request is running and no connection is open", func() bool { return w.service.running.Load() == 0 && w.Connections() == 0 })
}

func TestWebSocketMessagesAreText(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	s := w.mustWebSocket(bearer(fullToken))
	if err := s.Write(s.ctx, websocket.MessageBinary, []byte(`{"id":1,"method":"system.ping"}`)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Read(s.ctx); websocket.CloseStatus(err) != websocket.StatusUnsupportedData {
		t.Errorf("%v", err)
	}
}

// TestWebSocketTokens: a page can only offer subprotocols; it has to offer ours too.
func TestWebSocketTokens(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	encoded := base64.RawURLEncoding.EncodeToString([]byte(fullToken))
	for _, token := range []string{fullToken, encoded} {
		s, resp, err := w.webSocket(&websocket.DialOptions{Subprotocols: []string{"trl.v1", "trl.token." + token}})
		if err != nil {
			t.Fatal(err)
		}
		if s.Subprotocol() != "trl.v1" || strings.Contains(fmt.Sprint(resp.Header), token) {
			t.Errorf("%v", resp.Header)
		}
		s.send(run(1, "echo x"))
		s.expect(`{"id":1,"ok":true`)
	}
	for name, o := range map[string]*websocket.DialOptions{
		"none":  {},
		"wrong": {Subprotocols: []string{"trl.v1", "trl.token.wrong-token-0123456789"}},
		"empty": {Subprotocols: []string{"trl.v1", "trl.token."}},
		"basic": {HTTPHeader: http.Header{"Authorization": {"Basic " + fullToken}}},
	} {
		if _, resp, err := w.webSocket(o); err == nil || resp == nil || resp.StatusCode != 401 {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
	// Only there.
	w.refused(401, api.CodeAuthFailed, "POST", "/v1/system.ping", "", "Authorization", "", "Sec-WebSocket-Protocol", "trl.token."+fullToken)
	for header, status := range map[string]int{"https://evil.example": 403, "null": 403, "http://" + w.address: 101} {
		o := bearer(fullToken)
		o.HTTPHeader.Set("Origin", header)
		if _, resp, _ := w.webSocket(o); resp == nil || resp.StatusCode != status {
			t.Errorf("origin %s: %v", header, resp)
		}
	}
	o := bearer(fullToken)
	o.Host = "evil.example"
	if _, resp, _ := w.webSocket(o); resp == nil || resp.StatusCode != 421 {
		t.Errorf("%v", resp)
	}
	// Without the words of the handshake it is no WebSocket.
	if resp, _ := w.do("GET", "/v1/ws", ""); resp.StatusCode != 426 {
		t.Errorf("%d", resp.StatusCode)
	}
}

func TestWebSocketReadScope(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	s := w.mustWebSocket(bearer(readToken))
	for _, m := range api.Methods() {
		if m.Access != api.AccessRead {
			s.send(`{"id":1,"method":"` + m.Name + `"}`)
			s.expect(`{"id":1,"ok":false,"error":{"code":"FORBIDDEN"`)
		}
	}
	s.send(`{"id":2,"method":"session.list"}`)
	s.expect(`{"id":2,"ok":true`)
}

func TestWebSocketShutdown(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	s, idle := w.mustWebSocket(bearer(fullToken)), w.mustWebSocket(bearer(fullToken))
	s.send(run(1, "wait"))
	receive(t, w.service.started)
	ended := make(chan error, 1)
	go func() {
		_, _, err := idle.Read(idle.ctx)
		ended <- err
	}()
	done := make(chan error, 1)
	go func() { done <- w.Shutdown(context.Background()) }()
	s.expect(`{"id":1,"ok":false,"error":{"code":"RUNTIME_UNAVAILABLE","message":"the daemon is shutting down"`)
	if _, _, err := s.Read(s.ctx); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("%v", err)
	}
	if err := receive(t, ended); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("%v", err)
	}
	if err := receive(t, done); err != nil {
		t.Error(err)
	}
}

// TestWebSocketTooMany: a WebSocket counts towards max_connections.
func TestWebSocketTooMany(t *testing.T) {
	w := startWeb(t, server.Config{MaxConnections: 1}, server.HTTPConfig{})
	one := w.mustWebSocket(bearer(fullToken))
	one.send(`{"id":1,"method":"system.ping"}`)
	one.expect(`{"id":1,` + pong)
	two := w.mustWebSocket(bearer(fullToken))
	two.expect(`{"id":null,"ok":false,"error":{"code":"RESOURCE_PRESSURE","message":"connection: max_connections (1) reached"`)
	if _, _, err := two.Read(two.ctx); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("%v", err)
	}
	one.send(`{"id":2,"method":"system.ping"}`)
	one.expect(`{"id":2,` + pong)
}

// TestWebSocketReaderThatTakesNothing: the server disconnects it.
func TestWebSocketReaderThatTakesNothing(t *testing.T) {
	w := startWeb(t, server.Config{WriteTimeout: 50 * time.Millisecond}, server.HTTPConfig{})
	s := w.mustWebSocket(bearer(fullToken))
	s.send(streamRequest("1", "a", "count 100000"))
	receive(t, w.service.closed)
	testkit.Eventually(t, "no connection is open", func() bool { return w.Connections() == 0 })
}

// TestWebSocketSlowButSteady: how little a client takes does not matter, only that it takes something.
func TestWebSocketSlowButSteady(t *testing.T) {
	inBubble(t, func(_ *service, conn net.Conn) {
		const size = 32 << 10
		fmt.Fprint(conn, head("GET /v1/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="))
		resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Errorf("%+v, %v", resp, err)
			return
		}
		request := streamRequest("1", "a", "count 1000")
		frame := []byte{0x81, 0x80 | byte(len(request)), 0, 0, 0, 0} // all of a text, masked with zeros
		_, _ = conn.Write(append(frame, request...))
		n, buf := 0, make([]byte, 1<<10)
		for n < size {
			m, err := io.ReadFull(conn, buf)
			if n += m; err != nil {
				t.Errorf("cut off after %d bytes: %v", n, err)
				return
			}
			time.Sleep(server.DefaultWriteTimeout/2 + 2*time.Second) // also while a ping could wait for its turn
		}
	})
}

// TestWebSocketKeepAlive: the server sends a ping after 15 s of silence.
func TestWebSocketKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, err := server.NewTokens(server.TokensConfig{Token: fullToken})
		if err != nil {
			t.Fatal(err)
		}
		s := server.New(server.Config{Service: newService()})
		h := s.NewHTTP(server.HTTPConfig{Tokens: tokens})
		h.Ready()
		ln := newPipeListener()
		served := make(chan error)
		go func() { served <- h.Serve(ln) }()
		var pings atomic.Int64
		o := bearer(fullToken)
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ln.dial(), nil }}
		o.HTTPClient = &http.Client{Transport: transport}
		o.OnPingReceived = func(context.Context, []byte) bool { pings.Add(1); return true }
		c, _, err := websocket.Dial(t.Context(), "ws://localhost/v1/ws", o)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			_, _, err := c.Read(context.Background())
			ended <- err
		}()
		time.Sleep(61 * time.Second)
		if n := pings.Load(); n != 4 {
			t.Errorf("%d pings in a minute", n)
		}
		go func() { _ = s.Shutdown(context.Background()) }()
		if err := <-ended; websocket.CloseStatus(err) != websocket.StatusServiceRestart && !errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = c.CloseNow()
		transport.CloseIdleConnections()
	})
}
