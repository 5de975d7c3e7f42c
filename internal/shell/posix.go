package shell

import (
	"fmt"
	"strings"
	"syscall"
)

// dash runs as an interactive shell without a terminal: only an interactive shell returns to its
// input after an interrupt instead of exiting. `command .` catches every error of the sourced
// text, including syntax errors.
//
// Its control text is a script file. It could not be its stdin: a trap on EXIT would read it,
// because dash undoes the redirections of the command before it runs the trap.
type dash struct{}

// argv has no -l: see posixBegin.
func (dash) argv(_, _ bool) []string { return []string{"-i", "+m"} }

func (dash) terminal() bool               { return false }
func (dash) script() bool                 { return true }
func (dash) byLine() bool                 { return false }
func (dash) interrupts() []syscall.Signal { return urgThenINT }

// bootstrap uses eval for the prompts, because a profile may have made them readonly.
func (dash) bootstrap(d dir, b beginning) string {
	return posixBegin(b, `\command .`) + "\\command eval 'PS1= PS2='\n" + posixTraps(d)
}

// posixBegin returns control text that leads a shell from the private directory to its own, and
// then reads the startup files, which must not see the private one. A shell in another directory
// could not name its script by one word, and the name of the script is $0, and in every message. PS1
// stays as it is, because startup files ask whether it is empty.
func posixBegin(b beginning, dot string) string {
	var t strings.Builder
	t.WriteString("__trl_p=" + quote(b.cwd) + "\n" +
		`until \command cd -- "${__trl_p:-/}" 2>/dev/null; do __trl_p=${__trl_p%/*}; done; \command unset __trl_p OLDPWD` + "\n")
	read := func(file string) {
		t.WriteString(`\command test -r ` + file + " && " + dot + " " + file + "\n")
	}
	if b.env != "" {
		t.WriteString("ENV=" + quote(b.env) + "; \\command export ENV\n")
	}
	if b.login {
		read("/etc/profile")
		read(`"${HOME-}/.profile"`)
	}
	if b.rc || b.login {
		// The profile may have set ENV. A value that cannot be expanded is an error of a subshell only.
		t.WriteString(`__trl_p=$(\eval "\printf %s \"${ENV-}\"" 2>/dev/null) || :` + "\n")
		read(`"${__trl_p-}"`)
		t.WriteString("\\command unset __trl_p\n")
	}
	return t.String()
}

func posixTraps(d dir) string {
	// Processes ignore SIGURG by default, so it cannot harm a child. In the shell, the trap
	// turns it into an interrupt at a safe point.
	return `\command trap '\command trap - INT; \command kill -INT $$' URG` + "\n" +
		`\command trap '` + posixExitTrap(d) + "' EXIT\n"
}

func posixExitTrap(d dir) string { return `{ \command . ` + d.dumpFile() + `; } 2>/dev/null` }

func (dash) dump(d dir) string { return posixDump(d) }

// posixDump returns a script that prints the state that a POSIX shell can print, each section
// ended by a NUL. These shells cannot print functions.
func posixDump(d dir) string {
	return `{ \command printf 'state\0'; \command set; \command printf '\0'; \command export -p; \command printf '\0'; \command readonly -p; ` +
		`\command printf '\0\0'; \command alias; \command printf '\0'; \command set +o; \command printf '\0'; \command umask; \command printf '\0%s\0' "${PWD-}"; ` +
		`for __trl_i do \command printf '%s\1' "$__trl_i"; done; \command printf '\0end\0'; } >|` + d.statePath + " 2>/dev/null\n\\command unset __trl_i\n"
}

func (dash) status(d dir, token string) string {
	return `\command printf '%s %s %s\0' ` + token + ` "$?" "${PWD-}" >` + d.statusPath
}

func (p dash) command(d dir, r request) (file, wrapper, control string) {
	// The text that reports the status is on the same line, because dash drops its input buffer
	// when it returns to the top level. `command` prevents that for errors.
	control = fmt.Sprintf("%s\\command . %s; %s\n", envPrefix(r.env), d.command(), mutely+p.status(d, r.token))
	if r.lastStatus != 0 {
		control = d.setLast(`\command .`) + control
	}
	return evalScript(quote(noOption(r.text)), r), "", control
}

// noOption returns a command text that eval does not take for an option: bash, also as sh, rejects a
// text that begins with a hyphen. A space does it in every shell, while older ones would run a `--`.
func noOption(text string) string {
	if strings.HasPrefix(text, "-") {
		return " " + text
	}
	return text
}

// evalScript returns the content of a command file. The redirections belong to the eval, so that
// `set -x` or a trap on ERR prints our own lines to the sink instead of to the command's output.
// The eval keeps the file's path out of error messages.
func evalScript(quoted string, r request) string {
	return fmt.Sprintf("\\eval %s <%s >%s 2>%s\n", quoted, r.stdin, r.stdout, r.stderr)
}

func (p dash) ping(d dir, token string) string { return p.status(d, token) + "\n" }

