package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/mcp"
)

func (a *app) mcpCommand() *cobra.Command {
	var groups []string
	var shell, isolate string
	cmd := &cobra.Command{
		Use:     "mcp",
		GroupID: groupDaemon,
		Short:   "Serve the Model Context Protocol on stdin and stdout",
		Long: `Serve the Model Context Protocol on stdin and stdout, for Claude Code, Cursor and
every other MCP client. It offers a model three groups of tools:

  shell     run, start, wait, output, input, cancel, list, destroy
  terminal  terminal_start, terminal_type, terminal_screen; with list and destroy
  dialogue  dialogue_start, _send, _respond, _read, _stop: other coding agents

--tools selects groups, which saves room in every prompt.

The client has its own default session, so cd and export stay between calls. That session
ends with the client; sessions that the model names stay until they are destroyed. At the
end of its input trl answers the requests it has read, and then ends. The sessions'
shell is bash where it exists, unless --shell or the setting default_shell selects
another; the model may choose another for each new session.`,
		Example: `  claude mcp add trl -- trl mcp
  claude mcp add trl -- trl mcp --tools shell,terminal
  codex mcp add trl -- trl mcp --shell zsh`,
		Args: ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(groups) == 0 && cmd.Flags().Changed("tools") {
				return ui.UsageErrorf(cmd, "--tools: must not be empty; the groups are %s", strings.Join(mcp.Groups, ", "))
			}
			if err := mcp.CheckGroups(groups); err != nil {
				return ui.UsageErrorf(cmd, "--tools: %s", err)
			}
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			if a.sameMachine() {
				if shell, err = shellFlag(shell); err != nil {
					return err
				}
			}
			var dir string
			var env map[string]string
			if a.samePlace() && cfg.DefaultRuntime == string(api.PlaceHost) {
				// Desktop applications start their servers in /, which means no directory in particular.
				if dir, err = os.Getwd(); err != nil || dir == "/" {
					dir = ""
				}
				env = callerEnv()
			}
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				serve := mcp.Config{
					Service: c, Logger: a.logger(cfg), Groups: groups,
					Shell: shell, PreferShell: preferredShell, TextShell: a.textShell(cfg), Dir: dir, Env: env, Isolate: isolate,
				}
				ctx, stop := untilSignal(ctx)
				defer stop()
				err := mcp.Serve(ctx, serve, a.Stdin, a.Stdout.File)
				if err == nil || ctx.Err() != nil {
					return nil // ended by a signal
				}
				return fmt.Errorf("mcp client: %w", err)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&groups, "tools", nil, "offer only these `GROUPS` of tools: "+strings.Join(mcp.Groups, ", "))
	flags.StringVar(&shell, "shell", "", "`SHELL` of new sessions, by name or path (default: default_shell, or bash)")
	flags.StringVar(&isolate, "isolate", "", "isolate new sessions as this `PROFILE` says: workspace, read-only, or one of the configuration")
	a.completeFlag(cmd, "isolate", a.completeProfiles)
	a.completeFlag(cmd, "tools", cobra.FixedCompletions(mcp.Groups, cobra.ShellCompDirectiveNoFileComp))
	a.completeFlag(cmd, "shell", completeShells)
	return cmd
}
