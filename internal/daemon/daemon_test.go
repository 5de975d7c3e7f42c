package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/daemon"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runner"
	"github.com/trl-dev/trl/internal/testkit"
)

// daemonArgument makes this program a daemon, with the environment as its configuration.
const daemonArgument = "__daemon"

// defaultState is the variable with the state directory of a daemon whose configuration has none:
// the real one is in the home directory of the user who runs the tests.
const defaultState = "DAEMON_TEST_DEFAULT_STATE"

// TestMain is also the daemon and the runner, because both are processes of their own.
func TestMain(m *testing.M) {
	switch {
	case runner.Called():
		os.Exit(runner.Main())
	case len(os.Args) > 1 && os.Args[1] == daemonArgument:
		os.Exit(daemonMain(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

func daemonMain(args []string) int {
	c, err := config.Load(nil, os.Environ())
	if err == nil {
		if c.Origin("state_dir") == config.OriginDefault {
			c.StateDir = os.Getenv(defaultState)
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		o := daemon.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})), ReadyFD: 3}
		if len(args) > 0 {
			o.Stdio, o.Stdin, o.Stdout = true, os.Stdin, os.Stdout
		}
		err = daemon.Run(ctx, c, o)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ERROR", err)
		return 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "LEAK", err)
		return 3
	}
	return 0
}

// place is where daemons of a test live.
type place struct {
	t   *testing.T
	dir string
	env []string
}

func newPlace(t *testing.T, env ...string) place {
	dir := testkit.Dir(t)
	p := place{t: t, dir: dir, env: append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE"), // else each process takes a second to end
		defaultState + "=" + filepath.Join(dir, "default"),
		"TRL_RUNTIME_DIR=" + filepath.Join(dir, "run"), "TRL_KILL_GRACE_S=1",
	}, env...)}
	t.Cleanup(p.wantNothing)
	return p
}

func (p place) socket() string { return filepath.Join(p.dir, "s", "trl.sock") }

// running is a daemon process.
type running struct {
	*client.Client
	t    *testing.T
	cmd  *exec.Cmd
	log  *testkit.Buffer
	exit chan error
}

// launch starts a daemon process and waits for its word.
func (p place) launch(env []string, args ...string) (running, string) {
	p.t.Helper()
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	ready, childReady, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	defer ready.Close()
	r := running{t: p.t, cmd: exec.Command(self, append([]string{daemonArgument}, args...)...), log: &testkit.Buffer{}, exit: make(chan error, 1)}
	r.cmd.Env = append(append([]string{"TRL_STATE_DIR=" + filepath.Join(p.dir, "state"), "TRL_SOCKET_PATH=" + p.socket()}, p.env...), env...)
	r.cmd.Stderr = r.log
	r.cmd.ExtraFiles = []*os.File{childReady}
	if err := r.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	childReady.Close()
	word, _ := io.ReadAll(ready)
	go func() { r.exit <- r.cmd.Wait() }()
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("daemon %d:\n%s", r.cmd.Process.Pid, r.log)
		}
	})
	return r, string(word)
}

// start starts a daemon and connects to it.
func (p place) start(env ...string) running {
	p.t.Helper()
	r, word := p.launch(env)
	if word != "ready\n" {
		p.t.Fatalf("the daemon said %q and\n%s", word, r.log)
	}
	c, err := client.Dial(p.t.Context(), p.socket())
	if err != nil {
		p.t.Fatal(err)
	}
	r.Client = c
	p.t.Cleanup(func() { c.Close() })
	return r
}

// wait waits for the end of the daemon and returns its exit status.
func (r running) wait() int {
	r.t.Helper()
	select {
	case <-r.exit:
		return r.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		_ = r.cmd.Process.Kill()
		r.t.Fatal("the daemon does not end")
		return 0
	}
}

// stop ends the daemon as a service manager does.
func (r running) stop() {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	if code := r.wait(); code != 0 {
		r.t.Errorf("exit status %d", code)
	}
}

// kill ends the daemon as a crash does.
func (r running) kill() {
	r.t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	r.wait()
	r.Close()
}

