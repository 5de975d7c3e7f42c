package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
	"github.com/trl-dev/trl/internal/testkit"
)

const (
	fullToken = "full-token-0123456789"
	readToken = "read-token-0123456789"
)

// web is a Server that speaks HTTP, with the small service of this package.
type web struct {
	*server.Server
	t       testing.TB
	http    *server.HTTP
	service *service
	log     *testkit.Buffer
	address string
	client  *http.Client
}

// startWeb starts one that is ready. It is shut down when the test ends, and must have
// neither connections nor requests then.
func startWeb(t testing.TB, cfg server.Config, c server.HTTPConfig) *web {
	t.Helper()
	w := newWeb(t, cfg, c)
	w.http.Ready()
	return w
}

func newWeb(t testing.TB, cfg server.Config, c server.HTTPConfig) *web {
	t.Helper()
	w := &web{t: t, service: newService(), log: &testkit.Buffer{}}
	cfg.Service = w.service
	cfg.Logger = slog.New(slog.NewTextHandler(w.log, nil))
	w.Server = server.New(cfg)
	if c.Tokens == nil {
		file := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(file, []byte("full "+fullToken+"\nread "+readToken+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if c.Tokens, err = server.NewTokens(server.TokensConfig{File: file, Logger: cfg.Logger}); err != nil {
			t.Fatal(err)
		}
	}
	w.http = w.NewHTTP(c)
	ln, err := server.ListenHTTP("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	w.address = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- w.http.Serve(ln) }()
	transport := &http.Transport{DisableCompression: true}
	w.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := w.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %s", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %s", err)
		}
		if n := w.Connections(); n != 0 {
			t.Errorf("%d connections after the end", n)
		}
		if n := w.service.running.Load(); n != 0 {
			t.Errorf("%d requests after the end", n)
		}
	})
	return w
}

// request makes a request with the full token; header is names and values by turns,
// and an empty value removes one.
func (w *web) request(method, path, body string, header ...string) *http.Request {
	w.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, "http://"+w.address+path, r)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+fullToken)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		switch {
		case header[i] == "Host":
			req.Host = header[i+1]
		case header[i+1] == "":
			req.Header.Del(header[i])
		default:
			req.Header.Set(header[i], header[i+1])
		}
	}
	return req
}

func (w *web) send(req *http.Request) *http.Response {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	w.t.Cleanup(cancel)
	resp, err := w.client.Do(req.WithContext(ctx))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// do makes a request and reads the answer.
func (w *web) do(method, path, body string, header ...string) (*http.Response, string) {
	w.t.Helper()
	resp := w.send(w.request(method, path, body, header...))
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %s", method, path, err)
	}
	return resp, string(text)
}

// refused makes a request that must be refused so.
func (w *web) refused(status int, code api.Code, method, path, body string, header ...string) (*http.Response, *api.Error) {
	w.t.Helper()
	resp, text := w.do(method, path, body, header...)
	var answer struct{ Error *api.Error }
	if err := json.Unmarshal([]byte(text), &answer); (err != nil || answer.Error == nil) && method != "HEAD" {
		w.t.Fatalf("%s %s: %d %q", method, path, resp.StatusCode, text)
	}
	if resp.StatusCode != status || method != "HEAD" && answer.Error.Code != code {
		w.t.Fatalf("%s %s %s: %d %q, want %d %s", method, path, header, resp.StatusCode, text, status, code)
	}
	return resp, answer.Error
}

// ping proves that the server works.
func (w *web) ping() {
	w.t.Helper()
	if resp, text := w.do("POST", "/v1/system.ping", ""); resp.StatusCode != 200 || text != pongData {
		w.t.Fatalf("%d %q", resp.StatusCode, text)
	}
}

const pongData = `{"uptime_s":1,"version":"test"}` + "\n"

func command(text string) string {
	params, _ := json.Marshal(map[string]string{"session_id": "s", "command": text})
	return string(params)
}

// raw sends bytes as they are and returns everything that comes until the server
// closes the connection.
func (w *web) rawBytes(text string) string {
	w.t.Helper()
	conn := w.dial()
	if _, err := io.WriteString(conn, text); err != nil {
		w.t.Fatal(err)
	}
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

func (w *web) dial() *net.TCPConn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * patience))
	return conn.(*net.TCPConn)
}

