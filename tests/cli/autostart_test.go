package cli_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/testkit"
)

// daemons lists the daemons of the sandbox.
func (s *sandbox) daemons() []proc {
	var list []proc
	for _, p := range carriers([]byte("HOME=" + s.home())) {
		if strings.Contains(p.cmdline, " serve ") {
			list = append(list, p)
		}
	}
	return list
}

// daemonPID asks the daemon for its process id.
func (s *sandbox) daemonPID(t *testing.T) int {
	t.Helper()
	var info struct{ PID int }
	o := s.run(t, "call", "system.info")
	if err := json.Unmarshal([]byte(o.stdout), &info); err != nil {
		t.Fatalf("%s: %+v", err, o)
	}
	return info.PID
}

// freeze stops every thread of the daemon until the end of the test, and returns its process id.
func (s *sandbox) freeze(t *testing.T) int {
	t.Helper()
	pid := s.daemonPID(t)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGCONT) })
	testkit.Eventually(t, "all its threads are stopped", func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return !slices.ContainsFunc(tasks, func(path string) bool {
			text, err := os.ReadFile(path)
			return err == nil && !strings.Contains(string(text), ") T ")
		})
	})
	return pid
}

func TestManyStartOneDaemon(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	const many = 20
	outcomes := make(chan outcome, many)
	for range many {
		cmd := s.command(s.trl, "run", "echo hello")
		go func() {
			out, err := cmd.Output()
			o := outcome{stdout: string(out)}
			if exit, ok := err.(*exec.ExitError); ok {
				o.stderr, o.status = string(exit.Stderr), exit.ExitCode()
			}
			outcomes <- o
		}()
	}
	for range many {
		if o := <-outcomes; o.stdout != "hello\n" || o.status != 0 {
			t.Errorf("%+v", o)
		}
	}
	if list := s.daemons(); len(list) > 1 {
		t.Errorf("%d daemons: %v", len(list), list)
	}
}

// TestManyMakeOneSession: the second command finds the session that the first one created.
func TestManyMakeOneSession(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	const many = 10
	outcomes := make(chan outcome, many)
	for range many {
		cmd := s.command(s.trl, "run", "-s", "shared", "--wait", "n=$((n+1))")
		go func() {
			out, err := cmd.CombinedOutput()
			outcomes <- outcome{stdout: string(out), status: exitStatus(err)}
		}()
	}
	for range many {
		if o := <-outcomes; o.status != 0 || o.stdout != "" {
			t.Errorf("%+v", o)
		}
	}
	if o := s.run(t, "run", "-s", "shared", "echo $n"); o.stdout != "10\n" {
		t.Errorf("%+v", o)
	}
}

func exitStatus(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return 0
}

func TestAutoExit(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "TRL_AUTO_EXIT_S=0.2")
	for range 2 { // and it starts again
		if o := s.run(t, "run", "echo hello"); o.stdout != "hello\n" {
			t.Fatalf("%+v", o)
		}
		testkit.Eventually(t, "the daemon ends by itself", func() bool {
			_, err := os.Lstat(s.socket())
			return err != nil && len(s.daemons()) == 0
		})
	}
}

// TestAutoExitLeavesNoCallerAlone: while the daemon keeps exiting for lack of work, no command that
// starts at that moment gets an error.
func TestAutoExitLeavesNoCallerAlone(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "TRL_AUTO_EXIT_S=0.02")
	for i := range 40 {
		time.Sleep(18*time.Millisecond + time.Duration(i)*100*time.Microsecond) // around that time
		if o := s.run(t, "run", "echo hello"); o.stdout != "hello\n" || o.status != 0 {
			t.Fatalf("%+v", o)
		}
	}
	testkit.Eventually(t, "the last one has ended", func() bool { return len(s.daemons()) == 0 })
}

// TestDaemonThatTakesTheConnectionWithIt plays a daemon that exits just when a client has connected.
func TestDaemonThatTakesTheConnectionWithIt(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run", "echo hello"}, {"run", "-s", "work", "echo hello"}} {
		s := newSandbox(t)
		if err := os.Mkdir(filepath.Dir(s.socket()), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", s.socket())
		if err != nil {
			t.Fatal(err)
		}
		played := make(chan error, 1)
		go func() {
			conn, err := l.Accept()
			if err == nil {
				_ = l.Close() // and removes the socket
				err = conn.Close()
			}
			played <- err
		}()
		if o := s.run(t, args...); o.stdout != "hello\n" || o.status != 0 || o.stderr != "" {
			t.Errorf("%q: %+v", args, o)
		}
		if err := <-played; err != nil {
			t.Error(err)
		}
	}
}

