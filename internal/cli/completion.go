package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/doctor"
)

// completionTimeout bounds how long a person who pressed Tab waits for the daemon.
const completionTimeout = time.Second

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "completion bash|zsh|fish",
		GroupID: groupOther,
		Short:   "Print the completion script for a shell",
		Long: `Print the completion script for a shell. It completes commands, flags, sessions, dialogues
and the ids of commands.`,
		Example: `  source <(trl completion bash)        now; or for good:
  trl completion bash > ~/.local/share/bash-completion/completions/trl
  trl completion zsh  > "${fpath[1]}/_trl"
  trl completion fish > ~/.config/fish/completions/trl.fish`,
		Args: ui.Args(1, 1, "the name of a shell: bash, zsh or fish"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return a.bashCompletion(root)
			case "zsh":
				return root.GenZshCompletion(a.Stdout)
			case "fish":
				return root.GenFishCompletion(a.Stdout, true)
			}
			return ui.UsageErrorf(cmd, "there is no completion for %q, only for bash, zsh and fish", args[0])
		},
		ValidArgs: []string{"bash", "zsh", "fish"},
	}
}

// wordsOfBash replaces a function of the package bash-completion, which is not installed
// everywhere, in cobra's script. Unlike that function, it does not rejoin words that bash splits
// at = and :; trl completes only what is before these.
const wordsOfBash = `if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
    else
        words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
        cur=${words[cword]} prev=${words[cword-1]}
    fi`

func (a *app) bashCompletion(root *cobra.Command) error {
	var script strings.Builder
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return err
	}
	_, err := a.Stdout.Write([]byte(strings.Replace(script.String(), `_get_comp_words_by_ref "$@" cur prev words cword`, wordsOfBash, 1)))
	return err
}

// completeFlag sets the completion of a flag's values. It panics if the flag does not exist,
// which is a bug in this package.
func (a *app) completeFlag(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// completeSessions offers the names and ids of live sessions. It starts no daemon, and ignores
// errors.
func (a *app) completeSessions(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.completeSome(cmd, prefix, func(api.SessionInfo) bool { return true })
}

// completeSession offers sessions for the first argument alone.
func (a *app) completeSession(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeSessions(cmd, args, prefix)
}

// completeSome offers the wanted sessions.
func (a *app) completeSome(cmd *cobra.Command, prefix string, wanted func(api.SessionInfo) bool) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list []cobra.Completion
	a.askRunning(cmd, func(ctx context.Context, c *client.Client) {
		res, err := listSessions(ctx, c, api.SessionListParams{})
		if err != nil {
			return
		}
		for _, s := range res.Sessions {
			if !wanted(s) {
				continue
			}
			about := string(s.State) + " in " + ui.Printable(s.WorkingDir)
			if s.Name != "" {
				list = append(list, cobra.CompletionWithDesc(s.Name, about))
			}
			// Ids of named sessions are offered only after the beginning of an id.
			if s.Name == "" || strings.HasPrefix(prefix, "s-") {
				list = append(list, cobra.CompletionWithDesc(s.SessionID, about))
			}
		}
	})
	return keep(list, prefix), cobra.ShellCompDirectiveNoFileComp
}

// completeTerminals offers the names and ids of terminals and programs, for one argument.
func (a *app) completeTerminals(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeSome(cmd, prefix, func(s api.SessionInfo) bool { return s.Kind != api.KindShell })
}

// completeRecordings offers terminals, and files.
func (a *app) completeRecordings(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, _ := a.completeTerminals(cmd, args, prefix)
	return list, cobra.ShellCompDirectiveDefault
}

// completeSessionsAndExecs offers sessions, and running and queued commands, for one argument.
func (a *app) completeSessionsAndExecs(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeManyExecs(cmd, args, prefix)
}

// completeManyExecs offers sessions, and running and queued commands, for any argument.
func (a *app) completeManyExecs(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list, directive := a.completeSessions(cmd, args, prefix)
	running := func(e api.ExecInfo) bool { return !ended(e) }
	return append(list, keep(a.listExecs(cmd, running), prefix)...), directive
}

// completePastExecs offers sessions, and all kept commands, for one argument.
func (a *app) completePastExecs(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, directive := a.completeSessions(cmd, args, prefix)
	all := func(api.ExecInfo) bool { return true }
	return append(list, keep(a.listExecs(cmd, all), prefix)...), directive
}

// listExecs returns the wanted commands as completions.
func (a *app) listExecs(cmd *cobra.Command, wanted func(api.ExecInfo) bool) (list []cobra.Completion) {
	a.askRunning(cmd, func(ctx context.Context, c *client.Client) {
		res, err := listExecs(ctx, c, api.ExecListParams{})
		if err != nil {
			return
		}
		for _, e := range res.Execs {
			if wanted(e) {
				list = append(list, cobra.CompletionWithDesc(e.ExecID, ui.Shorten(ui.Printable(e.Command), 40)))
			}
		}
	})
	return list
}

func (a *app) askRunning(cmd *cobra.Command, ask func(context.Context, *client.Client)) {
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	cfg, err := a.settings(cmd)
	if err != nil {
		return
	}
	c, err := a.dial(ctx, cfg)
	if err != nil {
		return
	}
	defer c.Close()
	ask(ctx, c)
}

// completeMethods offers the methods of the API.
func completeMethods(_ *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list []cobra.Completion
	if len(args) == 0 {
		for _, m := range api.Methods() {
			list = append(list, cobra.CompletionWithDesc(m.Name, m.Summary))
		}
	}
	return keep(list, prefix), cobra.ShellCompDirectiveNoFileComp
}

// completeShells offers the installed shells, or a path.
func completeShells(_ *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.Contains(prefix, "/") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var list []cobra.Completion
	for _, s := range doctor.Shells() {
		list = append(list, cobra.CompletionWithDesc(s.Name, s.Path))
	}
	return keep(list, prefix), cobra.ShellCompDirectiveNoFileComp
}

func keep(list []cobra.Completion, prefix string) []cobra.Completion {
	var kept []cobra.Completion
	for _, c := range list {
		if strings.HasPrefix(c, prefix) {
			kept = append(kept, c)
		}
	}
	return kept
}
