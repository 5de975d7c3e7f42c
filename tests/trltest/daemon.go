package trltest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
)

// patience bounds every wait of this package. It is long, because the machine may
// be busy and the race detector slow; nothing waits that long when all is well.
const patience = 60 * time.Second

// Daemon is a running `trl serve`.
type Daemon struct {
	// Socket is where it listens; empty for one on stdio.
	Socket string
	// StateDir and RuntimeDir are its own, and stay over a Restart.
	StateDir, RuntimeDir string
	// PID is the process id.
	PID int
	// Stdin and Stdout are the client's ends of the pipes of a daemon on stdio.
	Stdin  io.WriteCloser
	Stdout io.ReadCloser

	root   string
	binary string
	opts   options
	cmd    *exec.Cmd
	exited chan struct{}    // closed when the process has been waited for
	state  *os.ProcessState // how it ended; set before exited closes
	// killed says that the process may end in any way.
	killed bool
}

type options struct {
	args  []string
	env   []string
	stdio bool
	dirty bool
	use   string
}

// Option changes how a daemon is started.
type Option func(*options)

// Args adds flags to `trl serve`.
func Args(args ...string) Option { return func(o *options) { o.args = append(o.args, args...) } }

// Env adds variables, as K=V, to the environment of the daemon, which is otherwise
// small and the same on every machine.
func Env(kv ...string) Option { return func(o *options) { o.env = append(o.env, kv...) } }

// ScanVariable in the environment of the tests makes all daemons and runners find
// processes as they do on macOS, without a subreaper and cgroups.
const ScanVariable = "TRL_TEST_SCAN"

// Scan does that for one daemon.
func Scan() Option { return Env(ScanVariable + "=1") }

// Stdio starts `trl serve --stdio` instead of one that listens.
func Stdio() Option { return func(o *options) { o.stdio = true } }

// Use starts another trl than the one built from this tree.
func Use(binary string) Option { return func(o *options) { o.use = binary } }

// KeepsProcesses says that the test leaves sessions behind on purpose
// (--keep-sessions): what is left is ended silently.
func KeepsProcesses() Option { return func(o *options) { o.dirty = true } }

// Start starts a daemon and returns when it listens. When the test ends, the
// daemon is stopped with SIGTERM (one on stdio by the end of its input) and must
// exit with 0, leave no process of its sessions behind, and have had neither a
// data race nor a panic.
func Start(t testing.TB, opts ...Option) *Daemon {
	t.Helper()
	root := testkit.Dir(t)
	d := &Daemon{root: root, StateDir: filepath.Join(root, "state")}
	for _, opt := range opts {
		opt(&d.opts)
	}
	if d.binary = d.opts.use; d.binary == "" {
		d.binary = Binary(t)
	}
	if !d.opts.stdio {
		d.Socket = filepath.Join(root, "run", "trl.sock")
	}
	d.RuntimeDir = testkit.MemoryDir(t)
	if err := os.Mkdir(filepath.Join(root, "home"), 0o700); err != nil {
		t.Fatalf("trltest: %s", err)
	}
	t.Cleanup(func() {
		d.Stop(t)
		if t.Failed() {
			t.Logf("trltest: stderr of the daemon:\n%s", tail(d.Stderr(), 16<<10))
		}
	})
	d.start(t)
	return d
}

func (d *Daemon) start(t testing.TB) {
	t.Helper()
	args := []string{"serve", "--state-dir", d.StateDir}
	if d.opts.stdio {
		args = append(args, "--stdio")
	} else {
		args = append(args, "--socket", d.Socket, "--ready-fd", "3")
	}
	cmd := exec.Command(d.binary, append(args, d.opts.args...)...)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(d.root, "home"), "LANG=C.UTF-8", "USER=" + os.Getenv("USER"),
		"TRL_RUNTIME_DIR=" + d.RuntimeDir, markerVar + "=" + d.root,
		"GORACE=atexit_sleep_ms=0 log_path=" + filepath.Join(d.root, "race"), // runners inherit it
	}, d.opts.env...)
	if scan := os.Getenv(ScanVariable); scan != "" {
		cmd.Env = append(cmd.Env, ScanVariable+"="+scan)
	}
	stderr, err := os.OpenFile(d.stderrPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatalf("trltest: %s", err)
	}
	defer stderr.Close()
	cmd.Stderr = stderr // a file, so that Wait does not wait for processes that inherit it
	if d.opts.stdio {
		if d.Stdin, err = cmd.StdinPipe(); err == nil {
			d.Stdout, err = cmd.StdoutPipe()
		}
		if err != nil {
			t.Fatalf("trltest: %s", err)
		}
	}
	ready, readyChild, err := os.Pipe()
	if err != nil {
		t.Fatalf("trltest: %s", err)
	}
	defer ready.Close()
	cmd.ExtraFiles = []*os.File{readyChild}
	err = cmd.Start()
	readyChild.Close()
	if err != nil {
		t.Fatalf("trltest: start the daemon: %s", err)
	}
	d.cmd, d.PID, d.killed = cmd, cmd.Process.Pid, false
	d.exited = make(chan struct{})
	go func(exited chan struct{}) {
		d.state, _ = cmd.Process.Wait() // not cmd.Wait, which closes the pipes under the reader
		close(exited)
	}(d.exited)
	if d.opts.stdio {
		return
	}
	_ = ready.SetReadDeadline(time.Now().Add(patience))
	if line, err := bufio.NewReader(ready).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("trltest: the daemon is not ready: it said %q, %v\n%s", line, err, d.Stderr())
	}
}

