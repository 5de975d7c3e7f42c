package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

// lineReader reads the lines of an answer that has not ended.
type lineReader struct {
	io.Closer
	t testing.TB
	r *bufio.Reader
}

func (l lineReader) expect(want ...string) {
	l.t.Helper()
	for _, w := range want {
		got, err := l.r.ReadString('\n')
		if err != nil || got != w+"\n" {
			l.t.Fatalf("got  %q, %v\nwant %q", got, err, w)
		}
	}
}

func (l lineReader) end() {
	l.t.Helper()
	if rest, err := io.ReadAll(l.r); err != nil || len(rest) > 0 {
		l.t.Fatalf("%q, %v; want the end", rest, err)
	}
}

func (w *web) stream(contentType string, req *http.Request) lineReader {
	w.t.Helper()
	resp := w.send(req)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != contentType || resp.Header.Get("X-Accel-Buffering") != "no" {
		text, _ := io.ReadAll(resp.Body)
		w.t.Fatalf("%d %s %s", resp.StatusCode, resp.Header, text)
	}
	return lineReader{resp.Body, w.t, bufio.NewReader(resp.Body)}
}

const (
	ndjson = "application/x-ndjson"
	sse    = "text/event-stream"
)

func TestHTTPStreamOfLines(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	lines := w.stream(ndjson, w.request("POST", "/v1/exec.stream", `{"session_id":"a","command":"tick"}`))
	// Each is there before the next is made.
	lines.expect(`{"stream_id":"x-a","exec_id":"x-a","session_id":"s"}`)
	for i, text := range []string{"one", "two"} {
		receiveTick(t, w.service, text)
		lines.expect(fmt.Sprintf(`{"stream_id":"x-a","seq":%d,"type":"stdout","offset":%d,"data":"%s"}`, i+1, 3*i, text))
	}
	lines.Close()
	receive(t, w.service.closed)
	lines = w.stream(ndjson, w.request("POST", "/v1/exec.stream", `{"session_id":"b","command":"count 3"}`))
	lines.expect(`{"stream_id":"x-b","exec_id":"x-b","session_id":"s"}`)
	for range 3 {
		if line, err := lines.r.ReadString('\n'); err != nil || len(line) < 32<<10 {
			t.Fatalf("%.80q, %v", line, err)
		}
	}
	if line, _ := lines.r.ReadString('\n'); !strings.HasPrefix(line, `{"stream_id":"x-b","seq":4,"type":"exit","exit_code":3,`) {
		t.Errorf("%q", line)
	}
	lines.end()
	if id := receive(t, w.service.closed); id != "x-b" {
		t.Errorf("%s", id)
	}
}

func receiveTick(t *testing.T, s *service, text string) {
	t.Helper()
	select {
	case s.ticks <- text:
	case <-time.After(patience):
		t.Fatal("nobody asks for more")
	}
}

func TestHTTPStreamOfEvents(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	for _, accept := range []string{sse, "application/json, Text/Event-Stream;q=0.5"} {
		lines := w.stream(sse, w.request("POST", "/v1/exec.stream", `{"session_id":"a","command":"tick"}`, "Accept", accept))
		lines.expect("event: start", `data: {"stream_id":"x-a","exec_id":"x-a","session_id":"s"}`, "")
		receiveTick(t, w.service, "a\nb")
		lines.expect("id: 1", "event: stdout", `data: {"stream_id":"x-a","seq":1,"type":"stdout","offset":0,"data":"a\nb"}`, "")
		lines.Close()
		receive(t, w.service.closed)
	}
}

