package runner_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	"github.com/trl-dev/trl/internal/testkit"
)

// TestMain lets the test binary be the runner, so that the real program is tested.
func TestMain(m *testing.M) {
	if runner.Called() {
		os.Exit(runner.Main())
	}
	goleak.VerifyTestMain(m)
}

// daemon is the other end of a runner's link.
type daemon struct {
	t    testing.TB
	conn *link.Conn
	cmd  *exec.Cmd
	dir  string
	id   string
	done chan struct{} // closed when the connection has closed

	mu     sync.Mutex
	last   api.SessionInfo  // guarded by mu; the last report about the session
	over   chan struct{}    // closed when a report says that the session has ended
	events []link.ExecEvent // guarded by mu; the reports about commands, in order
	news   chan struct{}    // has a value when events has grown
}

func (*daemon) Handle(context.Context, *link.Incoming) error {
	return api.Errorf(api.CodeMethodNotFound, "the daemon answers nothing")
}

func (d *daemon) Event(name string, header json.RawMessage, _ []byte) {
	if name == link.EventSession {
		d.heardSession(header)
	}
	if name != link.EventExec || d.news == nil {
		return
	}
	var e link.ExecEvent
	if err := json.Unmarshal(header, &e); err != nil {
		d.t.Errorf("event %s: %v", header, err)
	}
	d.mu.Lock()
	d.events = append(d.events, e)
	d.mu.Unlock()
	select {
	case d.news <- struct{}{}:
	default:
	}
}

func (d *daemon) heardSession(header json.RawMessage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.last.State
	d.last = api.SessionInfo{}
	if err := json.Unmarshal(header, &d.last); err != nil {
		d.t.Errorf("event %s: %v", header, err)
	}
	if d.last.State == api.SessionTerminated && before != d.last.State {
		close(d.over)
	}
}

// patience bounds waits that end at once when all is well.
const patience = 2 * time.Minute

