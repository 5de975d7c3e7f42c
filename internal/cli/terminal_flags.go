package cli

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// terminalFlags are the flags of the commands that create a terminal. Numbers that were not given
// are 0, scrollback -1.
type terminalFlags struct {
	cols, rows, scrollback int

	term string
}

func (f *terminalFlags) register(flags *pflag.FlagSet) {
	flags.IntVar(&f.cols, "cols", 0, "`N` columns (default: those of your window, or 80)")
	flags.IntVar(&f.rows, "rows", 0, "`N` rows (default: those of your window, or 24)")
	flags.StringVar(&f.term, "term", "", "value of `TERM` (default "+api.DefaultTerm+")")
	flags.IntVar(&f.scrollback, "scrollback", -1, "keep `N` lines of scrollback (default 10000)")
	flags.Lookup("scrollback").DefValue = "0" // so that the help shows no default
}

// given returns the first of the flags that was given, if any.
func (f *terminalFlags) given(flags *pflag.FlagSet) (name string, yes bool) {
	for _, name := range []string{"cols", "rows", "term", "scrollback", "record", "record-input", "detach", "detach-key"} {
		if flags.Changed(name) {
			return "--" + name, true
		}
	}
	return "", false
}

// fill makes p a request for a terminal: with the size of the flags, or of the person's window,
// and with the person's shell.
func (f *terminalFlags) fill(a *app, cmd *cobra.Command, p *api.SessionCreateParams) error {
	p.Kind, p.Term = api.KindTerminal, f.term
	if tty, ok := a.Terminal(); ok {
		if size := ui.ValidSize(tty.Size()); size != nil {
			p.Cols, p.Rows = &size.Cols, &size.Rows
		}
	}
	flags := cmd.Flags()
	if flags.Changed("cols") {
		p.Cols = &f.cols
	}
	if flags.Changed("rows") {
		p.Rows = &f.rows
	}
	if flags.Changed("scrollback") {
		p.Scrollback = &f.scrollback
	}
	maps.DeleteFunc(p.Env, func(key, _ string) bool { return ofAnotherTerminal(key) })
	switch {
	case p.Command != nil:
		p.Shell = ""
	case p.Shell == "" && a.samePlace():
		p.Shell = os.Getenv("SHELL")
	}
	return p.Check()
}

// ofAnotherTerminal reports whether a variable describes the caller's terminal. The program gets
// another one.
func ofAnotherTerminal(key string) bool {
	if slices.Contains([]string{"TERM", "COLORTERM", "COLUMNS", "LINES", "TERMCAP", "TERMINFO", "TMUX", "TMUX_PANE", "STY", "WINDOW", "WINDOWID", "VTE_VERSION", "SSH_TTY", "WT_SESSION"}, key) {
		return true
	}
	for _, prefix := range []string{"TERM_PROGRAM", "TERM_SESSION", "KITTY_", "ITERM_", "LC_TERMINAL", "WEZTERM_", "ALACRITTY_", "GHOSTTY_", "KONSOLE_", "ZELLIJ"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// endFlags puts -- before the program in `trl new -t NAME PROGRAM...`: flags after the program
// are its own.
func endFlags(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Name() != "new" {
		return args
	}
	cmd.InitDefaultHelpFlag()
	flags := cmd.Flags()
	flags.AddFlagSet(cmd.InheritedFlags())
	words := 0
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "--":
			return args
		case strings.HasPrefix(arg, "-") && arg != "-":
			if takesNext(flags, arg) {
				i++
			}
		default:
			// The command itself, the name, the program.
			if words++; words == 3 {
				return slices.Insert(slices.Clone(args), i, "--")
			}
		}
	}
	return args
}

// takesNext reports whether the value of a flag is the next argument.
func takesNext(flags *pflag.FlagSet, arg string) bool {
	if name, long := strings.CutPrefix(arg, "--"); long {
		f := flags.Lookup(name)
		return f != nil && f.NoOptDefVal == ""
	}
	for i, letter := range arg[1:] {
		f := flags.ShorthandLookup(string(letter))
		if f == nil {
			return false
		}
		if f.NoOptDefVal == "" { // its value is the rest of arg, or else the next argument
			return i+2 == len(arg)
		}
	}
	return false
}
