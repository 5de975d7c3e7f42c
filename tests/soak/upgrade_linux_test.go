package soak_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestUpgrade replaces the daemon again and again under a reader, a waiting exec.run
// and clients that connect all the time: no client is refused, and nothing is lost.
func TestUpgrade(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--output-bytes", "1GiB", "--session-output-bytes", "4GiB"))
	l := &life{t: t, daemon: daemon, quit: make(chan struct{})}
	service := daemon.Client(t)
	x := &tickerExec{life: l, file: filepath.Join(t.TempDir(), "go")}
	x.session = create(t, service, api.SessionCreateParams{}).SessionID
	run(t, service, x.session, "X=kept; touch "+x.file)
	started, err := service.ExecStart(context.Background(), api.ExecParams{SessionID: x.session, Command: fmt.Sprintf(ticker, x.file)})
	if err != nil {
		t.Fatal(err)
	}
	x.id = started.ExecID
	var all sync.WaitGroup
	all.Go(x.read)

	// A command whose caller waits: it runs once, and the caller gets its result.
	waiting := create(t, service, api.SessionCreateParams{}).SessionID
	all.Go(func() {
		c := l.dial()
		defer c.Close()
		r, err := c.ExecRun(context.Background(), api.ExecParams{SessionID: waiting, Command: "echo up; while [ -e " + x.file + " ]; do sleep 0.02; done; echo done"})
		if err != nil || r.Stdout != "up\ndone\n" {
			t.Errorf("exec.run over an upgrade: %+v, %v", r, err)
		}
	})
	testkit.EventuallyNoProblem(t, func() string {
		info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: waiting})
		if err != nil || info.State != api.SessionRunning {
			return fmt.Sprintf("%+v %v", info.State, err)
		}
		return ""
	})
	stop := make(chan struct{})
	all.Go(func() { // the socket is never gone
		for {
			select {
			case <-stop:
				return
			default:
			}
			c, err := client.Dial(context.Background(), daemon.Socket)
			if err != nil {
				t.Errorf("connect: %s", err)
				return
			}
			if _, err := c.SystemPing(context.Background(), api.SystemPingParams{}); err != nil && !lost(err) {
				t.Errorf("ping: %s", err)
			}
			c.Close()
		}
	})
	before, err := os.Stat(daemon.Socket)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		c := l.dial()
		old, err := c.SystemInfo(context.Background(), api.SystemInfoParams{})
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			daemon.Signal(t, syscall.SIGUSR2)
		} else if r, err := c.SystemUpgrade(context.Background(), api.SystemUpgradeParams{}); err != nil || r.PID != daemon.PID || r.To == "" {
			t.Fatalf("system.upgrade: %+v, %v", r, err)
		}
		c.Close()
		testkit.EventuallyNoProblem(t, func() string {
			c := l.dial()
			defer c.Close()
			info, err := c.SystemInfo(context.Background(), api.SystemInfoParams{})
			if err != nil || info.StartedAt.Equal(old.StartedAt) {
				return fmt.Sprintf("the daemon is not new: %s %v", info.StartedAt, err)
			}
			return ""
		})
	}
	close(stop)
	after, err := os.Stat(daemon.Socket)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket is another one: %v", err)
	}
	if err := os.Remove(x.file); err != nil {
		t.Error(err)
	}
	all.Wait()
	service = daemon.Client(t)
	if !t.Failed() {
		x.compare(service)
	}
	says(t, service, x.session, "echo $X", "kept\n")
	list, err := service.ExecList(context.Background(), api.ExecListParams{SessionID: waiting})
	if err != nil || len(list.Execs) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := l.finished(list.Execs[0].ExecID, "up\ndone\n"); err != nil {
		t.Error(err)
	}
	for _, id := range []string{x.session, waiting} {
		destroy(t, service, id)
	}
	if left := below(daemon.PID); len(left) > 0 {
		t.Errorf("below the daemon: %v", left)
	}
}

func (l *life) finished(id, output string) error {
	c := l.dial()
	defer c.Close()
	if _, err := c.ExecWait(context.Background(), api.ExecWaitParams{ExecIDs: []string{id}}); err != nil {
		return err
	}
	r, err := c.ExecOutput(context.Background(), api.ExecOutputParams{ExecID: id})
	if err == nil && r.Data != output {
		err = fmt.Errorf("%s: %q, not %q", id, r.Data, output)
	}
	return err
}

