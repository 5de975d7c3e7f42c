package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/attach"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/cli/words"
)

// newFlags are the flags of `trl new`.
type newFlags struct {
	terminalFlags

	terminal, program, detach, attach, asJSON bool

	env     ui.EnvFlag
	timeout ui.SecondsFlag
	limits  limitFlags
}

func (a *app) newCommand() *cobra.Command {
	var (
		p api.SessionCreateParams
		f newFlags
	)
	cmd := &cobra.Command{
		Use:     "new [NAME] | new -t [NAME] [[--] PROGRAM...]",
		GroupID: groupSessions,
		Short:   "Start a session or a terminal",
		Long: `Start a session and print its id. It starts in your directory and with your environment.
Every command accepts the NAME or the id of a session.

The shell does not read its start-up files, unless you use --login or --rc. With --shell none
the session has no shell and runs only programs, see trl run --direct.

With -t the session is a terminal that runs PROGRAM, or else your shell. On a terminal, trl
attaches to it at once, unless you use -d: Ctrl-\ detaches, and trl attach attaches again.
The session ends with its program. -A attaches to the terminal NAME, and starts it if it
does not exist; if it does, trl says which flags had no effect. With --program the session
is a program on three pipes: trl send writes to it, trl logs -f reads it.

trl runs PROGRAM with its arguments directly, without a shell; flags after it belong to it.
A single argument that is more than a word is shell text. Without a NAME, write -- before it.`,
		Example: `  trl new build                        then: trl run -s build make
  trl new --shell fish --cwd /tmp
  trl new web -e PORT=8080 --tag demo --timeout 10m
  trl new -t ed vim -R notes           a terminal; then: trl attach ed, trl send ed :q enter
  trl new -t log 'make 2>&1 | less'    shell text
  trl new -A work                      attach to the terminal work, or start it
  trl new -t -d --record demo          your shell in a terminal that is recorded
  trl new --program calc bc -l`,
		Args: func(cmd *cobra.Command, args []string) error {
			f.terminal = f.terminal || f.attach
			if f.attach && (len(args) == 0 || cmd.ArgsLenAtDash() == 0) {
				return ui.UsageErrorf(cmd, "-A takes the name of a terminal")
			}
			if len(args) > 0 && args[0] == "" && cmd.ArgsLenAtDash() != 0 {
				return ui.UsageErrorf(cmd, "the name of a session must not be empty")
			}
			if dash := cmd.ArgsLenAtDash(); !f.terminal && !f.program && (len(args) > 1 || dash >= 0 && dash < len(args)) {
				err := ui.UsageErrorf(cmd, "%s takes at most one name", cmd.CommandPath())
				err.Hint = "a program needs -t or --program; for a command in a session: " + startText(args, dash)
				return err
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			words := args
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				words, p.Command = args[:dash], args[dash:]
			}
			if len(words) > 0 {
				p.Name = words[0]
			}
			if len(p.Command) == 0 {
				p.Command = nil
			}
			return a.makeNew(cmd, p, &f)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 && (f.terminal || f.program) {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&p.Shell, "shell", "", "`SHELL` by name or path (default: default_shell, or bash; in a terminal yours); none for no shell")
	flags.Var((*ui.DirFlag)(&p.WorkingDir), "cwd", "`DIR` in which it starts (default: yours)")
	flags.VarP(&f.env, "env", "e", "set a variable; KEY alone passes yours on")
	flags.Var(&f.timeout, "timeout", "end each of its commands after this time (30, 1.5s, 2m; 0 is never)")
	a.registerPlace(cmd)
	a.registerBeside(cmd)
	f.limits.register(flags, "the session")
	f.limits.resources.register(flags, "the session")
	flags.StringArrayVar(&p.Tags, "tag", nil, "a `WORD` of your choice to group sessions; may be repeated")
	flags.BoolVar(&p.Login, "login", false, "start a login shell")
	flags.BoolVar(&p.RC, "rc", false, "read the shell's rc files")
	flags.BoolVarP(&f.terminal, "terminal", "t", false, "start a terminal")
	flags.BoolVar(&f.program, "program", false, "start a program on three pipes")
	flags.BoolVarP(&f.attach, "attach", "A", false, "attach to the terminal NAME, start it if there is none")
	flags.BoolVarP(&f.detach, "detach", "d", false, "do not attach to the terminal, print its id")
	f.register(flags)
	flags.BoolVar(&p.Record, "record", false, "record the terminal: trl play, trl export --cast")
	flags.BoolVar(&p.RecordInput, "record-input", false, "also record what is typed, including passwords")
	registerDetachKey(flags)
	flags.BoolVar(&f.asJSON, "json", false, "print the session as JSON")
	a.completeFlag(cmd, "shell", completeShells)
	_ = cmd.MarkFlagDirname("cwd")
	return cmd
}

// makeNew creates the session and prints its id, or attaches to it.
func (a *app) makeNew(cmd *cobra.Command, p api.SessionCreateParams, f *newFlags) error {
	name, given := f.given(cmd.Flags())
	switch {
	case f.attach && f.program: // before --terminal, which -A implies and the user did not write
		return ui.UsageErrorf(cmd, "--attach and --program cannot be combined")
	case f.attach && f.detach:
		return ui.UsageErrorf(cmd, "--attach and --detach cannot be combined")
	case f.terminal && f.program:
		return ui.UsageErrorf(cmd, "--terminal and --program cannot be combined")
	case given && !f.terminal:
		return ui.UsageErrorf(cmd, "%s needs a terminal: see --terminal", name)
	}
	p.Record = p.Record || p.RecordInput
	_, person := a.Terminal()
	attaches := f.terminal && person && !f.detach && !f.asJSON
	if attaches {
		if err := ui.CheckWindow("trl new -t", "-d starts it without attaching"); err != nil {
			return err
		}
	}
	keys, err := a.detachKey(cmd) // loads the settings, which say on which machine the session will be
	if err != nil {
		return err
	}
	place, err := a.likeOurs(p.WorkingDir, p.Shell)
	if err != nil {
		return err
	}
	if p.Command, err = a.program(cmd, p.Command, place.Shell); err != nil {
		return err
	}
	p.WorkingDir, p.Shell, p.PreferShell, p.Env, p.TimeoutS = place.WorkingDir, place.Shell, place.PreferShell, place.Env, f.timeout.Value
	a.fillPlace(&p)
	f.limits.fill(&p)
	if f.terminal {
		err = f.fill(a, cmd, &p)
	} else if f.program {
		p.Kind = api.KindProgram
	}
	if err != nil {
		return nameHint(p, err)
	}
	if err = checkWords(p.Command); err != nil {
		return err
	}
	for k, v := range f.env {
		p.Env[k] = v
	}
	return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
		if f.attach {
			if !person {
				return noTerminal("trl new -A", p.Name)
			}
			there, err := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: p.Name})
			if err == nil && there.State != api.SessionTerminated {
				err := attach.Run(ctx, a.Streams, c, attach.Options{Session: there.SessionID, Name: p.Name, Keys: keys})
				// Now, because the terminal covered the window before.
				if unused := onlyForNew(cmd, p, there); len(unused) > 0 {
					a.Stderr.Linef("trl: terminal %q existed already, so %s had no effect", p.Name, strings.Join(unused, ", "))
				}
				return err
			}
			if err != nil && !errors.Is(err, api.ErrSessionNotFound) {
				return err
			}
		}
		info, err := a.createSession(ctx, c, p)
		if err != nil {
			return nameHint(p, createHint(ctx, c, p, err))
		}
		switch {
		case f.asJSON:
			return a.Stdout.JSON(info)
		case attaches:
			return attach.Run(ctx, a.Streams, c, attach.Options{Session: info.SessionID, Name: nameOf(info), Keys: keys, Fresh: true})
		}
		a.Stdout.Line(info.SessionID)
		return nil
	})
}

