package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/doctor"
)

func (a *app) runtimesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "runtimes [ls | check [PLACE...] | prune]",
		GroupID: groupSessions,
		Short:   "List and check the places where sessions can live",
		Long: `List the places where sessions can live, check that they can be reached, or remove what
is left there.

A place is one word, for --on: a name from the configuration, a kind, or KIND:ARGUMENT.

` + kindHelp() + `
A table [runtimes.NAME] in the configuration file (see trl help config) names a place with
its kind and options. --place NAME=VALUE overrides the options that the table lists in
allow. --beside SESSION creates a session in the place of another one.

A session elsewhere starts in the directory and with the environment of its place, not
with yours: -e passes variables on, --cwd names a directory there. When the connection
breaks, its commands keep running, and their output waits there.

trl runtimes without arguments, or with ls, lists the places. check asks whether sessions
can be created there: in the named places, or in all that the configuration names; exit
status 1 if not. prune removes containers and pods of TRL that belong to no session.`,
		Example: `  trl run --on docker:alpine 'cat /etc/os-release'
  trl new web --on ssh:build           then: trl run -s web make
  trl new logs --beside web            another session, on the same machine
  trl run --on trl:grpcs://box:7331 --place token_file=box.token uptime
  trl runtimes
  trl runtimes check docker:alpine ssh:build
  trl runtimes prune`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 || args[0] == "check":
			case args[0] != "ls" && args[0] != "prune":
				return noSuchWord(cmd, args[0], "ls", "check", "prune")
			case len(args) > 1:
				return ui.UsageErrorf(cmd, "%s %s takes no arguments", cmd.CommandPath(), args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				switch {
				case len(args) == 0 || args[0] == "ls":
					return a.listRuntimes(ctx, c, asJSON)
				case args[0] == "prune":
					return a.pruneRuntimes(ctx, c, asJSON)
				}
				return a.checkRuntimes(ctx, c, args[1:], asJSON)
			})
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			switch {
			case len(args) == 0:
				return keep([]cobra.Completion{"ls", "check", "prune"}, prefix), cobra.ShellCompDirectiveNoFileComp
			case args[0] == "check":
				return a.completePlaces(cmd, args, prefix)
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// kindHelp lists the kinds for people.
func kindHelp() string {
	var b strings.Builder
	for _, k := range api.PlaceKinds() {
		word := string(k.Kind)
		if k.Argument != "" {
			word += ":" + k.Argument
		}
		if len(word) > 22 {
			fmt.Fprintf(&b, "  %s\n  %-22s %s\n", word, "", k.Doc)
			continue
		}
		fmt.Fprintf(&b, "  %-22s %s\n", word, k.Doc)
	}
	return b.String()
}

func (a *app) listRuntimes(ctx context.Context, c *client.Client, asJSON bool) error {
	res, err := c.RuntimeList(ctx, api.RuntimeListParams{})
	if err != nil {
		return err
	}
	if asJSON {
		return a.Stdout.JSON(res)
	}
	t := ui.Table{Header: []string{"PLACE", "KIND", "SESSIONS", ""}}
	for _, r := range res.Runtimes {
		word, about := r.Runtime, r.Why
		if r.Argument != "" {
			word += ":" + r.Argument
		}
		if r.Runtime == res.Default {
			about = strings.TrimSuffix("default, "+about, ", ")
		}
		note := ui.Text(about)
		if !r.Usable {
			note = ui.Painted(about, ui.Dim)
		}
		t.Add(ui.Text(word), ui.Text(string(r.Kind)), ui.Text(strconv.Itoa(r.Sessions)), note)
	}
	a.Stdout.Table(t)
	return nil
}

// checkRuntimes checks places at the same time: the given ones, or the host and all names of the
// configuration.
func (a *app) checkRuntimes(ctx context.Context, c *client.Client, words []string, asJSON bool) error {
	if len(words) == 0 {
		list, err := c.RuntimeList(ctx, api.RuntimeListParams{})
		if err != nil {
			return err
		}
		words = doctor.Checkable(list)
	}
	results, errs := make([]api.RuntimeCheckResult, len(words)), make([]error, len(words))
	var all sync.WaitGroup
	for i, word := range words {
		all.Go(func() { results[i], errs[i] = c.RuntimeCheck(ctx, api.RuntimeCheckParams{Runtime: word}) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	bad := false
	t := ui.Table{Header: []string{"PLACE", "REACHABLE", "LATENCY", "PLATFORM", "ENGINE", ""}}
	for _, r := range results {
		bad = bad || !r.Reachable
		t.Add(ui.Text(r.Runtime), yesNo(r.Reachable), ui.Text(latencyText(r)), ui.Text(platformText(r)), ui.Text(r.Engine), ui.Text(detailText(r)))
	}
	if asJSON {
		if err := a.Stdout.JSON(map[string]any{"checks": results}); err != nil {
			return err
		}
	} else {
		a.Stdout.Table(t)
	}
	if bad {
		return ui.ExitWith(ui.ExitBroken)
	}
	return nil
}

func yesNo(yes bool) ui.Cell {
	if yes {
		return ui.Painted("yes", ui.Green)
	}
	return ui.Painted("no", ui.Red)
}

func latencyText(r api.RuntimeCheckResult) string {
	if r.LatencyMS == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f ms", r.LatencyMS)
}

func platformText(r api.RuntimeCheckResult) string {
	return strings.Trim(r.OS+"/"+r.Arch, "/")
}

// detailText says why a place cannot be reached, or what is enforced there.
func detailText(r api.RuntimeCheckResult) string {
	if !r.Reachable {
		return r.Why
	}
	return strings.Join(r.Enforced, ", ")
}

func (a *app) pruneRuntimes(ctx context.Context, c *client.Client, asJSON bool) error {
	res, err := c.RuntimePrune(ctx, api.RuntimePruneParams{})
	if err != nil {
		return err
	}
	if asJSON {
		err = a.Stdout.JSON(res)
	} else {
		for _, name := range res.Removed {
			a.Stdout.Line(ui.Printable(name))
		}
		for _, name := range res.Pending {
			a.Stderr.Line("trl: " + ui.Printable(name) + ": its place cannot be reached; the daemon tries again by itself")
		}
		for _, fault := range res.Faults {
			a.Stderr.Line("trl: " + ui.Printable(fault))
		}
	}
	if err == nil && len(res.Faults) > 0 {
		return ui.ExitWith(ui.ExitBroken)
	}
	return err
}
