package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) killCommand() *cobra.Command {
	var all, force, asJSON bool
	cmd := &cobra.Command{
		Use:     "kill SESSION...",
		Aliases: []string{"rm"},
		GroupID: groupSessions,
		Short:   "End sessions, with everything they started",
		Long: `End sessions by name or id, with every process they started, including background
processes. These get SIGTERM, and SIGKILL after the grace time. Prints each session that
has ended. A session that had already ended is not an error.`,
		Example: `  trl kill build
  trl kill --force s-3f9a1c02de        SIGKILL at once
  trl kill --all`,
		Args: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "") {
				return ui.UsageErrorf(cmd, "the name of a session must not be empty")
			}
			if all == (len(args) > 0) {
				return ui.UsageErrorf(cmd, "trl kill takes the sessions to end, or --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				if all {
					res, err := listSessions(ctx, c, api.SessionListParams{})
					if err != nil {
						return err
					}
					for _, s := range res.Sessions {
						args = append(args, s.SessionID)
					}
				}
				end := func(name string) (api.SessionDestroyResult, error) {
					return c.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: name, Force: force})
				}
				ended := func(name string, res api.SessionDestroyResult) {
					a.Stdout.Line(name)
					if a.verbose {
						for _, k := range res.Killed {
							a.Stderr.Linef("trl: %s: killed by %s: %s (pid %d)", name, k.Signal, ui.Printable(k.Command), k.PID)
						}
					}
				}
				return endEach(a.Stdout, args, end, ended, "sessions", asJSON)
			})
		},
		ValidArgsFunction: a.completeSessions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&all, "all", false, "end all sessions")
	flags.BoolVarP(&force, "force", "f", false, "SIGKILL at once, without the grace time")
	flags.BoolVar(&asJSON, "json", false, "print the ended sessions and killed processes as JSON")
	return cmd
}