// startText is the command line that runs the arguments of `trl new` as a command in a session.
func startText(args []string, dash int) string {
	text := "trl start"
	if dash != 0 {
		text, args = text+" -s "+args[0], args[1:]
	}
	for _, word := range args {
		if !words.Plain(word) {
			return "`" + text + " COMMAND`"
		}
	}
	return "`" + text + " " + strings.Join(args, " ") + "`"
}

// createHint adds a hint to the error of a terminal whose name another terminal has.
func createHint(ctx context.Context, c *client.Client, p api.SessionCreateParams, err error) error {
	if !errors.Is(err, api.ErrConflict) || p.Name == "" || p.Kind != api.KindTerminal {
		return err
	}
	there, infoErr := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: p.Name})
	if infoErr != nil || there.Kind != api.KindTerminal {
		return err
	}
	return ui.WithHint(err, "`trl attach %s` attaches to it; `trl new -A %[1]s` starts it only if there is none", p.Name)
}

// nameHint adds a hint to the error of a name that a terminal or program cannot have: the user may
// have meant it as the program.
func nameHint(p api.SessionCreateParams, err error) error {
	var e *api.Error
	if p.Kind == "" || len(p.Command) > 0 || !errors.As(err, &e) || e.Details["field"] != "name" {
		return err
	}
	flag := map[api.SessionKind]string{api.KindTerminal: "-t", api.KindProgram: "--program"}[p.Kind]
	return ui.WithHint(err, "for a program without a name: `%s`", ui.Printable(words.CommandLine([]string{"trl", "new", flag, "--", p.Name}, "")))
}

