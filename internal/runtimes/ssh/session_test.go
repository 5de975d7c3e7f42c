package ssh_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runtimes/ssh/sshdtest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/stream"
	"github.com/trl-dev/trl/internal/testkit"
)

// onlyHere is a runtime whose sessions are all in one place.
type onlyHere struct {
	session.Runtime
	target session.Target
}

func (o onlyHere) Kinds() []api.PlaceKind { return []api.PlaceKind{api.PlaceHost, api.PlaceSSH} }

func (o onlyHere) Start(ctx context.Context, s session.Spec) (session.Runner, error) {
	s.Target = o.target
	return o.Runtime.Start(ctx, s)
}

// daemon is the part of a daemon that owns sessions.
type daemon struct {
	*session.Registry
	t     testing.TB
	close func()
	once  sync.Once
}

func (p *place) start() *daemon {
	p.t.Helper()
	rt, logger, leave := p.open()
	r := session.NewRegistry(session.Config{
		Runtimes: []session.Runtime{onlyHere{rt, p.target()}}, Logger: logger, MaxSessions: 200, DefaultShell: "/bin/sh", KillGrace: time.Second, Retention: time.Minute,
		Limits: link.Limits{KillGraceS: 1, MaxQueued: 4, MaxStdinBytes: 1 << 20, OutputBytes: 1 << 22, SessionOutput: 1 << 23, ExecsKept: 10, ShellStartTimeout: 30, ReaderStallS: 120},
	})
	if err := r.Recover(p.t.Context(), false); err != nil {
		p.t.Fatal(err)
	}
	return &daemon{Registry: r, t: p.t, close: leave}
}

// stop ends the daemon and its sessions, once.
func (d *daemon) stop() {
	d.once.Do(func() {
		d.Close(nil)
		d.close()
	})
}

func (d *daemon) create(p api.SessionCreateParams) *session.Session {
	d.t.Helper()
	info, err := d.Create(d.t.Context(), p)
	if err != nil {
		d.t.Fatal(err)
	}
	s, err := d.Get(info.SessionID)
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

func (d *daemon) run(s *session.Session, command string) api.ExecResult {
	d.t.Helper()
	r, err := s.Run(d.t.Context(), api.ExecParams{Command: command})
	if err != nil {
		d.t.Fatalf("%s: %v", command, err)
	}
	return r
}

func TestSession(t *testing.T) {
	p := newPlace(t, sshdtest.Options{Shell: "/bin/bash"})
	if err := os.WriteFile(p.server.Home+"/.bashrc", []byte("export FROM_RC=yes; echo noise; echo noise >&2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := p.start()
	defer d.stop()
	s := d.create(api.SessionCreateParams{Name: "build", Env: map[string]string{"SECRET": "hunter2"}})
	if r := d.run(s, `cd; echo "$PWD $SECRET $FROM_RC"; echo oops >&2; exit 3`); r.Stdout != p.server.Home+" hunter2 yes\n" || r.Stderr != "oops\n" || r.ExitCode != 3 {
		t.Errorf("run = %+v", r)
	}
	for _, i := range process.Descendants(os.Getpid(), nil) {
		if line := process.CommandLine(i.PID); strings.Contains(line, "hunter2") {
			t.Errorf("the secret is in an argument list: %s", line)
		}
	}
	if strings.Contains(p.log.String()+p.server.Log(), "hunter2") {
		t.Error("the secret is in a log")
	}
	d.run(s, "setsid sleep 1000 >/dev/null 2>&1 & sleep 1000 &")
	r, err := d.Destroy(t.Context(), s.ID(), false)
	if err != nil || len(r.Killed) != 2 {
		t.Errorf("destroy = %+v, %v", r, err)
	}
	d.stop()
	if err := os.Remove(p.server.Home + "/.bashrc"); err != nil {
		t.Error(err)
	}
	p.wantEmpty()
}

const lines = 400000

// producer prints many lines and ends with status 7.
var producer = fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo line $i; i=$((i+1)); done; exit 7", lines)

func produced() string {
	h := sha256.New()
	for i := range lines {
		fmt.Fprintf(h, "line %d\n", i)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// follow streams the producer and calls disturb in equal distances.
func (d *daemon) follow(s *session.Session, times int, disturb func(n int)) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 4*time.Minute)
	defer cancel()
	p := api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: s.ID(), Command: producer, Backpressure: new(true), Detach: new(true)}}
	info, err := s.Start(ctx, p.ExecParams)
	if err != nil {
		d.t.Fatal(err)
	}
	st := stream.NewExec(ctx, s, info.ExecID, p)
	defer st.Close()
	h := sha256.New()
	size, total, n := 0, lines*11, 0
	for {
		e, err := st.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			d.t.Fatalf("after %d bytes and %d disturbances: %v", size, n, err)
		}
		switch e.Type {
		case "stdout":
			if e.Offset == nil || int(*e.Offset) != size {
				d.t.Fatalf("offset %v after %d bytes", e.Offset, size)
			}
			_, _ = io.WriteString(h, e.Data)
			size += len(e.Data)
		case "exit":
			if e.ExitCode != 7 {
				d.t.Errorf("exit %+v", e)
			}
		default:
			d.t.Fatalf("%+v", e)
		}
		if n < times && size > (n+1)*total/(times+1) {
			n++
			disturb(n)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != produced() || n != times {
		d.t.Errorf("%d bytes with the hash %s after %d disturbances, want %s after %d", size, got, n, produced(), times)
	}
}

// TestCuts: the connection is cut in the middle of a command, and nothing is lost or doubled.
func TestCuts(t *testing.T) {
	p := newPlace(t, sshdtest.Options{})
	d := p.start()
	defer d.stop()
	s := d.create(api.SessionCreateParams{})
	seen := 0
	d.follow(s, 20, func(int) {
		testkit.Eventually(t, "the session has another connection", func() bool {
			return p.proxy.Connections() > seen && s.Reachable()
		})
		seen = p.proxy.Connections()
		p.proxy.Cut()
	})
	if r := d.run(s, "echo still here"); r.Stdout != "still here\n" {
		t.Errorf("%+v", r)
	}
}

// TestDisturbances: sshd is killed and started again, the process of ssh is killed, the network stalls.
func TestDisturbances(t *testing.T) {
	p := newPlace(t, sshdtest.Options{})
	d := p.start()
	defer d.stop()
	s := d.create(api.SessionCreateParams{})
	d.follow(s, 6, func(n int) {
		switch n % 3 {
		case 0:
			p.server.Kill()
			p.server.Run()
		case 1:
			for _, pid := range masters() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		case 2:
			p.proxy.Stall()
		}
	})
}
