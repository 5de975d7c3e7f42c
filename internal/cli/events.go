package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) eventsCommand() *cobra.Command {
	e := &events{app: a}
	cmd := &cobra.Command{
		Use:     "events",
		GroupID: groupCommands,
		Short:   "Print the events of sessions, commands and dialogues; -f follows",
		Long: `Print the events of sessions, commands and dialogues that the daemon has kept. -f follows new
events, even if the daemon restarts meanwhile.

One line for each event: number, time (RFC 3339), type, session or dialogue, command or request,
and the exit code, the cause, the state or the reason, separated by tabs; a field without a value is "-". On
a terminal they are aligned. Types: ` + strings.Join(api.EventTypes, ", ") + `.`,
		Example: `  trl events -f
  trl events -f --type exec.exited --session build
  trl events --after 1200 --json       the events after number 1200`,
		Args: ui.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := api.EventSubscribeParams{SessionID: string(e.session), Types: e.types}
			if err := p.Check(); err != nil {
				f := ui.UsageErrorf(cmd, "--type: %s", strings.TrimPrefix(err.Error(), "params.types: "))
				f.Hint = "types are " + strings.Join(slices.Concat(api.EventKinds, api.EventTypes), ", ")
				return f
			}
			return a.withClientUntilSignal(cmd, func(ctx context.Context, c *client.Client) error {
				return e.print(ctx, c)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&e.follow, "follow", "f", false, "follow new events")
	flags.Int64Var(&e.after, "after", 0, "only the events after this `SEQ`")
	flags.StringArrayVar(&e.types, "type", nil, "only events of this `TYPE`, or of session, exec, network or dialogue; may be repeated")
	flags.VarP(&e.session, "session", "s", "only those of the session of this `NAME` or id")
	flags.BoolVar(&e.json, "json", false, "print each event as a line of JSON")
	a.completeFlag(cmd, "session", a.completeSessions)
	a.completeFlag(cmd, "type", cobra.FixedCompletions(slices.Concat(api.EventKinds, api.EventTypes), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// events is one `trl events`.
type events struct {
	app     *app
	follow  bool
	after   int64
	types   []string
	session ui.NameFlag
	json    bool
}

func (e *events) print(ctx context.Context, c *client.Client) error {
	last, err := lastEvent(ctx, c)
	if err != nil {
		return err
	}
	switch {
	case e.after > last:
		return ui.WithHint(fmt.Errorf("--after: there is no event %d yet, the last is %d", e.after, last), "`trl events` prints the kept events with their numbers")
	case !e.follow && e.after == last:
		return nil
	}
	p := api.EventSubscribeParams{SessionID: string(e.session), Types: e.types, AfterSeq: &e.after}
	if !e.follow {
		// The number of the last kept event marks the end. That event may be filtered out, so
		// the filter is applied here.
		p.Types, p.SessionID = nil, ""
	}
	wanted, err := e.filter(ctx, c)
	if err != nil {
		return err
	}
	s, err := c.EventSubscribe(ctx, p)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		ev, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if wanted(ev) {
			if err := e.line(ev); err != nil {
				return err
			}
		}
		if !e.follow && ev.Seq >= last {
			return nil
		}
	}
}

// lastEvent returns the number of the last event so far.
func lastEvent(ctx context.Context, c *client.Client) (int64, error) {
	s, err := c.EventSubscribe(ctx, api.EventSubscribeParams{})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	return s.Start().Seq, nil
}

// filter returns whether an event is wanted, for events that the daemon did not filter. It
// returns an error if the daemon does not know the session.
func (e *events) filter(ctx context.Context, c *client.Client) (func(api.StreamEvent) bool, error) {
	if e.session != "" {
		s, err := c.EventSubscribe(ctx, api.EventSubscribeParams{SessionID: string(e.session)})
		if err != nil {
			return nil, err
		}
		_ = s.Close()
	}
	return func(ev api.StreamEvent) bool {
		kind, _, _ := strings.Cut(ev.Type, ".")
		return (e.session == "" || ev.SessionID == string(e.session) || ev.DialogueID == "" && ev.Name == string(e.session) || ev.Type == api.EventMissed) &&
			(len(e.types) == 0 || slices.Contains(e.types, ev.Type) || slices.Contains(e.types, kind) || ev.Type == api.EventMissed)
	}, nil
}

// line prints one event.
func (e *events) line(ev api.StreamEvent) error {
	out := e.app.Stdout
	if e.json {
		return e.app.Stdout.JSONLine(ev)
	}
	if ev.Type == api.EventMissed {
		if ev.From != nil && ev.To != nil {
			e.app.Stderr.Linef("trl: %s before %d not kept", ui.Plural(int(*ev.To-*ev.From), "event is", "events are"), *ev.To)
		}
		return out.Err
	}
	at, session := "", ev.Name
	if ev.At != nil {
		at = ev.At.UTC().Format(time.RFC3339Nano)
	}
	session = cmp.Or(session, ev.DialogueID, ev.SessionID)
	about := cmp.Or(ev.ExecID, ev.RequestID, ev.TurnID)
	detail := cmp.Or(ev.Cause, string(ev.State))
	if ev.Progress != nil {
		detail = ev.Progress.Message
	}
	if ev.Network != nil {
		about, detail = networkText(*ev.Network)
	}
	if ev.ExecOutcome != nil {
		detail = exitText(*ev.ExecOutcome)
	}
	if !out.TTY {
		out.Table(ui.Table{Rows: [][]ui.Cell{{ui.Text(strconv.FormatInt(ev.Seq, 10)), ui.Text(at), ui.Text(ev.Type), ui.Text(session), ui.Text(about), ui.Text(detail)}}})
		return out.Err
	}
	if ev.At != nil {
		at = ev.At.Local().Format("15:04:05.000")
	}
	out.Linef("%6d  %s  %s  %s", ev.Seq, out.Paint(ui.Dim, at), out.Paint(eventStyle(ev), fmt.Sprintf("%-18s", ev.Type)),
		ui.Printable(strings.Join(slices.DeleteFunc([]string{session, about, detail}, func(s string) bool { return s == "" }), "  ")))
	return out.Err
}

// networkText returns the destination of a decision, and why it was made.
func networkText(d api.NetworkDecision) (about, detail string) {
	about = net.JoinHostPort(d.Host, strconv.Itoa(d.Port))
	if d.Host == "" {
		about = "several destinations"
	}
	detail = cmp.Or(d.Reason, "by "+d.Rule)
	if d.Count > 1 {
		detail += fmt.Sprintf(" (%d times)", d.Count)
	}
	return about, detail
}

func eventStyle(ev api.StreamEvent) ui.Style {
	switch {
	case ev.ExecOutcome != nil && ev.ExitCode != 0:
		return ui.Red
	case ev.Type == api.EventExecExited:
		return ui.Green
	case ev.Type == api.EventNetworkRefused:
		return ui.Red
	case ev.Type == api.EventSessionTerminated:
		return ui.Yellow
	}
	return ui.Plain
}
