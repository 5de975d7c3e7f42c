package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// TestSessionStates tries every pair of states.
func TestSessionStates(t *testing.T) {
	all := []api.SessionState{api.SessionCreating, api.SessionIdle, api.SessionRunning, api.SessionTerminated}
	allowed := map[[2]api.SessionState]bool{
		{api.SessionCreating, api.SessionIdle}:       true,
		{api.SessionCreating, api.SessionTerminated}: true,
		{api.SessionIdle, api.SessionRunning}:        true,
		{api.SessionIdle, api.SessionTerminated}:     true,
		{api.SessionRunning, api.SessionIdle}:        true,
		{api.SessionRunning, api.SessionTerminated}:  true,
	}
	for _, from := range all {
		for _, to := range all {
			if got := from.CanBecome(to); got != allowed[[2]api.SessionState{from, to}] {
				t.Errorf("%s → %s: %v", from, to, got)
			}
		}
	}
}

// TestExecStates tries every pair of states.
func TestExecStates(t *testing.T) {
	all := []api.ExecState{api.ExecQueued, api.ExecRunning, api.ExecExited, api.ExecClosed}
	allowed := map[[2]api.ExecState]bool{
		{api.ExecQueued, api.ExecRunning}: true,
		{api.ExecQueued, api.ExecClosed}:  true,
		{api.ExecRunning, api.ExecExited}: true,
		{api.ExecExited, api.ExecClosed}:  true,
	}
	for _, from := range all {
		for _, to := range all {
			if got := from.CanBecome(to); got != allowed[[2]api.ExecState{from, to}] {
				t.Errorf("%s → %s: %v", from, to, got)
			}
		}
	}
}

// TestMethods: every method of Service is in the table once, under a name of the
// form noun.verb that matches, and every name is findable.
func TestMethods(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range api.Methods() {
		noun, verb, ok := strings.Cut(m.Name, ".")
		if !ok || seen[m.Name] {
			t.Errorf("%s: malformed or twice", m.Name)
		}
		seen[m.Name] = true
		if _, ok := reflect.TypeFor[api.Service]().MethodByName(title(noun) + title(verb)); !ok {
			t.Errorf("%s: Service has no such method", m.Name)
		}
		if got, ok := api.FindMethod(m.Name); !ok || got.Name != m.Name || m.Summary == "" {
			t.Errorf("%s: not found, or without a summary", m.Name)
		}
	}
	if n := reflect.TypeFor[api.Service]().NumMethod(); n != len(api.Methods()) {
		t.Errorf("Service has %d methods, the table %d", n, len(api.Methods()))
	}
}

