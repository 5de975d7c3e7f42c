package shell

import (
	"fmt"
	"strings"
	"syscall"
)

// fish reads a piped stdin to its end before it runs anything, so it gets a terminal of its own.
// TRL types short lines to it and puts longer text into scripts. Commands still get FIFOs.
type fish struct{}

func (fish) argv(login, rc bool) []string {
	args := []string{"-i"}
	if !login && !rc {
		args = append(args, "-N")
	}
	if login {
		args = append(args, "-l")
	}
	return args
}

func (fish) terminal() bool               { return true }
func (fish) script() bool                 { return false }
func (fish) byLine() bool                 { return false }
func (fish) reap() string                 { return "" }
func (fish) interrupts() []syscall.Signal { return []syscall.Signal{syscall.SIGINT} }

// statements splits a listing of dump: the name of each variable after a \001, then a line with each
// of its values. `string escape` leaves neither a newline nor a \001 in a value.
func (fish) statements(text string) []statement {
	var list []statement
	for record := range strings.SplitSeq(text, "\001") {
		if lines := strings.Split(strings.TrimSuffix(record, "\n"), "\n"); lines[0] != "" {
			list = append(list, statement{name: lines[0], text: strings.Join(lines, " ")})
		}
	}
	return list
}

func (fish) bootstrap(d dir, _ beginning) string {
	return "function fish_prompt; end; function fish_right_prompt; end; function fish_greeting; end; function fish_title; end\n" +
		"set -g fish_autosuggestion_enabled 0; set -g fish_history ''\n" +
		"function __trl_last; return $argv[1]; end\n" +
		"function __trl_exit --on-event fish_exit; builtin source " + d.dumpFile() + "; end\n" +
		"set -g __trl_f (builtin functions --names)\n"
}

// dump prints the variables without command substitutions, which are slow, and functions only if
// there are others than at the start. It prints nothing when fish has no descriptors left for the
// substitutions that it needs, because the state would lack all variables. `string escape` reads
// stdin, which is empty, for a variable without a value.
func (fish) dump(d dir) string {
	const list = `builtin printf '\001%s\n' $__trl_n; builtin string escape -- $$__trl_n; end`
	return `begin
set -g __trl_a (set --names --global --unexport)
set -g __trl_b (set --names --global --export)
set -g __trl_g (builtin functions --names)
set -q __trl_a[1]; and set -q __trl_g[1]; or return
builtin printf 'state\0'
for __trl_n in $__trl_a; ` + list + `
builtin printf '\0'
for __trl_n in $__trl_b; ` + list + `
builtin printf '\0\0'
builtin test "$__trl_g" = "$__trl_f"; or for __trl_n in $__trl_g
  builtin contains -- $__trl_n $__trl_f; or builtin functions --no-details $__trl_n
end
builtin printf '\0\0\0'
umask
builtin printf '\0%s\0\0end\0' "$PWD"
set -e __trl_n __trl_a __trl_b __trl_g
end >` + d.statePath + " 2>/dev/null </dev/null\n"
}

func (fish) status(d dir, token string) string {
	return `builtin printf '%s %s %s\0' ` + token + ` $status "$PWD" >` + d.statusPath
}

func (p fish) ping(d dir, token string) string { return p.status(d, token) + "\n" }

func (p fish) command(d dir, r request) (file, wrapper, control string) {
	// The command is a sourced file, because `exit` only leaves that file, and the status
	// below is reported nevertheless.
	wrapper = fmt.Sprintf("begin\n__trl_last %d\nbuiltin source %s\nend <%s >%s 2>%s\n%s\n", r.lastStatus, d.command(), r.stdin, r.stdout, r.stderr, p.status(d, r.token))
	return r.text + "\n", wrapper, p.source(d.wrapper()) + "\n"
}

func (fish) source(file string) string { return "builtin source " + file }

func (fish) scopesEnv() bool { return true }

func (fish) enter(r request) string {
	if len(r.env) == 0 && r.workingDir == "" {
		return ""
	}
	var b strings.Builder
	for i, e := range r.env {
		fmt.Fprintf(&b, "if set -qgx %[2]s; set -g __trl_t%[1]d x; else if set -qg %[2]s; set -g __trl_t%[1]d p; else; set -g __trl_t%[1]d u; end; set -g __trl_o%[1]d $%[2]s; set -gx %[2]s %[3]s\n", i, e.key, fishQuote(e.value))
	}
	b.WriteString("builtin true\n") // set does not change the status
	if r.workingDir != "" {
		b.WriteString("set -g __trl_p $PWD\nbuiltin cd -- " + fishQuote(r.workingDir) + "\n")
	}
	return b.String()
}

func (fish) leave(r request) string {
	var b strings.Builder
	for i, e := range r.env {
		fmt.Fprintf(&b, "switch \"$__trl_t%[1]d\"; case x; set -gx %[2]s $__trl_o%[1]d; case p; set -gu %[2]s $__trl_o%[1]d; case '*'; set -eg %[2]s; end; set -eg __trl_t%[1]d; set -eg __trl_o%[1]d\n", i, e.key)
	}
	if r.workingDir != "" {
		b.WriteString("builtin cd -- $__trl_p; set -eg __trl_p\n")
	}
	return b.String()
}

func (fish) unset(name string) string { return "set -e " + name }

// sourcePipe uses stdin, the only way in which fish sources a pipe.
func (fish) sourcePipe(file string) string { return "builtin source - <" + file + " >/dev/null 2>&1" }

func (fish) restore(st *State) string {
	var b strings.Builder
	if strings.HasPrefix(st.cwd, "/") {
		b.WriteString("builtin test $PWD = " + fishQuote(st.cwd) + "; or builtin cd -- " + fishQuote(st.cwd) + "\n")
	}
	for set, list := range map[string][]statement{"set -g ": st.vars, "set -gx ": st.exports} {
		for _, v := range list {
			if !fishOwn()[v.name] && !strings.HasPrefix(v.name, "__fish") {
				b.WriteString(set + v.text + "\n")
			}
		}
	}
	b.WriteString(st.functions + "\n")
	b.WriteString(st.umaskText(""))
	return b.String()
}

// fishOwn has the variables that are not restored: a new shell sets them itself, or they cannot
// be assigned.
var fishOwn = set("PWD SHLVL _ fish_pid hostname status status_generation pipestatus version FISH_VERSION fish_kill_signal fish_killring history " +
	"umask EUID COLUMNS LINES CMD_DURATION fish_history fish_autosuggestion_enabled argv __trl_a __trl_b __trl_f __trl_g __trl_n")

// fishQuote turns s into one word of fish.
func fishQuote(s string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", `\'`) + "'"
}
