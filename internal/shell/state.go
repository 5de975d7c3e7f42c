package shell

import (
	"bytes"
	"slices"
	"strings"
)

// State is the state that a shell reported in a dump: variables, functions, aliases, options and
// so on, enough to bring another shell into it. It is kept in memory only.
type State struct {
	vars, exports, readonly []statement
	functions               string
	aliases                 []statement
	options                 string
	umask                   string
	cwd                     string
	params                  []string
}

// statement is one definition as the shell printed it.
type statement struct {
	name  string
	flags string // the option letters of declare or typeset
	text  string
}

// The sections of a dump, in order. They stand between "state" and "end", and each ends with a
// NUL.
const (
	secVars = iota + 1
	secExports
	secReadonly
	secFunctions
	secAliases
	secOptions
	secUmask
	secCwd
	secParams
	secEnd
)

// maxDump limits the size of a dump. A larger state is not kept.
const maxDump = 64 << 20

const (
	dumpBegin = "state\x00"
	dumpEnd   = "\x00end\x00"
)

// parseDump parses a dump, which ends with dumpEnd. It skips anything before the last dumpBegin:
// that is a dump that was cut off. It returns nil if b is not a dump.
func parseDump(b []byte, statements func(string) []statement) *State {
	i := bytes.LastIndex(b, []byte(dumpBegin))
	for i > 0 && b[i-1] != 0 {
		i = bytes.LastIndex(b[:i], []byte(dumpBegin))
	}
	if i < 0 || !bytes.HasSuffix(b, []byte(dumpEnd)) {
		return nil
	}
	sections := strings.Split(string(b[i:len(b)-1]), "\x00")
	if len(sections) != secEnd+1 {
		return nil
	}
	st := &State{
		vars: statements(sections[secVars]), exports: statements(sections[secExports]), readonly: statements(sections[secReadonly]),
		functions: sections[secFunctions], aliases: statements(sections[secAliases]),
		options: sections[secOptions], umask: strings.TrimSpace(sections[secUmask]), cwd: sections[secCwd],
	}
	for _, p := range strings.SplitAfter(sections[secParams], "\x01") {
		if p, ok := strings.CutSuffix(p, "\x01"); ok {
			st.params = append(st.params, p)
		}
	}
	return st
}

// posixStatements splits a listing of definitions at its unquoted newlines.
func posixStatements(text string) []statement {
	var list []statement
	for text != "" {
		n := statementLen(text)
		line := strings.TrimSuffix(text[:n], "\n")
		text = text[n:]
		if line != "" {
			list = append(list, newStatement(line))
		}
	}
	return list
}

// statementLen returns the length of the first statement, including its newline.
func statementLen(text string) int {
	const (
		plain    = 0
		single   = '\''
		double   = '"'
		ansi     = '$' // $'…', where a backslash quotes
		newline  = '\n'
		escaping = '\\'
	)
	mode := plain
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch mode {
		case plain:
			switch c {
			case newline:
				return i + 1
			case escaping:
				i++
			case single:
				mode = single
				if i > 0 && text[i-1] == '$' {
					mode = ansi
				}
			case double:
				mode = double
			}
		case single:
			if c == single {
				mode = plain
			}
		case double, ansi:
			if c == escaping {
				i++
			} else if (mode == double && c == double) || (mode == ansi && c == single) {
				mode = plain
			}
		}
	}
	return len(text)
}

// newStatement finds the name in `NAME=…`, `declare -x NAME=…`, `typeset -g -i10
// NAME=…`, `export -T NAME name=(…)`, `alias NAME=…`.
func newStatement(text string) statement {
	st := statement{text: text}
	rest := text
	for _, w := range []string{"declare ", "typeset ", "export ", "readonly ", "local ", "set "} {
		if r, ok := strings.CutPrefix(rest, w); ok {
			rest = r
			break
		}
	}
	for strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "+") {
		flag, r, ok := strings.Cut(rest, " ")
		if strings.HasPrefix(flag, "-") {
			st.flags += strings.TrimLeft(flag, "-")
		}
		if rest = r; !ok {
			break
		}
	}
	end := strings.IndexAny(rest, "= \t")
	if end < 0 {
		end = len(rest)
	}
	st.name = rest[:end]
	return st
}

// environState returns the state of a POSIX shell that has only the variables of env.
func environState(env []string) *State {
	st := &State{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		st.vars = append(st.vars, statement{name: name, text: "export " + name + "=" + quote(value)})
		st.exports = append(st.exports, statement{name: name})
	}
	return st
}

