package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// httpDaemon answers the next requests, in this order, and reports each as "METHOD PATH BODY".
func httpDaemon(t *testing.T, answers ...http.HandlerFunc) (*client.Client, *httptest.Server, func() []string) {
	t.Helper()
	asked := make(chan string, 100)
	var next atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- r.Method + " " + r.URL.RequestURI() + " " + strings.TrimSpace(string(body))
		if got := r.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("Authorization: %s", got)
		}
		n := int(next.Add(1)) - 1
		if n >= len(answers) {
			t.Errorf("one request too many: %s %s", r.Method, r.URL)
			return
		}
		answers[n](w, r)
	}))
	t.Cleanup(s.Close)
	c, err := client.DialHTTP(s.URL+"/", "secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, s, func() (list []string) {
		for {
			select {
			case a := <-asked:
				list = append(list, a)
			default:
				return list
			}
		}
	}
}

func says(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// cut ends the connection without a proper end of the answer.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestHTTPCalls(t *testing.T) {
	c, _, asked := httpDaemon(t,
		says(200, `{"version":"1 <2>"}`),
		says(409, `{"error":{"code":"SESSION_BUSY","message":"session \"a\": busy","details":{"exec_id":"x-1"}}}`),
		says(200, "\n\n{\"error\":{\"code\":\"SESSION_NOT_FOUND\",\"message\":\"late\"}}"),
		says(404, "<html>nothing"),
		says(302, ""),
	)
	if r, err := c.SystemPing(timeout(t), api.SystemPingParams{}); err != nil || r.Version != "1 <2>" {
		t.Errorf("%+v, %v", r, err)
	}
	var e *api.Error
	if _, err := c.ExecRun(timeout(t), api.ExecParams{SessionID: "a", Command: "<&>"}); !errors.As(err, &e) || e.Code != api.CodeSessionBusy || e.Details["exec_id"] != "x-1" {
		t.Errorf("%v", err)
	}
	if _, err := c.ExecWait(timeout(t), api.ExecWaitParams{}); !errors.Is(err, api.ErrSessionNotFound) || err.Error() != "late" {
		t.Errorf("%v", err)
	}
	for _, status := range []string{"404", "302"} {
		if _, err := c.SystemPing(timeout(t), api.SystemPingParams{}); err == nil || !strings.Contains(err.Error(), "HTTP status "+status) {
			t.Errorf("%v", err)
		}
	}
	got := asked()
	if len(got) != 5 || got[0] != "POST /v1/system.ping {}" || !strings.HasPrefix(got[1], `POST /v1/exec.run {"session_id":"a","command":"<&>","run_id":"`) {
		t.Errorf("%q", got)
	}
	if _, ok := c.PeerPID(); ok {
		t.Error("who is behind HTTP is not known")
	}
}

// TestOlderDaemon: a daemon that does not know run_id gets the request again without it, and no
// run_id in later requests. It is recognised by the field in the details, not by the message.
func TestOlderDaemon(t *testing.T) {
	c, _, asked := httpDaemon(t,
		says(400, `{"error":{"code":"INVALID_PARAMS","message":"what is this?","details":{"field":"run_id"}}}`),
		says(200, `{"exit_code":3}`),
		says(200, `{"exit_code":4}`),
	)
	for _, want := range []int{3, 4} {
		if r, err := c.ExecRun(timeout(t), api.ExecParams{SessionID: "a", Command: "true"}); err != nil || r.ExitCode != want {
			t.Errorf("%+v, %v", r, err)
		}
	}
	for i, request := range asked() {
		if has := strings.Contains(request, `"run_id"`); has != (i == 0) {
			t.Errorf("request %d: %s", i, request)
		}
	}
}

