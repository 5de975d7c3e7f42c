package trltest

import (
	"context"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// GRPC returns the address of a daemon that was started with Args("--grpc", …), such as
// grpc://127.0.0.1:7331.
func (d *Daemon) GRPC(t testing.TB) string {
	t.Helper()
	info := d.info(t)
	if info.GRPC == "" {
		t.Fatal("trltest: the daemon has no gRPC")
	}
	return info.GRPC
}

// info asks the daemon over its socket.
func (d *Daemon) info(t testing.TB) api.SystemInfoResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, d.Socket)
	if err != nil {
		t.Fatalf("trltest: %s", err)
	}
	defer c.Close()
	info, err := c.SystemInfo(ctx, api.SystemInfoParams{})
	if err != nil {
		t.Fatalf("trltest: %s", err)
	}
	return info
}
