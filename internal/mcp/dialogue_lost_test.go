package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// link is a TCP proxy to another daemon; a test can close and reopen it.
type link struct {
	t       *testing.T
	address string // where it listens
	target  string

	mu   sync.Mutex
	ln   net.Listener // guarded by mu
	live []net.Conn   // guarded by mu
	wg   sync.WaitGroup
}

func newLink(t *testing.T, target string) *link {
	l := &link{t: t, address: "127.0.0.1:0", target: strings.TrimPrefix(target, "grpc://")}
	l.open()
	t.Cleanup(func() {
		l.close()
		l.wg.Wait()
	})
	return l
}

// open accepts connections, always at the same address.
func (l *link) open() {
	l.t.Helper()
	ln, err := net.Listen("tcp", l.address)
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	l.ln, l.address = ln, ln.Addr().String()
	l.mu.Unlock()
	l.wg.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", l.target)
			if err != nil {
				near.Close()
				continue
			}
			l.mu.Lock()
			l.live = append(l.live, near, far)
			if l.ln != ln { // it was closed meanwhile
				near.Close()
				far.Close()
			}
			l.mu.Unlock()
			l.wg.Go(func() { pass(near, far) })
			l.wg.Go(func() { pass(far, near) })
		}
	})
}

func pass(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	from.Close()
	to.Close()
}

// close ends the connections and refuses new ones.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ln != nil {
		l.ln.Close()
		l.ln = nil
	}
	for _, c := range l.live {
		c.Close()
	}
	l.live = nil
}

