package trltest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// HTTP returns the base URL of a daemon that was started with Args("--http", …) and a
// token that may do everything.
func (d *Daemon) HTTP(t testing.TB) (url, token string) {
	t.Helper()
	info := d.info(t)
	if info.HTTP == "" {
		t.Fatal("trltest: the daemon has no HTTP")
	}
	return info.HTTP, d.Token(t)
}

// Token returns the one that the daemon was given in its environment, or has made.
func (d *Daemon) Token(t testing.TB) string {
	t.Helper()
	for _, kv := range d.opts.env {
		if token, ok := strings.CutPrefix(kv, "TRL_AUTH_TOKEN="); ok {
			return token
		}
	}
	text, err := os.ReadFile(filepath.Join(d.StateDir, "token"))
	if err != nil {
		t.Fatalf("trltest: %s", err)
	}
	return strings.TrimSpace(string(text))
}
