package soak_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// unprivilegedVar is set in the process that unprivileged has started.
const unprivilegedVar = "TRL_TEST_UNPRIVILEGED"

// unprivileged runs the test again in a process of an ordinary user, because the limit
// of processes does not bind root. It reports whether this is that process.
func unprivileged(t *testing.T) bool {
	t.Helper()
	if os.Getenv(unprivilegedVar) != "" {
		return true
	}
	plain, err := trltest.Plain() // the race detector makes threads of its own
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		t.Setenv("TRL_TEST_BIN", plain)
		return true
	}
	uid := 60000 + os.Getpid()%5000
	dir := testkit.Dir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{"test": self, "trl": plain, "trl-runner": filepath.Join(filepath.Dir(plain), "trl-runner")} {
		copyProgram(t, from, filepath.Join(dir, to))
	}
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "test"), "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), unprivilegedVar+"=yes", "TRL_TEST_BIN="+filepath.Join(dir, "trl"), "HOME="+dir, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as uid %d: %v\n%s", uid, err, out)
	}
	return false
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err == nil {
		_, err = io.Copy(dst, src)
		err = errors.Join(err, dst.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// limited are processes that can be brought to the limit of processes.
type limited struct {
	pids  []int
	limit unix.Rlimit // what it was
}

// squeeze makes every further process and thread of these impossible.
func (l *limited) squeeze(t *testing.T) {
	t.Helper()
	for _, pid := range l.pids {
		if err := unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &l.limit); err != nil {
			t.Fatalf("limit of %d: %s", pid, err)
		}
		if err := unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: l.limit.Max}, nil); err != nil {
			t.Fatalf("limit of %d: %s", pid, err)
		}
	}
}

// release takes that back for those that are still there.
func (l *limited) release() {
	for _, pid := range l.pids {
		_ = unix.Prlimit(pid, unix.RLIMIT_NPROC, &l.limit, nil)
	}
}

func threads(pid int) int {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return len(tasks)
}

// TestProcessLimit brings the daemon and all its sessions to the limit of processes.
// What needs another process is refused, or fails in the command that needs it. Nothing
// dies, and afterwards everything is as it was.
func TestProcessLimit(t *testing.T) {
	if !unprivileged(t) {
		return
	}
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "1"))
	service := daemon.Client(t)
	ctx := context.Background()
	list := shells(t, t.TempDir())
	ids := map[string]string{}
	for _, shell := range list {
		id := create(t, service, api.SessionCreateParams{Shell: shell, WorkingDir: "/tmp", Env: map[string]string{"E": "set"}}).SessionID
		set := "V=kept; cd /usr"
		if strings.HasSuffix(shell, "fish") {
			set = "set -g V kept; cd /usr"
		}
		run(t, service, id, set)
		ids[shell] = id
	}
	program := create(t, service, api.SessionCreateParams{Kind: api.KindProgram, Command: []string{"cat"}}).SessionID
	screen := create(t, service, api.SessionCreateParams{Kind: api.KindTerminal, Command: []string{"cat"}}).SessionID
	large := run(t, service, ids[list[0]], "head -c 20000000 /dev/zero").ExecID // goes to a file
	runners := map[int]int{daemon.PID: threads(daemon.PID)}
	for _, p := range below(daemon.PID) {
		if strings.Contains(p.command, "trl-runner") {
			runners[p.pid] = threads(p.pid)
		}
	}
	full := limited{pids: []int{daemon.PID}}
	for _, p := range below(daemon.PID) {
		full.pids = append(full.pids, p.pid)
	}
	full.squeeze(t)
	t.Cleanup(full.release)

	for _, p := range []api.SessionCreateParams{{}, {Kind: api.KindTerminal, Command: []string{"cat"}}, {Kind: api.KindProgram, Command: []string{"cat"}}} {
		if info, err := service.SessionCreate(ctx, p); !pressed(err) {
			t.Errorf("session.create %s at the limit: %+v, %v", p.Kind, info, err)
		}
	}
	crowd(t, service, ids, large)
	for _, shell := range list {
		shellAtLimit(t, service, filepath.Base(shell), ids[shell])
	}
	for pid, before := range runners {
		if now := threads(pid); now == 0 || now > before {
			t.Errorf("process %d has %d threads, had %d", pid, now, before)
		}
	}
	full.release()
	for _, shell := range list {
		says(t, service, ids[shell], `echo "$V$E$ONCE"; pwd; /bin/echo can fork`, "keptset\n/usr\ncan fork\n")
	}
	for _, id := range []string{program, screen} {
		if info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: id}); err != nil || info.State != api.SessionRunning {
			t.Errorf("session.info: %+v, %v", info, err)
		}
	}
}

