package shell

import (
	"fmt"
	"strings"
	"syscall"
)

// bash runs as an interactive shell without a terminal and without its line editor, which would
// echo even on a pipe.
type bash struct {
	old bool // version 3.2, the one of macOS
}

func (bash) argv(login, rc bool) []string {
	args := []string{"--noediting", "-i"}
	if login {
		args = append([]string{"-l"}, args...)
	}
	if !rc {
		args = append([]string{"--norc"}, args...)
	}
	if !login {
		args = append([]string{"--noprofile"}, args...)
	}
	// bash wants long options first.
	var long, short []string
	for _, a := range args {
		if strings.HasPrefix(a, "--") {
			long = append(long, a)
		} else {
			short = append(short, a)
		}
	}
	return append(long, short...)
}

func (bash) terminal() bool               { return false }
func (bash) script() bool                 { return false }
func (bash) byLine() bool                 { return false }
func (bash) reap() string                 { return "" }
func (bash) interrupts() []syscall.Signal { return urgThenINT }

func (bash) bootstrap(d dir, _ beginning) string {
	// The trap checks BASH_SOURCE, because an interrupt at the idle prompt can crash bash 5.2,
	// and the version, because SIGINT kills bash 3.2 after `trap - INT`.
	// set +m: with job control, bash would print notices about finished jobs to the stderr of
	// a later command.
	// The prompts have their own line, because a profile may have made them readonly, and an error
	// takes the rest of the line with it.
	return "PS1= PS2=\n" +
		`\builtin unset HISTFILE TMOUT; \builtin set +o history; \builtin set +m +H; \builtin shopt -s execfail expand_aliases; \builtin shopt -u checkwinsize huponexit` + "\n" +
		`\builtin trap '((${#BASH_SOURCE[@]})) && { ((BASH_VERSINFO[0]>3)) && \builtin trap - INT; \builtin kill -INT $$; }' URG` + "\n" +
		`\builtin trap '{ \builtin . ` + d.dumpFile() + `; } 2>/dev/null' EXIT` + "\n"
}

func (bash) dump(d dir) string {
	return `{ \builtin printf 'state\0'; \builtin declare -p; \builtin printf '\0\0\0'; \builtin declare -f; \builtin printf '\0'; \builtin alias -p; \builtin printf '\0'; ` +
		`\builtin shopt -p; \builtin set +o; \builtin printf '\0'; \builtin umask; \builtin printf '\0%s\0' "${PWD-}"; ` +
		`for __trl_i do \builtin printf '%s\1' "$__trl_i"; done; \builtin printf '\0end\0'; } >|` + d.statePath + " 2>/dev/null\n\\builtin unset __trl_i\n"
}

// status escapes the report with backslashes and gives it to eval behind an expansion that never
// runs. A command substitution without its end leaves the parser of bash 5.2 with one delimiter
// too few, and the next quote that it reads is written in front of the heap block: bash aborts a
// few commands later. Backslashes open no delimiter, and to expand the substitution bash resets
// its parser, so that eval reads the quotes of the report safely.
//
// stderr is closed for printf alone, see mutely: a DEBUG trap runs before that, and may use it. With
// extdebug, a trap that fails would skip the report.
func (p bash) status(d dir, token string) string {
	closed := " " + mutely
	if p.old {
		closed = ""
	}
	report := `\builtin printf '%s %s %s\0' ` + token + ` "$?" "${PWD-}"` + closed + ` >` + d.statusPath
	return `\builtin eval ${__trl_i+$(:)} ` + backslashed.Replace(report)
}

var backslashed = strings.NewReplacer(`\`, `\\`, `?`, `\?`, `>`, `\>`, `&`, `\&`, ` `, `\ `, `'`, `\'`, `"`, `\"`, `$`, `\$`, `{`, `\{`, `}`, `\}`)

func (p bash) command(d dir, r request) (file, wrapper, control string) {
	// The text that reports the status has its own line, because bash drops the rest of a line
	// after an error.
	dot := `\builtin .`
	if len(r.env) > 0 {
		dot = envPrefix(r.env) + `\command .` // before `builtin`, the variables would not be exported
	}
	// The redirection of stdin is not one of the eval, because bash undoes those before it runs a
	// trap on EXIT: the trap would read the control text.
	control = fmt.Sprintf("%s %s <%s\n%s\n", dot, d.command(), r.stdin, p.status(d, r.token))
	if p.old {
		// bash 3.2 makes the redirection of a builtin permanent when the command uses exec, so
		// the redirections are those of a group.
		control = fmt.Sprintf("{ %s %s; } <%s >%s 2>%s\n%s\n", dot, d.command(), r.stdin, r.stdout, r.stderr, p.status(d, r.token))
	}
	if r.lastStatus != 0 {
		control = d.setLast(`\builtin .`) + control
	}
	if p.old {
		return `\builtin eval ` + bashQuote(noOption(r.text)) + "\n", "", control
	}
	return fmt.Sprintf("\\builtin eval %s >%s 2>%s\n", bashQuote(noOption(r.text)), r.stdout, r.stderr), "", control
}

// bashQuote turns s into one word of a POSIX shell. It uses double quotes, because in a UTF-8 locale
// bash takes quadratic time for a word of many single-quoted pieces. History expansion is off, so
// `!` needs no care.
func bashQuote(s string) string { return `"` + bashEscapes.Replace(s) + `"` }

var bashEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")

func (p bash) ping(d dir, token string) string { return p.status(d, token) + "\n" }

func (bash) source(file string) string { return `\builtin . ` + file }
func (bash) scopesEnv() bool           { return false }

func (bash) enter(r request) string { return posixEnter(r) }
func (bash) leave(r request) string { return posixLeave(r) }

func (bash) unset(name string) string { return `\builtin unset ` + name }

// sourcePipe uses eval, because bash 3.2 cannot source a FIFO.
func (bash) sourcePipe(file string) string {
	return `{ \builtin eval "$(<` + file + `)"; } >/dev/null 2>&1`
}

func (bash) statements(text string) []statement { return posixStatements(text) }

func (bash) restore(st *State) string {
	own := func(v statement) bool { return bashOwn()[v.name] || strings.HasPrefix(v.name, "BASH") }
	return st.goTo(builtin, "cd -- ") + st.definitions(own) + st.setOptions(builtin)
}

// bashOwn has the variables that are not restored: a new shell sets them itself, or they cannot
// be assigned.
var bashOwn = set("_ DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD LINENO OPTIND PIPESTATUS PPID PWD PS1 PS2 RANDOM " +
	"SHELLOPTS SHLVL SRANDOM UID TMOUT HISTFILE __trl_i")
