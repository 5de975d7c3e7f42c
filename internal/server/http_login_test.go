package server_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/login"
	"github.com/trl-dev/trl/internal/server"
)

// console is a web with the page for browsers.
type console struct {
	*web
	logins *login.Store
}

func startConsole(t *testing.T) *console { return startConsoleWith(t, server.Config{}) }

func startConsoleWith(t *testing.T, cfg server.Config) *console {
	t.Helper()
	logins, err := login.Open(login.Config{Path: filepath.Join(t.TempDir(), "web.json")})
	if err != nil {
		t.Fatal(err)
	}
	return &console{startWeb(t, cfg, server.HTTPConfig{Logins: logins}), logins}
}

func (c *console) origin() string { return "http://" + c.address }

// own returns the headers of a request of our own page, without a token.
func (c *console) own(header ...string) []string {
	return append([]string{"Authorization", "", "Origin", c.origin(), "Sec-Fetch-Site", "same-origin"}, header...)
}

// logIn spends a new code and returns the cookie and the key.
func (c *console) logIn(scope string) (cookie, key, id string) {
	c.t.Helper()
	code, _ := c.logins.Mint(scope, time.Minute)
	resp, text := c.do("POST", "/web/login", `{"code":"`+code+`"}`, c.own()...)
	if resp.StatusCode != 200 {
		c.t.Fatalf("%d %s", resp.StatusCode, text)
	}
	var answer struct {
		Key     string `json:"key"`
		LoginID string `json:"login_id"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		c.t.Fatal(err)
	}
	set := resp.Header.Get("Set-Cookie")
	for _, word := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(set, word) {
			c.t.Errorf("cookie without %s: %s", word, set)
		}
	}
	cookie, _, _ = strings.Cut(set, ";")
	if strings.Contains(text, cookie[strings.Index(cookie, "=")+1:]) {
		c.t.Error("the answer has the cookie, so scripts can read it")
	}
	return cookie, answer.Key, answer.LoginID
}

func TestConsoleLogin(t *testing.T) {
	c := startConsole(t)
	code, _ := c.logins.Mint("full", time.Minute)
	body := `{"code":"` + code + `"}`
	// Nothing but our own page can spend a code, and a refused request does not spend it.
	for _, header := range [][]string{
		{"Authorization", ""},
		{"Authorization", "", "Origin", "http://evil.example"},
		{"Authorization", "", "Origin", "null"},
		{"Authorization", "", "Origin", "http://127.0.0.1:1"},
		{"Authorization", "", "Origin", c.origin(), "Sec-Fetch-Site", "same-site"},
		{"Authorization", "", "Origin", c.origin(), "Sec-Fetch-Site", "cross-site"},
		{"Authorization", "", "Origin", c.origin(), "Sec-Fetch-Site", "none"},
		{"Authorization", "", "Sec-Fetch-Site", "same-origin"},
	} {
		c.refused(403, api.CodeForbidden, "POST", "/web/login", body, header...)
	}
	if resp, _ := c.do("GET", "/web/login?code="+code, "", c.own()...); resp.StatusCode != 405 {
		t.Errorf("a code in a URL: %d", resp.StatusCode)
	}
	if resp, text := c.do("POST", "/web/login", body, c.own()...); resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	resp, _ := c.refused(401, api.CodeAuthFailed, "POST", "/web/login", body, c.own()...)
	if resp.Header.Get("Set-Cookie") != "" {
		t.Error("a code that was spent sets a cookie")
	}
	if strings.Contains(c.log.String(), code) {
		t.Error("the log has the code")
	}
}

// TestConsoleNeedsBothSecretsAndItsOrigin: a cookie alone leaks to other ports of the machine.
func TestConsoleNeedsBothSecretsAndItsOrigin(t *testing.T) {
	c := startConsole(t)
	cookie, key, _ := c.logIn("full")
	cases := []struct {
		name   string
		status int
		header []string
	}{
		{"both", 200, c.own("Cookie", cookie, "X-Trl-Key", key)},
		{"no cookie", 401, c.own("X-Trl-Key", key)},
		{"no key", 401, c.own("Cookie", cookie)},
		{"wrong key", 401, c.own("Cookie", cookie, "X-Trl-Key", key+"x")},
		{"cookie of another port", 401, c.own("Cookie", "trl-1="+cookie[strings.Index(cookie, "=")+1:], "X-Trl-Key", key)},
		{"neither", 401, c.own()},
		{"no origin", 403, []string{"Authorization", "", "Cookie", cookie, "X-Trl-Key", key}},
		{"origin of another port", 403, []string{"Authorization", "", "Cookie", cookie, "X-Trl-Key", key, "Origin", "http://127.0.0.1:1"}},
		{"same site", 403, []string{"Authorization", "", "Cookie", cookie, "X-Trl-Key", key, "Origin", c.origin(), "Sec-Fetch-Site", "same-site"}},
		{"post without origin", 403, []string{"Authorization", "", "Cookie", cookie, "X-Trl-Key", key, "Sec-Fetch-Site", "same-origin"}},
		{"a wrong token beside it", 401, append(c.own("Cookie", cookie, "X-Trl-Key", key), "Authorization", "Bearer wrong-token-0123456789")},
		{"another cookie first", 200, c.own("Cookie", cookie[:strings.Index(cookie, "=")]+"=forged; "+cookie, "X-Trl-Key", key)},
	}
	for _, x := range cases {
		resp, text := c.do("POST", "/v1/system.ping", "{}", x.header...)
		if resp.StatusCode != x.status {
			t.Errorf("%s: %d %s, want %d", x.name, resp.StatusCode, text, x.status)
		}
	}
	// The same over a WebSocket, where the key is a subprotocol.
	for _, x := range cases {
		if strings.Contains(x.name, "token") || x.name == "post without origin" {
			continue
		}
		h := http.Header{}
		o := &websocket.DialOptions{HTTPHeader: h, Subprotocols: []string{"trl.v1"}}
		for i := 0; i < len(x.header); i += 2 {
			switch {
			case x.header[i] == "X-Trl-Key":
				o.Subprotocols = append(o.Subprotocols, "trl.key."+x.header[i+1])
			case x.header[i+1] != "":
				h.Set(x.header[i], x.header[i+1])
			}
		}
		s, resp, err := c.webSocket(o)
		if x.status != 200 {
			if err == nil || resp == nil || resp.StatusCode != x.status {
				t.Errorf("websocket, %s: %v", x.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("websocket, %s: %s", x.name, err)
			continue
		}
		s.send(`{"id":1,"method":"system.ping"}`)
		s.expect(`{"id":1,"ok":true`)
		_ = s.Close(websocket.StatusNormalClosure, "")
	}
}

// TestConsoleLoginIsNoToken: a login counts for the API of the page, and nowhere else.
func TestConsoleLoginIsNoToken(t *testing.T) {
	c := startConsole(t)
	cookie, key, _ := c.logIn("full")
	h := c.own("Cookie", cookie, "X-Trl-Key", key)
	c.refused(401, api.CodeAuthFailed, "GET", "/metrics", "", h...)
	for _, name := range []string{"web.open", "system.http"} {
		c.refused(403, api.CodeForbidden, "POST", "/v1/"+name, "{}", h...)
	}
}

func TestConsoleReadScope(t *testing.T) {
	c := startConsole(t)
	cookie, key, _ := c.logIn("read")
	h := c.own("Cookie", cookie, "X-Trl-Key", key)
	for _, m := range api.Methods() {
		if m.Access != api.AccessRead {
			c.refused(403, api.CodeForbidden, "POST", "/v1/"+m.Name, "{}", h...)
		}
	}
	if resp, _ := c.do("POST", "/v1/session.list", "{}", h...); resp.StatusCode != 200 {
		t.Error(resp.StatusCode)
	}
}

func TestConsoleRevoke(t *testing.T) {
	c := startConsole(t)
	cookie, key, id := c.logIn("full")
	s := c.mustWebSocket(&websocket.DialOptions{
		HTTPHeader: http.Header{"Cookie": {cookie}, "Origin": {c.origin()}}, Subprotocols: []string{"trl.v1", "trl.key." + key},
	})
	s.send(`{"id":1,"method":"system.ping"}`)
	s.expect(`{"id":1,"ok":true`)
	if ended, err := c.logins.Revoke(id); err != nil || len(ended) != 1 {
		t.Fatal(ended, err)
	}
	if _, _, err := s.Read(s.ctx); websocket.CloseStatus(err) != 4401 {
		t.Errorf("%v", err)
	}
	c.refused(401, api.CodeAuthFailed, "POST", "/v1/system.ping", "{}", c.own("Cookie", cookie, "X-Trl-Key", key)...)
}

func TestConsoleLogout(t *testing.T) {
	c := startConsole(t)
	cookie, key, _ := c.logIn("full")
	h := c.own("Cookie", cookie, "X-Trl-Key", key)
	resp, _ := c.do("POST", "/web/logout", "{}", h...)
	if set := resp.Header.Get("Set-Cookie"); resp.StatusCode != 200 || !strings.Contains(set, "Max-Age=0") {
		t.Errorf("%d %s", resp.StatusCode, set)
	}
	c.refused(401, api.CodeAuthFailed, "POST", "/web/me", "{}", h...)
}

func TestConsoleToken(t *testing.T) {
	c := startConsole(t)
	c.refused(401, api.CodeAuthFailed, "POST", "/web/login", `{"token":"wrong-token-0123456789"}`, c.own()...)
	resp, text := c.do("POST", "/web/login", `{"token":"`+readToken+`"}`, c.own()...)
	if resp.StatusCode != 200 || !strings.Contains(text, `"scope":"read"`) {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	for range 10 {
		c.do("POST", "/web/login", `{"token":"wrong-token-0123456789"}`, c.own()...)
	}
	if resp, _ := c.do("POST", "/web/login", `{"token":"`+readToken+`"}`, c.own()...); resp.StatusCode != http.StatusTooManyRequests {
		t.Error(resp.StatusCode)
	}
}

func TestConsoleDownload(t *testing.T) {
	c := startConsole(t)
	c.service.oldExec("x-1", "<script>alert(1)</script>").exit()
	cookie, key, _ := c.logIn("read")
	h := c.own("Cookie", cookie, "X-Trl-Key", key)
	for _, path := range []string{"/v1/session.list", "/metrics", "/web/me", "/", "/v1/ws", "http://evil.example/v1/exec/x-1/stdouts", "/v1/exec/x-1/stream"} {
		c.refused(400, api.CodeInvalidParams, "POST", "/web/ticket", `{"path":"`+path+`"}`, h...)
	}
	resp, text := c.do("POST", "/web/ticket", `{"path":"/v1/exec/x-1/stdout","filename":"a\"b.html"}`, h...)
	var ticket struct{ URL string }
	if err := json.Unmarshal([]byte(text), &ticket); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp.StatusCode, text)
	}
	link := []string{"Authorization", "", "Sec-Fetch-Site", "same-origin"}
	c.refused(401, api.CodeAuthFailed, "GET", ticket.URL, "", link...)
	c.refused(403, api.CodeForbidden, "GET", ticket.URL, "", "Authorization", "", "Cookie", cookie, "Sec-Fetch-Site", "cross-site")
	resp, text = c.do("GET", ticket.URL, "", append(link, "Cookie", cookie)...)
	if resp.StatusCode != 200 || text != "<script>alert(1)</script>" {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	header := resp.Header
	if !strings.HasPrefix(header.Get("Content-Disposition"), "attachment") || !strings.Contains(header.Get("Content-Security-Policy"), "sandbox") ||
		header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%v", header)
	}
	c.refused(401, api.CodeAuthFailed, "GET", ticket.URL, "", append(link, "Cookie", cookie)...)
}

func TestConsolePage(t *testing.T) {
	c := startConsole(t)
	resp, page := c.do("GET", "/", "", "Authorization", "")
	policy := resp.Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self';", "require-trusted-types-for 'script'", "trusted-types 'none'", "frame-ancestors 'none'", "connect-src 'self'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("policy without %s: %s", part, policy)
		}
	}
	nonce := regexp.MustCompile(`'nonce-(\w+)'`).FindStringSubmatch(policy)
	if nonce == nil || !strings.Contains(page, nonce[1]) || strings.Contains(page, "@") {
		t.Errorf("%s\n%s", policy, page)
	}
	if again, _ := c.do("GET", "/", "", "Authorization", ""); again.Header.Get("Content-Security-Policy") == policy {
		t.Error("the nonce is used twice")
	}
	if regexp.MustCompile(`<script[^>]*>[^<]|\son\w+=|style=|https?:`).MatchString(page) {
		t.Errorf("inline script, style or a foreign address: %s", page)
	}
	names := regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(names) != 4 {
		t.Fatalf("%v", names)
	}
	for _, name := range names {
		resp, _ := c.do("GET", name[1], "", "Authorization", "", "Accept-Encoding", "gzip")
		if resp.StatusCode != 200 || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", name[1], resp.StatusCode, resp.Header)
		}
	}
	for _, path := range []string{"/assets/0000000000000000/app.js", "/assets/", "/assets/../embed.go", strings.Replace(names[3][1], "app.js", "index.html", 1)} {
		if resp, _ := c.do("GET", path, "", "Authorization", ""); resp.StatusCode != 404 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	// A name that was made to point to this machine gets nothing, not even the page.
	for _, path := range []string{"/", names[0][1], "/web/login", "/web/me", "/v1/ws"} {
		c.refused(421, api.CodeForbidden, "GET", path, "", "Authorization", "", "Host", "evil.example")
	}
}

func TestNoConsole(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	for _, path := range []string{"/", "/web/me", "/assets/x/app.js"} {
		if resp, _ := w.do("GET", path, ""); resp.StatusCode != 404 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}
