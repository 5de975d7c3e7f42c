package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestEarly: a plain `trl run -s` ends before the packages of the daemon are initialised, and gives
// the result of any other.
func TestEarly(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	if o := s.run(t, "new", "--shell", "sh", "x"); o.status != 0 {
		t.Fatal(o)
	}
	traced := s.command(s.trl)
	traced.Env = append(traced.Env, "GODEBUG=inittrace=1")
	// A busy machine may take longer than package early waits; then the usual path continues.
	testkit.Eventually(t, "a command ends early", func() bool {
		cmd := s.command(s.trl, "run", "-s", "x", "printf 'a\\000\\377'; echo b >&2; exit 3")
		cmd.Env = traced.Env
		o := s.finish(t, cmd)
		if o.status != 3 || o.stdout != "a\x00\xff" || !strings.Contains(o.stderr, "b\n") || !strings.Contains(o.stderr, "init encoding/json @") {
			t.Fatalf("%+v", o)
		}
		return !strings.Contains(o.stderr, "init net @") && !strings.Contains(o.stderr, "init github.com/distribution/reference @")
	})
	count := filepath.Join(s.dir, "count")
	cmd := s.command(s.trl, "run", "-sx", "echo one; echo x >> "+count+"; sleep 0.2; echo two")
	cmd.Env = traced.Env
	o := s.finish(t, cmd)
	if text, _ := os.ReadFile(count); o.status != 0 || o.stdout != "one\ntwo\n" || string(text) != "x\n" {
		t.Errorf("%+v; it ran %d times", o, len(text)/2)
	}
	if !strings.Contains(o.stderr, "init net @") {
		t.Error("a longer command does not continue on the usual path")
	}
}

// TestEarlyIsTheSame compares the plain form with one that package early does not take.
func TestEarlyIsTheSame(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for _, args := range [][]string{{"new", "--shell", "sh", "x"}, {"call", "session.create", `{"name":"prog","kind":"program","command":["cat"]}`}} {
		if o := s.run(t, args...); o.status != 0 {
			t.Fatal(o)
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer pipe.Close()
	for _, tt := range []struct {
		session string
		stdout  *os.File
		words   []string
		status  int
	}{
		{"x", nil, []string{"echo $((1 + 1)); exit 2"}, 2},
		{"x", nil, []string{"printf", "%s|", "a b", "it's", "$HOME", ""}, 0},
		{"x", nil, []string{"sh", "-c", "kill -9 $$"}, 137},
		{"x", nil, []string{"nosuchprogram"}, 127},
		{"x", nil, []string{"i=0; while [ $i -lt 300 ]; do echo out $i; echo err $i >&2; i=$((i + 1)); done"}, 0},
		{"x", nil, []string{"head -c 1000000 /dev/zero | tr '\\0' x"}, 0},
		{"x", nil, []string{"sleep 0.05; echo late"}, 0},
		{"x", nil, []string{"sleep 1001 & echo $((2 + 2)); kill $!"}, 0},
		{"x", full, []string{"echo lost"}, 125},
		{"x", pipe, []string{"echo lost"}, 141},
		{"prog", nil, []string{"true"}, 125},
		{"s-0123456789", nil, []string{"true"}, 125},
		{"not a name", nil, []string{"true"}, 125},
	} {
		var results [2]outcome
		for i, flags := range [][]string{{"-s", tt.session}, {"-s", tt.session, "--timeout", "0"}} {
			cmd := s.command(s.trl, append(append([]string{"run"}, flags...), tt.words...)...)
			if tt.stdout != nil {
				cmd.Stdout = tt.stdout
			}
			results[i] = s.finish(t, cmd)
		}
		if results[0] != results[1] || results[0].status != tt.status {
			t.Errorf("%s %q:\n%.900s\nwant %d and\n%.900s", tt.session, tt.words, fmt.Sprintf("%+v", results[0]), tt.status, fmt.Sprintf("%+v", results[1]))
		}
	}
}

// fake is a daemon that a test plays. It answers on each connection what the test says.
type fake struct {
	t    *testing.T
	ln   net.Listener
	cmd  *exec.Cmd
	out  io.Reader
	errs strings.Builder
}

// talk is one connection.
type talk struct {
	net.Conn
	t     *testing.T
	lines *bufio.Scanner
}

// asked reads the next request, which must be of this method.
func (c *talk) asked(method string) (params map[string]any) {
	c.t.Helper()
	var request struct {
		Method string         `json:"method"`
		Params map[string]any `json:"params"`
	}
	if !c.lines.Scan() || json.Unmarshal(c.lines.Bytes(), &request) != nil || request.Method != method {
		c.t.Fatalf("request %q, %v; want %s", c.lines.Text(), c.lines.Err(), method)
	}
	return request.Params
}

func (c *talk) says(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, format, args...); err != nil {
		c.t.Fatal(err)
	}
}

// startEarly starts `trl run -s x true` with a daemon that the test plays, and returns the
// connection on which the command was sent, with its parameters.
func startEarly(t *testing.T) (f *fake, first *talk, params map[string]any) {
	t.Helper()
	dir := testkit.Dir(t)
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	if err := ln.(*net.UnixListener).SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	f = &fake{t: t, ln: ln, cmd: exec.Command(trltest.Binary(t), "run", "-s", "x", "true")}
	f.cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TRL_SOCKET_PATH=" + filepath.Join(dir, "s"), "TRL_STATE_DIR=" + dir, "GORACE=atexit_sleep_ms=0"}
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	f.cmd.Stderr = &f.errs
	if f.out, err = f.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(-f.cmd.Process.Pid, unix.SIGKILL) })
	first = f.accept()
	first.asked("session.list")
	first.says(`{"id":"1","ok":true,"data":{"sessions":[{"session_id":"s-1","state":"idle","shell":"/bin/sh","shell_family":"sh"}]}}` + "\n")
	return f, first, first.asked("exec.stream")
}

