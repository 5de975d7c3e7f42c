package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runner"
	"github.com/trl-dev/trl/internal/runtimes/host"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/state"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestMain is also the runner: the runtime starts this program again for it.
func TestMain(m *testing.M) {
	if runner.Called() {
		os.Exit(runner.Main())
	}
	process.BecomeSubreaper()
	goleak.VerifyTestMain(m)
}

// place is the directories of a daemon, which may come and go.
type place struct {
	t              *testing.T
	state, runtime string
	recordDir      string // the directory for recordings that runners share; empty for none
	log            *testkit.Buffer
}

func newPlace(t *testing.T) place {
	dir := testkit.Dir(t)
	p := place{t: t, state: filepath.Join(dir, "state"), runtime: filepath.Join(dir, "run"), log: &testkit.Buffer{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", p.log.String())
		}
		p.wantEmpty()
	})
	return p
}

// wantEmpty checks that nothing of any session is left.
func (p place) wantEmpty() {
	p.t.Helper()
	for _, dir := range []string{filepath.Join(p.state, "sessions"), p.runtime} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.t.Error(err)
		}
		for _, e := range entries {
			p.t.Errorf("%s is left", filepath.Join(dir, e.Name()))
		}
	}
	for _, pid := range process.Children(os.Getpid()) {
		if info, ok := process.Stat(pid); ok && !info.Ended() {
			p.t.Errorf("process %d is left: %s", pid, process.CommandLine(pid))
		}
	}
}

// daemon is the part of a daemon that owns sessions.
type daemon struct {
	*session.Registry
	rt           *host.Runtime
	closeRuntime func()
	t            *testing.T
}

// open makes the runtime of a daemon. close closes it.
func (p place) open() (rt *host.Runtime, logger *slog.Logger, close func()) {
	p.t.Helper()
	reaper := process.NewReaper()
	logger = slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	dir, err := state.Open(state.Config{Path: p.state, Logger: logger})
	if err != nil {
		reaper.Close()
		p.t.Fatal(err)
	}
	rt, err = host.New(host.Config{
		State: dir, RuntimeDir: p.runtime, RecordDir: p.recordDir, Reaper: reaper, Logger: logger,
		Environ: append(os.Environ(), "GORACE=atexit_sleep_ms=0", "TRL_TOKEN=no", "NOTIFY_SOCKET=no", "LISTEN_FDS=3", "VISIBLE=yes", "TERM=xterm"),
	})
	if err != nil {
		dir.Close()
		reaper.Close()
		p.t.Fatal(err)
	}
	return rt, logger, func() {
		rt.Close()
		dir.Close()
		reaper.Close()
	}
}

func (p place) start() daemon {
	p.t.Helper()
	rt, logger, close := p.open()
	r := session.NewRegistry(session.Config{
		Runtimes: []session.Runtime{rt}, Logger: logger, MaxSessions: 100, DefaultShell: "/bin/sh", KillGrace: time.Second, Retention: time.Minute, RecordingsDir: p.recordings(),
		Limits: link.Limits{KillGraceS: 1, MaxQueued: 4, MaxStdinBytes: 1 << 20, OutputBytes: 1 << 20, SessionOutput: 1 << 22, ExecsKept: 10, ShellStartTimeout: 10},
	})
	if err := r.Recover(p.t.Context(), false); err != nil {
		p.t.Fatal(err)
	}
	return daemon{r, rt, close, p.t}
}

// stop ends the sessions too.
func (d daemon) stop() {
	d.Close(nil)
	d.closeRuntime()
}

// leave lets the sessions live, as a daemon that is replaced.
func (d daemon) leave() {
	d.Leave()
	d.closeRuntime()
}

