package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/audit"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// auditing is one `trl audit`.
type auditing struct {
	app     *app
	filter  api.AuditFilter
	session ui.NameFlag
	since   string
	limit   int
	follow  bool
	json    bool
}

func (a *app) auditCommand() *cobra.Command {
	l := &auditing{app: a}
	cmd := &cobra.Command{
		Use:     "audit [verify [DIR]]",
		GroupID: groupDaemon,
		Short:   "Show who changed what, or check that the record is whole",
		Long: `Print the newest records of the audit log: every call that changed something, or tried to, with
its caller, its outcome and its session or dialogue. -f follows. The log has no command text, input
or answers, unless the setting audit_content is on.

Each record has the hash of the previous one. trl audit verify checks this chain and names the first
line that was changed or is missing; with DIR, in the copy of a log. It prints the last hash: keep it
elsewhere to prove later that the log up to that record is unchanged.`,
		Example: `  trl audit
  trl audit --since 1h --outcome error
  trl audit --session build --method exec -f
  trl audit verify`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && args[0] != "verify":
				return noSuchWord(cmd, args[0], "verify")
			case len(args) > 2:
				return ui.UsageErrorf(cmd, "verify takes one DIR")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return l.report(audit.Verify(args[1]))
			}
			if len(args) == 1 {
				return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
					r, err := c.AuditVerify(ctx, api.AuditVerifyParams{})
					return l.report(r, tooOldIf(err))
				})
			}
			l.filter.SessionID = string(l.session)
			if l.since != "" {
				at, err := sinceTime(l.since, time.Now())
				if err != nil {
					return ui.UsageErrorf(cmd, "--since: %s", err)
				}
				l.filter.Since = &at
			}
			if err := (api.AuditListParams{Limit: l.limit}).Check(); err != nil || l.limit == 0 {
				return ui.UsageErrorf(cmd, "--limit: must be from 1 to %d", api.MaxAuditLimit)
			}
			return a.withClientUntilSignal(cmd, l.print)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return keep([]cobra.Completion{"verify"}, prefix), cobra.ShellCompDirectiveNoFileComp
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&l.follow, "follow", "f", false, "follow new records")
	flags.StringVar(&l.since, "since", "", "only calls since this `TIME`: RFC 3339, or how long ago (30m, 24h)")
	flags.StringVar(&l.filter.Method, "method", "", "only this `METHOD`, or all whose names begin with it and a dot")
	flags.StringVar(&l.filter.Caller, "caller", "", "only calls of this `CALLER`: transport, address, process id, label, login or token")
	flags.VarP(&l.session, "session", "s", "only those of the session of this `NAME` or id")
	flags.StringVar(&l.filter.DialogueID, "dialogue", "", "only those of this `DIALOGUE`")
	flags.StringVar(&l.filter.Outcome, "outcome", "", "only this `OUTCOME`: ok, started, error or the code of an error")
	flags.IntVarP(&l.limit, "limit", "n", api.DefaultAuditLimit, "at most this many records")
	flags.BoolVar(&l.json, "json", false, "print each record, or the result of verify, as a line of JSON")
	a.completeFlag(cmd, "session", a.completeSessions)
	return cmd
}

// tooOldIf is tooOld for an error that may be nil.
func tooOldIf(err error) error {
	if err == nil {
		return nil
	}
	return tooOld(err)
}

// sinceTime reads a time, or a duration before now.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q: must be a time such as 2026-01-31T12:00:00Z, or a duration such as 30m", text)
	}
	return at, nil
}

func (l *auditing) print(ctx context.Context, c *client.Client) error {
	r, err := c.AuditList(ctx, api.AuditListParams{AuditFilter: l.filter, Limit: l.limit})
	if err != nil {
		return tooOld(err)
	}
	if r.Fault != "" {
		l.app.Stderr.Line("trl: the audit log cannot be written now: " + r.Fault)
	}
	if l.json {
		for i := range r.Records {
			if err := l.app.Stdout.JSONLine(r.Records[i]); err != nil {
				return err
			}
		}
	} else if len(r.Records) > 0 {
		t := ui.Table{Header: []string{"SEQ", "AT", "METHOD", "OUTCOME", "TARGET", "CALLER"}}
		for i := range r.Records {
			var cells []ui.Cell
			for _, word := range auditWords(&r.Records[i]) {
				cells = append(cells, ui.Text(word))
			}
			t.Add(cells...)
		}
		l.app.Stdout.Table(t)
	}
	if !l.follow {
		return nil
	}
	s, err := c.AuditSubscribe(ctx, api.AuditSubscribeParams{AuditFilter: l.filter, AfterSeq: &r.LastSeq})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		push, err := s.Recv()
		if err != nil {
			return err
		}
		switch {
		case l.json && push.Audit != nil:
			err = l.app.Stdout.JSONLine(push.Audit)
		case push.Audit != nil:
			l.app.Stdout.Line(strings.Join(auditWords(push.Audit), "  "))
		}
		if err != nil {
			return err
		}
	}
}

// auditWords returns the columns of a record.
func auditWords(r *api.AuditRecord) []string {
	method := cmp.Or(r.Method, "-")
	if r.Count > 1 && r.Method != "" {
		method += " ×" + strconv.FormatInt(r.Count, 10)
	}
	target := cmp.Or(r.ExecID, r.DialogueID, r.SessionID, r.LoginID, "-")
	if r.Note != "" {
		target = ui.Printable(r.Note)
	}
	return []string{strconv.FormatInt(r.Seq, 10), r.At.Format(time.RFC3339), method, cmp.Or(r.Outcome, "-"), ui.Printable(target), callerText(r.Caller)}
}

// callerText names a caller in one word or two.
func callerText(c *api.Caller) string {
	if c == nil {
		return "-"
	}
	words := []string{c.Transport}
	if c.PID > 0 {
		words = append(words, fmt.Sprintf("pid %d", c.PID))
	}
	if c.UID != nil {
		words = append(words, fmt.Sprintf("uid %d", *c.UID))
	}
	for _, w := range []struct{ label, word string }{{"", c.Label}, {"", c.LoginID}, {"token ", c.Token}, {"certificate ", c.Certificate}, {"", c.Address}} {
		if w.word != "" {
			words = append(words, w.label+ui.Printable(w.word))
		}
	}
	return strings.Join(words, " ")
}

// report prints the result of verify. A chain that is broken is a failure.
func (l *auditing) report(r api.AuditVerifyResult, err error) error {
	if err != nil {
		return err
	}
	if l.json {
		if err := l.app.Stdout.JSON(r); err != nil {
			return err
		}
	}
	if !r.OK {
		where := r.Broken.File
		if r.Broken.Line > 0 {
			where += ":" + strconv.Itoa(r.Broken.Line)
		}
		return fmt.Errorf("audit log: %s: %s", where, r.Broken.Reason)
	}
	if !l.json {
		l.app.Stdout.Line(fmt.Sprintf("whole: %d records, %d to %d; last hash %s", r.Records, r.FirstSeq, r.LastSeq, cmp.Or(r.LastHash, "-")))
	}
	return nil
}
