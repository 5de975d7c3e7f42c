// Package words turns the words of a command line into the command that a session runs.
//
// It imports only packages that are initialised soon, because internal/cli/early needs it.
package words

import (
	"path"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
)

// Fill sets the command of a request for a session: the words themselves for a session without a
// shell, else text for its shell.
func Fill(p *api.ExecParams, args []string, in api.SessionInfo) {
	if in.Shell == api.NoShell {
		p.Argv = args
		return
	}
	p.Command = CommandLine(args, in.ShellFamily)
}

// familyFish is the only family of shells with its own rules for quoting.
const familyFish = "fish"

// CommandLine returns the text that the shell of a session runs: a single argument is shell
// text; several are the words of one command, each quoted for that shell.
func CommandLine(args []string, family string) string {
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

// Plain reports whether a word needs no quotes in any shell.
func Plain(word string) bool {
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
	case Plain(word):
		return word
	case family == familyFish:
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(word) + "'"
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
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

// Wanted returns the flag that a command probably needs: -t for a terminal, -i for input, "" for
// neither. It is only for a hint.
func Wanted(args []string) (program, flag string) {
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
	program = path.Base(words[0])
	switch alone := len(words) == 1; {
	case slices.Contains(screenPrograms, program), alone && slices.Contains(replPrograms, program):
		return program, "-t"
	case alone && slices.Contains(inputPrograms, program), program == "read":
		return program, "-i"
	}
	return "", ""
}
