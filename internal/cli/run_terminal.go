package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/attach"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/terminal/view"
)

// terminal runs the command in a temporary terminal. For a person, the window becomes that
// terminal; otherwise the terminal has 80 columns, and trl prints its output.
func (r *run) terminal() error {
	for _, name := range []string{"session", "timeout", "json", "wait", "direct", "merge"} {
		if r.cmd.Flags().Changed(name) {
			err := ui.UsageErrorf(r.cmd, "--tty and --%s cannot be combined", name)
			if name == "session" {
				err.Hint = "a terminal is a session of its own: `trl new -t NAME PROGRAM` starts one that stays"
			}
			return err
		}
	}
	_, person := r.app.Terminal()
	if person {
		if err := ui.CheckWindow("trl run -t", "without -t, it gets no terminal"); err != nil {
			return err
		}
	}
	if _, err := r.app.settings(r.cmd); err != nil { // they say where the terminal will be
		return err
	}
	p, err := r.app.likeOurs(r.flags.cwd, r.flags.shell)
	if err != nil {
		return err
	}
	if p.Command, err = r.app.program(r.cmd, r.args, p.Shell); err != nil {
		return err
	}
	p.Ephemeral = r.app.url == ""
	r.flags.resources.fill(&p)
	if err := (&terminalFlags{}).fill(r.app, r.cmd, &p); err != nil {
		return err
	}
	for k, v := range r.flags.env {
		p.Env[k] = v
	}
	return r.app.withClient(r.cmd, func(ctx context.Context, c *client.Client) error { return r.inTerminal(ctx, c, p, person) })
}

// inTerminal runs the command in a new terminal, and ends the terminal.
func (r *run) inTerminal(ctx context.Context, c *client.Client, p api.SessionCreateParams, person bool) error {
	keys, err := view.NewKeys("none") // the program gets all keys
	if err != nil {
		return err
	}
	info, err := r.app.createSession(ctx, c, p)
	if err != nil {
		return err
	}
	if person {
		err = attach.Run(ctx, r.app.Streams, c, attach.Options{Session: info.SessionID, Name: info.SessionID, Keys: keys, Fresh: true, Quiet: true})
	} else {
		passing, answer := interruptible(ctx)
		err = answer(r.passTerminal(passing, c, info))
	}
	_, _ = c.SessionDestroy(context.WithoutCancel(ctx), api.SessionDestroyParams{SessionID: info.SessionID})
	return err
}

// passTerminal prints the output of the terminal and, with -i, types our stdin and its end into it.
func (r *run) passTerminal(ctx context.Context, c *client.Client, info api.SessionInfo) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s, err := c.ExecStream(ctx, api.ExecStreamParams{ExecID: info.ExecID})
	if err != nil {
		return err
	}
	defer s.Close()
	if r.flags.stdin {
		go func() {
			err := attach.Type(ctx, c, info.SessionID, r.app.Stdin)
			var e *api.Error
			ended := errors.As(err, &e) && (e.Code == api.CodeSessionTerminated || e.Code == api.CodeSessionNotFound)
			if err != nil && !ended { // the stream reports the end
				stop(&untyped{err})
			}
		}()
	} else if r.app.Stderr.TTY && hasInput(r.app.Stdin) { // a program that waits for it never ends
		r.app.Stderr.Line(r.app.Stderr.Paint(ui.Dim, "hint: the program does not get your stdin: `trl run -t -i` types it"))
	}
	for {
		ev, err := s.Recv()
		var failed *untyped
		switch {
		case err != nil && errors.As(context.Cause(ctx), &failed):
			return failed.err
		case errors.Is(err, io.EOF):
			return errors.New("the daemon did not report how the program ended")
		case err != nil:
			return fmt.Errorf("session %s: %w", info.SessionID, err)
		case ev.Type == api.EventStdout:
			if err := r.app.pass(ev.Type, api.Data(ev.Data, ev.DataBase64)); err != nil {
				return err
			}
		case ev.Type == api.EventExit:
			return ui.ExitWith(ev.ExitCode)
		}
	}
}

// hasInput reports whether f is a file or a pipe, which has input for a program. A terminal has none
// yet, and /dev/null never has.
func hasInput(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice == 0
}

// untyped is why the rest of stdin cannot be typed.
type untyped struct{ err error }

func (u *untyped) Error() string { return u.err.Error() }