func TestHTTPCall(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	for _, body := range []string{"", "{}", "null", "  {}\n", "{\n}"} {
		resp, text := w.do("POST", "/v1/system.ping", body)
		if resp.StatusCode != 200 || text != pongData {
			t.Errorf("%q: %d %q", body, resp.StatusCode, text)
		}
		for name, want := range map[string]string{
			"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			"Access-Control-Allow-Origin": "", "Content-Length": fmt.Sprint(len(text)),
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	resp, text := w.do("POST", "/v1/exec.run", command("echo <é & \x01>"), "Content-Type", "application/json; charset=utf-8")
	if resp.StatusCode != 200 || !strings.Contains(text, `"stdout":"<é & \u0001>"`) {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	// A long answer, on the same connection as the next.
	resp, text = w.do("POST", "/v1/exec.run", command("size 5000000"))
	if resp.StatusCode != 200 || len(text) < 5000000 || !json.Valid([]byte(text)) {
		t.Errorf("%d, %d bytes", resp.StatusCode, len(text))
	}
	// A body of unknown length.
	req := w.request("POST", "/v1/exec.run", "x")
	req.Body = io.NopCloser(bufio.NewReader(strings.NewReader(command("echo " + strings.Repeat("y", 300000)))))
	req.ContentLength = -1
	resp = w.send(req)
	if all, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || len(all) < 300000 {
		t.Errorf("%d, %d bytes, %v", resp.StatusCode, len(all), err)
	}
}

func TestHTTPErrors(t *testing.T) {
	w := startWeb(t, server.Config{MaxRequestBytes: 4096}, server.HTTPConfig{})
	for _, c := range []struct {
		path, body string
		status     int
		code       api.Code
		message    string
	}{
		{"session.info", `{"session_id":"s-9"}`, 404, api.CodeSessionNotFound, `session "s-9": not found`},
		{"sesion.create", `{}`, 404, api.CodeMethodNotFound, `did you mean "session.create"?`},
		{"session/list", `{}`, 404, api.CodeMethodNotFound, `did you mean "session.list"?`},
		{"../healthz", `{}`, 404, api.CodeMethodNotFound, "not found"},
		{"", ``, 404, api.CodeMethodNotFound, `method "": not found`},
		{"exec.run", `{`, 400, api.CodeInvalidParams, "request: not JSON"},
		{"exec.run", `{} {}`, 400, api.CodeInvalidParams, "request: not JSON"},
		{"exec.run", "{\"command\":\"\xff\"}", 400, api.CodeInvalidParams, "request: not valid UTF-8 at byte 12"},
		{"exec.run", `[]`, 400, api.CodeInvalidParams, "params: must be a JSON object"},
		{"exec.run", `{"timeout":5}`, 400, api.CodeInvalidParams, "params.timeout: unknown field"},
		{"exec.run", ``, 400, api.CodeInvalidParams, "params.session_id: is required"},
		{"exec.run", command("nonsense"), 500, api.CodeInternal, `command "nonsense": unknown`},
		{"exec.run", command(strings.Repeat("x", 5000)), 413, api.CodeRequestTooLarge, "request: larger than max_request_bytes (4096)"},
	} {
		resp, e := w.refused(c.status, c.code, "POST", "/v1/"+c.path, c.body)
		if !strings.Contains(e.Message, c.message) {
			t.Errorf("%s %.40s: %q, want %q", c.path, c.body, e.Message, c.message)
		}
		if resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", c.path, resp.Header)
		}
	}
	// One of unknown length is cut off as well.
	req := w.request("POST", "/v1/exec.run", "x")
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(make([]byte, 5000))), -1
	if resp := w.send(req); resp.StatusCode != 413 {
		t.Errorf("%d", resp.StatusCode)
	}
	w.ping()
}

func TestHTTPVerbs(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	for _, c := range []struct{ verb, path, allow string }{
		{"GET", "/v1/system.ping", "POST"}, {"HEAD", "/v1/system.ping", "POST"}, {"PUT", "/v1/exec.run", "POST"},
		{"DELETE", "/v1/nonsense", "POST"}, {"OPTIONS", "/v1/exec.run", "POST"}, {"TRACE", "/v1/exec.run", "POST"},
		{"POST", "/healthz", "GET, HEAD"}, {"POST", "/v1/exec/x-1/stdout", "GET, HEAD"}, {"HEAD", "/v1/exec/x-1/stream", "GET"},
		{"POST", "/v1/events", "GET"}, {"POST", "/v1/ws", "GET"}, {"POST", "/metrics", "GET, HEAD"}, {"PROPFIND", "/openapi.json", "GET, HEAD"},
	} {
		resp, _ := w.refused(405, api.CodeInvalidParams, c.verb, c.path, "")
		if got := resp.Header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.verb, c.path, got, c.allow)
		}
	}
	for _, path := range []string{"/", "/v2/system.ping", "/v1", "/v1/exec/x-1", "/v1/exec/x-1/stdin", "/v1/exec/x-1/stdout/x", "//v1/system.ping", "/mcp"} {
		req := w.request("GET", "/", "")
		req.URL.Path = path
		resp := w.send(req)
		if resp.StatusCode != 404 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/exec/x-1/stdout", "{}")
	w.ping()
}

