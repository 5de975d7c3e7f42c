// Package cli is the trl command. Each command is in the file of its name, such as ls.go; the
// commands of `trl dialogue` are in dialogue.go and the files after it. A command parses its
// flags, talks to the daemon through package client, and prints the result. The two interactive
// programs are packages of their own, attach and chat; package ui has what all of them share.
//
// The package starts a daemon if none runs (autostart.go). All output for people (tables,
// colours, hints) is made here and in its subpackages, not by the daemon.
package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/near"
	"github.com/trl-dev/trl/internal/runner"
	"github.com/trl-dev/trl/internal/version"
)

// Main runs the command line args (without the program's name) and returns the exit status.
func Main(args []string, stdin, stdout, stderr *os.File) int {
	// trl is its own runner in a build without embedded runners. Every session has a runner, so
	// it must start fast: it builds no command line.
	if runner.Called() {
		return runner.Main()
	}
	a := &app{Streams: ui.Streams{Stdin: stdin, Stdout: ui.NewPrinter(stdout), Stderr: ui.NewPrinter(stderr)}}
	root := a.root(args)
	root.SetArgs(endFlags(root, args))
	// The calls of a command that is part of a trace are part of it too.
	return a.finish(root.ExecuteContext(api.WithTraceparent(context.Background(), os.Getenv("TRACEPARENT"))))
}

// app is one invocation of trl: its streams and its global flags. One goroutine uses it, unless
// a command says otherwise.
type app struct {
	ui.Streams

	noStart  bool
	verbose  bool
	place    placeFlags
	config   config.Config // set by settings
	stateDir string        // set by connect
	url      string        // of the daemon, if it is not on a socket; set by settings
	noHelp   error         // the error of --help
	// first is the first request on a socket, which must be harmless to repeat; nil for a ping.
	first func(context.Context, *client.Client) error
}

// The groups of `trl help`.
const (
	groupCommands  = "commands"
	groupSessions  = "sessions"
	groupTerminals = "terminals"
	groupDialogues = "dialogues"
	groupDaemon    = "daemon"
	groupOther     = "other"
)

// root builds the command line. If args name a command, it builds only that one: a short trl
// run spends most of its time starting up.
func (a *app) root(args []string) *cobra.Command {
	var short bool // print the version
	root := &cobra.Command{
		Use:   "trl",
		Short: "Run commands in sessions that keep their shell",
		Long: `trl runs commands in sessions that keep their shell, programs in terminals, and
dialogues with coding agents, in a daemon that it starts when needed.`,
		Example: `  trl run 'echo hello'                run a command in a temporary session
  trl run -s build 'cd src; make'     run it in the session "build", which stays
  trl start -s build 'make test'      in the background; then trl logs, trl wait
  trl new -t ed -- vim notes          a terminal; Ctrl-\ leaves, attach returns
  trl chat 'fix the failing test'     talk with Claude Code, or another agent
  trl ls; trl kill build              list sessions; end one with all it runs`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return refuseEmpty(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short {
				a.Stdout.Line("trl " + version.Version)
				return nil
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVarP(&short, "version", "V", false, "print the version; trl version prints more")
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(wrongFlag)
	root.AddGroup(
		&cobra.Group{ID: groupCommands, Title: "Commands:"},
		&cobra.Group{ID: groupSessions, Title: "Sessions:"},
		&cobra.Group{ID: groupTerminals, Title: "Terminals:"},
		&cobra.Group{ID: groupDialogues, Title: "Dialogues:"},
		&cobra.Group{ID: groupDaemon, Title: "Daemon:"},
		&cobra.Group{ID: groupOther, Title: "Other:"},
	)
	root.SetHelpCommand(a.helpCommand())
	cobra.EnableCommandSorting = false // the order below is the order of use
	root.SetUsageFunc(usage)

	global := root.PersistentFlags()
	registerGlobalSettings(global)
	global.BoolVar(&a.noStart, "no-start", false, "do not start a daemon when none runs")
	global.BoolVarP(&a.verbose, "verbose", "v", false, "print more details on stderr")
	global.SortFlags = false

	commands := a.commands()
	if i := slices.IndexFunc(commands, func(c named) bool { return len(args) > 0 && c.name == args[0] }); i >= 0 && !slices.Contains(aboutAll, args[0]) {
		commands = commands[i : i+1]
	}
	for _, c := range commands {
		root.AddCommand(c.make())
	}
	return root
}

// aboutAll are the commands that describe all commands.
var aboutAll = []string{"completion", "docs", "man"}

// named is a command that is not built yet.
type named struct {
	name string
	make func() *cobra.Command
}

// commands returns all commands, in the order of use.
func (a *app) commands() []named {
	return []named{
		{"run", a.runCommand}, {"start", a.startCommand}, {"logs", a.logsCommand}, {"wait", a.waitCommand},
		{"input", a.inputCommand}, {"signal", a.signalCommand}, {"cancel", a.cancelCommand}, {"ps", a.psCommand}, {"events", a.eventsCommand}, {"top", a.topCommand},
		{"new", a.newCommand}, {"ls", a.lsCommand}, {"info", a.infoCommand}, {"rename", a.renameCommand}, {"set", a.setCommand},
		{"kill", a.killCommand}, {"runtimes", a.runtimesCommand},
		{"attach", a.attachCommand}, {"send", a.sendCommand}, {"screen", a.screenCommand}, {"resize", a.resizeCommand},
		{"record", a.recordCommand}, {"play", a.playCommand}, {"export", a.exportCommand}, {"recordings", a.recordingsCommand},
		{"chat", a.chatCommand}, {"dialogue", a.dialogueCommand},
		{"serve", a.serveCommand}, {"mcp", a.mcpCommand}, {"stop", a.stopCommand}, {"upgrade", a.upgradeCommand},
		{"http", a.httpCommand}, {"open", a.openCommand}, {"share", a.shareCommand}, {"web", a.webCommand}, {"audit", a.auditCommand},
		{"config", a.configCommand}, {"log", a.logCommand}, {"doctor", a.doctorCommand},
		{"docs", a.docsCommand}, {"call", a.callCommand}, {"version", a.versionCommand}, {"completion", a.completionCommand},
		{"man", a.manCommand},
	}
}

// wrongFlag returns the error for flags that cannot be parsed, with the similar flag as a hint.
func wrongFlag(cmd *cobra.Command, err error) error {
	text := err.Error()
	if number := (*strconv.NumError)(nil); errors.As(err, &number) {
		text = strings.TrimSuffix(text, number.Error()) + numberText(number)
	}
	wrong := ui.UsageErrorf(cmd, "%s", text)
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if meant := similar(unknown.GetSpecifiedName(), names); meant != "" {
			wrong.Hint = "did you mean --" + meant + "? " + wrong.Hint
		}
	}
	return wrong
}

// refuseEmpty returns an error if a flag has no text, which is usually an unset variable of a script:
// without its value, the command would mean something else. A setting may be empty.
func refuseEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" && !config.IsSetting(f) {
			noun, _ := pflag.UnquoteUsage(f)
			err = ui.UsageErrorf(cmd, "--%s: %s must not be empty", f.Name, noun)
		}
	})
	return err
}