func (r running) create(p api.SessionCreateParams) string {
	r.t.Helper()
	info, err := r.SessionCreate(r.t.Context(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	return info.SessionID
}

func (r running) run(session, command string) api.ExecResult {
	r.t.Helper()
	x, err := r.ExecRun(r.t.Context(), api.ExecParams{SessionID: session, Command: command})
	if err != nil {
		r.t.Fatalf("%s: %v", command, err)
	}
	return x
}

// wantNothing checks that no process, socket, directory or record is left.
func (p place) wantNothing() {
	p.t.Helper()
	for _, pattern := range []string{"s/trl.sock", "run/*", "state/sessions/*", "default/stdio/*/sessions/*"} {
		if left, _ := filepath.Glob(filepath.Join(p.dir, pattern)); len(left) > 0 {
			p.t.Errorf("left: %v", left)
		}
	}
	for _, pid := range p.processes() {
		p.t.Errorf("left: process %d: %s", pid, process.CommandLine(pid))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// processes finds all that have the place's home directory in their environment.
func (p place) processes() []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && bytes.Contains(text, []byte("HOME="+p.dir+"\x00")) {
			var pid int
			fmt.Sscan(e.Name(), &pid)
			if info, ok := process.Stat(pid); ok && !info.Ended() {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func TestServeAndStop(t *testing.T) {
	p := newPlace(t, "TRL_MAX_SESSIONS=2")
	d := p.start()
	id := d.create(api.SessionCreateParams{Name: "build"})
	if r := d.run("build", "echo hello; echo oops >&2; exit 3"); r.Stdout != "hello\n" || r.Stderr != "oops\n" || r.ExitCode != 3 || r.SessionID != id {
		t.Errorf("run = %+v", r)
	}
	_, err := d.SessionCreate(t.Context(), api.SessionCreateParams{Name: "build"})
	if !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), `session name "build" is taken by `+id) {
		t.Errorf("second of that name: %v", err)
	}
	d.create(api.SessionCreateParams{})
	_, err = d.SessionCreate(t.Context(), api.SessionCreateParams{})
	if !errors.Is(err, api.ErrMaxSessionsReached) {
		t.Errorf("one too many: %v", err)
	}
	info, err := d.SystemInfo(t.Context(), api.SystemInfoParams{})
	if err != nil || info.PID != d.cmd.Process.Pid || info.Limits["max_sessions"] != 2 || len(info.Capabilities) < 2 {
		t.Errorf("info = %+v, %v", info, err)
	}
	stats, err := d.SystemStats(t.Context(), api.SystemStatsParams{})
	if err != nil || stats.ActiveSessions != 2 || stats.TotalCommandsRun != 1 || stats.Connections != 1 {
		t.Errorf("stats = %+v, %v", stats, err)
	}

	d.run("build", "setsid sleep 1000 >/dev/null 2>&1 & trap '' TERM; sleep 1000 &")
	failed := make(chan error, 1)
	go func() {
		_, err := d.ExecRun(context.Background(), api.ExecParams{SessionID: id, Command: "sleep 1000 | cat"})
		failed <- err
	}()
	testkit.Eventually(t, "running", func() bool {
		r, err := d.SessionList(t.Context(), api.SessionListParams{State: api.SessionRunning})
		return err == nil && len(r.Sessions) == 1
	})
	d.stop()
	if err := <-failed; !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), "the daemon is shutting down") {
		t.Errorf("the caller who waited: %v", err)
	}
	p.wantNothing()
}

// stubborn leaves something behind that takes the whole grace time to end.
const stubborn = "(trap '' TERM HUP; : >$HOME/up; sleep 1000; sleep 1000) >/dev/null 2>&1 & while [ ! -e $HOME/up ]; do sleep 0.01; done"

func TestSecondSignalForces(t *testing.T) {
	p := newPlace(t, "TRL_KILL_GRACE_S=60")
	d := p.start()
	id := d.create(api.SessionCreateParams{})
	d.run(id, stubborn)
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "stopping", func() bool { return strings.Contains(d.log.String(), "ending session") })
	began := time.Now()
	d.stop()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestOneInstance(t *testing.T) {
	p := newPlace(t)
	d := p.start()
	defer d.stop()
	if other, word := p.launch(nil); word != "" || other.wait() != 1 || !strings.Contains(other.log.String(), "already running on "+p.socket()) {
		t.Errorf("same socket: %q, %s", word, other.log)
	}
	other, word := p.launch([]string{"TRL_SOCKET_PATH=" + p.socket() + "2"})
	if want := fmt.Sprintf("in use by another daemon (pid %d, socket %s)", d.cmd.Process.Pid, p.socket()); word != "" || other.wait() != 1 || !strings.Contains(other.log.String(), want) {
		t.Errorf("same state: %q, %s", word, other.log)
	}
	if _, err := d.SystemPing(t.Context(), api.SystemPingParams{}); err != nil {
		t.Errorf("the first one: %v", err)
	}
}

func TestNextDaemonWaitsForTheLast(t *testing.T) {
	p := newPlace(t, "TRL_KILL_GRACE_S=2")
	d := p.start()
	id := d.create(api.SessionCreateParams{})
	d.run(id, stubborn)
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "no socket", func() bool { _, err := os.Stat(p.socket()); return errors.Is(err, fs.ErrNotExist) })
	began := time.Now()
	next := p.start()
	defer next.stop()
	if code, took := d.wait(), time.Since(began); code != 0 || took < time.Second {
		t.Errorf("exit status %d, the next one started after %s", code, took)
	}
}

func TestDaemonIsKilled(t *testing.T) {
	testkit.Long(t)
	p := newPlace(t)
	d := p.start()
	id := d.create(api.SessionCreateParams{Name: "build", Env: map[string]string{"A": "1"}})
	tied := d.create(api.SessionCreateParams{Ephemeral: true})
	d.run(id, "cd /usr; v=kept; f() { echo $v; }")
	detach := true
	st, err := d.ExecStream(t.Context(), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: id, Command: "while [ ! -e $HOME/go ]; do sleep 0.01; done; f", Detach: &detach}})
	if err != nil {
		t.Fatal(err)
	}
	exec := st.Start().ExecID
	d.kill()

	d = p.start()
	list, err := d.SessionList(t.Context(), api.SessionListParams{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Sessions {
		if s.SessionID != tied && (s.SessionID != id || s.Name != "build" || s.State != api.SessionRunning) {
			t.Errorf("found %+v", s)
		}
	}
	// The command went on by itself, and its outcome is there.
	if err := os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "exit", func() bool {
		x, err := d.ExecInfo(t.Context(), api.ExecInfoParams{ExecID: exec})
		return err == nil && x.Outcome != nil && x.Outcome.ExitCode == 0 && x.StdoutBytes == 5
	})
	if r := d.run("build", `echo "$PWD $v $A"; f`); r.Stdout != "/usr kept 1\nkept\n" {
		t.Errorf("run again: %+v", r)
	}
	testkit.Eventually(t, "end of the ephemeral one", func() bool {
		info, err := d.SessionInfo(t.Context(), api.SessionInfoParams{SessionID: tied})
		return err == nil && info.State == api.SessionTerminated && info.Cause == "the connection that owned it closed"
	})

	// Killed again, and the runner too: the next daemon ends what they left.
	info, err := d.SessionInfo(t.Context(), api.SessionInfoParams{SessionID: id})
	if err != nil {
		t.Fatal(err)
	}
	d.run(id, "setsid sleep 1000 >/dev/null 2>&1 &")
	d.kill()
	if err := syscall.Kill(info.RunnerPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d = p.start()
	if list, err := d.SessionList(t.Context(), api.SessionListParams{}); err != nil || len(list.Sessions) != 0 {
		t.Errorf("found %+v, %v", list, err)
	}
	if left := process.Marked(api.SessionMarker, id, 0); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	d.stop()
}

func TestKeepSessions(t *testing.T) {
	p := newPlace(t)
	d := p.start("TRL_KEEP_SESSIONS=true")
	id := d.create(api.SessionCreateParams{Name: "build"})
	d.run(id, "v=kept")
	d.stop()
	d = p.start()
	if r := d.run("build", "echo $v"); r.Stdout != "kept\n" {
		t.Errorf("run again: %+v", r)
	}
	d.stop()
}

func TestCallerGoesAway(t *testing.T) {
	p := newPlace(t)
	d := p.start()
	defer d.stop()
	tied := api.SessionCreateParams{Ephemeral: true}
	c, err := client.Dial(t.Context(), p.socket())
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.SessionCreate(t.Context(), tied)
	if err != nil {
		t.Fatal(err)
	}
	kept := d.create(api.SessionCreateParams{})
	failed := make(chan error, 2)
	for _, id := range []string{info.SessionID, kept} {
		go func() {
			_, err := c.ExecRun(context.Background(), api.ExecParams{SessionID: id, Command: "sleep 1000"})
			failed <- err
		}()
	}
	testkit.Eventually(t, "running", func() bool {
		r, err := d.SessionList(t.Context(), api.SessionListParams{State: api.SessionRunning})
		return err == nil && len(r.Sessions) == 2
	})
	c.Close()
	<-failed
	<-failed
	testkit.Eventually(t, "end", func() bool {
		i, err := d.SessionInfo(t.Context(), api.SessionInfoParams{SessionID: info.SessionID})
		return err == nil && i.State == api.SessionTerminated
	})
	testkit.Eventually(t, "cancelled", func() bool {
		x, err := d.ExecList(t.Context(), api.ExecListParams{SessionID: kept})
		return err == nil && len(x.Execs) == 1 && x.Execs[0].Outcome != nil && x.Execs[0].Outcome.Cancelled
	})
	if r := d.run(kept, "echo still here"); r.Stdout != "still here\n" {
		t.Errorf("run = %+v", r)
	}
}

func TestAutoExit(t *testing.T) {
	p := newPlace(t, "TRL_AUTO_EXIT_S=0.3")
	d := p.start()
	id := d.create(api.SessionCreateParams{})
	d.Close()
	time.Sleep(600 * time.Millisecond) // nothing may happen in this time
	c, err := client.Dial(t.Context(), p.socket())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SessionDestroy(t.Context(), api.SessionDestroyParams{SessionID: id}); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if code := d.wait(); code != 0 || !strings.Contains(d.log.String(), "nothing to do for 300ms") {
		t.Errorf("exit status %d", code)
	}
}

func TestStream(t *testing.T) {
	p := newPlace(t)
	d := p.start()
	defer d.stop()
	id := d.create(api.SessionCreateParams{})
	st, err := d.ExecStream(t.Context(), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: id, Command: `printf 'a\342\202'; printf '\254\n'; i=0; while [ $i -lt 2000 ]; do echo "line $i"; i=$((i+1)); done; exit 4`}})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var got bytes.Buffer
	for {
		ev, err := st.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == api.EventStdout {
			// The character may still be torn, if its end comes too late: the tests of package
			// output, in which no time passes, check that it is held back.
			got.Write(api.Data(ev.Data, ev.DataBase64))
		}
		if ev.Type == api.EventExit && ev.ExitCode != 4 {
			t.Errorf("exit %d", ev.ExitCode)
		}
	}
	if !strings.HasPrefix(got.String(), "a€\nline 0\n") || !strings.HasSuffix(got.String(), "line 1999\n") || bytes.Count(got.Bytes(), []byte("\n")) != 2001 {
		t.Errorf("got %d bytes", got.Len())
	}
}

