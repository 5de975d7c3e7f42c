package cli_test

import (
	"bufio"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// TestStdioWithoutReaders: a daemon on stdio whose client died has no reader for its answers and its
// log. It ends its sessions, and itself, in order.
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

// TestStdioAnswersFirst: at the end of its input a daemon on stdio answers everything that
// it has read, streams to their end, and then ends.
func TestStdioAnswersFirst(t *testing.T) {
	s := newSandbox(t)
	cmd := s.command(s.trl, "serve", "--stdio")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(stdout)
	if _, err := stdin.Write([]byte(`{"id":1,"method":"session.create","params":{"name":"a"}}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if answer, err := answers.ReadString('\n'); err != nil || !strings.Contains(answer, `"ok":true`) {
		t.Fatalf("%s, %v", answer, err)
	}
	if _, err := stdin.Write([]byte(`{"id":2,"method":"exec.run","params":{"session_id":"a","command":"sleep 0.5; echo one","wait":true}}
{"id":3,"method":"exec.stream","params":{"session_id":"a","command":"echo two; sleep 0.5; echo three","wait":true}}
{"id":4,"method":"exec.run","params":{"session_id":"a","command":"exit 3","wait":true}}
{"id":5,"method":"system.ping"}
`)); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	out, err := io.ReadAll(answers)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v", err)
	}
	for _, want := range []string{`{"id":5,"ok":true`, `"stdout":"one\n"`, `three\n"`, `"type":"exit"`, `"exit_code":3`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// TestStdioReaderGone: a client that cannot read answers any more counts as disconnected, also with
// requests under way.
func TestStdioReaderGone(t *testing.T) {
	s := newSandbox(t)
	cmd := s.command(s.trl, "serve", "--stdio")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Write([]byte(`{"id":1,"method":"session.create","params":{"name":"a"}}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if answer, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("%s, %v", answer, err)
	}
	if _, err := stdin.Write([]byte(`{"id":2,"method":"exec.run","params":{"session_id":"a","command":"sleep 1000"}}` + "\n")); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	stdout.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the daemon: %v", err)
	}
}

// TestStdioNamesAtOnce: a request may name a session whose creation is in the line before it.
func TestStdioNamesAtOnce(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for range 10 {
		cmd := s.command(s.trl, "serve", "--stdio")
		cmd.Stdin = strings.NewReader(strings.Join([]string{
			`{"id":1,"method":"session.create","params":{"name":"a"}}`,
			`{"id":2,"method":"exec.run","params":{"session_id":"a","command":"echo ran","wait":true}}`,
			`{"id":3,"method":"exec.start","params":{"session_id":"a","command":"echo started","wait":true}}`,
			`{"id":4,"method":"exec.stream","params":{"session_id":"a","command":"echo streamed","wait":true}}`,
			`{"id":5,"method":"session.info","params":{"session_id":"a"}}`,
			`{"id":6,"method":"exec.list","params":{"session_id":"a"}}`,
			`{"id":7,"method":"session.set","params":{"session_id":"a","tags":["x"]}}`,
			`{"id":8,"method":"session.create","params":{"name":"t","kind":"terminal","command":["cat"]}}`,
			`{"id":9,"method":"session.input","params":{"session_id":"t","text":"typed\r"}}`,
			`{"id":10,"method":"session.wait","params":{"session_id":"t","text":"typed","timeout_s":30}}`,
			`{"id":11,"method":"session.create","params":{"name":"bad","shell":"/nonexistent"}}`,
			`{"id":12,"method":"exec.run","params":{"session_id":"bad","command":"true"}}`,
			`{"id":13,"method":"session.create","params":{"name":"gone"}}`,
			`{"id":14,"method":"session.destroy","params":{"session_id":"gone"}}`,
		}, "\n") + "\n")
		o := s.finish(t, cmd)
		for _, want := range []string{
			`{"id":2,"ok":true,`, `"stdout":"ran\n"`, `{"id":3,"ok":true,`, `{"id":4,"ok":true,`, `"data":"streamed\n"`, `{"id":5,"ok":true,`, `{"id":6,"ok":true,`,
			`{"id":7,"ok":true,`, `{"id":9,"ok":true,`, `{"id":10,"ok":true,`, `{"id":11,"ok":false,"error":{"code":"SHELL_NOT_FOUND"`,
			`{"id":12,"ok":false,"error":{"code":"SESSION_NOT_FOUND"`, `{"id":14,"ok":true,`,
		} {
			if !strings.Contains(o.stdout, want) {
				t.Errorf("no %s in\n%s", want, o.stdout)
			}
		}
		if t.Failed() {
			return
		}
	}
}
