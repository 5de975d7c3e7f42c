package mcp

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trl-dev/trl/api"
)

type runInput struct {
	Command  string            `json:"command,omitempty" jsonschema:"the command line, as in a shell script"`
	Argv     []string          `json:"argv,omitempty" jsonschema:"instead of command: a program and its arguments, run beside the shell, even if that is busy"`
	Session  string            `json:"session,omitempty" jsonschema:"name of another shell to run in; created if it does not exist"`
	TimeoutS float64           `json:"timeout_s,omitempty" jsonschema:"kill it, with everything it started, after this many seconds; default: never"`
	Dir      string            `json:"working_dir,omitempty" jsonschema:"directory for this command only"`
	Env      map[string]string `json:"env,omitempty" jsonschema:"variables for this command only"`
	Stdin    string            `json:"stdin,omitempty" jsonschema:"text the command reads on stdin"`
	MaxBytes int64             `json:"max_bytes,omitempty" jsonschema:"of each stream; default 8000"`
	sessionInput
	limitsInput
}

type startInput struct {
	Command string            `json:"command" jsonschema:"the command line, as in a shell script"`
	Session string            `json:"session,omitempty" jsonschema:"name of a shell, which outlives this connection; default: a new one, which does not"`
	Dir     string            `json:"working_dir,omitempty" jsonschema:"directory for this command only"`
	Env     map[string]string `json:"env,omitempty" jsonschema:"variables for this command only"`
	Stdin   bool              `json:"stdin,omitempty" jsonschema:"keep stdin open for the input tool"`
	sessionInput
	limitsInput
}

type waitInput struct {
	ExecID   string  `json:"exec_id" jsonschema:"the command, from run, start or list"`
	Match    string  `json:"match,omitempty" jsonschema:"also return when a line of output matches this regular expression (RE2)"`
	IdleS    float64 `json:"idle_s,omitempty" jsonschema:"also return when it has printed nothing for this many seconds"`
	Input    bool    `json:"input,omitempty" jsonschema:"also return when it waits for input"`
	TimeoutS float64 `json:"timeout_s,omitempty" jsonschema:"return then in any case; default and maximum 50"`
	MaxBytes int64   `json:"max_bytes,omitempty" jsonschema:"of each stream; default 8000"`
}

type outputInput struct {
	ExecID   string `json:"exec_id" jsonschema:"the command, from run, start or list"`
	Stream   string `json:"stream,omitempty" jsonschema:"stdout (default) or stderr"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"first byte to read"`
	Tail     int64  `json:"tail,omitempty" jsonschema:"read this many bytes from the end instead"`
	Grep     string `json:"grep,omitempty" jsonschema:"only lines that match this regular expression (RE2)"`
	MaxBytes int64  `json:"max_bytes,omitempty" jsonschema:"default 8000"`
}

type inputInput struct {
	ExecID string `json:"exec_id" jsonschema:"a command started with stdin true"`
	Text   string `json:"text,omitempty" jsonschema:"text to write; end it with a newline for a program that reads lines"`
	Close  bool   `json:"close,omitempty" jsonschema:"then end the input"`
}

type cancelInput struct {
	ExecID string `json:"exec_id" jsonschema:"the command to stop"`
	Signal string `json:"signal,omitempty" jsonschema:"first signal: TERM (default), INT, HUP, QUIT or KILL"`
}

type listInput struct{}

type destroyInput struct {
	Session string `json:"session" jsonschema:"name or id of the session; everything in it is killed"`
}

