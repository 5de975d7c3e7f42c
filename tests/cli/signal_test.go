package cli_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/testkit"
)

// live is a command that was started and has said its first line.
type live struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
	mark   string // in the environment of everything it started
}

// startLive starts `trl args...` and waits for the line "started".
func (s *sandbox) startLive(t *testing.T, args ...string) *live {
	t.Helper()
	l := &live{cmd: s.command(s.trl, args...), mark: "TRLCLI_MARK=" + filepath.Base(s.dir)}
	l.cmd.Env = append(l.cmd.Env, l.mark)
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := os.OpenFile(filepath.Join(s.dir, "stderr"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	l.cmd.Stderr = stderr
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.stdout = bufio.NewReader(out)
	if line, err := l.stdout.ReadString('\n'); line != "started\n" {
		_ = unix.Kill(-l.cmd.Process.Pid, unix.SIGKILL)
		text, _ := os.ReadFile(stderr.Name())
		t.Fatalf("trl %q: first line %q, %v\n%s", args, line, err, text)
	}
	return l
}

func (l *live) signal(t *testing.T, sig unix.Signal) {
	t.Helper()
	if err := unix.Kill(-l.cmd.Process.Pid, sig); err != nil {
		t.Fatal(err)
	}
}

// hasPending reports whether a signal was sent and not taken yet; false on macOS, which does not say.
func (l *live) hasPending(t *testing.T, sig unix.Signal) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(l.cmd.Process.Pid) + "/status")
	if err != nil {
		return false
	}
	_, mask, _ := strings.Cut(string(text), "\nShdPnd:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	pending, err := strconv.ParseUint(mask, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pending&(1<<(sig-1)) != 0
}

// mustBeGone fails when anything that carries the mark is still there.
func (l *live) mustBeGone(t *testing.T) {
	t.Helper()
	for _, p := range carriers([]byte(l.mark)) {
		t.Errorf("left behind: %s", p)
	}
}

// stubborn does not go when it is asked.
const stubborn = `sh -c 'trap "" TERM HUP INT; echo started; while :; do sleep 0.05; done'`

// family is a command with a pipeline, a background job and one that leaves its group.
const family = `sleep 1001 & setsid sleep 1002 & echo started; sleep 1003 | cat`

func TestSignalCancelsAndLeavesNothing(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t, "TRL_KILL_GRACE_S=1")
			l := s.startLive(t, "run", family)
			l.signal(t, sig)
			if status := wait(t, l.cmd); status != 128+int(sig) {
				t.Errorf("status %d, want %d", status, 128+int(sig))
			}
			l.mustBeGone(t)
			s.mustBeQuiet(t)
			if o := s.run(t, "ls", "-q"); o.stdout != "" {
				t.Errorf("sessions left: %s", o.stdout)
			}
		})
	}
}

// TestCtrlC presses the key on a real terminal.
func TestCtrlC(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	p := s.onTerminal(t, s.command(s.trl, "run", "echo started; sleep 1001"))
	if line := <-p.seen; line != "started\n" {
		t.Fatalf("first line %q", line)
	}
	if _, err := p.master.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	if rest, status := p.all(t); rest != "^C" || status != 130 {
		t.Errorf("then printed %q, status %d, want 130", rest, status)
	}
}

func TestSignalKeepsTheNamedSession(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	if o := s.run(t, "run", "-s", "kept", "x=still; cd /"); o.status != 0 {
		t.Fatal(o)
	}
	l := s.startLive(t, "run", "-s", "kept", "echo started; sleep 1001")
	l.signal(t, unix.SIGINT)
	if status := wait(t, l.cmd); status != 130 {
		t.Errorf("status %d, want 130", status)
	}
	if o := s.run(t, "run", "-s", "kept", "echo $x in $PWD"); o.stdout != "still in /\n" {
		t.Errorf("afterwards: %+v", o)
	}
}

func TestSignalWithJSONGivesTheResult(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	fifo := filepath.Join(s.work, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := s.command(s.trl, "run", "--json", "echo before; echo x > fifo; sleep 1001")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(fifo); err != nil { // the command has come that far
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if !strings.Contains(line, `"stdout":"before\n"`) || !strings.Contains(line, `"cancelled":true`) {
		t.Errorf("printed %q", line)
	}
	if status := wait(t, cmd); status != 130 {
		t.Errorf("status %d, want 130", status)
	}
}

func TestSecondSignalKills(t *testing.T) {
	for name, flags := range map[string][]string{"throw-away": nil, "named": {"-s", "kept"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t, "TRL_KILL_GRACE_S=600")
			command := `sh -c 'trap "echo caught" INT TERM HUP; echo started; while :; do sleep 0.1; done'`
			l := s.startLive(t, append(append([]string{"run"}, flags...), command)...)
			l.signal(t, unix.SIGINT)
			if line, _ := l.stdout.ReadString('\n'); line != "caught\n" {
				t.Errorf("after the first signal: %q", line)
			}
			time.Sleep(200 * time.Millisecond) // as a person would: sooner is the same key, pressed once
			l.signal(t, unix.SIGINT)
			if status := wait(t, l.cmd); status != 130 {
				t.Errorf("status %d, want 130", status)
			}
			if name == "throw-away" {
				l.mustBeGone(t)
			}
			s.run(t, "kill", "--all", "--force") // the grace time is long here
		})
	}
}