// numberText says what is wrong with the value of a flag, without the names of Go's functions.
func numberText(err *strconv.NumError) string {
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "out of range"
	case err.Func == "ParseFloat":
		return "not a number"
	case err.Func == "ParseBool":
		return "not true or false"
	}
	return "not a whole number"
}

// similar returns the word that a user may have meant, or "". Two different letters are most of a
// short word.
func similar(word string, words []string) string { return near.Word(word, words, min(2, len(word)/2)) }

// noSuchWord returns the error for a word of a command that is none of its words.
func noSuchWord(cmd *cobra.Command, word string, words ...string) error {
	err := ui.UsageErrorf(cmd, "there is no %s %q", cmd.CommandPath(), word)
	if meant := similar(word, words); meant != "" {
		err.Hint = "did you mean `" + cmd.CommandPath() + " " + meant + "`?"
	}
	return err
}

// noSuchCommand returns the error for an unknown command, with the similar ones as a hint.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	below := strings.TrimPrefix(cmd.CommandPath()+" ", "trl ")
	err := ui.UsageErrorf(cmd, "there is no command %q", below+args[0])
	// Two different letters are most of a short name.
	if cmd.SuggestionsMinimumDistance = 2; len(args[0]) < 4 {
		cmd.SuggestionsMinimumDistance = 1
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err.Hint = "did you mean `trl " + below + strings.Join(near, "` or `trl "+below) + "`?"
	} else if below == "" {
		err.Hint = "to run it in a session: trl run " + args[0]
	}
	return err
}

// finish reports err and returns the exit status of the program.
func (a *app) finish(err error) int {
	if err == nil {
		err = cmp.Or(a.noHelp, a.Stdout.Err)
	}
	status := ui.StatusOf(err)
	var f *ui.Failure
	silent := errors.As(err, &f) && f.Err == nil
	// The reader that closed the pipe needs no message about it.
	if err == nil || silent || status == ui.ExitBrokenPipe {
		return status
	}
	for line := range strings.Lines(ui.Message(err)) { // a joined error has one line for each
		a.Stderr.Line("trl: " + strings.TrimSuffix(line, "\n"))
	}
	if hint := ui.HintFor(err); hint != "" {
		a.Stderr.Line(a.Stderr.Paint(ui.Dim, "hint: "+hint))
	}
	return status
}
