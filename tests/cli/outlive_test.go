package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// away are the ways in which a daemon goes and comes back.
var away = map[string]func(*testing.T, *sandbox){
	"upgrade": func(t *testing.T, s *sandbox) {
		if o := s.run(t, "upgrade"); o.status != 0 {
			t.Fatalf("upgrade: %+v", o)
		}
	},
	"crash": func(t *testing.T, s *sandbox) {
		pid := s.daemonPID(t)
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if o := s.run(t, "ls"); o.status != 0 { // which starts the next one
			t.Fatalf("ls: %+v", o)
		}
	},
}

// TestRunOutlivesTheDaemon: the command runs once, and its caller gets all of its output and
// its status.
func TestRunOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	for way, goAway := range away {
		for name, args := range map[string][]string{
			"throw-away": {"run"}, "named": {"run", "-s", "work"},
			"throw-away as JSON": {"run", "--json"}, "named as JSON": {"run", "-s", "work", "--json"},
		} {
			t.Run(way+", "+name, func(t *testing.T) {
				t.Parallel()
				s := newSandbox(t)
				begun, goOn, count := filepath.Join(s.dir, "begun"), filepath.Join(s.dir, "go"), filepath.Join(s.dir, "count")
				command := fmt.Sprintf("echo one; echo x >> %s; touch %s; until [ -e %s ]; do sleep 0.05; done; echo two >&2; echo three; exit 7", count, begun, goOn)
				cmd := s.command(s.trl, append(args, command)...)
				var stdout, stderr strings.Builder
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				eventually(t, "begun", func() bool { _, err := os.Stat(begun); return err == nil })
				goAway(t, s)
				goAway(t, s) // and again
				if err := os.WriteFile(goOn, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				status := wait(t, cmd)
				out, errs := stdout.String(), stderr.String()
				if strings.Contains(name, "JSON") {
					var r struct {
						Stdout, Stderr string
						ExitCode       int `json:"exit_code"`
					}
					if err := json.Unmarshal([]byte(out), &r); err != nil || r.ExitCode != 7 {
						t.Errorf("%s, %v", out, err)
					}
					out, errs = r.Stdout, errs+r.Stderr
				}
				if status != 7 || out != "one\nthree\n" || errs != "two\n" {
					t.Errorf("status %d, stdout %q, stderr %q", status, out, errs)
				}
				if text, _ := os.ReadFile(count); string(text) != "x\n" {
					t.Errorf("it ran %d times", strings.Count(string(text), "x"))
				}
			})
		}
	}
}

// TestRunIsTiedAfterAnUpgrade: a command is cancelled with its caller, as it was before.
func TestRunIsTiedAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run"}, {"run", "-s", "work"}} {
		s := newSandbox(t, "TRL_KILL_GRACE_S=1")
		goOn := filepath.Join(s.dir, "go")
		l := s.startLive(t, append(args, fmt.Sprintf("echo started; until [ -e %s ]; do sleep 0.05; done; echo again; sleep 1003", goOn))...)
		runs := func() bool {
			for _, p := range carriers([]byte(l.mark)) {
				if strings.Contains(p.cmdline, "sleep 1003") && !strings.Contains(p.cmdline, "trl") {
					return true
				}
			}
			return false
		}
		away["upgrade"](t, s)
		if err := os.WriteFile(goOn, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if line, err := l.stdout.ReadString('\n'); line != "again\n" {
			t.Fatalf("%q, %v", line, err)
		}
		eventually(t, "running", runs)
		if err := unix.Kill(l.cmd.Process.Pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		wait(t, l.cmd)
		eventually(t, "cancelled", func() bool { return !runs() })
	}
}

// TestMCPKeepsItsShell: what the default session of a client has set survives an upgrade and
// a crash.
func TestMCPKeepsItsShell(t *testing.T) {
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
	answers := bufio.NewScanner(out)
	answers.Buffer(nil, 1<<20)
	id := 0
	ask := func(method, params string) string {
		t.Helper()
		id++
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
		for answers.Scan() {
			if strings.Contains(answers.Text(), fmt.Sprintf(`"id":%d`, id)) {
				return answers.Text()
			}
		}
		t.Fatalf("%s: no answer: %v", method, answers.Err())
		return ""
	}
	ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	ask("tools/call", `{"name":"run","arguments":{"command":"cd /usr; export KEPT=yes"}}`)
	for way, goAway := range away {
		goAway(t, s)
		if a := ask("tools/call", `{"name":"run","arguments":{"command":"echo \"<$PWD $KEPT>\""}}`); !strings.Contains(a, `</usr yes>`) && !strings.Contains(a, `\u003c/usr yes\u003e`) {
			t.Errorf("%s: %s", way, a)
		}
	}
	in.Close()
	if status := wait(t, cmd); status != 0 {
		t.Errorf("status %d", status)
	}
}