// TestSameSignalTwiceIsOne: timeout(1) signals its child and then the whole group.
func TestSameSignalTwiceIsOne(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "TRL_KILL_GRACE_S=600")
	l := s.startLive(t, "run", `sh -c '
		bye() { echo caught; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo bye; exit; }
		trap bye TERM; echo started; while :; do sleep 0.01; done'`)
	l.signal(t, unix.SIGTERM)
	// The effect of the first one can take longer than the time within which timeout(1) sends both.
	for l.hasPending(t, unix.SIGTERM) {
		runtime.Gosched()
	}
	l.signal(t, unix.SIGTERM)
	for _, want := range []string{"caught\n", "bye\n"} {
		if line, _ := l.stdout.ReadString('\n'); line != want {
			t.Errorf("after both signals: %q, want %q", line, want)
		}
	}
	if status := wait(t, l.cmd); status != 143 {
		t.Errorf("status %d, want 143", status)
	}
}

// TestSignalEndsTheWaitForTheBackground: the command has ended, but not what it left.
func TestSignalEndsTheWaitForTheBackground(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "TRL_KILL_GRACE_S=600")
	l := s.startLive(t, "run", `sh -c 'trap "" TERM HUP INT; while :; do sleep 0.1; done' >/dev/null 2>&1 & echo started; exit 3`)
	testkit.Eventually(t, "the session is being ended", func() bool {
		return strings.Contains(s.run(t, "ps", "-a").stdout, "\t3\t") || s.run(t, "ls", "-q").stdout == ""
	})
	l.signal(t, unix.SIGINT)
	if status := wait(t, l.cmd); status != 3 {
		t.Errorf("status %d, want that of the command, 3", status)
	}
	l.mustBeGone(t)
}

// TestIgnoredSignalIsNotTaken: below nohup, SIGHUP is not meant for trl.
func TestIgnoredSignalIsNotTaken(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	fifo := filepath.Join(s.work, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := s.command("/bin/sh", "-c", `trap '' HUP; exec trl run 'echo started; cat fifo'`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, _ := lines.ReadString('\n'); line != "started\n" {
		t.Fatalf("first line %q", line)
	}
	if err := cmd.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fifo, []byte("went on\n"), 0); err != nil {
		t.Fatal(err)
	}
	if line, _ := lines.ReadString('\n'); line != "went on\n" {
		t.Errorf("second line %q", line)
	}
	if status := wait(t, cmd); status != 0 {
		t.Errorf("status %d", status)
	}
}

func TestKilledCLILeavesNothing(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "TRL_KILL_GRACE_S=1")
	l := s.startLive(t, "run", family)
	l.signal(t, unix.SIGKILL)
	if status := wait(t, l.cmd); status != 137 {
		t.Errorf("status %d, want 137", status)
	}
	testkit.Eventually(t, "the processes of the throw-away session are gone", func() bool { return len(carriers([]byte(l.mark))) == 0 })
	testkit.Eventually(t, "the throw-away session is gone", func() bool { return s.run(t, "ls", "-q").stdout == "" })
}

// TestKilledCLICancelsInNamedSession: the session stays, its command does not.
func TestKilledCLICancelsInNamedSession(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	l := s.startLive(t, "run", "-s", "kept", "echo started; sleep 1001")
	l.signal(t, unix.SIGKILL)
	wait(t, l.cmd)
	if o := s.run(t, "run", "-s", "kept", "--wait", "echo idle again"); o.stdout != "idle again\n" {
		t.Errorf("afterwards: %+v", o)
	}
}

// TestCommandOfAnEndedSessionRunsOnce: the end of the session under a command is not
// mistaken for one that is yet to be made.
func TestCommandOfAnEndedSessionRunsOnce(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for _, flags := range [][]string{{"run", "-s", "work"}, {"run", "-s", "work", "--json"}} {
		cmd := s.command(s.trl, append(flags, "echo >> ran; sleep 1001")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ran := filepath.Join(s.work, "ran")
		testkit.Eventually(t, "it runs", func() bool { _, err := os.Stat(ran); return err == nil })
		if o := s.run(t, "kill", "work"); o.status != 0 {
			t.Errorf("%+v", o)
		}
		if status := wait(t, cmd); status != 125 && status != 130 {
			t.Errorf("%q: status %d", flags, status)
		}
		if text, err := os.ReadFile(ran); string(text) != "\n" {
			t.Errorf("%q: ran %d times, %v", flags, len(text), err)
		}
		if o := s.run(t, "ls", "-q"); o.stdout != "" {
			t.Errorf("%q: sessions left: %s", flags, o.stdout)
		}
		if err := os.Remove(ran); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNothingIsLeftWhenRunReturns(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "TRL_KILL_GRACE_S=1")
	l := s.startLive(t, "run", stubborn+" & sleep 0.2")
	if status := wait(t, l.cmd); status != 0 {
		t.Errorf("status %d", status)
	}
	l.mustBeGone(t)
	if o := s.run(t, "ls", "-q"); o.stdout != "" {
		t.Errorf("sessions left: %s", o.stdout)
	}
}

func TestBrokenPipeEndsTheCommand(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "TRL_KILL_GRACE_S=1")
	// The second one ignores the signal; trl stays until it has ended.
	for _, command := range []string{"yes", `sh -c "trap \"\" TERM; while echo y; do :; done"`} {
		for _, flags := range []string{"", "-s kept"} {
			o := s.finish(t, s.command("/bin/sh", "-c", `{ trl run `+flags+` '`+command+`'; echo $? > status; trl ps -q > left; } | head -n 1; cat status left`))
			if o.stdout != "y\n141\n" || o.stderr != "" {
				t.Errorf("%s %s: %+v", flags, command, o)
			}
		}
	}
}