// TestHTTPStreamThatBreaks: the error has the number of the push before it, so that a browser
// reconnects with that number.
func TestHTTPStreamThatBreaks(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	for verb, code := range map[string]api.Code{"broken": api.CodeRuntimeUnavailable, "panic": api.CodeInternal} {
		lines := w.stream(sse, w.request("POST", "/v1/exec.stream", `{"session_id":"a","command":"`+verb+`"}`, "Accept", sse))
		lines.expect("event: start")
		text, err := io.ReadAll(lines.r)
		if err != nil || !strings.Contains(string(text), "\n\nid: 1\nevent: error\ndata: "+`{"stream_id":"x-a","seq":1,"type":"error","error":{"code":"`+string(code)) {
			t.Errorf("%s: %.100q … %.300q, %v", verb, text, text[max(0, len(text)-300):], err)
		}
		receive(t, w.service.closed)
	}
	w.refused(400, api.CodeInvalidParams, "POST", "/v1/exec.stream", `{"exec_id":"x-1","command":"a"}`, "Accept", sse)
	w.refused(404, api.CodeExecNotFound, "POST", "/v1/exec.stream", `{"exec_id":"x-1"}`, "Accept", sse)
	w.ping()
}

func TestHTTPStreamResumed(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	w.service.oldExec("x-9", "one", "two", "three").exit()
	running := w.service.oldExec("x-8", "one")
	three := []string{"id: 3", "event: stdout", `data: {"stream_id":"x-9","seq":3,"type":"stdout","offset":6,"data":"three"}`, ""}
	start := []string{"event: start", `data: {"stream_id":"x-9","exec_id":"x-9","session_id":"s"}`, ""}
	for name, req := range map[string]*http.Request{
		"get, header":  w.request("GET", "/v1/exec/x-9/stream?after_seq=1", "", "Accept", sse, "Last-Event-ID", "2"),
		"get, query":   w.request("GET", "/v1/exec/x-9/stream?after_seq=2", "", "Accept", sse),
		"post":         w.request("POST", "/v1/exec.stream", `{"exec_id":"x-9","after_seq":2}`, "Accept", sse),
		"post, header": w.request("POST", "/v1/exec.stream", `{"exec_id":"x-9","from_offset":1}`, "Accept", sse, "Last-Event-ID", "2"),
	} {
		t.Run(name, func(t *testing.T) {
			lines := w.stream(sse, req)
			lines.t = t
			lines.expect(start...)
			lines.expect(three...)
			lines.expect("id: 4", "event: exit")
		})
	}
	lines := w.stream(ndjson, w.request("GET", "/v1/exec/x-9/stream", ""))
	lines.expect(`{"stream_id":"x-9","exec_id":"x-9","session_id":"s"}`, `{"stream_id":"x-9","seq":1,"type":"stdout","offset":0,"data":"one"}`)

	// A client that has the exit must not reconnect; a number that no push had is an error.
	if resp, text := w.do("GET", "/v1/exec/x-9/stream", "", "Accept", sse, "Last-Event-ID", "4"); resp.StatusCode != 204 || text != "" {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/exec/x-9/stream", "", "Accept", sse, "Last-Event-ID", "5")
	for _, id := range []string{"x", "-1", "1.5", "99999999999999999999", "0x1", "2, 3"} {
		w.refused(400, api.CodeInvalidParams, "GET", "/v1/exec/x-9/stream", "", "Accept", sse, "Last-Event-ID", id)
		w.refused(400, api.CodeInvalidParams, "GET", "/v1/events", "", "Accept", sse, "Last-Event-ID", id)
	}
	if _, e := w.refused(400, api.CodeInvalidParams, "GET", "/v1/exec/x-8/stream", "", "Last-Event-ID", "2"); !strings.Contains(e.Message, "2 is beyond the end") {
		t.Error(e.Message)
	}
	// A request that is repeated must not run the command again.
	w.refused(400, api.CodeInvalidParams, "POST", "/v1/exec.stream", command("count 1"), "Accept", sse, "Last-Event-ID", "1")

	// The last one goes on as it comes.
	lines = w.stream(sse, w.request("GET", "/v1/exec/x-8/stream", "", "Accept", sse, "Last-Event-ID", "1"))
	lines.expect("event: start", `data: {"stream_id":"x-8","exec_id":"x-8","session_id":"s"}`, "")
	running.write("more")
	lines.expect("id: 2", "event: stdout", `data: {"stream_id":"x-8","seq":2,"type":"stdout","offset":3,"data":"more"}`, "")
	running.exit()
	lines.expect("id: 3", "event: exit")
}

func TestHTTPEvents(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	for name, req := range map[string]*http.Request{
		"query":  w.request("GET", "/v1/events?session_id=build&types=exec,session.idle&after_seq=6", "", "Accept", sse),
		"twice":  w.request("GET", "/v1/events?session_id=build&types=exec&types=session.idle&after_seq=6", "", "Accept", sse),
		"header": w.request("GET", "/v1/events?session_id=build&types=exec,session.idle&after_seq=1", "", "Accept", sse, "Last-Event-ID", "6"),
		"post":   w.request("POST", "/v1/event.subscribe", `{"session_id":"build","types":["exec","session.idle"]}`, "Accept", sse, "Last-Event-ID", "6"),
	} {
		t.Run(name, func(t *testing.T) {
			lines := w.stream(sse, req)
			lines.t = t
			lines.expect("event: start", `data: {"stream_id":"e","seq":6}`, "", "id: 7", "event: session.idle",
				`data: {"stream_id":"e","seq":7,"type":"session.idle","session_id":"build","cause":"exec;session.idle;"}`, "")
		})
	}
	lines := w.stream(ndjson, w.request("GET", "/v1/events", "", "Authorization", "Bearer "+readToken))
	lines.expect(`{"stream_id":"e","seq":100}`)
	for _, query := range []string{"?after=1", "?after_seq=x", "?after_seq=1&after_seq=2", "?after_seq=-1", "?types=nonsense", "?a=%zz", "?session_id=a;b"} {
		w.refused(400, api.CodeInvalidParams, "GET", "/v1/events"+query, "")
	}
	for _, query := range []string{"?offset=1", "?after_seq=1&from_offset=1", "?stream=stdin", "?command=true"} {
		w.service.oldExec("x-1")
		w.refused(400, api.CodeInvalidParams, "GET", "/v1/exec/x-1/stream"+query, "")
	}
}

// TestHTTPSlowReader: pushes are made only as they are taken.
func TestHTTPSlowReader(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	conn := w.dial()
	_ = conn.SetReadBuffer(64 << 10)
	body := `{"session_id":"a","command":"count 100000"}`
	fmt.Fprintf(conn, "POST /v1/exec.stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		fullToken, len(body), body)
	if n := settles(t, w.service.received.Load); n*32<<10 > 16<<20 {
		t.Errorf("%d bytes were pushed to a client that reads nothing", n*32<<10)
	}
	w.ping()
	conn.Close()
	receive(t, w.service.closed)
}

// TestHTTPReaderThatTakesNothing: the server disconnects it.
func TestHTTPReaderThatTakesNothing(t *testing.T) {
	w := startWeb(t, server.Config{WriteTimeout: 50 * time.Millisecond}, server.HTTPConfig{})
	conn := w.dial()
	body := `{"session_id":"a","command":"count 100000"}`
	fmt.Fprintf(conn, "POST /v1/exec.stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		fullToken, len(body), body)
	receive(t, w.service.closed)
	testkit.Eventually(t, "no connection is open", func() bool { return w.Connections() == 0 })
	if n := w.service.received.Load(); n > 1000 {
		t.Errorf("%d pushes", n)
	}
}

// TestHTTPClientGone: the call ends with the client, and api.Conn with it.
func TestHTTPClientGone(t *testing.T) {
	entered, left := make(chan struct{}), make(chan error, 1)
	extra := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-api.Conn(r.Context()).Done()
		left <- context.Cause(api.Conn(r.Context()))
	})
	w := startWeb(t, server.Config{}, server.HTTPConfig{Handlers: map[string]http.Handler{"/extra": extra}})
	conn := w.dial()
	fmt.Fprint(conn, head("GET /extra"))
	receive(t, entered)
	conn.Close()
	if err := receive(t, left); err == nil || err.Error() != "the client has disconnected" {
		t.Errorf("%v", err)
	}
	for _, request := range []struct{ path, body string }{
		{"/v1/exec.run", command("wait")}, // waits for api.Conn too
		{"/v1/exec.stream", `{"session_id":"a","command":"tick"}`},
	} {
		conn := w.dial()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			request.path, fullToken, len(request.body), request.body)
		if request.path == "/v1/exec.run" {
			receive(t, w.service.started)
			conn.Close()
		} else {
			receiveTick(t, w.service, "one")
			conn.Close()
			receive(t, w.service.closed)
		}
		testkit.Eventually(t, "no request is running and no connection is open", func() bool { return w.service.running.Load() == 0 && w.Connections() == 0 })
	}
}

