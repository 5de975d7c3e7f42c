package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/login"
	"github.com/trl-dev/trl/internal/server"
)

// viewer logs in with a share and returns the headers of its requests.
func (c *console) viewer(only login.Only) (header []string, share api.WebShare, code string) {
	c.t.Helper()
	share, code, err := c.logins.Share(login.Sharing{Only: only, Viewers: 1, Valid: time.Hour})
	if err != nil {
		c.t.Fatal(err)
	}
	resp, text := c.do("POST", "/web/login", `{"code":"`+code+`"}`, c.own()...)
	var answer struct{ Key, Scope string }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || resp.StatusCode != 200 || answer.Scope != "read" {
		c.t.Fatalf("%d %s", resp.StatusCode, text)
	}
	cookie, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	return c.own("Cookie", cookie, "X-Trl-Key", answer.Key), share, code
}

// paramsFor makes parameters with these ids, of those that the method has.
func paramsFor(m api.Method, session, exec, dialogue string) string {
	p := map[string]any{}
	for name, v := range map[string]string{"SessionID": session, "ExecID": exec, "DialogueID": dialogue} {
		if f, ok := m.Params.FieldByName(name); ok && f.Type.Kind() == reflect.String && v != "" {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			p[tag] = v
		}
	}
	switch m.Name {
	case "session.attach":
		p["read_only"] = true
	case "exec.stream":
		delete(p, "session_id")
	}
	text, _ := json.Marshal(p)
	return string(text)
}

// TestShareMayCallOnlyWhatItNeeds tries every method of the API with the login of a share, for the
// shared thing and for another one. A new method must be refused.
func TestShareMayCallOnlyWhatItNeeds(t *testing.T) {
	always := []string{"dialogue.list", "dialogue.requests", "event.subscribe", "session.list", "stream.close", "system.ping"}
	for _, one := range []struct {
		only  login.Only
		ours  []string // of the shared thing
		other []string // of another thing
	}{
		{login.Only{SessionID: "s-00000000aa"}, []string{"exec.info", "exec.list", "exec.output", "exec.stream", "session.attach", "session.info", "session.screen"},
			[]string{"dialogue.list", "dialogue.requests", "stream.close", "system.ping"}},
		{login.Only{DialogueID: "d-00000000aa"}, []string{"dialogue.events", "dialogue.info", "dialogue.item", "dialogue.search", "dialogue.transcript"},
			[]string{"dialogue.list", "dialogue.requests", "session.list", "stream.close", "system.ping"}},
	} {
		c := startConsole(t)
		header, _, _ := c.viewer(one.only)
		try := func(session, exec, dialogue string) []string {
			var passed []string
			ws := c.viewerSocket(header)
			defer ws.CloseNow()
			for i, m := range api.Methods() {
				ws.send(fmt.Sprintf(`{"id":%d,"method":%q,"params":%s}`, i, m.Name, paramsFor(m, session, exec, dialogue)))
				var answer struct {
					ID    *int
					Error *api.Error
				}
				for answer.ID == nil { // pushes of a stream have none
					_, text, err := ws.Read(ws.ctx)
					if err == nil {
						err = json.Unmarshal(text, &answer)
					}
					if err != nil {
						t.Fatalf("%s: %s %v", m.Name, text, err)
					}
				}
				if answer.Error == nil || answer.Error.Code != api.CodeForbidden {
					passed = append(passed, m.Name)
				}
			}
			slices.Sort(passed)
			return passed
		}
		session, dialogue := one.only.SessionID, one.only.DialogueID
		exec := ""
		if session != "" {
			exec = "x-00000000aa-1"
		}
		want := slices.Sorted(slices.Values(slices.Concat(always, one.ours)))
		if got := try(session, exec, dialogue); !slices.Equal(got, want) {
			t.Errorf("%+v, of the shared thing:\n%v, want\n%v", one.only, got, want)
		}
		for _, ids := range [][3]string{{"s-00000000ab", "x-00000000ab-1", "d-00000000ab"}, {"build", "x-00000000aa", "review"}, {"s-", "x--1", "d-"}} {
			got := slices.DeleteFunc(try(ids[0], ids[1], ids[2]), func(name string) bool { return slices.Contains(always, name) })
			if len(got) > 0 {
				t.Errorf("%+v, of %v: %v", one.only, ids, got)
			}
		}
		// Nothing is named: only what needs no name.
		if got := try("", "", ""); !slices.Equal(got, always) {
			t.Errorf("%+v, of nothing: %v", one.only, got)
		}
	}
}

