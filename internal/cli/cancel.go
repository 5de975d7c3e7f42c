package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) cancelCommand() *cobra.Command {
	var signal string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "cancel [EXEC|SESSION]",
		GroupID: groupCommands,
		Short:   "Stop a command; its session stays",
		Long: `Stop a command and everything it started, and print its id. The processes get
the signal, and SIGKILL after the grace time. The session stays, with its state.

Name the command by its id (see trl ps) or by its session. Without either, trl cancels
the running command of a shell, if there is only one; terminals and agents must be named.`,
		Example: `  trl cancel build                     what runs in the session build
  trl cancel x-3f9a1c02de-7
  trl cancel build --signal INT`,
		Args: ui.NameArgs(0, 1, "at most one command or session"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				p := api.ExecCancelParams{Signal: strings.TrimPrefix(strings.ToUpper(signal), "SIG")}
				switch {
				case len(args) == 0:
					running, err := runningInShells(ctx, c)
					if err != nil {
						return err
					}
					if p.ExecID, err = onlyOne(running); err != nil {
						return err
					}
				case isExec(args[0]):
					p.ExecID = args[0]
				default:
					p.SessionID = args[0]
				}
				e, err := c.ExecCancel(ctx, p)
				if err != nil {
					return err
				}
				if asJSON {
					return a.Stdout.JSON(e)
				}
				a.Stdout.Line(e.ExecID)
				if a.verbose && e.Outcome != nil {
					for _, k := range e.Outcome.Killed {
						a.Stderr.Linef("trl: killed by %s: %s (pid %d)", k.Signal, ui.Printable(k.Command), k.PID)
					}
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeSessionsAndExecs,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&signal, "signal", "", "first `SIGNAL`: TERM (default), INT, HUP, QUIT, KILL, USR1 or USR2")
	flags.BoolVar(&asJSON, "json", false, "print the command and its outcome as JSON")
	a.completeFlag(cmd, "signal", cobra.FixedCompletions([]string{"TERM", "INT", "HUP", "QUIT", "KILL", "USR1", "USR2"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// runningInShells lists the running commands of shells. The program of a terminal or of an agent is
// its whole session, so it does not end because a name was forgotten.
func runningInShells(ctx context.Context, c *client.Client) ([]api.ExecInfo, error) {
	execs, err := listExecs(ctx, c, api.ExecListParams{State: api.ExecRunning})
	if err != nil {
		return nil, err
	}
	others, err := listSessions(ctx, c, api.SessionListParams{Kinds: []api.SessionKind{api.KindTerminal, api.KindProgram}})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(execs.Execs, func(e api.ExecInfo) bool {
		return slices.ContainsFunc(others.Sessions, func(s api.SessionInfo) bool { return s.SessionID == e.SessionID })
	}), nil
}

// onlyOne returns the id of the command that runs, if there is exactly one.
func onlyOne(running []api.ExecInfo) (string, error) {
	switch len(running) {
	case 0:
		return "", ui.WithHint(errors.New("no command of a shell is running"), "`trl ps` also lists the programs of terminals and agents, which you must name; `trl ps -a` those that ran, too")
	case 1:
		return running[0].ExecID, nil
	}
	return "", ui.WithHint(fmt.Errorf("%d commands are running", len(running)), "name one; `trl ps` lists them")
}
