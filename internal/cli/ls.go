package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) lsCommand() *cobra.Command {
	var (
		f    listFlags
		tags []string
	)
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		GroupID: groupSessions,
		Short:   "List the sessions",
		Long: `List the sessions, oldest first; with -a, ended sessions come before them.

On a terminal this is a table. Elsewhere it is one line for each session, without
a header: name, id, state, shell or program, commands run, last activity (RFC 3339),
directory, kind (shell, terminal or program), and for a terminal its size (with the number
of viewers, and whether it is recorded) and its title, separated by tabs; a field without a
value is "-". The program of an agent has, in place of a title, the id of its dialogue (see
trl dialogue). The last field is the time until the session ends if nothing happens in it,
"unreachable" while its runner does not answer, or "-"; trl info shows the reason.`,
		Example: `  trl ls
  trl ls -a                            ended ones too, while they are remembered
  trl ls -q | xargs trl kill
  trl ls --json | jq -r '.sessions[].name'`,
		Args: ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				res, err := listSessions(ctx, c, api.SessionListParams{Tags: tags})
				if err != nil {
					return err
				}
				if f.all {
					// Ended sessions are listed only by their state.
					ended, err := listSessions(ctx, c, api.SessionListParams{Tags: tags, State: api.SessionTerminated})
					if err != nil {
						return err
					}
					res.Sessions = append(ended.Sessions, res.Sessions...)
				}
				return printList(a.Stdout, f, res, res.Sessions, func(s api.SessionInfo) string { return s.SessionID }, a.printSessions)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	f.register(flags, func() {
		flags.StringArrayVar(&tags, "tag", nil, "only those with this `WORD`; may be repeated")
	})
	return cmd
}

func (a *app) printSessions(list []api.SessionInfo) error {
	if len(list) == 0 {
		if a.Stdout.TTY {
			a.Stdout.Line("no sessions")
		}
		return nil
	}
	t := ui.Table{Header: []string{"NAME", "ID", "STATE", "SHELL", "COMMANDS", "ACTIVE", "ENDS", "DIRECTORY"}}
	t.Spare = []string{"TERMINAL", "SHELL", "RUNS", "COMMANDS", "KIND", "ACTIVE", "PLACE", "DIRECTORY", "ENDS", "STATE"}
	t.Whole = []string{"ENDS"} // its last word is the reason
	// The table for a person has other columns if all sessions are shells.
	others := slices.ContainsFunc(list, func(s api.SessionInfo) bool { return s.Kind != api.KindShell })
	if a.Stdout.TTY && others {
		t.Header = []string{"NAME", "ID", "KIND", "STATE", "RUNS", "TERMINAL", "ACTIVE", "ENDS", "DIRECTORY"}
	}
	// A person also sees the places, unless all sessions are on the daemon's machine.
	places := a.Stdout.TTY && slices.ContainsFunc(list, func(s api.SessionInfo) bool {
		return s.Place != nil && s.Place.Kind != api.PlaceHost || s.Place == nil && s.State == api.SessionCreating
	})
	if places {
		t.Header = append(t.Header, "PLACE")
	}
	for _, s := range list {
		runs := s.Shell
		if len(s.Command) > 0 {
			runs = strings.Join(s.Command, " ")
		}
		if s.Guest != nil && a.Stdout.TTY {
			runs = "of " + ownerText(s)
		}
		name, id, state := ui.Text(s.Name), ui.Text(s.SessionID), stateCell(string(s.State))
		kind, active, directory := ui.Text(string(s.Kind)), ui.Text(a.Stdout.When(s.LastActivity)), ui.Text(s.WorkingDir)
		commands, terminal, title := ui.Text(strconv.FormatInt(s.CommandCount, 10)), terminalCell(s), ""
		if s.Terminal != nil {
			title = s.Terminal.Title
		}
		if a.Stdout.TTY && s.Owner() != "" { // its name is the id of the dialogue
			kind = ui.Text("dialogue")
		}
		switch {
		case !a.Stdout.TTY:
			t.Add(name, id, state, ui.Text(runs), commands, active, directory, kind, terminal, ui.Text(title), endsCell(s, false))
		case others:
			t.Add(name, id, kind, state, ui.Text(ui.Shorten(ui.Printable(runs), 24)), terminal, active, endsCell(s, true), directory)
		default:
			t.Add(name, id, state, ui.Text(runs), commands, active, endsCell(s, true), directory)
		}
	}
	if places {
		for i, s := range list {
			t.Rows[i] = append(t.Rows[i], ui.Text(s.Runtime))
		}
	}
	a.Stdout.Table(t)
	return nil
}

// endsReasons are short words for what ends a session, by a part of EndsWhy.
var endsReasons = []struct{ part, word string }{
	{"idle_timeout_s", "idle"}, {"lifetime_s", "lifetime"}, {"owner_lost_s", "owner lost"}, {"the connection that owned it", "owner gone"},
}

// endsCell returns when a session will end on its own, and on request why.
func endsCell(s api.SessionInfo, why bool) ui.Cell {
	switch {
	case s.UnreachableSince != nil:
		return ui.Text("unreachable")
	case s.EndsInS == nil:
		return ui.Text("")
	}
	text := "in " + ui.Span(time.Duration(*s.EndsInS)*time.Second)
	for _, r := range endsReasons {
		if why && strings.Contains(s.EndsWhy, r.part) {
			text += ", " + r.word
			break
		}
	}
	return ui.Text(text)
}

// terminalCell returns the size of a terminal, its number of viewers, and whether it is recorded.
func terminalCell(s api.SessionInfo) ui.Cell {
	t := s.Terminal
	if t == nil {
		return ui.Cell{}
	}
	about := ui.Cell{Text: sizeText(t.Cols, t.Rows)}
	if t.Viewers > 0 {
		about.Text += fmt.Sprintf(", %d attached", t.Viewers)
	}
	if r := t.Recording; r != nil && r.Stopped == "" && s.State != api.SessionTerminated {
		about = ui.Painted(about.Text+", recording", ui.Red)
	}
	return about
}

func sizeText(cols, rows int) string { return fmt.Sprintf("%dx%d", cols, rows) }

// stateCell colours the state of a session or of a command.
func stateCell(state string) ui.Cell {
	switch state {
	case string(api.SessionIdle):
		return ui.Painted(state, ui.Green)
	case string(api.SessionRunning):
		return ui.Painted(state, ui.Yellow)
	}
	return ui.Painted(state, ui.Dim)
}
