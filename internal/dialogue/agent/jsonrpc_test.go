package agent_test

import (
	"encoding/json"
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
// at the same place.
func replay(t *testing.T, name string, r recording) *talk {
	k := newTalk(t, name, rpcOptions(t, r))
	heard, checked := 0, 0
	check := func() {
		for ; checked < len(k.wrote); checked++ {
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
				if ev.Type == api.ToldUnparsed {
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
