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
	"github.com/trl-dev/trl/internal/cli/ui"
)

func (a *app) infoCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "info SESSION|EXEC",
		GroupID: groupSessions,
		Short:   "Show everything about a session or a command",
		Long: `Show everything about a session, by its name or id, or about one command, by the id
that trl ps shows. It shows only the names of variables.`,
		Example: `  trl info build
  trl info x-3f9a1c02de-7
  trl info build --json | jq .shell_pid`,
		Args: ui.NameArgs(1, 1, "one session or command"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				if isExec(args[0]) {
					e, err := c.ExecInfo(ctx, api.ExecInfoParams{ExecID: args[0]})
					switch {
					case err != nil:
						return err
					case asJSON:
						return a.Stdout.JSON(e)
					}
					a.Stdout.Facts(a.execFacts(e))
					return nil
				}
				s, err := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: args[0]})
				switch {
				case err != nil:
					return err
				case asJSON:
					return a.Stdout.JSON(s)
				}
				a.Stdout.Facts(a.sessionFacts(s))
				return nil
			})
		},
		ValidArgsFunction: a.completeSessionsAndExecs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// isExec reports whether a word names a command rather than a session.
func isExec(s string) bool { return strings.HasPrefix(s, "x-") }

func (a *app) sessionFacts(s api.SessionDetails) [][2]string {
	var facts [][2]string
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, [2]string{name, value})
		}
	}
	add("id", s.SessionID)
	add("name", s.Name)
	if s.Kind != api.KindShell {
		add("kind", string(s.Kind))
	}
	add("state", string(s.State))
	add("runtime", s.Runtime)
	add("place", placeText(s.SessionInfo))
	add("owner", ownerText(s.SessionInfo))
	add("runs", s.ExecID)
	add("queued", nonZero(int64(s.Queued)))
	if s.TerminatedAt != nil {
		add("ended", a.Stdout.When(*s.TerminatedAt))
	}
	add("cause", s.Cause)
	if !s.Reachable {
		add("unreachable", reachText(s.SessionInfo))
	}
	if s.EndsInS != nil {
		add("ends", endsText(s.SessionInfo))
	}
	if s.ExitCode != nil {
		add("exit code", strconv.Itoa(*s.ExitCode))
	}
	add("signal", s.Signal)
	if len(s.Command) > 0 {
		add("program", strings.Join(s.Command, " "))
	} else if s.ShellFamily != "" {
		add("shell", s.Shell+" ("+s.ShellFamily+")")
	} else {
		add("shell", s.Shell)
	}
	if s.Terminal != nil {
		for _, fact := range terminalFacts(*s.Terminal) {
			add(fact[0], fact[1])
		}
	}
	add("directory", s.WorkingDir)
	add("created", a.Stdout.When(s.CreatedAt))
	add("active", a.Stdout.When(s.LastActivity))
	if s.Kind == api.KindShell {
		add("commands", strconv.FormatInt(s.CommandCount, 10))
		add("beside shell", nonZero(int64(s.Parallel)))
		add("timeout", ui.Seconds(s.TimeoutS))
	}
	add("tags", strings.Join(s.Tags, " "))
	if s.Ephemeral {
		add("ephemeral", "ends with the connection that created it")
	}
	add("shell pid", nonZero(int64(s.ShellPID)))
	add("runner pid", nonZero(int64(s.RunnerPID)))
	add("restarts", nonZero(s.ShellRestarts))
	add("kill by", s.Enforcement)
	facts = append(facts, limitFacts(s.Limits)...)
	facts = append(facts, isolationFacts(s.Isolation)...)
	for _, p := range s.Processes {
		add("process", fmt.Sprintf("%d %s", p.PID, p.Command))
	}
	add("environment", strings.Join(s.EnvKeys, " "))
	return facts
}

// endsText says when a session will end on its own, and why. The reason of the daemon is that of a
// session that has ended; one that still has to become idle for so long needs other words.
func endsText(s api.SessionInfo) string {
	text := "in " + ui.Span(time.Duration(*s.EndsInS)*time.Second)
	switch {
	case !strings.Contains(s.EndsWhy, "idle_timeout_s"):
		return text + ui.Prefixed(": ", s.EndsWhy)
	case s.Kind == api.KindShell:
		return text + ", if nothing runs until then (idle_timeout_s)"
	}
	return text + ", if it stays idle until then (idle_timeout_s)"
}

