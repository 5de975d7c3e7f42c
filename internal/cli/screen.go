package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) screenCommand() *cobra.Command {
	var (
		ansi, plainText, asJSON bool
		since                   uint64
		lines                   linesFlag
	)
	cmd := &cobra.Command{
		Use:     "screen SESSION",
		GroupID: groupTerminals,
		Short:   "Print the screen of a terminal",
		Long: `Print the current screen of a terminal, or its last one if its program has ended, without
empty rows at the bottom.

On a terminal it has its colours; elsewhere it is plain text, unless you use --ansi. --json
adds the cursor, the title, the modes, and the version of the screen. --since with such a
version prints only the rows that have changed, each after its number from 0 and a tab.`,
		Example: `  trl screen ed
  trl screen sh --scrollback all | grep error
  trl screen top --json | jq .cursor
  v=$(trl screen sh --json | jq .version); trl screen sh --since $v`,
		Args: ui.NameArgs(1, 1, "one session"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if ansi && plainText {
				return ui.UsageErrorf(cmd, "--ansi and --text cannot be combined")
			}
			p := api.SessionScreenParams{SessionID: args[0], Scrollback: lines.n, Format: api.FormatText}
			if ansi || a.Stdout.Colour && !plainText && !asJSON {
				p.Format = api.FormatANSI
			}
			if cmd.Flags().Changed("since") {
				p.SinceVersion = &since
			}
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				res, err := c.SessionScreen(ctx, p)
				switch {
				case err != nil:
					return err
				case asJSON:
					return a.Stdout.JSON(res)
				case p.SinceVersion != nil:
					for _, line := range res.Lines {
						a.Stdout.Linef("%d\t%s", line.Row, line.Text)
					}
					return nil
				}
				_, err = a.Stdout.Write([]byte(ui.TrimBlankRows(res.Text)))
				return err
			})
		},
		ValidArgsFunction: a.completeTerminals,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(&lines, "scrollback", "also the last `N` lines above the screen, or all")
	flags.BoolVar(&ansi, "ansi", false, "with colours, even if stdout is not a terminal")
	flags.BoolVar(&plainText, "text", false, "without colours, also on a terminal")
	flags.Uint64Var(&since, "since", 0, "only rows that changed since the screen had this `VERSION`")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// linesFlag is a number of lines, or "all", which is -1.
type linesFlag struct{ n int }

func (f *linesFlag) Type() string { return "N" }

func (f *linesFlag) String() string {
	switch f.n {
	case 0:
		return ""
	case -1:
		return "all"
	}
	return strconv.Itoa(f.n)
}

func (f *linesFlag) Set(text string) (err error) {
	if text == "all" {
		f.n = -1
		return nil
	}
	if f.n, err = strconv.Atoi(text); err != nil || f.n < 0 {
		return fmt.Errorf("not a number of lines, or all")
	}
	return nil
}
