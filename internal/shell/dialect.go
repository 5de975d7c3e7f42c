package shell

import (
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// dialect has the differences between the families: pure text, no I/O.
//
// A signal can make the shell drop the beginning of the control text that it is reading. So
// control text that may arrive together with a signal has no quotes: any suffix of it must be
// harmless.
type dialect interface {
	// argv returns the arguments after argv[0].
	argv(login, rc bool) []string
	// terminal reports whether the shell needs a terminal as its stdin.
	terminal() bool
	// script reports whether the shell gets its control text as a script file, so that its stdin
	// is empty. Such a shell starts in the private directory.
	script() bool
	// byLine reports whether the shell drops all the control text that it has read when it
	// returns to its top level. Such a shell must get that text line by line.
	byLine() bool
	// bootstrap returns the control text for the start of the shell. The caller adds the
	// text that reports the first status.
	bootstrap(d dir, b beginning) string
	// dump returns the content of d.dumpFile(), a script that writes the shell's state to
	// d.statePath.
	dump(d dir) string
	// status returns control text that writes "TOKEN $? $PWD" and a NUL to d.statusPath.
	status(d dir, token string) string
	// command returns the content of d.command(), the content of d.wrapper() ("" where
	// there is none), and the control text that runs the command and reports its status.
	command(d dir, r request) (file, wrapper, control string)
	// source returns control text, without quotes, that sources a script.
	source(file string) string
	// enter and leave return scripts, for sourcePipe, that run before and after a command.
	// They set and restore the command's own directory and, if scopesEnv, its own
	// environment. They are "" when there is nothing to do.
	enter(r request) string
	leave(r request) string
	// scopesEnv reports whether enter and leave set and restore a command's environment.
	// Otherwise the control text of the command sets it.
	scopesEnv() bool
	// statements splits a listing of definitions.
	statements(text string) []statement
	// restore returns a script that brings a new shell into the given state.
	restore(st *State) string
	// unset returns a line that unsets a variable.
	unset(name string) string
	// sourcePipe returns control text that sources a script from a pipe and discards what
	// the script prints.
	sourcePipe(file string) string
	// interrupts returns the signals that make the shell abandon a command, to be sent in
	// turn.
	interrupts() []syscall.Signal
	// reap returns control text that makes an idle shell reap children that have ended,
	// without forgetting their status; "" for a shell that does so by itself.
	reap() string
	// ping returns a script that reports a status with token.
	ping(d dir, token string) string
}

// beginning is what a shell that starts in the private directory has to make up for. b is zero for
// any other shell.
type beginning struct {
	cwd   string // where it must be
	login bool   // it must read the files of a login shell
	rc    bool   // it must read the file that ENV names
	env   string // value of ENV, which names a file that it must read; "" for none
}

// request is the part of a command that a dialect needs.
type request struct {
	text       string
	env        []envVar // sorted by key
	workingDir string
	token      string
	lastStatus int
	stdin      string // path
	stdout     string
	stderr     string
}

type envVar struct{ key, value string }

func dialectOf(p Program) dialect {
	switch p.Family {
	case Bash:
		return bash{old: runtime.GOOS == "darwin" && strings.HasPrefix(p.Real, "/bin/")}
	case Zsh:
		return zsh{}
	case Fish:
		return fish{}
	case Ash:
		return ash{}
	}
	return dash{}
}

// urgThenINT begins with SIGURG, because the bootstrap sets a trap on it that interrupts the
// shell at a safe point. A plain SIGINT also interrupts builtins that loop in C code, but bash
// ignores it while it waits for a child.
var urgThenINT = []syscall.Signal{syscall.SIGURG, syscall.SIGINT}

// mutely is a redirection for control text that follows a command. It closes stderr before the shell
// opens a file: after `ulimit -n 0` the shell can neither undo the redirections of the command nor
// open the file, and would complain about a path of TRL in the output of the command.
const mutely = "2>&- "

// Before the name of a builtin, these run the builtin and not a function or an alias of that name.
// zsh takes `command` for something else.
const (
	builtin = `\builtin `
	command = `\command `
)

// quote turns s into one word of a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// dir is the private directory of a session and the paths to which the shell reports. No path
// needs quoting.
type dir struct {
	path       string
	statusPath string // the shell writes statuses here
	statePath  string // the shell writes dumps of its state here
}

func (d dir) dumpFile() string { return d.path + "/d" } // script: dump the state
func (d dir) command() string  { return d.path + "/c" } // script: the command's text
func (d dir) wrapper() string  { return d.path + "/w" } // script: sources the command (fish)
func (d dir) last() string     { return d.path + "/r" } // script of lastScript, to set $?
func (d dir) typed() string    { return d.path + "/t" } // script: control text too long to be typed
func (d dir) script() string   { return d.path + "/y" } // FIFO (macOS) or file (isolated): a script for sourcePipe
func (d dir) stdin() string    { return d.path + "/i" } // FIFO (macOS) or file (isolated): a command's stdin

// output and ping are numbered, because a process may still use an earlier one.
func (d dir) output(n int) string { return d.path + "/o" + strconv.Itoa(n) }
func (d dir) ping(n int) string   { return d.path + "/z" + strconv.Itoa(n) }

// setLast returns a line that sources last() with dot, to set $? to a status that is not 0. As
// the first part of an && list it neither ends a shell with errexit nor runs a trap on ERR: the
// command that follows would be lost.
func (d dir) setLast(dot string) string { return dot + " " + d.last() + " && :\n" }

// lastScript returns the content of last(). dash and ash also apply errexit to the return itself.
func lastScript(status int) string { return "return " + strconv.Itoa(status) + " && :\n" }

// envPrefix returns "K='v' " for each variable. In POSIX shells, assignments before a command
// last as long as the command, however it ends.
func envPrefix(env []envVar) string {
	var b strings.Builder
	for _, e := range env {
		b.WriteString(e.key + "=" + quote(e.value) + " ")
	}
	return b.String()
}

// posixEnter returns a script that changes the directory for one command. The variables that
// it sets are removed by posixLeave.
func posixEnter(r request) string {
	if r.workingDir == "" {
		return ""
	}
	return `__trl_p=${PWD-} __trl_q=${OLDPWD-}` + "\n" + `\command cd -- ` + quote(r.workingDir) + "\n"
}

// posixLeave returns a script that undoes posixEnter.
func posixLeave(r request) string {
	if r.workingDir == "" {
		return ""
	}
	// If the variable is unset, the script of posixEnter did not get that far.
	return `case ${__trl_p+x} in x) \command cd -- "$__trl_p"; OLDPWD=${__trl_q-}; \command unset __trl_p __trl_q;; esac` + "\n"
}
