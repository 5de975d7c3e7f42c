package cli_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/testkit"
)

const mcpHello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// mcpRun is a call of the tool run.
func mcpRun(id int, command string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run","arguments":{"command":%q}}}`+"\n", id, command)
}

// TestMCPAnswersFirst: at the end of its input, a file, trl mcp answers every request that it
// has read, and then ends.
func TestMCPAnswersFirst(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for name, c := range map[string]struct {
		input string
		want  []string
	}{
		"a few": {mcpHello + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n" + mcpRun(2, "sleep 0.5; echo hi"),
			[]string{`"id":"hello","result"`, `"id":1,"result"`, `"id":2,"result"`, `hi\n`}},
		"no line end": {mcpHello + strings.TrimSpace(mcpRun(1, "echo hi")), []string{`"id":"hello","result"`, `hi\n`}},
		"an unknown method": {mcpHello + mcpRun(1, "echo hi") + `{"jsonrpc":"2.0","id":2,"method":"no/such"}` + "\n",
			[]string{`"id":1,"result"`, `"id":2,"error"`}},
		"one that is given up": {mcpHello + mcpRun(1, "sleep 1000") + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n" + mcpRun(2, "echo hi"),
			[]string{`"id":2,"result"`, `hi\n`}},
		"the same id twice": {mcpHello + mcpRun(1, "sleep 0.2; echo hi") + mcpRun(1, "echo twice"), []string{`"id":1,"result"`, `hi\n`}},
		"nothing":           {"", nil},
	} {
		file := filepath.Join(s.dir, "input")
		if err := os.WriteFile(file, []byte(c.input), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		cmd := s.command(s.trl, "mcp")
		cmd.Stdin = in
		got := s.finish(t, cmd)
		in.Close()
		if got.status != 0 || got.stderr != "" {
			t.Errorf("%s: status %d, stderr %q", name, got.status, got.stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("%s: no %s in\n%s", name, want, got.stdout)
			}
		}
	}
	var many strings.Builder
	many.WriteString(mcpHello)
	const calls = 200
	for id := range calls {
		many.WriteString(mcpRun(id, "echo hi"))
	}
	cmd := s.command(s.trl, "mcp")
	cmd.Stdin = strings.NewReader(many.String())
	if got := s.finish(t, cmd); strings.Count(got.stdout, "\n") != calls+1 {
		t.Errorf("%d requests: %d answers", calls+1, strings.Count(got.stdout, "\n"))
	}
}

// TestMCPClientGone: a client that cannot read its answers any more, or that wants trl mcp to
// end, does not have to wait for the call that runs.
func TestMCPClientGone(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for name, leave := range map[string]func(pid int, in, out io.Closer) error{
		"dies":           func(_ int, in, out io.Closer) error { in.Close(); return out.Close() },
		"does not read":  func(_ int, _, out io.Closer) error { return out.Close() },
		"stops it":       func(pid int, _, _ io.Closer) error { return unix.Kill(pid, unix.SIGTERM) },
		"ends and stops": func(pid int, in, _ io.Closer) error { in.Close(); return unix.Kill(pid, unix.SIGTERM) },
	} {
		cmd := s.command(s.trl, "mcp")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		started := filepath.Join(s.dir, "started")
		if _, err := io.WriteString(in, mcpHello+mcpRun(1, "touch "+started+"; sleep 1000")); err != nil {
			t.Fatal(err)
		}
		answers := bufio.NewReader(out)
		if _, err := answers.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the call runs", func() bool { return os.Remove(started) == nil })
		if err := leave(cmd.Process.Pid, in, out); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(answers)
		if status := wait(t, cmd); status != 0 || bytes.Contains(rest, []byte("still running")) || name == "stops it" && stderr.Len() > 0 {
			t.Errorf("%s: status %d, answers %s, stderr %s", name, status, rest, stderr.String())
		}
		in.Close()
	}
}

// TestMCPAfterStop: trl mcp leaves a stopped daemon alone, and starts another one at the next call,
// as every command does. The model learns that its session is a new one.
func TestMCPAfterStop(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	cmd := s.command(s.trl, "mcp")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	ask := func(request string) string {
		t.Helper()
		if _, err := io.WriteString(in, request); err != nil {
			t.Fatal(err)
		}
		answer, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	ask(mcpHello)
	if a := ask(mcpRun(1, "export v=kept; cd /; echo $v")); !strings.Contains(a, `kept\n`) {
		t.Error(a)
	}
	for n := range 2 {
		if o := s.run(t, "stop"); o.status != 0 {
			t.Fatalf("%+v", o)
		}
		time.Sleep(500 * time.Millisecond) // nothing may happen in this time
		if o := s.run(t, "--no-start", "ls"); o.status == 0 {
			t.Fatalf("trl mcp started a daemon that nobody needs: %+v", o)
		}
		began := time.Now()
		if a := ask(mcpRun(2+n, "echo v=$v")); !strings.Contains(a, `v=\n`) {
			t.Errorf("after %s: %s", time.Since(began), a)
		}
		if took := time.Since(began); took > 8*time.Second { // it once looked for the old daemon for 10 s
			t.Errorf("it took %s", took)
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
