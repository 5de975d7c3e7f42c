package server_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
)

// The dialogues of the service: d-ended has three events and d-idle has two, which it
// waits behind. Each has written ten bytes, with one that is not UTF-8. d-new has another
// process at every request.

const agentWrote = "0123\xff56789"

func (s *service) DialogueInfo(_ context.Context, p api.DialogueInfoParams) (api.DialogueInfo, error) {
	switch p.DialogueID {
	case "d-ended":
		return api.DialogueInfo{DialogueID: p.DialogueID, State: api.DialogueEnded, Epoch: 2, Seq: 3}, nil
	case "d-new":
		return api.DialogueInfo{DialogueID: p.DialogueID, State: api.DialogueIdle, Epoch: int(s.epochs.Add(1))}, nil
	case "d-idle":
		return api.DialogueInfo{DialogueID: p.DialogueID, State: api.DialogueIdle, Epoch: 2, Seq: 2}, nil
	}
	return api.DialogueInfo{}, api.Errorf(api.CodeDialogueNotFound, "dialogue %q: not found", p.DialogueID)
}

func (s *service) DialogueSend(context.Context, api.DialogueSendParams) (api.DialogueSendResult, error) {
	return api.DialogueSendResult{}, nil
}

func (s *service) DialogueEvents(ctx context.Context, p api.DialogueEventsParams) (api.Stream, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	info, err := s.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: p.DialogueID})
	if err != nil {
		return nil, err
	}
	return &told{ctx: ctx, params: p, info: info, seq: p.AfterSeq}, nil
}

// told is the stream of a dialogue.
type told struct {
	ctx    context.Context
	params api.DialogueEventsParams
	info   api.DialogueInfo
	seq    int64
	over   bool
}

func (t *told) Start() api.StreamStart {
	return api.StreamStart{StreamID: "e", DialogueID: t.info.DialogueID}
}

func (t *told) Recv() (api.StreamEvent, error) {
	switch {
	case t.seq < t.info.Seq:
		t.seq++
		return api.StreamEvent{StreamID: "e", Seq: t.seq, Type: api.EventDialogue, DialogueID: t.info.DialogueID}, nil
	case t.over:
		return api.StreamEvent{}, io.EOF
	case t.params.NoFollow || t.info.State == api.DialogueEnded:
		t.over = true
		return api.StreamEvent{StreamID: "e", Seq: t.info.Seq, Type: api.EventEnd}, nil
	}
	<-t.ctx.Done()
	return api.StreamEvent{}, context.Cause(t.ctx)
}

func (t *told) Close() error { return nil }

func (s *service) DialogueRaw(ctx context.Context, p api.DialogueRawParams) (api.DialogueRawResult, error) {
	if err := p.Check(); err != nil {
		return api.DialogueRawResult{}, err
	}
	info, err := s.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: p.DialogueID})
	if err != nil {
		return api.DialogueRawResult{}, err
	}
	r := api.DialogueRawResult{DialogueID: p.DialogueID, Epoch: p.Epoch, Offset: p.Offset, Total: int64(len(agentWrote))}
	text := agentWrote
	if p.Epoch == 0 {
		r.Epoch = info.Epoch
	}
	if r.Epoch != info.Epoch || p.DialogueID == "d-new" {
		text = strings.Repeat(fmt.Sprint(r.Epoch), len(agentWrote))
	}
	if p.Stream == "stdin" {
		text = strings.ToUpper("asked: all")
	}
	end := min(p.Offset+*p.Limit, r.Total)
	r.Data, r.DataBase64 = api.Text([]byte(text[p.Offset:end]))
	r.Complete = end == r.Total && (info.State == api.DialogueEnded || r.Epoch != info.Epoch)
	return r, nil
}

