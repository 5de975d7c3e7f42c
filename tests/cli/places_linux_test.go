package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/testkit"
)

// account is a user of this machine with a user id of its own: the default places of the daemon
// follow from it.
type account struct {
	*sandbox
	uid    int
	passwd string // the file of the user database; empty for that of the machine, which lacks the user
}

var accounts atomic.Int64

func newAccount(t *testing.T) *account {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	a := &account{sandbox: newSandbox(t), uid: 400_000 + os.Getpid()%90_000*10 + int(accounts.Add(1))}
	bin := filepath.Join(a.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"trl", "trl-runner"} {
		if out, err := exec.Command("cp", filepath.Join(filepath.Dir(a.trl), name), bin).CombinedOutput(); err != nil {
			t.Fatalf("%s: %s", err, out)
		}
	}
	a.sandbox.trl = filepath.Join(bin, "trl")
	for path, mode := range map[string]os.FileMode{
		a.dir: 0o711, bin: 0o755, a.trl: 0o755, a.trl + "-runner": 0o755, a.home(): 0o700, a.work: 0o700,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{a.home(), a.work} {
		if err := os.Chown(path, a.uid, a.uid); err != nil {
			t.Fatal(err)
		}
	}
	places := []string{fmt.Sprintf("/tmp/trl-%d", a.uid), fmt.Sprintf("/dev/shm/trl-%d", a.uid), a.login()}
	t.Cleanup(func() {
		if o := a.trlWith(t, nil, "stop"); o.status != 0 {
			t.Errorf("trl stop: %+v", o)
		}
		for _, dir := range places {
			_ = os.RemoveAll(dir)
		}
	})
	return a
}

// login is the directory that the user has while logged in.
func (a *account) login() string { return fmt.Sprintf("/run/user/%d", a.uid) }

func (a *account) logIn(t *testing.T) {
	t.Helper()
	// A machine without systemd has no directory for those of its users.
	if err := errors.Join(os.MkdirAll(filepath.Dir(a.login()), 0o755), os.Mkdir(a.login(), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(a.login(), a.uid, a.uid); err != nil {
		t.Fatal(err)
	}
}

// enter puts the user into the user database, with a home directory. Only the processes of the
// account see that.
func (a *account) enter(t *testing.T, home string) {
	t.Helper()
	a.passwd = filepath.Join(a.dir, "passwd")
	text := fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\nsomebody:x:%d:%d::%s:/bin/sh\n", a.uid, a.uid, home)
	if err := os.WriteFile(a.passwd, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// trlWith runs trl as the user, with the user's home and the given variables alone.
func (a *account) trlWith(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	cmd := a.command(a.trl, args...)
	if a.passwd != "" {
		id := strconv.Itoa(a.uid)
		cmd = a.command("unshare", append([]string{"--mount", "sh", "-c", `mount --bind "$0" /etc/passwd && id=$1 && shift && exec setpriv --reuid "$id" --regid "$id" --clear-groups "$@"`,
			a.passwd, id, a.trl}, args...)...)
	}
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"}, env...)
	if env == nil {
		cmd.Env = append(cmd.Env, "HOME="+a.home())
	}
	if a.passwd == "" {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.uid)}
	}
	return a.finish(t, cmd)
}

// TestOneUserManyEnvironments: a desktop, cron, su, an MCP client; before and after a login.
func TestOneUserManyEnvironments(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	run := filepath.Join(a.dir, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(run, a.uid, a.uid); err != nil {
		t.Fatal(err)
	}
	home := "HOME=" + a.home()
	if o := a.trlWith(t, []string{home}, "run", "-s", "work", "v=kept"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	environments := map[string][]string{
		"desktop":         {home, "XDG_RUNTIME_DIR=" + run},
		"own directories": {home, "XDG_STATE_HOME=" + a.work, "XDG_CONFIG_HOME=" + a.work, "TMPDIR=" + run},
		"other home":      {"HOME=" + a.work},
		"nothing":         {"X="},
	}
	check := func(when string) {
		for name, env := range environments {
			if o := a.trlWith(t, env, "run", "-s", "work", "echo $v"); o.status != 0 || o.stdout != "kept\n" {
				t.Errorf("%s, %s: %+v", when, name, o)
			}
		}
	}
	check("before the login")
	a.logIn(t)
	check("after the login")
	// The next daemon uses a directory in memory, which only this user can read.
	if o := a.trlWith(t, []string{home}, "stop"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	if o := a.trlWith(t, []string{home}, "run", "-s", "work", "v=kept"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	socket := filepath.Join(a.login(), "trl", "trl.sock")
	for file, want := range map[string]os.FileMode{filepath.Dir(socket): os.ModeDir | 0o700, socket: os.ModeSocket | 0o600} {
		if info, err := os.Lstat(file); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	check("with a daemon below /run/user")
}

// TestCrashWithOtherVariables: whichever caller starts the next daemon, it has the sessions of the one that
// was killed.
func TestCrashWithOtherVariables(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		home func(a *account) string // in the user database
		// other are the variables of the second caller, who has another home unless the database lacks one.
		other func(a *account) []string
	}{
		{"a home in the user database", (*account).home, func(a *account) []string {
			return []string{"HOME=" + a.work, "XDG_STATE_HOME=" + filepath.Join(a.work, "state")}
		}},
		{"no variables", (*account).home, func(*account) []string { return []string{"X="} }},
		{"a home that cannot be used", func(*account) string { return "/nonexistent" }, func(a *account) []string {
			return []string{"HOME=" + a.home(), "XDG_STATE_HOME=" + a.work}
		}},
		{"the root as a home", func(*account) string { return "/" }, func(a *account) []string {
			return []string{"HOME=" + a.home(), "XDG_STATE_HOME=" + a.work}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAccount(t)
			a.enter(t, tt.home(a))
			first, second := []string{"HOME=" + a.home()}, tt.other(a)
			if o := a.trlWith(t, first, "run", "-s", "work", "v=kept"); o.status != 0 {
				t.Fatalf("%+v", o)
			}
			for _, env := range [][]string{second, first} {
				var info struct{ PID int }
				o := a.trlWith(t, first, "call", "system.info")
				if err := json.Unmarshal([]byte(o.stdout), &info); err != nil || info.PID <= 1 {
					t.Fatalf("%+v: %v", o, err)
				}
				if err := unix.Kill(info.PID, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if o := a.trlWith(t, env, "run", "-s", "work", "echo $v"); o.status != 0 || o.stdout != "kept\n" {
						t.Errorf("%q: %+v", env, o)
					}
				}
			}
			if _, err := os.Stat(filepath.Join(a.home(), ".local", "state", "trl", "lock")); err != nil {
				t.Error(err)
			}
			if o := a.trlWith(t, second, "kill", "--all"); o.status != 0 {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestUpgradeWithOtherDefault: a daemon that replaces itself keeps its state directory, also if the
// new program would choose another one.
func TestUpgradeWithOtherDefault(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.enter(t, "/nonexistent") // so that $HOME counts
	env := []string{"HOME=" + a.home()}
	if o := a.trlWith(t, env, "run", "-s", "work", "v=kept"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	a.enter(t, a.work) // the daemon sees the same file
	for range 2 {
		if o := a.trlWith(t, env, "upgrade"); o.status != 0 {
			t.Fatalf("%+v", o)
		}
		if o := a.trlWith(t, env, "run", "-s", "work", "echo $v"); o.status != 0 || o.stdout != "kept\n" {
			t.Errorf("%+v", o)
		}
	}
	if o := a.trlWith(t, env, "kill", "--all"); o.status != 0 {
		t.Errorf("%+v", o)
	}
}

// TestLogout: the directory below /run/user goes, and the daemon listens elsewhere.
func TestLogout(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.logIn(t)
	if o := a.trlWith(t, nil, "ls"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	before := a.trlWith(t, nil, "call", "system.info")
	testkit.Eventually(t, "removed", func() bool { return os.RemoveAll(a.login()) == nil })
	after := a.trlWith(t, nil, "call", "system.info")
	if pid := `"pid"`; before.status != 0 || after.status != 0 || line(before.stdout, pid) != line(after.stdout, pid) {
		t.Errorf("%+v\n%+v", before, after)
	}
}

func line(text, word string) string {
	for l := range strings.Lines(text) {
		if strings.Contains(l, word) {
			return l
		}
	}
	return ""
}

// TestNoRoomForTheDaemon: the error has the reason, and not the goroutines of the daemon.
func TestNoRoomForTheDaemon(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	cmd := a.command("bash", "-c", `ulimit -u 25; exec "$0" "$@"`, a.trl, "ls")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + a.home()}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.uid)}
	o := a.finish(t, cmd)
	if o.status != 125 || !strings.HasPrefix(o.stderr, "trl: start the daemon: the limit of processes is reached (ulimit -u") || strings.Count(o.stderr, "\n") != 2 {
		t.Errorf("%+v", o)
	}
}

// TestSocketIsRemoved: the daemon is found again, and stop ends it.
func TestSocketIsRemoved(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	if o := s.run(t, "run", "-s", "work", "v=kept"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	for _, remove := range []func() error{
		func() error { return os.Remove(s.socket()) },
		func() error { return os.RemoveAll(filepath.Dir(s.socket())) },
	} {
		_ = remove()
		if o := s.run(t, "run", "-s", "work", "echo $v"); o.status != 0 || o.stdout != "kept\n" {
			t.Errorf("%+v", o)
		}
	}
	// trl stop finds the daemon, and wakes it, if the socket is not made again.
	pid := s.daemonPID(t)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// The kernel stops the threads one after the other. Until then the daemon makes a new socket.
	testkit.Eventually(t, "stopped", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		return !slices.ContainsFunc(threads, func(path string) bool {
			status, _ := os.ReadFile(path)
			return !strings.Contains(line(string(status), "State:"), "stopped")
		})
	})
	_ = os.Remove(s.socket())
	if o := s.run(t, "stop"); o.status != 0 || o.stderr != "" {
		t.Errorf("stop: %+v", o)
	}
	if list := s.daemons(); len(list) > 0 {
		t.Errorf("still there: %v", list)
	}
}

// TestNoPermissionOnDockerSocket: the error says who may use the engine, and what to do.
func TestNoPermissionOnDockerSocket(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	const adm = 4 // a group of every Linux
	group := testkit.Must(user.LookupGroupId(strconv.Itoa(adm)))(t).Name
	for _, c := range []struct {
		name string
		gid  int
		mode os.FileMode
		says string
	}{
		{"owner", 0, 0o600, "which only its owner (uid 0) may use; run the daemon as that user"},
		{"group", adm, 0o660, "which belongs to the group " + group + ": add the daemon's user to that group (sudo usermod -aG " + group + " "},
	} {
		t.Run(c.name, func(t *testing.T) {
			socket := filepath.Join(a.dir, c.name+".sock")
			l := testkit.Must(net.Listen("unix", socket))(t)
			defer l.Close()
			if err := errors.Join(os.Chown(socket, 0, c.gid), os.Chmod(socket, c.mode)); err != nil {
				t.Fatal(err)
			}
			engine := "engine unix://" + socket
			o := a.trlWith(t, nil, "run", "--on", "docker:busybox", "--place", "engine=unix://"+socket, "true")
			if o.status != 125 || o.stdout != "" || !strings.Contains(o.stderr, engine+": no permission on the socket, "+c.says) {
				t.Errorf("%+v", o)
			}
			o = a.trlWith(t, nil, "call", "runtime.check", `{"runtime":"docker:busybox","place":{"engine":"unix://`+socket+`"}}`)
			if o.status != 0 || !strings.Contains(o.stdout, `"reachable":false`) || !strings.Contains(o.stdout, engine+": no permission") {
				t.Errorf("%+v", o)
			}
			o = a.trlWith(t, nil, "call", "session.create", `{"runtime":"docker:busybox","place":{"engine":"unix://`+socket+`"}}`)
			if o.status != 125 || !strings.Contains(o.stdout+o.stderr, "RUNTIME_UNAVAILABLE") {
				t.Errorf("%+v", o)
			}
		})
	}
	if o := a.trlWith(t, nil, "ls", "--all"); o.status != 0 || strings.Contains(o.stdout, "s-") {
		t.Errorf("left: %+v", o)
	}
}

// TestTwoSocketsOneState: a second daemon cannot have the state directory, and the error
// says which daemon has it.
func TestTwoSocketsOneState(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	if o := s.run(t, "ls"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	other := filepath.Join(s.dir, "run", "other.sock")
	o := s.run(t, "--socket", other, "ls")
	want := fmt.Sprintf("in use by the daemon with pid %d, which serves on %s", s.daemonPID(t), s.socket())
	if o.status != 125 || !strings.Contains(o.stderr, want) {
		t.Errorf("%+v; want %q", o, want)
	}
	if o := s.run(t, "--socket", other, "stop"); o.status != 0 || !strings.Contains(o.stderr, "no daemon is running on "+other) {
		t.Errorf("%+v", o)
	}
	if list := s.daemons(); len(list) != 1 {
		t.Errorf("%d daemons: %v", len(list), list)
	}
}

// TestSocketInTmp: the socket's path of the service that TRL continues.
func TestSocketInTmp(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	socket := fmt.Sprintf("/tmp/trl-test-%d.sock", os.Getpid())
	defer os.Remove(socket + ".lock")
	if o := s.run(t, "--socket", socket, "run", "echo hello"); o.status != 0 || o.stdout != "hello\n" {
		t.Errorf("%+v", o)
	}
	if o := s.run(t, "--socket", socket, "stop"); o.status != 0 || o.stderr != "" {
		t.Errorf("%+v", o)
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Errorf("left behind: %s", socket)
	}
}