// terminated waits until the runner tells that the session has ended.
func (d *daemon) terminated() api.SessionInfo {
	d.t.Helper()
	select {
	case <-d.over:
	case <-time.After(patience):
		d.t.Fatal("the session does not end")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// leave closes the connection, as a daemon that dies does.
func (d *daemon) leave() {
	d.conn.Close()
	<-d.done
}

var limits = link.Limits{
	KillGraceS: 5, MaxQueued: 8, MaxParallel: 64, MaxStdinBytes: 16 << 20, OutputBytes: 2 << 20, SessionOutput: 16 << 20, ExecsKept: 64, ShellStartTimeout: 10,
}

// start starts a runner process with a session in it.
func start(t testing.TB, p api.SessionCreateParams) *daemon {
	t.Helper()
	d := launch(t)
	if _, err := d.create(p, ""); err != nil {
		t.Fatalf("create: %v", err)
	}
	return d
}

// create makes the session.
func (d *daemon) create(p api.SessionCreateParams, recordDir string) (api.SessionDetails, error) {
	var details link.SessionDetails
	_, err := d.conn.Call(context.Background(), link.Create.With(&link.CreateParams{
		SessionID: d.id, Params: p, CreatedAt: time.Now(), Limits: limits, RecordDir: recordDir,
		BaseEnv: map[string]string{"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "LANG": "C.UTF-8", "COLUMNS": "7", "TMUX": "x"},
	}, nil, &details))
	return details.SessionDetails, err
}

// launch starts a runner process.
func launch(t testing.TB) *daemon {
	t.Helper()
	return launchIn(t, "")
}

// modes runs a test in each way to find the processes of a session.
func modes(t *testing.T, f func(t *testing.T, d *daemon)) {
	for _, mode := range []string{"cgroup", "subreaper", "scan"} {
		t.Run(mode, func(t *testing.T) {
			scan := mode
			if mode == "cgroup" {
				scan = ""
			}
			d := launchIn(t, scan)
			details, err := d.create(api.SessionCreateParams{}, "")
			if err != nil {
				t.Fatal(err)
			}
			if details.Enforcement != mode {
				t.Skipf("NOT TESTED: this system has %s, not %s", details.Enforcement, mode)
			}
			f(t, d)
		})
	}
}

// launchIn starts a runner process that finds processes in a certain way; see
// process.ScanVariable.
func launchIn(t testing.TB, scan string) *daemon {
	t.Helper()
	dir := testkit.MemoryDir(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/link.sock", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	d := &daemon{t: t, dir: dir, id: "s-" + strings.TrimPrefix(filepath.Base(dir), "trl"), over: make(chan struct{})}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d.cmd = exec.Command(exe)
	d.cmd.Args = []string{runner.Name}
	d.cmd.Env = []string{api.SessionMarker + "=" + d.id, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0", process.ScanVariable + "=" + scan}
	d.cmd.ExtraFiles = []*os.File{f}
	d.cmd.Stderr = os.Stderr
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	t.Cleanup(d.end)
	d.connect()
	return d
}

// end destroys the session and waits for the runner, which removes everything.
func (d *daemon) end() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var res link.DestroyResult
	if _, err := d.conn.Call(ctx, link.Destroy.With(&link.DestroyParams{Force: true, Cause: "the test is over"}, nil, &res)); err != nil || res.Info.Terminal != nil && res.Info.Terminal.Recording != nil {
		d.cmd.Process.Kill() // it may wait until its recording is fetched
	}
	_ = d.cmd.Wait()
	d.conn.Close()
	<-d.done
}

func (d *daemon) connect() {
	d.t.Helper()
	c, err := net.Dial("unix", d.dir+"/link.sock")
	if err != nil {
		d.t.Fatal(err)
	}
	d.use(c)
	if err := hello(d.conn, ""); err != nil {
		d.t.Fatal(err)
	}
}

// hello says hello, with a key when it is not empty.
func hello(conn *link.Conn, key string) error {
	_, err := conn.Call(context.Background(), link.Hello.With(&link.HelloParams{Protocol: link.Protocol, Key: key}, nil, &link.HelloResult{}))
	return err
}

// use makes c the connection.
func (d *daemon) use(c net.Conn) {
	conn, done := link.NewConn(c), make(chan struct{})
	d.conn, d.done = conn, done
	go func() {
		defer close(done)
		_ = conn.Serve(d)
	}()
}

// untyped makes a call whose result does not matter, from its name alone.
func untyped(name string, params any) link.Outgoing {
	return link.Outgoing{Row: &link.Row{Name: name}, Params: params, Result: &struct{}{}}
}

// result is a command's outcome with its output.
type result struct {
	link.RunResult
	stdout, stderr string
}

func (d *daemon) try(p api.ExecParams) (result, error) {
	stdin, has := p.StdinData()
	p.Stdin, p.StdinBase64, p.SessionID = nil, "", d.id
	var r result
	body, err := d.conn.Call(context.Background(), link.ExecRun.With(&link.ExecParams{ExecParams: p, HasStdin: has}, stdin, &r.RunResult))
	if err != nil {
		return r, err
	}
	r.stdout, r.stderr = string(body[:r.StdoutLen]), string(body[r.StdoutLen:])
	return r, nil
}

func (d *daemon) run(command string) result {
	d.t.Helper()
	r, err := d.try(api.ExecParams{Command: command})
	if err != nil {
		d.t.Fatalf("%q: %v", command, err)
	}
	return r
}

// shells runs a test in each shell that is there.
func shells(t *testing.T, f func(t *testing.T, sh string)) {
	for _, sh := range []string{"dash", "ash", "bash", "zsh", "fish"} {
		if !installed(sh) {
			t.Logf("NOT TESTED: %s is not installed", sh)
			continue
		}
		t.Run(sh, func(t *testing.T) { f(t, sh) })
	}
}

func touch(t testing.TB, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func installed(shell string) bool {
	if shell == "ash" {
		shell = "busybox"
	}
	_, err := exec.LookPath(shell)
	return err == nil
}

// applets reports whether the shell runs programs such as cat itself, without exec: Debian's
// busybox-static does.
func applets(shell string) bool {
	return shell == "ash" && exec.Command("busybox", "ash", "-c", "PATH=/nowhere; cat /dev/null").Run() == nil
}