// inBubble serves a client in a time of its own, over a network of its own.
func inBubble(t *testing.T, client func(svc *service, conn net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tokens, err := server.NewTokens(server.TokensConfig{Token: fullToken})
		if err != nil {
			t.Fatal(err)
		}
		svc := newService()
		s := server.New(server.Config{Service: svc})
		h := s.NewHTTP(server.HTTPConfig{Tokens: tokens})
		h.Ready()
		ln := newPipeListener()
		served := make(chan error)
		go func() { served <- h.Serve(ln) }()
		conn := ln.dial()
		client(svc, conn)
		conn.Close()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestHTTPKeepAlive: after 15 s of silence something comes that means nothing.
func TestHTTPKeepAlive(t *testing.T) {
	for _, c := range []struct{ accept, silence string }{{ndjson, "1\r\n\n\r\n"}, {sse, "e\r\n: keep-alive\n\n\r\n"}} {
		inBubble(t, func(svc *service, conn net.Conn) {
			body := `{"session_id":"a","command":"tick"}`
			fmt.Fprint(conn, head("POST /v1/exec.stream", "Accept: "+c.accept, fmt.Sprintf("Content-Length: %d", len(body)))+body)
			r := bufio.NewReader(conn)
			if line, err := textproto.NewReader(r).ReadLine(); err != nil || line != "HTTP/1.1 200 OK" {
				t.Fatalf("%q, %v", line, err)
			}
			readUntil(t, r, "}\n")
			begin := time.Now()
			for range 3 {
				readUntil(t, r, c.silence)
			}
			if d := time.Since(begin); d != 45*time.Second {
				t.Errorf("three in %s", d)
			}
			time.Sleep(10 * time.Second)
			svc.ticks <- "x"
			readUntil(t, r, "}\n")
			begin = time.Now()
			readUntil(t, r, c.silence)
			if d := time.Since(begin); d != 15*time.Second {
				t.Errorf("%s after a push", d)
			}
		})
	}
}

// TestHTTPSignsOfLife: a client that asks for signs of life gets them during a long call; another
// client gets the true status instead.
func TestHTTPSignsOfLife(t *testing.T) {
	for _, c := range []struct{ command, header, status, body string }{
		{"hold a", "X-Trl-Keep-Alive: 1", "200 OK", "\n\n\n" + `{"exec_id":""`},
		{"nonsense", "X-Trl-Keep-Alive: 1", "500 Internal Server Error", `{"error":{"code":"INTERNAL_ERROR"`},
		{"hold error", "X-Trl-Keep-Alive: 1", "200 OK", "\n\n\n" + `{"error":{"code":"CONFLICT"`},
		{"hold error", "X-Trl-Keep-Alive: 0", "409 Conflict", `{"error":{"code":"CONFLICT"`},
	} {
		inBubble(t, func(svc *service, conn net.Conn) {
			body := command(c.command)
			fmt.Fprint(conn, head("POST /v1/exec.run", c.header, fmt.Sprintf("Content-Length: %d", len(body)))+body)
			if name, ok := strings.CutPrefix(c.command, "hold "); ok {
				go func() {
					time.Sleep(50 * time.Second)
					svc.release(name)
				}()
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.Status != c.status || !strings.HasPrefix(string(text), c.body) || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %s %q, %v", c.command, resp.Status, text, err)
			}
		})
	}
}

func readUntil(t *testing.T, r *bufio.Reader, end string) {
	t.Helper()
	var got strings.Builder
	for !strings.HasSuffix(got.String(), end) {
		b, err := r.ReadByte()
		if err != nil {
			t.Fatalf("%s after %q", err, got.String())
		}
		got.WriteByte(b)
	}
}

// pipeListener is a network inside the process, whose time can be that of a test.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{make(chan net.Conn), make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	ours, theirs := net.Pipe()
	l.conns <- theirs
	return ours
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
