package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) logCommand() *cobra.Command {
	var (
		p      api.SystemLogParams
		limit  int
		follow bool
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:     "log",
		GroupID: groupDaemon,
		Short:   "Print the log of the daemon; -f follows it",
		Long: `Print the last records of the daemon's log. The daemon keeps 1000 in memory, since its start;
the file that trl help files names has all. trl logs prints the output of a command.

One line for each record: number, time (RFC 3339), level, text, and details as NAME=VALUE,
separated by tabs. On a terminal they are aligned.`,
		Example: `  trl log
  trl log --level warn -f
  trl log -n 20 --json | jq -r .log.text`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			f := ui.UsageErrorf(cmd, "trl log takes no arguments, but was given %d", len(args))
			f.Hint = "`trl logs` prints the output of a command"
			return f
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.Limit, p.NoFollow = &limit, !follow
			if err := p.Check(); err != nil {
				return ui.UsageErrorf(cmd, "--%s", strings.TrimPrefix(err.Error(), "params."))
			}
			return a.withClientUntilSignal(cmd, func(ctx context.Context, c *client.Client) error {
				return a.printLog(ctx, c, p, asJSON)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&follow, "follow", "f", false, "follow new records")
	flags.StringVar(&p.Level, "level", "", "only records of this `LEVEL` and above: "+strings.Join(api.LogLevels, ", "))
	flags.IntVarP(&limit, "limit", "n", api.DefaultLogLimit, "at most this many earlier records")
	flags.BoolVar(&asJSON, "json", false, "print each record as a line of JSON")
	a.completeFlag(cmd, "level", cobra.FixedCompletions(api.LogLevels, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) printLog(ctx context.Context, c *client.Client, p api.SystemLogParams, asJSON bool) error {
	s, err := c.SystemLog(ctx, p)
	if err != nil {
		return tooOld(err)
	}
	defer s.Close()
	for {
		push, err := s.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case push.Log == nil: // the end
		case asJSON:
			err = a.Stdout.JSONLine(push)
		default:
			a.printRecord(push)
			err = a.Stdout.Err
		}
		if err != nil {
			return err
		}
	}
}

func (a *app) printRecord(push api.StreamEvent) {
	out, r := a.Stdout, *push.Log
	var at time.Time
	if push.At != nil {
		at = *push.At
	}
	var details []string
	for _, f := range r.Fields {
		value := f.Value
		if value == "" || strings.ContainsAny(value, " \t\n\"=") {
			value = strconv.Quote(value)
		}
		details = append(details, f.Name+"="+value)
	}
	detail := strings.Join(details, " ")
	if !out.TTY {
		out.Table(ui.Table{Rows: [][]ui.Cell{{ui.Text(strconv.FormatInt(push.Seq, 10)), ui.Text(at.UTC().Format(time.RFC3339Nano)), ui.Text(r.Level), ui.Text(r.Text), ui.Text(detail)}}})
		return
	}
	style := map[string]ui.Style{"warn": ui.Yellow, "error": ui.Red}[r.Level]
	out.Linef("%s  %s  %s  %s", out.Paint(ui.Dim, at.Local().Format("15:04:05.000")), out.Paint(style, fmt.Sprintf("%-5s", r.Level)), ui.Printable(r.Text), out.Paint(ui.Dim, ui.Printable(detail)))
}
