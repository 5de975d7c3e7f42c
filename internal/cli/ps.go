package cli

import (
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
)

func (a *app) psCommand() *cobra.Command {
	var (
		session            nameFlag
		all, quiet, asJSON bool
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
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			res, err := c.ExecList(cmd.Context(), api.ExecListParams{SessionID: string(session)})
			if err != nil {
				return err
			}
			if !all {
				res.Execs = slices.DeleteFunc(res.Execs, func(e api.ExecInfo) bool {
					return e.State != api.ExecRunning && e.State != api.ExecQueued
				})
			}
			switch {
			case asJSON:
				return a.stdout.json(res)
			case quiet:
				for _, e := range res.Execs {
					a.stdout.line(e.ExecID)
				}
				return nil
			}
			// Names are for people; a session that has ended shows its id.
			sessions, err := c.SessionList(cmd.Context(), api.SessionListParams{})
			if err != nil {
				return err
			}
			names := map[string]string{}
			for _, s := range sessions.Sessions {
				names[s.SessionID] = s.Name
			}
			a.printExecs(res.Execs, names)
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VarP(&session, "session", "s", "only those of the session of this `NAME` or id")
	flags.BoolVarP(&all, "all", "a", false, "also those that have ended")
	flags.BoolVarP(&quiet, "quiet", "q", false, "ids only")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	a.completeFlag(cmd, "session", a.completeSessions)
	return cmd
}

func (a *app) printExecs(list []api.ExecInfo, names map[string]string) {
	if len(list) == 0 {
		if a.stdout.tty {
			a.stdout.line("no commands")
		}
		return
	}
	t := table{header: []string{"ID", "SESSION", "STATE", "EXIT", "STARTED", "TOOK", "COMMAND"}}
	for _, e := range list {
		session := names[e.SessionID]
		if session == "" {
			session = e.SessionID
		}
		started := ""
		if e.StartedAt != nil {
			started = a.stdout.when(*e.StartedAt)
		}
		t.add(text(e.ExecID), text(session), stateCell(string(e.State)), exitCell(e.Outcome), text(started),
			text(a.took(e)), text(e.Command))
	}
	a.stdout.table(t)
}

// took is how long the command has run: for a person with units, for a program in milliseconds.
func (a *app) took(e api.ExecInfo) string {
	var d time.Duration
	switch {
	case e.Outcome != nil:
		d = time.Duration(e.Outcome.DurationMS) * time.Millisecond
	case e.StartedAt != nil:
		d = time.Since(*e.StartedAt)
	default:
		return ""
	}
	if a.stdout.tty {
		return span(d)
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

func exitCell(o *api.ExecOutcome) cell {
	switch {
	case o == nil:
		return text("")
	case o.ExitCode == 0:
		return text("0")
	}
	return cell{strconv.Itoa(o.ExitCode), red}
}
