package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
)

func (a *app) configCommand() *cobra.Command {
	var asJSON, running bool
	cmd := &cobra.Command{
		Use:     "config",
		GroupID: groupDaemon,
		Short:   "Show the settings and where each comes from",
		Long: `Show the settings that a daemon started now would have, and where each value comes
from: a flag, the environment, the configuration file or the default. With --daemon,
those that the running daemon has, without what may be a secret in them.

The file is $XDG_CONFIG_HOME/trl/config.toml or ~/.config/trl/config.toml, unless
--config or TRL_CONFIG names another. The variables are the names in capitals with
TRL_ before them, as in TRL_MAX_SESSIONS=200.`,
		Example: `  trl config
  trl config --daemon
  TRL_MAX_SESSIONS=200 trl config
  trl config --json | jq '.settings[] | select(.origin != "default")'`,
		Args: ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if running {
				return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
					r, err := c.SystemSettings(ctx, api.SystemSettingsParams{})
					switch {
					case err != nil:
						return tooOld(err)
					case asJSON:
						return a.Stdout.JSON(r)
					}
					printSettings(a.Stdout, r.Settings, func(s api.Setting) (string, any, string) { return s.Key, s.Value, s.Origin })
					for _, note := range r.Notes {
						a.Stderr.Line("trl: " + note)
					}
					return nil
				})
			}
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				return a.Stdout.JSON(map[string]any{"settings": cfg.Entries()})
			}
			printSettings(a.Stdout, cfg.Entries(), func(e config.Entry) (string, any, string) { return e.Key, e.Value, e.Origin })
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&running, "daemon", false, "the settings of the running daemon")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with defaults, variables and explanations")
	return cmd
}

// printSettings prints one row for each setting.
func printSettings[S any](out *ui.Printer, list []S, parts func(S) (key string, value any, origin string)) {
	t := ui.Table{Header: []string{"SETTING", "VALUE", "ORIGIN"}, Spare: []string{"ORIGIN"}, Whole: []string{"SETTING"}}
	for _, s := range list {
		key, value, from := parts(s)
		origin := ui.Painted(from, ui.Dim)
		if from != config.OriginDefault {
			origin.Style = ui.Yellow
		}
		t.Add(ui.Text(key), ui.Text(fmt.Sprint(value)), origin)
	}
	out.Table(t)
}