// withDefinitions returns a copy of the state in which the variables named in keys are as in old,
// or absent if old lacks them. This undoes a command's own environment.
func (st *State) withDefinitions(keys map[string]bool, old *State) *State {
	merged := *st
	merged.vars = replaceNamed(st.vars, old.vars, keys)
	merged.exports = replaceNamed(st.exports, old.exports, keys)
	merged.readonly = replaceNamed(st.readonly, old.readonly, keys)
	return &merged
}

// isReadonly reports whether a variable is readonly.
func (st *State) isReadonly(name string) bool {
	is := func(s statement) bool { return s.name == name }
	return slices.ContainsFunc(st.readonly, is) ||
		slices.ContainsFunc(st.vars, func(s statement) bool { return is(s) && strings.Contains(s.flags, "r") })
}

func replaceNamed(list, old []statement, keys map[string]bool) []statement {
	var out []statement
	for _, s := range list {
		if !keys[s.name] {
			out = append(out, s)
		}
	}
	for _, s := range old {
		if keys[s.name] {
			out = append(out, s)
		}
	}
	return out
}

// definitions returns a script that sets variables, functions, aliases, positional parameters and
// umask, for a shell that prints definitions with their attributes. It leaves out the variables
// for which own is true, which a new shell sets itself, and sets readonly variables after the others.
// Functions and aliases come after all declarations, which they could replace.
func (st *State) definitions(own func(statement) bool) string {
	var b, readonly strings.Builder
	for _, v := range st.vars {
		switch {
		case own(v):
		case strings.Contains(v.flags, "r"):
			readonly.WriteString(v.text + "\n")
		default:
			b.WriteString(v.text + "\n")
		}
	}
	b.WriteString(readonly.String() + st.functions + "\n")
	for _, a := range st.aliases {
		b.WriteString(builtin + a.text + "\n")
	}
	return b.String() + st.positional(builtin) + st.umaskText(builtin)
}

// unset returns the names in env that the state does not have. A new shell gets them from its
// environment, so they must be unset.
func (st *State) unset(env []string) []string {
	have := map[string]bool{}
	for _, list := range [][]statement{st.vars, st.exports} {
		for _, s := range list {
			have[s.name] = true
		}
	}
	var names []string
	for _, e := range env {
		if name, _, _ := strings.Cut(e, "="); !have[name] {
			names = append(names, name)
		}
	}
	return names
}

// positional returns a line that sets $1, $2, …
func (st *State) positional(by string) string {
	if len(st.params) == 0 {
		return ""
	}
	b := []byte(by + "set --")
	for _, p := range st.params {
		b = append(append(b, ' '), quote(p)...)
	}
	return string(b) + "\n"
}

// umaskText returns a line that sets the umask.
func (st *State) umaskText(by string) string {
	if st.umask == "" || strings.Trim(st.umask, "01234567") != "" {
		return ""
	}
	return by + "umask " + st.umask + "\n"
}

// setOptions returns the lines that set the options of a POSIX shell.
func (st *State) setOptions(by string) string { return sortOptions(by, st.options, ownOptions()) }

// sortOptions returns lines, each after by, without those of own options, and puts the options that could end or
// disturb the restoring script last. The last word of each line is the option's name.
func sortOptions(by, lines string, own map[string]bool) string {
	var first, last strings.Builder
	for line := range strings.Lines(lines) {
		line = strings.TrimSuffix(line, "\n")
		name := line[strings.LastIndexByte(line, ' ')+1:]
		switch {
		case name == "" || own[name]:
		case name == "errexit" || name == "nounset" || name == "unset" || name == "xtrace" || name == "verbose":
			last.WriteString(by + line + "\n")
		default:
			first.WriteString(by + line + "\n")
		}
	}
	return first.String() + last.String()
}

// ownOptions are not restored: they must stay as the bootstrap sets them, or cannot be set.
var ownOptions = set("monitor history histexpand emacs vi noexec interactive stdin checkwinsize huponexit login_shell restricted_shell privileged")

// goTo returns a line that goes to the directory of the state if a startup file has left it, with the
// builtin cd.
func (st *State) goTo(by, cd string) string {
	if !strings.HasPrefix(st.cwd, "/") {
		return ""
	}
	return "case $PWD in " + quote(st.cwd) + ") ;; *) " + by + cd + quote(st.cwd) + "; " + by + "unset OLDPWD;; esac\n"
}
