package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) dialogueRawCommand() *cobra.Command {
	var follow, sent, asJSON bool
	var p api.DialogueRawParams
	cmd := &cobra.Command{
		Use:   "raw DIALOGUE",
		Short: "Print the raw output of the agent's program",
		Long: `Print the stdout of the agent's program, byte for byte, in the agent's own protocol; with
--stdin, its input. The offsets of events count these bytes. On a terminal, control
characters are made visible.

A resumed agent has had several processes: --epoch 1 is the first; the default is the last.`,
		Example: `  trl dialogue raw fix | jq -c .type
  trl dialogue raw fix -f
  trl dialogue raw fix --epoch 1 --stdin
  trl dialogue raw fix --offset 18233 --json`,
		Args: ui.Args(1, 1, "one dialogue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.DialogueID = args[0]; sent {
				p.Stream = "stdin"
			}
			return a.withClientUntilSignal(cmd, func(ctx context.Context, c *client.Client) error {
				r := &rawReader{app: a, client: c, params: p, json: asJSON}
				if follow {
					return r.follow(ctx)
				}
				_, err := r.print(ctx)
				return err
			})
		},
		ValidArgsFunction: a.completeDialogues,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&follow, "follow", "f", false, "follow until the agent has ended")
	flags.IntVar(&p.Epoch, "epoch", 0, "which process of the agent, from `1` on")
	flags.BoolVar(&sent, "stdin", false, "print the program's stdin instead of its stdout")
	flags.Int64Var(&p.Offset, "offset", 0, "begin at this `BYTE`")
	flags.BoolVar(&asJSON, "json", false, "print pieces with their offsets, each as a line of JSON")
	return cmd
}

// rawReader prints a raw stream from an offset on. One goroutine uses it.
type rawReader struct {
	app    *app
	client *client.Client
	params api.DialogueRawParams
	json   bool
}

// print prints the bytes that exist now. It reports whether the stream is complete.
func (r *rawReader) print(ctx context.Context) (complete bool, err error) {
	for {
		piece, err := r.client.DialogueRaw(ctx, r.params)
		if err != nil {
			return false, err
		}
		data := api.Data(piece.Data, piece.DataBase64)
		r.params.Epoch, r.params.Offset = piece.Epoch, piece.Offset+int64(len(data))
		switch {
		case r.json && (len(data) > 0 || piece.Complete):
			err = r.app.Stdout.JSONLine(piece)
		case len(data) > 0:
			_, err = r.app.Stdout.Write([]byte(r.app.Stdout.Text(string(data))))
		}
		if err != nil || piece.Complete || r.params.Offset >= piece.Total {
			return piece.Complete, err
		}
	}
}

// follow prints also the bytes that come. The events of the dialogue say when there are more.
func (r *rawReader) follow(ctx context.Context) error {
	info, err := r.client.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: r.params.DialogueID})
	if err != nil {
		return err
	}
	s, err := r.client.DialogueEvents(ctx, api.DialogueEventsParams{DialogueID: info.DialogueID, AfterSeq: info.Seq})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		if complete, err := r.print(ctx); complete || err != nil {
			return err
		}
		if _, err := s.Recv(); errors.Is(err, io.EOF) {
			_, err = r.print(ctx)
			return err
		} else if err != nil {
			return err
		}
	}
}
