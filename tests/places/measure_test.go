//go:build linux

package places

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runtimes/docker/dockertest"
	"github.com/trl-dev/trl/internal/runtimes/kubernetes"
	"github.com/trl-dev/trl/internal/runtimes/kubernetes/clustertest"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

var measureTo = flag.String("measure", "", "measure the places and write the figures to this file, for tests/bench")

// measured is one figure, as tests/bench reads it: a latency with its samples, or a rate.
type measured struct {
	Name    string          `json:"name"`
	Samples []time.Duration `json:"samples,omitempty"`
	Floor   []time.Duration `json:"floor,omitempty"`
	Ratio   float64         `json:"ratio,omitempty"` // the goal: at most this multiple of the floor
	Bytes   int64           `json:"bytes,omitempty"`
	Took    time.Duration   `json:"took,omitempty"`
}

// TestMeasure measures sessions in every place beside sessions of the host, and beside what people use
// instead. `go run ./tests/bench -only runtimes` calls it.
func TestMeasure(t *testing.T) {
	if *measureTo == "" {
		t.Skip("only for tests/bench")
	}
	var list []measured
	goals := map[string]float64{"docker": 2, "ssh": 3, "kubernetes": 4}
	for _, b := range builders {
		t.Run(b.name, func(t *testing.T) {
			site := b.build(t, nil)
			site.plain()
			daemon := trltest.Start(t, trltest.Use(testkit.Must(trltest.Static())(t)), trltest.Args("--log-level", "error"), trltest.Env(site.env...))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
			defer cancel()
			p := &place{T: t, Client: daemon.Client(t), site: site, name: b.name, daemon: daemon, ctx: ctx}
			here := &place{T: t, Client: p.Client, daemon: daemon, ctx: ctx}
			list = append(list, p.measureTrue(here, goals[b.name]), p.measureCreate(), p.measureStream())
			if b.name == "trl" {
				list = append(list, measured{Name: "host: create, for comparison", Samples: here.measureCreate().Samples}, here.measureStream())
			}
			list = append(list, p.alternatives()...)
		})
	}
	text, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(*measureTo, text, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// plain makes the place as people have it, without directories of this machine.
func (s *site) plain() {
	if o := s.at.Place; o != nil {
		o.Mounts, o.PodTemplate = nil, ""
	}
}

func timed(n int, f func()) []time.Duration {
	list := make([]time.Duration, n)
	for i := range list {
		began := time.Now()
		f()
		list[i] = time.Since(began)
	}
	return list
}

// measureTrue takes turns with a session of the host, so that both see the same machine.
func (p *place) measureTrue(here *place, goal float64) measured {
	m := measured{Name: p.name + ": true, beside the host", Ratio: goal}
	there, host := p.create(api.SessionCreateParams{Shell: "/bin/sh"}).SessionID, here.create(api.SessionCreateParams{Shell: "/bin/sh"}).SessionID
	run := func(id string) func() {
		return func() { testkit.Must(p.ExecRun(p.ctx, api.ExecParams{SessionID: id, Command: "true"}))(p) }
	}
	timed(20, run(there))
	timed(20, run(host))
	for range 10 {
		m.Samples, m.Floor = append(m.Samples, timed(25, run(there))...), append(m.Floor, timed(25, run(host))...)
	}
	p.destroy(there)
	p.destroy(host)
	return m
}

func (p *place) measureCreate() measured {
	m := measured{Name: p.name + ": create"}
	n := 5
	p.destroy(p.create(api.SessionCreateParams{}).SessionID) // copies the runner
	for range n {
		var id string
		m.Samples = append(m.Samples, timed(1, func() { id = p.create(api.SessionCreateParams{}).SessionID })...)
		if p.name == "docker" { // the goal is a multiple of docker run
			var container string
			m.Floor = append(m.Floor, timed(1, func() {
				container = strings.TrimSpace(p.command("docker", "run", "-d", "--entrypoint", "/bin/sleep", dockertest.Busybox, "1000"))
			})...)
			p.command("docker", "rm", "-f", container)
			m.Ratio = 1.3
		}
		p.destroy(id)
	}
	return m
}

func (p *place) measureStream() measured {
	const size = 100_000_000
	id := p.create(api.SessionCreateParams{Shell: "/bin/sh"}).SessionID
	defer p.destroy(id)
	name := p.name
	if name == "" {
		name = "host"
	}
	m := measured{Name: name + ": 100 MB streamed", Bytes: size}
	m.Took = timed(1, func() {
		command := fmt.Sprintf("yes 'a line of ordinary text, as programs write it' | head -c %d", size)
		s := testkit.Must(p.ExecStream(p.ctx, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: id, Command: command, Backpressure: new(true)}}))(p)
		defer s.Close()
		got := 0
		for {
			e, err := s.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				p.Fatal(err)
			}
			got += len(e.Data)
		}
		if got != size {
			p.Errorf("%d bytes of %d", got, size)
		}
	})[0]
	return m
}

