package ssh_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runner"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/runners"
	"github.com/trl-dev/trl/internal/runtimes/ssh"
	"github.com/trl-dev/trl/internal/runtimes/ssh/sshdtest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/testkit"
)

// reaper starts all children of this process: ssh and sshd.
var reaper *process.Reaper

// TestMain builds the runner that the driver copies to the other machine. Where that is impossible,
// this program is the runner.
func TestMain(m *testing.M) {
	if runner.Called() {
		os.Exit(runner.Main())
	}
	if self, err := os.Executable(); err == nil {
		build := exec.Command("go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-o", filepath.Join(filepath.Dir(self), runners.Name), "github.com/trl-dev/trl/cmd/trl-runner")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "trl-runner cannot be built, the tests are slower: %s\n%s", err, out)
		}
	}
	reaper = process.NewReaper()
	process.BecomeSubreaper()
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

// client is a driver and the log of what it says.
type client struct {
	*ssh.Driver
	t   *testing.T
	dir string
	log *testkit.Buffer
}

func newClient(t *testing.T) *client {
	t.Helper()
	c := &client{t: t, dir: filepath.Join(testkit.Dir(t), "ssh"), log: &testkit.Buffer{}}
	c.open()
	t.Cleanup(func() {
		c.Close()
		if _, err := os.Stat(c.dir); err == nil {
			entries, _ := os.ReadDir(c.dir)
			t.Errorf("the directory of the sockets is left with %v", entries)
		}
		if t.Failed() {
			t.Logf("log:\n%s", c.log)
		}
	})
	return c
}

// open makes the driver, as a daemon does when it starts.
func (c *client) open() {
	c.t.Helper()
	c.Driver = ssh.New(ssh.Config{
		Dir: c.dir, Spawn: reaper.Start, Forget: func(int) {}, Environ: os.Environ(),
		Logger: slog.New(slog.NewTextHandler(c.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}

func newServer(t testing.TB, o sshdtest.Options) *sshdtest.Server {
	t.Helper()
	o.Reaper = reaper
	s := sshdtest.Start(t, o)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("sshd:\n%s", s.Log())
		}
	})
	return s
}

func target(s *sshdtest.Server, options ...string) session.Target {
	return session.Target{Word: "ssh:test", Kind: api.PlaceSSH, Options: api.PlaceOptions{
		Destination: s.Destination(), Identity: s.Identity(), SSHOptions: append(s.ClientOptions(), options...),
	}}
}

func (c *client) site(t session.Target) remote.Machine {
	c.t.Helper()
	s, err := c.Open(c.t.Context(), opening(t))
	if err != nil {
		c.t.Fatal(err)
	}
	return s.(remote.Machine)
}

func opening(t session.Target) remote.Opening {
	return remote.Opening{Daemon: "d", SessionID: "s-1", Target: t, Progress: func(api.PlaceProgress) {}}
}

// output runs a program to its end.
func output(t *testing.T, s remote.Machine, input string, argv ...string) (string, remote.Exit) {
	t.Helper()
	p, err := s.Exec(t.Context(), argv)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(p, input)
		_ = p.CloseWrite()
	}()
	text, err := io.ReadAll(p)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return string(text), exit
}

// odd are arguments that need care in some shell.
var odd = []string{"", " two  spaces ", "$HOME `id` \\ \"'\"", "*", "~", "!!", "-n", "line\nbreak", "\xff\x01é", "%s", "$(exit)", "{a,b}", "#"}

// shells are the login shells, with a startup file that is noisy and what it contains.
var shells = []struct{ path, rc, text string }{
	{"/bin/dash", "", ""},
	{"/bin/bash", ".bashrc", "echo noise; echo more noise >&2; printf 'no line end'; alias printf=false; set -u\n"},
	{"/usr/bin/zsh", ".zshenv", "echo noise; echo more noise >&2; printf 'no line end'; alias printf=false; setopt xtrace\n"},
	{"/usr/bin/fish", ".config/fish/config.fish", "echo noise; echo more noise >&2; printf 'no line end'\n"},
	{"/usr/bin/tcsh", ".tcshrc", "echo noise; echo -n 'no line end'; alias ls false\n"},
}

