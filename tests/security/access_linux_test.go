package security_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/trltest"
)

// otherUser is a user that is neither root nor the user of the test.
const otherUser = 65534

// TestModes looks at everything the daemon puts into the file system, made under
// the most careless umask there is.
func TestModes(t *testing.T) {
	old := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(old) })
	daemon := trltest.Start(t)
	syscall.Umask(old)
	service := daemon.Client(t)
	ctx := context.Background()
	for _, shell := range []string{"bash", "fish"} {
		s, err := service.SessionCreate(ctx, api.SessionCreateParams{Shell: shell})
		if err != nil {
			t.Logf("%s: %s", shell, err)
			continue
		}
		// A command with stdin and a background job: as many files as there can be.
		if _, err := service.ExecRun(ctx, api.ExecParams{SessionID: s.SessionID, Command: "cat; sleep 30 &", Stdin: new("x"), Env: map[string]string{"A": "1"}}); err != nil {
			t.Fatal(err)
		}
		// What the user's commands make is the user's affair: the umask is as it was.
		r, err := service.ExecRun(ctx, api.ExecParams{SessionID: s.SessionID, Command: "umask"})
		if err != nil || strings.Trim(r.Stdout, "0\n") != "" {
			t.Errorf("%s: the umask of the session is %q, must be that of the daemon, 0 (%v)", shell, r.Stdout, err)
		}
	}
	mode := func(path string, want fs.FileMode) {
		t.Helper()
		info, err := os.Lstat(path)
		if err != nil {
			t.Error(err)
		} else if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, must be %o", path, got, want)
		}
	}
	mode(filepath.Dir(daemon.Socket), 0o700)
	mode(daemon.Socket, 0o600)
	mode(daemon.StateDir, 0o700)
	n := 0
	for _, dir := range []string{daemon.StateDir, daemon.RuntimeDir} {
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == dir {
				return nil
			}
			n++
			if e.IsDir() {
				mode(path, 0o700)
			} else if info, err := e.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %s, nobody else may have any", path, info.Mode())
			}
			return nil
		})
	}
	if n == 0 {
		t.Error("there are no files; the test proves nothing")
	}
}

// TestOtherUser connects as another user, first with the modes of the files as they are, then with
// every directory open: the daemon itself must check the user.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	daemon := trltest.Start(t)
	if _, err := asUser(otherUser, daemon.Socket); !errors.Is(err, unix.EACCES) {
		t.Errorf("another user can reach the socket: %v", err)
	}
	for dir := filepath.Dir(daemon.Socket); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(daemon.Socket, 0o666); err != nil {
		t.Fatal(err)
	}
	answer, err := asUser(otherUser, daemon.Socket)
	if err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("connect as another user: %s", err)
	}
	if strings.Contains(answer, `"ok":true`) {
		t.Errorf("another user was served: %s", answer)
	}
	t.Logf("the answer to another user: %q", answer)
	if answer, err := asUser(0, daemon.Socket); err != nil || !strings.Contains(answer, `"ok":true`) {
		t.Errorf("root was not served: %q, %v", answer, err)
	}
}

// asUser sends a ping from a thread of another user, and returns the answer. Credentials belong to threads; this one is never used again.
func asUser(uid int, socket string) (answer string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
			err = e
			return
		}
		answer, err = ping(socket)
	}()
	<-done
	return answer, err
}

func ping(socket string) (string, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30}); err != nil {
		return "", err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		return "", err
	}
	if _, err := unix.SendmsgN(fd, []byte(`{"id":1,"method":"system.ping"}`+"\n"), nil, nil, unix.MSG_NOSIGNAL); err != nil {
		return "", err
	}
	if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil && !errors.Is(err, unix.ENOTCONN) {
		return "", err
	}
	var all []byte
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, buf)
		if n <= 0 {
			return string(all), err
		}
		all = append(all, buf[:n]...)
	}
}

