package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) setCommand() *cobra.Command {
	var (
		limits limitFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:     "set SESSION",
		GroupID: groupSessions,
		Short:   "Change the limits of a session",
		Long: `Change what a session may use and when it ends. Its commands keep running. Limits without a flag
stay as they are; 0 removes one. trl info shows which limits are in force.`,
		Example: `  trl set build --memory 4G --cpus 2
  trl set build --pids 0               no limit any more
  trl set build --lifetime 8h --idle-timeout 30m`,
		Args: ui.NameArgs(1, 1, "a session"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := api.SessionSetParams{SessionID: args[0], LifetimeS: limits.lifetime.Value, IdleTimeoutS: limits.idleTimeout.Value}
			p.Limits, p.LimitsMode = limits.resources.limits()
			if p.Limits == nil && limits.given() == "" {
				return ui.UsageErrorf(cmd, "trl set changes nothing without --memory, --cpus, --pids, --lifetime or --idle-timeout")
			}
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				info, err := c.SessionSet(ctx, p)
				if err != nil {
					return err
				}
				if p.LimitsMode == api.LimitsBestEffort {
					a.reportEnforcement(ctx, c, info.SessionID, true)
				}
				if asJSON {
					return a.Stdout.JSON(info)
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeSession,
	}
	flags := cmd.Flags()
	limits.resources.register(flags, "the session")
	flags.Lookup("best-effort").Usage = "continue without a limit that cannot be enforced"
	limits.register(flags, "the session")
	flags.BoolVar(&asJSON, "json", false, "print the session as JSON")
	return cmd
}
