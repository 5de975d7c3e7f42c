package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// streamText is how much each stream carries: many times what a daemon keeps of a command.
const streamText = 600_000_000

// goalStream is what a stream must reach where it can, in MB/s.
const goalStream = 400

// flow measures the streams of TRL's own clients, with a daemon as it comes: the
// command waits for its reader, and everything arrives. The floor is a bare pipe.
func (b *bench) flow() error {
	d, err := startDaemon(b.binary, "--grpc", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer d.stop()
	command := fmt.Sprintf("yes 'a line of ordinary text, as programs write it' | head -c %d", streamText)
	floor, err := pipeRate(command)
	if err != nil {
		return err
	}
	ctx := context.Background()
	socket, err := client.Dial(ctx, d.socket)
	if err != nil {
		return err
	}
	defer socket.Close()
	if err := b.streamOver("the socket", socket, command, floor); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "trl-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	pipes, err := client.Spawn(ctx, b.binary, "serve", "--stdio", "--state-dir", filepath.Join(dir, "state"), "--log-level", "error")
	if err != nil {
		return err
	}
	defer pipes.Close()
	if err := b.streamOver("stdio", pipes, command, floor); err != nil {
		return err
	}
	info, err := socket.SystemInfo(ctx, api.SystemInfoParams{})
	if err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(d.dir, "state", "token"))
	if err != nil {
		return err
	}
	remote, err := client.DialGRPC(ctx, info.GRPC, client.GRPCOptions{Token: strings.TrimSpace(string(token))})
	if err != nil {
		return err
	}
	defer remote.Close()
	if err := b.streamOver("gRPC", remote, command, floor); err != nil {
		return err
	}
	if err := b.streamRun(d, command, floor); err != nil {
		return err
	}
	return b.feed(d, []way{{"the socket", socket}, {"stdio", pipes}, {"gRPC", remote}})
}

// streamOver measures one stream of the Go client.
func (b *bench) streamOver(name string, c *client.Client, command string, floor float64) error {
	ctx := context.Background()
	session, err := c.SessionCreate(ctx, api.SessionCreateParams{Shell: b.shells[0].path})
	if err != nil {
		return err
	}
	began := time.Now()
	opened, err := c.ExecStream(ctx, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: session.SessionID, Command: command}})
	if err != nil {
		return err
	}
	s := opened.(api.ByteStream)
	defer s.Close()
	for n := 0; ; {
		ev, data, err := s.RecvBytes()
		if errors.Is(err, io.EOF) && n == streamText {
			break
		}
		if err != nil || ev.Type == api.EventGap {
			return fmt.Errorf("stream over %s: after %d bytes: %s %w", name, n, ev.Type, err)
		}
		n += len(data)
	}
	b.report.rate("600 MB by a stream over "+name, streamText, time.Since(began), floor, goalStream)
	_, err = c.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: session.SessionID, Force: true})
	return err
}

// streamRun measures `trl run` with its output on a pipe.
func (b *bench) streamRun(d *daemon, command string, floor float64) error {
	cmd := exec.Command(b.binary, "--socket", d.socket, "run", command)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, out, make([]byte, 256<<10))
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil || n != streamText {
		return fmt.Errorf("trl run carried %d of %d bytes: %w", n, streamText, err)
	}
	b.report.rate("600 MB by trl run", streamText, time.Since(began), floor, goalStream)
	return nil
}
