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
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/mcp"
	"github.com/trl-dev/trl/tests/trltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

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
	p := &peer{t: t, service: service, told: make(chan struct{}, 100)}
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- mcp.Serve(context.Background(), mcp.Config{Service: p.service, Logger: slog.New(slog.DiscardHandler), Patience: wait}, toServer, fromServer)
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
	// It is part of every prompt.
	if b, _ := json.Marshal(list); len(b) > 14000 {
		t.Errorf("the tools take %d bytes", len(b))
	}
}

func TestRunKeepsState(t *testing.T) {
	p := connect(t, 0)
	p.does("run", map[string]any{"command": "cd /usr; export A=1; f() { echo f:$A; }"}, `\[exit code 0 after .*; x-.*\]`)
	p.does("run", map[string]any{"command": "pwd; f 2>/dev/null || echo f:$A; echo oops >&2; exit 3"}, `/usr\nf:1\n\[stderr\]\noops\n\[exit code 3 after .*\]`)
	p.does("run", map[string]any{"command": "pwd"}, `/usr\n\[exit code 0 .*`)
	p.does("run", map[string]any{"command": "cat; echo $B; pwd", "stdin": "open", "env": map[string]string{"B": "2"}, "working_dir": "/"}, `open2\n/\n\[exit.*`)
	p.does("run", map[string]any{"command": "pwd; true", "session": "other"}, `\[new session "other"\]\n/.*`)
	p.does("run", map[string]any{"command": "sleep 77", "timeout_s": 0.1}, `(?:\[stderr\]\nTerminated\n)?\[timed out after .* and was killed, with 1 process,.*`)
	p.does("list", nil, `(?:.*\n)*s-.* idle .*, name "other"\n.*(?:.*\n)*`)
	p.does("destroy", map[string]any{"session": "other"}, `ended s-.*`)
	p.refuses("destroy", map[string]any{"session": "nobody"}, "SESSION_NOT_FOUND")
	p.refuses("output", map[string]any{"exec_id": "x-1"}, "EXEC_NOT_FOUND")
	p.refuses("run", map[string]any{"command": "x", "tiemout": 1}, "tiemout")
	p.refuses("run", map[string]any{}, "command")
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
	p := connect(t, 300*time.Millisecond)
	m := p.does("run", map[string]any{"command": "echo begun; read x < /dev/zero & sleep 77; echo done"}, `begun\n\[still running after .*; go on with wait \{"exec_id": "(x-[^"]+)"\}, or stop it with cancel\]`)
	p.does("wait", map[string]any{"exec_id": m[1]}, `\[still running .*`)
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

// TestEnd: what the client did not name ends with it.
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
	for deadline := time.Now().Add(patience); ; {
		list, err := p.service.SessionList(context.Background(), api.SessionListParams{})
		if err != nil {
			p.t.Fatal(err)
		}
		have := []string{}
		for _, s := range list.Sessions {
			have = append(have, s.Name)
		}
		if fmt.Sprint(have) == want {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("sessions: %q, want %q", have, names)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestHTTP(t *testing.T) {
	service := trltest.Start(t).Client(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	web := httptest.NewServer(mcp.Handler(ctx, mcp.Config{Service: service, Logger: slog.New(slog.DiscardHandler)}))
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
	a.does("run", map[string]any{"command": "cd /usr; A=1"}, ".*")
	b.does("run", map[string]any{"command": "cd /etc"}, ".*")
	a.does("run", map[string]any{"command": "pwd; echo $A"}, "/usr\n1\n.*")
	b.does("run", map[string]any{"command": "pwd; echo $A"}, "/etc\n\n.*")
	if err := a.session.Close(); err != nil {
		t.Error(err)
	}
	b.alone("")
	b.does("run", map[string]any{"command": "pwd"}, "/etc\n.*")
	if err := b.session.Close(); err != nil {
		t.Error(err)
	}
	b.alone()
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