func (f *fake) accept() *talk {
	f.t.Helper()
	conn, err := f.ln.Accept()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		f.t.Fatal(err)
	}
	return &talk{conn, f.t, bufio.NewScanner(conn)}
}

// usual accepts the connection of the usual path.
func (f *fake) usual() *talk {
	f.t.Helper()
	c := f.accept()
	c.asked("system.ping")
	c.says(`{"id":"1","ok":true,"data":{}}` + "\n")
	return c
}

// ended checks how the program ended, and that it was not killed.
func (f *fake) ended(status int, stdout, stderr string) {
	f.t.Helper()
	text, _ := io.ReadAll(f.out)
	_ = f.cmd.Wait()
	if got := f.cmd.ProcessState.ExitCode(); got != status || string(text) != stdout || f.errs.String() != stderr {
		f.t.Errorf("status %d, stdout %q, stderr %q; want %d, %q, %q", got, text, f.errs.String(), status, stdout, stderr)
	}
}

const (
	begins = `{"id":"2","ok":true,"data":{"stream_id":"x-1-1","exec_id":"x-1-1","session_id":"s-1"},"raw":true}` + "\n"
	again  = `{"id":"1","ok":true,"data":{"stream_id":"x-1-1","exec_id":"x-1-1","session_id":"s-1"},"raw":true}` + "\n"
	hello  = `{"stream_id":"x-1-1","seq":1,"type":"stdout","offset":0,"raw":6}` + "\nhello\n"
	exits  = `{"stream_id":"x-1-1","seq":%d,"type":"exit","exit_code":%d,"cancelled":%t}` + "\n"
)

