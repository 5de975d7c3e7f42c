package agenttest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// Written is a message to a program that speaks JSON-RPC.
type Written struct {
	ID     json.RawMessage
	Method string
	Params map[string]any
	Result map[string]any
	Error  *struct{ Code int }
}

// RPCOptions are the options of a recording, which its first messages contain.
func RPCOptions(t testing.TB, r Recording) (o agent.Options) {
	t.Helper()
	text := func(p map[string]any, name string) string { s, _ := p[name].(string); return s }
	for _, in := range r.In {
		var w Written
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

// RPCMoves are the lines of a recording, with the calls between them, which are in a file of
// their own.
func RPCMoves(t testing.TB, r Recording) (moves []Move) {
	t.Helper()
	var calls []recordedCall
	for _, line := range Lines(t, r.base+".calls") {
		var c recordedCall
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, c)
	}
	for i := 0; ; i++ {
		for ; len(calls) > 0 && calls[0].After == i; calls = calls[1:] {
			moves = append(moves, Move{Call: &calls[0].Call})
		}
		if i == len(r.Out) {
			return moves
		}
		moves = append(moves, Move{Line: r.Out[i]})
	}
}

type recordedCall struct {
	After int        `json:"after_stdout_lines"`
	Call  agent.Call `json:"call"`
}

// replay plays a recording. The protocol must write the same lines at the same places as were
// written to the real program. A recording that was made with another host has no such lines.
func replay(t *testing.T, a agent.Agent, r Recording) *Talk {
	k := NewTalk(t, a, RPCOptions(t, r))
	heard, checked := 0, 0
	check := func() {
		for ; r.In != nil && checked < len(k.Wrote); checked++ {
			if checked >= len(r.In) {
				t.Fatalf("it wrote more than was written to the real program: %s", k.Wrote[checked])
			}
			if in := r.In[checked]; in.After != heard || !SameJSON(t, in.Line, k.Wrote[checked]) {
				t.Fatalf("message %d, behind line %d:\n%s\nwas, behind line %d:\n%s", checked, heard, k.Wrote[checked], in.After, in.Line)
			}
		}
	}
	check()
	for _, m := range RPCMoves(t, r) {
		k.Play([]Move{m})
		if m.Call == nil {
			heard++
		}
		check()
	}
	if checked != len(r.In) {
		t.Errorf("it wrote %d messages; to the real program %d were written", checked, len(r.In))
	}
	return k
}

// SameJSON reports whether two texts are the same JSON.
func SameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		t.Fatalf("not JSON: %s %s", a, b)
	}
	return reflect.DeepEqual(x, y)
}

// Replays plays the recordings of the package, and compares the transcripts with the golden
// files.
func Replays(t *testing.T, a agent.Agent) {
	for _, r := range Recordings(t, ".") {
		t.Run(r.Name, func(t *testing.T) {
			k := replay(t, a, r)
			for _, ev := range k.Events {
				if ev.Type == api.DialogueEventUnparsed {
					t.Errorf("a line of the real program is not understood: %s", Show(ev))
				}
			}
			if !k.Ready && k.Failed == "" {
				t.Error("it is neither ready nor failed")
			}
			before := Show(k.Events)
			if again := replay(t, a, r); Show(again.Events) != before {
				t.Error("played again, it publishes other events")
			}
			open := len(k.Events)
			k.End()
			if lost := k.Events[open:]; len(lost) > 0 {
				t.Errorf("at the end of a recording that was left at rest, this is open: %s", Show(lost))
			}
			k.Check()
			Golden(t, r.Name, k.Outcome())
		})
	}
}

// CutAnywhere ends every recording of the package after every line: everything that is open
// can be closed.
func CutAnywhere(t *testing.T, a agent.Agent) {
	for _, r := range Recordings(t, ".") {
		moves := RPCMoves(t, r)
		for cut := range moves {
			k := NewTalk(t, a, RPCOptions(t, r))
			k.Play(moves[:cut])
			k.End()
			k.Check()
			if k.Tracker.Busy() {
				t.Fatalf("%s, cut behind %d: something is open", r.Name, cut)
			}
		}
	}
}

// LastWritten is the last message to the program.
func (k *Talk) LastWritten() (w Written) {
	k.t.Helper()
	if len(k.Wrote) == 0 || json.Unmarshal(k.Wrote[len(k.Wrote)-1], &w) != nil {
		k.t.Fatal("nothing was written")
	}
	return w
}
