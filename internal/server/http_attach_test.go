package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
)

// SessionAttach pushes the events of a viewer; the working directory of the exit contains the
// parameters.
func (s *service) SessionAttach(_ context.Context, p api.SessionAttachParams) (api.Stream, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	asked, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	five, eight := int64(5), int64(8)
	size := &api.ViewerEvent{Cols: 80, Rows: 24}
	return &pushed{events: []api.StreamEvent{
		{Type: api.EventSnapshot, Offset: &five, Data: "$ ", ViewerEvent: size},
		{Type: api.EventOutput, Offset: &five, Data: "x\ufffd", DataBase64: "eMOf"}, // three bytes
		{Type: api.EventResize, Offset: &eight, ViewerEvent: size},
		{Type: api.EventOutput, Offset: &eight, Data: "é"},
		{Type: api.EventExit, ExecOutcome: &api.ExecOutcome{WorkingDir: string(asked)}},
	}}, nil
}

// pushed is a stream of what is there.
type pushed struct {
	events []api.StreamEvent
	seq    int64
}

func (p *pushed) Start() api.StreamStart {
	return api.StreamStart{StreamID: "v", SessionID: "s", ViewerID: "v"}
}

func (p *pushed) Recv() (api.StreamEvent, error) {
	if len(p.events) == 0 {
		return api.StreamEvent{}, io.EOF
	}
	ev := p.events[0]
	p.events, p.seq = p.events[1:], p.seq+1
	ev.StreamID, ev.Seq = "v", p.seq
	return ev, nil
}

func (p *pushed) Close() error { return nil }

// TestHTTPAttach: the id of an event is the offset with which a viewer reconnects.
func TestHTTPAttach(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	for name, tt := range map[string]struct {
		req   *http.Request
		asked string
	}{
		"get":          {w.request("GET", "/v1/session/demo/attach", "", "Authorization", "Bearer "+readToken), `"session_id":"demo","read_only":true`},
		"get, query":   {w.request("GET", "/v1/session/demo/attach?from_offset=0&scrollback=-1", ""), `"session_id":"demo","from_offset":0,"scrollback":-1,"read_only":true`},
		"get, header":  {w.request("GET", "/v1/session/demo/attach?from_offset=3", "", "Last-Event-ID", "8"), `"session_id":"demo","from_offset":8,"read_only":true`},
		"post":         {w.request("POST", "/v1/session.attach", `{"session_id":"demo","size":{"cols":90,"rows":30}}`), `"session_id":"demo","size":{"cols":90,"rows":30}`},
		"post, header": {w.request("POST", "/v1/session.attach", `{"session_id":"demo","snapshot":true}`, "Last-Event-ID", "0"), `"session_id":"demo","from_offset":0`},
	} {
		t.Run(name, func(t *testing.T) {
			tt.req.Header.Set("Accept", sse)
			lines := w.stream(sse, tt.req)
			lines.t = t
			lines.expect("event: start", `data: {"stream_id":"v","session_id":"s","viewer_id":"v"}`, "",
				"id: 5", "event: snapshot", `data: {"stream_id":"v","seq":1,"type":"snapshot","offset":5,"data":"$ ","cols":80,"rows":24}`, "",
				"id: 8", "event: output", `data: {"stream_id":"v","seq":2,"type":"output","offset":5,"data":"x�","data_base64":"eMOf"}`, "",
				"id: 8", "event: resize", `data: {"stream_id":"v","seq":3,"type":"resize","offset":8,"cols":80,"rows":24}`, "",
				"id: 10", "event: output", `data: {"stream_id":"v","seq":4,"type":"output","offset":8,"data":"é"}`, "",
				"id: end", "event: exit")
			line, err := lines.r.ReadBytes('\n')
			if err != nil {
				t.Fatal(err)
			}
			var exit api.StreamEvent
			if err := json.Unmarshal(line[len("data: "):], &exit); err != nil || exit.WorkingDir != "{"+tt.asked+"}" {
				t.Errorf("asked for %s, %v; want {%s}", exit.WorkingDir, err, tt.asked)
			}
			lines.expect("")
			lines.end()
		})
	}
	for _, query := range []string{"?size=1", "?from_offset=x", "?from_offset=-1", "?scrollback=-2", "?read_only=false"} {
		w.refused(400, api.CodeInvalidParams, "GET", "/v1/session/demo/attach"+query, "")
	}
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/session/demo/attach", "", "Last-Event-ID", "-1")
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/events", "", "Last-Event-ID", "end")
	if resp, text := w.do("GET", "/v1/session/demo/attach", "", "Accept", sse, "Last-Event-ID", "end"); resp.StatusCode != 204 || text != "" {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	w.refused(405, api.CodeInvalidParams, "GET", "/v1/session/demo/screen", "")
	w.refused(404, api.CodeMethodNotFound, "POST", "/v1/session/demo", "")
	w.refused(403, api.CodeForbidden, "POST", "/v1/session.attach", `{"session_id":"demo"}`, "Authorization", "Bearer "+readToken)
	w.refused(405, api.CodeInvalidParams, "POST", "/v1/session/demo/attach", `{}`)
}
