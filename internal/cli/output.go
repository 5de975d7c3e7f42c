package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// stream runs the command and prints its output as it comes.
func (r *run) stream(ctx context.Context, c *client.Client, p api.ExecParams) error {
	opened, err := c.ExecStream(ctx, api.ExecStreamParams{ExecParams: p})
	if err != nil {
		return err
	}
	s := opened.(*client.Stream)
	defer s.Close()
	id := s.Start().ExecID
	r.setTarget(api.ExecCancelParams{ExecID: id})
	r.suggest()
	feeding, stop := context.WithCancel(ctx)
	defer stop()
	r.feed(feeding, c, id)

	lost := map[string]int64{} // bytes, by stream
	for {
		e, data, err := s.RecvBytes()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the daemon did not report how the command ended")
			}
			return fmt.Errorf("exec %s: %w", id, err)
		}
		switch e.Type {
		case api.EventStdout, api.EventStderr:
			if err := r.app.pass(e.Type, data); err != nil {
				_, _ = c.ExecCancel(ctx, api.ExecCancelParams{ExecID: id})
				return err
			}
		case api.EventGap:
			lost[e.Stream] += *e.To - *e.From
		case api.EventExit:
			r.app.report(id, *e.ExecOutcome, r.session != "")
			if len(lost) == 0 {
				return ui.ExitWith(e.ExitCode)
			}
			return lostError(id, lost, e.ExitCode)
		}
	}
}

// lostError returns the error for lost output. The exit status is never 0, even if that of the
// command is: 0 would say that the printed output is complete.
func lostError(id string, lost map[string]int64, status int) error {
	if status == ui.ExitOK {
		status = ui.ExitFailure
	}
	var parts []string
	for _, name := range []string{api.EventStdout, api.EventStderr} {
		if n := lost[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d bytes of %s", n, name))
		}
	}
	return &ui.Failure{
		Err:    fmt.Errorf("exec %s: lost %s: the command wrote faster than trl could read", id, strings.Join(parts, " and ")),
		Status: status,
		Hint:   "let the command write to a file, or raise output_bytes (see `trl config`)",
	}
}

// pass writes output of a command to stdout or stderr.
func (a *app) pass(stream string, data []byte) error {
	out := a.Stdout
	if stream == api.EventStderr {
		out = a.Stderr
	}
	_, err := out.Write(data)
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return err
	}
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("write %s: %w", stream, err)
}

// result runs the command and prints everything about it as JSON.
func (r *run) result(ctx context.Context, c *client.Client, p api.ExecParams) error {
	// The id of the command is known only when it has ended. Until then, a cancel names it by
	// its session, unless other commands may run there: then a signal just closes the connection.
	if !p.Wait {
		r.setTarget(api.ExecCancelParams{SessionID: p.SessionID})
	}
	res, err := c.ExecRun(ctx, p)
	if err != nil {
		return err
	}
	if err := r.app.Stdout.JSON(res); err != nil {
		return err
	}
	return ui.ExitWith(res.ExitCode)
}

// report prints on stderr what the exit status does not show. Processes that the command left
// running in a temporary session end now.
func (a *app) report(id string, o api.ExecOutcome, throwAway bool) {
	say := a.Stderr.Linef
	if o.TimedOut {
		say("trl: timed out after %s", ui.Span(time.Duration(o.DurationMS)*time.Millisecond))
	}
	if o.CancelCause != "" {
		say("trl: cancelled: %s", o.CancelCause)
	}
	if o.OOMKilled {
		say("trl: out of memory: %s", oomText(o.OOM))
	}
	if n := o.Usage.ForksRefused; n > 0 {
		say("trl: the limit of processes (pids) refused to start %d", n)
	}
	if o.ShellRestarted && len(o.Killed) > 0 && !o.TimedOut && !o.Cancelled {
		say("trl: the shell could no longer run commands and was killed; a new one has its state from before")
	}
	a.reportLimits(o.Limits)
	if throwAway && len(o.LeftRunning) > 0 && (a.Stderr.TTY || a.verbose) {
		for _, p := range o.LeftRunning {
			say("trl: ends with the temporary session: %s (pid %d)", ui.Printable(p.Command), p.PID)
		}
	}
	if !a.verbose {
		return
	}
	for _, k := range o.Killed {
		say("trl: killed by %s: %s (pid %d)", k.Signal, ui.Printable(k.Command), k.PID)
	}
	if o.ShellRestarted {
		say("trl: the shell ended and was restarted with its state")
	}
	say("trl: exec %s: exit %d after %d ms; user %d ms, system %d ms, max rss %s", id, o.ExitCode, o.DurationMS,
		o.Usage.UserMS, o.Usage.SystemMS, ui.BytesText(float64(o.Usage.MaxRSSBytes)))
	if ms := o.Usage.ThrottledMS; ms > 0 {
		say("trl: throttled for %d ms by the limit of processors (cpus)", ms)
	}
}