// alternatives measures what people use without TRL.
func (p *place) alternatives() []measured {
	const n = 10
	switch p.name {
	case "docker":
		container := strings.TrimSpace(p.command("docker", "run", "-d", "--entrypoint", "/bin/sleep", dockertest.Busybox, "1000"))
		defer p.command("docker", "rm", "-f", container)
		return []measured{{Name: "docker exec CONTAINER true", Samples: timed(n, func() { p.command("docker", "exec", container, "true") })}}
	case "ssh":
		base := []string{"-i", p.at.Place.Identity, "-o", "BatchMode=yes"}
		for _, o := range p.at.Place.SSHOptions {
			base = append(base, "-o", o)
		}
		host, control := strings.TrimPrefix(p.at.Runtime, "ssh:"), filepath.Join(testkit.Dir(p), "control")
		alone := timed(n, func() { p.command("ssh", append(base, host, "true")...) })
		base = append(base, "-S", control)
		p.command("ssh", append(base, "-M", "-f", "-N", host)...)
		defer p.command("ssh", append(base, "-O", "exit", host)...)
		return []measured{{Name: "ssh HOST true", Samples: alone}, {Name: "ssh HOST true, with a master", Samples: timed(n, func() { p.command("ssh", append(base, host, "true")...) })}}
	case "kubernetes":
		reaper := process.NewReaper()
		defer reaper.Close()
		binary := testkit.Must(trltest.Static())(p)
		driver := kubernetes.New(kubernetes.Config{
			Program: func() (string, error) { return filepath.Join(filepath.Dir(binary), "trl-kube"), nil },
			Spawn:   reaper.Start, Forget: func(int) {}, Dir: testkit.Dir(p), Environ: append(os.Environ(), p.env...),
		})
		defer driver.Close()
		pod := clustertest.Start(p).Pod(p)
		site := testkit.Must(driver.Open(p.ctx, remote.Opening{
			Daemon: "measure", SessionID: "s-0000000001", Progress: func(api.PlaceProgress) {},
			Target: session.Target{Kind: api.PlacePod, Options: api.PlaceOptions{Namespace: "default", Pod: pod}},
		}))(p)
		return []measured{{Name: "exec through the apiserver, true", Samples: timed(n, func() {
			program := testkit.Must(site.(remote.Machine).Exec(p.ctx, []string{"/bin/true"}))(p)
			_, _ = io.Copy(io.Discard, program)
			if exit, err := program.Wait(); err != nil || exit.Status != 0 {
				p.Errorf("%+v, %v", exit, err)
			}
			_ = program.Close()
		})}}
	}
	return nil
}

// command runs a program of this machine, with the environment of the place's daemon. What it leaves in
// the background may hold its output.
func (p *place) command(name string, args ...string) string {
	p.Helper()
	out, err := os.CreateTemp(p.TempDir(), "out")
	if err != nil {
		p.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), p.env...), out, out
	err = cmd.Run()
	text, _ := os.ReadFile(out.Name())
	if err != nil {
		p.Fatalf("%s %v: %v: %s", name, args, err, text)
	}
	return string(text)
}
