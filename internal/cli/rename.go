package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) renameCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "rename SESSION NAME",
		GroupID: groupSessions,
		Short:   "Rename a session",
		Long: `Rename a session. Its commands keep running, and viewers stay attached. A name that
another session has is an error.`,
		Example: `  trl rename s-3f9a1c02de build
  trl rename build old-build`,
		Args: ui.NameArgs(2, 2, "a session and its new name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				info, err := c.SessionSet(ctx, api.SessionSetParams{SessionID: args[0], Name: &args[1]})
				if err != nil {
					return err
				}
				if asJSON {
					return a.Stdout.JSON(info)
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeSession,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the session as JSON")
	return cmd
}