// TestDialogueLost: if the agent runs with another daemon that cannot be reached for a while, every
// tool that needs the agent tries again.
func TestDialogueLost(t *testing.T) {
	testkit.Long(t)
	far := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0"))
	way := newLink(t, far.GRPC(t))
	token, gates := filepath.Join(t.TempDir(), "token"), t.TempDir()
	if err := os.WriteFile(token, []byte(far.Token(t)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := connect(t, 0, trltest.Args("--dialogue-reconnect-s", "0.2"))
	remote := map[string]any{"address": "grpc://" + way.address, "token_file": token}
	p.refuses("dialogue_start", map[string]any{"remote": map[string]any{"token_file": token}}, "address")
	p.refuses("dialogue_start", map[string]any{"remote": map[string]any{"adress": "x"}}, "adress")
	p.does("run", map[string]any{"command": "cd /usr"}, ".*")
	m := p.does("dialogue_start", map[string]any{
		"program": []string{trltest.FakeAgent(t), "-gates", gates}, "remote": remote, "prompt": "cwd; ask Bash ls; say begun; gate a; say through",
	}, `(\S+)\n\[asks .*\[(d-\S+) waits for your answer\]`)
	dir, id := m[1], m[2]
	if dir == "/usr" { // that is a directory of this side
		t.Errorf("%s works in %s", id, dir)
	}

	// Every tool that needs the agent says that it is lost, and what to do.
	way.close()
	p.is(id, api.DialogueError)
	lost := id + ` cannot be reached: .*; dialogue_send tries again`
	p.does("dialogue_send", nil, `\[`+lost+`\]`)
	for tool, args := range map[string]map[string]any{
		"dialogue_send":    {"text": "x"},
		"dialogue_respond": {"decision": "allow"},
		"dialogue_stop":    {"interrupt": true},
	} {
		p.refuses(tool, args, "RUNTIME_UNAVAILABLE: nothing was done: "+id+" cannot be reached: ")
	}
	p.refuses("dialogue_send", map[string]any{"model": "other"}, "nothing was done")

	// It is there again: the request still waits, and is answered.
	way.open()
	found := `\[` + id + ` was unreachable and is reachable again\]\n`
	p.does("dialogue_respond", map[string]any{"decision": "allow", "timeout_s": 0.1}, found+`.*\[`+id+` still works .*`)
	way.close()
	p.does("dialogue_send", nil, `.*\[`+lost+`\]`)
	way.open()
	if err := os.WriteFile(filepath.Join(gates, "a.open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.does("dialogue_send", nil, found+`.*through\n\[`+id+` is idle\]`)

	// A message is sent when it is found.
	way.close()
	p.is(id, api.DialogueError)
	way.open()
	p.does("dialogue_send", map[string]any{"text": "settings", "model": "other"}, found+`\[set: model other\]\nother default\n\[`+id+` is idle\]`)
	way.close()
	p.is(id, api.DialogueError)
	way.open()
	p.does("dialogue_stop", map[string]any{"interrupt": true}, found+`\[`+id+` is idle\]`)

	// An unreachable agent can be stopped; the answer says that it may still run.
	way.close()
	p.is(id, api.DialogueError)
	p.does("dialogue_stop", nil, `ended `+id+`: .*could not be reached, and is ended when it can be; dialogue_start .*`)
	way.open()
	p.does("dialogue_start", map[string]any{"resume": id}, `\[`+id+` is idle\]`)

	p.does("dialogue_stop", nil, `ended .*`)
	left, err := far.Client(t).SessionList(t.Context(), api.SessionListParams{})
	if err != nil || len(left.Sessions) != 0 {
		t.Errorf("over there are %+v, %v", left.Sessions, err)
	}
}

// is waits until a dialogue is in a state.
func (p *peer) is(id string, state api.DialogueState) {
	p.t.Helper()
	testkit.EventuallyNoProblem(p.t, func() string {
		info, err := p.service.DialogueInfo(p.t.Context(), api.DialogueInfoParams{DialogueID: id})
		if err != nil {
			p.t.Fatal(err)
		}
		if info.State == state {
			return ""
		}
		return fmt.Sprintf("%+v", info)
	})
}

// faulty is a service whose dialogues cannot go on.
type faulty struct {
	api.Service
	fault *api.DialogueFault
}

func (f *faulty) info() api.DialogueInfo {
	return api.DialogueInfo{DialogueID: "d-1", State: api.DialogueError, Error: f.fault}
}

func (f *faulty) DialogueInfo(context.Context, api.DialogueInfoParams) (api.DialogueInfo, error) {
	return f.info(), nil
}

func (f *faulty) DialogueRetry(ctx context.Context, _ api.DialogueRetryParams) (api.DialogueInfo, error) {
	if f.fault == nil { // it does not come back soon
		<-ctx.Done()
		return api.DialogueInfo{}, ctx.Err()
	}
	return f.info(), nil
}

// deaf is a service whose agents do not answer.
type deaf struct{ api.Service }

func (deaf) DialogueInfo(context.Context, api.DialogueInfoParams) (api.DialogueInfo, error) {
	return api.DialogueInfo{DialogueID: "d-1", State: api.DialogueIdle}, nil
}

func (deaf) DialogueInterrupt(ctx context.Context, _ api.DialogueInterruptParams) (api.DialogueInfo, error) {
	<-ctx.Done()
	return api.DialogueInfo{}, ctx.Err()
}

// TestDialogueDeaf: an agent that does not answer delays the client for a bounded time.
func TestDialogueDeaf(t *testing.T) {
	p := serve(t, time.Millisecond, deaf{})
	p.refuses("dialogue_stop", map[string]any{"dialogue": "d-1", "interrupt": true}, "AGENT_FAILED: the agent has not answered yet, and the request may still take effect")
}

// TestDialogueFaults: each fault comes with a hint on what to do about it.
func TestDialogueFaults(t *testing.T) {
	service := &faulty{}
	p := serve(t, 50*time.Millisecond, service)
	for reason, c := range map[string]struct{ code, text string }{
		"":              {"RUNTIME_UNAVAILABLE", "d-1 cannot be reached; dialogue_send tries again"},
		"unreachable":   {"RUNTIME_UNAVAILABLE", "d-1 cannot be reached: why; dialogue_send tries again"},
		"refused":       {"RUNTIME_UNAVAILABLE", "d-1 cannot be reached: why; dialogue_send tries again"},
		"auth_rejected": {"RUNTIME_UNAVAILABLE", "d-1 cannot be reached, as its credentials are rejected: why; replace them in the files of its remote, then dialogue_send tries again"},
		"session_gone":  {"RUNTIME_UNAVAILABLE", `the agent of d-1 has ended: why; dialogue_start {"resume": "d-1"} starts it again`},
		"disk":          {"RESOURCE_PRESSURE", "d-1 waits, as its record cannot be written: why; it continues by itself when the disk has room"},
	} {
		if service.fault = nil; reason != "" {
			service.fault = &api.DialogueFault{Reason: reason, Message: "why"}
		}
		p.refuses("dialogue_send", map[string]any{"dialogue": "d-1", "text": "x"}, c.code+": nothing was done: "+c.text)
		if got := p.does("dialogue_send", map[string]any{"dialogue": "d-1"}, `\[(.*)\]`)[1]; got != c.text {
			t.Errorf("%s: %s", reason, got)
		}
	}
}