// Client returns a client of the daemon, which is closed when the test ends.
func (d *Daemon) Client(t testing.TB) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, d.Socket)
	if err != nil {
		t.Fatalf("trltest: %s", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Kill9 kills the daemon with SIGKILL and waits for its end. Its sessions go on;
// those that are left when the test ends are ended silently, unless it was restarted.
func (d *Daemon) Kill9() {
	_ = d.cmd.Process.Kill()
	<-d.exited
	d.killed = true
}

// Restart starts the daemon again on the same socket and directories, after
// Kill9, or after stopping it in the regular way.
func (d *Daemon) Restart(t testing.TB) {
	t.Helper()
	if d.running() {
		d.Stop(t)
	}
	d.start(t)
}

// Crash kills the daemon, calls between unless it is nil, starts the next daemon and returns a client
// of it.
func (d *Daemon) Crash(t testing.TB, between func()) *client.Client {
	t.Helper()
	d.Kill9()
	if between != nil {
		between()
	}
	d.Restart(t)
	return d.Client(t)
}

// Use makes the next Restart start another trl.
func (d *Daemon) Use(binary string) { d.binary = binary }

// Signal sends a signal to the daemon.
func (d *Daemon) Signal(t testing.TB, sig os.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("trltest: signal the daemon: %s", err)
	}
}

// Exited is closed when the process has ended.
func (d *Daemon) Exited() <-chan struct{} { return d.exited }

// Stop stops the daemon in the regular way and checks what it leaves behind. It
// may be called more than once; Start arranges for a last time.
func (d *Daemon) Stop(t testing.TB) {
	t.Helper()
	if d.cmd == nil {
		return
	}
	known := d.sessions()
	if !d.killed {
		d.end(t)
	}
	known = append(known, d.recorded()...)
	left := d.left(known)
	if !d.killed && !d.opts.dirty {
		for _, p := range left {
			t.Errorf("trltest: process left behind: %s", p)
		}
		if _, err := os.Lstat(d.Socket); d.Socket != "" && err == nil {
			t.Errorf("trltest: the socket is left behind: %s", d.Socket)
		}
	}
	for _, p := range left {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	d.checkFaults(t)
	d.cmd = nil
}

// end makes the process end and checks how it did.
func (d *Daemon) end(t testing.TB) {
	t.Helper()
	if d.running() {
		if d.opts.stdio {
			_ = d.Stdin.Close()
			go func() { _, _ = io.Copy(io.Discard, d.Stdout) }()
		} else {
			_ = d.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	select {
	case <-d.exited:
	case <-time.After(patience):
		_ = d.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines tell why
		select {
		case <-d.exited:
		case <-time.After(patience):
			_ = d.cmd.Process.Kill()
			<-d.exited
		}
		t.Errorf("trltest: the daemon did not end within %s", patience)
	}
	if d.Stdout != nil {
		_ = d.Stdout.Close()
	}
}

func (d *Daemon) running() bool {
	if d.cmd == nil {
		return false
	}
	select {
	case <-d.exited:
		return false
	default:
		return true
	}
}

// sessions asks a daemon that still runs for its sessions, the ended ones too.
func (d *Daemon) sessions() []string {
	if !d.running() || d.Socket == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, d.Socket)
	if err != nil {
		return nil
	}
	defer c.Close()
	list, err := c.SessionList(ctx, api.SessionListParams{})
	if err != nil {
		return nil
	}
	var ids []string
	for _, s := range list.Sessions {
		ids = append(ids, s.SessionID)
	}
	return ids
}

// recorded returns the sessions that have a record in the state directory.
func (d *Daemon) recorded() []string {
	var ids []string
	files, _ := filepath.Glob(filepath.Join(d.StateDir, "sessions", "s-*.json"))
	for _, f := range files {
		ids = append(ids, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	return ids
}

func (d *Daemon) stderrPath() string { return filepath.Join(d.root, "stderr") }

// Stderr is everything the daemon has written to stderr, over all its restarts.
func (d *Daemon) Stderr() string {
	b, err := os.ReadFile(d.stderrPath())
	if err != nil {
		return fmt.Sprintf("(%s)", err)
	}
	return string(b)
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}
