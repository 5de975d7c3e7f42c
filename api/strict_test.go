package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestExactNames: names are matched exactly, no name appears twice, and no string has half
// of a surrogate pair, at any depth; the error names the member.
func TestExactNames(t *testing.T) {
	for _, c := range []struct{ method, params, field, suggestion string }{
		{"exec.run", `{"session_id":"s","Command":"true"}`, "Command", "command"},
		{"exec.run", `{"session_id":"s","command":"true","COMMAND":"false"}`, "COMMAND", "command"},
		{"exec.run", `{"session_id":"s","command":"true","command":"false"}`, "command", ""},
		{"exec.run", `{"session_id":"s","command":"true","comm\u0061nd":"false"}`, "command", ""},
		{"exec.run", `{"session_id":"s","command":"true","timeout":5}`, "timeout", "timeout_s"},
		{"exec.run", `{"session_id":"s","command":"true","env":{"A":"1","B":"2","A":"3"}}`, "env.A", ""},
		{"exec.run", `{"session_id":"s","command":"true","cwd":"/"}`, "cwd", "working_dir"},
		{"exec.run", `{"session_id":"s","command":"true","input":"x"}`, "input", "stdin"},
		{"exec.wait", `{"cwd":"/"}`, "cwd", ""},
		{"exec.run", `{"a":1,"b":2,"c":3}`, "a", ""},
		{"exec.stream", `{"Exec_ID":"x"}`, "Exec_ID", "exec_id"},
		{"session.info", `{"Session_Id":"s"}`, "Session_Id", "session_id"},
		{"session.info", `{"session_id":"s","session_id":"t"}`, "session_id", ""},
		{"session.info", `{"session_id":"s","later":{"x":1,"x":2}}`, "later.x", ""},
		{"session.wait", `{"session_id":"s","cursor":{"X":1}}`, "cursor.X", "x"},
		{"session.wait", `{"session_id":"s","cursor":{"x":1,"x":1}}`, "cursor.x", ""},
		{"dialogue.create", `{"policy":{"rules":[{"Tool":"x"}]}}`, "policy.rules.0.Tool", "tool"},
		{"dialogue.respond", `{"dialogue_id":"d","request_id":"r","input":{"a":{"b":1,"b":2}}}`, "input.a.b", ""},
		{"exec.run", `{"session_id":"s","command":"echo \ud800"}`, "command", ""},
		{"exec.run", `{"session_id":"s","command":"echo \udc00x"}`, "command", ""},
		{"exec.run", `{"session_id":"s","command":"echo \ud83d\n"}`, "command", ""},
		{"exec.run", `{"session_id":"s","command":"x","env":{"A":"\udfff"}}`, "env.A", ""},
		{"exec.run", `{"session_id":"s","command":"x","env":{"\ud800":"a"}}`, "env", ""},
		{"exec.input", `{"exec_id":"x","data":"\ud83d\ud83d\ude00"}`, "data", ""},
		{"session.create", `{"working_dir":"/\udcff"}`, "working_dir", ""},
	} {
		m, _ := api.FindMethod(c.method)
		err := m.Check(json.RawMessage(c.params))
		var e *api.Error
		if err != nil {
			e = api.AsError(err)
		}
		if e == nil || e.Code != api.CodeInvalidParams || e.Details["field"] != c.field || !strings.HasPrefix(e.Message, "params."+c.field+": ") {
			t.Errorf("%s %s: %+v", c.method, c.params, e)
			continue
		}
		if got, _ := e.Details["suggestion"].(string); got != c.suggestion {
			t.Errorf("%s %s: suggests %q, must be %q", c.method, c.params, got, c.suggestion)
		}
	}
}

// TestNamesThatPass: what is right stays right.
func TestNamesThatPass(t *testing.T) {
	var many strings.Builder
	for i := range 300 {
		if i > 0 {
			many.WriteByte(',')
		}
		many.WriteString(`"A` + strings.Repeat("B", i) + `":"x"`)
	}
	for _, c := range []struct{ method, params string }{
		{"exec.run", ` { "session_id" : "s" , "command" : "a\"b\\" , "env" : { "A" : "1" , "a" : "2" } , "timeout_s" : 1.5e0 } `},
		{"exec.run", `{"session_id":"s","command":"\ud83d\ude00 \u00e4 \\ud800 \uFFFD"}`},
		{"exec.run", `{"session_id":"s","comm\u0061nd":"true","env":{},"wait":true,"detach":null}`},
		{"exec.run", `{"session_id":"s","command":"x","env":{` + many.String() + `}}`},
		{"session.info", `{"session_id":"s","new":[{"x":1},{"x":2},[],{}],"newer":{"session_id":1}}`},
		{"exec.wait", `{"exec_ids":["x"],"until":"exit"}`},
		{"dialogue.respond", `{"dialogue_id":"d","request_id":"r","input":{"Command":"x","command":"y"}}`},
		{"system.ping", `{}`}, {"system.ping", ``}, {"system.ping", `null`},
	} {
		m, _ := api.FindMethod(c.method)
		if err := m.Check(json.RawMessage(c.params)); err != nil {
			t.Errorf("%s %.200s: %v", c.method, c.params, err)
		}
	}
}

// FuzzNames: any JSON is read to its end, and it passes only if encoding/json understands it in the
// same way.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{`{"session_id":"s","command":"true"}`, `{"a":{"b":[1,{"c":"\ud83d\ude00"}]},"a":1}`, `{"env":{"A":"\ud800"}}`, `{"":[],"x":[[[]]]}`} {
		f.Add(seed)
	}
	m, _ := api.FindMethod("exec.run")
	f.Fuzz(func(t *testing.T, text string) {
		if err := m.Check(json.RawMessage(text)); err != nil {
			return
		}
		var members map[string]json.RawMessage
		_ = json.Unmarshal([]byte(text), &members)
		for name := range members {
			switch name {
			case "session_id", "command", "timeout_s", "stdin", "stdin_base64", "env", "working_dir", "wait", "max_output_bytes", "detach", "backpressure":
			default:
				t.Errorf("%q passed in %q", name, text)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	m, _ := api.FindMethod("exec.run")
	params := json.RawMessage(`{"session_id":"s-0123456789ab","command":"true","timeout_s":5,"env":{"A":"1"}}`)
	for b.Loop() {
		if err := m.Check(params); err != nil {
			b.Fatal(err)
		}
	}
}
