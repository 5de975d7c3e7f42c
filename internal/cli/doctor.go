package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/internal/cli/ui"
)

// The verdicts of the doctor.
const (
	verdictOK   = "ok"
	verdictNote = "note" // works, but not as well as possible
	verdictBad  = "bad"  // does not work
)

// A finding is the result of one check.
type finding struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	Detail  string `json:"detail"`
}

// A diagnosis collects the findings.
type diagnosis struct{ findings []finding }

func (d *diagnosis) add(section, name, verdict, detail string) {
	d.findings = append(d.findings, finding{section, name, verdict, detail})
}

// check adds a finding: good if err is nil.
func (d *diagnosis) check(section, name, detail string, err error) {
	if err != nil {
		d.add(section, name, verdictBad, err.Error())
		return
	}
	d.add(section, name, verdictOK, detail)
}

func (d *diagnosis) count(verdict string) int {
	n := 0
	for _, f := range d.findings {
		if f.Verdict == verdict {
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
			d := a.diagnose(cmd)
			if asJSON {
				if err := a.Stdout.JSON(map[string]any{"findings": d.findings}); err != nil {
					return err
				}
			} else {
				a.printDiagnosis(d)
			}
			if d.count(verdictBad) > 0 {
				return ui.ExitWith(ui.ExitBroken)
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printDiagnosis(d *diagnosis) {
	if !a.Stdout.TTY {
		t := ui.Table{}
		for _, f := range d.findings {
			t.Add(ui.Text(f.Verdict), ui.Text(f.Section), ui.Text(f.Name), ui.Text(f.Detail))
		}
		a.Stdout.Table(t)
		return
	}
	width := 0
	for _, f := range d.findings {
		width = max(width, len(f.Name))
	}
	marks := map[string]string{
		verdictOK:   a.Stdout.Paint(ui.Green, "ok  "),
		verdictNote: a.Stdout.Paint(ui.Yellow, "note"),
		verdictBad:  a.Stdout.Paint(ui.Red, "BAD "),
	}
	section := ""
	for _, f := range d.findings {
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
	if n := d.count(verdictBad); n > 0 {
		a.Stdout.Line(a.Stdout.Paint(ui.Red, ui.Plural(n, "thing is", "things are")+" broken"))
		return
	}
	a.Stdout.Line(a.Stdout.Paint(ui.Green, "everything works"))
}
