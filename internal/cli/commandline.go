package cli

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/cli/words"
	"github.com/trl-dev/trl/internal/config"
)

// checkWords rejects the words of a program that JSON cannot carry.
func checkWords(command []string) error {
	var errs []error
	for _, word := range command {
		errs = append(errs, checkText("program", word))
	}
	return errors.Join(errs...)
}

// checkCommand rejects an empty command, and one that JSON cannot carry.
func checkCommand(cmd *cobra.Command, args []string) error {
	if args[0] == "" {
		return ui.UsageErrorf(cmd, "the command is empty")
	}
	return checkText("command", strings.Join(args, " "))
}

// program returns the words that a terminal or a program on pipes runs, by the same rule:
// several arguments are the program and its arguments; a single one is shell text, unless it is
// a plain word.
func (a *app) program(cmd *cobra.Command, args []string, shell string) ([]string, error) {
	switch {
	case len(args) == 0:
		return nil, nil
	case len(args) > 1 || words.Plain(args[0]):
		return args, nil
	case args[0] == "":
		return nil, ui.UsageErrorf(cmd, "the program is empty")
	}
	if shell == "" {
		cfg, err := a.settings(cmd)
		if err != nil {
			return nil, err
		}
		shell = a.textShell(cfg)
	}
	return []string{shell, "-c", args[0]}, nil
}

// textShell returns the shell that runs shell text if the caller chose none.
func (a *app) textShell(cfg config.Config) string {
	if cfg.Origin("default_shell") != config.OriginDefault {
		return cfg.DefaultShell
	}
	if path, err := exec.LookPath(preferredShell); err == nil && a.samePlace() {
		return path
	}
	return api.DefaultShell
}

// checkText rejects text that JSON cannot carry: JSON is UTF-8, and a command with replacement
// characters would be another command.
func checkText(what, s string) error {
	if utf8.ValidString(s) {
		return nil
	}
	return ui.WithHint(fmt.Errorf("%s: is not UTF-8: %s", what, ui.Printable(s)), "write the bytes as escapes, as in printf '\\377', or give them on stdin with -i")
}
