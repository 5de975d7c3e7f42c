package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// feed passes our stdin on to a command as it comes, with -i. It ends with ctx: a command may end
// before its input does.
func (r *run) feed(ctx context.Context, c *client.Client, id string) {
	if !r.flags.stdin {
		return
	}
	in := &input{app: r.app, exec: id, close: true}
	reads := make(chan read)
	go readInto(ctx, reads, r.app.Stdin, false)
	go func() {
		for {
			var piece read
			select {
			case piece = <-reads:
			case <-ctx.Done():
				return
			}
			done := errors.Is(piece.err, io.EOF)
			if piece.err != nil && !done {
				r.app.Stderr.Linef("trl: read stdin: %s; the command gets no more of it", piece.err)
				done = true
			}
			// On an error, the command or the daemon has ended; the stream reports either.
			if err := in.write(ctx, c, piece.data, done); err != nil || done {
				return
			}
		}
	}()
}

// allStdin reads the caller's stdin, up to the limit of the daemon: with --json, trl run is one
// call, which has the whole input.
func (r *run) allStdin(ctx context.Context, c *client.Client, p *api.ExecParams) error {
	info, err := c.SystemInfo(ctx, api.SystemInfoParams{})
	if err != nil {
		return err
	}
	limit := int64(info.Limits["max_stdin_bytes"])
	data, err := io.ReadAll(io.LimitReader(r.app.Stdin, limit+1))
	if err != nil {
		return fmt.Errorf("read stdin: %w", err)
	}
	if int64(len(data)) > limit {
		return ui.WithHint(fmt.Errorf("stdin is larger than %s, the limit with --json", ui.BytesText(float64(limit))),
			"leave out --json, or raise max_stdin_bytes (see `trl config`)")
	}
	text, b64 := ui.TextOrBase64(data)
	if p.StdinBase64 = b64; b64 == "" {
		p.Stdin = &text
	}
	return nil
}
