package cli_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/testkit"
)

func TestCompletionScriptsAreAccepted(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(err)
			}
			script := s.run(t, "completion", shell)
			if script.status != 0 || script.stdout == "" {
				t.Fatalf("%+v", script)
			}
			check := s.command(path, "-n")
			check.Stdin = strings.NewReader(script.stdout)
			if o := s.finish(t, check); o.status != 0 || o.stderr != "" {
				t.Errorf("%+v", o)
			}
		})
	}
	if list := s.daemons(); len(list) > 0 {
		t.Errorf("a daemon was started: %v", list)
	}
}

// TestCompletionInBash presses TAB in a real bash.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	s := newSandbox(t)
	for _, name := range []string{"alpha", "beta"} {
		if o := s.run(t, "new", name); o.status != 0 {
			t.Fatalf("%+v", o)
		}
	}
	for line, want := range map[string]string{
		"trl ki":         "kill",
		"trl kill al":    "alpha",
		"trl run -s be":  "beta",
		"trl info alp":   "alpha",
		"trl call sys":   "system.ping system.stats system.info system.settings system.doctor system.log system.hello system.upgrade system.http",
		"trl run --sess": "--session",
		"trl help co":    "config completion commands",
		"trl help exi":   "exit-codes",

		"trl run --on do":        "docker:",
		"trl run --on h":         "host",
		"trl new --place imag":   "image=",
		"trl run --beside al":    "alpha",
		"trl runtimes ch":        "check",
		"trl runtimes check con": "container:",
	} {
		words := strings.Fields(line)
		script := `source <(trl completion bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
__start_trl
printf '%s\n' "${COMPREPLY[@]}"`
		o := s.finish(t, s.command(bash, append([]string{"--norc", "-c", script, "bash", line}, words...)...))
		var got []string
		for _, l := range strings.Split(strings.TrimSpace(o.stdout), "\n") {
			word, _, _ := strings.Cut(l, " ")
			got = append(got, word)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: offers %q, want %q (%s)", line, got, want, o.stderr)
		}
	}
}

// TestCompletionAtATerminal presses TAB in each shell, with nothing but the script of TRL.
func TestCompletionAtATerminal(t *testing.T) {
	t.Parallel()
	for shell, c := range map[string]struct{ flag, setup string }{
		"bash": {"--norc", "source <(trl completion bash)"},
		"zsh":  {"-f", "autoload -Uz compinit && compinit -D -u && source <(trl completion zsh)"},
		"fish": {"--no-config", "trl completion fish | source"},
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(err)
			}
			s := newSandbox(t)
			for _, args := range [][]string{
				{"new", "alpha"},
				{"new", "-t", "-d", "tab", "--", path, c.flag},
				{"send", "tab", c.setup + " && echo set''up", "enter"},
				{"wait", "tab", "--text", "^setup"},
				{"send", "tab", "trl kill al"},
			} {
				if o := s.run(t, args...); o.status != 0 {
					t.Fatalf("trl %q: %+v\n%s", args, o, s.run(t, "screen", "tab").stdout)
				}
			}
			// On a busy machine trl may not know in time which sessions there are; people press TAB again.
			testkit.Eventually(t, "TAB completes the name of the session", func() bool {
				s.run(t, "send", "tab", "tab")
				return s.run(t, "wait", "tab", "--text", "trl kill alpha", "--timeout", "5").status == 0
			})
		})
	}
}

func TestCompletionOfCommands(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	l := s.startLive(t, "run", "-s", "busy", "echo started; sleep 1001")
	o := s.run(t, "__complete", "cancel", "x-")
	if !strings.HasPrefix(o.stdout, "x-") || !strings.Contains(o.stdout, "echo started; sleep 1001") {
		t.Errorf("%+v", o)
	}
	id, _, _ := strings.Cut(o.stdout, "\t")
	for _, c := range []string{"logs", "wait", "input", "info"} {
		if again := s.run(t, "__complete", c, "x-"); again.stdout != o.stdout {
			t.Errorf("%s: %+v", c, again)
		}
	}
	if o := s.run(t, "__complete", "wait", id, "bu"); !strings.HasPrefix(o.stdout, "busy\t") {
		t.Errorf("%+v", o)
	}
	if o := s.run(t, "__complete", "events", "--type", "exec.e"); !strings.Contains(o.stdout, "\nexec.exited\n") {
		t.Errorf("%+v", o)
	}
	if o := s.run(t, "cancel", id); o.stdout != id+"\n" {
		t.Errorf("%+v", o)
	}
	if status := wait(t, l.cmd); status != 130 {
		t.Errorf("status %d, want 130", status)
	}
}