// TestHTTPContentType: what a form of a foreign page could send is not even read.
func TestHTTPContentType(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", "nonsense/", "application/json, text/plain"} {
		w.refused(415, api.CodeInvalidParams, "POST", "/v1/exec.run", command("echo x"), "Content-Type", kind)
	}
	w.refused(415, api.CodeInvalidParams, "POST", "/v1/system.ping", "", "Content-Type", "text/plain")
	w.refused(415, api.CodeInvalidParams, "POST", "/v1/exec.run", command("echo x"), "Content-Encoding", "gzip")
	if n := w.service.calls.Load(); n != 0 {
		t.Errorf("%d commands were run", n)
	}
}

func TestHTTPHealth(t *testing.T) {
	w := newWeb(t, server.Config{}, server.HTTPConfig{})
	none := []string{"Authorization", ""}
	if resp, text := w.do("GET", "/healthz", "", none...); resp.StatusCode != 200 || text != "ok\n" {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
	resp, e := w.refused(503, api.CodeRuntimeUnavailable, "GET", "/readyz", "", none...)
	if e.Message != "the daemon is starting" || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%s", e.Message)
	}
	w.refused(503, api.CodeRuntimeUnavailable, "POST", "/v1/system.ping", "")
	w.refused(401, api.CodeAuthFailed, "POST", "/v1/system.ping", "", none...)
	w.http.Ready()
	if resp, text := w.do("GET", "/readyz", "", none...); resp.StatusCode != 200 || text != "ready\n" {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
	if resp, text := w.do("HEAD", "/readyz", "", none...); resp.StatusCode != 200 || text != "" || resp.ContentLength != 6 {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
	w.ping()
	resp, text := w.do("GET", "/openapi.json", "", none...)
	if resp.StatusCode != 200 || !strings.Contains(text, `"openapi"`) || !json.Valid([]byte(text)) {
		t.Errorf("%d %.80q", resp.StatusCode, text)
	}
}

var metricLine = regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [-+0-9.e]+)\n$`)

func TestHTTPMetrics(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	w.refused(401, api.CodeAuthFailed, "GET", "/metrics", "", "Authorization", "")
	w.ping()
	w.ping()
	w.refused(404, api.CodeSessionNotFound, "POST", "/v1/session.info", `{"session_id":"x"}`)
	w.refused(404, api.CodeMethodNotFound, "POST", "/v1/nonsense", "")
	w.service.oldExec("x-1", "hello").exit()
	w.do("GET", "/v1/exec/x-1/stdout", "")
	resp, text := w.do("GET", "/metrics", "", "Authorization", "Bearer "+readToken)
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Errorf("%d %s", resp.StatusCode, got)
	}
	for _, want := range []string{
		`trl_requests_total{transport="http",method="system.ping",code="OK"} 2`,
		`trl_requests_total{transport="http",method="session.info",code="SESSION_NOT_FOUND"} 1`,
		`trl_requests_total{transport="http",method="",code="METHOD_NOT_FOUND"} 1`,
		`trl_requests_total{transport="http",method="",code="AUTH_FAILED"} 1`,
		`trl_requests_total{transport="http",method="exec.output",code="OK"} 1`,
		`trl_streamed_bytes_total{transport="http"} 5`,
		`trl_connections{transport="http"} 1`, `trl_connections{transport="websocket"} 0`,
		`trl_sessions{state="idle"} 0`, "# TYPE trl_execs_total counter", `trl_build_info{version="test",go_version="go1.`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if !metricLine.MatchString(line) {
			t.Errorf("%q is not in the format", line)
		}
	}
}