func TestLoginShells(t *testing.T) {
	for _, shell := range shells {
		t.Run(filepath.Base(shell.path), func(t *testing.T) {
			if _, err := os.Stat(shell.path); err != nil {
				t.Skipf("SKIPPED: %s is not here; tests/setup.sh installs it", shell.path)
			}
			server := newServer(t, sshdtest.Options{Shell: shell.path})
			if shell.rc != "" {
				rc := filepath.Join(server.Home, shell.rc)
				if err := errors.Join(os.MkdirAll(filepath.Dir(rc), 0o700), os.WriteFile(rc, []byte(shell.text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			site := newClient(t).site(target(server))
			argv := append([]string{"/usr/bin/printf", "%s|"}, odd...)
			want := strings.Join(odd, "|") + "|"
			if got, exit := output(t, site, "", argv...); got != want || exit.Status != 0 {
				t.Errorf("printed %q with %+v, want %q", got, exit, want)
			}
			text := strings.Repeat("0123456789\x00\xff\r\n", 20000)
			if got, exit := output(t, site, text, "/bin/cat"); got != text || exit.Status != 0 {
				t.Errorf("cat: %d bytes, want %d; %+v", len(got), len(text), exit)
			}
			_, exit := output(t, site, "", "/bin/sh", "-c", "echo sorry >&2; exit 7")
			if exit.Status != 7 || !strings.HasSuffix(exit.Stderr, "sorry\n") {
				t.Errorf("exit %+v", exit)
			}
			// The program is what the login shell is by now: no shell waits for it.
			home, _ := output(t, site, "", "/bin/sh", "-c", "echo $HOME $SHELL; ps -o comm= -p $PPID")
			if want := server.Home + " " + shell.path + "\nsshd"; !strings.HasPrefix(home, want) {
				t.Errorf("home, shell and parent: %q, want %q", home, want)
			}
		})
	}
}

func TestExit(t *testing.T) {
	c := newClient(t)
	site := c.site(target(newServer(t, sshdtest.Options{})))
	if _, exit := output(t, site, "", "/bin/sh", "-c", "kill -9 $$"); exit.Status != 255 {
		t.Errorf("killed: %+v", exit)
	}
	if _, exit := output(t, site, "", "/bin/sh", "-c", "exit 255"); exit.Status != 255 {
		t.Errorf("255: %+v", exit)
	}
	var e *api.Error
	if _, err := site.Exec(t.Context(), []string{"/no/such"}); !errors.As(err, &e) || !strings.Contains(e.Message, "/no/such: there is no such program") {
		t.Errorf("no such program: %v", err)
	}
	// Close does not wait for the program, and the other side notices it.
	p, err := site.Exec(t.Context(), []string{"/bin/cat"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Wait(); err == nil {
		t.Error("the end of a program that was left is known")
	}
	testkit.Eventually(t, "sshd has ended cat", func() bool { return len(find("/bin/cat")) == 0 })
}

// find returns the processes with a command line, without those of other tests.
func find(command string) []int {
	var list []int
	for _, i := range process.Descendants(os.Getpid(), nil) {
		if process.CommandLine(i.PID) == command {
			list = append(list, i.PID)
		}
	}
	return list
}

// TestRefusals: every error quotes ssh and names the next step.
func TestRefusals(t *testing.T) {
	server := newServer(t, sshdtest.Options{})
	base := target(server)
	changed := filepath.Join(server.Dir, "changed")
	other := newServer(t, sshdtest.Options{})
	line := strings.Replace(other.KnownHost(), ":"+other.Port, ":"+server.Port, 1)
	empty := filepath.Join(server.Dir, "empty")
	if err := errors.Join(os.WriteFile(changed, []byte(line), 0o600), os.WriteFile(empty, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*api.PlaceOptions)) session.Target {
		t := base
		t.Options.SSHOptions = slices.Clone(t.Options.SSHOptions)
		change(&t.Options)
		return t
	}
	for _, c := range []struct {
		name   string
		target session.Target
		code   api.Code
		reason string
		says   []string
	}{
		{"host key changed", with(func(o *api.PlaceOptions) { o.SSHOptions[0] = "UserKnownHostsFile=" + changed }), api.CodeRuntimeUnavailable, "host_key_changed",
			[]string{"REMOTE HOST IDENTIFICATION HAS CHANGED", "Host key verification failed", "ssh-keygen -R"}},
		{"unknown host", with(func(o *api.PlaceOptions) { o.SSHOptions[0] = "UserKnownHostsFile=" + empty }), api.CodeRuntimeUnavailable, "host_key_unknown",
			[]string{"Host key verification failed", "accept it once with: ssh " + server.Destination()}},
		{"wrong key", with(func(o *api.PlaceOptions) { o.Identity = server.NewKey("wrong") }), api.CodeRuntimeUnavailable, "auth",
			[]string{"Permission denied (publickey)", "BatchMode=yes"}},
		{"no such key", with(func(o *api.PlaceOptions) { o.Identity = "/no/such/key" }), api.CodeRuntimeUnavailable, "auth",
			[]string{"/no/such/key not accessible", "Permission denied (publickey)"}},
		{"no such host", with(func(o *api.PlaceOptions) { o.Destination = "no-such-host.invalid" }), api.CodeRuntimeUnavailable, "resolve",
			[]string{"Could not resolve hostname no-such-host.invalid", "check the name"}},
		{"connection refused", with(func(o *api.PlaceOptions) {
			o.Destination = "root@127.0.0.1"
			o.SSHOptions = append(o.SSHOptions, "Port=1")
		}), api.CodeRuntimeUnavailable, "refused",
			[]string{"Connection refused", "check the port"}},
		{"unknown option", with(func(o *api.PlaceOptions) { o.SSHOptions = append(o.SSHOptions, "NoSuchOption=1") }), api.CodeRuntimeUnavailable, "config",
			[]string{"Bad configuration option: nosuchoption"}},
		{"hyphen", with(func(o *api.PlaceOptions) { o.Destination = "-oProxyCommand=id" }), api.CodeInvalidParams, "", []string{"destination", "hyphen"}},
		{"nothing", with(func(o *api.PlaceOptions) { o.Destination = "" }), api.CodeInvalidParams, "", []string{"destination", "is missing"}},
		{"fixed option", with(func(o *api.PlaceOptions) { o.SSHOptions = []string{"batchMode=no"} }), api.CodeInvalidParams, "", []string{"ssh_options: batchMode: is set by TRL"}},
		{"option without value", with(func(o *api.PlaceOptions) { o.SSHOptions = []string{"Port"} }), api.CodeInvalidParams, "", []string{"Port=2222"}},
		{"foreign option", with(func(o *api.PlaceOptions) { o.Image = "alpine" }), api.CodeInvalidParams, "", []string{"image", "identity"}},
		{"relative identity", with(func(o *api.PlaceOptions) { o.Identity = "key" }), api.CodeInvalidParams, "", []string{"identity", "absolute"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := newClient(t)
			_, err := client.Open(t.Context(), opening(c.target))
			var e *api.Error
			if !errors.As(err, &e) || e.Code != c.code || e.Reason() != c.reason {
				t.Fatalf("error %v (%+v)", err, e)
			}
			for _, part := range c.says {
				if !strings.Contains(e.Message, part) {
					t.Errorf("%q does not say %q", e.Message, part)
				}
			}
			if strings.ContainsAny(e.Message, "\n\r\x1b") || strings.Contains(e.Message, "@@") {
				t.Errorf("%q is not one plain line", e.Message)
			}
			check := client.Check(t.Context(), c.target)
			if check.Reachable || check.Why == "" {
				t.Errorf("check: %+v", check)
			}
		})
	}
}

func TestDestinations(t *testing.T) {
	d := newClient(t)
	for _, bad := range []string{"-x", "a@-x", "ssh://-x", "a b", "a\nb", "a\x00b", "a;b", "$(id)", "`id`", "a|b", "user@", "a\xff", "a'b", strings.Repeat("a", 2000)} {
		_, err := d.Open(t.Context(), opening(session.Target{Options: api.PlaceOptions{Destination: bad}}))
		if !errors.Is(err, api.ErrInvalidParams) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestCheck(t *testing.T) {
	c := newClient(t)
	server := newServer(t, sshdtest.Options{})
	r := c.Check(t.Context(), target(server))
	if !r.Reachable || r.Why != "" || r.OS == "" || r.Arch == "" || r.LatencyMS <= 0 || r.Kind != api.PlaceSSH || r.Runtime != "ssh:test" {
		t.Errorf("%+v", r)
	}
	if entries, _ := os.ReadDir(server.Home); len(entries) != 0 {
		t.Errorf("check has made %v", entries)
	}
	if !slices.Equal(r.Enforced, []string{"subreaper"}) {
		t.Errorf("before the first session: %v", r.Enforced)
	}
	// With the runner there, the check reports what the runner can use.
	site := c.site(target(server))
	path := testkit.Must(site.Install(t.Context(), func(api.PlaceProgress) {}))(t)
	text, _ := output(t, site, "", path, "check")
	var there struct{ Enforced []string }
	if err := json.Unmarshal([]byte(text), &there); err != nil || len(there.Enforced) == 0 {
		t.Fatalf("%q: %v", text, err)
	}
	if r := c.Check(t.Context(), target(server)); !r.Reachable || r.LatencyMS <= 0 || !slices.Equal(r.Enforced, there.Enforced) {
		t.Errorf("%+v, want %v", r, there.Enforced)
	}
	// A runner that hangs says nothing about the machine.
	if err := os.Remove(path); err != nil { // the last one may still run
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec cat >/dev/null\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if r := c.Check(t.Context(), target(server)); !r.Reachable || !slices.Equal(r.Enforced, []string{"subreaper"}) {
		t.Errorf("a runner that hangs: %+v", r)
	}
}

// masters returns the processes of ssh that this process has started.
func masters() []int {
	var list []int
	for _, pid := range process.Children(os.Getpid()) {
		if line := process.CommandLine(pid); strings.HasPrefix(line, "ssh -N ") {
			list = append(list, pid)
		}
	}
	return list
}

// TestOneConnection: sessions share a connection, which is replaced when it has ended.
func TestOneConnection(t *testing.T) {
	c := newClient(t)
	server := newServer(t, sshdtest.Options{})
	site := c.site(target(server))
	for range 5 {
		if got, _ := output(t, c.site(target(server)), "", "/bin/echo", "hello"); got != "hello\n" {
			t.Errorf("printed %q", got)
		}
	}
	first := masters()
	if len(first) != 1 {
		t.Fatalf("%d processes of ssh, want 1", len(first))
	}
	p, err := site.Exec(t.Context(), []string{"/bin/cat"})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(p); len(text) != 0 || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
	if exit, err := p.Wait(); !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Errorf("the program ended with %+v, %v; its connection was killed", exit, err)
	}
	if got, _ := output(t, site, "", "/bin/echo", "again"); got != "again\n" {
		t.Errorf("printed %q", got)
	}
	if second := masters(); len(second) != 1 || second[0] == first[0] {
		t.Errorf("processes of ssh: %v, then %v", first, second)
	}
	c.Close()
	if left := masters(); len(left) != 0 {
		t.Errorf("processes %v are left", left)
	}
}

// TestManySessions: a server that allows few sessions on one connection gets more connections.
func TestManySessions(t *testing.T) {
	c := newClient(t)
	site := c.site(target(newServer(t, sshdtest.Options{Config: []string{"MaxSessions 3"}})))
	const count = 20
	type result struct {
		p   remote.Process
		err error
	}
	results := make(chan result)
	for range count {
		go func() {
			p, err := site.Exec(t.Context(), []string{"/bin/cat"})
			results <- result{p, err}
		}()
	}
	var programs []remote.Process
	for range count {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
			continue
		}
		programs = append(programs, r.p)
	}
	if n := len(masters()); n != 7 {
		t.Errorf("%d connections for %d sessions, want 7", n, count)
	}
	for i, p := range programs {
		text := fmt.Sprintf("program %d\n", i)
		_, _ = io.WriteString(p, text)
		_ = p.CloseWrite()
		if got, _ := io.ReadAll(p); string(got) != text {
			t.Errorf("read %q, want %q", got, text)
		}
		if exit, err := p.Wait(); err != nil || exit.Status != 0 {
			t.Errorf("%+v, %v", exit, err)
		}
	}
}

// TestOlderMasters: the next daemon ends the connections of one that was killed.
func TestOlderMasters(t *testing.T) {
	c := newClient(t)
	server := newServer(t, sshdtest.Options{})
	c.site(target(server))
	first := c.Driver
	before := masters()
	c.open()
	testkit.Eventually(t, "the older ssh has ended", func() bool { return len(masters()) == 0 })
	c.site(target(server))
	if after := masters(); len(before) != 1 || len(after) != 1 || before[0] == after[0] {
		t.Errorf("processes of ssh: %v, then %v", before, after)
	}
	c.Close()
	first.Close()
}

// TestStalledNetwork: a connection on which nothing arrives any more is replaced by the next attempt.
func TestStalledNetwork(t *testing.T) {
	ssh.SetPatience(t, 500*time.Millisecond)
	c := newClient(t)
	server := newServer(t, sshdtest.Options{})
	proxy := testkit.NewProxy(t, server.Host+":"+server.Port)
	server.Aim(proxy.Address())
	site := c.site(target(server, "ServerAliveInterval=1", "ServerAliveCountMax=2"))
	p, err := site.Exec(t.Context(), []string{"/bin/cat"})
	if err != nil {
		t.Fatal(err)
	}
	proxy.Stall()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var e *api.Error
	if _, err := site.Exec(ctx, []string{"/bin/true"}); !errors.As(err, &e) || e.Code != api.CodeRuntimeUnavailable || ctx.Err() != nil {
		t.Errorf("a stalled connection: %v", err)
	}
	if got, _ := output(t, site, "", "/bin/echo", "new"); got != "new\n" {
		t.Errorf("printed %q", got)
	}
	// The old one notices by itself.
	if _, err := io.ReadAll(p); err != nil {
		t.Error(err)
	}
	if _, err := p.Wait(); !errors.As(err, &e) || e.Reason() != "timeout" {
		t.Errorf("the program on the stalled connection: %v", err)
	}
	// A machine that does not answer is not waited for longer than the caller wants.
	proxy.Refuse()
	proxy.Stall()
	began := time.Now()
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := site.Exec(short, []string{"/bin/true"}); !errors.As(err, &e) || e.Code != api.CodeRuntimeUnavailable || time.Since(began) > 10*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// TestRestart: after a restart of the machine the place has ended; another machine behind the same
// name is not the place.
func TestRestart(t *testing.T) {
	c := newClient(t)
	server := newServer(t, sshdtest.Options{})
	site := c.site(target(server))
	if _, err := site.Install(t.Context(), func(api.PlaceProgress) {}); err != nil {
		t.Fatal(err)
	}
	record := string(site.Record())
	boot, machine := process.BootID(), ""
	if id, err := os.ReadFile("/etc/machine-id"); err == nil {
		machine = strings.TrimSpace(string(id))
	}
	restore := func(text string) remote.Machine {
		s, err := c.Restore([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s.(remote.Machine)
	}
	same := restore(record)
	if same.ID() != site.ID() || string(same.Record()) != record || same.Info() != site.Info() {
		t.Errorf("restored %s %s %+v, want %s %s %+v", same.ID(), same.Record(), same.Info(), site.ID(), record, site.Info())
	}
	if got, _ := output(t, same, "", "/bin/echo", "same"); got != "same\n" {
		t.Errorf("printed %q", got)
	}
	if !strings.Contains(record, boot) || !strings.Contains(record, machine) {
		t.Fatalf("%s does not have the boot %s and the machine %q", record, boot, machine)
	}
	earlier := strings.Replace(record, boot, "an-earlier-boot", 1)
	var ended *remote.EndedError
	if _, err := restore(earlier).Exec(t.Context(), []string{"/bin/true"}); !errors.As(err, &ended) || !strings.Contains(err.Error(), "restarted") {
		t.Errorf("after a restart: %v", err)
	}
	if machine != "" {
		other := strings.Replace(earlier, machine, "another-machine", 1)
		if _, err := restore(other).Exec(t.Context(), []string{"/bin/true"}); errors.As(err, &ended) || !errors.Is(err, api.ErrRuntimeUnavailable) {
			t.Errorf("on another machine: %v", err)
		}
	}
	server.Kill()
	if _, err := restore(earlier).Exec(t.Context(), []string{"/bin/true"}); errors.As(err, &ended) || !errors.Is(err, api.ErrRuntimeUnavailable) {
		t.Errorf("a machine that does not answer: %v", err)
	}
}

// TestNoShell: accounts that may not run commands.
func TestNoShell(t *testing.T) {
	for _, c := range []struct{ shell, says string }{
		{"/usr/sbin/nologin", "status 1"},
		{"/bin/false", "status 1"},
	} {
		client := newClient(t)
		_, err := client.site(target(newServer(t, sshdtest.Options{Shell: c.shell}))).Exec(t.Context(), []string{"/bin/true"})
		if !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.shell, err)
		}
	}
}

// TestIdle: a connection without sessions ends after a while, one with a session does not.
func TestIdle(t *testing.T) {
	ssh.SetIdleTime(t, 50*time.Millisecond)
	c := newClient(t)
	site := c.site(target(newServer(t, sshdtest.Options{})))
	p, err := site.Exec(t.Context(), []string{"/bin/cat"})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := output(t, site, "", "/bin/sleep", "0.3"); got != "" || len(masters()) != 1 {
		t.Errorf("printed %q, %d connections", got, len(masters()))
	}
	_ = p.CloseWrite()
	if exit, err := p.Wait(); err != nil || exit.Status != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	testkit.Eventually(t, "the connection has ended", func() bool { return len(masters()) == 0 })
	if got, _ := output(t, site, "", "/bin/echo", "again"); got != "again\n" {
		t.Errorf("printed %q", got)
	}
}

// TestJumpHost: the way to the machine leads through another one, as ProxyJump does it.
func TestJumpHost(t *testing.T) {
	gate, server := newServer(t, sshdtest.Options{}), newServer(t, sshdtest.Options{})
	jump := fmt.Sprintf("ProxyCommand=ssh -i %s -o BatchMode=yes -o UserKnownHostsFile=%s -o IdentityAgent=none -W %%h:%%p %s",
		gate.Identity(), gate.KnownHosts(), gate.Destination())
	c := newClient(t)
	site := c.site(target(server, jump))
	if got, _ := output(t, site, "", "/bin/echo", "hello"); got != "hello\n" {
		t.Errorf("printed %q", got)
	}
	if !strings.Contains(gate.Log(), "Accepted publickey") {
		t.Error("the jump host was not used")
	}
	gate.Kill()
	var e *api.Error
	if _, err := site.Exec(t.Context(), []string{"/bin/true"}); !errors.As(err, &e) || e.Code != api.CodeRuntimeUnavailable || !strings.Contains(e.Message, "Connection refused") {
		t.Errorf("without the jump host: %v", err)
	}
}
