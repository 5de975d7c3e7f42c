package words_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/cli/words"
	"github.com/trl-dev/trl/internal/doctor"
)

// TestQuote lets every installed shell read the quoted words.
func TestQuote(t *testing.T) {
	list := []string{
		"plain", "a   b", "", "it's", `back\slash`, `\'`, "''", `"double"`, "$HOME", "`date`", "$(date)", "~", "*", "?x", "[a-z]", "{a,b}", "!!", "#no",
		"a=b", "=ls", "-n", "--", "two\nlines", "\ttab", "ünï 漢字 👍", "a;b|c&d<e>f", "%1", "^x", "(x)", "trailing\\", "end'",
	}
	for _, shell := range doctor.Shells() {
		t.Run(shell.Name, func(t *testing.T) {
			family := "sh"
			if shell.Name == "fish" {
				family = "fish"
			}
			argv := []string{shell.Path, "-c"}
			if strings.HasSuffix(shell.Path, "busybox") {
				argv = []string{shell.Path, "ash", "-c"}
			}
			line := words.CommandLine(append([]string{"printf", `<%s>\n`}, list...), family)
			out, err := exec.Command(argv[0], append(argv[1:], line)...).CombinedOutput()
			var want strings.Builder
			for _, w := range list {
				want.WriteString("<" + w + ">\n")
			}
			if err != nil || string(out) != want.String() {
				t.Errorf("%v\n%s\nread as\n%s\nwant\n%s", err, line, out, want.String())
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"echo $HOME | cat"}, "echo $HOME | cat"},
		{[]string{"ls", "-la", "/tmp"}, "ls -la /tmp"},
		{[]string{"python3", "-c", "print(1)"}, "python3 -c 'print(1)'"},
		{[]string{"A=1", "make"}, "'A=1' make"},
		{[]string{"time", "ls"}, "'time' ls"},
		{[]string{"echo", "if"}, "echo if"},
	} {
		if got := words.CommandLine(tt.args, "bash"); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.args, got, tt.want)
		}
	}
}

func TestWanted(t *testing.T) {
	for line, want := range map[string]string{
		"vim notes": "-t", "/usr/bin/htop": "-t", "python3": "-t", "python3 x.py": "", "cat": "-i", "cat file": "", "read x": "-i", "ls": "", "man ls | cat": "", "": "", "  ": "",
	} {
		if _, flag := words.Wanted([]string{line}); flag != want {
			t.Errorf("%q: %q, want %q", line, flag, want)
		}
	}
}
