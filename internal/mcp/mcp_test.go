package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/mcp"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 2 * time.Minute

// peer is an MCP client of a TRL of its own.
type peer struct {
	t       *testing.T
	service api.Service
	session *sdk.ClientSession
	// closed ends the connection and waits for the server.
	closed func()

	mu       sync.Mutex
	progress []string // guarded by mu
	told     chan struct{}
}

// connect serves one client of a daemon of its own.
func connect(t *testing.T, wait time.Duration, opts ...trltest.Option) *peer {
	t.Helper()
	return serve(t, wait, trltest.Start(t, opts...).Client(t))
}

// serve serves one client over pipes, with the official client at the other end.
func serve(t *testing.T, wait time.Duration, service api.Service) *peer {
	t.Helper()
	return serveAs(t, service, mcp.Config{Patience: wait})
}

func serveAs(t *testing.T, service api.Service, c mcp.Config) *peer {
	t.Helper()
	c.Service, c.Logger = service, slog.New(slog.DiscardHandler)
	p := &peer{t: t, service: service, told: make(chan struct{}, 100)}
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- mcp.Serve(context.Background(), c, toServer, fromServer)
	}()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			p.mu.Lock()
			p.progress = append(p.progress, r.Params.Message)
			p.mu.Unlock()
			select {
			case p.told <- struct{}{}:
			default:
			}
		},
	})
	var err error
	if p.session, err = client.Connect(context.Background(), &sdk.IOTransport{Reader: toClient, Writer: fromClient}, nil); err != nil {
		t.Fatal(err)
	}
	p.closed = sync.OnceFunc(func() {
		_ = p.session.Close()
		if err := <-served; err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("served: %s", err)
		}
		fromServer.Close()
	})
	t.Cleanup(p.closed)
	return p
}

// call calls a tool and returns its text.
func (p *peer) call(ctx context.Context, tool string, args map[string]any) (text string, failed bool, err error) {
	params := &sdk.CallToolParams{Name: tool, Arguments: args}
	params.SetProgressToken("token-" + tool)
	r, err := p.session.CallTool(ctx, params)
	if err != nil {
		return "", false, err
	}
	for _, c := range r.Content {
		text += c.(*sdk.TextContent).Text
	}
	return text, r.IsError, nil
}

// does calls a tool that must succeed, and checks its answer against a pattern.
func (p *peer) does(tool string, args map[string]any, pattern string) []string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, failed, err := p.call(ctx, tool, args)
	if err != nil || failed {
		p.t.Fatalf("%s %v: %v %s", tool, args, err, text)
	}
	found := regexp.MustCompile(`(?s)\A` + pattern + `\z`).FindStringSubmatch(text)
	if found == nil {
		p.t.Fatalf("%s %v answers\n%s\nwhich is not\n%s", tool, args, text, pattern)
	}
	return found
}

// refuses calls a tool that must answer with an error.
func (p *peer) refuses(tool string, args map[string]any, want string) {
	p.t.Helper()
	text, failed, err := p.call(context.Background(), tool, args)
	if err != nil {
		text, failed = err.Error(), true
	}
	if !failed || !strings.Contains(text, want) {
		p.t.Errorf("%s %v: got %q, want %q", tool, args, text, want)
	}
}

func TestTools(t *testing.T) {
	p := connect(t, 0)
	list, err := p.session.ListTools(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Description == "" || len(tool.Description) > 250 {
			t.Errorf("%s: description of %d bytes", tool.Name, len(tool.Description))
		}
	}
	if got := strings.Join(names, " "); got != "cancel destroy dialogue_read dialogue_respond dialogue_send dialogue_start dialogue_stop input list output run start terminal_screen terminal_start terminal_type wait" {
		t.Errorf("tools: %s", got)
	}
	for _, tool := range list.Tools {
		if strings.Contains("run start wait cancel output terminal_start terminal_type terminal_screen", tool.Name) != (tool.OutputSchema != nil) {
			t.Errorf("%s: output schema %v", tool.Name, tool.OutputSchema)
		}
		tool.OutputSchema = nil // is for the client, not for the model
	}
	// It is part of every prompt.
	if b, _ := json.Marshal(list); len(b) > 15300 {
		t.Errorf("the tools take %d bytes", len(b))
	}
}

