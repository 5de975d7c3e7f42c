package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
)

func TestHTTPTokens(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	for _, c := range []struct{ header, challenge string }{
		{"", `Bearer realm="trl"`},
		{"Basic " + fullToken, `Bearer realm="trl"`},
		{"Bearer", `Bearer realm="trl"`},
		{fullToken, `Bearer realm="trl"`},
		{"Bearer wrong-token-0123456789", `Bearer realm="trl", error="invalid_token"`},
		{"Bearer " + fullToken + "x", `Bearer realm="trl", error="invalid_token"`},
		{"Bearer " + fullToken[:20], `Bearer realm="trl", error="invalid_token"`},
		{"Bearer " + strings.ToUpper(fullToken), `Bearer realm="trl", error="invalid_token"`},
		{"Bearer x " + fullToken, `Bearer realm="trl", error="invalid_token"`},
	} {
		resp, _ := w.refused(401, api.CodeAuthFailed, "POST", "/v1/exec.run", command("echo x"), "Authorization", c.header)
		if got := resp.Header.Get("WWW-Authenticate"); got != c.challenge {
			t.Errorf("%q: %q, want %q", c.header, got, c.challenge)
		}
	}
	w.refused(401, api.CodeAuthFailed, "POST", "/v1/exec.run?token="+fullToken, command("echo x"), "Authorization", "")
	if n := w.service.calls.Load(); n != 0 {
		t.Errorf("%d commands were run", n)
	}
	for _, header := range []string{"Bearer " + fullToken, "bearer " + fullToken, "BEARER  " + fullToken + " "} {
		if resp, text := w.do("POST", "/v1/exec.run", command("echo x"), "Authorization", header); resp.StatusCode != 200 {
			t.Errorf("%q: %d %s", header, resp.StatusCode, text)
		}
	}
	// Logged once for this address, and never with the token.
	log := w.log.String()
	if n := strings.Count(log, "wrong token"); n != 1 || strings.Contains(log, "token-0123456789") {
		t.Errorf("%d times in the log:\n%s", n, log)
	}
}

// TestHTTPReadScope: a token of scope read cannot change anything, with any method.
func TestHTTPReadScope(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{Handlers: map[string]http.Handler{"/extra": http.NotFoundHandler()}})
	look := []string{"Authorization", "Bearer " + readToken}
	for _, m := range api.Methods() {
		if m.Access != api.AccessRead {
			_, e := w.refused(403, api.CodeForbidden, "POST", "/v1/"+m.Name, "{}", look...)
			if !strings.Contains(e.Message, "scope full") {
				t.Errorf("%s", e.Message)
			}
		}
	}
	w.refused(403, api.CodeForbidden, "GET", "/extra", "", look...)
	if resp, _ := w.do("POST", "/v1/session.list", "", look...); resp.StatusCode != 200 {
		t.Errorf("session.list: %d", resp.StatusCode)
	}
	w.service.oldExec("x-1", "abc").exit()
	for _, path := range []string{"/v1/exec/x-1/stdout", "/v1/exec/x-1/stream", "/metrics"} {
		if resp, text := w.do("GET", path, "", look...); resp.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	if resp, text := w.do("POST", "/v1/exec.stream", `{"exec_id":"x-1"}`, look...); resp.StatusCode != 200 || !strings.Contains(text, `"data":"abc"`) {
		t.Errorf("exec.stream of an old command: %d %s", resp.StatusCode, text)
	}
	for _, params := range []string{
		command("echo x"), `{"exec_id":"x-1","session_id":"s","command":"echo x"}`, `{"exec_id":"x-1","EXEC_ID":"","session_id":"s","command":"echo x"}`,
		`{"exec_id":"x-1","backpressure":true}`, `{"exec_id":""}`, `{"exec_id":"x-1","bogus":1}`, `[]`,
	} {
		w.refused(403, api.CodeForbidden, "POST", "/v1/exec.stream", params, look...)
	}
	if n := w.service.calls.Load(); n != 0 {
		t.Errorf("%d commands were run", n)
	}
}

func TestTokenFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, "tokens")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string // "" = fine
	}{
		{"# one\n\n  full " + fullToken + "  \r\n\t" + readToken + "\n", 0o600, ""},
		{fullToken, 0o400, ""},
		{fullToken, 0o640, "others may read or write it (mode 0640); chmod 600 it"},
		{fullToken, 0o604, "(mode 0604)"},
		{"", 0o600, "has no token"},
		{"# nothing\n", 0o600, "has no token"},
		{"short", 0o600, "line 1: the token has 5 characters, must have 16 to 512"},
		{fullToken + "\nread " + strings.Repeat("x", 513), 0o600, "line 2: the token has 513 characters"},
		{"\nwrite " + fullToken, 0o600, `line 2: must be "full TOKEN", "read TOKEN" or a token alone`},
		{"full a " + fullToken, 0o600, "line 1: must be"},
		{"full", 0o600, "line 1: the token has 4 characters"},
		{"secret-tökens-are-not", 0o600, "line 1: the token may have only letters, digits"},
		{strings.Repeat("#\n", 1<<19) + "#", 0o600, "has more than 1048576 bytes"},
	} {
		path := write(c.text, c.mode)
		_, err := server.NewTokens(server.TokensConfig{File: path})
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%.40q: %v, want %q", c.text, err, c.want)
		case err != nil && (strings.Contains(err.Error(), "token-0123456789") || strings.Contains(err.Error(), "xxxx") || strings.Contains(err.Error(), "secret")):
			t.Errorf("the error tells the token: %s", err)
		}
		os.Remove(path)
	}
	if _, err := server.NewTokens(server.TokensConfig{File: dir}); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("%v", err)
	}
	if _, err := server.NewTokens(server.TokensConfig{File: dir + "/none"}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
	if _, err := server.NewTokens(server.TokensConfig{}); err == nil || !strings.Contains(err.Error(), "no token configured") {
		t.Errorf("%v", err)
	}
	if _, err := server.NewTokens(server.TokensConfig{Token: "short"}); err == nil || !strings.Contains(err.Error(), "must have 16") {
		t.Errorf("%v", err)
	}
}

// TestTokenIsMade: a token is made once, only its owner can read it, and the next daemon uses it again.
func TestTokenIsMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "token")
	var first []byte
	for range 2 {
		tokens, err := server.NewTokens(server.TokensConfig{File: path, Make: true})
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		text, err := os.ReadFile(path)
		if err != nil || len(text) != 44 || first != nil && string(text) != string(first) {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
		first = text
		w := startWeb(t, server.Config{}, server.HTTPConfig{Tokens: tokens})
		if resp, _ := w.do("POST", "/v1/system.ping", "", "Authorization", "Bearer "+strings.TrimSpace(string(text))); resp.StatusCode != 200 {
			t.Errorf("%d", resp.StatusCode)
		}
	}
	if left, _ := filepath.Glob(filepath.Dir(path) + "/.*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := server.NewTokens(server.TokensConfig{File: "/proc/none/token", Make: true}); err == nil || !strings.Contains(err.Error(), "token file: ") {
		t.Errorf("%v", err)
	}
}

// replaceFile writes a file so that no reader finds half of it.
func replaceFile(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestTokenFileIsReadAgain: a token that is taken out of the file does not hold any
// more, and a file that cannot be used has none.
func TestTokenFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(text string, mode os.FileMode) { t.Helper(); replaceFile(t, path, text, mode) }
	const other, given = "another-token-0123456789", "given-token-0123456789"
	write(fullToken, 0o600)
	tokens, err := server.NewTokens(server.TokensConfig{File: path, Token: given})
	if err != nil {
		t.Fatal(err)
	}
	w := startWeb(t, server.Config{}, server.HTTPConfig{Tokens: tokens})
	expect := func(want map[string]int) {
		t.Helper()
		for token, status := range want {
			if resp, _ := w.do("POST", "/v1/system.ping", "", "Authorization", "Bearer "+token); resp.StatusCode != status {
				t.Errorf("%s: %d, want %d", token, resp.StatusCode, status)
			}
		}
	}
	expect(map[string]int{fullToken: 200, other: 401, given: 200})
	write("read "+other, 0o600)
	expect(map[string]int{fullToken: 401, other: 200, given: 200})
	write(fullToken, 0o644)
	expect(map[string]int{fullToken: 401, other: 401, given: 200})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect(map[string]int{fullToken: 401, other: 401, given: 200})
	write(fullToken, 0o600)
	expect(map[string]int{fullToken: 200, other: 401, given: 200})
}

