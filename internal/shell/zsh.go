package shell

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
)

// zsh runs as an interactive shell without a terminal and without its line editor, zle.
type zsh struct{}

func (zsh) argv(login, rc bool) []string {
	args := []string{"-i", "+m", "-s"}
	if login {
		args = append(args, "-l")
	}
	if !login && !rc {
		args = append([]string{"-f"}, args...)
	}
	return args
}

func (zsh) terminal() bool { return false }
func (zsh) script() bool   { return false }
func (zsh) byLine() bool   { return false }
func (zsh) reap() string   { return "" }

// interrupts begins with SIGINT, which only sets a flag in zsh. The trap on SIGURG would flush
// text that zsh is just writing, and the text would be written twice.
func (zsh) interrupts() []syscall.Signal { return []syscall.Signal{syscall.SIGINT, syscall.SIGURG} }

func (zsh) bootstrap(d dir, _ beginning) string {
	// The defaults of zsh (NOMATCH, no word splitting) remain; only history expansion and the
	// noise of prompts are switched off.
	return "PS1= PS2= RPS1=\n" +
		`\builtin unsetopt banghist promptsp promptcr zle monitor beep; \builtin setopt interactivecomments; \builtin unset HISTFILE TMOUT` + "\n" +
		`\builtin trap '\builtin trap - INT; \builtin kill -INT $$' URG` + "\n" +
		`\builtin trap '{ \builtin . ` + d.dumpFile() + ` } 2>/dev/null' EXIT` + "\n"
}

// dump uses nothing that depends on zsh's own emulation mode, because the user may have changed
// the mode.
func (zsh) dump(d dir) string {
	return `{ \builtin printf 'state\0'; \builtin typeset -p; \builtin printf '\0\0\0'; \builtin typeset -f; \builtin printf '\0'; \builtin alias -L; \builtin printf '\0'; ` +
		`\builtin set +o; \builtin printf '\0'; \builtin umask; \builtin printf '\0%s\0' "${PWD-}"; ` +
		`[ $# = 0 ] || \builtin printf '%s\1' "$@"; \builtin printf '\0end\0'; } >|` + d.statePath + " 2>/dev/null\n"
}

func (zsh) status(d dir, token string) string {
	return `\builtin printf '%s %s %s\0' ` + token + ` "$?" "${PWD-}" >` + d.statusPath
}

func (p zsh) command(d dir, r request) (file, wrapper, control string) {
	set := ""
	if r.lastStatus != 0 {
		set = d.setLast(`\builtin .`)
	}
	// The redirections are those of a group, because otherwise xtrace would print to the wrong
	// stderr. $(<file) drops newlines at the end of the text, which does no harm. Short texts
	// are faster inline. The script of enter sets the environment, because zsh does not export
	// assignments before a builtin.
	text := quote(noOption(r.text))
	if len(r.text) >= 2048 {
		file, text = r.text, `"$(<`+d.command()+`)"`
	}
	control = fmt.Sprintf("%s{ \\builtin eval %s; } <%s >%s 2>%s\n%s\n", set, text, r.stdin, r.stdout, r.stderr, mutely+p.status(d, r.token))
	return file, "", control
}

func (p zsh) ping(d dir, token string) string { return p.status(d, token) + "\n" }

func (zsh) source(file string) string { return `\builtin . ` + file }

func (zsh) scopesEnv() bool { return true }

func (zsh) enter(r request) string {
	var b strings.Builder
	for i, e := range r.env {
		fmt.Fprintf(&b, "\\builtin typeset -g __trl_t%d=${(t)%s-} __trl_o%d=\"${%s-}\"; \\builtin export %s=%s\n", i, e.key, i, e.key, e.key, quote(e.value))
	}
	if r.workingDir != "" {
		b.WriteString("\\builtin typeset -g __trl_p=${PWD-} __trl_q=${OLDPWD-}\n\\builtin cd -q -- " + quote(r.workingDir) + "\n")
	}
	return asZsh(b.String())
}

