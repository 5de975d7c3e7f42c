package ssh_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/runtimetest"
	"github.com/trl-dev/trl/internal/runtimes/ssh"
	"github.com/trl-dev/trl/internal/runtimes/ssh/sshdtest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/state"
	"github.com/trl-dev/trl/internal/testkit"
)

// place is a machine behind a network that can break, and the directories of the daemons that use it.
type place struct {
	t              testing.TB
	server         *sshdtest.Server
	proxy          *testkit.Proxy
	state, sockets string
	log            *testkit.Buffer
}

func newPlace(t testing.TB, o sshdtest.Options) *place {
	t.Helper()
	p := &place{t: t, server: newServer(t, o), log: &testkit.Buffer{}}
	dir := testkit.Dir(t)
	p.state, p.sockets = filepath.Join(dir, "state"), filepath.Join(dir, "ssh")
	p.proxy = testkit.NewProxy(t, p.server.Host+":"+p.server.Port)
	p.server.Aim(p.proxy.Address())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", p.log)
		}
	})
	return p
}

func (p *place) target() session.Target {
	return target(p.server, "ServerAliveInterval=1", "ServerAliveCountMax=3")
}

// open makes the runtime of a daemon.
func (p *place) open() (*remote.Runtime, *slog.Logger, func()) {
	p.t.Helper()
	logger := slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	dir, err := state.Open(state.Config{Path: p.state, Logger: logger})
	if err != nil {
		p.t.Fatal(err)
	}
	driver := ssh.New(ssh.Config{Dir: p.sockets, Spawn: reaper.Start, Forget: func(int) {}, Environ: os.Environ(), Logger: logger})
	rt, err := remote.New(remote.Config{Driver: driver, State: dir, Logger: logger})
	if err != nil {
		p.t.Fatal(err)
	}
	return rt, logger, func() {
		rt.Close()
		dir.Close()
	}
}

// runners returns the living runners on the machine.
func (p *place) runners() []process.Info {
	var list []process.Info
	for _, i := range process.Descendants(os.Getpid(), nil) {
		if strings.Contains(process.CommandLine(i.PID), "trl-runner") {
			list = append(list, i)
		}
	}
	return list
}

// wantEmpty checks that nothing of any session is left, there and here.
func (p *place) wantEmpty() {
	p.t.Helper()
	for _, dir := range []string{p.server.Sessions, filepath.Join(p.state, "sessions")} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			p.t.Errorf("%s is left", filepath.Join(dir, e.Name()))
		}
	}
	testkit.EventuallyNoProblem(p.t, func() string { // a closed session ends its programs a moment later
		for _, i := range p.runners() {
			return fmt.Sprintf("process %d is left: %s", i.PID, process.CommandLine(i.PID))
		}
		return ""
	})
	cache, _ := os.ReadDir(filepath.Join(p.server.Home, ".cache/trl"))
	home, _ := os.ReadDir(p.server.Home)
	if len(cache) > 1 || len(home) > 1 {
		p.t.Errorf("the home directory has %v, the cache %v; want one runner", home, cache)
	}
}

// restart is a restart of the machine: nothing survives it.
func (p *place) restart() {
	p.t.Helper()
	p.server.Kill()
	for _, i := range p.runners() {
		_ = syscall.Kill(i.PID, syscall.SIGSTOP) // it must not see its processes end
		for _, child := range process.Descendants(i.PID, nil) {
			_ = syscall.Kill(child.PID, syscall.SIGKILL)
		}
		_ = syscall.Kill(i.PID, syscall.SIGKILL)
	}
	p.server.SetBoot("11111111-2222-3333-4444-555555555555")
	for _, dir := range []string{p.server.Sessions} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	p.server.Run()
}

func (p *place) conformance() runtimetest.Place {
	return runtimetest.Place{
		Open: func(*testing.T) (session.Runtime, func()) {
			rt, _, leave := p.open()
			return rt, leave
		},
		WantEmpty: func(*testing.T) { p.wantEmpty() },
		Target:    p.target(),
		Cut:       func() { p.proxy.Cut() },
		Lose: func() func() {
			p.proxy.Refuse()
			p.proxy.Cut()
			return p.proxy.Listen
		},
		End: func(session.Runner) string {
			p.restart()
			return "has been restarted"
		},
		Listing: func() string {
			var b strings.Builder
			for _, i := range process.Descendants(os.Getpid(), nil) {
				fmt.Fprintln(&b, process.CommandLine(i.PID))
			}
			fmt.Fprintln(&b, p.log, p.server.Log())
			return b.String()
		},
	}
}

func newConformance(t *testing.T) runtimetest.Place {
	return newPlace(t, sshdtest.Options{Shell: "/bin/bash"}).conformance()
}

func TestRuntime(t *testing.T) { runtimetest.Run(t, newConformance) }

func TestSessions(t *testing.T) { runtimetest.RunSessions(t, newConformance) }