func (c *conn) addShellTools() {
	yes := true
	add(c, &mcp.Tool{
		Name: "run", Title: "Run a command",
		Description: "Run a shell command and wait for it. cd, export and functions stay for the next call. Returns exit code and output; a long command returns \"still running\" and keeps running.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}, c.run)
	add(c, &mcp.Tool{
		Name: "start", Title: "Start a command in the background",
		Description: "Start a server, a watcher or any long command in a new shell and return its exec_id at once.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}, c.start)
	add(c, &mcp.Tool{
		Name: "wait", Title: "Wait for a command",
		Description: "Wait until a command exits, prints something, falls silent or wants input; returns its output since your last call. Returns after 50 s at the latest: call it again.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, c.wait)
	add(c, &mcp.Tool{
		Name: "output", Title: "Read output",
		Description: "Read the output of a command, also an ended one: from an offset, from the end, or only lines that match.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, c.output)
	addText(c, &mcp.Tool{
		Name: "input", Title: "Type into a command",
		Description: "Write to the stdin of a command that was started with stdin true.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}, c.input)
	add(c, &mcp.Tool{
		Name: "cancel", Title: "Stop a command",
		Description: "Stop a command and every process it started. Its shell lives on.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true},
	}, c.cancelExec)
	addText(c, &mcp.Tool{
		Name: "list", Title: "List sessions and commands",
		Description: "List the sessions, their commands, and the dialogues.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, c.list)
	addText(c, &mcp.Tool{
		Name: "destroy", Title: "End a session",
		Description: "End a shell or terminal and kill every process in it.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true},
	}, c.destroy)
}

// call is one call of a tool.
type call struct {
	context.Context
	request *mcp.CallToolRequest
	until   time.Time // when the client's patience runs out
}

func (c *conn) run(ctx call, in runInput) (execAnswer, error) {
	if in.Command == "" && in.Argv == nil {
		return execAnswer{}, api.InvalidParam("command", "is required, unless argv is set")
	}
	id, fresh, err := c.session(ctx, in.Session, in.sessionInput)
	if err != nil {
		return execAnswer{}, err
	}
	p := api.ExecParams{SessionID: id, Command: in.Command, Argv: in.Argv, WorkingDir: in.Dir, Env: in.Env, Wait: true, Limits: in.limits()}
	if in.TimeoutS != 0 {
		p.TimeoutS = &in.TimeoutS
	}
	if in.Stdin != "" {
		p.StdinBase64 = base64.StdEncoding.EncodeToString([]byte(in.Stdin))
	}
	info, err := c.Service.ExecStart(ctx, p)
	if err != nil {
		if fresh && in.Session != "" {
			c.discardUnused(ctx, id, err)
		}
		return execAnswer{}, err
	}
	a, err := c.followExec(ctx, api.ExecWaitParams{ExecIDs: []string{info.ExecID}}, in.MaxBytes)
	if ctx.Err() != nil { // the client does not want it any more
		_, _ = c.Service.ExecCancel(api.WithConn(context.WithoutCancel(ctx), c.life), api.ExecCancelParams{ExecID: info.ExecID})
		return execAnswer{}, ctx.Err()
	}
	if err != nil && fresh && in.Session != "" {
		c.discardUnused(ctx, id, err)
	}
	a.NewSession = fresh && in.Session != ""
	if fresh {
		a.unenforced = c.unenforcedIn(ctx, id)
	}
	return a, err
}

func (c *conn) start(ctx call, in startInput) (execAnswer, error) {
	var id string
	var err error
	fresh := in.Session == ""
	if fresh {
		id, err = c.createSpare(ctx, in.sessionInput)
	} else {
		id, fresh, err = c.session(ctx, in.Session, in.sessionInput)
	}
	if err != nil {
		return execAnswer{}, err
	}
	p := api.ExecParams{SessionID: id, Command: in.Command, WorkingDir: in.Dir, Env: in.Env, StdinOpen: in.Stdin, Limits: in.limits()}
	info, err := c.Service.ExecStart(ctx, p)
	if err != nil {
		if in.Session == "" {
			c.discard(ctx, id)
		} else if fresh {
			c.discardUnused(ctx, id, err)
		}
		return execAnswer{}, err
	}
	a := execAnswer{
		ExecID: info.ExecID, SessionID: id, State: stateOf(info.State),
		Note: fmt.Sprintf("started %s in session %s; wait {\"exec_id\": %q} returns its output", info.ExecID, id, info.ExecID),
	}
	if fresh {
		a.unenforced = c.unenforcedIn(ctx, id)
	}
	return a, nil
}

func (c *conn) wait(ctx call, in waitInput) (execAnswer, error) {
	p := api.ExecWaitParams{ExecIDs: []string{in.ExecID}, OutputMatch: in.Match, Until: api.Words{api.UntilExit}}
	if in.Match != "" {
		p.Until = append(p.Until, api.UntilOutputMatch)
	}
	if in.IdleS > 0 {
		p.IdleS = seconds(in.IdleS)
		p.Until = append(p.Until, api.UntilIdle)
	}
	if in.Input {
		p.Until = append(p.Until, api.UntilWaitingForInput)
	}
	if in.TimeoutS > 0 {
		p.TimeoutS = seconds(in.TimeoutS)
	}
	return c.followExec(ctx, p, in.MaxBytes)
}

func (c *conn) output(ctx call, in outputInput) (outputAnswer, error) {
	limit := bytesOr(in.MaxBytes)
	p := api.ExecOutputParams{ExecID: in.ExecID, Stream: in.Stream, Offset: in.Offset, Grep: in.Grep}
	if in.Tail > 0 {
		n := min(in.Tail, limit)
		p.Tail = &n
	} else {
		p.Limit = &limit
	}
	r, err := c.Service.ExecOutput(ctx, p)
	if err != nil {
		return outputAnswer{}, err
	}
	a := outputAnswer{
		ExecID: r.ExecID, Stream: r.Stream, Offset: r.Offset, Data: r.Data, Lines: r.Lines, Gap: r.Gap,
		NextOffset: r.NextOffset, TotalBytes: r.TotalBytes, Complete: r.Complete,
	}
	switch {
	case r.NextOffset < r.TotalBytes:
		a.Note = fmt.Sprintf("%s bytes more: output {\"exec_id\": %q, \"stream\": %q, \"offset\": %d}", number(r.TotalBytes-r.NextOffset), r.ExecID, r.Stream, r.NextOffset)
	case r.Complete:
		a.Note = fmt.Sprintf("end of %s, %s bytes", r.Stream, number(r.TotalBytes))
	default:
		a.Note = fmt.Sprintf("%s bytes until now; the command is %s", number(r.TotalBytes), r.State)
	}
	return a, nil
}

func (c *conn) input(ctx call, in inputInput) (string, error) {
	if c.Isolate != "" {
		info, err := c.Service.ExecInfo(ctx, api.ExecInfoParams{ExecID: in.ExecID})
		if err == nil {
			err = c.checkIsolation(ctx, info.SessionID)
		}
		if err != nil {
			return "", err
		}
	}
	r, err := c.Service.ExecInput(ctx, api.ExecInputParams{ExecID: in.ExecID, Data: in.Text, Close: in.Close})
	if err != nil {
		return "", err
	}
	if r.Closed {
		return "written; the input is at its end", nil
	}
	return "written", nil
}

func (c *conn) cancelExec(ctx call, in cancelInput) (execAnswer, error) {
	info, err := c.Service.ExecCancel(ctx, api.ExecCancelParams{ExecID: in.ExecID, Signal: in.Signal})
	if err != nil {
		return execAnswer{}, err
	}
	a := execAnswer{ExecID: info.ExecID, SessionID: info.SessionID, State: stateOf(info.State)}
	a.outcome(info.Outcome)
	switch {
	case info.Error != nil:
		a.Note = fmt.Sprintf("%s could not be run: %s", info.ExecID, info.Error.Message)
	case info.Outcome == nil:
		a.Note = fmt.Sprintf("%s is %s", info.ExecID, info.State)
	case !info.Outcome.Cancelled:
		a.Note = fmt.Sprintf("%s had ended before, with exit code %d", info.ExecID, info.Outcome.ExitCode)
	default:
		a.Note = fmt.Sprintf("stopped %s, with %s", info.ExecID, processes(len(info.Outcome.Killed)))
	}
	return a, nil
}

func (c *conn) list(ctx call, _ listInput) (string, error) {
	sessions, err := c.Service.SessionList(ctx, api.SessionListParams{})
	if err != nil {
		return "", err
	}
	execs, err := c.Service.ExecList(ctx, api.ExecListParams{})
	if err != nil {
		return "", err
	}
	var dialogues api.DialogueListResult
	if c.has(GroupDialogue) {
		if dialogues, err = c.Service.DialogueList(ctx, api.DialogueListParams{}); err != nil {
			return "", err
		}
	}
	c.homeMu.Lock()
	home := c.home
	c.homeMu.Unlock()
	var b strings.Builder
	for _, s := range sessions.Sessions {
		what := s.Shell
		if s.Kind != api.KindShell {
			what = fmt.Sprintf("%s %s", s.Kind, strings.Join(s.Command, " "))
		}
		fmt.Fprintf(&b, "%s %s %s in %s", s.SessionID, s.State, what, s.WorkingDir)
		if s.Name != "" && s.Name != s.Owner() {
			fmt.Fprintf(&b, ", name %q", s.Name)
		}
		if s.SessionID == home {
			b.WriteString(", the default")
		}
		if id := s.Owner(); id != "" {
			fmt.Fprintf(&b, ", of dialogue %s", id)
		}
		b.WriteByte('\n')
		listExecs(&b, execs.Execs, s.SessionID)
	}
	listDialogues(&b, dialogues.Dialogues)
	if b.Len() == 0 {
		return "no sessions", nil
	}
	return b.String(), nil
}

func (c *conn) destroy(ctx call, in destroyInput) (string, error) {
	r, err := c.Service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: in.Session})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("ended %s, with %s", r.SessionID, processes(len(r.Killed))), nil
}