// TestUpgradeRefused: a program that could not take over is found out before.
func TestUpgradeRefused(t *testing.T) {
	daemon := trltest.Start(t)
	service := daemon.Client(t)
	s := create(t, service, api.SessionCreateParams{})
	dir := t.TempDir()
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct{ binary, want string }{
		"not there":      {filepath.Join(dir, "nothing"), "no such file"},
		"not a program":  {script("text", "hello\n", 0o600), "permission denied"},
		"another one":    {script("other", "#!/bin/sh\necho hello\n", 0o700), "does not look like trl"},
		"failing":        {script("fails", "#!/bin/sh\necho broken config >&2; exit 3\n", 0o700), "status 3: broken config"},
		"flooding":       {script("floods", "#!/bin/sh\nexec yes\n", 0o700), ""},
		"too old":        {script("old", "#!/bin/sh\necho '{\"version\":\"0.0.1\",\"protocol\":0}'\n", 0o700), "protocol 0"},
		"too new":        {script("new", "#!/bin/sh\necho '{\"version\":\"9\",\"protocol\":99}'\n", 0o700), "protocol 99"},
		"a relative way": {"bin/trl", "not an absolute path"},
	} {
		_, err := service.SystemUpgrade(context.Background(), api.SystemUpgradeParams{Binary: c.binary})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	says(t, service, s.SessionID, "echo here", "here\n")
	destroy(t, service, s.SessionID)
}

// TestSocketActivation starts the daemon as systemd does, with a socket that listens.
func TestSocketActivation(t *testing.T) {
	dir := testkit.Dir(t)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/s", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	notified, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dir + "/notify", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notified.Close()
	// The variables must name the process itself, so a shell sets them and becomes it.
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" serve --state-dir "$1"`, trltest.Binary(t), dir+"/state")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+dir+"/notify", "TRL_RUNTIME_DIR="+dir+"/run", "GORACE=atexit_sleep_ms=0")
	cmd.ExtraFiles = []*os.File{file}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	file.Close()
	buf := make([]byte, 100)
	if n, err := notified.Read(buf); err != nil || string(buf[:n]) != "READY=1" {
		t.Errorf("notified of %q, %v", buf[:n], err)
	}
	c, err := client.Dial(context.Background(), dir+"/s")
	if err != nil {
		t.Fatal(err)
	}
	s := create(t, c, api.SessionCreateParams{})
	if r := run(t, c, s.SessionID, "env | grep -E 'LISTEN|NOTIFY_SOCKET|HANDOVER'; ls /proc/self/fd"); strings.Contains(r.Stdout, "=") {
		t.Errorf("a command sees %q", r.Stdout)
	}
	destroy(t, c, s.SessionID)
	c.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
	if _, err := os.Lstat(dir + "/s"); err != nil {
		t.Errorf("the socket belongs to the manager and is gone: %v", err)
	}
}

// TestUnitFiles has systemd look at them, where it is installed.
func TestUnitFiles(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		fmt.Fprintln(os.Stderr, "SKIPPED: systemd-analyze is not installed; the unit files are not checked")
		return
	}
	dir := t.TempDir()
	units, err := filepath.Glob("../../dist/systemd/*/*")
	if err != nil || len(units) != 4 {
		t.Fatalf("%v, %v", units, err)
	}
	for _, path := range units {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// The program is not installed here, and %h has no value.
		fixed := strings.NewReplacer("/usr/local/bin/trl", "/bin/true", "%h/.local/bin/trl", "/bin/true").Replace(string(text))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), []byte(fixed), 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, ".service") && (!strings.Contains(fixed, "\nKillMode=process\n") || !strings.Contains(fixed, "\nDelegate=yes\nDelegateSubgroup=trl-daemon\n")) {
			t.Errorf("%s: KillMode or Delegate is missing", path)
		}
	}
	cmd := exec.Command(analyze, "verify", "--man=no", dir+"/trl.service", dir+"/trl.socket", dir+"/trl@.service", dir+"/trl@.socket")
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
	out, err := cmd.CombinedOutput()
	out = regexp.MustCompile(`(?m)^.*Unknown key.*'DelegateSubgroup'.*$`).ReplaceAll(out, nil) // systemd before 254 ignores it
	if err != nil || strings.Contains(string(out), dir) {
		t.Errorf("%v: %s", err, out)
	}
}
