package trltest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// HTTP returns the base URL of a daemon that was started with Args("--http", …) and a
// token that may do everything.
func (d *Daemon) HTTP(t testing.TB) (url, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, d.Socket)
	if err != nil {
		t.Fatalf("trltest: %s", err)
	}
	defer c.Close()
	info, err := c.SystemInfo(ctx, api.SystemInfoParams{})
	if err != nil || info.HTTP == "" {
		t.Fatalf("trltest: the daemon has no HTTP: %q, %v", info.HTTP, err)
	}
	for _, kv := range d.opts.env {
		if token, ok := strings.CutPrefix(kv, "TRL_AUTH_TOKEN="); ok {
			return info.HTTP, token
		}
	}
	text, err := os.ReadFile(filepath.Join(d.StateDir, "token"))
	if err != nil {
		t.Fatalf("trltest: %s", err)
	}
	return info.HTTP, strings.TrimSpace(string(text))
}