func (d daemon) create(p api.SessionCreateParams) *session.Session {
	d.t.Helper()
	info, err := d.Create(d.t.Context(), p)
	if err != nil {
		d.t.Fatal(err)
	}
	s, err := d.Get(info.SessionID)
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

func (d daemon) run(s *session.Session, command string) api.ExecResult {
	d.t.Helper()
	r, err := s.Run(d.t.Context(), api.ExecParams{Command: command})
	if err != nil {
		d.t.Fatalf("%s: %v", command, err)
	}
	return r
}

func runnerPID(t *testing.T, s *session.Session) int {
	t.Helper()
	d, err := s.Details(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d.RunnerPID
}

func wantDone(t *testing.T, s *session.Session) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the session does not end")
	}
}

func TestSessionOnThisMachine(t *testing.T) {
	p := newPlace(t)
	d := p.start()
	defer d.stop()
	s := d.create(api.SessionCreateParams{Name: "build", WorkingDir: "/tmp", Env: map[string]string{"SECRET": "hunter2"}})
	if r := d.run(s, `echo "$PWD $SECRET $VISIBLE $TERM [$TRL_TOKEN$NOTIFY_SOCKET$LISTEN_FDS]"; echo oops >&2; exit 3`); r.Stdout != "/tmp hunter2 yes dumb []\n" || r.Stderr != "oops\n" || r.ExitCode != 3 {
		t.Errorf("run = %+v", r)
	}
	info := s.Info()
	if info.Runtime != "host" || info.State != api.SessionIdle || info.Shell != "/bin/sh" || info.CommandCount != 1 {
		t.Errorf("info = %+v", info)
	}

	path := filepath.Join(p.state, "sessions", s.ID()+".json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") || strings.Contains(p.log.String(), "hunter2") {
		t.Errorf("the secret is in the record or in the log")
	}
	var rec map[string]any
	if err := json.Unmarshal(text, &rec); err != nil || rec["runner_pid"] != float64(runnerPID(t, s)) || rec["runner_start"] == float64(0) || rec["boot_id"] != process.BootID() {
		t.Errorf("record = %s, %v", text, err)
	}
	for path, want := range map[string]fs.FileMode{path: 0o600, filepath.Join(p.runtime, s.ID()): 0o700} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
	}

	d.run(s, "setsid sleep 1000 >/dev/null 2>&1 & sleep 1000 &")
	r, err := d.Destroy(t.Context(), s.ID(), false)
	if err != nil || len(r.Killed) != 2 {
		t.Errorf("destroy = %+v, %v", r, err)
	}
	if left := process.Marked(api.SessionMarker, s.ID(), 0); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	p.wantEmpty()
}

