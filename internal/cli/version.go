package cli

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/version"
)

// versionInfo is what `trl version --json` prints.
type versionInfo struct {
	Version    string `json:"version"`
	APIVersion int    `json:"api_version"`
	Go         string `json:"go"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	// Daemon is the version of the running daemon; empty if none runs.
	Daemon string `json:"daemon,omitempty"`
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		GroupID: groupOther,
		Short:   "Show the version of trl and of the running daemon",
		Example: `  trl version
  trl version --json | jq -r .version`,
		Args: ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versionInfo{
				Version: version.Version, APIVersion: api.Version,
				Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
			}
			// trl prints its own version even if the daemon does not answer.
			if c, _, err := a.connectRunning(cmd); err == nil && c != nil {
				defer c.Close()
				if ping, err := c.SystemPing(cmd.Context(), api.SystemPingParams{}); err == nil {
					v.Daemon = ping.Version
				}
			}
			if asJSON {
				return a.Stdout.JSON(v)
			}
			a.Stdout.Linef("trl %s (api %d, %s, %s/%s)", v.Version, v.APIVersion, v.Go, v.OS, v.Arch)
			if v.Daemon != "" && v.Daemon != v.Version {
				a.Stdout.Line("daemon " + v.Daemon)
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