// placeText describes the place of a session that is not on the daemon's machine.
func placeText(s api.SessionInfo) string {
	p := s.Place
	if p == nil || p.Kind == api.PlaceHost {
		return ""
	}
	var words []string
	for _, w := range [][2]string{
		{"container", p.Container}, {"image", p.Image}, {"pod", p.Pod}, {"namespace", p.Namespace}, {"node", p.Node}, {"host", p.Host}, {"daemon", p.Address},
		{"", strings.Trim(p.OS+"/"+p.Arch, "/")},
	} {
		if w[1] != "" {
			words = append(words, strings.TrimSpace(w[0]+" "+w[1]))
		}
	}
	return strings.Join(words, ", ")
}

// ownerText describes the daemon that a session belongs to, if it is another one.
func ownerText(s api.SessionInfo) string {
	switch {
	case s.Guest == nil:
		return ""
	case s.Guest.Connected:
		return "the daemon on " + cmp.Or(s.Guest.Owner, s.Guest.OwnerID)
	}
	return "the daemon on " + cmp.Or(s.Guest.Owner, s.Guest.OwnerID) + ", which is not connected"
}

// reachText says why a session cannot be reached, and since when.
func reachText(s api.SessionInfo) string {
	if s.UnreachableSince == nil {
		return s.UnreachableWhy
	}
	return "since " + s.UnreachableSince.UTC().Format(time.RFC3339) + ": " + s.UnreachableWhy
}

func terminalFacts(t api.TerminalInfo) [][2]string {
	facts := [][2]string{{"title", t.Title}, {"size", sizeText(t.Cols, t.Rows)}}
	if t.Alternate {
		facts = append(facts, [2]string{"screen", "the program's own"})
	}
	facts = append(facts, [2]string{"attached", strconv.Itoa(t.Viewers)})
	if r := t.Recording; r != nil {
		about := fmt.Sprintf("%s (%s)", r.Path, ui.BytesText(float64(r.Bytes)))
		if r.Input {
			about += ", with keys"
		}
		if r.Stopped != "" {
			about += "; stopped: " + r.Stopped
		}
		facts = append(facts, [2]string{"recording", about})
	}
	return facts
}

func (a *app) execFacts(e api.ExecInfo) [][2]string {
	var facts [][2]string
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, [2]string{name, value})
		}
	}
	add("id", e.ExecID)
	add("session", e.SessionID)
	add("command", e.Command)
	add("state", string(e.State))
	add("queued", a.Stdout.When(e.QueuedAt))
	if e.StartedAt != nil {
		add("started", a.Stdout.When(*e.StartedAt))
	}
	if e.EndedAt != nil {
		add("ended", a.Stdout.When(*e.EndedAt))
	}
	add("timeout", ui.Seconds(e.TimeoutS))
	add("stdout", ui.BytesText(float64(e.StdoutBytes)))
	add("stderr", ui.BytesText(float64(e.StderrBytes)))
	if e.Error != nil {
		add("not run", ui.Message(e.Error))
	}
	o := e.Outcome
	if o == nil {
		return facts
	}
	add("exit code", exitText(*o))
	add("signal", o.Signal)
	add("took", ui.Span(time.Duration(o.DurationMS)*time.Millisecond))
	add("cpu", fmt.Sprintf("%d ms user, %d ms system", o.Usage.UserMS, o.Usage.SystemMS))
	if o.Usage.MaxRSSBytes > 0 {
		add("memory", ui.BytesText(float64(o.Usage.MaxRSSBytes)))
	}
	if o.OOMKilled {
		add("out of memory", oomText(o.OOM))
	}
	if o.Usage.ThrottledMS > 0 {
		add("stopped", fmt.Sprintf("%d ms by the limit cpus", o.Usage.ThrottledMS))
	}
	if o.Usage.ForksRefused > 0 {
		add("refused", fmt.Sprintf("%d processes by the limit pids", o.Usage.ForksRefused))
	}
	add("directory", o.WorkingDir)
	if o.ShellRestarted {
		add("shell", "ended and was restarted with its state")
	}
	for _, p := range o.LeftRunning {
		add("left running", fmt.Sprintf("%d %s", p.PID, p.Command))
	}
	for _, k := range o.Killed {
		add("killed", fmt.Sprintf("%d %s (%s)", k.PID, k.Command, k.Signal))
	}
	return facts
}

// exitText returns the exit code and, if trl ended the command, the reason.
func exitText(o api.ExecOutcome) string {
	switch {
	case o.TimedOut:
		return fmt.Sprintf("%d (timed out)", o.ExitCode)
	case o.CancelCause != "":
		return fmt.Sprintf("%d (cancelled: %s)", o.ExitCode, o.CancelCause)
	case o.Cancelled:
		return fmt.Sprintf("%d (cancelled)", o.ExitCode)
	}
	return strconv.Itoa(o.ExitCode)
}

func nonZero(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
