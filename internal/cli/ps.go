package cli

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) psCommand() *cobra.Command {
	var (
		session ui.NameFlag
		f       listFlags
	)
	cmd := &cobra.Command{
		Use:     "ps",
		GroupID: groupCommands,
		Short:   "List the running and queued commands",
		Long: `List the running and queued commands, oldest first.

On a terminal this is a table. Elsewhere it is one line for each command, without
a header: id, session, state, exit code, start (RFC 3339), duration in
milliseconds and command, separated by tabs; a field without a value is "-".`,
		Example: `  trl ps
  trl ps -s build -a                   what ran in the session build
  trl ps --json | jq -r '.execs[].command'`,
		Args: ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				res, err := listExecs(ctx, c, api.ExecListParams{SessionID: string(session)})
				if err != nil {
					return err
				}
				if !f.all {
					res.Execs = slices.DeleteFunc(res.Execs, func(e api.ExecInfo) bool {
						return e.State != api.ExecRunning && e.State != api.ExecQueued
					})
				}
				table := func(list []api.ExecInfo) error {
					sessions, err := listSessions(ctx, c, api.SessionListParams{})
					if err != nil {
						return err
					}
					names := map[string]string{} // an ended session has no name here, and shows its id
					for _, s := range sessions.Sessions {
						names[s.SessionID] = s.Name
					}
					a.printExecs(list, names)
					return nil
				}
				return printList(a.Stdout, f, res, res.Execs, func(e api.ExecInfo) string { return e.ExecID }, table)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.VarP(&session, "session", "s", "only those of the session of this `NAME` or id")
	f.register(flags, func() {})
	a.completeFlag(cmd, "session", a.completeSessions)
	return cmd
}

func (a *app) printExecs(list []api.ExecInfo, names map[string]string) {
	if len(list) == 0 {
		if a.Stdout.TTY {
			a.Stdout.Line("no commands")
		}
		return
	}
	t := ui.Table{Header: []string{"ID", "SESSION", "STATE", "EXIT", "STARTED", "TOOK", "COMMAND"}}
	for _, e := range list {
		session := names[e.SessionID]
		if session == "" {
			session = e.SessionID
		}
		started := ""
		if e.StartedAt != nil {
			started = a.Stdout.When(*e.StartedAt)
		}
		t.Add(ui.Text(e.ExecID), ui.Text(session), stateCell(string(e.State)), exitCell(e.Outcome), ui.Text(started),
			ui.Text(a.took(e)), ui.Text(e.Command))
	}
	a.Stdout.Table(t)
}

// took returns how long the command has run: with units for a person, in milliseconds for a
// program.
func (a *app) took(e api.ExecInfo) string {
	var d time.Duration
	switch {
	case e.Outcome != nil:
		d = time.Duration(e.Outcome.DurationMS) * time.Millisecond
	case e.RunningMS != nil:
		d = time.Duration(*e.RunningMS) * time.Millisecond
	case e.StartedAt != nil: // an older runner
		// Both times are by the clock of the place, which may differ from the one here.
		d = time.Duration(e.AgeMS)*time.Millisecond - e.StartedAt.Sub(e.QueuedAt)
	default:
		return ""
	}
	if a.Stdout.TTY {
		return ui.Span(d)
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

func exitCell(o *api.ExecOutcome) ui.Cell {
	switch {
	case o == nil:
		return ui.Text("")
	case o.ExitCode == 0:
		return ui.Text("0")
	}
	return ui.Painted(strconv.Itoa(o.ExitCode), ui.Red)
}
