package cli

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) shareCommand() *cobra.Command {
	var p api.WebShareParams
	var expires ui.SecondsFlag
	var only, asJSON bool
	cmd := &cobra.Command{
		Use:     "share SESSION|DIALOGUE",
		GroupID: groupDaemon,
		Short:   "Make a link that lets others watch a session or a dialogue",
		Long: `Print an address at which browsers can watch one session or one dialogue. A viewer can read it,
and can neither change anything nor see anything else. The address is valid for every viewer until it
expires; trl web ls lists the shares and who watches, and trl web revoke SHARE ends one at once.

If the daemon does not serve HTTP, trl share turns it on, for this machine only, as trl open does.`,
		Example: `  trl share build
  trl share build --expires 10m --viewers 1
  trl web revoke h-81d0b7e6f4`,
		Args: ui.NameArgs(1, 1, "one session or dialogue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.ExpiresS, p.SessionID = expires.Value, args[0]
			if p.Viewers == 0 { // which means the default for the daemon
				return ui.UsageErrorf(cmd, "--viewers: must be from 1 to %d", api.MaxShareViewers)
			}
			if err := p.Check(); err != nil {
				return ui.UsageErrorf(cmd, "%s", ui.Message(err))
			}
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				r, err := c.WebShare(ctx, p)
				if errors.Is(err, api.ErrSessionNotFound) {
					q := p
					q.SessionID, q.DialogueID = "", p.SessionID
					d, other := c.WebShare(ctx, q)
					switch {
					case other == nil:
						r, err = d, nil
					case errors.Is(other, api.ErrDialogueNotFound):
						err = neitherFound(args[0])
					default:
						err = other
					}
				}
				r.URL = a.reachable(r.URL)
				switch {
				case err != nil:
					return tooOld(err)
				case asJSON:
					return a.Stdout.JSON(r)
				case !only:
					a.Stderr.Line("trl: " + r.ShareID + ", until " + r.ExpiresAt.Local().Format(time.DateTime) + "; `trl web revoke " + r.ShareID + "` ends it")
				}
				a.Stdout.Line(r.URL)
				return nil
			})
		},
		ValidArgsFunction: a.completePages,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(&expires, "expires", "the link is valid for this long (10m, 24h; default: 1h)")
	flags.IntVar(&p.Viewers, "viewers", api.DefaultShareViewers, "at most this many browsers at once")
	flags.BoolVar(&only, "print", false, "print only the address")
	flags.BoolVar(&asJSON, "json", false, "print the share as JSON")
	return cmd
}

// reachable returns an address of the daemon with the host at which this trl reaches the daemon: the
// daemon itself knows only its own.
func (a *app) reachable(address string) string {
	at, err := url.Parse(a.url)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" {
		return address
	}
	link, err := url.Parse(address)
	if err != nil || link.Host == "" {
		return address
	}
	link.Scheme, link.Host = at.Scheme, at.Host
	return link.String()
}