func TestRunKeepsState(t *testing.T) {
	p := connect(t, 0)
	p.does("run", map[string]any{"command": "cd /usr; export A=1; f() { echo f:$A; }"}, `\[exit code 0 after .*; x-.*\]`)
	p.does("run", map[string]any{"command": "pwd; f 2>/dev/null || echo f:$A; echo oops >&2; exit 3"}, `/usr\nf:1\n\[stderr\]\noops\n\[exit code 3 after .*\]`)
	p.does("run", map[string]any{"command": "pwd"}, `/usr\n\[exit code 0 .*`)
	p.does("run", map[string]any{"command": "cat; echo $B; pwd", "stdin": "open", "env": map[string]string{"B": "2"}, "working_dir": "/"}, `open2\n/\n\[exit.*`)
	p.does("run", map[string]any{"command": "pwd; true", "session": "other"}, `\[new session s-\S+\]\n/.*`)
	p.does("run", map[string]any{"command": "sleep 77", "timeout_s": 0.1}, `(?:\[stderr\]\nTerminated\n)?\[timed out after .* and was killed, with 1 process,.*`)
	p.does("list", nil, `(?:.*\n)*s-.* idle .*, name "other"\n.*(?:.*\n)*`)
	p.does("destroy", map[string]any{"session": "other"}, `ended s-.*`)
	p.refuses("destroy", map[string]any{"session": "nobody"}, "SESSION_NOT_FOUND")
	p.refuses("output", map[string]any{"exec_id": "x-1"}, "EXEC_NOT_FOUND")
	p.refuses("run", map[string]any{}, "command")
}

// TestClientsDirectoryAndEnvironment: new sessions on this machine have them, as those of the CLI.
func TestClientsDirectoryAndEnvironment(t *testing.T) {
	dir, other := testkit.Dir(t), testkit.Dir(t)
	p := serveAs(t, trltest.Start(t).Client(t), mcp.Config{Dir: dir, Env: map[string]string{"CLIENT": "c", "BOTH": "c", "PATH": os.Getenv("PATH")}})
	show := `sh -c 'echo "$PWD $CLIENT $BOTH"; read x'`
	both := map[string]any{"BOTH": "m"}
	p.does("terminal_start", map[string]any{"command": show, "env": both, "cols": 200}, dir+` c m`+`(?s).*`)
	p.does("run", map[string]any{"command": `echo "$PWD $CLIENT $BOTH"`, "env": both}, dir+` c m\n.*`)
	p.does("run", map[string]any{"command": `echo "$PWD $CLIENT $BOTH"; cd ` + other}, dir+` c c\n.*`)
	p.does("run", map[string]any{"command": `echo "$PWD"`, "session": "own"}, `\[new session .*\n`+dir+`\n.*`)
	p.does("terminal_start", map[string]any{"command": show, "cols": 200}, other+` c c(?s).*`)
}

// TestWrongNames: an argument that a tool does not have is refused with the one that was meant.
func TestWrongNames(t *testing.T) {
	p := connect(t, 0)
	for _, tt := range []struct{ tool, name, want string }{
		{"run", "tiemout_s", `run has no argument "tiemout_s"; did you mean "timeout_s"?`},
		{"run", "timeout", `did you mean "timeout_s"?`},
		{"run", "cwd", `did you mean "working_dir"?`},
		{"run", "Command", `did you mean "command"?`},
		{"run", "colour_of_the_sky", `run has no argument "colour_of_the_sky"; it has command, argv, session,`},
		{"wait", "id", `did you mean "exec_id"?`},
		{"terminal_start", "columns", `did you mean "cols"?`},
		{"dialogue_start", "promt", `did you mean "prompt"?`},
		{"list", "all", `list takes no arguments, but got "all"`},
	} {
		p.refuses(tt.tool, map[string]any{tt.name: "x"}, "INVALID_PARAMS: ")
		p.refuses(tt.tool, map[string]any{tt.name: "x"}, tt.want)
	}
}

