package jsonrpc_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/acp"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
	"github.com/trl-dev/trl/internal/dialogue/agent/codex"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestMangledLines takes every field of every kind of recorded line, removes it or changes its
// shape, and continues the recording, because programs change. Nothing panics, every step is well
// formed, and everything can be closed.
func TestMangledLines(t *testing.T) {
	testkit.Long(t)
	for name, a := range rpcAgents {
		tried := map[string]bool{}
		for _, r := range agenttest.Recordings(t, "../"+name) {
			moves := agenttest.RPCMoves(t, r)
			for i, m := range moves {
				for what, line := range mangled(t, m.Line) {
					if what = kindOf(m.Line) + what; tried[what] {
						continue
					}
					tried[what] = true
					k := agenttest.NewTalk(t, a.agent, agenttest.RPCOptions(t, r))
					k.Play(moves[:i])
					k.Hear(line)
					k.Play(moves[i+1:])
					k.End()
					k.Check()
					if t.Failed() {
						t.Fatalf("%s: %s: %s", r.Name, what, line)
					}
				}
			}
		}
		if len(tried) < 300 {
			t.Errorf("%s: only %d lines were mangled", name, len(tried))
		}
	}
}

// kindOf is the kind of a line: its method, and the type of its item or update.
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

// mangled are copies of a line, one for each field and each way to spoil it.
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

// rpcAgents are the agents that speak JSON-RPC, by their packages: a talk in the middle of a
// turn, a request for permission for the tool call i, and the answer that allows it.
var rpcAgents = map[string]struct {
	agent agent.Agent
	talk  func(testing.TB) *agenttest.Talk
	asks  func(id, command string) string
	allow string
}{
	"codex": {
		codex.Agent{},
		func(t testing.TB) *agenttest.Talk {
			k := agenttest.CodexReady(t)
			k.Hears(agenttest.CodexTurn)
			return k
		},
		func(id, command string) string {
			return `{"method":"item/commandExecution/requestApproval","id":` + id + `,"params":{"threadId":"T","turnId":"turn1","itemId":"i","command":"` + command + `"}}`
		},
		`{"decision":"accept"}`,
	},
	"acp": {
		acp.Agent{},
		func(t testing.TB) *agenttest.Talk { k := agenttest.ACPReady(t); k.Send("m1", "go"); return k },
		func(id, command string) string {
			return `{"jsonrpc":"2.0","method":"session/request_permission","id":` + id + `,"params":{"sessionId":"S","toolCall":{"toolCallId":"i","kind":"execute","rawInput":{"command":"` + command + `"}},"options":[{"optionId":"1","name":"Yes","kind":"allow_once"}]}}`
		},
		`{"outcome":{"outcome":"selected","optionId":"1"}}`,
	},
}

// A request that is repeated while it is open is published once. A program that uses its id again
// after the answer makes another request.
func TestRequestsRepeated(t *testing.T) {
	for name, a := range rpcAgents {
		k := a.talk(t)
		k.Hears(a.asks("7", "ls"), a.asks("7", "ls"))
		if k.Count(api.DialogueEventRequestOpened) != 1 {
			t.Errorf("%s: while it waits, it is asked again", name)
		}
		answer := api.DialogueRespondParams{RequestID: k.Last(api.DialogueEventRequestOpened).Request.RequestID, Decision: "allow"}
		if err := k.Respond(answer); err != nil {
			t.Fatal(err)
		}
		wrote := len(k.Wrote)
		if name == "codex" {
			continue // which never does so
		}
		k.Hears(a.asks("7", "ls"))
		if k.Count(api.DialogueEventRequestOpened) != 2 || len(k.Wrote) != wrote {
			t.Errorf("%s: the id is used again, and it is not asked", name)
		}
		if err := k.Respond(answer); err == nil || err.Code != api.CodeConflict {
			t.Errorf("%s: a second answer: %v", name, err)
		}
		answer.RequestID = k.Last(api.DialogueEventRequestOpened).Request.RequestID
		if err := k.Respond(answer); err != nil || string(k.LastWritten().ID) != "7" {
			t.Errorf("%s: the answer to the second: %v", name, err)
		}
	}
}

