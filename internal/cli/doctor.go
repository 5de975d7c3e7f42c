package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// The verdicts of the doctor.
const (
	verdictOK   = "ok"
	verdictNote = "note" // works, but less well than it could
	verdictBad  = "bad"  // does not work
)

// A finding is one thing the doctor looked at.
type finding struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	Detail  string `json:"detail"`
}

// A diagnosis collects what was found.
type diagnosis struct{ findings []finding }

func (d *diagnosis) add(section, name, verdict, detail string) {
	d.findings = append(d.findings, finding{section, name, verdict, detail})
}

// check adds a finding that is good without an error.
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
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := a.diagnose(cmd)
			if asJSON {
				if err := a.stdout.json(map[string]any{"findings": d.findings}); err != nil {
					return err
				}
			} else {
				a.printDiagnosis(d)
			}
			if d.count(verdictBad) > 0 {
				return exitWith(exitBroken)
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printDiagnosis(d *diagnosis) {
	if !a.stdout.tty {
		t := table{}
		for _, f := range d.findings {
			t.add(text(f.Verdict), text(f.Section), text(f.Name), text(f.Detail))
		}
		a.stdout.table(t)
		return
	}
	width := 0
	for _, f := range d.findings {
		width = max(width, len(f.Name))
	}
	marks := map[string]string{
		verdictOK:   a.stdout.paint(green, "ok  "),
		verdictNote: a.stdout.paint(yellow, "note"),
		verdictBad:  a.stdout.paint(red, "BAD "),
	}
	section := ""
	for _, f := range d.findings {
		if f.Section != section {
			if section != "" {
				a.stdout.line("")
			}
			section = f.Section
			a.stdout.line(a.stdout.paint(bold, section))
		}
		a.stdout.linef("  %s  %s%s  %s", marks[f.Verdict], f.Name, strings.Repeat(" ", width-len(f.Name)), printable(f.Detail))
	}
	a.stdout.line("")
	if n := d.count(verdictBad); n > 0 {
		a.stdout.line(a.stdout.paint(red, plural(n, "thing is", "things are")+" broken"))
		return
	}
	a.stdout.line(a.stdout.paint(green, "everything works"))
}
