package mcp

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trl-dev/trl/api"
)

const (
	// defaultBytes bounds each stream in an answer, unless the model sets a limit.
	defaultBytes = 8000
	// listed is how many commands of a session, and how many ended dialogues, the tool list shows.
	listed = 10
)

func bytesOr(n int64) int64 {
	if n <= 0 {
		return defaultBytes
	}
	return min(n, api.MaxOutputLimit)
}

// followExec waits for one command, within the client's patience, and returns its outcome and the
// output since the model last looked.
func (c *conn) followExec(ctx call, p api.ExecWaitParams, limit int64) (execAnswer, error) {
	id := p.ExecIDs[0]
	if p.TimeoutS == nil || *p.TimeoutS > c.Patience.Seconds() {
		p.TimeoutS = seconds(c.Patience.Seconds())
	}
	stop := c.progress(ctx, func() string { return c.execStatus(ctx, id) })
	began := time.Now()
	r, err := c.Service.ExecWait(ctx, p)
	waited := time.Since(began)
	stop()
	if err != nil {
		return execAnswer{}, err
	}
	if len(r.Happened) > 0 && r.Happened[0].Error != nil {
		return execAnswer{}, r.Happened[0].Error
	}
	info, err := c.Service.ExecInfo(ctx, api.ExecInfoParams{ExecID: id})
	if err != nil {
		return execAnswer{}, err
	}
	a := execAnswer{ExecID: id, SessionID: info.SessionID, State: stateOf(info.State), bracket: true}
	out, errs, err := c.newOutput(ctx, id, bytesOr(limit))
	if err != nil {
		return execAnswer{}, err
	}
	a.output(out, errs)
	if len(r.Happened) > 0 {
		h := r.Happened[0]
		if h.Outcome == nil { // it may have ended since
			h.Outcome = info.Outcome
		}
		a.Note = waitNote(id, h, a.State == string(api.ExecExited))
		a.outcome(h.Outcome)
		return a, nil
	}
	goOn := fmt.Sprintf("continue with wait {\"exec_id\": %q}, or stop it with cancel", id)
	if info.State == api.ExecQueued {
		a.Note = fmt.Sprintf("not started after %s: %s; %s", waited.Round(time.Second/10), c.waitsFor(ctx, info), goOn)
	} else {
		a.Note = fmt.Sprintf("still running after %s; %s", waited.Round(time.Second/10), goOn)
	}
	return a, nil
}

// waitsFor says what a queued command waits for.
func (c *conn) waitsFor(ctx call, queued api.ExecInfo) string {
	list, err := c.Service.ExecList(ctx, api.ExecListParams{SessionID: queued.SessionID, State: api.ExecRunning})
	if err != nil || len(list.Execs) == 0 {
		return "it waits for its turn in session " + queued.SessionID
	}
	return fmt.Sprintf("it waits for %s in session %s", list.Execs[0].ExecID, queued.SessionID)
}

// waitNote says why the waiting ended, and whether the command has ended by now.
func waitNote(id string, h api.WaitEvent, ended bool) string {
	now := id + " still runs"
	if ended {
		now = endNote(id, h.Outcome)
	}
	switch {
	case h.Reason == api.UntilOutputMatch:
		return fmt.Sprintf("matched on %s: %s; %s", h.Stream, h.Match.Text, now)
	case ended:
		return now
	case h.Reason == api.UntilIdle:
		return "silent; " + now
	case h.Reason == api.UntilWaitingForInput:
		return fmt.Sprintf("%s waits for input: input {\"exec_id\": %q, \"text\": …}", h.Process.Command, id)
	}
	return endNote(id, h.Outcome)
}

