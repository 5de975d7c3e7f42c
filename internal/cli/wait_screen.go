package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// screenWait has the conditions of `trl wait` that are about the screen of a terminal.
type screenWait struct {
	text     string
	since    uint64
	hasSince bool
	cursor   cursorFlag
}

// isFor reports whether trl must wait with session.wait: for a condition of the screen, or for
// the end of a terminal or program, which is the end of its session.
func (w *screenWait) isFor(ctx context.Context, cmd *cobra.Command, c *client.Client, p api.ExecWaitParams) (bool, error) {
	w.hasSince = cmd.Flags().Changed("since")
	asked := w.text != "" || w.cursor.at != nil
	one := len(p.SessionIDs) == 1 && len(p.ExecIDs) == 0
	_, err := regexp.Compile(w.text)
	switch {
	case asked && !one:
		return false, ui.UsageErrorf(cmd, "--text and --cursor are for one terminal")
	case asked && p.OutputMatch != "":
		return false, ui.UsageErrorf(cmd, "--match looks at the output, --text and --cursor at the screen: give one")
	case err != nil:
		return false, ui.UsageErrorf(cmd, "--text: %s", err)
	case w.hasSince && w.text == "":
		return false, ui.UsageErrorf(cmd, "--since is for --text")
	case asked || !one || p.OutputMatch != "":
		return asked, nil
	}
	info, err := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: p.SessionIDs[0]})
	return err == nil && info.Kind != api.KindShell, err
}

// params returns the request of session.wait, with the conditions of p.
func (w *screenWait) params(p api.ExecWaitParams) api.SessionWaitParams {
	q := api.SessionWaitParams{
		SessionID: p.SessionIDs[0], Text: w.text, Cursor: w.cursor.at, IdleS: p.IdleS, TimeoutS: p.TimeoutS,
		Exit: len(p.Until) == 0 || slices.Contains(p.Until, api.UntilExit), WaitingForInput: slices.Contains(p.Until, api.UntilWaitingForInput),
	}
	if w.text != "" || w.cursor.at != nil {
		q.Exit = slices.Contains(p.Until, api.UntilExit)
	}
	if w.hasSince {
		q.SinceVersion = &w.since
	}
	return q
}

// waitForScreen waits and prints which condition was met.
func (a *app) waitForScreen(ctx context.Context, c *client.Client, p api.SessionWaitParams, asJSON bool) error {
	res, err := c.SessionWait(ctx, p)
	if err != nil {
		return err
	}
	switch {
	case asJSON:
		err = a.Stdout.JSON(res)
	case !res.TimedOut:
		t := ui.Table{Header: []string{"ID", "WHAT", "DETAIL"}}
		t.Add(ui.Text(res.SessionID), ui.Text(res.Reason), seenCell(res))
		a.Stdout.Table(t)
	case a.Stderr.TTY || a.verbose:
		a.Stderr.Line("trl: timed out")
	}
	switch {
	case err != nil:
		return err
	case res.TimedOut:
		return ui.ExitWith(api.ExitTimedOut)
	case res.Reason == api.WaitExit && res.ExitCode != nil:
		return ui.ExitWith(*res.ExitCode)
	}
	return nil
}

func seenCell(r api.SessionWaitResult) ui.Cell {
	switch {
	case r.Reason == api.WaitText:
		return ui.Text(r.Match)
	case r.Process != nil:
		return ui.Text(fmt.Sprintf("%d %s", r.Process.PID, r.Process.Command))
	case r.Reason == api.WaitCursor && r.Cursor != nil:
		return ui.Text(fmt.Sprintf("%d,%d", r.Cursor.X, r.Cursor.Y))
	case r.ExitCode != nil && *r.ExitCode != 0:
		return ui.Painted(strconv.Itoa(*r.ExitCode), ui.Red)
	case r.ExitCode != nil:
		return ui.Painted("0", ui.Green)
	}
	return ui.Text("")
}

// cursorFlag is a position of the cursor: X,Y, or X, or ,Y.
type cursorFlag struct{ at *api.CursorAt }

func (f *cursorFlag) Type() string { return "X,Y" }

func (f *cursorFlag) String() string { return "" }

func (f *cursorFlag) Set(text string) error {
	x, y, ok := strings.Cut(text, ",")
	at := &api.CursorAt{}
	for word, to := range map[*string]**int{&x: &at.X, &y: &at.Y} {
		if *word == "" {
			continue
		}
		n, err := strconv.Atoi(*word)
		if err != nil || n < 0 {
			ok = false
		}
		*to = &n
	}
	if !ok || at.X == nil && at.Y == nil {
		return errors.New("not a position such as 0,5")
	}
	f.at = at
	return nil
}