func (zsh) leave(r request) string {
	var b strings.Builder
	for i, e := range r.env {
		// A variable of enter that is unset has been dealt with, before leave was cut off. Only special
		// variables stay readonly.
		fmt.Fprintf(&b, "if [[ ${(t)%[2]s} = *readonly* && ${(t)%[2]s} != *special* ]]; then \\builtin typeset -g +r %[2]s; fi\n", i, e.key)
		fmt.Fprintf(&b, "if [[ -z ${__trl_t%[1]d+x} ]]; then :; elif [[ -n $__trl_t%[1]d ]]; then %[2]s=$__trl_o%[1]d; if [[ $__trl_t%[1]d = *export* ]]; then \\builtin export %[2]s; else \\builtin typeset -g +x %[2]s; fi; else \\builtin unset %[2]s; fi; \\builtin unset __trl_t%[1]d __trl_o%[1]d\n", i, e.key)
	}
	if r.workingDir != "" {
		b.WriteString("[[ -z ${__trl_q-} ]] || \\builtin cd -q -- \"$__trl_q\"; \\builtin cd -q -- \"${__trl_p-/}\"; OLDPWD=${__trl_q-}; \\builtin unset __trl_p __trl_q\n")
	}
	return asZsh(b.String())
}

// asZsh returns a script that runs script in zsh's own emulation mode, whichever mode the user has
// chosen.
func asZsh(script string) string {
	if script == "" {
		return ""
	}
	return `\builtin emulate zsh -c ` + quote(script) + "\n"
}

func (zsh) unset(name string) string { return `\builtin unset ` + name }

func (zsh) sourcePipe(file string) string {
	return `{ \builtin eval "$(<` + file + `)"; } >/dev/null 2>&1`
}

func (zsh) statements(text string) []statement { return posixStatements(text) }

func (zsh) restore(st *State) string {
	own := func(v statement) bool {
		return zshOwn()[v.name] || !strings.Contains(v.text, "=") || strings.HasPrefix(v.name, "ZSH_")
	}
	// zsh remembers the directory for `cd -` itself and ignores OLDPWD, so the script goes
	// there and back. __trl_p and __trl_q may be those of enter, which leave needs.
	previous := `__trl_s=${OLDPWD-}; [[ -z $__trl_s ]] || { __trl_r=$PWD; \builtin cd -q -- "$__trl_s" && \builtin cd -q -- "$__trl_r"; }; \builtin unset __trl_r __trl_s` + "\n"
	return st.goTo(builtin, "cd -q -- ") + st.definitions(own) + previous + sortOptions(builtin, st.options, zshOwnOptions())
}

// zshOwn has the parameters that are not restored: a new shell sets them itself, they cannot be
// assigned, or assigning them has an effect (UID changes the user).
var zshOwn = set("! # $ * - 0 ? @ _ PWD ARGC argv EGID EUID GID UID USERNAME HISTCMD LINENO PPID RANDOM TTYIDLE TTY status pipestatus COLUMNS LINES SHLVL " +
	"TRY_BLOCK_ERROR TRY_BLOCK_INTERRUPT zsh_eval_context EPOCHREALTIME EPOCHSECONDS epochtime OPTIND PS1 PS2 PROMPT PROMPT2 prompt RPS1 RPROMPT TMOUT HISTFILE " +
	"signals MODULE_PATH module_path")

// zshOwnOptions are not restored: they are fixed when the shell starts, or must stay as the
// bootstrap sets them.
var zshOwnOptions = set("interactive login monitor privileged restricted shinstdin singlecommand zle rcs globalrcs promptsp promptcr banghist exec beep interactivecomments")

// set returns the words as a set, which is made at the first call: a session has one shell.
func set(words string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		m := map[string]bool{}
		for w := range strings.FieldsSeq(words) {
			m[w] = true
		}
		return m
	})
}