// TestAmbiguous: arguments that would be read as something else are refused.
func TestAmbiguous(t *testing.T) {
	p := connect(t, 0)
	for arguments, want := range map[string]string{
		`{"command": "printf '\ud800'"}`:                   "INVALID_PARAMS: command: has half of a surrogate pair, \\ud800, which is no character",
		`{"command": "cat", "stdin": "a\udc00b"}`:          "INVALID_PARAMS: stdin: has half of a surrogate pair, \\udc00",
		`{"command": "env", "env": {"A": "\ud83d\ud83d"}}`: "INVALID_PARAMS: env.A: has half of a surrogate pair",
		`{"command": "env", "env": {"\udfff": "x"}}`:       "has half of a surrogate pair, \\udfff",
		`{"command": "true", "command": "false"}`:          "INVALID_PARAMS: command: appears twice",
		"{\"command\": \"echo \xff\"}":                     "INVALID_PARAMS: params: not valid UTF-8",
	} {
		r, err := p.session.CallTool(t.Context(), &sdk.CallToolParams{Name: "run", Arguments: json.RawMessage(arguments)})
		if err != nil || !r.IsError || !strings.Contains(r.Content[0].(*sdk.TextContent).Text, want) {
			t.Errorf("%q: %+v, %v, want %s", arguments, r, err, want)
		}
	}
	p.does("run", map[string]any{"command": "printf 😀"}, "😀\n.*")
}

// TestQueued: a command that waits for its turn is not called running.
func TestQueued(t *testing.T) {
	p := connect(t, 300*time.Millisecond)
	first := p.does("run", map[string]any{"command": "sleep 77"}, `\[still running .*"(x-[^"]+)".*`)[1]
	m := p.does("run", map[string]any{"command": "echo second"}, `\[not started after .*: it waits for (x-\S+) in session s-\S+; continue with wait \{"exec_id": "(x-[^"]+)"\}, or stop it with cancel\]`)
	if m[1] != first {
		t.Errorf("waits for %s, not %s", m[1], first)
	}
	if s := p.structured("wait", map[string]any{"exec_id": m[2]}); s["state"] != "queued" || s["exit_code"] != nil {
		t.Errorf("%v", s)
	}
	p.does("wait", map[string]any{"exec_id": m[2], "idle_s": 0.05}, `\[not started after .*: it waits for `+first+` in .*`)
	p.does("cancel", map[string]any{"exec_id": first}, `stopped .*`)
	serve(t, 0, p.service).does("wait", map[string]any{"exec_id": m[2]}, `second\n\[exit code 0 .*`)
}

