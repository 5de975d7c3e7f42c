package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/attach"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/terminal/view"
)

func (a *app) attachCommand() *cobra.Command {
	var readOnly, take, force bool
	cmd := &cobra.Command{
		Use:     "attach [SESSION]",
		Aliases: []string{"a"},
		GroupID: groupTerminals,
		Short:   "View a terminal and type into it",
		Long: `View a terminal that was started with trl new -t, and type into it. Your window becomes
that terminal until its program ends; trl then exits with the program's status. Ctrl-\
(--detach-key) detaches, and the program keeps running. Pressed twice, the key is typed into
the terminal, where another trl may run.

Without a SESSION, trl attaches to the only terminal, or lets you choose one from a list.

Any number of people and programs may be attached at once. The terminal has the size of the
first window that may type; a window of another size shows a part of it, or empty space
around it. --take makes the size follow your window.

If your locale is not UTF-8, trl replaces characters that are not ASCII.

You stay attached when the daemon restarts, and see the same screen.`,
		Example: `  trl new -t ed -- vim notes           and Ctrl-\ to leave it
  trl attach ed
  trl attach ed --read-only            only look; Ctrl-C leaves too
  trl attach ed --detach-key ctrl-]    when vim needs Ctrl-\`,
		Args: ui.NameArgs(0, 1, "at most one session"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if readOnly && take {
				return ui.UsageErrorf(cmd, "--read-only and --take cannot be combined")
			}
			keys, err := a.detachKey(cmd)
			if err != nil {
				return err
			}
			name := strings.Join(args, "")
			if _, ok := a.Terminal(); !ok {
				return noTerminal("trl attach", name)
			}
			if err := ui.CheckWindow("trl attach", fmt.Sprintf("`trl screen %s` prints what it shows; --force attaches anyway", cmp.Or(name, "SESSION"))); err != nil && !force {
				return err
			}
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				if name == "" {
					if name, err = a.chooseTerminal(ctx, c); err != nil {
						return err
					}
				}
				return attach.Run(ctx, a.Streams, c, attach.Options{Session: name, Name: name, Keys: keys, ReadOnly: readOnly, TakeSize: take, UTF8: force})
			})
		},
		ValidArgsFunction: a.completeTerminals,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&readOnly, "read-only", "r", false, "only look: your keys are not sent")
	flags.BoolVar(&take, "take", false, "make the terminal's size follow your window")
	flags.BoolVar(&force, "force", false, "attach even if TERM says that your terminal cannot show a screen, and send it UTF-8 in every locale")
	registerDetachKey(flags)
	return cmd
}

// detachKey returns the key that detaches, from the settings.
func (a *app) detachKey(cmd *cobra.Command) (*view.Keys, error) {
	cfg, err := a.settings(cmd)
	if err != nil {
		return nil, err
	}
	keys, err := view.NewKeys(cfg.DetachKey)
	if err != nil {
		return nil, err
	}
	return keys.Twice(), nil
}

// chooseTerminal returns the terminal for a person who named none: the only one, or the one that
// the person chooses from a list, most recently active first.
func (a *app) chooseTerminal(ctx context.Context, c *client.Client) (string, error) {
	res, err := listSessions(ctx, c, api.SessionListParams{})
	if err != nil {
		return "", err
	}
	list := slices.DeleteFunc(res.Sessions, func(s api.SessionInfo) bool {
		return s.Kind != api.KindTerminal || s.SessionID == os.Getenv(api.SessionMarker)
	})
	switch len(list) {
	case 0:
		return "", ui.WithHint(errors.New("there is no terminal to attach to"), "`trl new -t` starts one")
	case 1:
		return nameOf(list[0]), nil
	}
	slices.SortStableFunc(list, func(a, b api.SessionInfo) int { return b.LastActivity.Compare(a.LastActivity) })
	t := ui.Table{Header: []string{"#", "NAME", "ACTIVE", "RUNS"}}
	for i, s := range list {
		runs := s.Shell
		if len(s.Command) > 0 {
			runs = strings.Join(s.Command, " ")
		}
		t.Add(ui.Text(strconv.Itoa(i+1)), ui.Text(nameOf(s)), ui.Text(a.Stdout.When(s.LastActivity)), ui.Text(runs))
	}
	a.Stdout.Table(t)
	_, _ = fmt.Fprintf(a.Stdout, "attach to which? [1] ")
	line, err := readLine(a.Stdin)
	if line = strings.TrimSpace(line); err != nil && line == "" {
		return "", errors.New("no terminal was chosen")
	}
	if line == "" {
		line = "1"
	}
	for i, s := range list {
		if line == strconv.Itoa(i+1) || line == s.Name || line == s.SessionID {
			return nameOf(s), nil
		}
	}
	return "", fmt.Errorf("%q is not in the list", line)
}

// readLine reads one line from a terminal, and nothing after it.
func readLine(in io.Reader) (string, error) {
	var line []byte
	b := make([]byte, 1)
	for {
		n, err := in.Read(b)
		if n > 0 && b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[:n]...)
		if err != nil {
			return string(line), err
		}
	}
}

func noTerminal(what, session string) error {
	if session == "" {
		session = "SESSION"
	}
	return ui.WithHint(fmt.Errorf("%s needs a terminal as stdin and stdout", what),
		"`trl screen %s` prints what it shows, `trl send %[1]s` types", session)
}

func registerDetachKey(flags *pflag.FlagSet) {
	config.Register(flags, "detach_key")
	flags.Lookup("detach-key").Usage = "`KEY` that detaches, such as ctrl-]; none for no key"
}
