package cli

import (
	"errors"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) killCommand() *cobra.Command {
	var all, force, asJSON bool
	cmd := &cobra.Command{
		Use:     "kill SESSION...",
		Aliases: []string{"rm"},
		GroupID: groupSessions,
		Short:   "End sessions, with everything they started",
		Long: `End sessions by name or id, with every process they started, including background
processes. These get SIGTERM, and SIGKILL after the grace time. Prints each session that
has ended. A session that had already ended is not an error.`,
		Example: `  trl kill build
  trl kill --force s-3f9a1c02de        SIGKILL at once
  trl kill --all`,
		Args: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "") {
				return ui.UsageErrorf(cmd, "trl kill: the name of a session must not be empty")
			}
			if all == (len(args) > 0) {
				return ui.UsageErrorf(cmd, "trl kill takes the sessions to end, or --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			if all {
				res, err := c.SessionList(cmd.Context(), api.SessionListParams{})
				if err != nil {
					return err
				}
				for _, s := range res.Sessions {
					args = append(args, s.SessionID)
				}
			}
			results, errs := atOnce(args, func(name string) (api.SessionDestroyResult, error) {
				return c.SessionDestroy(cmd.Context(), api.SessionDestroyParams{SessionID: name, Force: force})
			})
			ended := results[:0]
			for i, res := range results {
				if errs[i] != nil {
					continue
				}
				ended = append(ended, res)
				if asJSON {
					continue
				}
				a.Stdout.Line(args[i])
				if a.verbose {
					for _, k := range res.Killed {
						a.Stderr.Linef("trl: %s: killed by %s: %s (pid %d)", args[i], k.Signal, ui.Printable(k.Command), k.PID)
					}
				}
			}
			if asJSON {
				if err := a.Stdout.JSON(map[string]any{"sessions": ended}); err != nil {
					return err
				}
			}
			return errors.Join(errs...)
		},
		ValidArgsFunction: a.completeSessions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&all, "all", false, "end all sessions")
	flags.BoolVarP(&force, "force", "f", false, "SIGKILL at once, without the grace time")
	flags.BoolVar(&asJSON, "json", false, "print what ended, and what was killed, as JSON")
	return cmd
}

// atOnce makes a call for each name, all at the same time.
func atOnce[R any](names []string, call func(name string) (R, error)) ([]R, []error) {
	results, errs := make([]R, len(names)), make([]error, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		wait.Go(func() { results[i], errs[i] = call(name) })
	}
	wait.Wait()
	return results, errs
}