func TestAutoExitWaitsForSessions(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "TRL_AUTO_EXIT_S=0.2")
	if o := s.run(t, "new", "stays"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	pid := s.daemonPID(t)
	// A throw-away session that comes and goes sets the clock again; the other one stops it.
	if o := s.run(t, "run", "sleep 1"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	if again := s.daemonPID(t); again != pid {
		t.Errorf("the daemon %d ended although a session lives; now it is %d", pid, again)
	}
}

func TestNoStart(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for _, args := range [][]string{
		{"run", "--no-start", "true"}, {"ls", "--no-start"}, {"--no-start", "new"}, {"ps", "--no-start"},
		{"kill", "--no-start", "--all"}, {"cancel", "--no-start"}, {"info", "x", "--no-start"}, {"call", "system.ping", "--no-start"},
	} {
		o := s.run(t, args...)
		if o.status != 125 || !strings.Contains(o.stderr, "no daemon is running on "+s.socket()) || !strings.Contains(o.stderr, "hint: ") {
			t.Errorf("%q: %+v", args, o)
		}
	}
	if _, err := os.Lstat(s.state()); err == nil {
		t.Error("the state directory was made")
	}
}

// TestNoStartWithALostSocket: a daemon that cannot be reached is not called absent.
func TestNoStartWithALostSocket(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	if o := s.run(t, "ls"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	pid := s.freeze(t) // so that it makes no other socket
	if err := os.Remove(s.socket()); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("the daemon with pid %d does not answer on %s", pid, s.socket())
	for _, args := range [][]string{{"ls", "--no-start"}, {"log"}} {
		if o := s.run(t, args...); o.status != 125 || !strings.Contains(o.stderr, want) || !strings.Contains(o.stderr, "trl stop") {
			t.Errorf("%q: %+v", args, o)
		}
	}
}

// TestFrozenDaemon: no command waits forever for a daemon that accepts connections and answers nothing,
// and trl stop ends it.
func TestFrozenDaemon(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	if o := s.run(t, "new", "kept"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	pid := s.freeze(t)
	want := fmt.Sprintf("trl: the daemon with pid %d does not answer on %s\n", pid, s.socket())
	t.Run("commands", func(t *testing.T) {
		for _, line := range []string{"ls", "ls --no-start", "run true", "run -s kept true", "log", "mcp"} {
			t.Run(line, func(t *testing.T) {
				t.Parallel()
				if o := s.run(t, strings.Fields(line)...); o.status != 125 || !strings.HasPrefix(o.stderr, want) || !strings.Contains(o.stderr, "hint: `trl stop` ends it") {
					t.Errorf("%+v", o)
				}
			})
		}
	})
	if o := s.run(t, "stop"); o.status != 0 || o.stderr != "" {
		t.Errorf("trl stop: %+v", o)
	}
	if list := s.daemons(); len(list) > 0 {
		t.Errorf("still there: %+v", list)
	}
}

// TestObservingStartsNoDaemon: the commands that show the state of the daemon itself start none,
// because a new daemon would have nothing to show.
func TestObservingStartsNoDaemon(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for _, args := range [][]string{{"config", "--daemon"}, {"log"}, {"log", "-f"}, {"log", "--no-start"}, {"web"}, {"web", "revoke", "--all"}} {
		o := s.run(t, args...)
		if o.status != 125 || o.stdout != "" || !strings.Contains(o.stderr, "no daemon is running on "+s.socket()) || !strings.Contains(o.stderr, "hint: ") {
			t.Errorf("%q: %+v", args, o)
		}
	}
	if o := s.run(t, "config"); o.status != 0 {
		t.Errorf("the settings of the next daemon: %+v", o)
	}
	if _, err := os.Lstat(s.state()); err == nil {
		t.Error("the state directory was made")
	}
	if o := s.run(t, "ls"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	for _, args := range [][]string{{"config", "--daemon"}, {"log"}} {
		if o := s.run(t, args...); o.status != 0 || o.stdout == "" {
			t.Errorf("%q with a daemon: %+v", args, o)
		}
	}
}

func TestFailedStartQuotesTheLog(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	open := filepath.Join(s.dir, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "TRL_RUNTIME_DIR="+open)
	o := s.run(t, "run", "true")
	if o.status != 125 || !strings.Contains(o.stderr, open+": has mode 0755, must be 0700") || !strings.Contains(o.stderr, s.log()) {
		t.Errorf("%+v", o)
	}
	info, err := os.Stat(s.log())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("log: %v, %v", info, err)
	}
}

// TestDaemonIsNobodysInParticular: what the first caller has set does not turn up
// in the sessions of others, nor do the signals it ignores.
func TestDaemonIsNobodysInParticular(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	first := s.command("/bin/sh", "-c", `trap '' INT HUP; FIRST=yes exec trl run 'echo $FIRST'`)
	if o := s.finish(t, first); o.stdout != "yes\n" {
		t.Fatalf("%+v", o)
	}
	if o := s.run(t, "run", "echo ${FIRST-none}"); o.stdout != "none\n" {
		t.Errorf("%+v", o)
	}
	for _, sig := range []string{"INT", "HUP"} {
		if o := s.run(t, "run", `sh -c 'kill -`+sig+` $$; echo survived'`); o.stdout != "" {
			t.Errorf("SIG%s is ignored in sessions: %+v", sig, o)
		}
	}
}

func TestNextDaemonFindsTheSessions(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	if o := s.run(t, "run", "-s", "kept", "x=still"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	pid := s.daemonPID(t)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if o := s.run(t, "run", "-s", "kept", "echo $x"); o.stdout != "still\n" {
		t.Errorf("%+v", o)
	}
	if again := s.daemonPID(t); again == pid {
		t.Errorf("the daemon %d was not replaced", pid)
	}
}

// TestStopWaitsForOneThatIsEnding: the second stop also returns when the daemon has ended.
func TestStopWaitsForOneThatIsEnding(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "TRL_KILL_GRACE_S=1")
	l := s.startLive(t, "run", "-s", "busy", stubborn)
	first := s.command(s.trl, "stop")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "no socket", func() bool { _, err := os.Lstat(s.socket()); return err != nil })
	if o := s.run(t, "stop"); o.status != 0 || o.stderr != "" {
		t.Errorf("%+v", o)
	}
	if list := s.daemons(); len(list) > 0 {
		t.Errorf("still there: %v", list)
	}
	if status := wait(t, first); status != 0 {
		t.Errorf("the first stop: status %d", status)
	}
	wait(t, l.cmd)
}

func TestStop(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "TRL_KILL_GRACE_S=1")
	if o := s.run(t, "stop"); o.status != 0 || !strings.Contains(o.stderr, "no daemon is running") {
		t.Errorf("without a daemon: %+v", o)
	}
	l := s.startLive(t, "run", "-s", "busy", stubborn+" & "+family)
	if o := s.run(t, "stop"); o.status != 0 || o.stdout+o.stderr != "" {
		t.Errorf("%+v", o)
	}
	// No wait is needed: the daemon has ended when stop returns.
	if list := s.daemons(); len(list) > 0 {
		t.Errorf("still there: %v", list)
	}
	if _, err := os.Lstat(s.socket()); err == nil {
		t.Errorf("still there: %s", s.socket())
	}
	// The caller of the command gets the reason.
	if status := wait(t, l.cmd); status != 125 && status != 130 {
		t.Errorf("status %d of the command that was running", status)
	}
	l.mustBeGone(t)
}

// TestDaemonReplacesItself: a command that starts no daemon tries again when the daemon has accepted its
// connection and closed it without an answer, as one does that becomes a newer one.
func TestDaemonReplacesItself(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	if err := os.Mkdir(filepath.Dir(s.socket()), 0o700); err != nil {
		t.Fatal(err)
	}
	l := testkit.Must(net.Listen("unix", s.socket()))(t)
	defer l.Close()
	go func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			for in := json.NewDecoder(conn); n > 0; {
				var request struct{ ID json.RawMessage }
				if in.Decode(&request) != nil {
					break
				}
				_, _ = fmt.Fprintf(conn, `{"id":%s,"ok":true,"data":{"version":"newer"}}`+"\n", request.ID)
			}
			conn.Close()
		}
	}()
	if o := s.run(t, "--no-start", "call", "system.ping"); o.status != 0 || !strings.Contains(o.stdout, "newer") {
		t.Errorf("%+v", o)
	}
}
