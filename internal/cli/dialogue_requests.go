package cli

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) dialogueRequestsCommand() *cobra.Command {
	var (
		asJSON bool
		p      api.DialogueRequestsParams
	)
	cmd := &cobra.Command{
		Use:   "requests",
		Short: "List the requests of all agents that wait for an answer",
		Long: `List the requests of all agents that wait for an answer, the oldest first. trl dialogue
respond answers one.

On a terminal this is a table. Elsewhere it is one line for each, without a header: dialogue,
request, kind, tool, subject, time (RFC 3339), separated by tabs; a field without a value is "-".

After a restart, the daemon may still read the records of long dialogues. Their requests are missing;
stderr has a line with their ids, and --json the field recovering.`,
		Example: `  trl dialogue requests
  trl dialogue requests --json | jq -r '.requests[].dialogue_id'`,
		Args: ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				res, err := c.DialogueRequests(ctx, p)
				switch {
				case err != nil:
					return err
				case asJSON:
					return a.Stdout.JSON(res)
				}
				a.printRequests(res)
				return nil
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&p.Tags, "tag", nil, "only of dialogues with this `WORD`; may be repeated")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printRequests(res api.DialogueRequestsResult) {
	if n := len(res.Recovering); n > 0 {
		a.Stderr.Linef("trl: the daemon still reads %s, whose requests are missing: %s", ui.Plural(n, "dialogue", "dialogues"), strings.Join(res.Recovering, ", "))
	}
	if len(res.Requests) == 0 {
		if a.Stdout.TTY && len(res.Recovering) == 0 {
			a.Stdout.Line("no requests")
		}
		return
	}
	t := ui.Table{Header: []string{"DIALOGUE", "REQUEST", "KIND", "TOOL", "SUBJECT", "SINCE"}}
	for _, w := range res.Requests {
		var since time.Time
		if w.Request.OpenedAt != nil {
			since = *w.Request.OpenedAt
		}
		t.Add(ui.Text(cmp.Or(w.Name, w.DialogueID)), ui.Text(w.Request.RequestID), ui.Text(w.Request.Kind), ui.Text(w.Request.Tool),
			ui.Text(cmp.Or(w.Request.Subject, w.Request.Title)), ui.Text(a.Stdout.When(since)))
	}
	a.Stdout.Table(t)
}