// TestInvalidParamIsNoOlderDaemon: a message that mentions run_id does not make the daemon an older one.
func TestInvalidParamIsNoOlderDaemon(t *testing.T) {
	c, _, asked := httpDaemon(t, says(400, `{"error":{"code":"INVALID_PARAMS","message":"params.command: not run_id","details":{"field":"command"}}}`))
	if _, err := c.ExecRun(timeout(t), api.ExecParams{SessionID: "a", Command: "true"}); err == nil {
		t.Error("the request was not rejected")
	}
	if n := len(asked()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestHTTPLosses(t *testing.T) {
	c, s, asked := httpDaemon(t, cut, says(502, "bad gateway"), says(503, `{"error":{"code":"RUNTIME_UNAVAILABLE","message":"not yet","details":{"reason":"starting"}}}`),
		says(200, `{"version":"1"}`), cut)
	if _, err := c.SystemPing(timeout(t), api.SystemPingParams{}); err != nil {
		t.Error(err)
	}
	if _, err := c.SessionCreate(timeout(t), api.SessionCreateParams{}); !errors.Is(err, api.ErrRuntimeUnavailable) ||
		err.Error() != "daemon at "+s.URL+": the daemon closed the connection; it is not known whether session.create was done" {
		t.Errorf("%v", err)
	}
	if n := len(asked()); n != 5 {
		t.Errorf("%d requests", n)
	}
	s.Close()
	c.ReconnectFor = 0
	_, err := c.ExecRun(timeout(t), api.ExecParams{SessionID: "a", Command: "c"})
	if !errors.Is(err, api.ErrRuntimeUnavailable) || !errors.Is(err, syscall.ECONNREFUSED) || err.Error() != "daemon at "+s.URL+": connect: connection refused" {
		t.Errorf("%v", err)
	}
}

func TestHTTPStream(t *testing.T) {
	gone := make(chan struct{})
	c, _, asked := httpDaemon(t,
		func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{\"stream_id\":\"x-1\",\"exec_id\":\"x-1\"}\n\n\n{\"stream_id\":\"x-1\",\"seq\":1,\"type\":\"stdout\",\"offset\":0,\"data\":\"first\"}\n{\"stream_id\":\"x-")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		says(200, "{\"stream_id\":\"x-1\",\"exec_id\":\"x-1\"}\n"), // a proper end, but of the answer, not of the command
		says(200, "{\"stream_id\":\"x-1\",\"exec_id\":\"x-1\"}\n{\"stream_id\":\"x-1\",\"seq\":2,\"type\":\"exit\",\"exit_code\":2}\n"),
		func(w http.ResponseWriter, r *http.Request) {
			defer close(gone)
			_, _ = io.WriteString(w, "{\"stream_id\":\"e-1\",\"seq\":7}\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		says(404, `{"error":{"code":"EXEC_NOT_FOUND","message":"no"}}`),
	)
	s, err := c.ExecStream(timeout(t), command)
	if err != nil {
		t.Fatal(err)
	}
	recv(t, s, 1, "first")
	if ev, err := s.Recv(); err != nil || ev.Type != api.EventExit || ev.ExitCode != 2 {
		t.Errorf("%+v, %v", ev, err)
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Error(err)
	}
	const again = `POST /v1/exec.stream {"session_id":"","command":"","exec_id":"x-1","after_seq":1}`
	if got := asked(); len(got) != 3 || got[1] != again || got[2] != again {
		t.Errorf("%q", got)
	}

	if s, err = c.EventSubscribe(timeout(t), api.EventSubscribeParams{}); err != nil {
		t.Fatal(err)
	}
	if s.Start().Seq != 7 {
		t.Errorf("%+v", s.Start())
	}
	ended := make(chan error)
	go func() { _, err := s.Recv(); ended <- err }()
	s.Close()
	if err := <-ended; err != io.ErrClosedPipe {
		t.Error(err)
	}
	<-gone // the daemon is rid of it

	if _, err = c.ExecStream(timeout(t), api.ExecStreamParams{ExecID: "x-2"}); !errors.Is(err, api.ErrExecNotFound) {
		t.Error(err)
	}
}

// TestHTTPClose: everything that waits is ended.
func TestHTTPClose(t *testing.T) {
	waiting := make(chan struct{}, 2)
	hang := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/exec.stream" {
			_, _ = io.WriteString(w, "{\"stream_id\":\"x-1\",\"exec_id\":\"x-1\"}\n")
			_ = http.NewResponseController(w).Flush()
		}
		waiting <- struct{}{}
		<-r.Context().Done()
	}
	c, _, _ := httpDaemon(t, hang, hang)
	s, err := c.ExecStream(timeout(t), command)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { _, err := s.Recv(); ended <- err }()
	go func() {
		_, err := c.ExecRun(timeout(t), api.ExecParams{SessionID: "s", Command: "c"})
		ended <- err
	}()
	<-waiting
	<-waiting
	c.Close()
	for range 2 {
		if err := <-ended; !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), "closed by this side") {
			t.Error(err)
		}
	}
}

func TestHTTPSChecksTheCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(says(200, `{}`))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	c, err := client.DialHTTP(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.SystemPing(timeout(t), api.SystemPingParams{}); !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

func TestDialHTTPErrors(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:7777", "ftp://x", "http://", "http://a b", "http://h/path", "http://h?x=1", "http://u:p@h"} {
		if _, err := client.DialHTTP(address, ""); !errors.Is(err, api.ErrInvalidParams) {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := client.DialHTTP("http://h", "a\nb"); !errors.Is(err, api.ErrInvalidParams) {
		t.Error(err)
	}
}

func TestConnect(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TRL_STATE_DIR", dir)
	t.Setenv("TRL_AUTH_TOKEN", "")
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("# ours\n\nread looks\nfull secret\nother\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, s, _ := httpDaemon(t, says(200, `{}`), says(401, `{"error":{"code":"AUTH_FAILED","message":"who?"}}`))
	c, err := client.Connect(timeout(t), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if c.ReconnectFor != client.DefaultReconnectFor {
		t.Error(c.ReconnectFor)
	}
	c.Close()
	if _, err := client.Connect(timeout(t), s.URL); err == nil || err.Error() != "who?" {
		t.Error(err)
	}
	ln, path := listen(t)
	go func() {
		if nc, err := ln.Accept(); err == nil {
			nc.Close()
		}
	}()
	if c, err = client.Connect(timeout(t), path); err != nil {
		t.Fatal(err)
	}
	c.Close()
	s.Close()
	if _, err := client.Connect(context.Background(), s.URL); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
}

func TestToken(t *testing.T) {
	t.Setenv("TRL_AUTH_TOKEN", "")
	dir := t.TempDir()
	for i, test := range []struct{ text, address, want string }{
		{"abc\n", "http://127.0.0.1:1", "abc"},
		{"full abc", "http://localhost", "abc"},
		{"# x y\nread r1\nread r2\n", "https://[::1]:7", "r1"},
		{"read r\n  full   f  \n", "http://127.0.0.1", "f"},
		{"abc\n", "http://example.com", ""},
		{"abc\n", "http://127.0.0.1.example.com", ""},
		{"abc\n", "http://localhost.example.com", ""},
		{"", "http://127.0.0.1", ""},
	} {
		sub := filepath.Join(dir, fmt.Sprint(i))
		_ = os.Mkdir(sub, 0o700)
		_ = os.WriteFile(filepath.Join(sub, "token"), []byte(test.text), 0o600)
		if got, err := client.Token(test.address, filepath.Join(sub, "token")); err != nil || got != test.want {
			t.Errorf("%q, %s: %q, %v", test.text, test.address, got, err)
		}
	}
	if got, err := client.Token("http://127.0.0.1", filepath.Join(dir, "none")); err != nil || got != "" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := client.Token("http://127.0.0.1", "/dev"); err == nil {
		t.Error("a file that cannot be read is no error")
	}
	t.Setenv("TRL_AUTH_TOKEN", "given")
	if got, err := client.Token("http://example.com", dir); err != nil || got != "given" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestHTTPComesBack: nothing listens for a while.
func TestHTTPComesBack(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	c, err := client.DialHTTP("http://"+address, "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	done := make(chan error)
	go func() {
		_, err := c.ExecRun(timeout(t), api.ExecParams{SessionID: "s", Command: "c"})
		done <- err
	}()
	if ln, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(says(200, `{"exit_code":5}`))
	s.Listener.Close()
	s.Listener = ln
	s.Start()
	defer s.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