// structured calls a tool and returns its fields.
func (p *peer) structured(tool string, args map[string]any) map[string]any {
	p.t.Helper()
	r, err := p.session.CallTool(context.Background(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil || r.IsError {
		p.t.Fatalf("%s %v: %v %+v", tool, args, err, r)
	}
	fields, ok := r.StructuredContent.(map[string]any)
	if !ok {
		p.t.Fatalf("%s %v: structured content %v", tool, args, r.StructuredContent)
	}
	return fields
}

// TestStructured: the fields have everything that the text says, because some clients show their
// model only the fields.
func TestStructured(t *testing.T) {
	p := connect(t, 0)
	has := func(s map[string]any, want map[string]any) {
		t.Helper()
		for k, v := range want {
			if fmt.Sprint(s[k]) != fmt.Sprint(v) {
				t.Errorf("%s: %v, want %v in %v", k, s[k], v, s)
			}
		}
	}
	s := p.structured("run", map[string]any{"command": "echo out; echo err >&2; exit 3"})
	has(s, map[string]any{"state": "exited", "exit_code": 3, "stdout": "out\n", "stderr": "err\n", "timed_out": nil})
	if !strings.HasPrefix(s["note"].(string), "exit code 3 after ") || s["exec_id"] == "" || s["duration_ms"] == nil {
		t.Errorf("%v", s)
	}
	has(p.structured("output", map[string]any{"exec_id": s["exec_id"]}), map[string]any{"data": "out\n", "next_offset": 4, "total_bytes": 4, "complete": true})
	has(p.structured("run", map[string]any{"command": "sleep 77", "timeout_s": 0.1}), map[string]any{"exit_code": 124, "timed_out": true})
	has(p.structured("run", map[string]any{"command": "kill -9 $$"}), map[string]any{"exit_code": 137, "signal": "SIGKILL"})
	s = p.structured("start", map[string]any{"command": "sleep 77"})
	has(p.structured("cancel", map[string]any{"exec_id": s["exec_id"]}), map[string]any{"state": "exited", "exit_code": 130, "cancelled": true})
	s = p.structured("terminal_start", map[string]any{"command": "echo hi; exit 4", "cols": 30, "rows": 5})
	has(s, map[string]any{"screen": "hi", "cols": 30, "rows": 5, "cursor_line": 2, "cursor_column": 1, "exit_code": 4, "note": "the program has ended with exit code 4"})
}

// TestShell: bash where it exists, unless the caller or the configuration selects another shell.
func TestShell(t *testing.T) {
	needs(t, "bash")
	needs(t, "fish")
	p := serveAs(t, trltest.Start(t).Client(t), mcp.Config{PreferShell: "bash", TextShell: "bash"})
	p.does("run", map[string]any{"command": "a=(x y); echo ${a[1]} $BASH_VERSION"}, `y \d.*`)
	p.does("run", map[string]any{"command": "echo $version", "session": "f", "shell": "fish"}, `\[new .*\]\n\d.*`)
	p.does("run", map[string]any{"command": "echo $version", "session": "f", "shell": "fish"}, `\d.*`)
	p.refuses("run", map[string]any{"command": "x", "session": "f", "shell": "bash"}, "CONFLICT: session \"f\": has the shell ")
	p.refuses("run", map[string]any{"command": "x", "shell": "fish"}, "CONFLICT")
	p.refuses("run", map[string]any{"command": "x", "session": "g", "shell": "nosuchshell"}, "SHELL_NOT_FOUND")
	p.does("start", map[string]any{"command": "echo $version; sleep 77", "shell": "fish"}, `started .*`)
	p.does("terminal_start", map[string]any{"command": "string upper abc; read", "shell": "fish"}, `ABC\n.*`)
	p.does("terminal_start", map[string]any{"command": "a=(x y); echo ${a[1]}; read"}, `y\n.*`)

	q := serveAs(t, trltest.Start(t, trltest.Args("--default-shell", "/bin/sh")).Client(t), mcp.Config{PreferShell: "bash"})
	q.does("run", map[string]any{"command": "echo $BASH_VERSION."}, `\.\n.*`)
	r := serveAs(t, q.service, mcp.Config{PreferShell: "bash", Shell: "fish"})
	r.does("run", map[string]any{"command": "echo $version"}, `\d.*`)
}

// TestGroups: tools can be left out.
func TestGroups(t *testing.T) {
	service := trltest.Start(t).Client(t)
	for groups, want := range map[string]string{
		"shell":          "cancel destroy input list output run start wait",
		"terminal":       "destroy list terminal_screen terminal_start terminal_type",
		"dialogue":       "dialogue_read dialogue_respond dialogue_send dialogue_start dialogue_stop",
		"shell,terminal": "cancel destroy input list output run start terminal_screen terminal_start terminal_type wait",
	} {
		p := serveAs(t, service, mcp.Config{Groups: strings.Split(groups, ",")})
		list, err := p.session.ListTools(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", groups, got, want)
		}
		text := p.session.InitializeResult().Instructions
		if strings.Contains(text, "dialogue_start") != strings.Contains(want, "dialogue_start") || strings.Contains(text, `"run"`) != strings.Contains(want, "run ") {
			t.Errorf("%s: instructions: %s", groups, text)
		}
	}
	p := serveAs(t, service, mcp.Config{Groups: []string{"terminal"}})
	if _, _, err := p.call(context.Background(), "run", map[string]any{"cmd": "true"}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("a tool that was left out: %v", err)
	}
	if err := mcp.CheckGroups([]string{"shell", "terminals"}); err == nil {
		t.Error("a group that does not exist")
	}
}

// TestStructuredOutput: the fields of output have the bytes of the program alone; the text says what
// is missing.
func TestStructuredOutput(t *testing.T) {
	p := connect(t, 0, trltest.Args("--output-bytes", "65536"))
	s := p.structured("run", map[string]any{"command": "seq 1 1000; seq 1 900 >&2", "max_bytes": 300})
	left, _ := s["stdout_left_out"].(map[string]any)
	if fmt.Sprint(left["from"], left["to"]) != "100 3693" || fmt.Sprint(s["stdout_truncated"], s["stdout_bytes"]) != "true 3893" {
		t.Errorf("%v", s)
	}
	var b strings.Builder
	for n := range 1000 {
		fmt.Fprintln(&b, n+1)
	}
	if all := b.String(); s["stdout"] != all[:100] || s["stdout_tail"] != all[3693:] || s["stderr_truncated"] != true {
		t.Errorf("%v", s)
	}
	lines, _ := p.structured("output", map[string]any{"exec_id": s["exec_id"], "grep": "^99$"})["lines"].([]any)
	if got := fmt.Sprint(lines); got != "[map[offset:285 text:99]]" {
		t.Errorf("%v", got)
	}

	const much = "head -c 2000000 /dev/zero | tr '\\0' x"
	s = p.structured("output", map[string]any{"exec_id": p.structured("run", map[string]any{"command": much})["exec_id"], "offset": 1000000})
	gap, _ := s["gap"].(map[string]any)
	if data := s["data"].(string); data == "" || strings.Trim(data, "x") != "" || gap["to"] != s["offset"] {
		t.Errorf("%v", s)
	}
	p.does("output", map[string]any{"exec_id": s["exec_id"], "offset": 1000000}, `\[bytes 1000000 to \d+ were not kept\]\nx+\n\[.*`)
}

// TestMatchedAndEnded: the output of a command that has ended matches, too.
func TestMatchedAndEnded(t *testing.T) {
	p := connect(t, 0)
	id := p.does("run", map[string]any{"command": "echo third; (exit 3)"}, `third\n\[exit code 3 .*; (x-\S+)\]`)[1]
	p.does("wait", map[string]any{"exec_id": id, "match": "ird"}, `\[matched on stdout: third; exit code 3 after \S+; `+id+`\]`)
	if s := p.structured("wait", map[string]any{"exec_id": id, "match": "ird"}); s["state"] != "exited" || fmt.Sprint(s["exit_code"]) != "3" {
		t.Errorf("%v", s)
	}
}

func TestLongOutput(t *testing.T) {
	p := connect(t, 0)
	m := p.does("run", map[string]any{"command": "seq 1 100000"}, `1\n2\n.*\[580,\d+ of 588,895 bytes left out: output \{"exec_id": "(x-[^"]+)", "stream": "stdout", "offset": (\d+)\}\].*\n100000\n\[exit code 0.*`)
	id := m[1]
	p.does("output", map[string]any{"exec_id": id, "offset": 588888}, `100000\n\n\[end of stdout, 588,895 bytes\]`)
	p.does("output", map[string]any{"exec_id": id, "tail": 14}, `\n?99999\n100000\n.*`)
	p.does("output", map[string]any{"exec_id": id, "grep": "^(77|99)777$"}, `388881: 77777\n521103: 99777|\d+: 77777\n\d+: 99777\n.*`)
	p.does("output", map[string]any{"exec_id": id, "max_bytes": 4}, `1\n2\n\n\[588,891 bytes more: output .*"offset": 4\}\]`)
	p.refuses("output", map[string]any{"exec_id": id, "grep": "("}, "INVALID_PARAMS")
}

func TestStillRunning(t *testing.T) {
	testkit.Long(t)
	p := connect(t, 5*time.Second) // in which the command must begin
	m := p.does("run", map[string]any{"command": "echo begun; read x < /dev/zero & sleep 77; echo done"}, `begun\n\[still running after .*; continue with wait \{"exec_id": "(x-[^"]+)"\}, or stop it with cancel\]`)
	p.does("wait", map[string]any{"exec_id": m[1], "timeout_s": 0.1}, `\[still running .*`)
	p.does("cancel", map[string]any{"exec_id": m[1]}, `stopped x-.*, with \d process(?:es)?`)
	p.does("wait", map[string]any{"exec_id": m[1]}, `(?:\[stderr\]\nTerminated\n)?\[cancelled after .*`)
	p.does("run", map[string]any{"command": "echo free"}, `free\n.*`)
}

func TestBackground(t *testing.T) {
	p := connect(t, 0)
	p.does("run", map[string]any{"command": "cd /usr"}, `.*`)
	m := p.does("start", map[string]any{"command": `pwd; read name; echo "hello $name"; cat`, "stdin": true}, `started (x-\S+) in session s-.*`)
	id := m[1]
	p.does("wait", map[string]any{"exec_id": id, "input": true}, `/usr\n\[.* waits for input: input .*\]`)
	p.does("input", map[string]any{"exec_id": id, "text": "world\n"}, "written")
	p.does("wait", map[string]any{"exec_id": id, "match": "^hello"}, `hello world\n\[matched on stdout: hello world; .* still runs\]`)
	p.does("wait", map[string]any{"exec_id": id, "idle_s": 0.05}, `\[silent; .*`)
	p.does("input", map[string]any{"exec_id": id, "text": "last", "close": true}, ".*at its end")
	p.does("wait", map[string]any{"exec_id": id}, `last\n\[exit code 0 .*`)
	p.refuses("input", map[string]any{"exec_id": id, "text": "x"}, "CONFLICT")
	p.does("run", map[string]any{"command": "pwd"}, `/usr\n.*`) // the default session was free all the time
}

func TestProgressAndCancellation(t *testing.T) {
	p := connect(t, 0)
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan error, 1)
	go func() {
		_, _, err := p.call(ctx, "run", map[string]any{"command": "echo working on it; sleep 77.5"})
		answered <- err
	}()
	select {
	case <-p.told:
	case <-time.After(patience):
		t.Fatal("no progress")
	}
	p.mu.Lock()
	first := p.progress[0]
	p.mu.Unlock()
	if !strings.Contains(first, "running, ") || !strings.Contains(first, "working on it") {
		t.Errorf("progress: %q", first)
	}
	cancel()
	if err := <-answered; err == nil {
		t.Error("a call that was given up has an answer")
	}
	// The command is cancelled: the next one in the same session needs not wait for it.
	p.does("run", map[string]any{"command": "echo next"}, `next\n.*`)
	list, err := p.service.ExecList(context.Background(), api.ExecListParams{})
	if err != nil || len(list.Execs) != 2 || list.Execs[0].Outcome == nil || !list.Execs[0].Outcome.Cancelled {
		t.Errorf("%+v, %v", list.Execs, err)
	}
}

// TestEnd: sessions without a name end with the client.
func TestEnd(t *testing.T) {
	p := connect(t, 0)
	p.does("run", map[string]any{"command": "true"}, ".*")
	p.does("start", map[string]any{"command": "sleep 77"}, ".*")
	p.does("start", map[string]any{"command": "sleep 77", "session": "mine"}, ".*")
	p.closed()
	p.alone("mine")
}

// alone waits until the sessions with these names are all there are.
func (p *peer) alone(names ...string) {
	p.t.Helper()
	want := fmt.Sprint(names)
	testkit.EventuallyNoProblem(p.t, func() string {
		list, err := p.service.SessionList(context.Background(), api.SessionListParams{})
		if err != nil {
			p.t.Fatal(err)
		}
		have := []string{}
		for _, s := range list.Sessions {
			have = append(have, s.Name)
		}
		if fmt.Sprint(have) == want {
			return ""
		}
		return fmt.Sprintf("sessions: %q, want %q", have, names)
	})
}

func TestHTTP(t *testing.T) {
	service := trltest.Start(t).Client(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var holds atomic.Int32 // clients that keep the daemon alive
	hold := func() (func(), error) {
		holds.Add(1)
		return func() { holds.Add(-1) }, nil
	}
	web := httptest.NewServer(mcp.Handler(ctx, mcp.Config{Service: service, Hold: hold, Logger: slog.New(slog.DiscardHandler)}))
	defer web.Close()
	var peers []*peer
	for range 2 {
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: web.URL, HTTPClient: web.Client()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		peers = append(peers, &peer{t: t, service: service, session: session})
	}
	a, b := peers[0], peers[1]
	if n := holds.Load(); n != 0 {
		t.Errorf("%d clients keep the daemon alive before their first call", n)
	}
	a.does("run", map[string]any{"command": "cd /usr; A=1"}, ".*")
	b.does("run", map[string]any{"command": "cd /etc"}, ".*")
	a.does("run", map[string]any{"command": "pwd; echo $A"}, "/usr\n1\n.*")
	b.does("run", map[string]any{"command": "pwd; echo $A"}, "/etc\n\n.*")
	if n := holds.Load(); n != 2 {
		t.Errorf("%d clients keep the daemon alive, want both", n)
	}
	if err := a.session.Close(); err != nil {
		t.Error(err)
	}
	b.alone("")
	b.does("run", map[string]any{"command": "pwd"}, "/etc\n.*")
	if err := b.session.Close(); err != nil {
		t.Error(err)
	}
	b.alone()
	testkit.Eventually(t, "no client keeps the daemon alive", func() bool { return holds.Load() == 0 })
}

// TestHTTPWhileTheDaemonEnds: a client that comes too late gets the reason as the tool's answer.
func TestHTTPWhileTheDaemonEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hold := func() (func(), error) { return nil, api.ErrDaemonEnding }
	web := httptest.NewServer(mcp.Handler(ctx, mcp.Config{Hold: hold, Logger: slog.New(slog.DiscardHandler)}))
	defer web.Close()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: web.URL, HTTPClient: web.Client()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for tool, arguments := range map[string]map[string]any{"list": {}, "run": {"command": "true"}} {
		res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		if text := res.Content[0].(*sdk.TextContent).Text; !res.IsError || !strings.HasPrefix(text, string(api.CodeRuntimeUnavailable)) {
			t.Errorf("%s: %+v", tool, text)
		}
	}
}

// TestHTTPGroups: the URL leaves tools out, for its own client alone.
func TestHTTPGroups(t *testing.T) {
	service := trltest.Start(t).Client(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	web := httptest.NewServer(mcp.Handler(ctx, mcp.Config{Service: service, Logger: slog.New(slog.DiscardHandler)}))
	defer web.Close()
	for query, want := range map[string]string{
		"":                      "cancel destroy dialogue_read dialogue_respond dialogue_send dialogue_start dialogue_stop input list output run start terminal_screen terminal_start terminal_type wait",
		"?tools=":               "cancel destroy dialogue_read dialogue_respond dialogue_send dialogue_start dialogue_stop input list output run start terminal_screen terminal_start terminal_type wait",
		"?tools=terminal":       "destroy list terminal_screen terminal_start terminal_type",
		"?tools=shell,terminal": "cancel destroy input list output run start terminal_screen terminal_start terminal_type wait",
		"?tools=shell&x=1":      "cancel destroy input list output run start wait",
		"?tools=terminals":      "",
		"?tools=shell,":         "",
	} {
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: web.URL + query, HTTPClient: web.Client()}, nil)
		if want == "" {
			resp, failed := web.Client().Post(web.URL+query, "application/json", strings.NewReader("{}"))
			if failed != nil {
				t.Fatal(failed)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil || resp.StatusCode != 400 || !strings.Contains(string(text), "the groups are shell, terminal, dialogue") {
				t.Errorf("%s: %v, %d %s", query, err, resp.StatusCode, text)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		list, err := session.ListTools(ctx, nil)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestQuiet: a client that comes and goes is no news on stderr.
func TestQuiet(t *testing.T) {
	var log bytes.Buffer
	hello := `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	err := mcp.Serve(t.Context(), mcp.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, io.NopCloser(strings.NewReader(hello)), io.Discard)
	if err != nil || log.Len() > 0 {
		t.Errorf("%v, logged:\n%s", err, log.String())
	}
}

// TestUnenforced: an answer about a new session names the limits and the isolation that are not in
// force there.
func TestUnenforced(t *testing.T) {
	p := serve(t, 0, lacking{trltest.Start(t).Client(t)})
	const line = `\[limit pids is not enforced: there is no cgroup\]\n\[isolation of signals is not enforced: the kernel is old\]`
	p.does("run", map[string]any{"command": "true"}, line+`\n\[exit code 0 .*`)
	p.does("run", map[string]any{"command": "true"}, `\[exit code 0 .*`) // the session is no longer new
	p.does("run", map[string]any{"command": "true", "session": "other"}, `\[new session .*\]\n`+line+`\n\[exit code 0 .*`)
	p.does("start", map[string]any{"command": "true"}, line+`\nstarted .*`)
	p.does("terminal_start", map[string]any{"command": "sh"}, line+`\n.*`)
	for _, tool := range []string{"start", "terminal_start"} {
		answer := p.structured(tool, map[string]any{"command": "true"})
		limits, _ := answer["not_enforced"].([]any)
		if len(limits) != 1 || limits[0].(map[string]any)["limit"] != api.LimitPids {
			t.Errorf("%s: limits %v", tool, limits)
		}
		aspects, _ := answer["isolation_not_enforced"].([]any)
		if len(aspects) != 1 || aspects[0].(map[string]any)["aspect"] != api.AspectSignals {
			t.Errorf("%s: isolation %v", tool, aspects)
		}
	}
}

// lacking is a daemon in whose sessions the limit of processes and the isolation of signals are not
// in force.
type lacking struct{ api.Service }

func (l lacking) SessionInfo(ctx context.Context, p api.SessionInfoParams) (api.SessionDetails, error) {
	info, err := l.Service.SessionInfo(ctx, p)
	info.Limits = &api.SessionLimits{LimitReport: api.LimitReport{NotEnforced: []api.UnenforcedLimit{{Limit: api.LimitPids, Reason: "there is no cgroup"}}}}
	info.Isolation = &api.SessionIsolation{IsolationReport: api.IsolationReport{NotEnforced: []api.UnenforcedAspect{{Aspect: api.AspectSignals, Reason: "the kernel is old"}}}}
	return info, err
}
