//go:build linux

package docker_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes/docker"
	"github.com/trl-dev/trl/internal/runtimes/docker/dockertest"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestMain puts the runner beside the program of the tests, where package runners finds it: the program
// itself needs libraries that images do not have.
func TestMain(m *testing.M) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	build := exec.Command("go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-o", filepath.Join(filepath.Dir(self), "trl-runner"), "github.com/trl-dev/trl/cmd/trl-runner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(dockertest.Waits), goleak.Cleanup(dockertest.Exit))
}

// bench is an engine and a driver for one test, which leaves nothing in the engine.
type bench struct {
	*testing.T
	*dockertest.Engine
	d   *docker.Driver   // of the daemon
	all []*docker.Driver // of this daemon and the earlier ones

	progress []api.PlaceProgress // that was reported
}

// uploads reports whether the runner was copied.
func (b *bench) uploads() bool {
	return slices.ContainsFunc(b.progress, func(p api.PlaceProgress) bool { return p.Step == "upload" })
}

// another replaces the daemon by another one.
func (b *bench) another() {
	b.d = docker.New(docker.Config{})
	b.all = append(b.all, b.d)
}

func newBench(t *testing.T, e *dockertest.Engine) *bench {
	t.Helper()
	b := &bench{T: t, Engine: e}
	b.another()
	before := goleak.IgnoreCurrent()
	names, _ := e.Listing(t)
	t.Cleanup(func() {
		for _, d := range b.all {
			d.Close()
		}
		t := detached{t}
		after, _ := e.Listing(t)
		for _, n := range after {
			if !slices.Contains(names, n) && !strings.HasPrefix(n, "volume trl-runner-") {
				t.Errorf("%s is left", n)
			}
		}
		_ = e.Client.Close()
		if err := goleak.Find(before, goleak.IgnoreAnyFunction(dockertest.Waits)); err != nil {
			t.Error(err)
		}
	})
	return b
}

// detached is a test whose context has not ended, for its clean-up.
type detached struct{ *testing.T }

func (detached) Context() context.Context { return context.Background() }

func (b *bench) report(p api.PlaceProgress) { b.progress = append(b.progress, p) }

func (b *bench) opening(kind api.PlaceKind, o api.PlaceOptions) remote.Opening {
	o.Engine = cmp.Or(o.Engine, b.Host)
	return remote.Opening{
		Daemon: "daemon-1", SessionID: "s-" + strings.ToLower(rand()), Target: session.Target{Word: "test", Kind: kind, Options: o},
		Progress: b.report,
	}
}

func rand() string {
	data := make([]byte, 5)
	f, err := os.Open("/dev/urandom")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	_, _ = io.ReadFull(f, data)
	return fmt.Sprintf("%x", data)
}

// open opens a place and installs the runner in it.
func (b *bench) open(kind api.PlaceKind, o api.PlaceOptions) (remote.Machine, string) {
	b.Helper()
	opened, err := b.d.Open(b.Context(), b.opening(kind, o))
	if err != nil {
		b.Fatal(err)
	}
	s := opened.(remote.Machine)
	b.Cleanup(func() {
		if err := s.Remove(context.Background()); err != nil {
			b.Error(err)
		}
	})
	path, err := s.Install(b.Context(), b.report)
	if err != nil {
		b.Fatal(err)
	}
	if kind == api.PlaceDocker {
		if r, ok, err := s.(remote.Starter).Started(b.Context()); err != nil || !ok || r.PID == 0 || r.Dir == "" {
			b.Fatalf("%+v %v %v", r, ok, err)
		}
	}
	return s, path
}

// run runs a program in a place to its end.
func run(t testing.TB, s remote.Machine, stdin string, argv ...string) (string, remote.Exit) {
	t.Helper()
	p, err := s.Exec(t.Context(), argv)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := io.WriteString(p, stdin); err != nil {
		t.Fatal(err)
	}
	if err := p.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return string(out), exit
}

func sh(t testing.TB, s remote.Machine, script string) string {
	t.Helper()
	out, exit := run(t, s, "", "sh", "-c", script)
	if exit.Status != 0 {
		t.Fatalf("%s: %s%+v", script, out, exit)
	}
	return strings.TrimSpace(out)
}

