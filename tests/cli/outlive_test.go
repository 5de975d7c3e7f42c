package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/testkit"
)

// away are the ways in which a daemon ends and the next one starts.
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
	"vanish": vanish,
}

// vanish kills the daemon. Only the commands that were connected start the next one.
func vanish(t *testing.T, s *sandbox) {
	t.Helper()
	var info struct{ PID int }
	testkit.Eventually(t, "a daemon serves", func() bool {
		o := s.run(t, "--no-start", "call", "system.info")
		return o.status == 0 && json.Unmarshal([]byte(o.stdout), &info) == nil
	})
	if err := unix.Kill(info.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "it is gone", func() bool { return !slices.ContainsFunc(s.daemons(), func(p proc) bool { return p.pid == info.PID }) })
}

// TestRunOutlivesTheDaemon: the command runs once, and its caller gets all of its output and
// its status.
func TestRunOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	for way, goAway := range away {
		for name, args := range map[string][]string{
			"throw-away": {"run"}, "named": {"run", "-s", "work"}, "named before": {"run", "-s", "work"},
			"throw-away as JSON": {"run", "--json"}, "named as JSON": {"run", "-s", "work", "--json"},
		} {
			t.Run(way+", "+name, func(t *testing.T) {
				t.Parallel()
				s := newSandbox(t)
				if name == "named before" { // the command begins while the program starts
					if o := s.run(t, "new", "work"); o.status != 0 {
						t.Fatal(o)
					}
				}
				begun, goOn, count := filepath.Join(s.dir, "begun"), filepath.Join(s.dir, "go"), filepath.Join(s.dir, "count")
				command := fmt.Sprintf("echo one; echo x >> %s; touch %s; until [ -e %s ]; do sleep 0.05; done; echo two >&2; echo three; exit 7", count, begun, goOn)
				cmd := s.command(s.trl, append(args, command)...)
				var stdout, stderr strings.Builder
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				testkit.Eventually(t, "begun", func() bool { _, err := os.Stat(begun); return err == nil })
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

// TestRunOutlivesTheDaemonOfItsSession: a throw-away session is created with the next daemon, if the
// daemon goes away while it creates the session. The command runs once.
func TestRunOutlivesTheDaemonOfItsSession(t *testing.T) {
	t.Parallel()
	for way, goAway := range away {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			begun, goOn, count := filepath.Join(s.dir, "begun"), filepath.Join(s.dir, "go"), filepath.Join(s.dir, "count")
			shell := filepath.Join(s.dir, "bash") // takes long to start
			script := fmt.Sprintf("#!/bin/sh\ntouch %s; until [ -e %s ]; do sleep 0.05; done\nexec bash \"$@\"\n", begun, goOn)
			if err := os.WriteFile(shell, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := s.command(s.trl, "run", "--shell", shell, "echo x | tee -a "+count)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				testkit.Eventually(t, "begun", func() bool { return os.Remove(begun) == nil })
				goAway(t, s)
			}
			if err := os.WriteFile(goOn, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if status := wait(t, cmd); status != 0 || stdout.String() != "x\n" || stderr.String() != "" {
				t.Errorf("status %d, stdout %q, stderr %q", status, stdout.String(), stderr.String())
			}
			if text, _ := os.ReadFile(count); string(text) != "x\n" {
				t.Errorf("it ran %d times", strings.Count(string(text), "x"))
			}
		})
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
		testkit.Eventually(t, "running", runs)
		if err := unix.Kill(l.cmd.Process.Pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		wait(t, l.cmd)
		testkit.Eventually(t, "cancelled", func() bool { return !runs() })
	}
}

// TestRunGoesOnReadingItsStdin: a command that reads its caller's stdin gets all of it, when the
// daemon vanishes in the middle.
func TestRunGoesOnReadingItsStdin(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	cmd := s.command(s.trl, "run", "-i", "read a; echo $a; cat; exit 7")
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
	fmt.Fprintln(in, "one")
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "one\n" {
		t.Fatalf("%q, %v", line, err)
	}
	vanish(t, s)
	for _, word := range []string{"two\n", "three\n"} {
		fmt.Fprint(in, word)
		if line, err := lines.ReadString('\n'); line != word {
			t.Fatalf("%q, %v", line, err)
		}
	}
	in.Close()
	if status := wait(t, cmd); status != 7 {
		t.Errorf("status %d", status)
	}
}

// TestNobodyStartsADaemonUnasked: with --no-start, and after trl stop until the next call, a daemon
// that is away stays away.
func TestNobodyStartsADaemonUnasked(t *testing.T) {
	t.Parallel()
	t.Run("no-start", func(t *testing.T) {
		t.Parallel()
		s := newSandbox(t)
		if o := s.run(t, "new", "a"); o.status != 0 {
			t.Fatalf("%+v", o)
		}
		l := s.startLive(t, "--no-start", "run", "-s", "a", "echo started; sleep 1003")
		vanish(t, s)
		if status := wait(t, l.cmd); status != 125 {
			t.Errorf("status %d", status)
		}
		if list := s.daemons(); len(list) > 0 {
			t.Errorf("started: %v", list)
		}
		if o := s.run(t, "kill", "a"); o.status != 0 {
			t.Errorf("%+v", o)
		}
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		s := newSandbox(t)
		m := s.startMCP(t)
		m.run("true")
		if o := s.run(t, "stop"); o.status != 0 {
			t.Fatalf("%+v", o)
		}
		if list := s.daemons(); len(list) > 0 {
			t.Errorf("started without a call: %v", list)
		}
		if a := m.run("echo hello"); !strings.Contains(a, "hello") {
			t.Error(a)
		}
		m.end()
		if o := s.run(t, "stop"); o.status != 0 {
			t.Errorf("%+v", o)
		}
	})
}

// mcpClient is a client of one trl mcp.
type mcpClient struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
	id      int
}

func (s *sandbox) startMCP(t *testing.T) *mcpClient {
	t.Helper()
	m := &mcpClient{t: t, cmd: s.command(s.trl, "mcp")}
	var err error
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.answers = bufio.NewScanner(out)
	m.answers.Buffer(nil, 1<<20)
	m.ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	fmt.Fprintln(m.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return m
}

func (m *mcpClient) ask(method, params string) string {
	m.t.Helper()
	m.id++
	fmt.Fprintf(m.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", m.id, method, params)
	for m.answers.Scan() {
		if strings.Contains(m.answers.Text(), fmt.Sprintf(`"id":%d`, m.id)) {
			return m.answers.Text()
		}
	}
	m.t.Fatalf("%s: no answer: %v", method, m.answers.Err())
	return ""
}

// run calls the tool run and returns its answer.
func (m *mcpClient) run(command string) string {
	m.t.Helper()
	return m.ask("tools/call", fmt.Sprintf(`{"name":"run","arguments":{"command":%q}}`, command))
}

func (m *mcpClient) end() {
	m.t.Helper()
	m.in.Close()
	if status := wait(m.t, m.cmd); status != 0 {
		m.t.Errorf("status %d", status)
	}
}

// TestMCPKeepsItsShell: what the default session of a client has set survives an upgrade and
// a crash.
func TestMCPKeepsItsShell(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	m := s.startMCP(t)
	m.run("cd /usr; export KEPT=yes")
	for way, goAway := range away {
		goAway(t, s)
		if a := m.run("echo \"$PWD+$KEPT\""); !strings.Contains(a, "/usr+yes") {
			t.Errorf("%s: %s", way, a)
		}
	}
	m.end()
}
