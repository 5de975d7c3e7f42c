//go:build linux

package docker_test

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes/docker"
	"github.com/trl-dev/trl/internal/runtimes/docker/dockertest"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/runtimetest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/state"
	"github.com/trl-dev/trl/internal/testkit"
)

// yard is an engine behind a proxy, and the state directory of the daemons that use it.
type yard struct {
	*bench
	proxy *dockertest.Proxy
	state string
	log   testkit.Buffer
}

func newYard(t *testing.T, e *dockertest.Engine) *yard {
	dir := testkit.Dir(t)
	y := &yard{bench: newBench(t, e), proxy: e.NewProxy(t, filepath.Join(dir, "docker.sock")), state: filepath.Join(dir, "state")}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", y.log.String())
		}
	})
	return y
}

// daemon makes the runtime of a daemon.
func (y *yard) daemon() (*remote.Runtime, func()) {
	y.Helper()
	logger := slog.New(slog.NewTextHandler(&y.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	dir, err := state.Open(state.Config{Path: y.state, Logger: logger})
	if err != nil {
		y.Fatal(err)
	}
	rt, err := remote.New(remote.Config{Driver: docker.New(docker.Config{}), State: dir, Logger: logger})
	if err != nil {
		y.Fatal(err)
	}
	return rt, func() {
		rt.Close()
		dir.Close()
	}
}

func (y *yard) target(kind api.PlaceKind, o api.PlaceOptions) session.Target {
	o.Engine = y.proxy.Host
	return session.Target{Word: string(kind) + ":test", Kind: kind, Options: o}
}

// place is a place for the conformance suite.
func (y *yard) place(target session.Target) runtimetest.Place {
	p := runtimetest.Place{
		Open: func(*testing.T) (session.Runtime, func()) {
			rt, leave := y.daemon()
			return rt, leave
		},
		WantEmpty: func(t *testing.T) {
			left, err := os.ReadDir(filepath.Join(y.state, "sessions"))
			if err != nil {
				t.Error(err)
			}
			for _, e := range left {
				t.Errorf("record %s is left", e.Name())
			}
			list, err := y.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", "dev.trl.session")})
			if err != nil {
				t.Error(err)
			}
			for _, c := range list.Items {
				t.Errorf("container %v is left", c.Names)
			}
		},
		Target: target,
		Cut:    y.proxy.Cut,
		Lose: func() func() {
			y.proxy.Refuse()
			y.proxy.Cut()
			return func() {
				if err := y.proxy.Accept(); err != nil {
					y.Error(err)
				}
			}
		},
		End: func(r session.Runner) string {
			if _, err := y.ContainerKill(y.Context(), r.Place().Info.Container, client.ContainerKillOptions{}); err != nil {
				y.Error(err)
			}
			return "was killed"
		},
		Listing: func() string {
			_, text := y.Listing(y)
			return text + arguments()
		},
	}
	if target.Kind == api.PlaceDocker {
		p.Stray = func(t *testing.T) {
			id, err := os.ReadFile(filepath.Join(y.state, "id"))
			if err != nil {
				t.Fatal(err)
			}
			y.foreign(dockertest.Busybox, func(c *container.Config, _ *container.HostConfig) {
				c.Labels = map[string]string{"dev.trl.daemon": strings.TrimSpace(string(id)), "dev.trl.session": "s-00000000ee"}
			})
		}
	}
	return p
}

// arguments returns the arguments of all processes of this machine, on which the engine runs.
func arguments() string {
	var text strings.Builder
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		line, _ := os.ReadFile(f)
		text.Write(line)
		text.WriteByte('\n')
	}
	return text.String()
}

func TestRuntime(t *testing.T) {
	e := dockertest.Shared(t)
	for name, place := range map[string]func(t *testing.T) runtimetest.Place{
		"docker": func(t *testing.T) runtimetest.Place {
			y := newYard(t, e)
			return y.place(y.target(api.PlaceDocker, api.PlaceOptions{Image: dockertest.Busybox}))
		},
		"container": func(t *testing.T) runtimetest.Place {
			y := newYard(t, e)
			return y.place(y.target(api.PlaceContainer, api.PlaceOptions{Container: y.foreign(dockertest.Busybox, nil)}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			runtimetest.Run(t, place)
			runtimetest.RunSessions(t, place)
		})
	}
}

// TestGVisor passes the checks of every runtime with a kernel that is not Linux.
func TestGVisor(t *testing.T) {
	runsc, err := exec.LookPath("runsc")
	if err != nil {
		t.Skip("SKIPPED: runsc is not installed: sessions in gVisor are not tested")
	}
	// The runsc of Debian 12 takes every network namespace of newer kernels for that of the machine.
	wrapper := filepath.Join(testkit.Dir(t), "runsc")
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\nexec "+runsc+" --network=none \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	e := dockertest.New(t, "--add-runtime", "runsc="+wrapper)
	o := api.PlaceOptions{Image: dockertest.Busybox, OCIRuntime: "runsc"}
	t.Run("kernel", func(t *testing.T) {
		s, _ := newBench(t, e).open(api.PlaceDocker, o)
		if got := sh(t, s, "dmesg"); !strings.Contains(got, "gVisor") {
			t.Errorf("the kernel says %q", got)
		}
	})
	place := func(t *testing.T) runtimetest.Place {
		y := newYard(t, e)
		p := y.place(y.target(api.PlaceDocker, o))
		p.Cycles = 20 // a container takes a second or two
		return p
	}
	runtimetest.Run(t, place)
	runtimetest.RunSessions(t, place)
}
