package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// claudeMoves turns a recording into what a dialogue would see: what the host sent then
// becomes calls, and the program's answers get the ids of the requests that we make now.
func claudeMoves(t testing.TB, r recording) []move {
	t.Helper()
	scout := newTalk(t, "claude", claudeOptions(r))
	ids := map[string][]string{}          // of control requests: as recorded → ours
	made := map[string][]string{}         // ours that no recorded one was matched with, by subtype
	asked := map[string]json.RawMessage{} // inputs of the tools that were asked for
	heard := 0
	note := func() {
		for ; heard < len(scout.wrote); heard++ {
			var w claudeWritten
			if json.Unmarshal(scout.wrote[heard], &w) == nil && w.Type == "control_request" {
				made[w.Request.Subtype] = append(made[w.Request.Subtype], w.RequestID)
			}
		}
	}
	match := func(in claudeWritten) bool {
		ours := made[in.Request.Subtype]
		if len(ours) == 0 {
			return false
		}
		ids[in.RequestID] = append(ids[in.RequestID], ours[0])
		made[in.Request.Subtype] = ours[1:]
		return true
	}
	var moves []move
	add := func(m move) {
		moves = append(moves, m)
		if m.call != nil {
			scout.do(*m.call)
		} else {
			scout.hear(m.line)
		}
		note()
	}
	note()
	if !slices.ContainsFunc(r.in, func(in recordedInput) bool { return bytes.Contains(in.Line, []byte(`"initialize"`)) }) {
		add(move{line: []byte(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{}}}`)})
	}
	in := slices.Clone(r.in)
	for i := 0; ; i++ {
		for len(in) > 0 && in[0].After <= i {
			var w claudeWritten
			if err := json.Unmarshal(in[0].Line, &w); err != nil {
				t.Fatal(err)
			}
			in = in[1:]
			if w.Type == "control_request" && match(w) {
				continue
			}
			if c := claudeCall(w, r.out[min(i, len(r.out)):], len(moves), asked); c != nil {
				add(move{call: c})
				if w.Type == "control_request" && !match(w) {
					t.Fatalf("%s: no request was made for %s", r.name, w.Request.Subtype)
				}
			}
		}
		if i == len(r.out) {
			return moves
		}
		line := r.out[i]
		var o struct {
			claudeWritten
			Response struct {
				RequestID string `json:"request_id"`
			} `json:"response"`
		}
		_ = json.Unmarshal(line, &o)
		if ours := ids[o.Response.RequestID]; len(ours) > 0 && o.Type == "control_response" {
			ids[o.Response.RequestID] = ours[1:]
			line = bytes.Replace(line, []byte(`"request_id":"`+o.Response.RequestID+`"`), []byte(`"request_id":"`+ours[0]+`"`), 1)
		}
		if o.Type == "control_request" {
			asked[o.RequestID] = o.Request.Input
		}
		add(move{line: line})
	}
}

// claudeWritten is what is written to the program, as far as the tests care.
type claudeWritten struct {
	Type      string `json:"type"`
	RequestID string `json:"request_id"`
	UUID      string `json:"uuid"`
	Request   struct {
		Subtype      string          `json:"subtype"`
		CancelQueued bool            `json:"cancel_queued"`
		Model        string          `json:"model"`
		Mode         string          `json:"mode"`
		Input        json.RawMessage `json:"input"`
	} `json:"request"`
	Message struct {
		Content []api.DialogueContent `json:"content"`
	} `json:"message"`
	Response struct {
		Subtype   string `json:"subtype"`
		RequestID string `json:"request_id"`
		Response  struct {
			Behavior    string            `json:"behavior"`
			Message     string            `json:"message"`
			Interrupt   bool              `json:"interrupt"`
			Input       json.RawMessage   `json:"updatedInput"`
			Permissions []json.RawMessage `json:"updatedPermissions"`
		} `json:"response"`
	} `json:"response"`
}

// claudeCall is the call that makes what was written then; nil when there is none.
func claudeCall(w claudeWritten, rest [][]byte, n int, asked map[string]json.RawMessage) *agent.Call {
	c := &agent.Call{ID: fmt.Sprintf("call-%d", n)}
	switch {
	case w.Type == "user":
		id := w.UUID
		for _, line := range rest {
			// Without an id of its own the program makes one, which its echo has.
			var echo struct {
				UUID   string `json:"uuid"`
				Replay bool   `json:"isReplay"`
			}
			if id == "" && json.Unmarshal(line, &echo) == nil && echo.Replay && bytes.Contains(line, []byte(w.Message.Content[0].Text)) {
				id = echo.UUID
			}
		}
		if id == "" {
			id = fmt.Sprintf("00000000-0000-4000-9000-%012d", n)
		}
		c.Send = &agent.Message{ID: id, Content: w.Message.Content}
	case w.Type == "control_response" && w.Response.Subtype == "success" && w.Response.Response.Behavior != "":
		a := w.Response.Response
		c.Respond = &agent.Response{By: "client"}
		c.Respond.RequestID, c.Respond.Decision, c.Respond.Message, c.Respond.Interrupt = w.Response.RequestID, a.Behavior, a.Message, a.Interrupt
		c.Respond.Remember = a.Permissions != nil
		var input struct {
			Answers map[string]string `json:"answers"`
		}
		_ = json.Unmarshal(a.Input, &input)
		if c.Respond.Answers = input.Answers; input.Answers == nil && a.Input != nil && !bytes.Equal(a.Input, asked[w.Response.RequestID]) {
			c.Respond.Input = a.Input
		}
	case w.Type == "control_request" && w.Request.Subtype == "interrupt":
		c.Interrupt = &agent.Interrupt{All: w.Request.CancelQueued}
	case w.Type == "control_request" && w.Request.Subtype == "set_model":
		c.Set = &agent.Setting{Model: w.Request.Model}
	case w.Type == "control_request" && w.Request.Subtype == "set_permission_mode":
		c.Set = &agent.Setting{PermissionMode: w.Request.Mode}
	default:
		return nil // a question that we never ask, or an answer that we would not give
	}
	return c
}

func claudeOptions(r recording) agent.Options {
	switch path.Base(r.name) {
	case "i_resume":
		return agent.Options{Resume: "00000000-0000-4000-8000-000000000008"}
	case "k_resumed":
		return agent.Options{Resume: "b9e21fa3-ca77-40a0-b8a6-e5596d06afbf"}
	}
	return agent.Options{}
}

func TestClaudeRecordings(t *testing.T) {
	for _, r := range recordings(t, "claude") {
		t.Run(r.name, func(t *testing.T) {
			moves := claudeMoves(t, r)
			k := newTalk(t, "claude", claudeOptions(r))
			k.play(moves)
			for _, m := range moves {
				if m.call == nil {
					continue
				}
				if err, ok := k.answers[m.call.ID]; !ok && !strings.Contains(r.name, "kill9") {
					t.Errorf("call %s was never answered: %s", m.call.ID, show(m.call))
				} else if err != nil && err.Code != api.CodeConflict && err.Code != api.CodeInvalidParams {
					t.Errorf("call %s: %v", m.call.ID, err)
				}
			}
			for i, ev := range k.events {
				if ev.Type == api.DialogueEventState && i > 0 && k.events[i-1].Type == api.DialogueEventState && k.events[i-1].State == ev.State {
					t.Errorf("one state twice in a row: events %d and %d", i, i+1)
				}
			}
			k.end()
			k.check()
			golden(t, r.name, k.outcome())

			again := newTalk(t, "claude", claudeOptions(r))
			again.play(moves)
			again.end()
			if a, b := show(k.events), show(again.events); a != b {
				t.Errorf("the same again makes other events:\n%s", difference(a, b))
			}
		})
	}
}

// What the program wrote alone, without what it was told, must make sense too.
func TestClaudeLinesAlone(t *testing.T) {
	for _, r := range recordings(t, "claude") {
		k := newTalk(t, "claude", claudeOptions(r))
		for _, line := range r.out {
			k.hear(line)
		}
		k.end()
		k.check()
	}
}

// What is finished counts: the pieces that are told before change nothing in the end.
func TestClaudeWithoutPartials(t *testing.T) {
	for _, r := range recordings(t, "claude") {
		if strings.Contains(r.name, "kill9_stream") {
			continue // it ends in the middle of a message, which only the pieces tell
		}
		if r.name == "claude-2.1.197/k_interrupt_text" {
			continue // only the pieces tell that a text was cut off
		}
		moves := claudeMoves(t, r)
		whole, bare := newTalk(t, "claude", claudeOptions(r)), newTalk(t, "claude", claudeOptions(r))
		whole.play(moves)
		bare.play(slices.DeleteFunc(slices.Clone(moves), func(m move) bool { return bytes.Contains(m.line, []byte(`"type":"stream_event"`)) }))
		whole.end()
		bare.end()
		if a, b := renumbered(whole.outcome()), renumbered(bare.outcome()); a != b {
			t.Errorf("%s: with and without pieces:\n%s", r.name, difference(a, b))
		}
	}
}

// A line that comes again changes nothing.
func TestClaudeRepeatedLines(t *testing.T) {
	for _, r := range recordings(t, "claude") {
		if strings.Contains(r.name, "pty") {
			continue // its only line has no id
		}
		moves := claudeMoves(t, r)
		once, twice, stutter := newTalk(t, "claude", claudeOptions(r)), newTalk(t, "claude", claudeOptions(r)), newTalk(t, "claude", claudeOptions(r))
		once.play(moves)
		twice.play(moves)
		for _, m := range moves {
			stutter.play([]move{m})
			if m.line != nil {
				twice.hear(m.line)
				stutter.hear(m.line)
			}
		}
		if a, b := once.outcome(), twice.outcome(); a != b {
			t.Errorf("%s: all lines again:\n%s", r.name, difference(a, b))
		}
		if a, b := once.outcome(), stutter.outcome(); a != b {
			t.Errorf("%s: each line twice:\n%s", r.name, difference(a, b))
		}
	}
}

// Wherever a recording is cut off, everything in it can be closed.
func TestClaudeCutOff(t *testing.T) {
	for _, r := range recordings(t, "claude") {
		moves := claudeMoves(t, r)
		for n := range moves {
			k := newTalk(t, "claude", claudeOptions(r))
			k.play(moves[:n])
			k.end()
			k.check()
			if t.Failed() {
				t.Fatalf("%s: after %d of %d", r.name, n, len(moves))
			}
		}
	}
}
