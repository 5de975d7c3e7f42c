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
	Stdout     string `json:"stdout,omitempty" jsonschema:"its new output since your last call"`
	Stderr     string `json:"stderr,omitempty"`
	Note       string `json:"note" jsonschema:"the outcome, and how to continue"`
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
	b.WriteString(endLine(a.Stdout))
	if a.Stderr != "" {
		b.WriteString("[stderr]\n" + endLine(a.Stderr))
	}
	b.WriteString("[" + a.Note + "]")
	return b.String()
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
	ExecID     string `json:"exec_id"`
	Stream     string `json:"stream"`
	Data       string `json:"data" jsonschema:"with grep, each line behind its offset"`
	NextOffset int64  `json:"next_offset"`
	TotalBytes int64  `json:"total_bytes"`
	Complete   bool   `json:"complete" jsonschema:"nothing more will come"`
	Note       string `json:"note"`
}

func (a outputAnswer) text() string { return a.Data + "\n[" + a.Note + "]" }

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
