package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) startCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:     "start [flags] [--] COMMAND...",
		GroupID: groupCommands,
		Short:   "Start a command in the background and print its id",
		Long: `Start a command in the background and print its id. It keeps running after trl has
ended, and TRL keeps its output for trl logs.

With -s it runs in the session of that name, which is created if it does not exist, and
whose shell can run nothing else meanwhile. Without -s it gets a new session, with your
directory and environment. That session stays after the command has ended, so that its
output can be read; it ends with trl kill, or after nothing but its shell has run in it
for idle_timeout_s (see trl config).

A single argument is shell text. Several are the words of one command: each arrives
unchanged, and the session's shell runs them. Flags end at the first word. With --direct
the words are a program and its arguments, which TRL starts beside the session's shell.

The command's stdin is empty. With --stdin it reads the text of trl input.`,
		Example: `  id=$(trl start 'npm run build')      trl logs -f $id; trl wait $id; trl cancel $id
  trl start -s web ./server            then: trl logs -f web
  id=$(trl start --stdin python3 -i)
  trl input $id 'print(6 * 7)'`,
		Args: ui.Args(1, -1, "a command"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkCommand(cmd, args); err != nil {
				return err
			}
			r := &run{app: a, cmd: cmd, flags: f, args: args}
			r.flags.stdin = false // trl start does not read its own stdin
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error { return r.background(ctx, c, f.stdin) })
		},
	}
	a.commandFlags(cmd, &f, flagTexts{
		stdin: "leave its stdin open for trl input", wait: "wait for its turn when the session is busy",
		json: "print the command as JSON instead of its id",
	})
	return cmd
}

// background starts the command and prints its id.
func (r *run) background(ctx context.Context, c *client.Client, openStdin bool) error {
	// Until the command has started, no other client knows of its session. A signal therefore
	// takes effect only then, after a moment, and undoes the start.
	interrupted, answer := interruptible(ctx)
	p, err := r.params(ctx, c)
	if err != nil {
		return err
	}
	detach := true
	p.Detach = &detach
	if openStdin {
		p.StdinOpen = true
	}
	var place api.SessionInfo
	if p.SessionID = string(r.flags.session); p.SessionID != "" {
		place, err = r.findNamed(ctx, c)
	} else {
		creating := ctx
		if r.app.place.elsewhere { // that may take minutes
			creating = interrupted
		}
		place, err = r.makeOwn(creating, c, &p)
		p.SessionID = place.SessionID
	}
	if err != nil {
		return answer(err)
	}
	r.say(&p, place)
	info, err := c.ExecStart(ctx, p)
	if err == nil && interrupted.Err() != nil {
		_, _ = c.ExecCancel(ctx, api.ExecCancelParams{ExecID: info.ExecID})
		err = answer(ui.ExitWith(api.ExitCancelled))
	}
	if err != nil {
		if r.session != "" {
			_, _ = c.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: r.session, Force: true})
		}
		if errors.Is(err, api.ErrSessionBusy) {
			return busyHint(err, p.SessionID)
		}
		return err
	}
	if r.flags.json {
		return r.app.Stdout.JSON(info)
	}
	r.app.Stdout.Line(info.ExecID)
	if r.session != "" && (r.app.Stderr.TTY || r.app.verbose) {
		r.app.Stderr.Line(r.app.Stderr.Paint(ui.Dim, "trl: in the session "+r.session+"; trl kill ends it"))
	}
	return nil
}

// makeOwn creates a session for this command alone.
func (r *run) makeOwn(ctx context.Context, c *client.Client, p *api.ExecParams) (api.SessionInfo, error) {
	create, err := r.app.likeOurs(p.WorkingDir, r.shell())
	if err != nil {
		return api.SessionInfo{}, err
	}
	p.WorkingDir = ""
	r.flags.limits.fill(&create)
	r.flags.resources.fill(&create)
	info, err := r.app.createSession(ctx, c, create)
	r.session = info.SessionID
	return info, err
}
