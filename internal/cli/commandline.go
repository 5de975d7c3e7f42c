package cli

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
)

// familyFish is the only family of shells with its own rules for quoting.
const familyFish = "fish"

// commandLine returns the text that the shell of a session runs: a single argument is shell
// text; several are the words of one command, each quoted for that shell.
func commandLine(args []string, family string) string {
	if len(args) == 1 {
		return args[0]
	}
	quoted := make([]string, len(args))
	for i, word := range args {
		quoted[i] = quote(word, family)
		if i == 0 && slices.Contains(reserved, word) {
			quoted[i] = "'" + word + "'" // a program of that name, not the beginning of a compound command
		}
	}
	return strings.Join(quoted, " ")
}

// reserved are the words that begin a compound command in some shell.
var reserved = []string{
	"if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done", "in", "function", "time", "coproc",
	"repeat", "foreach", "end", "nocorrect", "noglob", "begin", "switch", "and", "or", "not",
}

// plainWord reports whether a word needs no quotes in any shell.
func plainWord(word string) bool {
	for _, r := range word {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:@+", r) {
			return false
		}
	}
	return word != ""
}

// quote returns text that a shell reads as this word.
func quote(word, family string) string {
	switch {
	case plainWord(word):
		return word
	case family == familyFish:
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(word) + "'"
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

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
	case len(args) > 1 || plainWord(args[0]):
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

// Programs that need a terminal (screenPrograms), that need one if they have no arguments
// (replPrograms), or that read stdin if they have none (inputPrograms).
var (
	screenPrograms = []string{
		"vi", "vim", "nvim", "view", "nano", "pico", "emacs", "micro", "less", "more", "most", "man", "top", "htop", "btop", "watch",
		"tmux", "screen", "mc", "ncdu", "tig", "lazygit", "dialog", "whiptail", "sudo", "su", "passwd", "visudo", "crontab",
	}
	replPrograms = []string{
		"bash", "sh", "dash", "zsh", "fish", "python", "python3", "ipython", "node", "irb", "ghci", "lua", "bc", "gdb", "lldb", "sqlite3", "psql", "mysql",
		"claude", "codex", "gemini",
	}
	inputPrograms = []string{"cat", "tee", "sort", "wc", "read", "xargs"}
)

// wanted returns the flag that a command probably needs: -t for a terminal, -i for input, "" for
// neither. It is only for a hint.
func wanted(args []string) (program, flag string) {
	words := args
	if len(args) == 1 {
		if strings.ContainsAny(args[0], "|&;<>()`$\n") {
			return "", ""
		}
		words = strings.Fields(args[0])
	}
	if len(words) == 0 {
		return "", ""
	}
	program = filepath.Base(words[0])
	switch alone := len(words) == 1; {
	case slices.Contains(screenPrograms, program), alone && slices.Contains(replPrograms, program):
		return program, "-t"
	case alone && slices.Contains(inputPrograms, program), program == "read":
		return program, "-i"
	}
	return "", ""
}

// checkText rejects text that JSON cannot carry: JSON is UTF-8, and a command with replacement
// characters would be another command.
func checkText(what, s string) error {
	if utf8.ValidString(s) {
		return nil
	}
	return ui.WithHint(fmt.Errorf("%s: is not UTF-8: %s", what, ui.Printable(s)), "write the bytes as escapes, as in printf '\\377', or give them on stdin with -i")
}
