package http_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// client is a caller of one daemon.
type client struct {
	t          testing.TB
	url, token string
	http       *http.Client
}

func newClient(t testing.TB, d *trltest.Daemon) *client {
	t.Helper()
	c := &client{t: t, http: &http.Client{Transport: &http.Transport{}, Timeout: patience}}
	c.url, c.token = d.HTTP(t)
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

func (c *client) send(ctx context.Context, verb, path, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, verb, c.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return c.http.Do(req)
}

func (c *client) get(path string, header ...string) *http.Response {
	c.t.Helper()
	resp, err := c.send(context.Background(), "GET", path, "", header...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// call calls a method that must succeed.
func call[R any](c *client, method string, params any) R {
	c.t.Helper()
	body, err := json.Marshal(params)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := c.send(context.Background(), "POST", "/v1/"+method, string(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var r R
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || resp.StatusCode != 200 {
		c.t.Fatalf("%s: %d %s, %v", method, resp.StatusCode, text, err)
	}
	return r
}

func (c *client) session() string {
	c.t.Helper()
	return call[api.SessionInfo](c, "session.create", api.SessionCreateParams{}).SessionID
}

// noisy is a command that writes bytes of every kind to stdout and to a file.
func noisy(file string, megabytes int) string {
	return fmt.Sprintf("head -c %d /dev/urandom | tee %s", megabytes<<20, file)
}

// TestRawIsWhatWasWritten: followed while it runs, and read in ranges later.
func TestRawIsWhatWasWritten(t *testing.T) {
	c := newClient(t, trltest.Start(t, trltest.Args("--http", "127.0.0.1:0", "--output-bytes", "128MiB", "--session-output-bytes", "256MiB")))
	file := filepath.Join(t.TempDir(), "out")
	info := call[api.ExecInfo](c, "exec.start", map[string]any{"session_id": c.session(), "command": noisy(file, 48)})
	resp := c.get("/v1/exec/" + info.ExecID + "/stdout?follow=1")
	followed := sha256.New()
	n, err := io.Copy(followed, resp.Body)
	if err != nil || n != 48<<20 || resp.Trailer.Get("X-Trl-Complete") != "true" {
		t.Fatalf("%d bytes, %v, %v", n, err, resp.Trailer)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256(written)
	if !bytes.Equal(followed.Sum(nil), want[:]) {
		t.Error("what was followed differs")
	}
	ranged := sha256.New()
	for at := int64(0); at < n; {
		resp := c.get("/v1/exec/"+info.ExecID+"/stdout", "Range", fmt.Sprintf("bytes=%d-%d", at, at+5<<20))
		m, err := io.Copy(ranged, resp.Body)
		if err != nil || resp.StatusCode != 206 || m == 0 {
			t.Fatalf("%d, %d bytes, %v", resp.StatusCode, m, err)
		}
		at += m
	}
	if !bytes.Equal(ranged.Sum(nil), want[:]) {
		t.Error("the ranges differ")
	}
	if resp := c.get("/v1/exec/" + info.ExecID + "/stdout?offset=" + fmt.Sprint(n)); resp.ContentLength != 0 || resp.Header.Get("X-Trl-Complete") != "true" {
		t.Errorf("%v", resp.Header)
	}
}

// TestGapsAreTold: of a flood, the beginning and the end are left, and a reader knows.
func TestGapsAreTold(t *testing.T) {
	c := newClient(t, trltest.Start(t, trltest.Args("--http", "127.0.0.1:0", "--output-bytes", "1MiB")))
	r := call[api.ExecResult](c, "exec.run", map[string]any{"session_id": c.session(), "command": "seq 2000000", "max_output_bytes": 0})
	path := "/v1/exec/" + r.ExecID + "/stdout"
	resp := c.get(path)
	begin, err := io.ReadAll(resp.Body)
	var from, to int64
	if _, scanErr := fmt.Sscanf(resp.Header.Get("X-Trl-Gap"), "%d-%d", &from, &to); scanErr != nil || err != nil {
		t.Fatalf("%v, %v", resp.Header, err)
	}
	if resp.StatusCode != 200 || int64(len(begin)) != from || !bytes.HasPrefix(begin, []byte("1\n2\n3\n")) || resp.Header.Get("X-Trl-Next-Offset") != fmt.Sprint(to) {
		t.Errorf("%d, %d bytes, %v", resp.StatusCode, len(begin), resp.Header)
	}
	if resp := c.get(path + fmt.Sprintf("?offset=%d", from+1)); resp.StatusCode != 410 || resp.Header.Get("X-Trl-Next-Offset") != fmt.Sprint(to) {
		t.Errorf("%d, %v", resp.StatusCode, resp.Header)
	}
	resp = c.get(path + fmt.Sprintf("?follow=1&offset=%d", to))
	end, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.HasSuffix(end, []byte("\n1999999\n2000000\n")) || resp.Trailer.Get("X-Trl-Complete") != "true" || to+int64(len(end)) != r.StdoutBytes {
		t.Errorf("%d bytes, %v, %v", len(end), err, resp.Trailer)
	}
	resp = c.get(path + "?follow=1")
	if head, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(head, begin) || resp.Trailer.Get("X-Trl-Gap") != fmt.Sprintf("%d-%d", from, to) {
		t.Errorf("%d bytes, %v, %v", len(head), err, resp.Trailer)
	}
}

// TestStreamCutAndResumed: a reader that is cut off again and again, in both forms,
// misses nothing and sees nothing twice.
func TestStreamCutAndResumed(t *testing.T) {
	c := newClient(t, trltest.Start(t, trltest.Args("--http", "127.0.0.1:0", "--output-bytes", "64MiB", "--session-output-bytes", "128MiB")))
	session := c.session()
	for _, accept := range []string{"application/x-ndjson", "text/event-stream"} {
		file := filepath.Join(t.TempDir(), "out")
		info := call[api.ExecInfo](c, "exec.start", map[string]any{"session_id": session, "command": noisy(file, 2), "wait": true})
		got, seq, cuts := sha256.New(), int64(0), 0
		for done := false; !done; cuts++ {
			ctx, cancel := context.WithCancel(context.Background())
			header := []string{"Accept", accept}
			if seq > 0 {
				header = append(header, "Last-Event-ID", fmt.Sprint(seq))
			}
			resp, err := c.send(ctx, "GET", "/v1/exec/"+info.ExecID+"/stream", "", header...)
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%v, %v", resp, err)
			}
			lines := bufio.NewReader(resp.Body)
			for pushes := 0; pushes < 2 && !done; {
				line, err := lines.ReadBytes('\n')
				if err != nil {
					t.Fatalf("%s after %d", err, seq)
				}
				line = bytes.TrimPrefix(line, []byte("data: "))
				var ev api.StreamEvent
				if line[0] != '{' || json.Unmarshal(line, &ev) != nil || ev.Type == "" {
					continue // the start, or what is not of JSON
				}
				if ev.Seq <= seq {
					t.Fatalf("%d after %d", ev.Seq, seq)
				}
				pushes, seq, done = pushes+1, ev.Seq, ev.Type == api.EventExit
				got.Write(api.Data(ev.Data, ev.DataBase64))
			}
			cancel()
			resp.Body.Close()
		}
		written, err := os.ReadFile(file)
		want := sha256.Sum256(written)
		if err != nil || !bytes.Equal(got.Sum(nil), want[:]) || cuts < 3 {
			t.Errorf("%s: differs after %d cuts, %v", accept, cuts, err)
		}
		if resp := c.get("/v1/exec/"+info.ExecID+"/stream", "Last-Event-ID", fmt.Sprint(seq)); resp.StatusCode != 204 {
			t.Errorf("with the exit: %d", resp.StatusCode)
		}
	}
}

// TestCallerWhoLeaves takes its command along, and its ephemeral sessions.
func TestCallerWhoLeaves(t *testing.T) {
	d := trltest.Start(t, trltest.Args("--http", "127.0.0.1:0", "--kill-grace-s", "1"))
	c := newClient(t, d)
	session := c.session()
	other := newClient(t, d)
	own := call[api.SessionInfo](other, "session.create", api.SessionCreateParams{Ephemeral: true}).SessionID
	if r := call[api.ExecResult](other, "exec.run", map[string]any{"session_id": own, "command": "echo hi"}); r.Stdout != "hi\n" {
		t.Errorf("an ephemeral session is gone with its first request: %+v", r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := other.send(ctx, "POST", "/v1/exec.run", fmt.Sprintf(`{"session_id":%q,"command":"sleep 1000"}`, session))
		failed <- err
	}()
	state := func(id string) api.SessionState {
		return call[api.SessionDetails](c, "session.info", api.SessionInfoParams{SessionID: id}).State
	}
	testkit.Eventually(t, "the session is running", func() bool { return state(session) == api.SessionRunning })
	cancel()
	if err := <-failed; err == nil {
		t.Error("it was answered")
	}
	testkit.Eventually(t, "the session is idle", func() bool { return state(session) == api.SessionIdle })
	list := call[api.ExecListResult](c, "exec.list", api.ExecListParams{SessionID: session})
	if o := list.Execs[0].Outcome; o == nil || !o.Cancelled {
		t.Errorf("%+v", list.Execs[0])
	}
	other.http.CloseIdleConnections()
	testkit.Eventually(t, "the ephemeral session has ended", func() bool { return state(own) == api.SessionTerminated })
}

// TestTokenStaysWithTheDaemon: no child sees it, no log has it, no file but its own.
func TestTokenStaysWithTheDaemon(t *testing.T) {
	const token = "qX7http-token-0123456789"
	d := trltest.Start(t, trltest.Args("--http", "127.0.0.1:0", "--log-level", "debug"), trltest.Env("TRL_AUTH_TOKEN="+token))
	c := newClient(t, d)
	session := c.session()
	r := call[api.ExecResult](c, "exec.run", map[string]any{"session_id": session, "command": "env; cat /proc/$$/environ /proc/$PPID/environ"})
	if strings.Contains(r.Stdout, token) || strings.Contains(r.Stdout, "TRL_AUTH_TOKEN") || r.Stdout == "" {
		t.Errorf("a session sees it: %s", r.Stdout)
	}
	if resp := c.get("/v1/exec/x-0/stdout", "Authorization", "Bearer "+token+"x"); resp.StatusCode != 401 {
		t.Errorf("%d", resp.StatusCode)
	}
	for _, text := range []string{d.Stderr(), fmt.Sprint(call[api.SystemInfoResult](c, "system.info", nil))} {
		if strings.Contains(text, token) {
			t.Errorf("it is told: %s", text)
		}
	}
	_ = filepath.WalkDir(d.StateDir, func(path string, _ os.DirEntry, _ error) error {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(token)) {
			t.Errorf("it is in %s", path)
		}
		return nil
	})
	if _, err := os.Stat(filepath.Join(d.StateDir, "token")); err == nil {
		t.Error("another token was made")
	}
}

// TestMetricsHaveNoNames: callers choose the names of sessions, which must not reach the operator's dashboards.
func TestMetricsHaveNoNames(t *testing.T) {
	c := newClient(t, trltest.Start(t, trltest.Args("--http", "127.0.0.1:0")))
	s := call[api.SessionInfo](c, "session.create", map[string]any{"name": "for-alice"})
	resp := c.get("/metrics")
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if want := `trl_session_processes{session_id="` + s.SessionID + `"} `; !strings.Contains(string(page), want) {
		t.Errorf("no %s in\n%s", want, page)
	}
	if strings.Contains(string(page), "for-alice") {
		t.Errorf("the name is in\n%s", page)
	}
}

// TestMetricsOfADay: what a daemon has done is on its page, in the families that alert rules use.
func TestMetricsOfADay(t *testing.T) {
	d := trltest.Start(t, trltest.Args("--http", "127.0.0.1:0"))
	c := newClient(t, d)
	session := c.session()
	call[api.ExecResult](c, "exec.run", map[string]any{"session_id": session, "command": "printf 12345"})
	call[api.ExecResult](c, "exec.run", map[string]any{"session_id": session, "command": "kill -9 $$"})
	// The time of a program counts from its start; a shell may not have started one in that time.
	call[api.ExecResult](c, "exec.run", map[string]any{"session_id": session, "argv": []string{"sleep", "1000"}, "timeout_s": 0.1})
	first := call[api.ExecInfo](c, "exec.start", map[string]any{"session_id": session, "command": "sleep 1000"})
	call[api.ExecInfo](c, "exec.start", map[string]any{"session_id": session, "command": "true", "wait": true}) // waits in the queue
	call[api.ExecInfo](c, "exec.cancel", map[string]any{"exec_id": first.ExecID})
	if resp := c.get("/v1/exec/"+first.ExecID+"/stdout", "Authorization", "Bearer wrong-token-0123456789"); resp.StatusCode != 401 {
		t.Errorf("status %d", resp.StatusCode)
	}
	var page string
	for _, want := range []string{
		`trl_execs_ended_total{outcome="timeout"} 1`, `trl_execs_ended_total{outcome="cancelled"} 1`, `trl_killed_processes_total{cause="timeout"} 1`, `trl_shell_restarts_total 1`,
		`trl_exec_duration_seconds_count 5`, `trl_exec_wait_seconds_count 5`, `trl_execs{state="queued"} 0`, `trl_runner_reconnects_total 0`,
		`trl_output_bytes_total{stream="stdout"} 5`, // stderr also has what a shell says about killed processes
		`code="AUTH_FAILED"} 1`, `trl_request_duration_seconds_count{method="exec.run"} 3`, `trl_streamed_bytes_total{transport="http"} `,
	} {
		// The events of commands are counted after the answers.
		testkit.Eventually(t, want, func() bool {
			text, err := io.ReadAll(c.get("/metrics").Body)
			page = string(text)
			return err == nil && strings.Contains(page, want)
		})
	}
	if strings.Contains(page, "trl_trace_") {
		t.Errorf("traces are on:\n%s", page)
	}
}

// TestHTTPOverRestarts: an upgrade keeps the port; a new daemon has the same token.
func TestHTTPOverRestarts(t *testing.T) {
	d := trltest.Start(t, trltest.Args("--http", "127.0.0.1:0", "--keep-sessions"), trltest.KeepsProcesses())
	c := newClient(t, d)
	session := c.session()
	call[api.ExecResult](c, "exec.run", map[string]any{"session_id": session, "command": "V=kept"})
	d.Signal(t, syscall.SIGUSR2)
	testkit.Eventually(t, "the next daemon has started", func() bool { return strings.Count(d.Stderr(), `"msg":"daemon started"`) == 2 })
	if r := call[api.ExecResult](c, "exec.run", map[string]any{"session_id": session, "command": "echo $V"}); r.Stdout != "kept\n" {
		t.Errorf("%+v", r)
	}
	d.Kill9()
	d.Restart(t)
	again := newClient(t, d)
	if again.token != c.token {
		t.Error("a new token")
	}
	if r := call[api.ExecResult](again, "exec.run", map[string]any{"session_id": session, "command": "echo $V"}); r.Stdout != "kept\n" {
		t.Errorf("%+v", r)
	}
	call[api.SessionDestroyResult](again, "session.destroy", api.SessionDestroyParams{SessionID: session})
}

// TestHTTPRefusesToStart where callers could not be told from each other.
func TestHTTPRefusesToStart(t *testing.T) {
	dir := testkit.Dir(t)
	open := filepath.Join(dir, "open")
	if err := os.WriteFile(open, []byte("0123456789abcdef"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := trltest.Start(t, trltest.Args("--http", "127.0.0.1:0"))
	url, _ := d.HTTP(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--http", "0.0.0.0:0"}, "http 0.0.0.0:0: other machines can reach this address; give tls_cert and tls_key, or http_insecure"},
		{[]string{"--http", strings.TrimPrefix(url, "http://")}, "address already in use"},
		{[]string{"--http", "127.0.0.1:0", "--token-file", open}, "others may read or write it (mode 0644)"},
		{[]string{"--http", "127.0.0.1:0", "--token-file", dir + "/none"}, "no such file"},
		{[]string{"--http", "127.0.0.1:0", "--tls-cert", open, "--tls-key", open}, "tls_cert, tls_key: "},
		{[]string{"--http", "localhost"}, "must be a host and a port"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		cmd := exec.CommandContext(ctx, trltest.Binary(t), append([]string{"serve", "--socket", dir + "/s/sock", "--state-dir", dir + "/state"}, c.args...)...)
		cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
		out, err := cmd.CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}

// TestModelContextProtocol is behind the same door.
func TestModelContextProtocol(t *testing.T) {
	c := newClient(t, trltest.Start(t, trltest.Args("--http", "127.0.0.1:0")))
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	resp, err := c.send(context.Background(), "POST", "/mcp", hello, "Accept", "application/json, text/event-stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || !strings.Contains(string(text), `"serverInfo"`) {
		t.Errorf("%d %s, %v", resp.StatusCode, text, err)
	}
	if resp := c.get("/mcp", "Authorization", "Bearer wrong"); resp.StatusCode != 401 {
		t.Errorf("%d", resp.StatusCode)
	}
}
