package cli_test

import (
	"bufio"
	"path/filepath"
	"strings"
	"testing"
)

// TestStdioWithoutReaders: a daemon on stdio whose client died has nobody who reads its
// answers or its log. It ends its sessions, and itself, in order.
func TestStdioWithoutReaders(t *testing.T) {
	s := newSandbox(t)
	cmd := s.command(s.trl, "serve", "--stdio", "--log-level", "debug")
	mark := "TRLCLI_MARK=" + filepath.Base(s.dir)
	cmd.Env = append(cmd.Env, mark)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(stdout)
	say := func(line, want string) {
		t.Helper()
		if _, err := stdin.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
		if answer, err := answers.ReadString('\n'); err != nil || !strings.Contains(answer, want) {
			t.Fatalf("%s: %s, %v", line, answer, err)
		}
	}
	say(`{"id":1,"method":"session.create","params":{"name":"a"}}`, `"ok":true`)
	say(`{"id":2,"method":"exec.stream","params":{"session_id":"a","command":"yes"}}`, `"ok":true`)
	stderr.Close()
	stdout.Close()
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the daemon: %v", err)
	}
	if left := carriers([]byte(mark)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
