package agent_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// rpcWritten is a message to a program that speaks JSON-RPC.
type rpcWritten struct {
	ID     json.RawMessage
	Method string
	Params map[string]any
	Result map[string]any
	Error  *struct{ Code int }
}

// rpcOptions are those that a recording was made with, as its first messages tell.
func rpcOptions(t testing.TB, r recording) (o agent.Options) {
	t.Helper()
	text := func(p map[string]any, name string) string { s, _ := p[name].(string); return s }
	for _, in := range r.in {
		var w rpcWritten
		if err := json.Unmarshal(in.Line, &w); err != nil {
			t.Fatal(err)
		}
		switch w.Method {
		case "thread/start", "thread/resume":
			mode := strings.Trim(text(w.Params, "approvalPolicy")+"/"+text(w.Params, "sandbox"), "/")
			return agent.Options{WorkingDir: text(w.Params, "cwd"), Model: text(w.Params, "model"), PermissionMode: mode, Resume: text(w.Params, "threadId"), Epoch: 1}
		case "session/new", "session/load", "session/resume":
			return agent.Options{WorkingDir: text(w.Params, "cwd"), Resume: text(w.Params, "sessionId"), Epoch: 1}
		}
	}
	return agent.Options{Epoch: 1}
}

// rpcMoves are the lines of a recording with the calls that were made in between, which
// are beside it.
func rpcMoves(t testing.TB, r recording) (moves []move) {
	t.Helper()
	var calls []recordedCall
	for _, line := range lines(t, "testdata/"+r.name+".calls") {
		var c recordedCall
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, c)
	}
	for i := 0; ; i++ {
		for ; len(calls) > 0 && calls[0].After == i; calls = calls[1:] {
			moves = append(moves, move{call: &calls[0].Call})
		}
		if i == len(r.out) {
			return moves
		}
		moves = append(moves, move{line: r.out[i]})
	}
}

type recordedCall struct {
	After int        `json:"after_stdout_lines"`
	Call  agent.Call `json:"call"`
}

// replay plays a recording; what is written must be what was written to the real program,
// at the same place. One that was made with another host has not what that wrote.
func replay(t *testing.T, name string, r recording) *talk {
	k := newTalk(t, name, rpcOptions(t, r))
	heard, checked := 0, 0
	check := func() {
		for ; r.in != nil && checked < len(k.wrote); checked++ {
			if checked >= len(r.in) {
				t.Fatalf("it wrote more than was written to the real program: %s", k.wrote[checked])
			}
			if in := r.in[checked]; in.After != heard || !sameJSON(t, in.Line, k.wrote[checked]) {
				t.Fatalf("message %d, behind line %d:\n%s\nwas, behind line %d:\n%s", checked, heard, k.wrote[checked], in.After, in.Line)
			}
		}
	}
	check()
	for _, m := range rpcMoves(t, r) {
		k.play([]move{m})
		if m.call == nil {
			heard++
		}
		check()
	}
	if checked != len(r.in) {
		t.Errorf("it wrote %d messages; to the real program %d were written", checked, len(r.in))
	}
	return k
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		t.Fatalf("not JSON: %s %s", a, b)
	}
	return reflect.DeepEqual(x, y)
}

// replays plays all recordings of an agent, and compares with the transcripts expected.
func replays(t *testing.T, name string) {
	for _, r := range recordings(t, name) {
		t.Run(r.name, func(t *testing.T) {
			k := replay(t, name, r)
			for _, ev := range k.events {
				if ev.Type == api.DialogueEventUnparsed {
					t.Errorf("a line of the real program is not understood: %s", show(ev))
				}
			}
			if !k.ready && k.failed == "" {
				t.Error("it is neither ready nor failed")
			}
			before := show(k.events)
			if again := replay(t, name, r); show(again.events) != before {
				t.Error("played again, it tells something else")
			}
			open := len(k.events)
			k.end()
			if lost := k.events[open:]; len(lost) > 0 {
				t.Errorf("at the end of a recording that was left at rest, this is open: %s", show(lost))
			}
			k.check()
			golden(t, r.name, k.outcome())
		})
	}
}

func cutAnywhere(t *testing.T, name string) {
	for _, r := range recordings(t, name) {
		moves := rpcMoves(t, r)
		for cut := range moves {
			k := newTalk(t, name, rpcOptions(t, r))
			k.play(moves[:cut])
			k.end()
			k.check()
			if k.tracker.Busy() {
				t.Fatalf("%s, cut behind %d: something is open", r.name, cut)
			}
		}
	}
}

