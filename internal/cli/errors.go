package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
)

// The exit statuses that the CLI itself gives. A command run by `trl run` gives its own,
// and so does one that `trl logs -f` follows.
const (
	exitOK         = 0
	exitBroken     = 1   // doctor found something broken
	exitRunning    = 3   // serve --ready-fd found a daemon that runs already
	exitUsage      = 2   // the command line cannot be understood, except that of run
	exitFailure    = 125 // TRL itself could not do what was asked
	exitBrokenPipe = 141 // the reader of stdout has gone: 128 + SIGPIPE
)

// A failure is an error that leaves the program with a status of its own and,
// where there is a next step for the reader, a hint. Without err it says nothing.
type failure struct {
	err    error
	status int
	hint   string
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit status %d", f.status)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// exitWith leaves with a status and without a word.
func exitWith(status int) error {
	if status == exitOK {
		return nil
	}
	return &failure{status: status}
}

// exitBySignal leaves as one that died of a signal would, without a word.
func exitBySignal(s os.Signal) error {
	n, _ := s.(syscall.Signal)
	if n == syscall.SIGHUP {
		// That the terminal is gone may be seen before the signal comes, which would then end
		// us while we clean up.
		signal.Ignore(s)
	}
	return exitWith(128 + int(n))
}

// answersForCommand are the commands whose status may be that of what they ran.
var answersForCommand = map[string]bool{"run": true, "logs": true, "wait": true, "attach": true, "record": true}

// usageErrorf is for a command line that cannot be understood. That of `run` and its like
// leaves with 125, because 2 may well be what the command answers.
func usageErrorf(cmd *cobra.Command, format string, args ...any) *failure {
	status := exitUsage
	if answersForCommand[cmd.Name()] {
		status = exitFailure
	}
	return &failure{err: fmt.Errorf(format, args...), status: status, hint: "see `" + cmd.CommandPath() + " --help`"}
}

// withHint adds the next step to an error, which keeps its status.
func withHint(err error, format string, args ...any) error {
	return &failure{err: err, status: statusOf(err), hint: fmt.Sprintf(format, args...)}
}

// takes checks the number of arguments; max < 0 is any number.
func takes(min, max int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= min && (max < 0 || len(args) <= max) {
			return nil
		}
		return usageErrorf(cmd, "%s takes %s", cmd.CommandPath(), what)
	}
}

// names is takes for arguments that name things, where an empty one is a mistake in a script.
func names(min, max int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if slices.Contains(args, "") {
			return usageErrorf(cmd, "%s: a name must not be empty", cmd.CommandPath())
		}
		return takes(min, max, what)(cmd, args)
	}
}

// nameFirst is takes where the first argument names something, and the others are text.
func nameFirst(min, max int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && args[0] == "" {
			return usageErrorf(cmd, "%s: a name must not be empty", cmd.CommandPath())
		}
		return takes(min, max, what)(cmd, args)
	}
}

// onCommandLine are the words of the command line for what the API calls something else.
var onCommandLine = strings.NewReplacer(
	"params.working_dir: ", "--cwd: ", "params.timeout_s: ", "--timeout: ", "params.env: ", "--env: ", "params.tags: ", "--tag: ",
	"params.shell: ", "--shell: ", "params.term: ", "--term: ",
	"params.scrollback: ", "--scrollback: ", "params.signal: ", "--signal: ", "params.output_match: ", "--match: ", "params.text: ", "--text: ",
	"params.after_seq: ", "--after: ", "params.name: ", "name ", "params.keys: ", "key ", "params.agent: ", "--agent: ", "params.", "",
	"session.screen is", "trl screen is", "session.input is", "trl send is", "session.attach is", "trl attach is", "session.resize is", "trl resize is",
	"session.wait is", "trl wait is", "it takes session.input, not commands", "it takes trl send, not commands",
)

// ownID is the id of a session that the user has not typed: it was made for them, and is gone.
var ownID = regexp.MustCompile(`^session "s-[0-9a-f]+": `)

// inWords is what an error says to somebody at a command line.
func inWords(err error) string {
	var e *api.Error
	if !errors.As(err, &e) || strings.HasPrefix(err.Error(), string(e.Code)+": ") { // trl call speaks of the API
		return err.Error()
	}
	text := onCommandLine.Replace(err.Error())
	if e.Code == api.CodeShellNotFound || e.Code == api.CodeShellFailed {
		text = ownID.ReplaceAllString(text, "")
	}
	return text
}

// statusOf is the exit status for an error.
func statusOf(err error) int {
	var f *failure
	var e *api.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &f):
		return f.status
	case errors.Is(err, syscall.EPIPE):
		return exitBrokenPipe
	case errors.As(err, &e):
		for _, info := range api.Codes {
			if info.Code == e.Code {
				return info.Exit
			}
		}
	}
	return exitFailure
}

// hintFor is the next step after an error, where there is one.
func hintFor(err error) string {
	var f *failure
	if errors.As(err, &f) && (f.hint != "" || f.err == nil) {
		return f.hint
	}
	var e *api.Error
	if !errors.As(err, &e) {
		return ""
	}
	switch e.Code {
	case api.CodeSessionNotFound:
		return "`trl ls` lists the sessions"
	case api.CodeSessionTerminated:
		return "`trl new` makes another session"
	case api.CodeExecNotFound:
		return "`trl ps -a` lists the commands"
	case api.CodeDialogueNotFound:
		return "`trl dialogue ls -a` lists the dialogues"
	case api.CodeDialogueEnded:
		return "`trl chat --resume DIALOGUE` starts the agent again"
	case api.CodeMaxSessionsReached:
		return "end one with `trl kill`, or raise max_sessions (see `trl config`)"
	case api.CodeShellNotFound, api.CodeShellFailed:
		if e.Reason() == api.ReasonProgram {
			return "it is found on the PATH of the session, or by its path"
		}
		return "`trl doctor` lists the shells that work here"
	case api.CodeAuthFailed:
		return "set TRL_AUTH_TOKEN to a token of the daemon: its state directory has them in the file token"
	case api.CodeMethodNotFound:
		return "`trl call` without arguments lists the methods"
	case api.CodeInternal:
		return "`trl doctor` checks the installation"
	}
	return ""
}

// finish reports err and returns the exit status of the program.
func (a *app) finish(err error) int {
	if err == nil {
		err = cmp.Or(a.noHelp, a.stdout.err)
	}
	status := statusOf(err)
	var f *failure
	silent := errors.As(err, &f) && f.err == nil
	// Whoever closed the pipe does not want to hear that it is closed.
	if err == nil || silent || status == exitBrokenPipe {
		return status
	}
	for line := range strings.Lines(inWords(err)) { // a joined error has one line for each
		a.stderr.line("trl: " + strings.TrimSuffix(line, "\n"))
	}
	if hint := hintFor(err); hint != "" {
		a.stderr.line(a.stderr.paint(dim, "hint: "+hint))
	}
	return status
}