// 7 and "7" are two ids: both requests are open, and each gets its own answer.
func TestRequestIDs(t *testing.T) {
	for name, a := range rpcAgents {
		k := a.talk(t)
		ids := map[string]string{} // the program's by ours
		for _, id := range []string{`7`, `"7"`, `"q"`, `""`, `-1`, `1.5`, `"\"7\""`, `"a b"`} {
			k.Hears(a.asks(id, "ls"))
			ours := k.Last(api.DialogueEventRequestOpened).Request.RequestID
			if ids[ours] != "" {
				t.Fatalf("%s: %s and %s are both %s", name, id, ids[ours], ours)
			}
			ids[ours] = id
		}
		for ours, id := range ids {
			if err := k.Respond(api.DialogueRespondParams{RequestID: ours, Decision: "allow"}); err != nil {
				t.Fatalf("%s: %s: %v", name, ours, err)
			}
			if w := k.LastWritten(); string(w.ID) != id {
				t.Errorf("%s: %s was answered as %s", name, id, w.ID)
			}
		}
	}
}

// A request with an unknown method is rejected, with any id, and so is one with an invalid id.
func TestRequestsRefused(t *testing.T) {
	for name, a := range rpcAgents {
		for _, id := range []string{`5`, `"5"`, `""`, `null`, `{"a":[1]}`, `[1]`, `true`, `1e400`, `-0.5`, `"` + strings.Repeat("x", 1000) + `"`} {
			for _, method := range []string{"hologram/show", "_x/y", "session/hologram", "item/hologram"} {
				k := a.talk(t)
				k.Hears(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{}}`, id, method))
				if w := k.LastWritten(); w.Error == nil || string(w.ID) != id {
					t.Errorf("%s: %s with the id %.20s: wrote %s", name, method, id, k.Wrote[len(k.Wrote)-1])
				}
				if n := k.Last(api.DialogueEventNotice).Notice; n.Code != "unknown_request" {
					t.Errorf("%s: %s", name, agenttest.Show(n))
				}
			}
		}
		for _, id := range []string{`null`, `{"a":1}`, `[1]`, `false`, `"` + strings.Repeat("x", 1000) + `"`} {
			k := a.talk(t)
			k.Hears(a.asks(id, "ls"))
			if w := k.LastWritten(); w.Error == nil || string(w.ID) != id || k.Count(api.DialogueEventRequestOpened) != 0 {
				t.Errorf("%s: a permission with the id %.20s: wrote %s", name, id, k.Wrote[len(k.Wrote)-1])
			}
		}
	}
	// A notification with the id null is still a notification.
	k := agenttest.ACPReady(t)
	wrote := len(k.Wrote)
	k.Hears(strings.Replace(agenttest.ACPChunk("agent_message", "hi"), `"method"`, `"id":null,"method"`, 1))
	if len(k.Wrote) != wrote || k.Last(api.DialogueEventDelta).Delta.Text != "hi" {
		t.Errorf("told %s", agenttest.Show(k.Events))
	}
}

// An answer of an invalid shape is still an answer, so that its request does not stay open.
func TestOddAnswers(t *testing.T) {
	for answer, want := range map[string]string{
		`{"jsonrpc":"2.0","id":3,"error":"boom"}`:                            "boom",
		`{"jsonrpc":"2.0","id":3,"error":{"code":"E1","message":"no luck"}}`: "no luck",
		`{"jsonrpc":"2.0","id":3,"error":{"code":7}}`:                        `{"code":7}`,
		`{"jsonrpc":2.0,"id":3,"error":{"code":7,"message":"x"}}`:            "x",
		`{"jsonrpc":"2.0","id":"3","error":[1]}`:                             "[1]",
	} {
		k := agenttest.ACPReady(t)
		k.Send("m1", "go")
		k.Hears(answer)
		if k.Count(api.DialogueEventTurnEnded) != 1 || k.Last(api.DialogueEventTurnEnded).Turn.Outcome != "failed" || !strings.Contains(k.Last(api.DialogueEventTurnEnded).Turn.Text, want) {
			t.Errorf("%s: %s", answer, agenttest.Show(k.Events))
		}
		k.Hears(answer)
		if ev := k.Events[len(k.Events)-1]; ev.Unparsed == nil || k.Count(api.DialogueEventTurnEnded) != 1 {
			t.Errorf("%s, again: %s", answer, agenttest.Show(ev))
		}
	}
	k := agenttest.ACPReady(t)
	k.Do(agent.Call{ID: "s", Set: &agent.Setting{PermissionMode: "plan"}})
	k.Hears(`{"jsonrpc":"2.0","id":3}`)
	if err, done := k.Answers["s"]; !done || err != nil {
		t.Errorf("an answer without a result: %v, %v", done, err)
	}
}

// Answers to questions do not allow a request for permission: "no, do not" allows nothing.
func TestAnswersAreNoPermission(t *testing.T) {
	for name, a := range rpcAgents {
		k := a.talk(t)
		k.Hears(a.asks("7", "rm -rf /"))
		id := k.Last(api.DialogueEventRequestOpened).Request.RequestID
		wrote := len(k.Wrote)
		for _, decision := range []string{"", "allow"} {
			err := k.Respond(api.DialogueRespondParams{RequestID: id, Decision: decision, Answers: map[string]string{"Run it?": "no, do not"}})
			if err == nil || err.Code != api.CodeInvalidParams || len(k.Wrote) != wrote {
				t.Errorf("%s, decision %q: %v", name, decision, err)
			}
		}
		if err := k.Respond(api.DialogueRespondParams{RequestID: id, Decision: "allow"}); err != nil {
			t.Errorf("%s: then allowed: %v", name, err)
		}
		if result, _ := json.Marshal(k.LastWritten().Result); !agenttest.SameJSON(t, result, []byte(a.allow)) {
			t.Errorf("%s: it is told %s", name, result)
		}
	}
}

// Lines of another agent do not confuse a protocol: every step is well formed, and everything
// that they open can be closed.
func TestLinesOfEachOther(t *testing.T) {
	for name, other := range map[string]string{"codex": "acp", "acp": "codex"} {
		for _, r := range agenttest.Recordings(t, "../"+other) {
			k := rpcAgents[name].talk(t)
			for _, line := range r.Out {
				k.Hear(line)
			}
			k.End()
			k.Check()
		}
	}
}

// Lines that are repeated at once change nothing in the transcript. Lines of Codex, which have
// ids, may also repeat after their turn and during the next one. Pieces of text and errors have no
// ids, so their repetition is not recognised.
func TestLinesRepeated(t *testing.T) {
	for name, a := range rpcAgents {
		for _, r := range agenttest.Recordings(t, "../"+name) {
			want, stutter, later := agenttest.NewTalk(t, a.agent, agenttest.RPCOptions(t, r)), agenttest.NewTalk(t, a.agent, agenttest.RPCOptions(t, r)), agenttest.NewTalk(t, a.agent, agenttest.RPCOptions(t, r))
			var ended, runs []agenttest.Move // the lines of the last turn that has ended, and of the one that runs
			for _, m := range agenttest.RPCMoves(t, r) {
				for _, k := range []*agenttest.Talk{want, stutter, later} {
					k.Play([]agenttest.Move{m})
				}
				kind := strings.ToLower(kindOf(m.Line))
				if m.Line == nil || strings.Contains(kind, "delta") || strings.Contains(kind, "_chunk") || strings.HasPrefix(kind, "error") {
					continue
				}
				stutter.Play([]agenttest.Move{m})
				runs = append(runs, m)
				if strings.HasPrefix(kind, "turn/completed") {
					ended, runs = runs, nil
				}
				if strings.HasPrefix(kind, "turn/") {
					later.Play(ended)
				}
			}
			for what, k := range map[string]*agenttest.Talk{"at once": stutter, "later": later} {
				if k.Outcome() != want.Outcome() {
					t.Errorf("%s, lines %s again: %s", r.Name, what, agenttest.Difference(want.Outcome(), k.Outcome()))
				}
			}
		}
	}
}