func (k *talk) hears(lines ...string) {
	k.t.Helper()
	for _, line := range lines {
		k.hear([]byte(line))
	}
}

// written is the newest message to the program.
func (k *talk) written() (w rpcWritten) {
	k.t.Helper()
	if len(k.wrote) == 0 || json.Unmarshal(k.wrote[len(k.wrote)-1], &w) != nil {
		k.t.Fatal("nothing was written")
	}
	return w
}

// TestMangledLines takes every field of every kind of line that was recorded, leaves it out
// or gives it another shape, and goes on with the recording. Programs change: nothing may
// panic, every line leaves a trace, every event is whole, and everything can be closed.
func TestMangledLines(t *testing.T) {
	for _, name := range []string{"codex", "acp"} {
		tried := map[string]bool{}
		for _, r := range recordings(t, name) {
			moves := rpcMoves(t, r)
			for i, m := range moves {
				for what, line := range mangled(t, m.line) {
					if what = kindOf(m.line) + what; tried[what] {
						continue
					}
					tried[what] = true
					k := newTalk(t, name, rpcOptions(t, r))
					k.play(moves[:i])
					k.hear(line)
					k.play(moves[i+1:])
					k.end()
					k.check()
					if t.Failed() {
						t.Fatalf("%s: %s: %s", r.name, what, line)
					}
				}
			}
		}
		if len(tried) < 300 {
			t.Errorf("%s: only %d lines were mangled", name, len(tried))
		}
	}
}

// kindOf names the kind of a line: its method, and the type of what it is about.
func kindOf(line []byte) string {
	var l struct {
		Method string
		Params struct {
			Item   struct{ Type string }
			Update struct{ SessionUpdate string }
		}
	}
	json.Unmarshal(line, &l)
	return l.Method + " " + l.Params.Item.Type + l.Params.Update.SessionUpdate + " "
}

// mangled makes, of a line, one for each field and each way to spoil it.
func mangled(t *testing.T, line []byte) map[string][]byte {
	all := map[string][]byte{}
	if line == nil {
		return all
	}
	var whole any
	if err := json.Unmarshal(line, &whole); err != nil {
		t.Fatal(err)
	}
	var walk func(at string, v any)
	spoil := func(at string, object map[string]any, key string) {
		was := object[key]
		object[key] = any(map[string]any{"a": 1.0})
		switch was.(type) {
		case map[string]any, []any:
			object[key] = "x"
		}
		all[at+"other"], _ = json.Marshal(whole)
		delete(object, key)
		all[at+"gone"], _ = json.Marshal(whole)
		object[key] = was
	}
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				spoil(at+"."+key+" ", v, key)
				walk(at+"."+key, value)
			}
		case []any:
			for _, value := range v {
				walk(at+"[]", value)
			}
		}
	}
	walk("", whole)
	return all
}

// rpcAgents are the agents that speak JSON-RPC: how to talk with one that works, a request
// for permission that is about the tool call i, and what it is told when that is allowed.
var rpcAgents = map[string]struct {
	talk  func(testing.TB) *talk
	asks  func(id, command string) string
	allow string
}{
	"codex": {
		func(t testing.TB) *talk { k := codexTalk(t); k.hears(codexTurn); return k },
		func(id, command string) string {
			return `{"method":"item/commandExecution/requestApproval","id":` + id + `,"params":{"threadId":"T","turnId":"turn1","itemId":"i","command":"` + command + `"}}`
		},
		`{"decision":"accept"}`,
	},
	"acp": {
		func(t testing.TB) *talk { k := acpTalk(t); k.send("m1", "go"); return k },
		func(id, command string) string {
			return `{"jsonrpc":"2.0","method":"session/request_permission","id":` + id + `,"params":{"sessionId":"S","toolCall":{"toolCallId":"i","kind":"execute","rawInput":{"command":"` + command + `"}},"options":[{"optionId":"1","name":"Yes","kind":"allow_once"}]}}`
		},
		`{"outcome":{"outcome":"selected","optionId":"1"}}`,
	},
}

// told counts the events of a type.
func (k *talk) told(what api.DialogueEventType) (n int) {
	for _, ev := range k.events {
		if ev.Type == what {
			n++
		}
	}
	return n
}