func TestNewContainer(t *testing.T) {
	b := newBench(t, dockertest.Shared(t))
	s, path := b.open(api.PlaceDocker, api.PlaceOptions{Image: dockertest.Busybox})
	if out, exit := run(t, s, "to and fro", "sh", "-c", "cat; echo trouble >&2; exit 7"); out != "to and fro" || exit != (remote.Exit{Status: 7, Stderr: "trouble\n"}) {
		t.Errorf("%q, %+v", out, exit)
	}
	if out, exit := run(t, s, "", "/no/such/program"); exit.Status != 126 && exit.Status != 127 {
		t.Errorf("%q, %+v", out, exit)
	}
	info := s.Info()
	if info.Kind != api.PlaceDocker || info.Image != dockertest.Busybox || !strings.HasPrefix(info.Container, "trl-s-") || info.OS != "linux" || info.Arch == "" || info.Host == "" {
		t.Errorf("%+v", info)
	}
	// The image decides about the directory and the variables, not about the first process.
	if got := sh(t, s, "pwd; echo $IN_IMAGE; tr '\\0' ' ' </proc/1/cmdline"); !strings.HasPrefix(got, "/work\nbusybox\n"+path+" init s-") {
		t.Errorf("%q", got)
	}
	// The container has the limits and mounts of the request.
	if got := sh(t, s, "grep -E 'CapEff|CapPrm|CapBnd|NoNewPrivs' /proc/self/status | tr -d '\\t'"); got != "CapPrm:0000000000000000\nCapEff:0000000000000000\nCapBnd:0000000000000000\nNoNewPrivs:1" {
		t.Errorf("%q", got)
	}
	if _, exit := run(t, s, "", "sh", "-c", "echo x >"+path); exit.Status == 0 {
		t.Error("the runner can be overwritten")
	}
	// A later daemon finds the same container.
	b.another()
	again, err := b.d.Restore(s.Record())
	if err != nil {
		t.Fatal(err)
	}
	if again.ID() != s.ID() || again.Info() != info || sh(t, again.(remote.Machine), "echo here") != "here" {
		t.Errorf("%+v", again.Info())
	}
	if _, ok, err := again.(remote.Starter).Started(t.Context()); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
	for range 2 {
		if err := again.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wantEnded(t, s, "was removed")
}

func wantEnded(t testing.TB, s remote.Machine, cause string) {
	t.Helper()
	p, err := s.Exec(t.Context(), []string{"true"})
	if err == nil {
		_ = p.Close()
	}
	var ended *remote.EndedError
	if !errors.As(err, &ended) || !strings.Contains(ended.Cause, cause) || !strings.Contains(ended.Cause, s.Info().Container) {
		t.Errorf("%v, want an end with the cause %q", err, cause)
	}
}

func TestOptions(t *testing.T) {
	b := newBench(t, dockertest.Shared(t))
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/file", []byte("from outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	volume := "trl-test-" + rand()
	t.Cleanup(func() { _, _ = b.VolumeRemove(context.Background(), volume, client.VolumeRemoveOptions{}) })
	yes := true
	s, _ := b.open(api.PlaceDocker, api.PlaceOptions{
		Image: dockertest.Busybox, User: "user", Network: "none", ReadOnly: &yes, Capabilities: []string{"NET_BIND_SERVICE", "cap_chown"},
		Mounts: []string{dir + ":/outside:ro", volume + ":/kept"}, Labels: map[string]string{"team": "blue"},
	})
	if got := sh(t, s, "id -u; id -g; cat /outside/file; ls /sys/class/net"); got != "1000\n1000\nfrom outsidelo" {
		t.Errorf("%q", got)
	}
	for _, script := range []string{"echo x >/outside/file", "echo x >/home/user/file", "echo x >/file"} {
		if _, exit := run(t, s, "", "sh", "-c", script); exit.Status == 0 {
			t.Errorf("%s succeeded", script)
		}
	}
	if got := sh(t, s, "cp /bin/busybox /tmp/echo && /tmp/echo hello; mount | grep -c ' /kept '"); got != "hello\n1" {
		t.Errorf("%q", got)
	}
	if got := sh(t, s, "grep CapBnd /proc/self/status | tr -d '\\t'"); got != "CapBnd:0000000000000401" {
		t.Errorf("%q", got)
	}
	c, err := b.ContainerInspect(t.Context(), s.ID(), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if l := c.Container.Config.Labels; l["team"] != "blue" || l["dev.trl.daemon"] != "daemon-1" || "trl-"+l["dev.trl.session"] != s.Info().Container {
		t.Errorf("%v", l)
	}
}

// TestOCIRuntime: the engine starts the container with the runtime that the option names.
func TestOCIRuntime(t *testing.T) {
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Skip("SKIPPED: runc is not installed")
	}
	dir := testkit.Dir(t)
	calls, second := dir+"/calls", dir+"/second"
	if err := os.WriteFile(second, []byte("#!/bin/sh\necho \"$@\" >>"+calls+"\nexec "+runc+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, dockertest.New(t, "--add-runtime", "second="+second))
	usual, _ := b.open(api.PlaceDocker, api.PlaceOptions{Image: dockertest.Busybox})
	if text, _ := os.ReadFile(calls); strings.Contains(string(text), usual.ID()) {
		t.Errorf("the other runtime is the default:\n%s", text)
	}
	s, _ := b.open(api.PlaceDocker, api.PlaceOptions{Image: dockertest.Busybox, OCIRuntime: "second"})
	if got := sh(t, s, "echo hello"); got != "hello" {
		t.Errorf("%q", got)
	}
	if c := testkit.Must(b.ContainerInspect(t.Context(), s.ID(), client.ContainerInspectOptions{}))(t); c.Container.HostConfig.Runtime != "second" {
		t.Errorf("the engine says %q", c.Container.HostConfig.Runtime)
	}
	if text := string(testkit.Must(os.ReadFile(calls))(t)); !strings.Contains(text, "create") || !strings.Contains(text, "exec") || !strings.Contains(text, s.ID()) {
		t.Errorf("the runtime did not start the container:\n%s", text)
	}
	_, err = b.d.Open(t.Context(), b.opening(api.PlaceDocker, api.PlaceOptions{Image: dockertest.Busybox, OCIRuntime: "third"}))
	if err == nil || !strings.Contains(err.Error(), "third") {
		t.Errorf("a runtime that the engine does not have: %v", err)
	}
}

func TestImageWithoutShell(t *testing.T) {
	b := newBench(t, dockertest.Shared(t))
	s, path := b.open(api.PlaceDocker, api.PlaceOptions{Image: dockertest.Scratch})
	if out, exit := run(t, s, "", path, "check", "not the hash"); exit.Status == 0 {
		t.Errorf("%q, %+v", out, exit)
	}
}

// foreign is a container that TRL has not made.
func (b *bench) foreign(image string, change func(*container.Config, *container.HostConfig)) string {
	b.Helper()
	c := &container.Config{Image: image, Entrypoint: []string{"/bin/sleep", "1000"}}
	h := &container.HostConfig{}
	if change != nil {
		change(c, h)
	}
	made, err := b.ContainerCreate(b.Context(), client.ContainerCreateOptions{Config: c, HostConfig: h, Name: "foreign-" + rand()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_, _ = b.ContainerRemove(context.Background(), made.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	})
	if _, err := b.ContainerStart(b.Context(), made.ID, client.ContainerStartOptions{}); err != nil {
		b.Fatal(err)
	}
	return made.ID
}

func TestExistingContainer(t *testing.T) {
	e := dockertest.Shared(t)
	yes := func(_ *container.Config, h *container.HostConfig) { h.ReadonlyRootfs = true }
	for _, c := range []struct {
		name, user, want string
		change           func(*container.Config, *container.HostConfig)
	}{
		{name: "plain", want: "/.trl/trl-runner-"},
		{name: "another user", user: "user", want: "/.trl/trl-runner-"},
		{name: "read-only with a tmpfs", want: "/run/.trl-user-/trl-runner-", change: func(c *container.Config, h *container.HostConfig) {
			yes(c, h)
			h.Tmpfs = map[string]string{"/tmp": "", "/run": "exec"}
		}},
		{name: "read-only with a tmpfs, another user", user: "1000:1000", want: "/tmp/.trl-user-1000_1000/trl-runner-", change: func(c *container.Config, h *container.HostConfig) {
			yes(c, h)
			h.Tmpfs = map[string]string{"/tmp": "exec"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, e)
			id := b.foreign(dockertest.Busybox, c.change)
			s, path := b.open(api.PlaceContainer, api.PlaceOptions{Container: id, User: c.user})
			if !strings.HasPrefix(path, c.want) || s.ID() != id || !b.uploads() {
				t.Errorf("%s in %s, %v", path, s.ID(), b.progress)
			}
			b.progress = nil
			if _, again := b.open(api.PlaceContainer, api.PlaceOptions{Container: id, User: c.user}); again != path || c.change == nil && len(b.progress) > 0 {
				t.Errorf("the second session: %s, %v", again, b.progress)
			}
			if got := sh(t, s, "id -u"); got != map[bool]string{true: "0", false: "1000"}[c.user == ""] {
				t.Errorf("user %s", got)
			}
			if err := s.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := sh(t, s, "echo lives"); got != "lives" {
				t.Error("the container is gone")
			}
		})
	}
	// Where the runner has no room, the error says why each directory is of no use, and nothing is left.
	for _, c := range []struct{ name, tmp, want string }{
		{"no directory", "", "/tmp: "},
		{"full disk", "exec,size=64k", "No space left on device"},
		{"noexec", "noexec", "Permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, e)
			opened, err := b.d.Open(t.Context(), b.opening(api.PlaceContainer, api.PlaceOptions{Container: b.foreign(dockertest.Busybox, func(config *container.Config, h *container.HostConfig) {
				yes(config, h)
				if c.tmp != "" {
					h.Tmpfs = map[string]string{"/tmp": c.tmp}
				}
			})}))
			if err != nil {
				t.Fatal(err)
			}
			s := opened.(remote.Machine)
			path, err := s.Install(t.Context(), func(api.PlaceProgress) {})
			if !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "mount a tmpfs with the option exec") {
				t.Errorf("%q, %v", path, err)
			}
			if left := sh(t, s, "find /tmp /run /var/tmp /dev/shm -name '*trl*' 2>/dev/null; true"); left != "" {
				t.Errorf("left: %s", left)
			}
		})
	}
	t.Run("not running", func(t *testing.T) {
		b := newBench(t, e)
		id := b.foreign(dockertest.Busybox, nil)
		wantError := func(code api.Code, text string) {
			t.Helper()
			_, err := b.d.Open(t.Context(), b.opening(api.PlaceContainer, api.PlaceOptions{Container: id}))
			if err == nil || api.AsError(err).Code != code || !strings.Contains(err.Error(), text) {
				t.Errorf("%v, want %s %q", err, code, text)
			}
			if check := b.d.Check(t.Context(), b.opening(api.PlaceContainer, api.PlaceOptions{Container: id}).Target); check.Reachable || check.Why != err.Error() {
				t.Errorf("%+v", check)
			}
		}
		if _, err := b.ContainerPause(t.Context(), id, client.ContainerPauseOptions{}); err != nil {
			t.Fatal(err)
		}
		wantError(api.CodeConflict, "is paused")
		if _, err := b.ContainerRemove(t.Context(), id, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		wantError(api.CodeInvalidParams, "not found")
		id = b.foreign(dockertest.Busybox, nil)
		if _, err := b.ContainerKill(t.Context(), id, client.ContainerKillOptions{}); err != nil {
			t.Fatal(err)
		}
		b.waitStopped(id)
		wantError(api.CodeConflict, "is not running (it is exited): docker start foreign-")
	})
}

func (b *bench) waitStopped(id string) {
	b.Helper()
	w := b.ContainerWait(b.Context(), id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-w.Result:
	case err := <-w.Error:
		b.Fatal(err)
	}
}

func TestPull(t *testing.T) {
	e := dockertest.Shared(t)
	b := newBench(t, e)
	arch := runtime.GOARCH
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	r := e.NewRegistry(t, "me", "pass", arch)
	open := func(o api.PlaceOptions) error {
		b.progress = nil
		s, err := b.d.Open(t.Context(), b.opening(api.PlaceDocker, o))
		if err == nil {
			err = s.Remove(t.Context())
		}
		return err
	}
	wantError := func(err error, code api.Code, text string) {
		t.Helper()
		if err == nil || api.AsError(err).Code != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s %q", err, code, text)
		}
	}
	wantError(open(api.PlaceOptions{Image: r.Image, Pull: "never"}), api.CodeInvalidParams, "No such image")
	// The registry wants credentials, and the file has none, or the wrong ones, or the right ones.
	wantError(open(api.PlaceOptions{Image: r.Image}), api.CodeRuntimeUnavailable, "no basic auth credentials")
	login := func(word string) {
		t.Helper()
		text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Server, base64.StdEncoding.EncodeToString([]byte(word)))
		if err := os.WriteFile(config+"/config.json", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	login("me:wrong")
	wantError(open(api.PlaceOptions{Image: r.Image}), api.CodeRuntimeUnavailable, "pulling image "+r.Image)
	login("me:pass")
	wantError(open(api.PlaceOptions{Image: r.Server + "/test/none:1"}), api.CodeInvalidParams, "not found")
	wantError(open(api.PlaceOptions{Image: r.Image + "0"}), api.CodeInvalidParams, "not found")
	if err := open(api.PlaceOptions{Image: r.Image}); err != nil {
		t.Fatal(err)
	}
	first, bytes := b.progress[0], false
	for _, p := range b.progress {
		bytes = bytes || p.Step == "pull" && p.Total > 1<<20
	}
	if first.Step != "pull" || first.Message != "pulling "+r.Image || !bytes {
		t.Errorf("%+v", b.progress)
	}
	if err := open(api.PlaceOptions{Image: r.Image}); err != nil || len(b.progress) > 0 {
		t.Errorf("it was pulled again: %v, %+v", err, b.progress)
	}
	if err := open(api.PlaceOptions{Image: r.Image, Pull: "always"}); err != nil || len(b.progress) == 0 {
		t.Errorf("it was not pulled again: %v", err)
	}
	wantError(open(api.PlaceOptions{Image: r.Image, Platform: "linux/s390x", Pull: "never"}), api.CodeInvalidParams, "the engine has it for linux/"+arch+", not for linux/s390x")
	other := e.NewRegistry(t, "", "", "s390x")
	wantError(open(api.PlaceOptions{Image: other.Image, Platform: "linux/s390x"}), api.CodeRuntimeUnavailable, "no runner for linux/s390x")
	wantError(open(api.PlaceOptions{Image: "127.0.0.1:1/none"}), api.CodeRuntimeUnavailable, "connection refused")
	wantError(open(api.PlaceOptions{Image: "Not A Name"}), api.CodeInvalidParams, "invalid reference format")
}

// asleep starts a program that does not end.
func asleep(t testing.TB, s remote.Machine) remote.Process {
	t.Helper()
	p, err := s.Exec(t.Context(), []string{"sh", "-c", "echo up; exec sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	var up [3]byte
	if _, err := io.ReadFull(p, up[:]); err != nil {
		t.Fatal(err)
	}
	return p
}

// A place that ends says why, and the connection to its programs breaks.
func TestEnds(t *testing.T) {
	b := newBench(t, dockertest.Shared(t))
	ctx := t.Context()
	for _, c := range []struct {
		name, cause string
		end         func(id string) error
	}{
		{"stopped", "was stopped", func(id string) error {
			_, err := b.ContainerStop(ctx, id, client.ContainerStopOptions{})
			return err
		}},
		{"killed", "was killed", func(id string) error {
			_, err := b.ContainerKill(ctx, id, client.ContainerKillOptions{})
			return err
		}},
		{"removed", "was removed", func(id string) error {
			_, err := b.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true})
			return err
		}},
		{"restarted", "was restarted", func(id string) error {
			_, err := b.ContainerRestart(ctx, id, client.ContainerRestartOptions{})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := b.open(api.PlaceContainer, api.PlaceOptions{Container: b.foreign(dockertest.Busybox, func(c *container.Config, _ *container.HostConfig) {
				c.Entrypoint = []string{"/bin/sh", "-c", "trap 'exit 143' TERM; sleep 1000 & wait"}
			})})
			p := asleep(t, s)
			if err := c.end(s.ID()); err != nil {
				t.Fatal(err)
			}
			if out, err := io.ReadAll(p); len(out) > 0 {
				t.Errorf("%q, %v", out, err)
			}
			if exit, err := p.Wait(); err == nil && exit.Status == 0 {
				t.Error("the program ended well")
			}
			if c.name != "removed" && c.name != "restarted" {
				b.waitStopped(s.ID())
			}
			wantEnded(t, s, c.cause)
		})
	}
	t.Run("killed, and the engine leaves the connection open", func(t *testing.T) {
		proxy := b.NewProxy(t, filepath.Join(testkit.Dir(t), "docker.sock"))
		proxy.Linger()
		s, _ := b.open(api.PlaceContainer, api.PlaceOptions{Container: b.foreign(dockertest.Busybox, nil), Engine: proxy.Host})
		// The program prints its line when the container is watched.
		p := testkit.Must(s.Exec(ctx, []string{"sh", "-c", "sleep 6; echo watched; sleep 1000"}))(t)
		defer p.Close()
		line := make([]byte, len("watched\n"))
		if _, err := io.ReadFull(p, line); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ContainerKill(ctx, s.ID(), client.ContainerKillOptions{}); err != nil {
			t.Fatal(err)
		}
		limit := time.AfterFunc(time.Minute, func() { _ = p.Close() })
		if out, err := io.ReadAll(p); len(out) > 0 || err == nil || !limit.Stop() {
			t.Errorf("the connection is not cut, or %q, %v", out, err)
		}
		if exit, err := p.Wait(); err == nil {
			t.Errorf("the end of the program is known: %+v", exit)
		}
		wantEnded(t, s, "was killed")
	})
	t.Run("OOM-killed", func(t *testing.T) {
		id := b.foreign(dockertest.Busybox, func(c *container.Config, h *container.HostConfig) {
			// The file in memory counts for the container, until its first process is the one to die.
			c.Entrypoint = []string{"/bin/sh", "-c", "while [ ! -e /go ]; do sleep 0.02; done; exec dd if=/dev/zero of=/dev/null bs=200M count=1"}
			h.Memory, h.MemorySwap = 24<<20, 24<<20
		})
		s, _ := b.open(api.PlaceContainer, api.PlaceOptions{Container: id})
		sh(t, s, ">/go")
		b.waitStopped(id)
		wantEnded(t, s, "was OOM-killed")
	})
	t.Run("paused", func(t *testing.T) {
		s, _ := b.open(api.PlaceContainer, api.PlaceOptions{Container: b.foreign(dockertest.Busybox, nil)})
		if _, err := b.ContainerPause(ctx, s.ID(), client.ContainerPauseOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Exec(ctx, []string{"true"}); !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), "docker unpause") {
			t.Error(err)
		}
	})
}

// A volume with the runner is filled again if it was removed or its content was changed.
func TestVolumeAgain(t *testing.T) {
	b := newBench(t, dockertest.New(t))
	volume := func() string {
		t.Helper()
		list, err := b.VolumeList(t.Context(), client.VolumeListOptions{Filters: client.Filters{}.Add("label", "dev.trl.runner")})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list.Items[0].Name
	}
	use := func(uploads bool) {
		t.Helper()
		b.progress = nil
		s, _ := b.open(api.PlaceDocker, api.PlaceOptions{Image: dockertest.Scratch})
		if got := b.uploads(); got != uploads {
			t.Errorf("steps %v", b.progress)
		}
		if err := s.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	use(true)
	use(false)
	if _, err := b.VolumeRemove(t.Context(), volume(), client.VolumeRemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	use(true)
	b.another()
	use(false)
	id := b.foreign(dockertest.Busybox, func(c *container.Config, h *container.HostConfig) { h.Binds = []string{volume() + ":/v"} })
	s, _ := b.open(api.PlaceContainer, api.PlaceOptions{Container: id})
	sh(t, s, "echo '#!/bin/sh' >/v/trl-runner")
	if _, err := b.ContainerRemove(t.Context(), id, client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	b.another()
	use(true)
}

func TestSweep(t *testing.T) {
	b := newBench(t, dockertest.New(t))
	keep, _ := b.open(api.PlaceDocker, api.PlaceOptions{Image: dockertest.Scratch})
	stray, _ := b.open(api.PlaceDocker, api.PlaceOptions{Image: dockertest.Scratch})
	foreign := b.foreign(dockertest.Busybox, nil)
	of := func(s remote.Machine) string { return strings.TrimPrefix(s.Info().Container, "trl-") }
	for _, v := range []string{"trl-runner-old", "trl-runner-used"} {
		if _, err := b.VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: v, Labels: map[string]string{"dev.trl.runner": "0123"}}); err != nil {
			t.Fatal(err)
		}
	}
	b.foreign(dockertest.Busybox, func(_ *container.Config, h *container.HostConfig) { h.Binds = []string{"trl-runner-used:/v"} })
	b.another() // it knows the engine from a record
	d := b.d
	if _, err := d.Restore(keep.Record()); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_HOST", "unix:///no/such/default/engine")
	if got, err := d.Sweep(t.Context(), "another daemon", func(string) bool { return false }); err != nil || !slices.Equal(got, []string{"volume trl-runner-old"}) {
		t.Errorf("%v, %v", got, err)
	}
	got, err := d.Sweep(t.Context(), "daemon-1", func(id string) bool { return id == of(keep) })
	if err != nil || !slices.Equal(got, []string{"container trl-" + of(stray)}) {
		t.Errorf("%v, %v", got, err)
	}
	wantEnded(t, stray, "was removed")
	sh(t, must(b.d.Open(t.Context(), b.opening(api.PlaceContainer, api.PlaceOptions{Container: foreign}))).(remote.Machine), "true")
	if got, err := d.Sweep(t.Context(), "daemon-1", func(string) bool { return false }); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The engine ends in the middle of a program: by a crash, and with its containers or without.
func TestEngineRestart(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
		lives bool
	}{
		{"containers live on", []string{"--live-restore"}, true},
		{"containers end", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := dockertest.New(t, c.flags...)
			b := newBench(t, e)
			s, _ := b.open(api.PlaceDocker, api.PlaceOptions{Image: dockertest.Busybox})
			p := asleep(t, s)
			e.Down(syscall.SIGKILL)
			_, _ = io.ReadAll(p)
			if exit, err := p.Wait(); err == nil {
				t.Errorf("the end of the program is known: %+v", exit)
			}
			_, err := s.Exec(t.Context(), []string{"true"})
			if !errors.Is(err, api.ErrRuntimeUnavailable) || errors.As(err, new(*remote.EndedError)) {
				t.Errorf("without an engine: %v", err)
			}
			if err := e.Up(); err != nil {
				t.Fatal(err)
			}
			if !c.lives {
				wantEnded(t, s, "")
				return
			}
			if got := sh(t, s, "ps | grep -c '[s]leep 1000'"); got != "1" {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestRecordHasNoSecret(t *testing.T) {
	b := newBench(t, dockertest.Shared(t))
	s, _ := b.open(api.PlaceDocker, api.PlaceOptions{Image: dockertest.Scratch})
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(s.Record(), &fields); err != nil {
		t.Fatal(err)
	}
	for name := range fields {
		if !slices.Contains([]string{"engine", "kind", "id", "name", "image", "user", "host", "os", "arch", "made", "started", "runner"}, name) {
			t.Errorf("the record has the field %s: is it a secret?", name)
		}
	}
}
