package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
)

// upgradeTimeout bounds the wait for the new daemon.
const upgradeTimeout = 30 * time.Second

func (a *app) upgradeCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "upgrade [BINARY]",
		GroupID: groupDaemon,
		Short:   "Replace the running daemon with a new trl; the sessions stay",
		Long: `Replace the running daemon with this trl, or with another one, in place: its process and
its socket stay, and every session goes on with its running commands. Connections close;
clients reconnect and continue reading where they stopped.

The daemon tests the new program first. If it would not start with the daemon's arguments
and settings, nothing changes.`,
		Example: `  trl upgrade
  trl upgrade ./trl-1.3.0`,
		Args: ui.Args(0, 1, "at most one BINARY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			binary, err := os.Executable()
			if len(args) > 0 {
				binary, err = filepath.Abs(args[0])
			}
			if err != nil {
				return err
			}
			c, cfg, err := a.connectRunning(cmd)
			if err != nil {
				return err
			}
			if c == nil {
				return ui.WithHint(noDaemon(cfg), "there is nothing to replace; the next command starts the new one")
			}
			defer c.Close()
			before, err := c.SystemInfo(cmd.Context(), api.SystemInfoParams{})
			if err != nil {
				return err
			}
			r, err := c.SystemUpgrade(cmd.Context(), api.SystemUpgradeParams{Binary: binary})
			if err != nil {
				return ui.WithHint(err, "the old daemon keeps running")
			}
			if err := a.awaitSuccessor(cmd.Context(), cfg, before.StartedAt); err != nil {
				return ui.WithHint(err, "look at the daemon's log; the sessions are kept for the next `trl serve`")
			}
			if asJSON {
				return a.Stdout.JSON(r)
			}
			a.Stdout.Linef("daemon %d: from %s to %s", r.PID, r.From, r.To)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// awaitSuccessor waits until a daemon answers that started at another time.
func (a *app) awaitSuccessor(ctx context.Context, cfg config.Config, began time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, upgradeTimeout)
	defer cancel()
	for {
		if c, err := a.dialSocket(ctx, cfg); err == nil {
			info, err := c.SystemInfo(ctx, api.SystemInfoParams{})
			_ = c.Close()
			if err == nil && !info.StartedAt.Equal(began) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the new daemon does not answer on %s", cfg.Socket)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
