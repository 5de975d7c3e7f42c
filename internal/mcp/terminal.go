package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trl-dev/trl/api"
)

const (
	// screenStill is how long a screen must not change before it is returned.
	screenStill = 300 * time.Millisecond
	// busyLimit is how long a busy program is waited for.
	busyLimit = 10 * time.Second
	// screenBytes bounds the screen and the lines above it in an answer.
	screenBytes = 20000
)

type terminalStartInput struct {
	Command string            `json:"command,omitempty" jsonschema:"such as: vim notes.txt; default: an interactive shell"`
	Session string            `json:"session,omitempty" jsonschema:"name for it, which then outlives this connection"`
	Dir     string            `json:"working_dir,omitempty" jsonschema:"default: the current directory"`
	Env     map[string]string `json:"env,omitempty" jsonschema:"variables for it"`
	Cols    int               `json:"cols,omitempty" jsonschema:"default 80"`
	Rows    int               `json:"rows,omitempty" jsonschema:"default 24"`
	sessionInput
	limitsInput
}

type terminalTypeInput struct {
	Session  string   `json:"session,omitempty" jsonschema:"id or name; default: the last started"`
	Text     string   `json:"text,omitempty" jsonschema:"text to type; a newline presses enter"`
	Paste    string   `json:"paste,omitempty" jsonschema:"text to paste instead, such as several lines"`
	Keys     []string `json:"keys,omitempty" jsonschema:"keys to press after the text: enter, tab, esc, backspace, up, pagedown, f5, ctrl-c, alt-x, shift-tab or one character"`
	Match    string   `json:"match,omitempty" jsonschema:"return when a line that changes matches this regular expression (RE2)"`
	IdleS    float64  `json:"idle_s,omitempty" jsonschema:"return when the screen has not changed for this many seconds, even if the program is busy"`
	TimeoutS float64  `json:"timeout_s,omitempty" jsonschema:"to wait; default 10, with match 50, maximum 50"`
}

type terminalScreenInput struct {
	Session    string  `json:"session,omitempty" jsonschema:"id or name; default: the last started"`
	Scrollback int     `json:"scrollback,omitempty" jsonschema:"this many lines above the screen too"`
	Match      string  `json:"match,omitempty" jsonschema:"first wait until a line matches this regular expression (RE2)"`
	IdleS      float64 `json:"idle_s,omitempty" jsonschema:"first wait until the screen has not changed for this many seconds"`
	TimeoutS   float64 `json:"timeout_s,omitempty" jsonschema:"to wait; default and maximum 50"`
}