// A request that comes again while it waits is shown once. A program that uses an id again
// when it has its answer asks something new, and waits for it.
func TestRequestsRepeated(t *testing.T) {
	for name, a := range rpcAgents {
		k := a.talk(t)
		k.hears(a.asks("7", "ls"), a.asks("7", "ls"))
		if k.told(api.DialogueEventRequestOpened) != 1 {
			t.Errorf("%s: while it waits, it is asked again", name)
		}
		answer := api.DialogueRespondParams{RequestID: k.last(api.DialogueEventRequestOpened).Request.RequestID, Decision: "allow"}
		if err := k.respond(answer); err != nil {
			t.Fatal(err)
		}
		wrote := len(k.wrote)
		if name == "codex" {
			continue // which never does so
		}
		k.hears(a.asks("7", "ls"))
		if k.told(api.DialogueEventRequestOpened) != 2 || len(k.wrote) != wrote {
			t.Errorf("%s: the id is used again, and it is not asked", name)
		}
		if err := k.respond(answer); err == nil || err.Code != api.CodeConflict {
			t.Errorf("%s: a second answer: %v", name, err)
		}
		answer.RequestID = k.last(api.DialogueEventRequestOpened).Request.RequestID
		if err := k.respond(answer); err != nil || string(k.written().ID) != "7" {
			t.Errorf("%s: the answer to the second: %v", name, err)
		}
	}
}

// 7 and "7" are two ids: both requests are asked, and each gets its own answer.
func TestRequestIDs(t *testing.T) {
	for name, a := range rpcAgents {
		k := a.talk(t)
		ids := map[string]string{} // the program's by ours
		for _, id := range []string{`7`, `"7"`, `"q"`, `""`, `-1`, `1.5`, `"\"7\""`, `"a b"`} {
			k.hears(a.asks(id, "ls"))
			ours := k.last(api.DialogueEventRequestOpened).Request.RequestID
			if ids[ours] != "" {
				t.Fatalf("%s: %s and %s are both %s", name, id, ids[ours], ours)
			}
			ids[ours] = id
		}
		for ours, id := range ids {
			if err := k.respond(api.DialogueRespondParams{RequestID: ours, Decision: "allow"}); err != nil {
				t.Fatalf("%s: %s: %v", name, ours, err)
			}
			if w := k.written(); string(w.ID) != id {
				t.Errorf("%s: %s was answered as %s", name, id, w.ID)
			}
		}
	}
}