// endNote says how a command has ended.
func endNote(id string, o *api.ExecOutcome) string {
	if o == nil {
		return fmt.Sprintf("%s has ended with its session; its exit code is not known", id)
	}
	var b strings.Builder
	switch {
	case o.TimedOut:
		fmt.Fprintf(&b, "timed out after %s and was killed, with %s", millis(o.DurationMS), processes(len(o.Killed)))
	case o.Cancelled:
		fmt.Fprintf(&b, "cancelled after %s", millis(o.DurationMS))
		if o.CancelCause != "" {
			fmt.Fprintf(&b, ", because %s", o.CancelCause)
		}
	default:
		fmt.Fprintf(&b, "exit code %d after %s", o.ExitCode, millis(o.DurationMS))
	}
	if o.Signal != "" {
		fmt.Fprintf(&b, ", signal %s", o.Signal)
	}
	if o.OOM != nil {
		fmt.Fprintf(&b, ", a process was killed at the memory limit of %s bytes", number(o.OOM.LimitBytes))
	} else if o.OOMKilled {
		b.WriteString(", a process was killed at the memory limit")
	}
	switch {
	case o.ShellRestarted && len(o.Killed) > 0 && !o.TimedOut && !o.Cancelled:
		b.WriteString("; the shell could no longer run commands and was killed; a new one has its state from before")
	case o.ShellRestarted:
		b.WriteString("; the shell ended and was started again with its state")
	}
	if n := len(o.LeftRunning); n > 0 {
		fmt.Fprintf(&b, "; left running: %d, such as pid %d %s", n, o.LeftRunning[0].PID, o.LeftRunning[0].Command)
	}
	fmt.Fprintf(&b, "; %s", id)
	return b.String()
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

func millis(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// newOutput returns the output since the model last looked: all of it, or the beginning and the
// end.
func (c *conn) newOutput(ctx call, id string, limit int64) (stdout, stderr excerpt, err error) {
	for stream, e := range map[string]*excerpt{api.EventStdout: &stdout, api.EventStderr: &stderr} {
		at := position{id, stream}
		c.mu.Lock()
		from := c.seen[at]
		c.mu.Unlock()
		var end int64
		if *e, end, err = c.readFrom(ctx, at, from, limit); err != nil {
			return excerpt{}, excerpt{}, err
		}
		c.mu.Lock()
		c.seen[at] = max(c.seen[at], end)
		c.mu.Unlock()
	}
	return stdout, stderr, nil
}

// readFrom reads a stream from an offset to its current end, and omits the middle if it is longer
// than limit.
func (c *conn) readFrom(ctx call, at position, from, limit int64) (e excerpt, end int64, err error) {
	head, err := c.Service.ExecOutput(ctx, api.ExecOutputParams{ExecID: at.exec, Stream: at.stream, Offset: from, Limit: &limit})
	if err != nil {
		return excerpt{}, 0, err
	}
	if head.NextOffset >= head.TotalBytes {
		return excerpt{head: head.Data, gap: head.Gap, total: head.TotalBytes}, head.NextOffset, nil
	}
	third := limit / 3
	if head, err = c.Service.ExecOutput(ctx, api.ExecOutputParams{ExecID: at.exec, Stream: at.stream, Offset: from, Limit: &third}); err != nil {
		return excerpt{}, 0, err
	}
	rest := limit - third
	tail, err := c.Service.ExecOutput(ctx, api.ExecOutputParams{ExecID: at.exec, Stream: at.stream, Tail: &rest})
	if err != nil {
		return excerpt{}, 0, err
	}
	return excerpt{
		head: head.Data, tail: tail.Data, gap: head.Gap, total: tail.TotalBytes,
		leftOut: &api.Span{From: head.NextOffset, To: tail.Offset},
	}, tail.NextOffset, nil
}

// progress sends progress notifications to a client that asked for them, until stop is called.
func (c *conn) progress(ctx call, glance func() string) (stop func()) {
	token := ctx.request.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for n := 1.0; ; n++ {
			select {
			case <-tick.C:
			case <-quit:
				return
			case <-ctx.Done():
				return
			}
			_ = ctx.request.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: n, Message: glance(),
			})
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// execStatus describes in one line how a command is doing.
func (c *conn) execStatus(ctx call, id string) string {
	info, err := c.Service.ExecInfo(ctx, api.ExecInfoParams{ExecID: id})
	if err != nil {
		return ""
	}
	text := fmt.Sprintf("%s, %s, %s bytes", info.State, millis(info.AgeMS), number(info.StdoutBytes+info.StderrBytes))
	n := int64(200)
	if r, err := c.Service.ExecOutput(ctx, api.ExecOutputParams{ExecID: id, Tail: &n}); err == nil {
		if lines := strings.Split(strings.TrimSpace(r.Data), "\n"); lines[len(lines)-1] != "" {
			text += ": " + lines[len(lines)-1]
		}
	}
	return text
}

// listExecs lists the latest commands of a session.
func listExecs(b *strings.Builder, execs []api.ExecInfo, session string) {
	var own []api.ExecInfo
	for _, x := range execs {
		if x.SessionID == session {
			own = append(own, x)
		}
	}
	if n := len(own) - listed; n > 0 {
		fmt.Fprintf(b, "  (%d older commands)\n", n)
		own = own[n:]
	}
	for _, x := range own {
		command, _, _ := strings.Cut(x.Command, "\n")
		if len(command) > 80 {
			command = strings.ToValidUTF8(command[:77], "") + "…"
		}
		fmt.Fprintf(b, "  %s %s", x.ExecID, x.State)
		if x.Outcome != nil {
			fmt.Fprintf(b, " with exit code %d", x.Outcome.ExitCode)
		}
		fmt.Fprintf(b, ": %s\n", command)
	}
}

// number formats a number with thousands separators.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
