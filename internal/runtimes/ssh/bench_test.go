package ssh_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runtimes/host"
	"github.com/trl-dev/trl/internal/runtimes/ssh/sshdtest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/state"
	"github.com/trl-dev/trl/internal/stream"
	"github.com/trl-dev/trl/internal/testkit"
)

// onHost starts a daemon whose sessions are on this machine, to compare with.
func onHost(b *testing.B) *daemon {
	b.Helper()
	dir := testkit.Dir(b)
	logger := slog.New(slog.DiscardHandler)
	st, err := state.Open(state.Config{Path: filepath.Join(dir, "state"), Logger: logger})
	if err != nil {
		b.Fatal(err)
	}
	rt, err := host.New(host.Config{State: st, RuntimeDir: filepath.Join(dir, "run"), Reaper: reaper, Logger: logger, Environ: os.Environ()})
	if err != nil {
		b.Fatal(err)
	}
	r := session.NewRegistry(session.Config{
		Runtimes: []session.Runtime{rt}, Logger: logger, MaxSessions: 10, DefaultShell: "/bin/sh", KillGrace: time.Second, Retention: time.Minute,
		Limits: link.Limits{KillGraceS: 1, MaxQueued: 4, OutputBytes: 1 << 22, SessionOutput: 1 << 23, ExecsKept: 10, ShellStartTimeout: 30},
	})
	if err := r.Recover(b.Context(), false); err != nil {
		b.Fatal(err)
	}
	return &daemon{Registry: r, t: b, close: func() { rt.Close(); st.Close() }}
}

// BenchmarkTrue compares one command in a live session, here and over ssh, with the ssh program.
func BenchmarkTrue(b *testing.B) {
	p := newPlace(b, sshdtest.Options{Shell: "/bin/bash"})
	over := p.start()
	defer over.stop()
	here := onHost(b)
	defer here.stop()
	for _, c := range []struct {
		name string
		d    *daemon
	}{{"host", here}, {"ssh", over}} {
		s := c.d.create(api.SessionCreateParams{})
		for _, command := range []string{"true", "/bin/true"} {
			b.Run(c.name+" session "+command, func(b *testing.B) {
				for b.Loop() {
					c.d.run(s, command)
				}
			})
		}
		b.Run(c.name+" 100 MB", func(b *testing.B) {
			b.SetBytes(100 << 20)
			for b.Loop() {
				pull(b, s, "head -c 104857600 /dev/zero", 100<<20)
			}
		})
		b.Run(c.name+" create and destroy", func(b *testing.B) {
			for b.Loop() {
				if _, err := c.d.Destroy(b.Context(), c.d.create(api.SessionCreateParams{}).ID(), false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	base := []string{"ssh", "-i", p.server.Identity(), "-o", "BatchMode=yes"}
	for _, o := range p.server.ClientOptions() {
		base = append(base, "-o", o)
	}
	shared := append(base[:len(base):len(base)], "-S", p.server.Dir+"/control")
	wait(b, append(shared, "-M", "-f", "-N", p.server.Destination()))
	b.Run("ssh true with a master", func(b *testing.B) {
		for b.Loop() {
			wait(b, append(shared, p.server.Destination(), "true"))
		}
	})
	wait(b, append(shared, "-O", "exit", p.server.Destination()))
	b.Run("ssh true without a master", func(b *testing.B) {
		for b.Loop() {
			wait(b, append(base, p.server.Destination(), "true"))
		}
	})
}

// wait runs ssh to its end.
func wait(b *testing.B, args []string) {
	b.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	p, err := reaper.Start(process.Spec{Path: "/usr/bin/ssh", Args: args, Env: os.Environ(), Files: []*os.File{null, null, null}})
	if err != nil {
		b.Fatal(err)
	}
	if <-p.Done(); p.Exit().Code() != 0 {
		b.Fatalf("%v: %+v", args, p.Exit())
	}
}

// pull streams a command and counts the bytes.
func pull(b *testing.B, s *session.Session, command string, want int) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	p := api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: s.ID(), Command: command, Backpressure: new(true), Detach: new(true)}}
	info, err := s.Start(ctx, p.ExecParams)
	if err != nil {
		b.Fatal(err)
	}
	st := stream.NewExec(ctx, s, info.ExecID, p)
	defer st.Close()
	got := 0
	for {
		e, err := st.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		got += len(e.Data)
	}
	if got != want {
		b.Fatalf("%d bytes, want %d", got, want)
	}
}
