package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// topOrders are the columns by which trl top sorts, the largest first.
var topOrders = map[string]func(a, b api.SessionUsage) int{
	"cpu":       func(a, b api.SessionUsage) int { return cmp.Compare(percentOf(b), percentOf(a)) },
	"memory":    func(a, b api.SessionUsage) int { return cmp.Compare(b.MemoryBytes, a.MemoryBytes) },
	"processes": func(a, b api.SessionUsage) int { return cmp.Compare(b.Processes, a.Processes) },
	"io": func(a, b api.SessionUsage) int {
		return cmp.Compare(b.ReadBytes+b.WrittenBytes, a.ReadBytes+a.WrittenBytes)
	},
	"name": func(a, b api.SessionUsage) int { return cmp.Compare(label(a), label(b)) },
}

func percentOf(u api.SessionUsage) float64 {
	if u.CPUPercent == nil {
		return 0
	}
	return *u.CPUPercent
}

func label(u api.SessionUsage) string { return cmp.Or(u.Name, u.SessionID) }

func (a *app) topCommand() *cobra.Command {
	var session ui.NameFlag
	var every ui.SecondsFlag
	var order string
	var once, json bool
	cmd := &cobra.Command{
		Use:     "top",
		GroupID: groupCommands,
		Short:   "Show what the sessions use, as it changes",
		Long: `Show the processor time, memory, processes and disk traffic of each session and its running
command. The table is drawn again every 2 seconds until Ctrl-C; if stdout is not a terminal, the
tables are printed one after another. TRL measures only while trl top runs.`,
		Example: `  trl top
  trl top --sort memory --interval 0.5
  trl top --once --json                one table for a program, after one interval`,
		Args: ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if topOrders[order] == nil {
				return ui.UsageErrorf(cmd, "--sort: %q is not one of cpu, memory, processes, io, name", order)
			}
			p := api.UsageSubscribeParams{SessionID: string(session), IntervalS: every.Value}
			if err := p.Check(); err != nil {
				return ui.UsageErrorf(cmd, "--interval: %s", strings.TrimPrefix(err.Error(), "params.interval_s: "))
			}
			return a.withClientUntilSignal(cmd, func(ctx context.Context, c *client.Client) error {
				s, err := c.UsageSubscribe(ctx, p)
				if err != nil {
					return err
				}
				defer s.Close()
				for first := true; ; first = false {
					push, err := s.Recv()
					if err != nil {
						return err
					}
					if once && first { // the processor time is known from the second one on
						continue
					}
					slices.SortStableFunc(push.Sessions, topOrders[order])
					if json {
						err = a.Stdout.JSONLine(push)
					} else {
						a.drawTop(push.Sessions)
					}
					if err != nil || once {
						return err
					}
				}
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VarP(&session, "session", "s", "only the session of this `NAME` or id")
	flags.StringVar(&order, "sort", "cpu", "sort by this `COLUMN`: cpu, memory, processes, io or name")
	flags.Var(&every, "interval", "measure this often (0.5, 2s; default: 2s)")
	flags.BoolVar(&once, "once", false, "print one table, after one interval")
	flags.BoolVar(&json, "json", false, "print each measurement as a line of JSON")
	a.completeFlag(cmd, "session", a.completeSessions)
	a.completeFlag(cmd, "sort", cobra.FixedCompletions([]string{"cpu", "memory", "processes", "io", "name"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// drawTop prints one table; on a terminal in place of the one before.
func (a *app) drawTop(list []api.SessionUsage) {
	if a.Stdout.TTY {
		a.topTable(list)
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%-20s %6s %9s %5s %9s %9s  %s\n", "SESSION", "CPU%", "MEMORY", "PROCS", "READ", "WRITTEN", "COMMAND")
	for _, u := range list {
		cpu := "-"
		if u.CPUPercent != nil {
			cpu = fmt.Sprintf("%.1f", *u.CPUPercent)
		}
		command := u.Command
		if command == "" {
			command = "-"
		}
		fmt.Fprintf(&text, "%-20s %6s %9s %5d %9s %9s  %s\n", label(u), cpu, ui.BytesText(float64(u.MemoryBytes)), u.Processes, ui.BytesText(float64(u.ReadBytes)), ui.BytesText(float64(u.WrittenBytes)), ui.Shorten(ui.FirstLine(ui.Printable(command)), 60))
	}
	_, _ = a.Stdout.Write([]byte(text.String()))
}

// topTable prints a table on a terminal, no wider than the window.
func (a *app) topTable(list []api.SessionUsage) {
	if a.Stdout.Redraws() {
		_, _ = a.Stdout.Write([]byte("\x1b[H\x1b[J"))
	}
	t := ui.Table{
		Header: []string{"SESSION", "CPU%", "MEMORY", "PROCS", "READ", "WRITTEN", "COMMAND"},
		Spare:  []string{"WRITTEN", "READ", "PROCS", "COMMAND"},
		Whole:  []string{"CPU%", "MEMORY", "PROCS", "READ", "WRITTEN"},
	}
	for _, u := range list {
		cpu := ""
		if u.CPUPercent != nil {
			cpu = fmt.Sprintf("%.1f", *u.CPUPercent)
		}
		t.Add(ui.Text(label(u)), ui.Text(cpu), ui.Text(ui.BytesText(float64(u.MemoryBytes))), ui.Text(fmt.Sprint(u.Processes)),
			ui.Text(ui.BytesText(float64(u.ReadBytes))), ui.Text(ui.BytesText(float64(u.WrittenBytes))), ui.Text(ui.FirstLine(u.Command)))
	}
	a.Stdout.Table(t)
}
