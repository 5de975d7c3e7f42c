package claude_test

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
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
	"github.com/trl-dev/trl/internal/dialogue/agent/claude"
)

// movesOf turns a recording into the moves of a dialogue. The lines of the recorded host become
// calls, and the program's answers get the ids of the requests that the protocol makes now.
func movesOf(t testing.TB, r agenttest.Recording) []agenttest.Move {
	t.Helper()
	scout := agenttest.NewTalk(t, claude.Agent{}, optionsOf(r))
	ids := map[string][]string{}          // of control requests: as recorded → ours
	made := map[string][]string{}         // ours that no recorded one was matched with, by subtype
	asked := map[string]json.RawMessage{} // inputs of the tools that were asked for
	heard := 0
	note := func() {
		for ; heard < len(scout.Wrote); heard++ {
			var w written
			if json.Unmarshal(scout.Wrote[heard], &w) == nil && w.Type == "control_request" {
				made[w.Request.Subtype] = append(made[w.Request.Subtype], w.RequestID)
			}
		}
	}
	match := func(in written) bool {
		ours := made[in.Request.Subtype]
		if len(ours) == 0 {
			return false
		}
		ids[in.RequestID] = append(ids[in.RequestID], ours[0])
		made[in.Request.Subtype] = ours[1:]
		return true
	}
	var moves []agenttest.Move
	add := func(m agenttest.Move) {
		moves = append(moves, m)
		if m.Call != nil {
			scout.Do(*m.Call)
		} else {
			scout.Hear(m.Line)
		}
		note()
	}
	note()
	if !slices.ContainsFunc(r.In, func(in agenttest.RecordedInput) bool { return bytes.Contains(in.Line, []byte(`"initialize"`)) }) {
		add(agenttest.Move{Line: []byte(`{"type":"control_response","response":{"subtype":"success","request_id":"trl-1","response":{}}}`)})
	}
	in := slices.Clone(r.In)
	for i := 0; ; i++ {
		for len(in) > 0 && in[0].After <= i {
			var w written
			if err := json.Unmarshal(in[0].Line, &w); err != nil {
				t.Fatal(err)
			}
			in = in[1:]
			if w.Type == "control_request" && match(w) {
				continue
			}
			if c := callOf(w, r.Out[min(i, len(r.Out)):], len(moves), asked); c != nil {
				add(agenttest.Move{Call: c})
				if w.Type == "control_request" && !match(w) {
					t.Fatalf("%s: no request was made for %s", r.Name, w.Request.Subtype)
				}
			}
		}
		if i == len(r.Out) {
			return moves
		}
		line := r.Out[i]
		var o struct {
			written
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
		add(agenttest.Move{Line: line})
	}
}

// written has the fields of a line for the program that the tests need.
type written struct {
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

// callOf is the call that writes a line of the recorded host; nil if there is none.
func callOf(w written, rest [][]byte, n int, asked map[string]json.RawMessage) *agent.Call {
	c := &agent.Call{ID: fmt.Sprintf("call-%d", n)}
	switch {
	case w.Type == "user":
		id := w.UUID
		for _, line := range rest {
			// Without an id from the host, the program makes one, which its echo has.
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

func optionsOf(r agenttest.Recording) agent.Options {
	switch path.Base(r.Name) {
	case "i_resume":
		return agent.Options{Resume: "00000000-0000-4000-8000-000000000008"}
	case "k_resumed":
		return agent.Options{Resume: "b9e21fa3-ca77-40a0-b8a6-e5596d06afbf"}
	}
	return agent.Options{}
}

func TestRecordings(t *testing.T) {
	for _, r := range agenttest.Recordings(t, ".") {
		t.Run(r.Name, func(t *testing.T) {
			moves := movesOf(t, r)
			k := agenttest.NewTalk(t, claude.Agent{}, optionsOf(r))
			k.Play(moves)
			for _, m := range moves {
				if m.Call == nil {
					continue
				}
				if err, ok := k.Answers[m.Call.ID]; !ok && !strings.Contains(r.Name, "kill9") {
					t.Errorf("call %s was never answered: %s", m.Call.ID, agenttest.Show(m.Call))
				} else if err != nil && err.Code != api.CodeConflict && err.Code != api.CodeInvalidParams {
					t.Errorf("call %s: %v", m.Call.ID, err)
				}
			}
			for i, ev := range k.Events {
				if ev.Type == api.DialogueEventState && i > 0 && k.Events[i-1].Type == api.DialogueEventState && k.Events[i-1].State == ev.State {
					t.Errorf("one state twice in a row: events %d and %d", i, i+1)
				}
			}
			k.End()
			k.Check()
			agenttest.Golden(t, r.Name, k.Outcome())

			again := agenttest.NewTalk(t, claude.Agent{}, optionsOf(r))
			again.Play(moves)
			again.End()
			if a, b := agenttest.Show(k.Events), agenttest.Show(again.Events); a != b {
				t.Errorf("the same again makes other events:\n%s", agenttest.Difference(a, b))
			}
		})
	}
}

// The lines of the program alone, without the calls of the host, are understood too.
func TestLinesAlone(t *testing.T) {
	for _, r := range agenttest.Recordings(t, ".") {
		k := agenttest.NewTalk(t, claude.Agent{}, optionsOf(r))
		for _, line := range r.Out {
			k.Hear(line)
		}
		k.End()
		k.Check()
	}
}

// Streamed pieces do not change the transcript of the finished items.
func TestWithoutPartials(t *testing.T) {
	for _, r := range agenttest.Recordings(t, ".") {
		if strings.Contains(r.Name, "kill9_stream") {
			continue // it ends in the middle of a message, which only the pieces tell
		}
		if r.Name == "claude-2.1.197/k_interrupt_text" {
			continue // only the pieces tell that a text was cut off
		}
		moves := movesOf(t, r)
		whole, bare := agenttest.NewTalk(t, claude.Agent{}, optionsOf(r)), agenttest.NewTalk(t, claude.Agent{}, optionsOf(r))
		whole.Play(moves)
		bare.Play(slices.DeleteFunc(slices.Clone(moves), func(m agenttest.Move) bool { return bytes.Contains(m.Line, []byte(`"type":"stream_event"`)) }))
		whole.End()
		bare.End()
		if a, b := agenttest.Renumbered(whole.Outcome()), agenttest.Renumbered(bare.Outcome()); a != b {
			t.Errorf("%s: with and without pieces:\n%s", r.Name, agenttest.Difference(a, b))
		}
	}
}

// A repeated line changes nothing.
func TestRepeatedLines(t *testing.T) {
	for _, r := range agenttest.Recordings(t, ".") {
		if strings.Contains(r.Name, "pty") {
			continue // its only line has no id
		}
		moves := movesOf(t, r)
		once, twice, stutter := agenttest.NewTalk(t, claude.Agent{}, optionsOf(r)), agenttest.NewTalk(t, claude.Agent{}, optionsOf(r)), agenttest.NewTalk(t, claude.Agent{}, optionsOf(r))
		once.Play(moves)
		twice.Play(moves)
		for _, m := range moves {
			stutter.Play([]agenttest.Move{m})
			if m.Line != nil {
				twice.Hear(m.Line)
				stutter.Hear(m.Line)
			}
		}
		if a, b := once.Outcome(), twice.Outcome(); a != b {
			t.Errorf("%s: all lines again:\n%s", r.Name, agenttest.Difference(a, b))
		}
		if a, b := once.Outcome(), stutter.Outcome(); a != b {
			t.Errorf("%s: each line twice:\n%s", r.Name, agenttest.Difference(a, b))
		}
	}
}

// Wherever a recording is cut off, everything in it can be closed.
func TestCutOff(t *testing.T) {
	for _, r := range agenttest.Recordings(t, ".") {
		moves := movesOf(t, r)
		for n := range moves {
			k := agenttest.NewTalk(t, claude.Agent{}, optionsOf(r))
			k.Play(moves[:n])
			k.End()
			k.Check()
			if t.Failed() {
				t.Fatalf("%s: after %d of %d", r.Name, n, len(moves))
			}
		}
	}
}

func FuzzLines(f *testing.F) { agenttest.Fuzz(f, claude.Agent{}, movesOf) }

func TestUniqueIDs(t *testing.T) {
	agenttest.UniqueIDs(t, claude.Agent{}, agenttest.Replay{Moves: movesOf, Options: func(_ testing.TB, r agenttest.Recording) agent.Options { return optionsOf(r) }})
}

func TestLinesOfOthers(t *testing.T) { agenttest.LinesOfOthers(t, claude.Agent{}) }