// TestHTTPDialogueEvents: a client that reconnects gets the events after its last one; a client that
// has the end of an ended dialogue need not reconnect.
func TestHTTPDialogueEvents(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	event := func(id string, seq int) []string {
		return []string{fmt.Sprintf("id: %d", seq), "event: dialogue",
			fmt.Sprintf(`data: {"stream_id":"e","seq":%d,"type":"dialogue","dialogue_id":"%s"}`, seq, id), ""}
	}
	start := func(id string) []string {
		return []string{"event: start", fmt.Sprintf(`data: {"stream_id":"e","dialogue_id":"%s"}`, id), ""}
	}
	end := func(seq int) []string {
		return []string{fmt.Sprintf("id: %d", seq), "event: end", fmt.Sprintf(`data: {"stream_id":"e","seq":%d,"type":"end"}`, seq), ""}
	}
	get := func(path string, header ...string) lineReader {
		return w.stream(sse, w.request("GET", "/v1/dialogue/"+path, "", append(header, "Accept", sse, "Authorization", "Bearer "+readToken)...))
	}
	all := get("d-ended/events")
	all.expect(start("d-ended")...)
	for seq := 1; seq <= 3; seq++ {
		all.expect(event("d-ended", seq)...)
	}
	all.expect(end(3)...)
	all.end()

	rest := get("d-ended/events?after_seq=2&no_deltas=1")
	rest.expect(start("d-ended")...)
	rest.expect(event("d-ended", 3)...)

	back := get("d-idle/events", "Last-Event-ID", "1")
	back.expect(start("d-idle")...)
	back.expect(event("d-idle", 2)...)
	back.Close()

	waits := get("d-idle/events", "Last-Event-ID", "2") // it gets the future events
	waits.expect(start("d-idle")...)
	waits.Close()

	lines := w.stream(ndjson, w.request("POST", "/v1/dialogue.events", `{"dialogue_id":"d-idle","no_follow":true}`))
	lines.expect(`{"stream_id":"e","dialogue_id":"d-idle"}`, `{"stream_id":"e","seq":1,"type":"dialogue","dialogue_id":"d-idle"}`,
		`{"stream_id":"e","seq":2,"type":"dialogue","dialogue_id":"d-idle"}`, `{"stream_id":"e","seq":2,"type":"end"}`)
	lines.end()

	for _, path := range []string{"d-ended/events", "d-idle/events?no_follow=1"} {
		last := map[bool]string{true: "3", false: "2"}[strings.HasPrefix(path, "d-ended")]
		if resp, text := w.do("GET", "/v1/dialogue/"+path, "", "Accept", sse, "Last-Event-ID", last); resp.StatusCode != 204 || text != "" {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/dialogue/d-ended/events", "", "Last-Event-ID", "4")
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/dialogue/d-idle/events", "", "Last-Event-ID", "3")
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/dialogue/d-idle/events?no_follow=maybe", "")
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/dialogue/d-idle/events?after=1", "")
	w.refused(404, api.CodeDialogueNotFound, "GET", "/v1/dialogue/d-none/events", "")
	w.refused(404, api.CodeDialogueNotFound, "GET", "/v1/dialogue/d-none/events", "", "Last-Event-ID", "1")
	w.refused(404, api.CodeMethodNotFound, "GET", "/v1/dialogue/d-idle/nothing", "")
	w.refused(403, api.CodeForbidden, "POST", "/v1/dialogue.send", `{"dialogue_id":"d-idle","text":"x"}`, "Authorization", "Bearer "+readToken)
}

func TestHTTPDialogueRaw(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	for _, c := range []struct {
		path, ranges string
		status       int
		body         string
		content      string // Content-Range
		headers      string // the headers of TRL
	}{
		{"d-ended/raw", "", 200, agentWrote, "", "0 10 10 closed true "},
		{"d-ended/raw?offset=4", "", 200, agentWrote[4:], "", "4 10 10 closed true "},
		{"d-ended/raw?offset=10", "", 200, "", "", "10 10 10 closed true "},
		{"d-ended/raw?stream=stdin", "", 200, "ASKED: ALL", "", "0 10 10 closed true "},
		{"d-idle/raw", "", 200, agentWrote, "", "0 10 10 running false "},
		{"d-idle/raw?epoch=1", "", 200, "1111111111", "", "0 10 10 closed true "},
		{"d-new/raw?epoch=1", "", 200, "1111111111", "", "0 10 10 closed true "},
		{"d-idle/raw", "bytes=3-5", 206, agentWrote[3:6], "bytes 3-5/*", "3 6 10 running false "},
		{"d-ended/raw", "bytes=-3", 206, "789", "bytes 7-9/10", "7 10 10 closed true "},
	} {
		var header []string
		if c.ranges != "" {
			header = []string{"Range", c.ranges}
		}
		for _, verb := range []string{"GET", "HEAD"} {
			resp, text := w.do(verb, "/v1/dialogue/"+c.path, "", append(header, "Authorization", "Bearer "+readToken)...)
			body := map[string]string{"GET": c.body}[verb]
			if resp.StatusCode != c.status || text != body || resp.Header.Get("Content-Range") != c.content || trl(resp.Header) != c.headers {
				t.Errorf("%s %s %s: %d %q %q %q", verb, c.path, c.ranges, resp.StatusCode, text, resp.Header.Get("Content-Range"), trl(resp.Header))
			}
		}
	}
	w.service.epochs.Store(1)
	// The answer has the output of the process that was the last one when the answer began.
	if _, text := w.do("GET", "/v1/dialogue/d-new/raw", ""); text != "2222222222" {
		t.Errorf("%q", text)
	}
	w.refused(416, api.CodeInvalidParams, "GET", "/v1/dialogue/d-ended/raw?offset=11", "")
	w.refused(416, api.CodeInvalidParams, "GET", "/v1/dialogue/d-ended/raw", "", "Range", "bytes=10-")
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/dialogue/d-ended/raw?stream=stderr", "")
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/dialogue/d-ended/raw?epoch=0", "")
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/dialogue/d-ended/raw?follow=1", "")
	w.refused(404, api.CodeDialogueNotFound, "GET", "/v1/dialogue/d-none/raw", "")
}
