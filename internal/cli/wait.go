package cli

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) waitCommand() *cobra.Command {
	var (
		exit, input, asJSON bool
		idle, timeout       ui.SecondsFlag
		p                   api.ExecWaitParams
		w                   screenWait
	)
	cmd := &cobra.Command{
		Use:     "wait EXEC|SESSION...",
		GroupID: groupCommands,
		Short:   "Wait until commands exit, print something, fall silent or want input",
		Long: `Wait for a condition of commands, and print it. Name the commands by their ids (see
trl ps), or by their sessions, which select the command that runs there or ran there last.

Without flags, trl waits for the exit. With several flags it waits for the first condition
that is met; an exited command meets every condition. A session that has run no command has
nothing to wait for. Of several commands it waits for the first, or with --all for every one.

For a terminal, trl waits for the screen: --text for a line that matches, --idle until
nothing changes, --cursor for a position of the cursor. --match looks at the raw output of
the program.

Prints one line for each: id, reason (exit, output_match, text, idle_s, cursor,
waiting_for_input, terminated or no_command) and the exit code, the matching line or the
process that waits for input, separated by tabs.

Exit status: the status of the command if it has exited (of several, the first that is not
0); 0 if another condition was met, or there is nothing to wait for; 124 if none was met
within --timeout.`,
		Example: `  trl wait x-3f9a1c02de-7
  trl wait --all build test lint --timeout 10m
  trl wait web --match 'listening on :[0-9]+' --timeout 30
  trl wait install --input --idle 20s  a prompt, or nothing for a while
  trl wait ed --text '^~' && trl send ed :wq enter
  id=$(trl start make); trl wait $id && echo done`,
		Args: ui.NameArgs(1, -1, "commands or sessions"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, word := range args {
				if isExec(word) {
					p.ExecIDs = append(p.ExecIDs, word)
				} else {
					p.SessionIDs = append(p.SessionIDs, word)
				}
			}
			if exit {
				p.Until = append(p.Until, api.UntilExit)
			}
			if p.OutputMatch != "" {
				if _, err := regexp.Compile(p.OutputMatch); err != nil {
					return ui.UsageErrorf(cmd, "--match: %s", err)
				}
				p.Until = append(p.Until, api.UntilOutputMatch)
			}
			if idle.Value != nil {
				least := max(*idle.Value, 0.001)
				p.IdleS = &least
				p.Until = append(p.Until, api.UntilIdle)
			}
			if input {
				p.Until = append(p.Until, api.UntilWaitingForInput)
			}
			p.TimeoutS = timeout.Value
			return a.withClientUntilSignal(cmd, func(ctx context.Context, c *client.Client) error {
				if is, err := w.isFor(ctx, cmd, c, p); err != nil {
					return err
				} else if is {
					return a.waitForScreen(ctx, c, w.params(p), asJSON)
				}
				res, err := c.ExecWait(ctx, p)
				if err = noExec(err); err != nil {
					return err
				}
				if asJSON {
					err = a.Stdout.JSON(res)
				} else {
					a.printHappened(res)
				}
				if err != nil {
					return err
				}
				return waited(res)
			})
		},
		ValidArgsFunction: a.completeManyExecs,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&exit, "exit", false, "until it has exited (default)")
	flags.StringVar(&p.OutputMatch, "match", "", "until it prints a line that matches this `RE` (RE2 syntax)")
	flags.StringVar(&w.text, "text", "", "until a line on the screen matches this `RE`; for a terminal")
	flags.Uint64Var(&w.since, "since", 0, "--text matches only rows that changed since the screen had this `VERSION`")
	flags.Var(&w.cursor, "cursor", "until the cursor is at `X,Y`, from 0; either may be left out")
	flags.Var(&idle, "idle", "until it has printed, or shown, nothing new for this time (500ms, 20, 1m)")
	flags.BoolVar(&input, "input", false, "until it waits for input")
	flags.BoolVar(&p.All, "all", false, "wait for all of the commands, not only for the first")
	flags.Var(&timeout, "timeout", "wait at most this long (30, 1.5s, 2m; 0 checks once)")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// waited returns the result of a wait as an error: the exit status of a command that has exited,
// or the reason why there is none.
func waited(res api.ExecWaitResult) error {
	if res.TimedOut {
		return ui.ExitWith(api.ExitTimedOut)
	}
	for _, e := range res.Happened {
		switch {
		case e.Error != nil:
			return fmt.Errorf("exec %s: could not be run: %w", e.ExecID, e.Error)
		case e.Reason == api.ReasonTerminated && e.ExecID != "":
			return fmt.Errorf("exec %s: its session ended; the outcome is unknown", e.ExecID)
		case e.Reason == api.UntilExit && e.Outcome != nil && e.Outcome.ExitCode != 0:
			return ui.ExitWith(e.Outcome.ExitCode)
		}
	}
	return nil
}

// printHappened prints a line for each command whose wait is over.
func (a *app) printHappened(res api.ExecWaitResult) {
	t := ui.Table{Header: []string{"ID", "WHAT", "DETAIL"}}
	for _, e := range res.Happened {
		id := e.ExecID
		if id == "" {
			id = e.SessionID
		}
		t.Add(ui.Text(id), ui.Text(e.Reason), happenedCell(e))
	}
	if len(t.Rows) > 0 {
		a.Stdout.Table(t)
	}
	if res.TimedOut && (a.Stderr.TTY || a.verbose) {
		a.Stderr.Line("trl: timed out; not yet: " + strings.Join(res.Pending, " "))
	}
}

func happenedCell(e api.WaitEvent) ui.Cell {
	switch {
	case e.Match != nil:
		return ui.Text(e.Match.Text)
	case e.Process != nil:
		return ui.Text(fmt.Sprintf("%d %s", e.Process.PID, e.Process.Command))
	case e.Outcome != nil && e.Outcome.ExitCode != 0:
		return ui.Painted(strconv.Itoa(e.Outcome.ExitCode), ui.Red)
	case e.Error != nil:
		return ui.Painted(ui.Message(e.Error), ui.Red)
	case e.Outcome != nil:
		return ui.Painted("0", ui.Green)
	case e.Reason == api.ReasonNoCommand:
		return ui.Text("the session has run no command")
	}
	return ui.Text("")
}
