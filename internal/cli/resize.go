package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) resizeCommand() *cobra.Command {
	var force, asJSON bool
	cmd := &cobra.Command{
		Use:     "resize SESSION COLSxROWS",
		GroupID: groupTerminals,
		Short:   "Change the size of a terminal",
		Long: `Change the size of a terminal. While a viewer is attached, its window determines the size;
--force resizes the terminal anyway, and it then follows no window.`,
		Example: `  trl resize top 120x40
  trl resize top 80x24 --force`,
		Args: ui.NameArgs(2, 2, "a session and a size such as 80x24"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := api.SessionResizeParams{SessionID: args[0], Force: force}
			cols, rows, ok := strings.Cut(args[1], "x")
			var err, err2 error
			p.Cols, err = strconv.Atoi(cols)
			p.Rows, err2 = strconv.Atoi(rows)
			if !ok || err != nil || err2 != nil {
				return ui.UsageErrorf(cmd, "%q is not a size such as 80x24", args[1])
			}
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				res, err := c.SessionResize(ctx, p)
				switch {
				case errors.Is(err, api.ErrConflict):
					return ui.WithHint(err, "--force resizes it anyway")
				case err != nil:
					return err
				case asJSON:
					return a.Stdout.JSON(res)
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeTerminals,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&force, "force", "f", false, "resize even while a viewer determines the size")
	flags.BoolVar(&asJSON, "json", false, "print the size as JSON")
	return cmd
}
