package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/tests/trltest"
)

// TestCommandsOfDocumentsParse parses the trl commands of the documents that no test runs, or only a test
// on a machine with what they need: those of blocks with such a comment, as bash reads them, and those
// inside paragraphs. Of the latter it checks only the flags, because they are often the beginning of a command.
func TestCommandsOfDocumentsParse(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	inText := regexp.MustCompile("[^`]`(trl [a-z][^`]*)`[^`]")
	blocks, commands, beginnings := 0, 0, 0
	documents(t, func(file, text string) {
		all, err := trltest.Blocks(text)
		if err != nil {
			t.Errorf("%s: %s", file, err)
		}
		for _, b := range all {
			if b.Needs == "" {
				continue
			}
			blocks++
			where := fmt.Sprintf("%s:%d", file, b.Line)
			for _, args := range typed(t, bash, where, b.Code) {
				commands++
				cmd, err := parse(args)
				if err == nil {
					err = cmd.ValidateArgs(cmd.Flags().Args())
				}
				if err != nil {
					t.Errorf("%s: trl %s: %s", where, strings.Join(args, " "), err)
				}
			}
		}
		for _, m := range inText.FindAllStringSubmatch(text, -1) {
			for _, args := range typed(t, bash, file, strings.ReplaceAll(m[1], "\n", " ")) {
				beginnings++
				var without *pflag.ValueRequiredError
				if _, err := parse(args); err != nil && !errors.As(err, &without) {
					t.Errorf("%s: %s: %s", file, m[1], err)
				}
			}
		}
	})
	t.Logf("%d commands in %d blocks, %d inside paragraphs", commands, blocks, beginnings)
	if commands == 0 || beginnings == 0 {
		t.Error("bash found no commands")
	}
}

// TestExamplesParse reads the examples of every help text as trl would. Words behind an example, after
// two spaces, are about it.
func TestExamplesParse(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	examples := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "  ")
			if !strings.HasPrefix(line, "trl ") {
				continue
			}
			examples++
			for _, args := range typed(t, bash, cmd.CommandPath(), line) {
				cmd, err := parse(args)
				if err == nil {
					err = cmd.ValidateArgs(cmd.Flags().Args())
				}
				if err != nil {
					t.Errorf("%s: %s: %s", cmd.CommandPath(), line, err)
				}
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit((&app{}).root(nil))
	if examples < 100 {
		t.Errorf("found %d examples", examples)
	}
}

// documents calls visit with each document of the repository.
func documents(t *testing.T, visit func(file, text string)) {
	t.Helper()
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "build", "node_modules"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || path.Ext(file) != ".md":
			return nil
		}
		text, err := fs.ReadFile(root, file)
		visit(file, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// typed returns the arguments of each trl command of a script. The bash that reads it finds no other
// program, so nothing else happens.
func typed(t *testing.T, bash, where, script string) (commands [][]string) {
	t.Helper()
	if out, err := bashCommand(t, bash, "-n", "-c", script).CombinedOutput(); err != nil {
		t.Errorf("%s: bash cannot read it: %s\n%s", where, err, out)
		return nil
	}
	// Programs that are not there succeed, so the commands after && are read too.
	const prologue = "command_not_found_handle() { :; }\ntrl() { printf '%s\\0' \"$#\" \"$@\" >>typed; }\n"
	cmd := bashCommand(t, bash, "-c", prologue+script)
	_ = cmd.Run() // the status is that of commands which are not there
	file, err := os.ReadFile(filepath.Join(cmd.Dir, "typed"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	words := strings.Split(string(file), "\x00")
	for len(words) > 1 {
		var n int
		if _, err := fmt.Sscan(words[0], &n); err != nil {
			t.Fatal(err)
		}
		commands, words = append(commands, words[1:1+n]), words[1+n:]
	}
	return commands
}

func bashCommand(t *testing.T, bash string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), bash, append([]string{"--noprofile", "--norc"}, args...)...)
	cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=/nonexistent", "HOME=/nonexistent"}
	return cmd
}

// parse reads the arguments of trl as Main does, and returns the command.
func parse(args []string) (*cobra.Command, error) {
	root := (&app{}).root(args)
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(endFlags(root, args))
	if err != nil {
		return nil, err
	}
	cmd.InitDefaultHelpFlag()
	return cmd, cmd.ParseFlags(rest)
}