// TestEarlyHandsOver stops package early at every point. The command is sent once, or again with the
// same id, and each byte of its output is printed once.
func TestEarlyHandsOver(t *testing.T) {
	t.Parallel()
	whole := begins + hello + fmt.Sprintf(exits, 2, 7, false)
	for cut := 0; cut < len(whole); cut += 13 {
		t.Run(fmt.Sprintf("slow after %d bytes", cut), func(t *testing.T) {
			t.Parallel()
			f, first, _ := startEarly(t)
			first.says("%s", whole[:cut])
			f.usual()
			first.says("%s", whole[cut:])
			f.ended(7, "hello\n", "")
		})
	}
	for _, cut := range []int{0, 20} {
		t.Run(fmt.Sprintf("lost after %d bytes", cut), func(t *testing.T) {
			t.Parallel()
			f, first, params := startEarly(t)
			first.says("%s", begins[:cut])
			first.Close()
			f.usual()
			second := f.accept()
			if p := second.asked("exec.stream"); p["run_id"] != params["run_id"] || p["command"] != "true" || p["run_id"] == "" {
				t.Errorf("first %v, then %v", params, p)
			}
			second.says("%s", again+hello+fmt.Sprintf(exits, 2, 7, false))
			f.ended(7, "hello\n", "")
		})
	}
	t.Run("lost after the output", func(t *testing.T) {
		t.Parallel()
		f, first, _ := startEarly(t)
		first.says("%s", begins+hello)
		first.Close()
		f.usual()
		second := f.accept()
		if p := second.asked("exec.stream"); p["exec_id"] != "x-1-1" || p["after_seq"] != 1.0 || p["detach"] != false {
			t.Errorf("continues with %v", p)
		}
		second.says("%s", again+fmt.Sprintf(exits, 2, 7, false))
		f.ended(7, "hello\n", "")
	})
	t.Run("slow reader", func(t *testing.T) {
		t.Parallel()
		f, first, _ := startEarly(t)
		const size = 200_000 // more than a pipe holds
		text := strings.Repeat("0123456789", size/10)
		first.says(`%s{"stream_id":"x-1-1","seq":1,"type":"stdout","offset":0,"raw":%d}`+"\n%s"+exits, begins, size, text, 2, 7, false)
		f.usual()
		f.ended(7, text, "")
	})
	for name, tt := range map[string]struct {
		says, stdout, stderr string
		status               int
	}{
		"refused": {`{"id":"2","ok":false,"error":{"code":"SESSION_BUSY","message":"session \"x\": is busy"}}` + "\n", "",
			"trl: session \"x\": is busy\nhint: `trl ps -s x` shows what runs there; --wait waits for its end\n", 125},
		"gap": {begins + hello + `{"stream_id":"x-1-1","seq":2,"type":"gap","stream":"stdout","from":6,"to":9}` + "\n" + fmt.Sprintf(exits, 3, 0, false), "hello\n",
			"trl: exec x-1-1: lost 3 bytes of stdout: the command wrote faster than trl could read\nhint: let the command write to a file, or raise output_bytes (see `trl config`)\n", 125},
		"timed out": {begins + `{"stream_id":"x-1-1","seq":1,"type":"exit","exit_code":124,"timed_out":true,"duration_ms":1000}` + "\n", "", "trl: timed out after 1s\n", 124},
		"unknown":   {begins + `{"stream_id":"x-1-1","seq":1,"type":"new"}` + "\n" + fmt.Sprintf(exits, 2, 7, false), "", "", 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, first, _ := startEarly(t)
			first.says("%s", tt.says)
			f.usual()
			f.ended(tt.status, tt.stdout, tt.stderr)
		})
	}
}

// TestEarlySignal: a signal that comes while the program starts cancels the command, and the program
// exits with the status of the signal. It is not killed by it.
func TestEarlySignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			f, first, _ := startEarly(t)
			if err := f.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			c := f.usual()
			first.says("%s", begins+hello)
			if p := c.asked("exec.cancel"); p["exec_id"] != "x-1-1" || "SIG"+fmt.Sprint(p["signal"]) != unix.SignalName(sig) {
				t.Errorf("cancels %v", p)
			}
			first.says(exits, 2, 130, true)
			f.ended(128+int(sig), "hello\n", "")
		})
	}
}
