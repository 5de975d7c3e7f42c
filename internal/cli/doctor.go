package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/doctor"
)

// count returns how many findings have the verdict.
func count(f doctor.Findings, verdict string) (n int) {
	for _, one := range f {
		if one.Verdict == verdict {
			n++
		}
	}
	return n
}

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: groupDaemon,
		Short:   "Check that everything works here",
		Long: `Check that everything works here: directories, daemon, limits, how processes are
contained, and a real session with every installed shell. Exit status 1 if something
is broken.`,
		Example: `  trl doctor
  trl doctor --json | jq -r '.findings[] | select(.verdict == "bad") | .name'`,
		Args: ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := a.diagnose(cmd)
			if asJSON {
				if err := a.Stdout.JSON(api.SystemDoctorResult{Findings: found}); err != nil {
					return err
				}
			} else {
				a.printDiagnosis(found)
			}
			if count(found, api.VerdictBad) > 0 {
				return ui.ExitWith(ui.ExitBroken)
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printDiagnosis(found doctor.Findings) {
	if !a.Stdout.TTY {
		t := ui.Table{}
		for _, f := range found {
			t.Add(ui.Text(f.Verdict), ui.Text(f.Section), ui.Text(f.Name), ui.Text(f.Detail))
		}
		a.Stdout.Table(t)
		return
	}
	width := 0
	for _, f := range found {
		width = max(width, len(f.Name))
	}
	marks := map[string]string{
		api.VerdictOK:   a.Stdout.Paint(ui.Green, "ok  "),
		api.VerdictNote: a.Stdout.Paint(ui.Yellow, "note"),
		api.VerdictBad:  a.Stdout.Paint(ui.Red, "BAD "),
	}
	section := ""
	for _, f := range found {
		if f.Section != section {
			if section != "" {
				a.Stdout.Line("")
			}
			section = f.Section
			a.Stdout.Line(a.Stdout.Paint(ui.Bold, section))
		}
		a.Stdout.Linef("  %s  %s%s  %s", marks[f.Verdict], f.Name, strings.Repeat(" ", width-len(f.Name)), ui.Printable(f.Detail))
	}
	a.Stdout.Line("")
	if n := count(found, api.VerdictBad); n > 0 {
		a.Stdout.Line(a.Stdout.Paint(ui.Red, ui.Plural(n, "thing is", "things are")+" broken"))
		return
	}
	a.Stdout.Line(a.Stdout.Paint(ui.Green, "everything works"))
}
