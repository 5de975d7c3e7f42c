package cli

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/chat"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) dialogueShowCommand() *cobra.Command {
	var full, asJSON bool
	var item string
	cmd := &cobra.Command{
		Use:   "show DIALOGUE",
		Short: "Print the transcript of a dialogue",
		Long: `Print the transcript of a dialogue: messages after >, the agent's text, and each tool call
as one line, with another for its result. The work of subagents is indented below the call
that started them. --full shows everything: thoughts, and input and output of tools. Open
requests are at the end. --item shows one item in full: trl dialogue search prints their ids.`,
		Example: `  trl dialogue show fix
  trl dialogue show d-3f9a1c02de --full | less
  trl dialogue show fix --json | jq '.items[] | select(.tool).tool.name'`,
		Args: ui.Args(1, 1, "one dialogue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				if item != "" {
					return a.showItem(ctx, c, api.DialogueItemParams{DialogueID: args[0], ItemID: item}, asJSON)
				}
				tr, err := c.DialogueTranscript(ctx, api.DialogueTranscriptParams{DialogueID: args[0]})
				switch {
				case err != nil:
					return err
				case asJSON:
					return a.Stdout.JSON(tr)
				}
				chat.PrintTranscript(a.Stdout, tr, full || a.verbose)
				return nil
			})
		},
		ValidArgsFunction: a.completeDialogues,
	}
	cmd.Flags().BoolVar(&full, "full", false, "fold nothing")
	cmd.Flags().StringVar(&item, "item", "", "only the item with this `ID`, in full")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the transcript, or the item, as JSON")
	return cmd
}

// showItem prints one item of a transcript.
func (a *app) showItem(ctx context.Context, c *client.Client, p api.DialogueItemParams, asJSON bool) error {
	r, err := c.DialogueItem(ctx, p)
	switch {
	case err != nil:
		return tooOld(err)
	case asJSON:
		return a.Stdout.JSON(r)
	}
	chat.PrintTranscript(a.Stdout, api.DialogueTranscriptResult{Items: []api.DialogueItem{*r.Item}}, true)
	return nil
}

func (a *app) dialogueEventsCommand() *cobra.Command {
	var asJSON, follow bool
	var p api.DialogueEventsParams
	cmd := &cobra.Command{
		Use:   "events DIALOGUE",
		Short: "Print the events of a dialogue; -f follows",
		Long: `Print the events of a dialogue, all of them or those after a number. -f follows new events
until the agent has ended, even if the daemon restarts meanwhile.

One line for each event: number, time (RFC 3339), type and content, separated by tabs; a
field without a value is "-". On a terminal they are aligned.`,
		Example: `  trl dialogue events fix -f
  trl dialogue events fix --after 120 --no-deltas
  trl dialogue events fix -f --json | jq -r 'select(.event.type == "request_opened").event.request.request_id'`,
		Args: ui.Args(1, 1, "one dialogue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.DialogueID, p.NoFollow = args[0], !follow
			return a.withClientUntilSignal(cmd, func(ctx context.Context, c *client.Client) error {
				return a.printDialogueEvents(ctx, c, p, asJSON)
			})
		},
		ValidArgsFunction: a.completeDialogues,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&follow, "follow", "f", false, "follow new events")
	flags.Int64Var(&p.AfterSeq, "after", 0, "only the events after this `SEQ`")
	flags.BoolVar(&p.NoDeltas, "no-deltas", false, "without the pieces of unfinished items")
	flags.BoolVar(&asJSON, "json", false, "print each event as a line of JSON")
	return cmd
}

func (a *app) printDialogueEvents(ctx context.Context, c *client.Client, p api.DialogueEventsParams, asJSON bool) error {
	s, err := c.DialogueEvents(ctx, p)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		push, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case asJSON:
			err = a.Stdout.JSONLine(push)
		case push.Event != nil:
			err = a.printDialogueEvent(*push.Event)
		}
		if err != nil {
			return err
		}
	}
}

func (a *app) printDialogueEvent(ev api.DialogueEvent) error {
	out, about := a.Stdout, chat.EventText(ev)
	if !out.TTY {
		at := ev.At.UTC().Format(time.RFC3339Nano)
		out.Table(ui.Table{Rows: [][]ui.Cell{{ui.Text(strconv.FormatInt(ev.Seq, 10)), ui.Text(at), ui.Text(string(ev.Type)), ui.Text(about)}}})
		return out.Err
	}
	room := max(out.Width()-40, 20)
	out.Linef("%6d  %s  %-14s  %s", ev.Seq, out.Paint(ui.Dim, ev.At.Local().Format("15:04:05.000")), ev.Type, ui.Shorten(ui.Printable(about), room))
	return out.Err
}
