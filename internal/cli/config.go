package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) configCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "config",
		GroupID: groupDaemon,
		Short:   "Show the settings and where each comes from",
		Long: `Show the settings that a daemon started now would have, and where each value comes
from: a flag, the environment, the configuration file or the default.

The file is $XDG_CONFIG_HOME/trl/config.toml or ~/.config/trl/config.toml, unless
--config or TRL_CONFIG names another. The variables are the names in capitals with
TRL_ before them, as in TRL_MAX_SESSIONS=200.`,
		Example: `  trl config
  TRL_MAX_SESSIONS=200 trl config
  trl config --json | jq '.settings[] | select(.origin != "default")'`,
		Args: ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				return a.Stdout.JSON(map[string]any{"settings": cfg.Entries()})
			}
			t := ui.Table{Header: []string{"SETTING", "VALUE", "ORIGIN"}}
			for _, e := range cfg.Entries() {
				origin := ui.Painted(e.Origin, ui.Dim)
				if e.Origin != "default" {
					origin.Style = ui.Yellow
				}
				t.Add(ui.Text(e.Key), ui.Text(fmt.Sprint(e.Value)), origin)
			}
			a.Stdout.Table(t)
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with defaults, variables and explanations")
	return cmd
}