// TestRemovedTokenEndsItsConnections: the connections of a token that is taken out of the file end, and
// no others.
func TestRemovedTokenEndsItsConnections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	replaceFile(t, path, fullToken+"\nread "+readToken+"\n", 0o600)
	tokens, err := server.NewTokens(server.TokensConfig{File: path, Look: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	w := startWeb(t, server.Config{}, server.HTTPConfig{Tokens: tokens})
	removed, stays := w.mustWebSocket(bearer(fullToken)), w.mustWebSocket(bearer(readToken))
	removed.send(run(1, "wait"))
	receive(t, w.service.started)
	replaceFile(t, path, "read "+readToken+"\n", 0o600)
	for {
		if _, _, err = removed.Read(removed.ctx); err != nil {
			break
		}
	}
	if websocket.CloseStatus(err) != 4401 {
		t.Error(err)
	}
	stays.send(`{"id":2,"method":"session.list"}`)
	stays.expect(`{"id":2,"ok":true`)
}

// TestHTTPHosts: requests for a name of this machine that the configuration does not list are refused.
func TestHTTPHosts(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{Hosts: []string{"Box.example", "192.0.2.7"}})
	port := w.address[strings.LastIndex(w.address, ":"):]
	for host, allowed := range map[string]bool{
		"localhost": true, "LOCALHOST" + port: true, "localhost.": true, "127.0.0.1" + port: true, "127.9.9.9": true,
		"[::1]" + port: true, "[::1]": true, "[::ffff:127.0.0.1]": true, "localhost:1": true,
		"box.example": true, "BOX.example.:99": true, "192.0.2.7": true,
		"evil.example": false, "evil.example" + port: false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"x.box.example": false, "192.0.2.8": false, "localhost:x": false, "localhost@evil.example": false, "0.0.0.0": false, "[::]": false,
		"2130706433": false, "0x7f000001": false,
	} {
		for _, path := range []string{"/v1/system.ping", "/healthz"} {
			verb := map[bool]string{true: "POST", false: "GET"}[strings.HasPrefix(path, "/v1")]
			if allowed {
				if resp, text := w.do(verb, path, "", "Host", host); resp.StatusCode != 200 {
					t.Errorf("%s: %d %s", host, resp.StatusCode, text)
				}
			} else {
				w.refused(421, api.CodeForbidden, verb, path, "", "Host", host)
			}
		}
	}
	// The name in the request line is what counts, and there must be one.
	auth := "Authorization: Bearer " + fullToken + "\r\nConnection: close\r\n\r\n"
	for request, want := range map[string]string{
		"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n" + auth: "HTTP/1.1 421 ",
		"GET http://localhost/healthz HTTP/1.1\r\nHost: evil.example\r\n" + auth: "HTTP/1.1 200 ",
		"GET /healthz HTTP/1.0\r\n" + auth:                                       "HTTP/1.0 421 ",
		"GET /healthz HTTP/1.1\r\n" + auth:                                       "HTTP/1.1 400 ",
		"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n" + auth:         "HTTP/1.1 400 ",
	} {
		if got := w.rawBytes(request); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %.80q, want %s", request, got, want)
		}
	}
	if n := strings.Count(w.log.String(), "foreign host"); n != 1 {
		t.Errorf("%d complaints in the log", n)
	}
}

