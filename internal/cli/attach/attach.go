// Package attach is the interactive viewer of `trl attach`: it shows the terminal of a session
// in the person's window and types the person's keys into it.
package attach

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/terminal/view"
)

// Options say which terminal a person sees, and how.
type Options struct {
	Session  string     // name or id of the session
	Name     string     // what messages call it
	Keys     *view.Keys // the key that detaches
	ReadOnly bool
	TakeSize bool // the session follows the size of the person's window
	UTF8     bool // the person's terminal gets UTF-8 in every locale
	Fresh    bool // the session was created for this person, who sees its output from the start
	Quiet    bool // the end of the program needs no message
}

// Run shows a terminal to a person until its program ends or the person detaches. It
// returns the program's exit status as an error.
func Run(ctx context.Context, s ui.Streams, c *client.Client, o Options) error {
	c.ReconnectFor = ui.InteractiveSearchTime
	info, err := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: o.Session})
	if err != nil {
		return err
	}
	if info.SessionID == os.Getenv(api.SessionMarker) {
		return fmt.Errorf("session %q: this terminal cannot attach to itself", o.Name)
	}
	o.Session = info.SessionID
	v := &viewer{Options: o, streams: s, client: c}
	v.terminal, _ = s.Terminal()
	outcome, err := v.run(ctx)
	if errors.Is(err, api.ErrSessionTerminated) {
		if v.window == nil && !o.Fresh {
			return ui.WithHint(err, "`trl screen %s` prints what it showed last", o.Name)
		}
		if v.window == nil {
			printScreen(ctx, s.Stdout, c, o.Session)
		}
		outcome, err = lastOutcome(ctx, c, o.Session, err)
	}
	switch {
	case errors.Is(err, ui.ErrStopped):
		return ui.WithHint(fmt.Errorf("%s: %w", o.Name, err), "its sessions have ended with it, unless keep_sessions is set")
	case errors.Is(err, api.ErrRuntimeUnavailable):
		return ui.WithHint(fmt.Errorf("%s: %w", o.Name, err), "its program keeps running: use `trl attach %s` when a daemon runs", o.Name)
	case err != nil:
		return err
	case outcome == nil:
		s.Stderr.Line(s.Stderr.Paint(ui.Dim, fmt.Sprintf("trl: %s: detached; it keeps running", o.Name)))
		return nil
	}
	if !o.Quiet {
		s.Stderr.Line(s.Stderr.Paint(ui.Dim, fmt.Sprintf("trl: %s: %s", o.Name, endText(*outcome))))
	}
	return ui.ExitWith(outcome.ExitCode)
}

// lastOutcome asks how the program of a session ended that was gone when the viewer attached
// or reconnected. If the daemon does not know, it returns cause.
func lastOutcome(ctx context.Context, c *client.Client, session string, cause error) (*api.ExecOutcome, error) {
	info, err := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: session})
	if err != nil || info.ExitCode == nil {
		return nil, cause
	}
	return &api.ExecOutcome{ExitCode: *info.ExitCode, Signal: info.Signal}, nil
}

// printScreen prints the last screen of a session, if the daemon has it.
func printScreen(ctx context.Context, out *ui.Printer, c *client.Client, session string) {
	if res, err := c.SessionScreen(ctx, api.SessionScreenParams{SessionID: session, Format: api.FormatANSI}); err == nil {
		_, _ = out.Write([]byte(ui.TrimBlankRows(res.Text)))
	}
}

// endText says how a program ended.
func endText(o api.ExecOutcome) string {
	switch {
	case o.Cancelled:
		return "the program was ended"
	case o.Signal != "":
		return "the program died of " + o.Signal
	}
	return fmt.Sprintf("the program exited with status %d", o.ExitCode)
}
