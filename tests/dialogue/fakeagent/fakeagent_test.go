package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// run is a fake agent that runs.
type run struct {
	*testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
	all    []byte // of stdout until now
}

var claudeFlags = []string{"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--permission-prompt-tool", "stdio"}

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fakeagent")
	if err == nil {
		binary = filepath.Join(dir, "fakeagent")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func begin(t *testing.T, args ...string) *run {
	t.Helper()
	r := &run{T: t, cmd: exec.CommandContext(t.Context(), binary, args...)}
	r.cmd.Stderr = &r.stderr
	r.in, _ = r.cmd.StdinPipe()
	out, _ := r.cmd.StdoutPipe()
	r.out = bufio.NewReader(out)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// say sends a message with a script.
func (r *run) say(script string) {
	r.send(map[string]any{"type": "user", "uuid": "11111111-1111-4111-8111-111111111111", "message": map[string]any{"role": "user", "content": script}})
}

func (r *run) send(v any) {
	r.Helper()
	b, _ := json.Marshal(v)
	if _, err := r.in.Write(append(b, '\n')); err != nil {
		r.Error(err)
	}
}

// until reads lines up to one that fits, and returns it.
func (r *run) until(kind, subtype string) map[string]any {
	r.Helper()
	for {
		line, err := r.out.ReadBytes('\n')
		r.all = append(r.all, line...)
		if err != nil {
			r.Fatalf("no %s %s: %v\n%s", kind, subtype, err, r.all)
		}
		var o map[string]any
		if json.Unmarshal(line, &o) == nil && o["type"] == kind && (subtype == "" || o["subtype"] == subtype) {
			return o
		}
	}
}

// end closes stdin and returns how it ended.
func (r *run) end() (code int, signal syscall.Signal) {
	r.Helper()
	r.in.Close()
	rest, _ := io.ReadAll(r.out)
	r.all = append(r.all, rest...)
	_ = r.cmd.Wait()
	ws := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		signal = ws.Signal()
	}
	return ws.ExitStatus(), signal
}

// types are those of the lines, with their subtypes, or "not JSON".
func types(all []byte) (list []string) {
	for line := range bytes.Lines(all) {
		var o struct{ Type, Subtype string }
		if json.Unmarshal(line, &o) != nil {
			o.Type = "?"
		}
		list = append(list, strings.TrimSuffix(o.Type+"/"+o.Subtype, "/"))
	}
	return list
}

func TestTurn(t *testing.T) {
	r := begin(t, append([]string{"-seed", "x"}, claudeFlags...)...)
	r.send(map[string]any{"type": "control_request", "request_id": "trl-1", "request": map[string]any{"subtype": "initialize"}})
	r.until("control_response", "")
	r.say("say hello; tool Bash ls; garbage; ask Bash rm")
	request := r.until("control_request", "")
	for _, behavior := range []string{"allow", "deny"} { // the second is dropped
		r.send(map[string]any{"type": "control_response", "response": map[string]any{"subtype": "success", "request_id": request["request_id"],
			"response": map[string]any{"behavior": behavior}}})
	}
	if result := r.until("result", ""); result["result"] != "hello" || result["is_error"] != false {
		t.Errorf("%v", result)
	}
	r.say("say again") // the same id
	code, _ := r.end()
	want := []string{"control_response", "command_lifecycle", "command_lifecycle", "system/init", "assistant", "assistant", "user", "?", "assistant",
		"control_request", "user", "result/success", "command_lifecycle"}
	if got := types(r.all); code != 0 || !slices.Equal(got, want) {
		t.Errorf("exit code %d\n%q\n%q", code, got, want)
	}
}

func TestInterrupt(t *testing.T) {
	r := begin(t, claudeFlags...)
	r.say("ask Bash rm")
	r.until("control_request", "")
	r.send(map[string]any{"type": "control_request", "request_id": "trl-1", "request": map[string]any{"subtype": "interrupt"}})
	at := len(r.all)
	if result := r.until("result", "error_during_execution"); result["terminal_reason"] != "aborted_tools" {
		t.Errorf("%v", result)
	}
	if got, want := types(r.all[at:]), []string{"control_cancel_request", "control_response", "user", "user", "result/error_during_execution"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if code, _ := r.end(); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

// TestEqualRuns: the same seed makes the same bytes, also when it dies at one of them.
func TestEqualRuns(t *testing.T) {
	script := "think so; say hello, world; subagent; background-task; orphan-child; line 3000; crlf x; blank; fail-tool Read /x"
	whole := begin(t, append([]string{"-seed", "1"}, append(claudeFlags, "--include-partial-messages")...)...)
	whole.say(script)
	whole.end()
	if n := bytes.Count(whole.all, []byte("\n")); n < 60 {
		t.Fatalf("%d lines", n)
	}
	for at := 0; at < len(whole.all); at += 997 {
		r := begin(t, append([]string{"-seed", "1", "-die-at", fmt.Sprint(at)}, append(claudeFlags, "--include-partial-messages")...)...)
		r.say(script)
		if _, signal := r.end(); signal != syscall.SIGKILL || !bytes.Equal(r.all, whole.all[:at]) {
			t.Fatalf("at %d: %d bytes, signal %v", at, len(r.all), signal)
		}
	}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		flags  []string
		script string
		code   int
		signal syscall.Signal
		stderr string
	}{
		{claudeFlags, "exit 7", 7, 0, ""},
		{claudeFlags, "kill9-mid-line", -1, syscall.SIGKILL, ""},
		{claudeFlags, "stderr so it is; exit-mid-line 3", 3, 0, "so it is"},
		{append([]string{"-fail", "no key"}, claudeFlags...), "", 1, 0, "no key"},
		{append([]string{"--no-such-flag"}, claudeFlags...), "", 1, 0, "unknown option '--no-such-flag'"},
		{claudeFlags[:5], "", 1, 0, "requires --verbose"},
	} {
		r := begin(t, c.flags...)
		if c.script != "" {
			r.say(c.script)
		}
		code, signal := r.end()
		if code != c.code || signal != c.signal || !strings.Contains(r.stderr.String(), c.stderr) {
			t.Errorf("%q %q: %d, %v, %s", c.flags, c.script, code, signal, &r.stderr)
		}
	}
}

func TestExactLines(t *testing.T) {
	r := begin(t, claudeFlags...)
	r.say("line 64KiB; line 1MiB+1; flood 300KB 1000")
	r.end()
	var long []int
	small := 0
	for line := range bytes.Lines(r.all) {
		if n := len(line) - 1; n > 10000 {
			long = append(long, n)
		} else if n > 1000 {
			small++
		}
	}
	if !slices.Equal(long, []int{64 << 10, 1<<20 + 1}) || small != 300 {
		t.Errorf("%d, %d", long, small)
	}
}

func TestTerm(t *testing.T) {
	r := begin(t, claudeFlags...)
	r.say("spawn sleep 1000; hang")
	pid := 0
	text := r.until("assistant", "")["message"].(map[string]any)["content"].([]any)[0].(map[string]any)["text"].(string)
	if _, err := fmt.Sscanf(text, "spawned %d", &pid); err != nil {
		t.Fatal(text)
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, _ := r.end(); code != 143 {
		t.Errorf("exit code %d", code)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("what it started in a session of its own is gone: %v", err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// TestStartIsQuick is no bound, but tells what a start costs.
func TestStartIsQuick(t *testing.T) {
	const n = 50
	before := time.Now()
	for range n {
		begin(t, claudeFlags...).end()
	}
	t.Logf("%s a start", time.Since(before)/n)
}

func TestACP(t *testing.T) {
	r := begin(t, "-acp", "-seed", "x", "-flat")
	call := func(id int, method string, params map[string]any) {
		r.send(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	}
	answer := func() (o map[string]any) {
		for {
			line, err := r.out.ReadBytes('\n')
			r.all = append(r.all, line...)
			if err != nil || json.Unmarshal(line, &o) != nil {
				t.Fatalf("%v\n%s", err, r.all)
			}
			if o["method"] != "session/update" {
				return o
			}
			o = nil
		}
	}
	call(1, "initialize", map[string]any{"protocolVersion": 1})
	answer()
	call(2, "session/new", map[string]any{"cwd": "/", "mcpServers": []any{}})
	session := answer()["result"].(map[string]any)["sessionId"]
	call(3, "session/prompt", map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": "say hello; tool Read /x; ask Bash rm"}}})
	request := answer()
	if request["method"] != "session/request_permission" {
		t.Fatalf("%v", request)
	}
	r.send(map[string]any{"jsonrpc": "2.0", "id": request["id"], "result": map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "always"}}})
	if done := answer(); done["result"].(map[string]any)["stopReason"] != "end_turn" || !bytes.Contains(r.all, []byte("done with always: rm")) {
		t.Errorf("%v\n%s", done, r.all)
	}
	call(4, "session/prompt", map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": "hang"}}})
	r.send(map[string]any{"jsonrpc": "2.0", "method": "session/cancel", "params": map[string]any{"sessionId": session}})
	if done := answer(); done["result"].(map[string]any)["stopReason"] != "cancelled" {
		t.Errorf("%v", done)
	}
	if code, _ := r.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