func TestHTTPOrigins(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{Origins: []string{"https://App.example", "http://localhost:3000"}})
	for _, c := range []struct {
		origin  string
		allowed bool
		cors    bool
	}{
		{"http://" + w.address, true, false},
		{"https://app.example", true, true},
		{"http://localhost:3000", true, true},
		{"https://" + w.address, false, false},
		{"http://app.example", false, false},
		{"https://app.example:444", false, false},
		{"https://app.example.evil.example", false, false},
		{"http://localhost:3001", false, false},
		{"http://127.0.0.1", false, false},
		{"null", false, false},
		{"*", false, false},
	} {
		var resp *http.Response
		if c.allowed {
			var text string
			if resp, text = w.do("POST", "/v1/system.ping", "", "Origin", c.origin); resp.StatusCode != 200 {
				t.Errorf("%s: %d %s", c.origin, resp.StatusCode, text)
			}
			// Also an error can be read.
			failed, _ := w.refused(401, api.CodeAuthFailed, "POST", "/v1/system.ping", "", "Origin", c.origin, "Authorization", "")
			if got := failed.Header.Get("Access-Control-Allow-Origin"); (got == c.origin) != c.cors {
				t.Errorf("%s: %q", c.origin, got)
			}
		} else {
			resp, _ = w.refused(403, api.CodeForbidden, "POST", "/v1/system.ping", "", "Origin", c.origin)
		}
		want := ""
		if c.cors {
			want = c.origin
		}
		if got := resp.Header.Get("Access-Control-Allow-Origin"); got != want || resp.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %q, want %q", c.origin, got, want)
		}
		if c.cors && resp.Header.Get("Vary") != "Origin" {
			t.Errorf("%s: Vary %q", c.origin, resp.Header.Get("Vary"))
		}
		asked := []string{"Origin", c.origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type", "Authorization", ""}
		resp, text := w.do("OPTIONS", "/v1/exec.run", "", asked...)
		switch {
		case c.allowed && (resp.StatusCode != 204 || text != ""), !c.allowed && resp.StatusCode != 403:
			t.Errorf("%s: preflight: %d %s", c.origin, resp.StatusCode, text)
		case c.cors && (resp.Header.Get("Access-Control-Allow-Origin") != c.origin || !strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "Authorization") || !strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "traceparent")):
			t.Errorf("%s: preflight: %v", c.origin, resp.Header)
		case !c.cors && resp.Header.Get("Access-Control-Allow-Origin") != "":
			t.Errorf("%s: preflight: %v", c.origin, resp.Header)
		}
	}
	req := w.request("POST", "/v1/system.ping", "")
	req.Header["Origin"] = []string{"https://app.example", "https://evil.example"}
	if resp := w.send(req); resp.StatusCode != 403 {
		t.Errorf("two origins: %d", resp.StatusCode)
	}
}

// TestHTTPHandlers: what is mounted is behind the same walls.
func TestHTTPHandlers(t *testing.T) {
	conns := make(chan bool, 8)
	extra := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns <- api.Conn(r.Context()).Err() == nil && api.Conn(r.Context()) != r.Context()
		_, _ = w.Write([]byte(r.Method + " " + r.URL.Path))
		w.(http.Flusher).Flush()
	})
	w := startWeb(t, server.Config{}, server.HTTPConfig{Handlers: map[string]http.Handler{"/extra": extra}})
	for _, path := range []string{"/extra", "/extra/x"} {
		if _, text := w.do("DELETE", path, ""); text != "DELETE "+path || !receive(t, conns) {
			t.Errorf("%s: %q", path, text)
		}
	}
	w.refused(404, api.CodeMethodNotFound, "GET", "/extras", "")
	w.refused(401, api.CodeAuthFailed, "GET", "/extra", "", "Authorization", "")
	w.refused(421, api.CodeForbidden, "GET", "/extra", "", "Host", "evil.example")
	w.refused(403, api.CodeForbidden, "GET", "/extra", "", "Origin", "https://evil.example")
	if len(conns) > 0 {
		t.Error("it was called")
	}
}
