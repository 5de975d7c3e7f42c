package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// runFlags are the flags of `trl run`.
type runFlags struct {
	session string
	shell   string
	cwd     string
	env     envFlag
	timeout secondsFlag
	stdin   bool
	wait    bool
	json    bool
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:     "run [flags] [--] COMMAND...",
		GroupID: groupCommands,
		Short:   "Run a command; its output and exit status are yours",
		Long: `Run a command. Its stdout and stderr come through live and byte for byte, and
its exit status becomes that of trl.

Without -s it runs in a throw-away session with your directory and environment;
what it leaves in the background ends with it. With -s it runs in the session of
that name, which is made when it does not exist yet and stays.

One argument is taken as shell text, as it is. Several are joined by spaces, as
ssh does. Flags end at the first word of the command.

The command reads end-of-file on stdin. With -i it reads yours, all of which is
taken in before the command starts.

Exit status: the command's own; 124 it timed out; 130 it was cancelled (Ctrl-C);
125 trl itself had a problem; 126 or 127 the shell cannot be used or found.`,
		Example: `  trl run 'echo $HOME | tr a-z A-Z'    shell text
  trl run ls -la                       words
  trl run -s build 'cd src; CC=clang'
  trl run -s build --timeout 2m make   still in src, with CC set
  trl run -i 'wc -l' < file            give it your stdin
  trl run --json 'make test'           everything about it, as JSON`,
		Args: takes(1, -1, "a command"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := &run{app: a, cmd: cmd, flags: f, command: strings.Join(args, " ")}
			return r.start()
		},
	}
	a.commandFlags(cmd, &f, words{
		stdin: "give the command your stdin", wait: "wait for your turn when the session is busy",
		json: "print the result as JSON instead of the output",
	})
	return cmd
}

// words are where the flags of the commands that run something differ.
type words struct{ stdin, wait, json string }

// commandFlags gives cmd the flags that say what to run, and where.
func (a *app) commandFlags(cmd *cobra.Command, f *runFlags, w words) {
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.SortFlags = false
	flags.StringVarP(&f.session, "session", "s", "", "run in the session of this `NAME` or id; make it when missing")
	flags.Var(&f.timeout, "timeout", "end the command after this time (30, 1.5s, 2m; 0 is never)")
	flags.StringVar(&f.cwd, "cwd", "", "run the command in this `DIR`")
	flags.VarP(&f.env, "env", "e", "set a variable for this command; KEY alone passes yours on")
	flags.StringVar(&f.shell, "shell", "", "`SHELL` of a new session, by name or path (default: the daemon's)")
	flags.BoolVarP(&f.stdin, "stdin", "i", false, w.stdin)
	flags.BoolVar(&f.wait, "wait", false, w.wait)
	flags.BoolVar(&f.json, "json", false, w.json)
	a.completeFlag(cmd, "session", a.completeSessions)
	a.completeFlag(cmd, "shell", completeShells)
	_ = cmd.MarkFlagDirname("cwd")
}
