package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
)

func (a *app) httpCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "http [on [ADDRESS] | off | status]",
		GroupID: groupDaemon,
		Short:   "Turn HTTP of the running daemon on or off",
		Long: `Turn HTTP of the daemon on or off while it runs, or print whether it is on and where.
The sessions stay. trl http on starts a daemon if none runs.

ADDRESS is a host and a port, or a port of this machine; port 0 is any free port. Without
it, the setting http applies, else ` + api.DefaultHTTP + `. An address that other machines
can reach needs TLS (tls_cert and tls_key), or the setting http_insecure. Callers need a
token: the one in the file that trl http prints.

HTTP stays on, or off, across trl upgrade, and the daemon does not exit on its own while it
is on. After trl stop, the next daemon follows the configuration again: put
http = "ADDRESS" into the configuration file (see trl config) to keep HTTP on.

Turning HTTP off closes its connections. Commands whose callers wait there are cancelled,
as when a caller disconnects.`,
		Example: `  trl http on
  trl http on 8080
  trl http status
  curl -H "Authorization: Bearer $(cat ~/.local/state/trl/token)" -X POST http://` + api.DefaultHTTP + `/v1/session.list
  trl http off`,
		Args: ui.Args(0, 2, "on [ADDRESS], off or status"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := httpParams(cmd, args)
			if err != nil {
				return err
			}
			r, err := a.switchHTTP(cmd, p)
			if err != nil {
				return err
			}
			if asJSON {
				return a.Stdout.JSON(r)
			}
			a.printHTTP(r)
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return keep([]cobra.Completion{"on", "off", "status"}, prefix), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// httpParams reads the arguments of trl http.
func httpParams(cmd *cobra.Command, args []string) (p api.SystemHTTPParams, err error) {
	word := "status"
	if len(args) > 0 {
		word = args[0]
	}
	switch word {
	case "on", "off":
		on := word == "on"
		p.On = &on
	case "status":
	default:
		return p, ui.UsageErrorf(cmd, "%q: must be on, off or status", word)
	}
	if len(args) < 2 {
		return p, nil
	}
	if word != "on" {
		return p, ui.UsageErrorf(cmd, "%s takes no ADDRESS", word)
	}
	if p.Address = args[1]; p.Address == "" {
		return p, ui.UsageErrorf(cmd, "ADDRESS: must not be empty")
	}
	if _, err := strconv.ParseUint(p.Address, 10, 16); err == nil {
		p.Address = "127.0.0.1:" + p.Address
	}
	return p, nil
}

// switchHTTP calls the daemon. Only turning HTTP on starts one.
func (a *app) switchHTTP(cmd *cobra.Command, p api.SystemHTTPParams) (r api.SystemHTTPResult, err error) {
	var c *client.Client
	var cfg config.Config
	if p.On != nil && *p.On {
		c, err = a.connect(cmd)
	} else if c, cfg, err = a.connectRunning(cmd); c == nil && err == nil {
		a.Stderr.Line("trl: " + noDaemon(cfg).Error())
		return api.SystemHTTPResult{Configured: cfg.HTTP}, nil
	}
	if err != nil {
		return r, err
	}
	defer c.Close()
	r, err = c.SystemHTTP(cmd.Context(), p)
	switch {
	case err != nil && api.AsError(err).Code == api.CodeMethodNotFound:
		err = ui.WithHint(fmt.Errorf("the running daemon is older than this trl: %w", err), "`trl upgrade` replaces it; its sessions stay")
	case errors.Is(err, api.ErrConflict) && p.Address == "":
		err = ui.WithHint(err, "name another address, as in `trl http on 127.0.0.1:0`, which takes any free port")
	}
	return r, err
}

func (a *app) printHTTP(r api.SystemHTTPResult) {
	if !r.On {
		a.Stdout.Line("off")
	} else {
		facts := [][2]string{{"url", r.URL}, {"token", "in the daemon's variable " + config.EnvAuthToken}}
		if r.TokenFile != "" {
			facts[1][1] = r.TokenFile
		}
		a.Stdout.Facts(facts)
	}
	if later := cmp.Or(r.Configured, "off"); a.Stdout.TTY && r.On == (later == "off") {
		a.Stdout.Line("until this daemon stops; the configuration of the next one says: " + later)
	}
}
