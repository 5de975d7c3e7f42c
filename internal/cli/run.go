package cli

import (
	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/internal/cli/ui"
)

// runFlags are the flags of `trl run`.
type runFlags struct {
	session ui.NameFlag
	shell   string
	cwd     string
	env     ui.EnvFlag
	timeout ui.SecondsFlag
	limits  limitFlags
	// resources limit the command, or its temporary session.
	resources resourceFlags
	stdin     bool
	tty       bool
	direct    bool
	merge     bool
	wait      bool
	json      bool
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:     "run [flags] [--] COMMAND...",
		GroupID: groupCommands,
		Short:   "Run a command, print its output and exit with its status",
		Long: `Run a command. trl prints its stdout and stderr as they come, byte for byte, and exits
with its status.

Without -s it runs in a temporary session with your directory and environment; its
background processes end with it. With -s it runs in the session of that name, which is
created if it does not exist, and stays.

A single argument is shell text. Several are the words of one command: each arrives
unchanged, and the session's shell runs them. Flags end at the first word.

With --direct the words are a program and its arguments. TRL starts it itself, beside the
session's shell: at once, even if the shell is busy, in the directory and environment that
the session began with.

The command's stdin is empty. With -i it reads your stdin as it comes. With -t it has a
terminal, for programs such as vim, top or sudo: your window, or one of 80 columns, into
which -i types your stdin and then Ctrl-D.

Exit status: the command's own; 124 it timed out; 130 after Ctrl-C, 143 after SIGTERM;
125 trl itself had a problem; 126 or 127 the shell cannot be used or found.`,
		Example: `  trl run 'echo $HOME | tr a-z A-Z'    shell text
  trl run python3 -c 'print(6 * 7)'    words
  trl run -s build 'cd src; CC=clang'
  trl run -s build --timeout 2m make   still in src, with CC set
  trl run -s build --direct git status while make runs
  trl run -i wc -l < file              give it your stdin
  trl run -t htop                      give it a terminal
  trl run --json 'make test'           everything about it, as JSON`,
		Args: ui.Args(1, -1, "a command"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkCommand(cmd, args); err != nil {
				return err
			}
			if name := f.limits.given(); name != "" && f.session == "" {
				return ui.UsageErrorf(cmd, "%s needs a session that stays: see -s", name)
			}
			r := &run{app: a, cmd: cmd, flags: f, args: args}
			if f.tty {
				return r.terminal()
			}
			return r.start()
		},
	}
	a.commandFlags(cmd, &f, flagTexts{
		stdin: "give the command your stdin", wait: "wait for your turn when the session is busy",
		json: "print the result as JSON instead of the output",
	})
	cmd.Flags().BoolVarP(&f.tty, "tty", "t", false, "give the command a terminal")
	return cmd
}

// flagTexts are the descriptions of flags that differ between run and start.
type flagTexts struct{ stdin, wait, json string }

// commandFlags adds the flags that run and start share.
func (a *app) commandFlags(cmd *cobra.Command, f *runFlags, w flagTexts) {
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.SortFlags = false
	flags.VarP(&f.session, "session", "s", "run in the session of this `NAME` or id; it is created if necessary")
	flags.Var(&f.timeout, "timeout", "end the command after this time (30, 1.5s, 2m; 0 is never)")
	flags.Var((*ui.DirFlag)(&f.cwd), "cwd", "run the command in this `DIR`")
	flags.VarP(&f.env, "env", "e", "set a variable for this command; KEY alone passes yours on")
	flags.StringVar(&f.shell, "shell", "", "`SHELL` of a new session, by name or path (default: default_shell, or bash)")
	a.registerPlace(cmd)
	a.registerBeside(cmd)
	f.limits.register(flags, "a new session that stays")
	f.resources.register(flags, "the command")
	flags.BoolVarP(&f.stdin, "stdin", "i", false, w.stdin)
	flags.BoolVar(&f.direct, "direct", false, "start the program itself, beside the session's shell")
	flags.BoolVar(&f.merge, "merge", false, "make stderr a part of stdout, in the order of writing")
	flags.BoolVar(&f.wait, "wait", false, w.wait)
	flags.BoolVar(&f.json, "json", false, w.json)
	a.completeFlag(cmd, "session", a.completeSessions)
	a.completeFlag(cmd, "shell", completeShells)
	_ = cmd.MarkFlagDirname("cwd")
}
