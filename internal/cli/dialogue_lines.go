package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) dialogueSearchCommand() *cobra.Command {
	var asJSON bool
	var p api.DialogueSearchParams
	cmd := &cobra.Command{
		Use:   "search DIALOGUE TEXT",
		Short: "Find a text in the transcript of a dialogue",
		Long: `Find the items of the transcript that contain a text, in upper or lower case, the newest
first. One line for each: item, kind, text around the match, separated by tabs.`,
		Example: `  trl dialogue search fix 'make test'
  trl dialogue search fix error --limit 5 --json`,
		Args: ui.Args(2, 2, "a dialogue and a text"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.DialogueID, p.Text = args[0], args[1]
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				res, err := c.DialogueSearch(ctx, p)
				switch {
				case err != nil:
					return err
				case asJSON:
					return a.Stdout.JSON(res)
				}
				for _, m := range res.Matches {
					a.Stdout.Table(ui.Table{Rows: [][]ui.Cell{{ui.Text(m.ItemID), ui.Text(m.Kind), ui.Text(m.Snippet)}}})
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeDialogues,
	}
	flags := cmd.Flags()
	flags.SetInterspersed(true)
	flags.IntVar(&p.Limit, "limit", 0, "at most `N` matches (default 100)")
	flags.StringVar(&p.Before, "before", "", "only items before the one with this `ID`")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) dialogueLinesCommand() *cobra.Command {
	var (
		asJSON bool
		tail   int
		p      api.DialogueLinesParams
	)
	cmd := &cobra.Command{
		Use:   "lines DIALOGUE",
		Short: "Print the lines between TRL and the agent's program",
		Long: `Print the lines between TRL and the agent's program, in both directions and in order. One
line for each: time (RFC 3339), > for input and < for output, offset, number of events that it
caused, or why TRL does not understand it, and its text, separated by tabs. Long lines are cut; trl
dialogue raw prints all bytes.`,
		Example: `  trl dialogue lines fix
  trl dialogue lines fix --tail 20
  trl dialogue lines fix --stream stdout --json | jq 'select(.unparsed)'`,
		Args: ui.Args(1, 1, "one dialogue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.DialogueID = args[0]
			if tail > 0 {
				end := int64(-1)
				p.Limit, p.BeforeOffset = tail, &end
			}
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				for {
					res, err := c.DialogueLines(ctx, p)
					if err != nil {
						return err
					}
					for _, line := range res.Lines {
						if err := a.printLine(line, asJSON); err != nil {
							return err
						}
					}
					if tail > 0 || len(res.Lines) == 0 || res.NextOffset == res.Total {
						return nil
					}
					p.Epoch, p.FromOffset = res.Epoch, res.NextOffset
				}
			})
		},
		ValidArgsFunction: a.completeDialogues,
	}
	flags := cmd.Flags()
	flags.SetInterspersed(true)
	flags.IntVar(&p.Epoch, "epoch", 0, "of the agent's process number `N` (default the last)")
	flags.StringVar(&p.Stream, "stream", "", "only `stdout` or stdin")
	flags.IntVar(&tail, "tail", 0, "only the last `N` lines")
	flags.BoolVar(&asJSON, "json", false, "print each line as a line of JSON")
	a.completeFlag(cmd, "stream", cobra.FixedCompletions([]string{"stdout", "stdin", "both"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// printLine prints one line of the protocol.
func (a *app) printLine(line api.DialogueLine, asJSON bool) error {
	if asJSON {
		return a.Stdout.JSONLine(line)
	}
	at, sign, note := "", "<", ""
	if line.At != nil {
		at = line.At.UTC().Format(time.RFC3339Nano)
	}
	if line.Stream == "stdin" {
		sign = ">"
	}
	if line.Unparsed != "" {
		note = line.Unparsed
	} else if len(line.Events) > 0 {
		note = strconv.Itoa(len(line.Events))
	}
	a.Stdout.Table(ui.Table{Rows: [][]ui.Cell{{ui.Text(at), ui.Text(sign), ui.Text(strconv.FormatInt(line.Offset, 10)), ui.Text(note), ui.Text(line.Text)}}})
	return a.Stdout.Err
}
