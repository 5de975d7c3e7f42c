package cli

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/internal/config"
)

// globalSettings are the settings that every command needs to find the daemon.
var globalSettings = []string{"socket"}

func registerGlobalSettings(flags *pflag.FlagSet) {
	config.Register(flags, globalSettings...)
	config.RegisterFile(flags)
}

// registerServeSettings adds the settings that only the daemon itself needs.
func registerServeSettings(flags *pflag.FlagSet) {
	var keys []string
	for _, e := range (config.Config{}).Entries() {
		if !slices.Contains(globalSettings, e.Key) {
			keys = append(keys, e.Key)
		}
	}
	config.Register(flags, keys...)
}

// settings loads the configuration as the flags of cmd and the environment say.
func (a *app) settings(cmd *cobra.Command) (config.Config, error) {
	cfg, err := config.Load(cmd.Flags(), os.Environ())
	if err != nil {
		return cfg, err
	}
	if a.verbose {
		for _, note := range cfg.Notes() {
			a.stderr.line("trl: " + note)
		}
	}
	return cfg, nil
}

// settingFlagsGiven repeats the global settings of cmd for a daemon that is started
// with another working directory.
func settingFlagsGiven(cmd *cobra.Command, cfg config.Config) ([]string, error) {
	var args []string
	flags := cmd.Flags()
	if flags.Changed("socket") {
		args = append(args, "--socket", cfg.Socket)
	}
	if flags.Changed("config") {
		file, err := filepath.Abs(flags.Lookup("config").Value.String())
		if err != nil {
			return nil, err
		}
		args = append(args, "--config", file)
	}
	return args, nil
}
