package http_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// post calls a method over HTTP and returns the status.
func post(t *testing.T, url, token, path, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// recorded waits for the records that match.
func recorded(t *testing.T, c api.Service, p api.AuditListParams, n int) []api.AuditRecord {
	t.Helper()
	var list []api.AuditRecord
	testkit.Eventually(t, "the records", func() bool {
		r, err := c.AuditList(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		list = r.Records
		return len(list) >= n
	})
	return list
}

// TestAuditKnowsTheCaller calls over every kind of transport with every kind of right.
func TestAuditKnowsTheCaller(t *testing.T) {
	const reader, full = "read-read-read-read", "full-full-full-full"
	file := testkit.Dir(t) + "/tokens"
	if err := os.WriteFile(file, []byte("full "+full+"\nread "+reader+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := trltest.Start(t, trltest.Args("--http", "127.0.0.1:0", "--token-file", file))
	c := d.Client(t)
	info, err := c.SystemInfo(t.Context(), api.SystemInfoParams{})
	if err != nil {
		t.Fatal(err)
	}
	post(t, info.HTTP, full, "/v1/session.destroy", `{"session_id":"s-nosuch"}`)
	for range 5 {
		post(t, info.HTTP, reader, "/v1/session.destroy", `{"session_id":"s-nosuch"}`)
		post(t, info.HTTP, "wrong-wrong-wrong-wrong", "/v1/session.list", `{}`)
	}
	post(t, info.HTTP, reader, "/v1/session.list", `{}`)
	got := recorded(t, c, api.AuditListParams{AuditFilter: api.AuditFilter{Caller: "http"}}, 3)
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []struct{ method, outcome string }{{"session.destroy", "SESSION_NOT_FOUND"}, {"session.destroy", "FORBIDDEN"}, {"auth", "AUTH_FAILED"}} {
		r := got[i]
		if r.Method != want.method || r.Outcome != want.outcome || r.Caller.Address != "127.0.0.1" || (len(r.Caller.Token) == 12) != (want.method != "auth") {
			t.Errorf("%+v, caller %+v", r, r.Caller)
		}
	}
	text, _ := json.Marshal(got)
	if strings.Contains(string(text), full) || strings.Contains(string(text), reader) {
		t.Errorf("a record has a token: %s", text)
	}
}

// TestAuditKnowsModels calls a tool of MCP over HTTP.
func TestAuditKnowsModels(t *testing.T) {
	d := trltest.Start(t, trltest.Args("--http", "127.0.0.1:0"))
	c := newClient(t, d)
	id := ""
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run","arguments":{"command":"true"}}}`,
	} {
		header := []string{"Accept", "application/json, text/event-stream"}
		if id != "" {
			header = append(header, "Mcp-Session-Id", id)
		}
		resp, err := c.send(t.Context(), "POST", "/mcp", body, header...)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Fatalf("%s: %d %s", body, resp.StatusCode, text)
		}
		if got := resp.Header.Get("Mcp-Session-Id"); got != "" {
			id = got
		}
	}
	for _, r := range recorded(t, d.Client(t), api.AuditListParams{AuditFilter: api.AuditFilter{Method: "exec"}}, 1) {
		if r.Caller == nil || r.Caller.Transport != "mcp" && r.Caller.Transport != "http" {
			t.Errorf("%+v, caller %+v", r, r.Caller)
		}
	}
}

// TestAuditSurvivesKill9 kills the daemon while calls are made.
func TestAuditSurvivesKill9(t *testing.T) {
	d := trltest.Start(t)
	c := d.Client(t)
	s, err := c.SessionCreate(t.Context(), api.SessionCreateParams{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for range 20 {
			if _, err := c.ExecRun(t.Context(), api.ExecParams{SessionID: "a", Command: "true"}); err != nil {
				t.Fatal(err)
			}
		}
		before := recorded(t, c, api.AuditListParams{Limit: 1}, 1)[0]
		c = d.Crash(t, nil)
		r, err := c.AuditVerify(t.Context(), api.AuditVerifyParams{})
		if err != nil || !r.OK || r.LastSeq < before.Seq {
			t.Fatalf("%+v, %v; the last before was %+v", r, err, before)
		}
	}
	all := recorded(t, c, api.AuditListParams{AuditFilter: api.AuditFilter{SessionID: "a", Method: "exec.run"}}, 1)
	for _, r := range all {
		if r.SessionID != s.SessionID {
			t.Errorf("%+v", r)
		}
	}
}