// talk starts a daemon on stdio.
func (p place) talk(env ...string) (running, io.WriteCloser, *bufio.Reader) {
	p.t.Helper()
	self, _ := os.Executable()
	r := running{t: p.t, cmd: exec.Command(self, daemonArgument, "stdio"), log: &testkit.Buffer{}, exit: make(chan error, 1)}
	r.cmd.Env = append(append([]string{}, p.env...), env...)
	r.cmd.Stderr = r.log
	stdin, err := r.cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("daemon %d:\n%s", r.cmd.Process.Pid, r.log)
		}
	})
	return r, stdin, bufio.NewReader(stdout)
}

func ask(t *testing.T, w io.Writer, r *bufio.Reader, request string) map[string]any {
	t.Helper()
	if _, err := io.WriteString(w, request+"\n"); err != nil {
		t.Fatal(err)
	}
	line, err := r.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		OK    bool
		Data  map[string]any
		Error any
	}
	if err := json.Unmarshal(line, &answer); err != nil || !answer.OK {
		t.Fatalf("%s: %s, %v", request, line, err)
	}
	return answer.Data
}

func TestStdio(t *testing.T) {
	p := newPlace(t)
	// Three at once, beside one that listens.
	d := p.start("TRL_STATE_DIR=" + filepath.Join(p.dir, "default"))
	defer d.stop()
	d.create(api.SessionCreateParams{Name: "build"})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			daemon, stdin, stdout := p.talk()
			created := ask(t, stdin, stdout, `{"id":1,"method":"session.create","params":{"name":"build"}}`)
			id := created["session_id"].(string)
			ran := ask(t, stdin, stdout, fmt.Sprintf(`{"id":2,"method":"exec.run","params":{"session_id":%q,"command":"sleep 1000 & echo hi"}}`, id))
			if ran["stdout"] != "hi\n" {
				t.Errorf("run = %v", ran)
			}
			list := ask(t, stdin, stdout, `{"id":3,"method":"session.list"}`)
			if n := len(list["sessions"].([]any)); n != 1 {
				t.Errorf("%d sessions", n)
			}
			stdin.Close()
			if rest, err := io.ReadAll(stdout); err != nil || len(rest) > 0 {
				t.Errorf("rest: %q, %v", rest, err)
			}
			if err := daemon.cmd.Wait(); err != nil {
				t.Errorf("%v\n%s", err, daemon.log)
			}
		})
	}
	all.Wait()
	if left, _ := filepath.Glob(filepath.Join(p.dir, "default/stdio/*/sessions/*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if r := d.run("build", "echo still here"); r.Stdout != "still here\n" {
		t.Errorf("run = %+v", r)
	}
}

func TestStdioThatIsKilled(t *testing.T) {
	p := newPlace(t)
	first, stdin, stdout := p.talk()
	ask(t, stdin, stdout, `{"id":1,"method":"session.create","params":{"name":"build"}}`)
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait()
	if n := len(p.processes()); n == 0 {
		t.Fatal("the session did not outlive its daemon")
	}
	// The next daemon ends the commands that no client can reach any more.
	second, stdin, stdout := p.talk()
	testkit.Eventually(t, "nobody's session ended", func() bool {
		list := ask(t, stdin, stdout, `{"id":1,"method":"session.list"}`)
		return len(list["sessions"].([]any)) == 0
	})
	stdin.Close()
	if err := second.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, second.log)
	}
}
