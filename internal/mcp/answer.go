package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trl-dev/trl/api"
)

// answer is the result of a tool: text for a model, and the same as fields for a program. Some
// clients show their model only the fields, so the text has nothing that the fields lack.
type answer interface{ text() string }

// execAnswer describes one command.
type execAnswer struct {
	ExecID     string `json:"exec_id"`
	SessionID  string `json:"session_id"`
	NewSession bool   `json:"new_session,omitempty"`
	State      string `json:"state" jsonschema:"queued, running or exited"`
	ExitCode   *int   `json:"exit_code,omitempty"`
	Signal     string `json:"signal,omitempty"`
	TimedOut   bool   `json:"timed_out,omitempty"`
	Cancelled  bool   `json:"cancelled,omitempty"`
	DurationMS *int64 `json:"duration_ms,omitempty"`
	Stdout     string `json:"stdout,omitempty" jsonschema:"its new output since your last call; if that is long, the beginning"`
	Stderr     string `json:"stderr,omitempty"`
	StdoutTail string `json:"stdout_tail,omitempty" jsonschema:"the end, behind stdout_left_out"`
	StderrTail string `json:"stderr_tail,omitempty"`

	StdoutTruncated bool      `json:"stdout_truncated,omitempty" jsonschema:"a part of the new output is missing here"`
	StderrTruncated bool      `json:"stderr_truncated,omitempty"`
	StdoutBytes     int64     `json:"stdout_bytes,omitempty" jsonschema:"with stdout_truncated: written until now"`
	StderrBytes     int64     `json:"stderr_bytes,omitempty"`
	StdoutLeftOut   *api.Span `json:"stdout_left_out,omitempty" jsonschema:"the bytes between stdout and stdout_tail: read them with output"`
	StderrLeftOut   *api.Span `json:"stderr_left_out,omitempty"`
	StdoutGap       *api.Span `json:"stdout_gap,omitempty" jsonschema:"the bytes before stdout that are no longer kept"`
	StderrGap       *api.Span `json:"stderr_gap,omitempty"`

	Note string `json:"note" jsonschema:"the outcome, and how to continue"`
	unenforced

	bracket bool // in the text, the note stands in brackets, so that it does not look like output
}

func (a execAnswer) text() string {
	if !a.bracket {
		return a.unenforced.lines() + a.Note
	}
	var b strings.Builder
	if a.NewSession {
		fmt.Fprintf(&b, "[new session %s]\n", a.SessionID)
	}
	b.WriteString(a.unenforced.lines())
	out := excerpt{a.Stdout, a.StdoutTail, a.StdoutGap, a.StdoutLeftOut, a.StdoutBytes}
	b.WriteString(endLine(out.text(a.ExecID, api.EventStdout)))
	errs := excerpt{a.Stderr, a.StderrTail, a.StderrGap, a.StderrLeftOut, a.StderrBytes}
	if text := errs.text(a.ExecID, api.EventStderr); text != "" {
		b.WriteString("[stderr]\n" + endLine(text))
	}
	b.WriteString("[" + a.Note + "]")
	return b.String()
}

// output takes the output into the fields.
func (a *execAnswer) output(out, errs excerpt) {
	a.Stdout, a.StdoutTail, a.StdoutGap, a.StdoutLeftOut = out.head, out.tail, out.gap, out.leftOut
	a.Stderr, a.StderrTail, a.StderrGap, a.StderrLeftOut = errs.head, errs.tail, errs.gap, errs.leftOut
	if out.truncated() {
		a.StdoutTruncated, a.StdoutBytes = true, out.total
	}
	if errs.truncated() {
		a.StderrTruncated, a.StderrBytes = true, errs.total
	}
}

// excerpt is a part of a stream: all of it, or the beginning and the end. It has the bytes of the
// program alone, so that a client can use the fields as data; only its text says what is missing.
type excerpt struct {
	head, tail string
	gap        *api.Span // before head; no longer kept
	leftOut    *api.Span // between head and tail
	total      int64     // the bytes of the stream until now
}

func (e excerpt) truncated() bool { return e.gap != nil || e.leftOut != nil }

// text returns the excerpt with a line for each part that is missing.
func (e excerpt) text(exec, stream string) string {
	text := gapLine(e.gap) + e.head
	if e.leftOut != nil {
		text += fmt.Sprintf("\n[%s of %s bytes left out: output {\"exec_id\": %q, \"stream\": %q, \"offset\": %d}]\n%s",
			number(e.leftOut.To-e.leftOut.From), number(e.total), exec, stream, e.leftOut.From, e.tail)
	}
	return text
}

// gapLine returns a line for a gap, if there is one.
func gapLine(gap *api.Span) string {
	if gap == nil {
		return ""
	}
	return fmt.Sprintf("[bytes %d to %d were not kept]\n", gap.From, gap.To)
}

// unenforced has the limits and the aspects of isolation that the place of a new session cannot
// enforce.
type unenforced struct {
	NotEnforced []api.UnenforcedLimit  `json:"not_enforced,omitempty" jsonschema:"limits"`
	NotIsolated []api.UnenforcedAspect `json:"isolation_not_enforced,omitempty"`
}