// Whatever its id is, a request that nobody can answer is refused; and so is one whose id
// cannot be.
func TestRequestsRefused(t *testing.T) {
	for name, a := range rpcAgents {
		for _, id := range []string{`5`, `"5"`, `""`, `null`, `{"a":[1]}`, `[1]`, `true`, `1e400`, `-0.5`, `"` + strings.Repeat("x", 1000) + `"`} {
			for _, method := range []string{"hologram/show", "_x/y", "session/hologram", "item/hologram"} {
				k := a.talk(t)
				k.hears(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{}}`, id, method))
				if w := k.written(); w.Error == nil || string(w.ID) != id {
					t.Errorf("%s: %s with the id %.20s: wrote %s", name, method, id, k.wrote[len(k.wrote)-1])
				}
				if n := k.last(api.DialogueEventNotice).Notice; n.Code != "unknown_request" {
					t.Errorf("%s: %s", name, show(n))
				}
			}
		}
		for _, id := range []string{`null`, `{"a":1}`, `[1]`, `false`, `"` + strings.Repeat("x", 1000) + `"`} {
			k := a.talk(t)
			k.hears(a.asks(id, "ls"))
			if w := k.written(); w.Error == nil || string(w.ID) != id || k.told(api.DialogueEventRequestOpened) != 0 {
				t.Errorf("%s: a permission with the id %.20s: wrote %s", name, id, k.wrote[len(k.wrote)-1])
			}
		}
	}
	// An id that is null does not make a request of a notification.
	k := acpTalk(t)
	wrote := len(k.wrote)
	k.hears(strings.Replace(acpChunk("agent_message", "hi"), `"method"`, `"id":null,"method"`, 1))
	if len(k.wrote) != wrote || k.last(api.DialogueEventDelta).Delta.Text != "hi" {
		t.Errorf("told %s", show(k.events))
	}
}

// An answer that is not of the shape that JSON-RPC demands is one all the same: who waits
// for it must not wait for ever.
func TestOddAnswers(t *testing.T) {
	for answer, want := range map[string]string{
		`{"jsonrpc":"2.0","id":3,"error":"boom"}`:                            "boom",
		`{"jsonrpc":"2.0","id":3,"error":{"code":"E1","message":"no luck"}}`: "no luck",
		`{"jsonrpc":"2.0","id":3,"error":{"code":7}}`:                        `{"code":7}`,
		`{"jsonrpc":2.0,"id":3,"error":{"code":7,"message":"x"}}`:            "x",
		`{"jsonrpc":"2.0","id":"3","error":[1]}`:                             "[1]",
	} {
		k := acpTalk(t)
		k.send("m1", "go")
		k.hears(answer)
		if k.told(api.DialogueEventTurnEnded) != 1 || k.last(api.DialogueEventTurnEnded).Turn.Outcome != "failed" || !strings.Contains(k.last(api.DialogueEventTurnEnded).Turn.Text, want) {
			t.Errorf("%s: %s", answer, show(k.events))
		}
		k.hears(answer)
		if ev := k.events[len(k.events)-1]; ev.Unparsed == nil || k.told(api.DialogueEventTurnEnded) != 1 {
			t.Errorf("%s, again: %s", answer, show(ev))
		}
	}
	k := acpTalk(t)
	k.do(agent.Call{ID: "s", Set: &agent.Setting{PermissionMode: "plan"}})
	k.hears(`{"jsonrpc":"2.0","id":3}`)
	if err, done := k.answers["s"]; !done || err != nil {
		t.Errorf("an answer without a result: %v, %v", done, err)
	}
}

// Answers to questions are no permission: "no, do not" must not allow anything.
func TestAnswersAreNoPermission(t *testing.T) {
	for name, a := range rpcAgents {
		k := a.talk(t)
		k.hears(a.asks("7", "rm -rf /"))
		id := k.last(api.DialogueEventRequestOpened).Request.RequestID
		wrote := len(k.wrote)
		for _, decision := range []string{"", "allow"} {
			err := k.respond(api.DialogueRespondParams{RequestID: id, Decision: decision, Answers: map[string]string{"Run it?": "no, do not"}})
			if err == nil || err.Code != api.CodeInvalidParams || len(k.wrote) != wrote {
				t.Errorf("%s, decision %q: %v", name, decision, err)
			}
		}
		if err := k.respond(api.DialogueRespondParams{RequestID: id, Decision: "allow"}); err != nil {
			t.Errorf("%s: then allowed: %v", name, err)
		}
		if result, _ := json.Marshal(k.written().Result); !sameJSON(t, result, []byte(a.allow)) {
			t.Errorf("%s: it is told %s", name, result)
		}
	}
}

// What one agent says makes no sense to another: every line leaves a trace, and everything
// that was opened can be closed.
func TestLinesOfEachOther(t *testing.T) {
	for name, other := range map[string]string{"codex": "acp", "acp": "codex"} {
		for _, r := range recordings(t, other) {
			k := rpcAgents[name].talk(t)
			for _, line := range r.out {
				k.hear(line)
			}
			k.end()
			k.check()
		}
	}
}

// Lines that come again change nothing in the transcript: at once, and for Codex, which has
// ids for what it tells, also when the turn has ended and when the next one runs. Pieces of
// text and errors have no ids, so they alone are not known again.
func TestLinesRepeated(t *testing.T) {
	for _, name := range []string{"codex", "acp"} {
		for _, r := range recordings(t, name) {
			want, stutter, later := newTalk(t, name, rpcOptions(t, r)), newTalk(t, name, rpcOptions(t, r)), newTalk(t, name, rpcOptions(t, r))
			var ended, runs []move // the lines of the last turn that has ended, and of the one that runs
			for _, m := range rpcMoves(t, r) {
				for _, k := range []*talk{want, stutter, later} {
					k.play([]move{m})
				}
				kind := strings.ToLower(kindOf(m.line))
				if m.line == nil || strings.Contains(kind, "delta") || strings.Contains(kind, "_chunk") || strings.HasPrefix(kind, "error") {
					continue
				}
				stutter.play([]move{m})
				runs = append(runs, m)
				if strings.HasPrefix(kind, "turn/completed") {
					ended, runs = runs, nil
				}
				if strings.HasPrefix(kind, "turn/") {
					later.play(ended)
				}
			}
			for what, k := range map[string]*talk{"at once": stutter, "later": later} {
				if k.outcome() != want.outcome() {
					t.Errorf("%s, lines %s again: %s", r.name, what, difference(want.outcome(), k.outcome()))
				}
			}
		}
	}
}