func TestRunnerIsKilled(t *testing.T) {
	p := newPlace(t)
	d := p.start()
	defer d.stop()
	s, other := d.create(api.SessionCreateParams{Name: "build"}), d.create(api.SessionCreateParams{})
	// One that only its session id tells, one that has left even that behind.
	d.run(s, "setsid sleep 1001 >/dev/null 2>&1 & env -i /bin/sh -c 'sleep 1002 & exec sleep 1003' >/dev/null 2>&1 &")
	d.run(other, "sleep 1004 & job=$!")
	mine, err := d.rt.Spawn(process.Spec{Path: "/bin/sleep", Args: []string{"sleep", "2001"}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	pid := runnerPID(t, s)
	failed := make(chan error, 1)
	go func() {
		_, err := s.Run(t.Context(), api.ExecParams{Command: "exec sleep 1005"})
		failed <- err
	}()
	testkit.Eventually(t, "the session is running", func() bool { return s.Info().State == api.SessionRunning })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err = <-failed
	if !errors.Is(err, api.ErrSessionTerminated) || !strings.Contains(err.Error(), `session "build": has ended: its runner died: killed by SIGKILL`) {
		t.Errorf("got %v", err)
	}
	if s.Info().State != api.SessionTerminated {
		t.Error("not terminated")
	}
	for _, pid := range process.Descendants(os.Getpid(), nil) {
		if cmd := process.CommandLine(pid.PID); strings.HasPrefix(cmd, "sleep 100") && cmd != "sleep 1004" {
			t.Errorf("left: %s", cmd)
		}
	}
	if r := d.run(other, "kill -0 $job && echo still here"); r.Stdout != "still here\n" {
		t.Errorf("the other session: %+v", r)
	}
	select {
	case <-mine.Done():
		t.Error("what the daemon itself started is gone")
	default:
	}
	if err := mine.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	<-mine.Done()
	d.rt.Forget(mine.PID)
}

func TestRunnerThatCrashesIsQuoted(t *testing.T) {
	p := newPlace(t)
	d := p.start()
	defer d.stop()
	s := d.create(api.SessionCreateParams{})
	pid := runnerPID(t, s)
	// SIGQUIT makes a Go program print its goroutines and exit with status 2.
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	wantDone(t, s)
	if cause := s.Info().Cause; !strings.HasPrefix(cause, "its runner died: exit status 2: ") {
		t.Errorf("cause = %q", cause)
	}
}

func TestStoppedRunnerIsEndedByForce(t *testing.T) {
	testkit.Long(t)
	p := newPlace(t)
	d := p.start()
	defer d.stop()
	s := d.create(api.SessionCreateParams{})
	if err := syscall.Kill(runnerPID(t, s), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Destroy(t.Context(), s.ID(), true); err != nil {
		t.Fatal(err)
	}
	p.wantEmpty()
}

func TestManyAtOnce(t *testing.T) {
	p := newPlace(t)
	d := p.start()
	defer d.stop()
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			info, err := d.Create(t.Context(), api.SessionCreateParams{Name: fmt.Sprint("n", i)})
			if err != nil {
				t.Error(err)
				return
			}
			s, _ := d.Get(info.SessionID)
			if r, err := s.Run(t.Context(), api.ExecParams{Command: fmt.Sprint("echo ", i)}); err != nil || r.Stdout != fmt.Sprintln(i) {
				t.Errorf("%d: %+v, %v", i, r, err)
			}
			if i%2 == 0 {
				if _, err := d.Destroy(t.Context(), info.SessionID, false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := len(d.List()); n != 15 {
		t.Errorf("%d sessions", n)
	}
}

func TestFailedCreateLeavesNothing(t *testing.T) {
	p := newPlace(t)
	d := p.start()
	defer d.stop()
	for _, c := range []struct {
		p    api.SessionCreateParams
		code api.Code
	}{
		{api.SessionCreateParams{Shell: "/nonexistent/sh", Name: "x"}, api.CodeShellNotFound},
		{api.SessionCreateParams{Shell: "/bin/cat", Name: "x"}, api.CodeShellFailed},
		{api.SessionCreateParams{WorkingDir: "/nonexistent", Name: "x"}, api.CodeInvalidParams},
	} {
		_, err := d.Create(t.Context(), c.p)
		if err == nil || api.AsError(err).Code != c.code {
			t.Errorf("%+v: %v", c.p, err)
		}
		p.wantEmpty()
	}
}

func TestNextDaemonFindsSessions(t *testing.T) {
	p := newPlace(t)
	d := p.start()
	idle := d.create(api.SessionCreateParams{Name: "idle", Tags: []string{"x"}})
	d.run(idle, "cd /usr; v=kept")
	busy := d.create(api.SessionCreateParams{Name: "busy"})
	x, err := busy.Start(t.Context(), api.ExecParams{Command: "echo begin; sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	doomed := d.create(api.SessionCreateParams{Name: "doomed"})
	d.run(doomed, "setsid sleep 1006 >/dev/null 2>&1 &")
	doomedPID := runnerPID(t, doomed)
	stuck := d.create(api.SessionCreateParams{Name: "before", Tags: []string{"old"}})
	name, tags := "stuck", []string{"new"}
	if _, err := d.Set(t.Context(), stuck, api.SessionSetParams{Name: &name, Tags: &tags}); err != nil {
		t.Fatal(err)
	}
	stuckPID := runnerPID(t, stuck)
	d.leave()

	for pid, sig := range map[int]syscall.Signal{doomedPID: syscall.SIGKILL, stuckPID: syscall.SIGSTOP} {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the killed runner has ended", func() bool { info, ok := process.Stat(doomedPID); return !ok || info.Ended() })
	d = p.start()
	defer d.stop()
	if len(d.List()) != 3 {
		t.Errorf("%d sessions found", len(d.List()))
	}
	s, err := d.Get("idle")
	if err != nil {
		t.Fatal(err)
	}
	if info := s.Info(); info.SessionID != idle.ID() || info.WorkingDir != "/usr" || info.CommandCount != 1 || len(info.Tags) != 1 || info.Runtime != "host" {
		t.Errorf("info = %+v", info)
	}
	if r := d.run(s, `echo "$PWD $v"`); r.Stdout != "/usr kept\n" {
		t.Errorf("run again: %+v", r)
	}
	s, err = d.Get("busy")
	if err != nil || s.Info().State != api.SessionRunning || s.Info().ExecID != x.ExecID {
		t.Fatalf("busy: %v", err)
	}
	if info, err := s.Cancel(t.Context(), api.ExecCancelParams{ExecID: x.ExecID}); err != nil || !info.Outcome.Cancelled || info.StdoutBytes != 6 {
		t.Errorf("cancel = %+v, %v", info, err)
	}
	if _, err := d.Get("doomed"); !errors.Is(err, api.ErrSessionNotFound) {
		t.Errorf("doomed: %v", err)
	}
	if left := process.Marked(api.SessionMarker, doomed.ID(), 0); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	if s, err := d.Get("stuck"); err != nil || s.ID() != stuck.ID() || s.Info().Reachable || !slices.Equal(s.Info().Tags, tags) {
		t.Errorf("stuck: %v, %+v", err, s)
	}
	if err := syscall.Kill(stuckPID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the session \"stuck\" is reachable", func() bool { s, err := d.Get("stuck"); return err == nil && s.Info().Reachable })

	// One that is not our child dies: noticed at once.
	pid := runnerPID(t, s)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wantDone(t, s)
	if _, err := d.Destroy(t.Context(), "idle", false); err != nil {
		t.Fatal(err)
	}
}

// TestIdleProgramEnds: a program has an idle time-out when one is asked for, also later.
func TestIdleProgramEnds(t *testing.T) {
	d := newPlace(t).start()
	defer d.stop()
	const cause = "idle for 200ms (idle_timeout_s)"
	idle := 0.2
	params := api.SessionCreateParams{Kind: api.KindProgram, Command: []string{"cat"}, IdleTimeoutS: &idle}
	s := d.create(params)
	wantDone(t, s)
	if info := s.Info(); info.Cause != cause {
		t.Errorf("%+v", info)
	}
	params.Kind, params.IdleTimeoutS = api.KindTerminal, nil
	s = d.create(params)
	if info := s.Info(); info.EndsInS != nil {
		t.Errorf("%+v", info)
	}
	if _, err := d.Set(t.Context(), s, api.SessionSetParams{IdleTimeoutS: &idle}); err != nil {
		t.Fatal(err)
	}
	wantDone(t, s)
	if info := s.Info(); info.Cause != cause {
		t.Errorf("%+v", info)
	}
}

func TestRecordsThatCannotBeUsed(t *testing.T) {
	p := newPlace(t)
	d := p.start()
	half := d.create(api.SessionCreateParams{})
	boot := d.create(api.SessionCreateParams{})
	bootPID := runnerPID(t, boot)
	d.leave()

	edit := func(id string, change func(map[string]any)) {
		path := filepath.Join(p.state, "sessions", id+".json")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var rec map[string]any
		if err := json.Unmarshal(text, &rec); err != nil {
			t.Fatal(err)
		}
		change(rec)
		text, _ = json.Marshal(rec)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The daemon died before it knew the pid: the marker finds the runner.
	edit(half.ID(), func(rec map[string]any) { rec["runner_pid"], rec["runner_start"] = 0, 0 })
	// The machine has rebooted: the pid belongs to another process, which must not be touched.
	group := ""
	edit(boot.ID(), func(rec map[string]any) {
		rec["boot_id"] = "another"
		group, _ = rec["cgroup"].(string)
	})
	outside := filepath.Join(t.TempDir(), "keep")
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"s-00000000ff.json": "not json",
		"s-00000000fe.json": `{"session_id":"s-00000000fe","dir":"` + outside + `"}`,
		".s-x.json.123":     "{",
	} {
		if err := os.WriteFile(filepath.Join(p.state, "sessions", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d = p.start()
	if n := len(d.List()); n != 0 {
		t.Errorf("%d sessions", n)
	}
	d.stop()
	if left := process.Marked(api.SessionMarker, half.ID(), 0); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error("a record could make us remove a directory that is not a session's")
	}
	if info, ok := process.Stat(bootPID); !ok || info.Ended() {
		t.Error("a process of another boot was killed")
	}
	bad, _ := filepath.Glob(filepath.Join(p.state, "sessions", "*.bad"))
	if len(bad) != 2 {
		t.Errorf("put aside: %v", bad)
	}
	for _, path := range bad {
		os.Remove(path)
	}
	// What the test itself left: the session of the other boot.
	process.KillAll(process.Marked(api.SessionMarker, boot.ID(), 0), syscall.SIGKILL, 0)
	reaper := process.NewReaper()
	defer reaper.Close()
	testkit.Eventually(t, "the killed runner has been reaped", func() bool { _, ok := process.Stat(bootPID); return !ok })
	if c := process.OpenCgroup(group); c != nil {
		_ = c.Remove()
		c.Close()
	}
}

func TestRuntimeDirectoryOfOthersIsRefused(t *testing.T) {
	p := newPlace(t)
	if err := os.MkdirAll(p.runtime, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p.runtime, 0o755); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	dir, err := state.Open(state.Config{Path: p.state, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	_, err = host.New(host.Config{State: dir, RuntimeDir: p.runtime, Logger: log})
	if err == nil || !strings.Contains(err.Error(), "runtime_dir: ") || !strings.Contains(err.Error(), "has mode 0755, must be 0700") {
		t.Errorf("got %v", err)
	}
}

// TestHelpers: what a helper of the daemon leaves behind is spared when a session ends, unlike an
// orphan of a session.
func TestHelpers(t *testing.T) {
	p := newPlace(t)
	d := p.start()
	defer d.stop()
	leave := func(mark string) int {
		t.Helper()
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		helper, err := d.rt.Spawn(process.Spec{
			Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 1000 <&- >/dev/null & echo $!"}, Env: []string{"PATH=/usr/bin:/bin", mark}, Files: []*os.File{null, w, null},
		})
		w.Close()
		if err != nil {
			t.Fatal(err)
		}
		var pid int
		if _, err := fmt.Fscan(r, &pid); err != nil {
			t.Fatal(err)
		}
		<-helper.Done()
		d.rt.Forget(helper.PID)
		return pid
	}
	helper, orphan := leave(process.HelperMark), leave("OTHER=1")
	s := d.create(api.SessionCreateParams{})
	if _, err := d.Destroy(t.Context(), s.ID(), false); err != nil {
		t.Fatal(err)
	}
	lives := func(pid int) bool {
		info, ok := process.Stat(pid)
		return ok && !info.Ended()
	}
	testkit.Eventually(t, "the orphan has ended", func() bool { return !lives(orphan) })
	if !lives(helper) {
		t.Error("what the helper left behind was killed")
	}
	_ = syscall.Kill(helper, syscall.SIGKILL)
	testkit.Eventually(t, "it has ended", func() bool { return !lives(helper) })
}
