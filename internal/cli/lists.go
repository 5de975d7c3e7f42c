package cli

import (
	"context"
	"slices"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// listPage is how many entries the commands ask for at once, so that no answer becomes huge. A daemon
// that knows no pages returns everything at once.
const listPage = 1000

// pages calls list for one page after the other, until one has no next.
func pages(list func(p api.Page) (next string, err error)) error {
	limit := listPage
	for p := (api.Page{Limit: &limit}); ; {
		next, err := list(p)
		if err != nil || next == "" {
			return err
		}
		p.After = next
	}
}

// listSessions is session.list, page by page.
func listSessions(ctx context.Context, c *client.Client, p api.SessionListParams) (all api.SessionListResult, err error) {
	all.Sessions = []api.SessionInfo{}
	err = pages(func(page api.Page) (string, error) {
		p.Page = page
		r, err := c.SessionList(ctx, p)
		all.Sessions = append(all.Sessions, r.Sessions...)
		return r.Next, err
	})
	return all, err
}

// listExecs is exec.list, page by page.
func listExecs(ctx context.Context, c *client.Client, p api.ExecListParams) (all api.ExecListResult, err error) {
	all.Execs = []api.ExecInfo{}
	err = pages(func(page api.Page) (string, error) {
		p.Page = page
		r, err := c.ExecList(ctx, p)
		all.Execs = append(all.Execs, r.Execs...)
		for _, id := range r.Unreachable {
			if !slices.Contains(all.Unreachable, id) {
				all.Unreachable = append(all.Unreachable, id)
			}
		}
		return r.Next, err
	})
	return all, err
}

// listDialogues is dialogue.list, page by page.
func listDialogues(ctx context.Context, c *client.Client, p api.DialogueListParams) (all api.DialogueListResult, err error) {
	all.Dialogues = []api.DialogueInfo{}
	err = pages(func(page api.Page) (string, error) {
		p.Page = page
		r, err := c.DialogueList(ctx, p)
		all.Dialogues = append(all.Dialogues, r.Dialogues...)
		return r.Next, err
	})
	return all, err
}
