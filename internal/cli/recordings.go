package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) recordingsCommand() *cobra.Command {
	var (
		asJSON bool
		p      api.RecordingListParams
	)
	cmd := &cobra.Command{
		Use:     "recordings",
		GroupID: groupTerminals,
		Short:   "List the recordings of terminals, or delete them",
		Long: `List the recordings of terminals, the newest first. A recording stays when its session is no
longer known; trl play and trl export take its id.

On a terminal this is a table. Elsewhere it is one line for each, without a header: id, name, size,
bytes, live, start (RFC 3339), command, separated by tabs; a field without a value is "-".`,
		Example: `  trl recordings
  trl play s-3f9a1c02de
  trl recordings rm s-3f9a1c02de`,
		Args: ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				r, err := c.RecordingList(ctx, p)
				switch {
				case err != nil:
					return err
				case asJSON:
					return a.Stdout.JSON(r)
				}
				a.printRecordings(r)
				return nil
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.IntVar(&p.Limit, "limit", 0, "at most `N` recordings; by default 100")
	flags.StringVar(&p.Before, "before", "", "continue after the recording `ID`")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(a.recordingsRemoveCommand())
	return cmd
}

func (a *app) recordingsRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm ID...",
		Short: "Delete recordings",
		Long:  `Delete recordings. The recording of a live session cannot be deleted: end the session first.`,
		Args:  ui.Args(1, 1000, "the id of a recording"),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				for _, id := range ids {
					if _, err := c.RecordingDelete(ctx, api.RecordingDeleteParams{RecordingID: id}); err != nil {
						return err
					}
				}
				return nil
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

func (a *app) printRecordings(r api.RecordingListResult) {
	if len(r.Recordings) == 0 {
		if a.Stdout.TTY {
			a.Stdout.Line("no recordings; `trl new --record` or `trl record` makes one")
		}
		return
	}
	t := ui.Table{Header: []string{"ID", "NAME", "SIZE", "BYTES", "LIVE", "STARTED", "COMMAND"}}
	for _, one := range r.Recordings {
		live := "-"
		if one.Live {
			live = "live"
		}
		t.Add(ui.Text(one.RecordingID), ui.Text(one.Name), ui.Text(fmt.Sprintf("%dx%d", one.Cols, one.Rows)), ui.Text(fmt.Sprint(one.Bytes)),
			ui.Text(live), ui.Text(one.StartedAt.Format(time.RFC3339)), ui.Text(one.Command))
	}
	a.Stdout.Table(t)
	if r.NextBefore != "" && a.Stdout.TTY {
		a.Stdout.Line("more: `trl recordings --before " + r.NextBefore + "`")
	}
}