func title(s string) string {
	if s == "http" {
		return "HTTP"
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// TestCodes: every code is in the table once, with what other worlds need.
func TestCodes(t *testing.T) {
	seen := map[api.Code]bool{}
	for _, c := range api.Codes {
		if seen[c.Code] || c.HTTP < 400 || c.GRPC == "" || c.Exit < 125 || c.Exit > 127 || c.Meaning == "" {
			t.Errorf("%+v", c)
		}
		seen[c.Code] = true
	}
}

func TestErrors(t *testing.T) {
	busy := api.Errorf(api.CodeSessionBusy, "session %q: runs x-1", "s-1")
	wrapped := fmt.Errorf("outer: %w", busy)
	if !errors.Is(wrapped, api.ErrSessionBusy) || errors.Is(wrapped, api.ErrConflict) {
		t.Error("errors.Is does not go by the code")
	}
	if e := api.AsError(wrapped); e.Code != api.CodeSessionBusy || e.Message != "outer: "+busy.Message {
		t.Errorf("%+v", e)
	}
	if e := api.AsError(errors.New("x")); e.Code != api.CodeInternal {
		t.Errorf("%+v", e)
	}
	if api.AsError(nil) != nil {
		t.Error("AsError(nil)")
	}
}

// TestParams: bad parameters give INVALID_PARAMS, and the message names the field.
func TestParams(t *testing.T) {
	for _, tc := range []struct{ method, params, want string }{
		{"session.create", `{"shell":5}`, "params.shell: must be a string, not number"},
		{"session.create", `{"env":{"A":1}}`, "params.env.A: must be a string, not number"},
		{"session.create", `{"env":{"A":"x","B": true}}`, "params.env.B: must be a string, not bool"},
		{"session.create", `{"env":{"A":null,"B":{"C":[]}}}`, "params.env.B: must be a string, not object"},
		{"session.create", `{"env":[]}`, "params.env: must be an object, not array"},
		{"session.create", `{"timeout_s":"5"}`, "params.timeout_s: must be a number, not string"},
		{"session.create", `{"tags":"x"}`, "params.tags: must be a list, not string"},
		{"session.create", `{"timeuot_s":5}`, "params.timeuot_s: unknown field"},
		{"session.create", `[]`, "params: must be a JSON object"},
		{"session.create", `"x"`, "params: must be a JSON object"},
		{"exec.run", `{"wait":1}`, "params.wait: must be true or false, not number"},
		{"exec.wait", `{"until":5}`, "params.until: must be a list, not number"},
		{"exec.wait", `{"until":["exit",5]}`, "params.until: must be a string, not number"},
		{"exec.wait", `{"timeout":5}`, "params.timeout: unknown field"},
		{"exec.output", `{"offset":"5"}`, "params.offset: must be a whole number, not string"},
		{"exec.input", `{"close":"yes"}`, "params.close: must be true or false, not string"},
		{"exec.stream", `{"after":5}`, "params.after: unknown field"},
		{"event.subscribe", `{"types":"exec"}`, "params.types: must be a list, not string"},
		{"exec.run", `{"max_output_bytes":1.5}`, "params.max_output_bytes: must be a whole number, not number 1.5"},
	} {
		m, _ := api.FindMethod(tc.method)
		_, err := m.Call(context.Background(), nil, json.RawMessage(tc.params))
		if !errors.Is(err, api.ErrInvalidParams) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s %s: %v, want %q", tc.method, tc.params, err, tc.want)
		}
	}
}

func TestCheck(t *testing.T) {
	f := func(x float64) *float64 { return &x }
	n := func(x int64) *int64 { return &x }
	s := func(x string) *string { return &x }
	for _, tc := range []struct {
		check interface{ Check() error }
		field string // "" = fine
	}{
		{api.SessionCreateParams{}, ""},
		{api.SessionCreateParams{Name: "build-1.x_y", Env: map[string]string{"_a1": "", "PATH": "x"}, TimeoutS: f(0.5), Tags: []string{"a b"}}, ""},
		{api.SessionCreateParams{Name: "s-1"}, "name"},
		{api.SessionCreateParams{Name: "x-1"}, "name"},
		{api.SessionCreateParams{Name: "a b"}, "name"},
		{api.SessionCreateParams{Name: "-a"}, "name"},
		{api.SessionCreateParams{Name: strings.Repeat("a", 65)}, "name"},
		{api.SessionCreateParams{Env: map[string]string{"1A": ""}}, "env"},
		{api.SessionCreateParams{Env: map[string]string{"": ""}}, "env"},
		{api.SessionCreateParams{Env: map[string]string{"A-B": ""}}, "env"},
		{api.SessionCreateParams{Env: map[string]string{"A=B": ""}}, "env"},
		{api.SessionCreateParams{Env: map[string]string{"É": ""}}, "env"},
		{api.SessionCreateParams{Env: map[string]string{"A": "x\x00y"}}, "env"},
		{api.SessionCreateParams{Env: map[string]string{api.SessionMarker: "x"}}, "env"},
		{api.SessionCreateParams{TimeoutS: f(-1)}, "timeout_s"},
		{api.SessionCreateParams{TimeoutS: f(1e12)}, "timeout_s"},
		{api.SessionCreateParams{TimeoutS: f(math.NaN())}, "timeout_s"},
		{api.SessionCreateParams{Tags: []string{""}}, "tags"},
		{api.SessionCreateParams{Shell: "a\x00"}, "shell"},
		{api.SessionCreateParams{WorkingDir: "/a\x00"}, "working_dir"},
		{api.SessionCreateParams{WorkingDir: "."}, "working_dir"},
		{api.SessionCreateParams{WorkingDir: "a/b"}, "working_dir"},
		{api.ExecParams{SessionID: "s", Command: "x", WorkingDir: ".."}, "working_dir"},
		{api.ExecParams{SessionID: "s", Command: "x", Stdin: s("")}, ""},
		{api.ExecParams{Command: "x"}, "session_id"},
		{api.ExecParams{SessionID: "s"}, "command"},
		{api.ExecParams{SessionID: "s", Command: "a\x00b"}, "command"},
		{api.ExecParams{SessionID: "s", Command: "x", Stdin: s("a"), StdinBase64: "YQ=="}, "stdin_base64"},
		{api.ExecParams{SessionID: "s", Command: "x", StdinBase64: "?"}, "stdin_base64"},
		{api.ExecParams{SessionID: "s", Command: "x", MaxOutputBytes: n(-1)}, "max_output_bytes"},
		{api.ExecParams{SessionID: "s", Command: "x", TimeoutS: f(-0.1)}, "timeout_s"},
		{api.ExecParams{SessionID: "s", Command: "x", Env: map[string]string{"a.b": ""}}, "env"},

		{api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: "s", Command: "x"}, Stream: "stderr"}, ""},
		{api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: "s"}}, "command"},
		{api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: "s", Command: "x"}, AfterSeq: 1}, "exec_id"},
		{api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: "s", Command: "x"}, FromOffset: 1}, "exec_id"},
		{api.ExecStreamParams{ExecID: "x", AfterSeq: 1}, ""},
		{api.ExecStreamParams{ExecID: "x", FromOffset: 1, Stream: "stdout"}, ""},
		{api.ExecStreamParams{ExecID: "x", ExecParams: api.ExecParams{SessionID: "s"}}, ""},
		{api.ExecStreamParams{ExecID: "x", AfterSeq: 1, FromOffset: 1}, "from_offset"},
		{api.ExecStreamParams{ExecID: "x", AfterSeq: -1}, "after_seq"},
		{api.ExecStreamParams{ExecID: "x", FromOffset: -1}, "from_offset"},
		{api.ExecStreamParams{ExecID: "x", Stream: "both"}, "stream"},
		{api.ExecStreamParams{ExecID: "x", ExecParams: api.ExecParams{Command: "x"}}, "command"},
		{api.ExecStreamParams{ExecID: "x", ExecParams: api.ExecParams{TimeoutS: f(1)}}, "timeout_s"},
		{api.ExecStreamParams{ExecID: "x", ExecParams: api.ExecParams{Stdin: s("")}}, "stdin"},
		{api.ExecStreamParams{ExecID: "x", ExecParams: api.ExecParams{StdinBase64: "YQ=="}}, "stdin_base64"},
		{api.ExecStreamParams{ExecID: "x", ExecParams: api.ExecParams{Env: map[string]string{}}}, "env"},
		{api.ExecStreamParams{ExecID: "x", ExecParams: api.ExecParams{WorkingDir: "/"}}, "working_dir"},
		{api.ExecStreamParams{ExecID: "x", ExecParams: api.ExecParams{Wait: true}}, "wait"},
		{api.ExecStreamParams{ExecID: "x", ExecParams: api.ExecParams{MaxOutputBytes: n(1)}}, "max_output_bytes"},
		{api.ExecStreamParams{ExecID: "x", ExecParams: api.ExecParams{Detach: new(bool)}}, ""},
		{api.ExecStreamParams{ExecID: "x", ExecParams: api.ExecParams{RunID: "1"}}, "run_id"},
		{api.ExecParams{SessionID: "s", Command: "x", RunID: strings.Repeat("x", 65)}, "run_id"},
		{api.SessionCreateParams{LingerS: new(float64)}, "linger_s"},
		{api.SessionCreateParams{LingerS: new(float64), Ephemeral: true}, ""},
		{api.ExecStreamParams{ExecID: "x", ExecParams: api.ExecParams{Backpressure: new(true)}}, "backpressure"},

		{api.ExecOutputParams{ExecID: "x", Offset: 5, Limit: n(0), Grep: "("}, ""}, // the pattern is not looked at here
		{api.ExecOutputParams{ExecID: "x", Tail: n(8 << 20)}, ""},
		{api.ExecOutputParams{}, "exec_id"},
		{api.ExecOutputParams{ExecID: "x", Stream: "x"}, "stream"},
		{api.ExecOutputParams{ExecID: "x", Offset: -1}, "offset"},
		{api.ExecOutputParams{ExecID: "x", Limit: n(-1)}, "limit"},
		{api.ExecOutputParams{ExecID: "x", Limit: n(8<<20 + 1)}, "limit"},
		{api.ExecOutputParams{ExecID: "x", Tail: n(-1)}, "tail"},
		{api.ExecOutputParams{ExecID: "x", Tail: n(1), Offset: 1}, "tail"},
		{api.ExecOutputParams{ExecID: "x", Tail: n(1), Limit: n(1)}, "tail"},

		{api.ExecInputParams{ExecID: "x", Close: true}, ""},
		{api.ExecInputParams{ExecID: "x", DataBase64: "YQ==", WriteID: strings.Repeat("i", 128)}, ""},
		{api.ExecInputParams{Data: "x"}, "exec_id"},
		{api.ExecInputParams{ExecID: "x"}, "data"},
		{api.ExecInputParams{ExecID: "x", Data: "x", DataBase64: "YQ=="}, "data_base64"},
		{api.ExecInputParams{ExecID: "x", DataBase64: "?"}, "data_base64"},
		{api.ExecInputParams{ExecID: "x", Data: "x", WriteID: strings.Repeat("i", 129)}, "write_id"},

		{api.ExecWaitParams{ExecIDs: []string{"x"}, SessionIDs: []string{"s"}, Until: api.Words{"exit", "waiting_for_input"}, TimeoutS: f(0)}, ""},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, OutputMatch: "x", IdleS: f(0.001), AfterSeq: 1, Until: api.Words{"output_match", "idle_s"}}, ""},
		{api.ExecWaitParams{ExecIDs: []string{"x", "y"}, Any: true}, ""},
		{api.ExecWaitParams{ExecIDs: []string{"x", "y"}, Any: true, All: true}, "any"},
		{api.ExecWaitParams{}, "exec_ids"},
		{api.ExecWaitParams{ExecIDs: make([]string, 500), SessionIDs: make([]string, 501)}, "exec_ids"},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, AfterSeq: -1}, "after_seq"},
		{api.ExecWaitParams{ExecIDs: []string{"x", "y"}, AfterSeq: 1}, "after_seq"},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, IdleS: f(0)}, "idle_s"},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, IdleS: f(math.NaN())}, "idle_s"},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, TimeoutS: f(-1)}, "timeout_s"},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, TimeoutS: f(1e9)}, "timeout_s"},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, IdleMS: n(0)}, "idle_ms"},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, TimeoutMS: n(-1)}, "timeout_ms"},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, IdleMS: n(1), IdleS: f(1)}, "idle_ms"},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, TimeoutMS: n(1), TimeoutS: f(1)}, "timeout_ms"},
		{api.SessionWaitParams{SessionID: "s", IdleMS: n(1), IdleS: f(1)}, "idle_ms"},
		{api.SessionWaitParams{SessionID: "s", IdleS: f(0.0001)}, "idle_s"},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, Until: api.Words{"output_match"}}, "output_match"},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, Until: api.Words{"idle_s"}}, "idle_s"},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, Until: api.Words{"idle_ms"}}, "idle_ms"},
		{api.ExecWaitParams{ExecIDs: []string{"x"}, Until: api.Words{"exit", "death"}}, "until"},

		{api.EventSubscribeParams{Types: []string{"session", "exec.exited"}, AfterSeq: n(0)}, ""},
		{api.EventSubscribeParams{Types: []string{"missed"}}, "types"},
		{api.EventSubscribeParams{AfterSeq: n(-1)}, "after_seq"},
	} {
		err := tc.check.Check()
		switch {
		case tc.field == "" && err != nil:
			t.Errorf("%+v: %v", tc.check, err)
		case tc.field != "" && (!errors.Is(err, api.ErrInvalidParams) || api.AsError(err).Details["field"] != tc.field):
			t.Errorf("%+v: %v, want a complaint about %s", tc.check, err, tc.field)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("plain"))
	f.Add([]byte{0, 0xff, 'a', 0xc3})
	f.Fuzz(func(t *testing.T, b []byte) {
		text, b64 := api.Text(b)
		if got := api.Data(text, b64); string(got) != string(b) {
			t.Fatalf("%q came back as %q", b, got)
		}
	})
}

