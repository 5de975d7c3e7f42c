package soak_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestUpgradeKeepsKeys upgrades a daemon whose runtime directory is on a disk, as it is on
// macOS: the keys of ended sessions are in its memory alone, and the next program gets
// them. No key is written to the disk.
func TestUpgradeKeepsKeys(t *testing.T) {
	runtimeDir := testkit.Dir(t)
	daemon := trltest.Start(t, trltest.Env("TRL_RUNTIME_DIR="+runtimeDir))
	service := daemon.Client(t)
	id := create(t, service, api.SessionCreateParams{}).SessionID
	exec := run(t, service, id, "echo kept").ExecID
	destroy(t, service, id)
	ctx := context.Background()
	reads := func(service api.Service) string {
		out, err := service.ExecOutput(ctx, api.ExecOutputParams{ExecID: exec, Stream: "stdout"})
		if err != nil {
			return err.Error()
		}
		return out.Data
	}
	if got := reads(service); got != "kept\n" {
		t.Fatalf("before: %q", got)
	}
	for range 2 {
		old, err := service.SystemInfo(ctx, api.SystemInfoParams{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := service.SystemUpgrade(ctx, api.SystemUpgradeParams{}); err != nil {
			t.Fatal(err)
		}
		testkit.EventuallyNoProblem(t, func() string {
			service = daemon.Client(t)
			info, err := service.SystemInfo(ctx, api.SystemInfoParams{})
			if err != nil || info.StartedAt.Equal(old.StartedAt) {
				return fmt.Sprintf("the daemon is not new: %s %v", info.StartedAt, err)
			}
			return ""
		})
		if got := reads(service); got != "kept\n" {
			t.Errorf("after the upgrade: %q", got)
		}
	}
	if _, err := os.Stat(filepath.Join(runtimeDir, "past", id)); err == nil {
		t.Skip("the temporary directory is in memory: the key is in a file")
	}
}
