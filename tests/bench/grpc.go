package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// grpc measures gRPC beside the unix socket, both through the Go client: the latency of a
// call and of a command, a reader of text, and one of bytes that JSON has to escape.
func (b *bench) grpc() error {
	d, err := startDaemon(b.binary, "--output-bytes", "512MiB", "--session-output-bytes", "4GiB", "--grpc", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer d.stop()
	ctx := context.Background()
	near, err := client.Dial(ctx, d.socket)
	if err != nil {
		return err
	}
	defer near.Close()
	info, err := near.SystemInfo(ctx, api.SystemInfoParams{})
	if err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(d.dir, "state", "token"))
	if err != nil {
		return err
	}
	far, err := client.DialGRPC(ctx, info.GRPC, client.GRPCOptions{Token: strings.TrimSpace(string(token))})
	if err != nil {
		return err
	}
	defer far.Close()
	session, err := near.SessionCreate(ctx, api.SessionCreateParams{Shell: b.shells[0].path})
	if err != nil {
		return err
	}
	calls := []struct {
		name string
		call func(c *client.Client) error
	}{
		{"gRPC: system.ping; floor: socket", func(c *client.Client) error {
			_, err := c.SystemPing(ctx, api.SystemPingParams{})
			return err
		}},
		{"gRPC: " + b.shells[0].name + ": true; floor: socket", func(c *client.Client) error {
			_, err := c.ExecRun(ctx, api.ExecParams{SessionID: session.SessionID, Command: "true"})
			return err
		}},
	}
	for _, m := range calls {
		floor, err := sample(1000, func() error { return m.call(near) })
		if err != nil {
			return err
		}
		ours, err := sample(1000, func() error { return m.call(far) })
		if err != nil {
			return err
		}
		b.report.latency(m.name, ours, floor, 0, 0)
	}
	for _, m := range []struct{ name, command string }{
		{"300 MB of text over gRPC; floor: socket", "yes 'a line of ordinary text, as programs write it' | head -c 300000000"},
		{"300 MB of zeros over gRPC; floor: socket", "head -c 300000000 /dev/zero"},
	} {
		floor, err := clientRate(ctx, near, session.SessionID, m.command)
		if err != nil {
			return err
		}
		rate, err := clientRate(ctx, far, session.SessionID, m.command)
		if err != nil {
			return err
		}
		b.report.rate(m.name, webText, time.Duration(webText/rate*1e9), floor, 0)
	}
	return nil
}

// clientRate is how many bytes a second a RemoteSession gets of a command that prints
// webText bytes.
func clientRate(ctx context.Context, c *client.Client, session, command string) (float64, error) {
	began := time.Now()
	x, err := c.ExecStart(ctx, api.ExecParams{SessionID: session, Command: command, Wait: true})
	if err != nil {
		return 0, err
	}
	r, err := client.OpenRemote(ctx, c, session, client.RemoteOptions{ExecID: x.ExecID})
	if err != nil {
		return 0, err
	}
	defer r.Close()
	for n := 0; ; {
		p, err := r.Recv(ctx)
		if err != nil {
			return 0, err
		}
		n += len(p.Data)
		switch {
		case p.Type == api.EventGap:
			return 0, fmt.Errorf("a gap: %+v", p.Event)
		case p.Type == api.EventExit && n != webText:
			return 0, fmt.Errorf("%d of %d bytes", n, webText)
		case p.Type == api.EventExit:
			return webText / time.Since(began).Seconds(), nil
		}
	}
}