// shellAtLimit uses a shell that cannot start a process, and ends it.
func shellAtLimit(t *testing.T, service api.Service, name, id string) {
	try := func(t *testing.T, command string, p api.ExecParams) (api.ExecResult, error) {
		p.SessionID, p.Command = id, command
		r, err := service.ExecRun(context.Background(), p)
		if name == "fish" && pressed(err) {
			t.Skip() // it makes threads itself, and ends without them
		}
		return r, err
	}
	t.Run(name, func(t *testing.T) {
		limit := 2.0 // bash tries for a long time
		if r, err := try(t, "/bin/echo never", api.ExecParams{TimeoutS: &limit}); err != nil || r.ExitCode == 0 || r.Stdout != "" {
			t.Errorf("a command that needs a process: %+v, %v", r, err)
		}
		limit = 0.3
		if r, err := try(t, "while :; do :; done", api.ExecParams{TimeoutS: &limit}); err != nil || !r.TimedOut {
			t.Errorf("time-out: %+v, %v", r, err)
		}
		// The command's own directory and variables end with it, although the shell that
		// could take them back does not come at once.
		own := api.ExecParams{WorkingDir: "/tmp", Env: map[string]string{"ONCE": "leaked", "E": "other"}}
		if name == "ash" { // needs a process to set variables for one command
			if r, err := try(t, "exit 3", own); err == nil {
				t.Errorf("exit: %+v", r)
			}
			own.Env = nil
		}
		says(t, service, id, "echo $V$E; pwd", "keptset\n/usr\n")
		if r, err := try(t, "exit 3", own); err != nil || r.ExitCode != 3 || !r.ShellRestarted {
			t.Errorf("exit: %+v, %v", r, err)
		}
		for range 2 {
			if r, err := try(t, "echo $V", api.ExecParams{}); !pressed(err) {
				t.Errorf("a command without a shell: %+v, %v", r, err)
			}
		}
		if info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: id}); err != nil || info.State != api.SessionIdle {
			t.Errorf("session.info: %+v, %v", info, err)
		}
	})
}

func pressed(err error) bool { return errors.Is(err, api.ErrResourcePressure) }

// crowd asks the daemon and its runners for everything that takes a thread, at the same time.
func crowd(t *testing.T, service api.Service, ids map[string]string, large string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, id := range ids {
		for _, ask := range []func() error{
			func() error { _, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: id}); return err },
			func() error { _, err := service.ExecList(ctx, api.ExecListParams{SessionID: id}); return err },
			func() error {
				_, err := service.ExecRun(ctx, api.ExecParams{SessionID: id, Command: "echo x", Wait: true})
				return err
			},
			func() error {
				_, err := service.ExecOutput(ctx, api.ExecOutputParams{ExecID: large, Offset: 9_000_000})
				return err
			},
		} {
			for range 3 {
				all.Go(func() {
					for ctx.Err() == nil {
						if err := ask(); err != nil && !pressed(err) && ctx.Err() == nil {
							t.Errorf("at the limit: %s", err)
							return
						}
					}
				})
			}
		}
	}
	all.Wait()
}