// checker answers exec.run with what it thinks of the parameters.
type checker struct{ api.Service }

func (checker) ExecRun(_ context.Context, p api.ExecParams) (api.ExecResult, error) {
	return api.ExecResult{}, p.Check()
}

// TestEmptyCommand: an empty command is one, a missing one is not.
func TestEmptyCommand(t *testing.T) {
	m, _ := api.FindMethod("exec.run")
	if _, err := m.Call(context.Background(), checker{}, json.RawMessage(`{"session_id":"s","command":""}`)); err != nil {
		t.Errorf("an empty command: %v", err)
	}
	_, err := m.Call(context.Background(), checker{}, json.RawMessage(`{"session_id":"s"}`))
	if !errors.Is(err, api.ErrInvalidParams) || !strings.Contains(err.Error(), "params.command") {
		t.Errorf("no command: %v", err)
	}
}

// TestWords: one word may stand for a list of one.
func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		`"exit"`: `["exit"]`, `["exit"]`: `["exit"]`, `["a","b"]`: `["a","b"]`, `[]`: `[]`, `null`: `null`, `""`: `[""]`, `"\u0065xit"`: `["exit"]`,
	} {
		var p api.ExecWaitParams
		if err := json.Unmarshal([]byte(`{"until":`+text+`}`), &p); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, _ := json.Marshal(p.Until); string(got) != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestAccess: a caller with read access cannot change anything, and can read everything but what only
// other daemons need.
func TestAccess(t *testing.T) {
	for _, m := range api.Methods() {
		_, verb, _ := strings.Cut(m.Name, ".")
		reads := strings.Contains(" ping stats info list output wait subscribe screen recording events transcript raw requests item search lines close verify hello read settings log ", " "+verb+" ") && m.Name != "guest.list"
		want := api.AccessFull
		switch {
		case reads:
			want = api.AccessRead
		case m.Name == "system.http" || m.Name == "web.open":
			want = api.AccessLocal
		}
		if m.Access != want {
			t.Errorf("%s: access = %q", m.Name, m.Access)
		}
	}
	for _, c := range []struct {
		method, params string
		changes        bool
	}{
		{"exec.list", `{}`, false},
		{"exec.run", `{"session_id":"s","command":"true"}`, true},
		{"exec.stream", `{"exec_id":"x-1-1"}`, false},
		{"exec.stream", `{"exec_id":"x-1-1","detach":true}`, false},
		{"exec.stream", `{"exec_id":"x-1-1","detach":false}`, true}, // cancels the command when it is closed
		{"exec.stream", `{"session_id":"s","command":"true"}`, true},
		{"exec.stream", `{"exec_id":"x-1-1","command":"true"}`, true}, // invalid
		{"exec.stream", `{"exec_id":"x-1-1","no_such":1}`, true},
		{"session.attach", `{"session_id":"s","read_only":true}`, false},
		{"session.attach", `{"session_id":"s"}`, true},
		{"session.attach", `{"read_only":true}`, true}, // invalid
	} {
		m, _ := api.FindMethod(c.method)
		if got := m.Changes(json.RawMessage(c.params)); got != c.changes {
			t.Errorf("%s %s: changes = %v", c.method, c.params, got)
		}
		if !c.changes && !m.MayRead() {
			t.Errorf("%s: has calls that change nothing, but does not say so", c.method)
		}
	}
}

// TestExecIDBesideAnEmptyCommand: the Go parameters always carry a command.
func TestExecIDBesideAnEmptyCommand(t *testing.T) {
	params, err := json.Marshal(api.ExecStreamParams{ExecID: "x-1-1"})
	if err != nil {
		t.Fatal(err)
	}
	m, _ := api.FindMethod("exec.stream")
	if _, err := m.Call(context.Background(), checker{}, params); err != nil {
		t.Errorf("%s: %v", params, err)
	}
}

func (checker) ExecStream(_ context.Context, p api.ExecStreamParams) (api.Stream, error) {
	return nil, p.Check()
}
