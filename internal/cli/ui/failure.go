package ui

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
)

// The exit statuses of trl itself. `trl run` exits with the status of the command that it ran,
// and so does `trl logs -f`.
const (
	ExitOK         = 0
	ExitBroken     = 1   // doctor found something broken
	ExitUsage      = 2   // the command line is wrong; see UsageErrorf
	ExitRunning    = 3   // serve --ready-fd found another daemon running
	ExitFailure    = 125 // trl itself failed
	ExitBrokenPipe = 141 // the reader of stdout closed it: 128 + SIGPIPE
)

// A Failure is an error with an exit status of its own and, where the user can do something
// about it, a hint. Without Err, the program exits silently.
type Failure struct {
	Err    error
	Status int
	Hint   string
}

func (f *Failure) Error() string {
	if f.Err == nil {
		return fmt.Sprintf("exit status %d", f.Status)
	}
	return f.Err.Error()
}

// Unwrap returns the error without its status and hint.
func (f *Failure) Unwrap() error { return f.Err }

// ExitWith makes the program exit with a status, silently.
func ExitWith(status int) error {
	if status == ExitOK {
		return nil
	}
	return &Failure{Status: status}
}

// ExitBySignal makes the program exit with the status of a process that a signal killed,
// silently.
func ExitBySignal(s os.Signal) error {
	n, _ := s.(syscall.Signal)
	if n == syscall.SIGHUP {
		// The program may notice the end of its terminal before the signal arrives. The signal
		// must not kill it during the cleanup.
		signal.Ignore(s)
	}
	return ExitWith(128 + int(n))
}

// passesStatusOn are the commands whose exit status may be that of the program they ran.
var passesStatusOn = map[string]bool{"run": true, "logs": true, "wait": true, "attach": true, "record": true}

// UsageErrorf returns the error for a wrong command line. The status is 2; for `trl run` and the
// other commands that pass a program's status on it is 125, because the program may exit with 2.
func UsageErrorf(cmd *cobra.Command, format string, args ...any) *Failure {
	status := ExitUsage
	if passesStatusOn[cmd.Name()] {
		status = ExitFailure
	}
	return &Failure{Err: fmt.Errorf(format, args...), Status: status, Hint: "see `" + cmd.CommandPath() + " --help`"}
}

// WithHint adds a hint to an error. The exit status stays the same.
func WithHint(err error, format string, args ...any) error {
	return &Failure{Err: err, Status: StatusOf(err), Hint: fmt.Sprintf(format, args...)}
}

// Args checks the number of arguments; max < 0 is any number.
func Args(min, max int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= min && (max < 0 || len(args) <= max) {
			return nil
		}
		return UsageErrorf(cmd, "%s takes %s", cmd.CommandPath(), what)
	}
}

// NameArgs is Args for arguments that are names. It rejects an empty one, which is usually an
// unset variable of a script.
func NameArgs(min, max int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if slices.Contains(args, "") {
			return UsageErrorf(cmd, "a name must not be empty")
		}
		return Args(min, max, what)(cmd, args)
	}
}

// NameThenTextArgs is Args where the first argument is a name and the others are text.
func NameThenTextArgs(min, max int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && args[0] == "" {
			return UsageErrorf(cmd, "a name must not be empty")
		}
		return Args(min, max, what)(cmd, args)
	}
}

// onCommandLine translates names of the API into those of the command line.
var onCommandLine = strings.NewReplacer(
	"params.working_dir: ", "--cwd: ", "params.timeout_s: ", "--timeout: ", "params.env: ", "--env: ", "params.tags: ", "--tag: ",
	"params.shell: ", "--shell: ", "params.term: ", "--term: ",
	"params.scrollback: ", "--scrollback: ", "params.signal: ", "--signal: ", "params.output_match: ", "--match: ", "params.text: ", "--text: ",
	"params.after_seq: ", "--after: ", "params.name: ", "name ", "params.keys: ", "key ", "params.agent: ", "--agent: ",
	"params.expires_s: ", "--expires: ", "params.viewers: ", "--viewers: ",
	"params.limits.memory_bytes: ", "--memory: ", "params.limits.cpus: ", "--cpus: ", "params.limits.pids: ", "--pids: ",
	"params.isolation.profile: ", "--isolate: ", "runtime.list lists the places", "trl runtimes lists the places", "params.", "",
	"session.screen is", "trl screen is", "session.input is", "trl send is", "session.attach is", "trl attach is", "session.resize is", "trl resize is",
	"session.wait is", "trl wait with --text or --cursor is", "it takes session.input, not commands", "it takes trl send, not commands",
)

// ownID matches the id of a temporary session, which the user has never seen.
var ownID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^session "s-[0-9a-f]+": `) })

// Message returns the text of an error in the words of the command line.
func Message(err error) string {
	var e *api.Error
	if !errors.As(err, &e) || strings.HasPrefix(err.Error(), string(e.Code)+": ") { // trl call uses the names of the API
		return err.Error()
	}
	text := onCommandLine.Replace(err.Error())
	if e.Code == api.CodeShellNotFound || e.Code == api.CodeShellFailed {
		text = ownID().ReplaceAllString(text, "")
	}
	return text
}

// StatusOf returns the exit status for an error.
func StatusOf(err error) int {
	var f *Failure
	var e *api.Error
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &f):
		return f.Status
	case errors.Is(err, syscall.EPIPE):
		return ExitBrokenPipe
	case errors.As(err, &e):
		for _, info := range api.Codes {
			if info.Code == e.Code {
				return info.Exit
			}
		}
	}
	return ExitFailure
}

// shellHint returns the hint for what only a terminal or a program can do, asked of a shell.
func shellHint(e *api.Error) string {
	name, why := "", ""
	if _, err := fmt.Sscanf(e.Message, "session %q: is a shell; %s is for terminals", &name, &why); err != nil {
		return ""
	}
	return "`trl run -s " + name + " COMMAND` runs a command in it; `trl new -t NAME` starts a terminal"
}

// HintFor returns the hint for an error: what the user can do about it; "" for none.
func HintFor(err error) string {
	var f *Failure
	if errors.As(err, &f) && (f.Hint != "" || f.Err == nil) {
		return f.Hint
	}
	var e *api.Error
	if !errors.As(err, &e) {
		return ""
	}
	switch e.Code {
	case api.CodeInvalidParams:
		return shellHint(e)
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
	case api.CodeLimitUnavailable:
		return "`trl doctor` says which limits work here; --best-effort continues without one"
	case api.CodeIsolationUnavailable:
		return "`trl doctor` says what works here; --best-effort continues without it"
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
