// Package cli_test runs the real program as a person or a script would: every
// test in a home, a socket and directories of its own.
package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// patience bounds what should happen soon. Nothing waits that long when all is well.
const patience = 2 * time.Minute

// sandbox is a user of their own.
type sandbox struct {
	dir  string // everything is below it, except what must be in memory
	work string // the working directory
	env  []string
	trl  string
}

// newSandbox makes a user for whom no daemon runs. When the test ends the daemon
// is stopped and everything that is left is an error.
func newSandbox(t *testing.T, env ...string) *sandbox {
	t.Helper()
	trl := trltest.Binary(t)
	dir := testkit.Dir(t)
	runtimeDir := testkit.MemoryDir(t)
	s := &sandbox{dir: dir, work: filepath.Join(dir, "work"), trl: trl}
	for _, name := range []string{"home", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.env = append([]string{
		"PATH=" + filepath.Dir(trl) + ":" + os.Getenv("PATH"),
		"HOME=" + s.home(), "LANG=C.UTF-8", "TERM=xterm", "PWD=" + s.work,
		"TRL_SOCKET_PATH=" + s.socket(), "TRL_STATE_DIR=" + s.state(), "TRL_RUNTIME_DIR=" + runtimeDir,
		// A program with the race detector would sleep a second before it exits.
		"GORACE=atexit_sleep_ms=0 log_path=" + filepath.Join(dir, "race"),
	}, env...)
	t.Cleanup(func() { s.close(t) })
	return s
}

func (s *sandbox) home() string   { return filepath.Join(s.dir, "home") }
func (s *sandbox) state() string  { return filepath.Join(s.dir, "state") }
func (s *sandbox) socket() string { return filepath.Join(s.dir, "run", "trl.sock") }
func (s *sandbox) log() string    { return filepath.Join(s.state(), "trl.log") }

// command prepares a command of the sandbox, in a process group of its own.
func (s *sandbox) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = s.work, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// outcome is what a command printed and how it ended.
type outcome struct {
	stdout, stderr string
	status         int
}

// run runs `trl args...` to its end.
func (s *sandbox) run(t *testing.T, args ...string) outcome {
	t.Helper()
	return s.finish(t, s.command(s.trl, args...))
}

// finish runs a command to its end. Its output goes to files, so that nothing waits
// for others who may have inherited it.
func (s *sandbox) finish(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var files [2]*os.File
	for i := range files {
		f, err := os.CreateTemp(s.dir, "out")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	if cmd.Stdout == nil {
		cmd.Stdout = files[0]
	}
	if cmd.Stderr == nil {
		cmd.Stderr = files[1]
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	status := wait(t, cmd)
	var text [2]string
	for i, f := range files {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		text[i] = string(b)
	}
	return outcome{text[0], text[1], status}
}

// wait waits for the end of a command that was started, and returns its status as
// a shell would tell it.
func wait(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Errorf("%q did not end within %s", cmd.Args, patience)
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGQUIT) // the goroutines tell why
		time.Sleep(2 * time.Second)
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
			<-done
		}
	}
	return statusOf(cmd)
}

// statusOf is the status of a command that has ended, as a shell would tell it.
func statusOf(cmd *exec.Cmd) int {
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// close stops the daemon and looks at what is left.
func (s *sandbox) close(t *testing.T) {
	t.Helper()
	marks := [][]byte{[]byte("HOME=" + s.home())}
	if ids := s.run(t, "--no-start", "ls", "-a", "-q"); ids.status == 0 {
		for _, id := range strings.Fields(ids.stdout) {
			marks = append(marks, []byte("TRL_SESSION_ID="+id))
		}
	}
	if o := s.run(t, "stop"); o.status != 0 {
		t.Errorf("trl stop: status %d: %s", o.status, o.stderr)
	}
	for _, p := range carriers(marks...) {
		t.Errorf("left behind: %s", p)
		_ = unix.Kill(p.pid, unix.SIGKILL)
	}
	if _, err := os.Lstat(s.socket()); err == nil {
		t.Errorf("left behind: %s", s.socket())
	}
	files, _ := filepath.Glob(filepath.Join(s.dir, "race.*"))
	for _, f := range append(files, s.log()) {
		text, _ := os.ReadFile(f)
		if fault.Match(text) {
			t.Errorf("%s:\n%s", f, text)
		}
	}
	if t.Failed() {
		text, _ := os.ReadFile(s.log())
		t.Logf("log of the daemon:\n%s", text[max(0, len(text)-8<<10):])
	}
}

var fault = regexp.MustCompile(`(?m)^panic: |^fatal error: |WARNING: DATA RACE`)

// proc is a process that was left behind.
type proc struct {
	pid     int
	cmdline string
}

func (p proc) String() string { return p.cmdline }

// hasMark reports whether an environment, NUL-separated, holds one of the variables.
func hasMark(environ []byte, marks [][]byte) bool {
	for _, v := range bytes.Split(environ, []byte{0}) {
		for _, m := range marks {
			if bytes.Equal(v, m) {
				return true
			}
		}
	}
	return false
}
