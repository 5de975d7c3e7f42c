package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/internal/mcp"
)

func (a *app) mcpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "mcp",
		GroupID: groupDaemon,
		Short:   "Serve the Model Context Protocol on stdin and stdout",
		Long: `Serve the Model Context Protocol on stdin and stdout, for Claude Code, Cursor and
every other MCP client. It gives a model a few tools: run, start, wait, output, input,
cancel, list, destroy; some for terminals, and some for dialogues with other agents.

The client has a default session of its own, so cd and export stay between calls. It
ends with the client; sessions that the model names stay until they are destroyed.`,
		Example: `  claude mcp add trl -- trl mcp
  codex mcp add trl -- trl mcp`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			c, err := a.connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			err = mcp.Serve(ctx, mcp.Config{Service: c, Logger: a.logger(cfg)}, a.stdin, a.stdout.f)
			if err == nil || ctx.Err() != nil {
				return nil // told to end
			}
			return fmt.Errorf("mcp client: %w", err)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}