// reap uses `jobs`, which reaps the children that have ended; with -p it forgets no job.
func (dash) reap() string { return `\command jobs -p >/dev/null 2>&1` }

func (dash) source(file string) string { return `\command . ` + file }
func (dash) scopesEnv() bool           { return false }

func (dash) enter(r request) string   { return posixEnter(r) }
func (dash) leave(r request) string   { return posixLeave(r) }
func (dash) unset(name string) string { return `\command unset ` + name }

func (dash) sourcePipe(file string) string { return `{ \command . ` + file + `; } >/dev/null 2>&1` }

func (dash) statements(text string) []statement { return posixStatements(text) }

func (dash) restore(st *State) string {
	var b strings.Builder
	b.WriteString(st.goTo(command, "cd -- "))
	for _, v := range st.vars {
		if !posixOwn[v.name] {
			b.WriteString(v.text + "\n")
		}
	}
	for _, v := range st.exports {
		// A listing also has "export NAME" alone, for a variable that is marked but unset.
		if !posixOwn[v.name] {
			b.WriteString(command + "export " + v.name + "\n")
		}
	}
	for _, a := range st.aliases {
		b.WriteString(command + "alias " + a.text + "\n")
	}
	b.WriteString(st.positional(command))
	for _, v := range st.readonly {
		if !posixOwn[v.name] {
			b.WriteString(command + "readonly " + v.name + "\n")
		}
	}
	b.WriteString(st.umaskText(command))
	b.WriteString(st.setOptions(command))
	return b.String()
}

// posixOwn has the variables that are not restored, because a new shell sets them itself.
var posixOwn = map[string]bool{"PPID": true, "PWD": true, "_": true, "LINENO": true, "OPTIND": true, "PS1": true, "PS2": true, "__trl_i": true, "HISTFILE": true}

// ash is the shell of busybox. It is driven like dash, with two differences:
//   - Its `command` must not be used to catch errors: after an error in a subshell, the subshell
//     would loop endlessly. So an error makes it drop the control text that it has read.
//   - Its stdin must not be the control text for one reason more: some builds run other applets
//     (sort, head) in a fork of the shell, without exec. These would find what the shell has read
//     ahead.
type ash struct{ dash }

func (ash) byLine() bool { return true }

// interrupts has no SIGINT: one from outside can deadlock ash in malloc. The trap on SIGURG sends
// it at a safe point.
func (ash) interrupts() []syscall.Signal { return []syscall.Signal{syscall.SIGURG} }

func (ash) bootstrap(d dir, b beginning) string {
	return "unset HISTFILE\n" + posixBegin(b, `\.`) + "PS1= PS2=\n" + posixTraps(d)
}

func (p ash) command(d dir, r request) (file, wrapper, control string) {
	// The text that reports the status has its own line, because ash drops the rest of a line
	// after an error. The script of enter sets the environment, because assignments before a
	// special builtin would remain.
	control = fmt.Sprintf("\\. %s\n%s\n", d.command(), mutely+p.status(d, r.token))
	if r.lastStatus != 0 {
		control = d.setLast(`\.`) + control
	}
	// An ash that cannot undo a redirection complains with the name of the builtin around it, and
	// without one with the path of the file. Hence the second eval.
	script := strings.TrimSuffix(evalScript(quote(noOption(r.text)), r), "\n")
	return `\eval ` + bashQuote(script) + "\n", "", control
}

func (ash) source(file string) string { return `\. ` + file }

func (ash) scopesEnv() bool { return true }

func (ash) enter(r request) string {
	var b strings.Builder
	for i, e := range r.env {
		// __trl_t is x for an exported variable, p for a plain one, and empty for one that is
		// unset. It is itself unset if the shell could not fork for $(); then leave changes
		// nothing. The list may have "export NAME=" in the value of another variable, so it is
		// compared with the list without the variable. The colons give $_ the same value in both.
		fmt.Fprintf(&b, "case \"$(\\export -p)\" in *\"export %[2]s=\"*) "+
			"case \"$(\\:; \\export -p)\" in \"$(\\unset %[2]s; \\:; \\export -p)\") __trl_t%[1]d=${%[2]s+p};; *) __trl_t%[1]d=x;; esac;; "+
			"*) __trl_t%[1]d=${%[2]s+p};; esac; __trl_o%[1]d=${%[2]s-}; \\export %[2]s=%[3]s\n", i, e.key, quote(e.value))
	}
	return b.String() + posixEnter(r)
}

func (ash) leave(r request) string {
	var b strings.Builder
	for i, e := range r.env {
		fmt.Fprintf(&b, "case ${__trl_t%[1]d-never} in never) ;; x) \\export %[2]s=\"$__trl_o%[1]d\";; p) \\unset %[2]s; %[2]s=$__trl_o%[1]d;; *) \\unset %[2]s;; esac; \\unset __trl_t%[1]d __trl_o%[1]d\n", i, e.key)
	}
	return b.String() + posixLeave(r)
}

func (ash) sourcePipe(file string) string { return `{ \. ` + file + `; } >/dev/null 2>&1` }
