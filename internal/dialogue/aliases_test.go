package dialogue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// makeOlder rewrites the events as a version did that used the agent's ids. It leaves out
// events of some type, which that version did not make. It returns the id of the request.
func makeOlder(t *testing.T, dir string, without api.DialogueEventType) (request string) {
	t.Helper()
	path := filepath.Join(dir, eventsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var events []api.DialogueEvent
	ids := map[string]string{}
	for one := range bytes.Lines(text) {
		var ev api.DialogueEvent
		if err := json.Unmarshal(one, &ev); err != nil {
			t.Fatal(err)
		}
		switch {
		case ev.Type == without:
			continue
		case ev.Item != nil && ev.Item.Kind == "tool_call":
			ids[ev.Item.ItemID], ev.Item.NativeID = ev.Item.NativeID, ""
		case ev.Item != nil && ev.Item.NativeID != "":
			ids[ev.Item.ItemID], ev.Item.NativeID = ev.Item.NativeID+"/0", ""
		case ev.Request != nil:
			request = ev.Request.NativeID
			ids[ev.Request.RequestID], ev.Request.NativeID = request, ""
		}
		ev.Seq = int64(len(events) + 1)
		events = append(events, ev)
	}
	var b strings.Builder
	for _, ev := range events {
		one, _ := json.Marshal(ev)
		fmt.Fprintf(&b, "%s\n", one)
	}
	older := b.String()
	for made, native := range ids {
		older = strings.ReplaceAll(older, `"`+made+`"`, `"`+native+`"`)
	}
	if err := os.WriteFile(path, []byte(older), 0o600); err != nil || request == "" {
		t.Fatalf("%v; the request is %q", err, request)
	}
	return request
}

// Items and requests that were open when an older daemon was replaced go on under their recorded
// ids: a request can be answered, and a tool call is not published twice.
func TestReplayOfOlderIDs(t *testing.T) {
	s := recorded(t)
	for _, without := range []api.DialogueEventType{"", api.DialogueEventUsage, api.DialogueEventMessage, api.DialogueEventState} {
		dir := filepath.Join(t.TempDir(), "d-1")
		d, p := begin(t, dir)
		s.play(d, p, s.calls[1].Offset) // the request is open
		d.record.end()
		id := makeOlder(t, dir, without)
		for range 2 { // also with the daemon after the next
			d, _ = again(t, dir)
			if pending := d.tracker.Pending(); len(pending) != 1 || pending[0].RequestID != id {
				t.Fatalf("without %q: waiting %+v", without, pending)
			}
			d.record.end()
		}
		d, p = again(t, dir)
		d.mu.Lock()
		answer := d.callLocked(p, agent.Call{Respond: &agent.Response{DialogueRespondParams: api.DialogueRespondParams{RequestID: id, Decision: "allow"}, By: "client"}})
		d.mu.Unlock()
		select {
		case err := <-answer:
			if err != nil {
				t.Fatalf("without %q: the answer: %v", without, err)
			}
		default:
			t.Fatalf("without %q: no answer", without)
		}
		want := eventsIn(t, dir)
		d.record.end()
		d, p = again(t, dir)
		if got := eventsIn(t, dir); got != want || len(d.tracker.Pending()) != 0 {
			t.Errorf("without %q: after another restart:\n%s", without, got)
		}
		d.receive(p, piece{stream: api.EventStdout, offset: p.lines.end, data: s.stdout[p.lines.end:]})
		calls := map[string]string{}
		for line := range strings.Lines(eventsIn(t, dir)) {
			var ev api.DialogueEvent
			if err := json.Unmarshal([]byte(line), &ev); err != nil {
				t.Fatal(err)
			}
			if ev.Item != nil && ev.Item.Tool != nil {
				calls[ev.Item.ItemID] = ev.Item.Tool.Status
			}
		}
		if len(calls) != 1 || calls[d.lastCall(t)] != "completed" || d.tracker.Busy() {
			t.Errorf("without %q: tool calls %v, something is open: %v", without, calls, d.tracker.Busy())
		}
	}
}

// lastCall is the id of the tool call that the last request was about.
func (d *Dialogue) lastCall(t *testing.T) (id string) {
	t.Helper()
	for line := range strings.Lines(eventsIn(t, d.record.dir)) {
		var ev api.DialogueEvent
		if err := json.Unmarshal([]byte(line), &ev); err == nil && ev.Type == api.DialogueEventRequestOpened {
			id = ev.Request.ToolCallID
		}
	}
	return id
}
