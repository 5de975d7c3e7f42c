package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trl-dev/trl/api"
)

// dialogueSettings are the settings of an agent that can be changed while it works.
type dialogueSettings struct {
	Model      string   `json:"model,omitempty"`
	Mode       string   `json:"permission_mode,omitempty" jsonschema:"in the agent's words, such as plan"`
	Rules      []string `json:"rules,omitempty" jsonschema:"answers in advance: allow Bash(git *), deny Read(*.env), ask Write; the first match counts; replaces earlier rules"`
	DenyAfterS *float64 `json:"deny_after_s,omitempty" jsonschema:"with rules: deny a request after this many seconds unseen"`
}

type dialogueStartInput struct {
	Prompt  string              `json:"prompt,omitempty" jsonschema:"the first message"`
	Agent   string              `json:"agent,omitempty" jsonschema:"claude (default), codex or acp"`
	Program []string            `json:"program,omitempty" jsonschema:"with arguments, if not claude or codex on the PATH; acp needs it"`
	Dir     string              `json:"working_dir,omitempty" jsonschema:"default: the current directory"`
	Env     map[string]string   `json:"env,omitempty" jsonschema:"variables for it"`
	Name    string              `json:"name,omitempty" jsonschema:"it then outlives this connection"`
	Remote  *api.DialogueRemote `json:"remote,omitempty" jsonschema:"another TRL that runs it, such as grpcs://box:7331; files are here"`
	Runtime string              `json:"runtime,omitempty" jsonschema:"place, as in run"`
	Isolate string              `json:"isolate,omitempty" jsonschema:"workspace or read-only"`
	Resume  string              `json:"resume,omitempty" jsonschema:"an ended dialogue, or the agent's own id of a conversation"`
	dialogueSettings
	limitsInput
	TimeoutS float64 `json:"timeout_s,omitempty" jsonschema:"to wait; default and maximum 50"`
	MaxBytes int64   `json:"max_bytes,omitempty" jsonschema:"default 8000"`
}

type dialogueSendInput struct {
	Dialogue string `json:"dialogue,omitempty" jsonschema:"id or name; default: the last started"`
	Text     string `json:"text,omitempty" jsonschema:"the message"`
	dialogueSettings
	TimeoutS float64 `json:"timeout_s,omitempty" jsonschema:"to wait; default and maximum 50"`
	MaxBytes int64   `json:"max_bytes,omitempty" jsonschema:"default 8000"`
}

type dialogueRespondInput struct {
	Dialogue  string            `json:"dialogue,omitempty" jsonschema:"id or name; default: the last started"`
	Request   string            `json:"request_id,omitempty" jsonschema:"may be left out when one waits alone"`
	Decision  string            `json:"decision,omitempty" jsonschema:"allow or deny"`
	Remember  bool              `json:"remember,omitempty" jsonschema:"allow the same from now on, where offered"`
	Input     map[string]any    `json:"input,omitempty" jsonschema:"allow it with this input instead"`
	Message   string            `json:"message,omitempty" jsonschema:"for the agent, with a denial"`
	Interrupt bool              `json:"interrupt,omitempty" jsonschema:"deny, and end the turn too"`
	Answers   map[string]string `json:"answers,omitempty" jsonschema:"by the text of the question"`
	Option    string            `json:"option,omitempty" jsonschema:"id of one that was offered"`
	TimeoutS  float64           `json:"timeout_s,omitempty" jsonschema:"to wait; default and maximum 50"`
	MaxBytes  int64             `json:"max_bytes,omitempty" jsonschema:"default 8000"`
}

type dialogueReadInput struct {
	Dialogue string `json:"dialogue,omitempty" jsonschema:"id or name; default: the last started"`
	Full     bool   `json:"full,omitempty" jsonschema:"with thoughts, and all of tools' input and output"`
	Raw      string `json:"raw,omitempty" jsonschema:"stdout or stdin: instead, the bytes that the program wrote or was sent"`
	Epoch    int    `json:"epoch,omitempty" jsonschema:"for raw: which process; default: the last"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"first byte to read"`
	Tail     int64  `json:"tail,omitempty" jsonschema:"read this many bytes from the end instead"`
	MaxBytes int64  `json:"max_bytes,omitempty" jsonschema:"default 8000"`
}

