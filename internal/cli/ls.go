package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
)

func (a *app) lsCommand() *cobra.Command {
	var (
		all, quiet, asJSON bool
		tags               []string
	)
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		GroupID: groupSessions,
		Short:   "List the sessions",
		Long: `List the sessions, oldest first; with -a, ended sessions come before them.

On a terminal this is a table. Elsewhere it is one line for each session, without
a header: name, id, state, shell or program, commands run, last activity (RFC 3339),
directory, kind (shell, terminal or program), and of a terminal its size, with what else
there is to say, and its title, separated by tabs; a field without a value is "-". The
program of an agent has, in place of a title, the id of its dialogue (see trl dialogue).
The last field is the time until the session ends if nothing happens in it, "unreachable"
while its runner does not answer, or "-"; trl info shows the reason.`,
		Example: `  trl ls
  trl ls -a                            ended ones too, while they are remembered
  trl ls -q | xargs trl kill
  trl ls --json | jq -r '.sessions[].name'`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			res, err := c.SessionList(cmd.Context(), api.SessionListParams{Tags: tags})
			if err != nil {
				return err
			}
			if all {
				// The ended ones are listed only when they are asked for.
				ended, err := c.SessionList(cmd.Context(), api.SessionListParams{Tags: tags, State: api.SessionTerminated})
				if err != nil {
					return err
				}
				res.Sessions = append(ended.Sessions, res.Sessions...)
			}
			switch {
			case asJSON:
				return a.stdout.json(res)
			case quiet:
				for _, s := range res.Sessions {
					a.stdout.line(s.SessionID)
				}
			default:
				a.printSessions(res.Sessions)
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&all, "all", "a", false, "also those that have ended")
	flags.BoolVarP(&quiet, "quiet", "q", false, "ids only")
	flags.StringArrayVar(&tags, "tag", nil, "only those with this `WORD`; may be repeated")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printSessions(list []api.SessionInfo) {
	if len(list) == 0 {
		if a.stdout.tty {
			a.stdout.line("no sessions")
		}
		return
	}
	t := table{header: []string{"NAME", "ID", "STATE", "SHELL", "COMMANDS", "ACTIVE", "ENDS", "DIRECTORY"}}
	// For a person, what a list of shells has no use for is left out, and what fits is shown.
	others := slices.ContainsFunc(list, func(s api.SessionInfo) bool { return s.Kind != api.KindShell })
	if a.stdout.tty && others {
		t.header = []string{"NAME", "ID", "KIND", "STATE", "RUNS", "TERMINAL", "ACTIVE", "ENDS", "DIRECTORY"}
	}
	for _, s := range list {
		runs := s.Shell
		if len(s.Command) > 0 {
			runs = strings.Join(s.Command, " ")
		}
		name, id, state := text(s.Name), text(s.SessionID), stateCell(string(s.State))
		kind, active, directory := text(string(s.Kind)), text(a.stdout.when(s.LastActivity)), text(s.WorkingDir)
		commands, terminal, title := text(strconv.FormatInt(s.CommandCount, 10)), terminalCell(s), ""
		if s.Terminal != nil {
			title = s.Terminal.Title
		}
		if a.stdout.tty && s.Owner() != "" { // whose id is its name
			kind = text("dialogue")
		}
		switch {
		case !a.stdout.tty:
			t.add(name, id, state, text(runs), commands, active, directory, kind, terminal, text(title), endsCell(s))
		case others:
			t.add(name, id, kind, state, text(shorten(printable(runs), 24)), terminal, active, endsCell(s), directory)
		default:
			t.add(name, id, state, text(runs), commands, active, endsCell(s), directory)
		}
	}
	a.stdout.table(t)
}

// endsCell is when a session will end by itself.
func endsCell(s api.SessionInfo) cell {
	switch {
	case s.UnreachableSince != nil:
		return text("unreachable")
	case s.EndsInS == nil:
		return text("")
	}
	return text("in " + span(time.Duration(*s.EndsInS)*time.Second))
}

// terminalCell is the size of a terminal, who looks at it, and whether it is recorded.
func terminalCell(s api.SessionInfo) cell {
	t := s.Terminal
	if t == nil {
		return cell{}
	}
	about := cell{text: sizeText(t.Cols, t.Rows)}
	if t.Viewers > 0 {
		about.text += fmt.Sprintf(", %d attached", t.Viewers)
	}
	if r := t.Recording; r != nil && r.Stopped == "" && s.State != api.SessionTerminated {
		about = cell{about.text + ", recording", red}
	}
	return about
}

func sizeText(cols, rows int) string { return fmt.Sprintf("%dx%d", cols, rows) }

// stateCell colours the state of a session or of a command.
func stateCell(state string) cell {
	switch state {
	case string(api.SessionIdle):
		return cell{state, green}
	case string(api.SessionRunning):
		return cell{state, yellow}
	}
	return cell{state, dim}
}
