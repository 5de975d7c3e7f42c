package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) signalCommand() *cobra.Command {
	var tree, asJSON bool
	cmd := &cobra.Command{
		Use:     "signal EXEC|SESSION SIGNAL",
		GroupID: groupCommands,
		Short:   "Send a signal to a running command",
		Long: `Send a signal to a running command, and print the processes that got it. The command may
handle or ignore the signal; trl cancel ends a command in any case.

Name the command by its id (see trl ps) or by its session, and the signal by its name or
number. The program gets it, or the processes that the shell itself has started for the
command; with --tree also everything that they have started. The shell never gets it.`,
		Example: `  trl signal web HUP                   what runs in the session web
  trl signal x-3f9a1c02de-7 USR1
  trl signal build STOP --tree; trl signal build CONT --tree`,
		Args: ui.NameArgs(2, 2, "a command or session, and a signal"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				found, err := findExec(ctx, c, args[0])
				if err != nil {
					return noExec(err)
				}
				p := api.ExecSignalParams{ExecID: found.ExecID, Signal: args[1]}
				if tree {
					p.To = api.SignalTree
				}
				r, err := c.ExecSignal(ctx, p)
				if e := api.AsError(err); e != nil && e.Details["field"] == "signal" {
					return ui.UsageErrorf(cmd, "SIGNAL: %s", strings.TrimPrefix(e.Message, "params.signal: "))
				}
				if err != nil {
					return err
				}
				if asJSON {
					return a.Stdout.JSON(r)
				}
				for _, process := range r.Processes {
					a.Stdout.Linef("%d %s", process.PID, ui.Printable(process.Command))
				}
				if len(r.Processes) == 0 {
					a.Stderr.Linef("trl: no process got %s: the command has none of its own now", strings.TrimPrefix(r.Signal, "SIG"))
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeSessionsAndExecs,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&tree, "tree", false, "signal also everything that the command has started")
	flags.BoolVar(&asJSON, "json", false, "print the processes as JSON")
	return cmd
}