type dialogueStopInput struct {
	Dialogue  string `json:"dialogue,omitempty" jsonschema:"id or name; default: the last started"`
	Interrupt bool   `json:"interrupt,omitempty" jsonschema:"only stop its current turn"`
}

func (c *conn) addDialogueTools() {
	yes := true
	addText(c, &mcp.Tool{
		Name: "dialogue_start", Title: "Start a coding agent",
		Description: "Start another coding agent (Claude Code, Codex, or any with ACP), give it a task, and return its answer. When it asks something, use dialogue_respond.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}, c.dialogueStart)
	addText(c, &mcp.Tool{
		Name: "dialogue_send", Title: "Talk with a coding agent",
		Description: "Send an agent a message and return its text and actions, until it is done or asks something. Without text: only wait. Returns after 50 s at the latest: call it again.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}, c.dialogueSend)
	addText(c, &mcp.Tool{
		Name: "dialogue_respond", Title: "Answer a coding agent's request",
		Description: "Allow or deny an agent's request, or answer its questions; then wait as dialogue_send does.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}, c.dialogueRespond)
	addText(c, &mcp.Tool{
		Name: "dialogue_read", Title: "Read a dialogue",
		Description: "Read the transcript of a dialogue. list shows the dialogues.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, c.dialogueRead)
	addText(c, &mcp.Tool{
		Name: "dialogue_stop", Title: "Stop a coding agent",
		Description: "End an agent and everything it started, or only interrupt it. The transcript stays.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true},
	}, c.dialogueStop)
}

func (c *conn) dialogueSend(ctx call, in dialogueSendInput) (string, error) {
	id, err := c.dialogueOf(in.Dialogue)
	if err != nil {
		return "", err
	}
	info, note, err := c.reconnect(ctx, id)
	if err == nil {
		err = c.checkIsolation(ctx, info.SessionID)
	}
	if err != nil {
		return "", err
	}
	if in.given() {
		settings, err := in.changes(id)
		if err == nil {
			err = checkReachable(info)
		}
		if err == nil {
			info, err = c.set(ctx, settings)
		}
		if err != nil {
			return "", err
		}
		note += fmt.Sprintf("[set: %s]\n", in.dialogueSettings)
	}
	var answer string
	if in.Text == "" {
		answer, err = c.followDialogue(ctx, info, in.TimeoutS, in.MaxBytes)
	} else if err = checkReachable(info); err == nil {
		answer, err = c.sendAndFollow(ctx, id, in.Text, in.TimeoutS, in.MaxBytes)
	}
	if err != nil {
		return "", err
	}
	return note + answer, nil
}

// sendAndFollow sends the agent a message and returns its reaction.
func (c *conn) sendAndFollow(ctx call, id, text string, timeoutS float64, limit int64) (string, error) {
	sent, err := askAgent(ctx, func(ctx context.Context) (api.DialogueSendResult, error) {
		return c.Service.DialogueSend(ctx, api.DialogueSendParams{DialogueID: id, Text: text})
	})
	if err != nil {
		return "", err
	}
	info, err := c.Service.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: id})
	if err != nil {
		return "", err
	}
	info.State, info.Seq = api.DialogueRunning, sent.Seq // earlier events are no answer to this message
	answer, err := c.followDialogue(ctx, info, timeoutS, limit)
	if ctx.Err() != nil { // the client cancelled the call
		_, _ = c.Service.DialogueInterrupt(api.WithConn(context.WithoutCancel(ctx), c.life), api.DialogueInterruptParams{DialogueID: id})
		return "", ctx.Err()
	}
	return answer, err
}

func (c *conn) dialogueRespond(ctx call, in dialogueRespondInput) (string, error) {
	id, err := c.dialogueOf(in.Dialogue)
	if err != nil {
		return "", err
	}
	if c.Isolate != "" {
		info, err := c.Service.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: id})
		if err == nil {
			err = c.checkIsolation(ctx, info.SessionID)
		}
		if err != nil {
			return "", err
		}
	}
	p := api.DialogueRespondParams{
		DialogueID: id, RequestID: in.Request, Decision: in.Decision, Remember: in.Remember, Message: in.Message, Interrupt: in.Interrupt,
		Answers: in.Answers, Option: in.Option,
	}
	if in.Input != nil {
		if p.Input, err = json.Marshal(in.Input); err != nil {
			return "", err
		}
	}
	info, note, err := c.reconnect(ctx, id)
	if err == nil {
		err = checkReachable(info)
	}
	if err != nil {
		return "", err
	}
	if p.RequestID == "" {
		open, err := c.openRequests(ctx, id)
		if err != nil {
			return "", err
		}
		if len(open) == 0 {
			return "", api.Errorf(api.CodeConflict, "dialogue %q: no request waits for an answer: continue with dialogue_send", id)
		}
		if len(open) > 1 {
			return "", api.Errorf(api.CodeConflict, "dialogue %q: %d requests wait for an answer: name one by its request_id", id, len(open))
		}
		p.RequestID = open[0].RequestID
	}
	info, err = askAgent(ctx, func(ctx context.Context) (api.DialogueInfo, error) { return c.Service.DialogueRespond(ctx, p) })
	if err != nil {
		if e := api.AsError(err); e.Details["field"] == "request_id" {
			err = api.Errorf(e.Code, "%s: dialogue_send lists those that wait", e.Message)
		}
		return "", err
	}
	answer, err := c.followDialogue(ctx, info, in.TimeoutS, in.MaxBytes)
	if err != nil {
		return "", err
	}
	return note + answer, nil
}

func (c *conn) dialogueStop(ctx call, in dialogueStopInput) (string, error) {
	id, err := c.dialogueOf(in.Dialogue)
	if err != nil {
		return "", err
	}
	if in.Interrupt {
		info, note, err := c.reconnect(ctx, id)
		if err == nil {
			err = checkReachable(info)
		}
		if err == nil {
			info, err = askAgent(ctx, func(ctx context.Context) (api.DialogueInfo, error) {
				return c.Service.DialogueInterrupt(ctx, api.DialogueInterruptParams{DialogueID: id})
			})
		}
		if err != nil {
			return "", err
		}
		answer, err := c.followDialogue(ctx, info, 0, 0)
		return note + answer, err
	}
	info, err := c.Service.DialogueTerminate(ctx, api.DialogueTerminateParams{DialogueID: id})
	if err != nil {
		return "", err
	}
	how := ""
	if info.Ended != nil {
		how = colon(info.Ended.Text)
	}
	return fmt.Sprintf("ended %s%s; dialogue_start {\"resume\": %q} continues it", info.DialogueID, how, info.DialogueID), nil
}

// dialogueOf returns the dialogue with a name or id; without one, the dialogue that was started
// last.
func (c *conn) dialogueOf(name string) (id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id = cmp.Or(name, c.dialogue); id == "" {
		return "", api.Errorf(api.CodeDialogueNotFound, "there is no dialogue yet: start one with dialogue_start")
	}
	return id, nil
}

// reconnect returns the current state of a dialogue. If its agent cannot be reached, it tries
// again, and note says when that succeeds.
func (c *conn) reconnect(ctx call, id string) (info api.DialogueInfo, note string, err error) {
	info, err = c.Service.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: id})
	if err != nil || info.State != api.DialogueError {
		return info, "", err
	}
	wait, cancel := context.WithDeadline(ctx, ctx.until)
	defer cancel()
	found, err := c.Service.DialogueRetry(wait, api.DialogueRetryParams{DialogueID: id})
	switch {
	case err != nil && wait.Err() != nil && ctx.Err() == nil: // the daemon goes on trying
		return info, "", nil
	case err != nil:
		return info, "", err
	case found.State != api.DialogueError:
		note = fmt.Sprintf("[%s was unreachable and is reachable again]\n", found.DialogueID)
	}
	return found, note, nil
}

// checkReachable returns an error if the agent cannot be reached.
func checkReachable(info api.DialogueInfo) error {
	switch {
	case info.State != api.DialogueError:
		return nil
	case info.Error != nil && info.Error.Reason == "disk":
		return api.Errorf(api.CodeResourcePressure, "nothing was done: %s", faultNote(info))
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "nothing was done: %s", faultNote(info))
}
