//go:build linux

// Package dockertest is for tests alone: it starts a real Docker engine of the tests' own, in a network
// namespace of its own, and builds small images from programs of this machine.
package dockertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
)

// Engine is a dockerd.
type Engine struct {
	// Host is its address, as in DOCKER_HOST.
	Host string
	*client.Client

	dir        string
	flags      []string
	log        *os.File
	containerd *child
	dockerd    *child
}

// child is a program that ends with this process.
type child struct {
	*os.Process
	ended chan struct{} // closed when it has exited
}

// run starts a program in the network namespace of the engine.
func (e *Engine) run(program string, args ...string) (*child, error) {
	cmd := exec.Command("nsenter", append([]string{"--net=" + filepath.Join(e.dir, "net"), program}, args...)...)
	cmd.Stdout, cmd.Stderr = e.log, e.log
	// A test that is killed takes its engine with it. The signal comes when the thread that has
	// started the child ends, hence a thread that waits for the child.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return &child{cmd.Process, ended}, nil
}

// end sends a signal and waits for the end, which SIGKILL forces after a while.
func (c *child) end(sig syscall.Signal) {
	if c == nil {
		return
	}
	_ = c.Signal(sig)
	select {
	case <-c.ended:
	case <-time.After(30 * time.Second):
		_ = c.Kill()
		<-c.ended
	}
}

var shared struct {
	sync.Mutex
	engine *Engine
	why    error // why there is no engine
}

// Waits is the function of the goroutines that wait for the programs of an engine, for goleak.
const Waits = "github.com/trl-dev/trl/internal/runtimes/docker/dockertest.(*Engine).run.func1"

// Exit ends the shared engine and this process. It is the last call of TestMain.
func Exit(status int) {
	if e := shared.engine; e != nil {
		if err := e.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "dockertest:", err)
			status = max(status, 1)
		}
	}
	os.Exit(status)
}

// Shared returns the engine that all tests of this process share. It skips the test where no engine
// can be started.
func Shared(t testing.TB) *Engine {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.engine == nil && shared.why == nil {
		if shared.why = Possible(); shared.why == nil {
			e, err := Start()
			if err != nil {
				t.Fatal(err)
			}
			shared.engine = e
		}
	}
	if shared.why != nil {
		t.Skipf("SKIPPED: no Docker engine can be started here (%v): sessions in containers are not tested", shared.why)
	}
	return shared.engine
}

