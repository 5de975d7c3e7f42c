package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/terminal/view"
)

// globalSettings are the settings that every command needs to find the daemon.
var globalSettings = []string{"socket"}

func registerGlobalSettings(flags *pflag.FlagSet) {
	config.Register(flags, globalSettings...)
	flags.Lookup("socket").Usage = "unix socket, http:// or grpc:// `ADDRESS` of the daemon"
	config.RegisterFile(flags)
}

// ownSettings are the settings that the daemon does not need.
var ownSettings = []string{"detach_key"}

// registerServeSettings adds the settings that only the daemon itself needs.
func registerServeSettings(flags *pflag.FlagSet) {
	var keys []string
	for _, e := range (config.Config{}).Entries() {
		if !slices.Contains(globalSettings, e.Key) && !slices.Contains(ownSettings, e.Key) {
			keys = append(keys, e.Key)
		}
	}
	config.Register(flags, keys...)
}

// envURL is the variable with the URL of a daemon that is reached by HTTP or gRPC.
const envURL = "TRL_URL"

// settings loads the configuration with the flags of cmd and the environment. If they name a
// daemon by a URL instead of a socket, it sets a.url.
func (a *app) settings(cmd *cobra.Command) (config.Config, error) {
	environ, err := a.findURL(cmd, os.Environ())
	if err != nil {
		return config.Config{}, err
	}
	cfg, err := config.Load(cmd.Flags(), environ)
	if err != nil {
		return cfg, err
	}
	if _, err := view.NewKeys(cfg.DetachKey); err != nil {
		return config.Config{}, fmt.Errorf("detach_key: %w (%s)", err, cfg.Origin("detach_key"))
	}
	a.config = cfg
	if err := a.place.resolve(cmd, cfg, a.url); err != nil {
		return cfg, err
	}
	if a.verbose {
		for _, note := range cfg.Notes() {
			a.Stderr.Line("trl: " + note)
		}
	}
	return cfg, nil
}

// findURL looks for a URL where a socket may be named: in the flag, in TRL_URL, and in the
// variable of the socket. It returns the environment without the URL, because the configuration
// takes a socket for a path.
func (a *app) findURL(cmd *cobra.Command, environ []string) ([]string, error) {
	origin := ""
	f := cmd.Flags().Lookup("socket")
	if f != nil && f.Changed && almostURL(f.Value.String()) {
		return nil, notURL("--socket", f.Value.String())
	}
	if v := os.Getenv(envURL); (f == nil || !f.Changed) && v != "" && !client.IsURL(v) {
		return nil, notURL(envURL, v)
	}
	if f != nil && client.IsURL(f.Value.String()) {
		a.url, origin = f.Value.String(), "--socket"
		f.Changed = false
	} else if f == nil || !f.Changed {
		for _, name := range []string{envURL, "TRL_SOCKET_PATH"} {
			if v := os.Getenv(name); a.url == "" && client.IsURL(v) {
				a.url, origin = v, name
			}
		}
	}
	if a.url != "" && localOnly[cmd.Name()] && cmd.Parent() == cmd.Root() && (cmd.Name() != "serve" || origin == "--socket") {
		return nil, &ui.Failure{Err: fmt.Errorf("%s works with the socket of a daemon on this machine, not with the URL in %s", cmd.CommandPath(), origin),
			Status: ui.ExitUsage, Hint: "give --socket PATH"}
	}
	return slices.DeleteFunc(environ, func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		return name == envURL || name == "TRL_SOCKET_PATH" && client.IsURL(value)
	}), nil
}

// almostURL reports whether an address looks like that of another machine, but is not a URL. As
// the path of a socket, it would make commands run on this machine.
func almostURL(address string) bool {
	_, port, _ := strings.Cut(address, ":")
	hostPort := port != "" && strings.Trim(port, "0123456789") == "" && !strings.Contains(address, "/")
	return !client.IsURL(address) && (hostPort || strings.Contains(address, "://"))
}

func notURL(origin, address string) error {
	return &ui.Failure{Err: fmt.Errorf("%s: %q is not the URL of a daemon", origin, address), Status: ui.ExitUsage, Hint: "use a URL such as http://127.0.0.1:7330"}
}

// localOnly are the commands that need the process of the daemon on this machine.
var localOnly = map[string]bool{"serve": true, "stop": true, "upgrade": true, "http": true, "doctor": true}

// settingFlagsGiven returns the global settings that cmd was given as flags for the daemon that
// it starts, which has another working directory.
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
