package runner_test

import (
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// deaths end the shell in every way a command can.
var deaths = map[string]struct {
	command string
	code    int
}{
	"exit":    {"exit 3", 3},
	"exec":    {"exec sh -c 'exit 4'", 4},
	"kill -9": {"kill -9 $$", 137},
	"crash":   {"kill -SEGV $$", 139},
	"errexit": {"set -e; false", 1},
}

var fishDeaths = map[string]struct {
	command string
	code    int
}{
	// In fish, exit leaves a sourced file, not the shell: see docs/shells.md.
	"exec":    {"exec sh -c 'exit 4'", 4},
	"kill -9": {"kill -9 $fish_pid", 137},
}

// states set something in one command and look at it in another.
var states = []struct {
	name   string
	shells string // which shells, by initial: d, a, b, z, f
	set    string
	get    string
	want   string
}{
	{"directory", "dabz", "cd /usr/lib", "pwd", "/usr/lib\n"},
	{"previous directory", "dabz", "true", "cd - >/dev/null && pwd && cd - >/dev/null", "/tmp\n"},
	{"variable", "dabz", `V="it's \"1\" \$x"; W='a
b'`, `printf '%s|%s' "$V" "$W"`, "it's \"1\" $x|a\nb"},
	{"not exported", "dabz", "N=1", "sh -c 'echo ${N-unset}'", "unset\n"},
	{"exported", "dabz", "export E='x y'", "sh -c 'echo $E'", "x y\n"},
	{"unexported again", "dabz", "unset HOME", "sh -c 'echo ${HOME-unset}'", "unset\n"},
	{"path", "dabz", "PATH=$PATH:/opt/trl", `sh -c 'echo "${PATH##*:}"'`, "/opt/trl\n"},
	{"readonly", "dabz", "readonly R=1", "(R=2) 2>/dev/null; echo $R", "1\n"},
	{"function", "bz", `f() { echo "f: $1"; }`, "f x", "f: x\n"},
	{"array", "bz", "A=(1 'b c' 3)", `printf '<%s>' "${A[@]}"`, "<1><b c><3>"},
	{"alias", "dabz", `alias ll='echo "it'"'"'s ll"'`, "ll", "it's ll\n"},
	{"option", "dab", "set -f", "echo /e*c; set +f", "/e*c\n"},
	{"nounset", "dabz", "set -u", `(echo "$NOPE") 2>/dev/null || echo strict`, "strict\n"},
	{"pipefail", "bz", "set -o pipefail", "false | true; echo $?", "1\n"},
	{"shopt", "b", "shopt -s nullglob", "echo /nope*x.", "\n"},
	{"setopt", "z", "setopt nullglob", "echo /nope*x.", "\n"},
	{"umask", "dabzf", "umask 027", "umask | tail -c 4", "027\n"},
	{"positional", "dabz", "set -- a 'b c'", `echo "$#:$2"`, "2:b c\n"},
	{"assoc", "z", "typeset -A m; m[k]='v w'", "echo ${m[k]}", "v w\n"},
	{"assoc bash", "b", "declare -A m; m[k]='v w'", "echo ${m[k]}", "v w\n"},
	{"fish directory", "f", "cd /usr/lib", "pwd", "/usr/lib\n"},
	{"fish variable", "f", `set -g V "it's" "a b"; set -gx E 'x y'`, `printf '<%s>' $V; sh -c 'echo $E'`, "<it's><a b>x y\n"},
	{"fish function", "f", "function f; echo f: $argv; end", "f x", "f: x\n"},
}

// TestStateSurvivesTheShell: however a command ends the shell, the session goes
// on with the state it had, and the result tells the truth.
func TestStateSurvivesTheShell(t *testing.T) {
	for _, sh := range []string{"dash", "ash", "bash", "zsh", "fish"} {
		if !installed(sh) {
			t.Logf("NOT TESTED: %s is not installed", sh)
			continue
		}
		all := deaths
		if sh == "fish" {
			all = fishDeaths
		}
		for name, death := range all {
			t.Run(sh+"/"+name, func(t *testing.T) {
				d := start(t, api.SessionCreateParams{Shell: sh, WorkingDir: "/tmp"})
				for _, st := range states {
					if !strings.Contains(st.shells, sh[:1]) {
						continue
					}
					if r := d.run(st.set); r.ExitCode != 0 {
						t.Errorf("%s: set: %d %q", st.name, r.ExitCode, r.stderr)
					}
				}
				r := d.run(death.command)
				if r.ExitCode != death.code || !r.ShellRestarted {
					t.Errorf("%q: exit code %d, restarted %v, want %d, true", death.command, r.ExitCode, r.ShellRestarted, death.code)
				}
				if name == "errexit" {
					if r := d.run("case $- in *e*) echo on;; esac; set +e"); r.stdout != "on\n" {
						t.Errorf("errexit: %q %q", r.stdout, r.stderr)
					}
				}
				for _, st := range states {
					if !strings.Contains(st.shells, sh[:1]) {
						continue
					}
					if st.name == "directory" || st.name == "fish directory" { // set by the first, kept by all
						if r.WorkingDir != "/usr/lib" {
							t.Errorf("working_dir %q", r.WorkingDir)
						}
					}
					r := d.run(st.get)
					if r.stdout != st.want || r.stderr != "" || r.ShellRestarted {
						t.Errorf("%s: %q, stderr %q, want %q", st.name, r.stdout, r.stderr, st.want)
					}
				}
			})
		}
	}
}