// New returns an engine for one test.
func New(t *testing.T, flags ...string) *Engine {
	t.Helper()
	if err := Possible(); err != nil {
		t.Skipf("SKIPPED: no Docker engine can be started here (%v): its restarts are not tested", err)
	}
	e, err := Start(flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Possible returns why no engine can be started here with its images; nil if one can.
func Possible() error {
	if os.Getuid() != 0 {
		return errors.New("dockerd needs root")
	}
	for _, program := range []string{"dockerd", "containerd", "runc", "ip", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is not installed", program)
		}
	}
	if err := exec.Command("unshare", "--net", "true").Run(); err != nil {
		return fmt.Errorf("no network namespace can be made: %w", err)
	}
	_, err := staticBusybox() // for the images
	return err
}

// Start starts an engine, with its images. The caller stops it.
func Start(flags ...string) (*Engine, error) {
	dir, err := os.MkdirTemp("", "trl-docker")
	if err != nil {
		return nil, err
	}
	e := &Engine{Host: "unix://" + dir + "/docker.sock", dir: dir, flags: flags}
	if e.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	if e.Client, err = client.New(client.WithHost(e.Host)); err != nil {
		return nil, err
	}
	// The namespace has a name as long as the engine, so that a later dockerd finds the network of
	// the containers of an earlier one.
	namespace := filepath.Join(dir, "net")
	if err := os.WriteFile(namespace, nil, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command("unshare", "--net="+namespace, "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("network namespace: %w: %s", err, out)
	}
	err = e.Up()
	if err == nil {
		err = e.images()
	}
	if err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// Up starts dockerd and waits until it answers. Its containerd is a process of its own, which lives
// on when dockerd ends, as on most machines.
func (e *Engine) Up() error {
	socket := e.dir + "/containerd.sock"
	var err error
	if e.containerd == nil {
		config := e.dir + "/containerd.toml"
		if err := os.WriteFile(config, []byte("version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"), 0o600); err != nil {
			return err
		}
		if e.containerd, err = e.run("containerd", "--config", config, "--address", socket, "--root", e.dir+"/containerd", "--state", e.dir+"/state"); err != nil {
			return err
		}
	}
	if err := e.answers(e.containerd, "containerd", func() error {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_ = c.Close()
		}
		return err
	}); err != nil {
		return err
	}
	args := []string{"--host", e.Host, "--containerd", socket, "--data-root", e.dir + "/data", "--exec-root", e.dir + "/exec", "--pidfile", e.dir + "/pid"}
	if e.dockerd, err = e.run("dockerd", append(args, e.flags...)...); err != nil {
		return err
	}
	return e.answers(e.dockerd, "dockerd", func() error {
		_, err := e.Ping(context.Background(), client.PingOptions{})
		return err
	})
}

// answers waits until a child answers.
func (e *Engine) answers(c *child, name string, ask func() error) error {
	for deadline := time.Now().Add(time.Minute); ; {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("%s has ended: %s", name, e.lastWords())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer: %w: %s", name, err, e.lastWords())
		}
	}
}

func (e *Engine) lastWords() string {
	data, _ := os.ReadFile(e.log.Name())
	return string(data[max(0, len(data)-3000):])
}

// Down ends dockerd with a signal: SIGKILL is a crash. What the containers do depends on the flags of
// the engine.
func (e *Engine) Down(sig syscall.Signal) { e.dockerd.end(sig) }

// Stop ends the engine with all containers, and removes what it left.
func (e *Engine) Stop() error {
	if list, err := e.ContainerList(context.Background(), client.ContainerListOptions{All: true}); err == nil {
		for _, c := range list.Items {
			_, _ = e.ContainerRemove(context.Background(), c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		}
	}
	_ = e.Client.Close()
	e.dockerd.end(syscall.SIGTERM)
	e.containerd.end(syscall.SIGTERM)
	e.endContainers()
	// The engine mounts its containers and their networks in the mount namespace of this process.
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], e.dir+"/") {
			points = append(points, fields[4])
		}
	}
	slices.Reverse(points)
	for _, p := range points {
		_ = unix.Unmount(p, unix.MNT_DETACH)
	}
	_ = e.log.Close()
	return os.RemoveAll(e.dir)
}

// endContainers ends the containers that are left behind by a dockerd that could not be started again.
func (e *Engine) endContainers() {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		if line, _ := os.ReadFile(path); !bytes.Contains(line, []byte("containerd-shim")) || !bytes.Contains(line, []byte(e.dir)) {
			continue
		}
		var shim int
		_, _ = fmt.Sscanf(path, "/proc/%d/", &shim)
		children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", shim))
		for _, path := range children {
			text, _ := os.ReadFile(path)
			for _, word := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(word); err == nil {
					_ = syscall.Kill(pid, syscall.SIGKILL) // the first process of a container, with all others
				}
			}
		}
		_ = syscall.Kill(shim, syscall.SIGKILL)
	}
}

// Listing returns the names of all containers and volumes of the engine, and what inspecting them
// says.
func (e *Engine) Listing(t testing.TB) (names []string, inspected string) {
	t.Helper()
	var text strings.Builder
	list, err := e.ContainerList(t.Context(), client.ContainerListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Items {
		names = append(names, "container "+strings.Join(c.Names, " "))
		var raw bytes.Buffer
		if r, err := e.ContainerInspect(t.Context(), c.ID, client.ContainerInspectOptions{}); err == nil {
			raw.Write(r.Raw)
		}
		text.Write(raw.Bytes())
	}
	volumes, err := e.VolumeList(t.Context(), client.VolumeListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes.Items {
		names = append(names, "volume "+v.Name)
		fmt.Fprintf(&text, "%+v\n", v)
	}
	slices.Sort(names)
	return names, text.String()
}