// lines returns one line for each of them.
func (u unenforced) lines() string {
	var b strings.Builder
	for _, l := range u.NotEnforced {
		fmt.Fprintf(&b, "[limit %s is not enforced: %s]\n", l.Limit, l.Reason)
	}
	for _, a := range u.NotIsolated {
		fmt.Fprintf(&b, "[isolation of %s is not enforced: %s]\n", a.Aspect, a.Reason)
	}
	return b.String()
}

// unenforcedIn returns what the place of a new session cannot enforce.
func (c *conn) unenforcedIn(ctx context.Context, session string) (u unenforced) {
	info, err := c.Service.SessionInfo(ctx, api.SessionInfoParams{SessionID: session})
	if err != nil {
		return u
	}
	if info.Limits != nil {
		u.NotEnforced = info.Limits.NotEnforced
	}
	if info.Isolation != nil {
		u.NotIsolated = info.Isolation.NotEnforced
	}
	return u
}

// outcome copies the outcome of a command that has ended.
func (a *execAnswer) outcome(o *api.ExecOutcome) {
	if o != nil {
		a.ExitCode, a.Signal, a.TimedOut, a.Cancelled, a.DurationMS = &o.ExitCode, o.Signal, o.TimedOut, o.Cancelled, &o.DurationMS
	}
}

// stateOf returns the state of a command as the tools name it. Whether the output is complete is of
// no use to a model.
func stateOf(s api.ExecState) string {
	if s == api.ExecClosed {
		s = api.ExecExited
	}
	return string(s)
}

// endLine adds a newline to a text that does not end with one.
func endLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// outputAnswer is a part of a command's output.
type outputAnswer struct {
	ExecID     string           `json:"exec_id"`
	Stream     string           `json:"stream"`
	Offset     int64            `json:"offset" jsonschema:"of data"`
	Data       string           `json:"data" jsonschema:"empty with grep"`
	Lines      []api.OutputLine `json:"lines,omitempty" jsonschema:"with grep: the lines that match"`
	Gap        *api.Span        `json:"gap,omitempty" jsonschema:"the bytes before data, or between the lines, that are no longer kept"`
	NextOffset int64            `json:"next_offset"`
	TotalBytes int64            `json:"total_bytes"`
	Complete   bool             `json:"complete" jsonschema:"nothing more will come"`
	Note       string           `json:"note"`
}

func (a outputAnswer) text() string {
	var b strings.Builder
	b.WriteString(gapLine(a.Gap) + a.Data)
	for _, line := range a.Lines {
		fmt.Fprintf(&b, "%d: %s\n", line.Offset, line.Text)
	}
	b.WriteString("\n[" + a.Note + "]")
	return b.String()
}

// screenAnswer is the screen of a terminal.
type screenAnswer struct {
	SessionID string `json:"session_id"`
	Screen    string `json:"screen"`
	Cols      int    `json:"cols"`
	Rows      int    `json:"rows"`
	Line      int    `json:"cursor_line" jsonschema:"from 1"`
	Column    int    `json:"cursor_column" jsonschema:"from 1"`
	Title     string `json:"title,omitempty"`
	ExitCode  *int   `json:"exit_code,omitempty" jsonschema:"when the program has ended"`
	Note      string `json:"note,omitempty"`
	unenforced
}

func (a screenAnswer) text() string {
	var b strings.Builder
	b.WriteString(a.unenforced.lines())
	b.WriteString(endLine(a.Screen))
	fmt.Fprintf(&b, "[terminal %s, %dx%d, cursor at line %d column %d", a.SessionID, a.Cols, a.Rows, a.Line, a.Column)
	if a.Title != "" {
		fmt.Fprintf(&b, ", title %q", a.Title)
	}
	if a.Note != "" {
		b.WriteString("; " + a.Note)
	}
	b.WriteByte(']')
	return b.String()
}

// toolNames replaces the API's method and field names in error messages by those of the tools.
var toolNames = strings.NewReplacer("dialogue.resume", "dialogue_start with resume", "dialogue.retry", "dialogue_send", "params.", "")

// failure returns an error with its code, for a model to read.
func failure(err error) error {
	e := api.AsError(err)
	return errors.New(string(e.Code) + ": " + toolNames.Replace(e.Message))
}

// callTool runs one call of a tool.
func callTool[Out any](ctx context.Context, c *conn, r *mcp.CallToolRequest, f func(call) (Out, error)) (out Out, err error) {
	ctx, err = c.request(ctx, r.Session)
	if err == nil {
		out, err = f(call{ctx, r, time.Now().Add(c.Patience)})
	}
	if err != nil {
		err = failure(err)
	}
	return out, err
}

// add adds a tool that answers with fields and with text. A failure is also an answer.
func add[In any, Out answer](c *conn, t *mcp.Tool, f func(call, In) (Out, error)) {
	c.registerArguments(t.Name, argumentsOf[In]())
	mcp.AddTool(c.server, t, func(ctx context.Context, r *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		out, err := callTool(ctx, c, r, func(call call) (Out, error) { return f(call, in) })
		if err != nil {
			return nil, out, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: out.text()}}}, out, nil
	})
}

// addText adds a tool that answers with text alone.
func addText[In any](c *conn, t *mcp.Tool, f func(call, In) (string, error)) {
	c.registerArguments(t.Name, argumentsOf[In]())
	mcp.AddTool(c.server, t, func(ctx context.Context, r *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		text, err := callTool(ctx, c, r, func(call call) (string, error) { return f(call, in) })
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
}