// TestShareCannotFillTheAuditLog: logging in and out again and again pushes no other record out.
func TestShareCannotFillTheAuditLog(t *testing.T) {
	var mu sync.Mutex
	var records []string // guarded by mu
	c := startConsoleWith(t, server.Config{Audit: func(_ *api.Caller, method string, _ json.RawMessage, _ string, _ error) {
		mu.Lock()
		defer mu.Unlock()
		records = append(records, method)
	}})
	header, _, code := c.viewer(login.Only{SessionID: "s-00000000aa"})
	for range 5 {
		c.do("POST", "/web/logout", "{}", header...)
		resp, text := c.do("POST", "/web/login", `{"code":"`+code+`"}`, c.own()...)
		var answer struct{ Key string }
		if err := json.Unmarshal([]byte(text), &answer); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%d %s", resp.StatusCode, text)
		}
		cookie, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
		header = c.own("Cookie", cookie, "X-Trl-Key", answer.Key)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"web.login", "web.logout"}; !slices.Equal(records, want) {
		t.Errorf("%v, want %v", records, want)
	}
}

// TestShareIsRefusedElsewhere tries the addresses that are not methods, and ways around the names.
func TestShareIsRefusedElsewhere(t *testing.T) {
	c := startConsole(t)
	header, _, _ := c.viewer(login.Only{SessionID: "s-00000000aa"})
	for _, path := range []string{
		"/v1/exec/x-00000000ab-1/stdout", "/v1/exec/x-00000000ab-1/stream", "/v1/session/s-00000000ab/attach", "/v1/dialogue/d-1/events", "/v1/dialogue/d-1/raw",
		"/v1/exec/x-00000000aa-1x/stdout", "/v1/exec/x-00000000aa-/stdout", "/v1/events?session_id=s-00000000ab",
	} {
		if resp, text := c.do("GET", path, "", header...); resp.StatusCode != 403 {
			t.Errorf("GET %s: %d %s", path, resp.StatusCode, text)
		}
	}
	for _, path := range []string{"/metrics", "/mcp"} {
		if resp, _ := c.do("GET", path, "", header...); resp.StatusCode != 401 && resp.StatusCode != 404 {
			t.Errorf("GET %s: %d", path, resp.StatusCode)
		}
	}
	for _, call := range [][2]string{
		{"session.info", `{"Session_ID":"s-00000000ab","session_id":"s-00000000aa"}`}, {"session.info", `{"session_id":"s-00000000aa","session_id":"s-00000000ab"}`},
		{"session.info", `{"session_id":["s-00000000aa"]}`}, {"session.info", `[]`}, {"session.info", `"s-00000000aa"`}, {"session.info", `null`}, {"session.info", ``},
		{"session.attach", `{"session_id":"s-00000000aa"}`}, {"session.attach", `{"session_id":"s-00000000aa","read_only":true,"take_size":true}`},
		{"exec.stream", `{"exec_id":"x-00000000aa-1","detach":false}`}, {"exec.stream", `{"session_id":"s-00000000aa","command":"id"}`},
		{"exec.stream", `{"exec_id":"x-00000000aa-1","session_id":"s-00000000ab"}`}, {"event.subscribe", `{"session_id":"s-00000000ab"}`}, {"session.list ", `{}`},
	} {
		resp, text := c.do("POST", "/v1/"+strings.ReplaceAll(call[0], " ", "%20"), call[1], header...)
		if resp.StatusCode/100 != 4 {
			t.Errorf("%s %s: %d %s", call[0], call[1], resp.StatusCode, text)
		}
	}
	// A ticket is checked when it is used.
	_, text := c.do("POST", "/web/ticket", `{"path":"/v1/exec/x-00000000ab-1/stdout","filename":"a"}`, header...)
	var ticket struct{ URL string }
	if err := json.Unmarshal([]byte(text), &ticket); err != nil || ticket.URL == "" {
		t.Fatalf("%s", text)
	}
	if resp, text := c.do("GET", ticket.URL, "", header...); resp.StatusCode != 403 {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if resp, text := c.do("POST", "/web/me", `{}`, header...); resp.StatusCode != 200 || !strings.Contains(text, `"only":{"session_id":"s-00000000aa"}`) {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
}

// TestShareEndsItsConnections: revoking and expiry close the WebSockets of viewers at once.
func TestShareEndsItsConnections(t *testing.T) {
	c := startConsole(t)
	header, share, code := c.viewer(login.Only{SessionID: "s-00000000aa"})
	if resp, text := c.do("POST", "/web/login", `{"code":"`+code+`"}`, c.own()...); resp.StatusCode != 403 || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("one viewer too many: %d %s", resp.StatusCode, text)
	}
	// The same browser may use the link again: it keeps its login.
	if resp, text := c.do("POST", "/web/login", `{"code":"`+code+`"}`, header...); resp.StatusCode != 200 || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("the same browser: %d %s", resp.StatusCode, text)
	}
	ws := c.viewerSocket(header)
	ws.send(`{"id":1,"method":"session.create","params":{}}`)
	ws.expect(`{"id":1,"ok":false,"error":{"code":"FORBIDDEN"`)
	ws.send(`{"id":2,"method":"session.list","params":{}}`)
	ws.expect(`{"id":2,"ok":true,"data":{"sessions":[]`)
	if _, err := c.logins.Revoke(share.ShareID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.Read(ws.ctx); websocket.CloseStatus(err) != 4403 {
		t.Errorf("a revoked share: %v", err)
	}
	c.refused(401, api.CodeAuthFailed, "POST", "/v1/system.ping", "{}", header...)
	c.refused(401, api.CodeAuthFailed, "POST", "/web/login", `{"code":"`+code+`"}`, c.own()...)
	// A viewer who logs out elsewhere has left; the share goes on.
	header, _, _ = c.viewer(login.Only{SessionID: "s-00000000aa"})
	ws = c.viewerSocket(header)
	if resp, text := c.do("POST", "/web/logout", `{}`, header...); resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	if _, _, err := ws.Read(ws.ctx); websocket.CloseStatus(err) != 4401 {
		t.Errorf("a viewer who logged out: %v", err)
	}
	if strings.Contains(c.log.String(), code) {
		t.Error("the log has the code")
	}
}

// viewerSocket opens a WebSocket with the login of a viewer.
func (c *console) viewerSocket(header []string) *socket {
	return c.mustWebSocket(&websocket.DialOptions{
		HTTPHeader: http.Header{"Cookie": {valueOf(header, "Cookie")}, "Origin": {c.origin()}}, Subprotocols: []string{"trl.v1", "trl.key." + valueOf(header, "X-Trl-Key")},
	})
}

// valueOf returns the value of a header in a list of names and values.
func valueOf(header []string, name string) string { return header[slices.Index(header, name)+1] }

// TestFullLoginKeepsItsRights: a browser that may do everything opens a share.
func TestFullLoginKeepsItsRights(t *testing.T) {
	c := startConsole(t)
	cookie, key, id := c.logIn("full")
	_, code, err := c.logins.Share(login.Sharing{Only: login.Only{SessionID: "s-1"}, Viewers: 1, Valid: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	resp, text := c.do("POST", "/web/login", `{"code":"`+code+`"}`, c.own("Cookie", cookie, "X-Trl-Key", key)...)
	if resp.StatusCode != 200 || resp.Header.Get("Set-Cookie") != "" || !strings.Contains(text, id) || !strings.Contains(text, `"scope":"full"`) {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
}
