package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) logsCommand() *cobra.Command {
	l := &logs{app: a}
	var grep string
	var onlyStdout, onlyStderr bool
	cmd := &cobra.Command{
		Use:     "logs EXEC|SESSION",
		GroupID: groupCommands,
		Short:   "Print the output of a command; -f follows it",
		Long: `Print the output of a command, byte for byte: its stdout to stdout, its stderr to stderr,
in the order in which it came. Name the command by its id (see trl ps -a), or by its
session, which selects the command that runs there or ran there last.

-f follows the output until the command has ended, even if the daemon restarts meanwhile;
trl then exits with the command's status. Ctrl-C ends trl logs, not the command.

TRL keeps only the head and the tail of very long output (output_bytes in trl config);
a line on stderr reports each missing part.`,
		Example: `  trl logs x-3f9a1c02de-7
  trl logs -f build                    what runs in the session build, to its end
  trl logs build --tail 4K --stderr
  trl logs -f build --grep 'error|warning'
  trl logs --json build | jq .seq      later: trl logs build --since SEQ`,
		Args: ui.NameArgs(1, 1, "one command or session"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			switch {
			case onlyStdout && onlyStderr:
				return ui.UsageErrorf(cmd, "--stdout and --stderr: give one of them, or neither for both")
			case l.json && grep != "":
				return ui.UsageErrorf(cmd, "--json and --grep cannot be combined")
			case l.tail.n != nil && l.since > 0:
				return ui.UsageErrorf(cmd, "--tail and --since cannot be combined")
			case l.since < 0:
				return ui.UsageErrorf(cmd, "--since: must not be negative")
			case onlyStdout:
				l.only = api.EventStdout
			case onlyStderr:
				l.only = api.EventStderr
			}
			if l.grep, err = regexp.Compile(grep); err != nil {
				return ui.UsageErrorf(cmd, "--grep: %s", err)
			}
			if grep == "" {
				l.grep = nil
			}
			return a.withClientUntilSignal(cmd, func(ctx context.Context, c *client.Client) error {
				return noExec(l.print(ctx, c, args[0]))
			})
		},
		ValidArgsFunction: a.completePastExecs,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&l.follow, "follow", "f", false, "follow until the command has ended, and exit with its status")
	flags.Int64Var(&l.since, "since", 0, "only the output after the push with this `SEQ` (see --json)")
	flags.BoolVar(&onlyStdout, "stdout", false, "only stdout")
	flags.BoolVar(&onlyStderr, "stderr", false, "only stderr")
	flags.Var(&l.tail, "tail", "only the last bytes of each stream (4096, 64K, 8M)")
	flags.StringVar(&grep, "grep", "", "only the lines that match this `RE` (RE2 syntax)")
	flags.BoolVar(&l.json, "json", false, "print each push as a line of JSON")
	return cmd
}

// logs is one `trl logs`. One goroutine uses it.
type logs struct {
	app    *app
	follow bool
	since  int64
	only   string // the only stream to print; "" for both
	tail   sizeFlag
	grep   *regexp.Regexp // nil for all lines
	json   bool

	skip     map[string]int64 // by stream: bytes before this offset are already printed
	lines    map[string][]byte
	progress *progress
}

func (l *logs) print(ctx context.Context, c *client.Client, word string) error {
	info, err := findExec(ctx, c, word)
	if err != nil {
		return err
	}
	if l.since > info.LastSeq {
		return ui.WithHint(fmt.Errorf("--since: %d is beyond the last number of exec %q, which is %d", l.since, info.ExecID, info.LastSeq),
			"`trl logs --json %s` prints the numbers", word)
	}
	l.skip, l.lines = map[string]int64{}, map[string][]byte{}
	l.progress = l.app.newProgress(l.expected(info), l.app.Stdout.TTY)
	defer l.progress.clear()
	p := api.ExecStreamParams{ExecID: info.ExecID, AfterSeq: l.since}
	if l.tail.n != nil {
		if err := l.printTail(ctx, c, info.ExecID); err != nil || !l.follow {
			return errors.Join(err, l.flush())
		}
		// Continue after the snapshot; skip drops what the tail had.
		if p.AfterSeq = info.LastSeq; ended(info) {
			p.AfterSeq = max(0, info.LastSeq-1) // the last push is the exit
		}
	}
	if !l.follow && !ended(info) && info.LastSeq <= l.since {
		return nil
	}
	if l.follow {
		p.Stream = l.only // without -f, the pushes of both streams mark the end
	}
	s, err := c.ExecStream(ctx, p)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		ev, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return l.flush()
		}
		if err != nil {
			return err
		}
		if err := l.printPush(ev); err != nil {
			return err
		}
		switch {
		case ev.Type == api.EventExit && l.follow:
			l.progress.clear()
			if err := l.flush(); err != nil {
				return err
			}
			l.app.report(info.ExecID, *ev.ExecOutcome, false)
			return ui.ExitWith(ev.ExitCode)
		case !l.follow && !ended(info) && ev.Seq >= info.LastSeq:
			return l.flush()
		}
	}
}

// expected returns how many bytes will be printed, 0 if that is unknown.
func (l *logs) expected(info api.ExecInfo) int64 {
	if l.follow || l.since > 0 || l.tail.n != nil {
		return 0
	}
	switch l.only {
	case api.EventStdout:
		return info.StdoutBytes
	case api.EventStderr:
		return info.StderrBytes
	}
	return info.StdoutBytes + info.StderrBytes
}

// printTail prints the last bytes of each stream.
func (l *logs) printTail(ctx context.Context, c *client.Client, id string) error {
	for _, name := range []string{api.EventStdout, api.EventStderr} {
		if l.only != "" && l.only != name {
			continue
		}
		r, err := c.ExecOutput(ctx, api.ExecOutputParams{ExecID: id, Stream: name, Tail: l.tail.n})
		if err != nil {
			return err
		}
		ev := api.StreamEvent{Type: name, Offset: &r.Offset, Data: r.Data, DataBase64: r.DataBase64}
		if err := l.printPush(ev); err != nil {
			return err
		}
		l.skip[name] = r.NextOffset
	}
	return nil
}

// printPush prints one push.
func (l *logs) printPush(ev api.StreamEvent) error {
	switch {
	case l.only != "" && (ev.Type == api.EventStdout || ev.Type == api.EventStderr) && ev.Type != l.only,
		ev.Type == api.EventGap && l.only != "" && ev.Stream != l.only:
		return nil
	case l.json:
		l.progress.add(0)
		return l.app.Stdout.JSONLine(ev)
	case ev.Type == api.EventGap && *ev.To > l.skip[ev.Stream]:
		l.progress.clear()
		l.app.Stderr.Linef("trl: %d bytes of %s are missing here", *ev.To-max(*ev.From, l.skip[ev.Stream]), ev.Stream)
	case ev.Type == api.EventStdout || ev.Type == api.EventStderr:
		data := api.Data(ev.Data, ev.DataBase64)
		if late := l.skip[ev.Type] - *ev.Offset; late > 0 {
			data = data[min(late, int64(len(data))):]
		}
		return l.write(ev.Type, data)
	}
	return nil
}

// write prints bytes of a stream, or the lines in them that match.
func (l *logs) write(name string, data []byte) error {
	if l.grep != nil {
		data = l.matching(name, data)
	}
	if len(data) == 0 {
		return nil
	}
	if name == api.EventStderr {
		l.progress.clear()
	}
	err := l.app.pass(name, data)
	l.progress.add(len(data))
	return err
}