// onlyForNew returns the flags, and the program, that were given for a new terminal and do not
// describe the one that exists.
func onlyForNew(cmd *cobra.Command, p api.SessionCreateParams, there api.SessionDetails) (unused []string) {
	same := map[string]bool{
		"cwd": p.WorkingDir == there.WorkingDir, "shell": p.Shell == there.Shell,
		"tag": !slices.ContainsFunc(p.Tags, func(tag string) bool { return !slices.Contains(there.Tags, tag) }),
	}
	own := cmd.LocalNonPersistentFlags()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if own.Lookup(f.Name) != nil && !forAttaching[f.Name] && !same[f.Name] {
			unused = append(unused, "--"+f.Name)
		}
	})
	if len(p.Command) > 0 && !slices.Equal(p.Command, there.Command) {
		unused = append(unused, "the program "+p.Command[0])
	}
	return unused
}

// forAttaching are the flags of `trl new` that are not about the new session.
var forAttaching = map[string]bool{"attach": true, "terminal": true, "detach-key": true}

// nameOf returns the name of a session, or its id if it has none.
func nameOf(s api.SessionInfo) string {
	if s.Name != "" {
		return s.Name
	}
	return s.SessionID
}

// likeOurs returns the request for a session with the caller's environment, in dir or, if dir is
// empty, in the caller's directory. A session in another place gets neither: its directories
// differ, and the caller's secrets are not for it.
func (a *app) likeOurs(dir, shell string) (api.SessionCreateParams, error) {
	p := api.SessionCreateParams{Shell: shell, PreferShell: preferredShell, WorkingDir: dir, Env: map[string]string{}}
	a.fillPlace(&p)
	if a.samePlace() {
		var err error
		if p.WorkingDir, err = directory(dir); err != nil {
			return p, err
		}
		if p.Shell, err = shellFlag(shell); err != nil {
			return p, err
		}
		p.Env = callerEnv()
	}
	return p, checkText("directory", p.WorkingDir)
}

// directory returns the absolute path of a directory given with --cwd, on this machine.
func directory(dir string) (string, error) {
	if fi, err := os.Stat(dir); dir != "" && (err != nil || !fi.IsDir()) {
		return "", fmt.Errorf("--cwd: %q is not a directory", dir)
	}
	return filepath.Abs(dir)
}
