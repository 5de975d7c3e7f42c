package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) webCommand() *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:     "web [ls | revoke LOGIN|SHARE | revoke --all]",
		GroupID: groupDaemon,
		Short:   "List the browsers that are logged in, or log them out",
		Long: `List the browsers that trl open has logged in to the console, and the links of trl share; or end
them. The end of a share ends the logins of its viewers.

A login outlives restarts of the daemon. It ends after 30 days, after 7 days without use,
with trl web revoke, or when the person logs out in the page. Pages that are open when
their login is revoked lose their connection at once.`,
		Example: `  trl web ls
  trl web revoke w-3f9a1c02de
  trl web revoke h-81d0b7e6f4
  trl web revoke --all`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 || args[0] == "ls":
				if all || len(args) > 1 {
					return ui.UsageErrorf(cmd, "ls takes no LOGIN")
				}
			case args[0] != "revoke":
				return noSuchWord(cmd, args[0], "ls", "revoke")
			case all != (len(args) == 1) || len(args) > 2:
				return ui.UsageErrorf(cmd, "revoke needs one LOGIN or SHARE, or --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			if len(args) == 0 || args[0] == "ls" {
				return a.listLogins(cmd.Context(), c, asJSON)
			}
			p := api.WebRevokeParams{All: all}
			if !all {
				p.LoginID = args[1]
			}
			r, err := c.WebRevoke(cmd.Context(), p)
			if err != nil {
				return tooOld(err)
			}
			if asJSON {
				return a.Stdout.JSON(r)
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return keep([]cobra.Completion{"ls", "revoke"}, prefix), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "revoke every login and share")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) listLogins(ctx context.Context, c *client.Client, asJSON bool) error {
	r, err := c.WebList(ctx, api.WebListParams{})
	if err != nil {
		return tooOld(err)
	}
	if asJSON {
		return a.Stdout.JSON(r)
	}
	t := ui.Table{Header: []string{"LOGIN", "SCOPE", "LAST USED", "EXPIRES", "FROM", "BROWSER"}}
	for _, l := range r.Logins {
		t.Add(ui.Text(l.LoginID), ui.Text(cmp.Or(l.ShareID, l.Scope)), ui.Text(l.LastUsedAt.Format(time.RFC3339)), ui.Text(l.ExpiresAt.Format(time.RFC3339)), ui.Text(l.Address), ui.Text(l.Browser))
	}
	a.Stdout.Table(t)
	if len(r.Shares) == 0 {
		return nil
	}
	if len(r.Logins) > 0 {
		a.Stdout.Line("")
	}
	viewers := map[string]int{}
	for _, l := range r.Logins {
		viewers[l.ShareID]++
	}
	t = ui.Table{Header: []string{"SHARE", "OF", "VIEWERS", "CREATED", "EXPIRES"}}
	for _, h := range r.Shares {
		t.Add(ui.Text(h.ShareID), ui.Text(cmp.Or(h.SessionID, h.DialogueID)), ui.Text(fmt.Sprintf("%d of %d", viewers[h.ShareID], h.Viewers)),
			ui.Text(h.CreatedAt.Format(time.RFC3339)), ui.Text(h.ExpiresAt.Format(time.RFC3339)))
	}
	a.Stdout.Table(t)
	return nil
}