func (c *conn) addTerminalTools() {
	yes := true
	add(c, &mcp.Tool{
		Name: "terminal_start", Title: "Start a terminal",
		Description: "Start an interactive program in a new terminal (editor, REPL, debugger, ssh, top, a login) and return its screen. Use run for everything that needs no terminal.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}, c.terminalStart)
	add(c, &mcp.Tool{
		Name: "terminal_type", Title: "Type into a terminal",
		Description: "Type text, press keys, and return the screen when the program waits for input again. End a terminal with destroy, or quit its program.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}, c.terminalType)
	add(c, &mcp.Tool{
		Name: "terminal_screen", Title: "Look at a terminal",
		Description: "Return the screen of a terminal, now or when it matches; also the last screen of an ended one.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, c.terminalScreen)
}

func (c *conn) terminalStart(ctx call, in terminalStartInput) (screenAnswer, error) {
	p, err := c.newSession(in.sessionInput)
	if err != nil {
		return screenAnswer{}, err
	}
	p.Limits = in.sessionLimits()
	p.Kind, p.Name, p.Ephemeral = api.KindTerminal, in.Session, in.Session == ""
	p.WorkingDir, p.Env = cmp.Or(in.Dir, c.dirFor(ctx, in.Runtime)), c.envWith(in.Runtime, in.Env)
	if strings.TrimSpace(in.Command) != "" {
		if p.Command = plainWords(in.Command); p.Command == nil || p.Shell != "" {
			p.Command = []string{cmp.Or(p.Shell, c.TextShell, api.DefaultShell), "-c", inPlaceOfShell(in.Command)}
		}
		p.Shell, p.PreferShell = "", ""
	}
	if in.Cols != 0 {
		p.Cols = &in.Cols
	}
	if in.Rows != 0 {
		p.Rows = &in.Rows
	}
	id, err := c.create(ctx, p)
	if err != nil {
		return screenAnswer{}, err
	}
	c.mu.Lock()
	c.terminal = id
	c.mu.Unlock()
	a, err := c.screenAfter(ctx, id, 0, func() (string, error) { return c.waitAtRest(ctx, id, 0) })
	a.unenforced = c.unenforcedIn(ctx, id)
	return a, err
}

// plainWords returns the words of a command without any shell syntax; nil for any other command.
// The program is then started without a shell, which may change its environment: bash removes PS1.
func plainWords(command string) []string {
	const marks = "_-./:@%+, "
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(marks, r)
	}
	if strings.ContainsFunc(command, func(r rune) bool { return !plain(r) }) {
		return nil
	}
	return strings.Fields(command)
}

// inPlaceOfShell makes a single program replace the shell. Otherwise ctrl-c would reach the shell
// too. A command that may be more than one program stays as it is.
func inPlaceOfShell(command string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(command), " ")
	if strings.ContainsAny(command, ";&|\n(){}!") || strings.Contains(first, "=") {
		return command
	}
	return "exec " + command
}

func (c *conn) terminalType(ctx call, in terminalTypeInput) (screenAnswer, error) {
	id, err := c.terminalOf(in.Session)
	if err == nil {
		err = c.checkIsolation(ctx, id)
	}
	if err != nil {
		return screenAnswer{}, err
	}
	p := waitParams(id, in.Match, in.IdleS, in.TimeoutS)
	if in.Match != "" {
		// Only lines that change after the input may match.
		now, err := c.Service.SessionScreen(ctx, api.SessionScreenParams{SessionID: id})
		if err != nil {
			return screenAnswer{}, err
		}
		p.SinceVersion = &now.Version
	}
	enter := strings.NewReplacer("\r\n", "\r", "\n", "\r")
	_, err = c.Service.SessionInput(ctx, api.SessionInputParams{SessionID: id, Text: enter.Replace(in.Text), Paste: in.Paste, Keys: in.Keys})
	if err != nil {
		return screenAnswer{}, err
	}
	return c.screenAfter(ctx, id, 0, func() (string, error) {
		if in.Match == "" && in.IdleS <= 0 {
			return c.waitAtRest(ctx, id, in.TimeoutS)
		}
		return c.waitForScreen(ctx, p)
	})
}

func (c *conn) terminalScreen(ctx call, in terminalScreenInput) (screenAnswer, error) {
	id, err := c.terminalOf(in.Session)
	if err != nil {
		return screenAnswer{}, err
	}
	p := waitParams(id, in.Match, in.IdleS, in.TimeoutS)
	if in.Match == "" && in.IdleS <= 0 {
		p.Exit, p.TimeoutS = true, new(float64)
	}
	return c.screenAfter(ctx, id, in.Scrollback, func() (string, error) { return c.waitForScreen(ctx, p) })
}

// terminalOf returns the terminal with a name or id; without one, the terminal that was started
// last.
func (c *conn) terminalOf(name string) (id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id = cmp.Or(name, c.terminal); id == "" {
		return "", api.Errorf(api.CodeSessionNotFound, "there is no terminal yet: start one with terminal_start")
	}
	return id, nil
}

// waitParams returns the parameters of the wait that a model asks for.
func waitParams(id, match string, idleS, timeoutS float64) api.SessionWaitParams {
	p := api.SessionWaitParams{SessionID: id, Text: match}
	if idleS > 0 {
		p.IdleS = seconds(idleS)
	}
	if timeoutS > 0 {
		p.TimeoutS = seconds(timeoutS)
	}
	return p
}

// seconds returns a time to wait: at least a millisecond, the shortest idle period.
func seconds(s float64) *float64 {
	s = max(s, 0.001)
	return &s
}

// waitForScreen waits, within the client's patience, and says why the waiting ended.
func (c *conn) waitForScreen(ctx call, p api.SessionWaitParams) (note string, err error) {
	if p.TimeoutS == nil || *p.TimeoutS > c.Patience.Seconds() {
		p.TimeoutS = seconds(c.Patience.Seconds())
	}
	began := time.Now()
	r, err := c.Service.SessionWait(ctx, p)
	waited := time.Since(began).Round(time.Second / 10)
	switch {
	case err != nil:
		return "", err
	case r.Reason == api.WaitText:
		return "matched: " + r.Match, nil
	case r.TimedOut && p.Text != "":
		return fmt.Sprintf("nothing matched in %s: look again with terminal_screen", waited), nil
	case r.TimedOut && p.IdleS != nil:
		return fmt.Sprintf("still changing after %s", waited), nil
	}
	return exitNote(r), nil
}

// exitNote says how the program ended; empty if it has not.
func exitNote(r api.SessionWaitResult) string {
	switch {
	case r.Reason != api.WaitExit:
		return ""
	case r.Signal != "":
		return "the program has ended: killed by " + r.Signal
	case r.ExitCode != nil:
		return fmt.Sprintf("the program has ended with exit code %d", *r.ExitCode)
	}
	return "the program has ended"
}

// waitAtRest waits until the screen is still and the program waits for input: then it has processed
// its input. It gives up on a program that is busy for too long.
func (c *conn) waitAtRest(ctx call, id string, timeoutS float64) (note string, err error) {
	limit := busyLimit
	if timeoutS > 0 {
		limit = time.Duration(timeoutS * float64(time.Second))
	}
	limit = min(limit, c.Patience)
	deadline := time.Now().Add(limit)
	wait := func(p api.SessionWaitParams) (api.SessionWaitResult, error) {
		p.SessionID, p.TimeoutS = id, seconds(time.Until(deadline).Seconds())
		return c.Service.SessionWait(ctx, p)
	}
	for {
		r, err := wait(api.SessionWaitParams{IdleS: seconds(screenStill.Seconds())})
		switch {
		case err != nil:
			return "", err
		case r.TimedOut:
			return fmt.Sprintf("still changing after %s", limit), nil
		case r.Reason == api.WaitExit:
			return exitNote(r), nil
		}
		quiet := r.Version
		r, err = wait(api.SessionWaitParams{WaitingForInput: true})
		switch {
		case errors.Is(err, api.ErrRuntimeUnavailable): // not every system can report this
			return "", nil
		case err != nil:
			return "", err
		case r.TimedOut && r.Version != quiet:
			return fmt.Sprintf("still changing after %s", limit), nil
		case r.TimedOut:
			return "busy: it does not wait for input; look again with terminal_screen", nil
		case r.Reason == api.WaitExit || r.Version == quiet:
			return exitNote(r), nil
		}
	}
}

// screenAfter waits, and then returns the screen with a note.
func (c *conn) screenAfter(ctx call, id string, scrollback int, wait func() (note string, err error)) (screenAnswer, error) {
	stop := c.progress(ctx, func() string { return c.lastLine(ctx, id) })
	note, err := wait()
	stop()
	if err != nil {
		return screenAnswer{}, err
	}
	s, err := c.Service.SessionScreen(ctx, api.SessionScreenParams{SessionID: id, Scrollback: max(scrollback, 0)})
	if err != nil {
		return screenAnswer{}, err
	}
	text := strings.TrimRight(s.Text, "\n ")
	if n := len(text) - screenBytes; n > 0 {
		n += strings.IndexByte(text[n:]+"\n", '\n') + 1 // whole lines
		text = fmt.Sprintf("[%s bytes above left out]\n%s", number(int64(n)), text[min(n, len(text)):])
	}
	a := screenAnswer{
		SessionID: s.SessionID, Screen: text, Cols: s.Cols, Rows: s.Rows,
		Line: s.Cursor.Y + 1, Column: s.Cursor.X + 1, Title: s.Title, Note: note,
	}
	if info, err := c.Service.SessionInfo(ctx, api.SessionInfoParams{SessionID: id}); err == nil {
		a.ExitCode = info.ExitCode
	}
	return a, nil
}

// lastLine returns the last line of a screen that is not empty, as a sign of progress.
func (c *conn) lastLine(ctx context.Context, id string) string {
	s, err := c.Service.SessionScreen(ctx, api.SessionScreenParams{SessionID: id})
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(s.Text, "\n "), "\n")
	return lines[len(lines)-1]
}
