package shell

import (
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// dialect is what differs between the families: pure text, no I/O. Every text
// that goes to the control channel while a signal may be under way must be
// harmless when any part of its beginning is lost, so it has no quotes.
type dialect interface {
	// argv are the arguments after argv[0].
	argv(login, rc bool) []string
	// terminal says that the shell insists on a terminal for its control channel.
	terminal() bool
	// readsAhead says that the shell reads its control channel into a buffer that
	// programs it runs can inherit, so it must be given one line at a time.
	readsAhead() bool
	// bootstrap is the text sent once after the start, without the first status.
	bootstrap(d dir) string
	// dump is the content of d.dumpFile(): it writes the shell's state to d.state.
	dump(d dir) string
	// status writes "TOKEN $? $PWD" and a NUL to d.back.
	status(d dir, token string) string
	// command is the content of d.command() for a command text, the content of
	// d.wrapper() or "", and the control text that runs it and reports with token.
	command(d dir, r request) (file, wrapper, control string)
	// source is the control text that reads a script, without quotes.
	source(file string) string
	// enter and leave surround a command that has a directory of its own, or,
	// where scopesEnv, an environment of its own. They are scripts for sourcePipe.
	enter(r request) string
	leave(r request) string
	// scopesEnv says that a command's environment is set by enter and taken back
	// by leave; else it is part of the control text.
	scopesEnv() bool
	// statements splits a listing of definitions.
	statements(text string) []statement
	// restore turns a parsed state into a script for a new shell.
	restore(st *State) string
	unset(name string) string
	// sourcePipe is the control text that reads a script from a pipe, in silence.
	sourcePipe(file string) string
	// interrupts are the signals that make the shell give up a command, to be sent in turns.
	interrupts() []syscall.Signal
	// reap is the control text that makes an idle shell take notice of children that have
	// ended, without forgetting their status; "" for a shell that does so by itself.
	reap() string
	// ping is the content of a script that reports with token and clears whatever
	// an interrupted command left behind.
	ping(d dir, token string) string
}

// request is one command as a dialect sees it.
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

// urgThenINT: the trap on SIGURG interrupts the shell at a safe point. A plain
// SIGINT also breaks builtins that spin inside C, but bash swallows it while it
// waits for a child.
var urgThenINT = []syscall.Signal{syscall.SIGURG, syscall.SIGINT}

// quote makes s one word of a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// dir is the private directory of a session, and the ways back from the shell.
// None of its paths needs quoting.
type dir struct {
	path  string
	back  string // statuses come back here
	state string // dumps of the state come back here
}

func (d dir) dumpFile() string { return d.path + "/d" } // script: dump the state
func (d dir) command() string  { return d.path + "/c" } // script: the command's text
func (d dir) wrapper() string  { return d.path + "/w" } // script: around the command (fish)
func (d dir) last() string     { return d.path + "/r" } // script: "return N", to set $?
func (d dir) typed() string    { return d.path + "/t" } // script: what is too long to be typed
func (d dir) script() string   { return d.path + "/y" } // FIFO, where needed: a script goes to the shell
func (d dir) stdin() string    { return d.path + "/i" } // FIFO, where needed: a command's stdin

// output and ping have a number because an old one may still be in use.
func (d dir) output(n int) string { return d.path + "/o" + strconv.Itoa(n) }
func (d dir) ping(n int) string   { return d.path + "/z" + strconv.Itoa(n) }

// envPrefix is "K='v' " for each variable: in POSIX shells assignments before a
// command last as long as the command, however it ends.
func envPrefix(env []envVar) string {
	var b strings.Builder
	for _, e := range env {
		b.WriteString(e.key + "=" + quote(e.value) + " ")
	}
	return b.String()
}

// posixEnter and posixLeave change the directory for one command and back. The
// variables they use live only meanwhile.
func posixEnter(r request) string {
	if r.workingDir == "" {
		return ""
	}
	return `__trl_p=${PWD-} __trl_q=${OLDPWD-}` + "\n" + `\command cd -- ` + quote(r.workingDir) + "\n"
}

func posixLeave(r request) string {
	if r.workingDir == "" {
		return ""
	}
	// Without the variable, enter did not come so far.
	return `case ${__trl_p+x} in x) \command cd -- "$__trl_p"; OLDPWD=${__trl_q-}; unset __trl_p __trl_q;; esac` + "\n"
}