// TestSocketIsOurs starts a second daemon on a socket that is in use, on one that
// is stale, and on a path that is no socket at all.
func TestSocketIsOurs(t *testing.T) {
	daemon := trltest.Start(t)
	out, err := serve(t, daemon.Socket)
	if err == nil {
		t.Fatalf("a second daemon took the socket: %s", out)
	}
	if !strings.Contains(out, daemon.Socket) {
		t.Errorf("the message does not name the socket: %q", out)
	}
	if answer, err := ping(daemon.Socket); err != nil || !strings.Contains(answer, `"ok":true`) {
		t.Fatalf("the first daemon does not answer any more: %q, %v", answer, err)
	}

	daemon.Kill9()
	if _, err := os.Lstat(daemon.Socket); err != nil {
		t.Fatalf("there is no stale socket; the test proves nothing: %s", err)
	}
	daemon.Restart(t)
	if answer, err := ping(daemon.Socket); err != nil || !strings.Contains(answer, `"ok":true`) {
		t.Errorf("a stale socket was not replaced: %q, %v", answer, err)
	}

	precious := filepath.Join(filepath.Dir(daemon.Socket), "precious")
	if err := os.WriteFile(precious, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := serve(t, precious); err == nil {
		t.Errorf("a daemon listens in place of a file: %s", out)
	}
	if data, err := os.ReadFile(precious); err != nil || string(data) != "data" {
		t.Errorf("the file was touched: %q, %v", data, err)
	}
}

// serve starts a daemon that is expected to refuse, and returns what it says.
func serve(t *testing.T, socket string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, trltest.Binary(t), "serve", "--socket", socket, "--state-dir", t.TempDir())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return string(out), nil // it stayed: it did not refuse
	}
	return string(out), err
}

// TestDaemonVariables puts a token into the daemon's environment. It reaches
// neither runner nor shell nor command.
func TestDaemonVariables(t *testing.T) {
	const token = "qX7token-0a1b2c"
	daemon := trltest.Start(t, trltest.Env("TRL_AUTH_TOKEN="+token, "ORDINARY=passed-on"))
	service := daemon.Client(t)
	ctx := context.Background()
	s, err := service.SessionCreate(ctx, api.SessionCreateParams{Shell: "bash"})
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"env; set", "exit 3", "env; set", "cat /proc/$$/environ | tr '\\000' '\\n'"} {
		r, err := service.ExecRun(ctx, api.ExecParams{SessionID: s.SessionID, Command: command})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(r.Stdout, "TRL_AUTH_TOKEN") || strings.Contains(r.Stdout, token) {
			t.Errorf("%s: the token is there", command)
		}
		if strings.HasPrefix(command, "env") && !strings.Contains(r.Stdout, "ORDINARY=passed-on") {
			t.Errorf("%s: an ordinary variable of the daemon is missing", command)
		}
	}
	info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: s.SessionID})
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{info.RunnerPID, info.ShellPID} {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || strings.Contains(string(environ), token) {
			t.Errorf("process %d: the token is in its environment, or %v", pid, err)
		}
	}
}

// TestShellDescriptors looks at what the shell holds open: pipes of its session and
// nothing of the daemon, of a client or of another session.
func TestShellDescriptors(t *testing.T) {
	daemon := trltest.Start(t)
	service := daemon.Client(t)
	ctx := context.Background()
	for range 3 {
		if _, err := service.SessionCreate(ctx, api.SessionCreateParams{Shell: "bash"}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := service.SessionCreate(ctx, api.SessionCreateParams{Shell: "bash"})
	if err != nil {
		t.Fatal(err)
	}
	info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: s.SessionID})
	if err != nil {
		t.Fatal(err)
	}
	dir := fmt.Sprintf("/proc/%d/fd", info.ShellPID)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		target, _ := os.Readlink(filepath.Join(dir, e.Name()))
		if strings.HasPrefix(target, "socket:") || strings.Contains(target, "anon_inode") || strings.Contains(target, daemon.StateDir) {
			t.Errorf("the shell holds %s: %s", e.Name(), target)
		}
	}
}
