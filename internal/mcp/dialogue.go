package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trl-dev/trl/api"
)

type dialogueStartInput struct {
	Prompt   string            `json:"prompt,omitempty" jsonschema:"the first message"`
	Agent    string            `json:"agent,omitempty" jsonschema:"claude (default), codex or acp"`
	Program  []string          `json:"program,omitempty" jsonschema:"program and arguments, when it is not claude or codex on the PATH; required for acp"`
	Dir      string            `json:"working_dir,omitempty" jsonschema:"where it works; default: the current directory"`
	Model    string            `json:"model,omitempty" jsonschema:"default: the agent's own"`
	Mode     string            `json:"permission_mode,omitempty" jsonschema:"in the agent's words, such as acceptEdits or plan"`
	Allow    []string          `json:"allow,omitempty" jsonschema:"what it may do without asking you, such as Read, or Bash(git *)"`
	Env      map[string]string `json:"env,omitempty" jsonschema:"variables for it"`
	Name     string            `json:"name,omitempty" jsonschema:"name for it, which then outlives this connection"`
	Resume   string            `json:"resume,omitempty" jsonschema:"start the agent of this ended dialogue again instead; of the rest only prompt and env count"`
	TimeoutS float64           `json:"timeout_s,omitempty" jsonschema:"answer after so many seconds in any case; default and maximum 50"`
	MaxBytes int64             `json:"max_bytes,omitempty" jsonschema:"how much to answer; default 8000"`
}

type dialogueSendInput struct {
	Dialogue string  `json:"dialogue,omitempty" jsonschema:"name or id; default: the one started last"`
	Text     string  `json:"text,omitempty" jsonschema:"the message; without it, only wait for what the agent does now"`
	TimeoutS float64 `json:"timeout_s,omitempty" jsonschema:"answer after so many seconds in any case; default and maximum 50"`
	MaxBytes int64   `json:"max_bytes,omitempty" jsonschema:"how much to answer; default 8000"`
}

type dialogueRespondInput struct {
	Dialogue string            `json:"dialogue,omitempty" jsonschema:"name or id; default: the one started last"`
	Request  string            `json:"request_id,omitempty" jsonschema:"the request; may be left out when one waits alone"`
	Decision string            `json:"decision,omitempty" jsonschema:"allow or deny"`
	Message  string            `json:"message,omitempty" jsonschema:"what the agent is told when it is denied"`
	Input    map[string]any    `json:"input,omitempty" jsonschema:"an object in place of the input of the tool that is allowed"`
	Answers  map[string]string `json:"answers,omitempty" jsonschema:"answers to questions, by the text of the question"`
	Option   string            `json:"option,omitempty" jsonschema:"id of an option that was offered"`
	TimeoutS float64           `json:"timeout_s,omitempty" jsonschema:"answer after so many seconds in any case; default and maximum 50"`
	MaxBytes int64             `json:"max_bytes,omitempty" jsonschema:"how much to answer; default 8000"`
}

type dialogueReadInput struct {
	Dialogue string `json:"dialogue,omitempty" jsonschema:"name or id; default: the one started last"`
	Full     bool   `json:"full,omitempty" jsonschema:"with thoughts, and all that tools were given and gave"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"first byte to read"`
	Tail     int64  `json:"tail,omitempty" jsonschema:"read so many bytes from the end instead"`
	MaxBytes int64  `json:"max_bytes,omitempty" jsonschema:"how much to answer; default 8000"`
}

type dialogueStopInput struct {
	Dialogue  string `json:"dialogue,omitempty" jsonschema:"name or id; default: the one started last"`
	Interrupt bool   `json:"interrupt,omitempty" jsonschema:"only stop what it does now, and go on with the dialogue"`
}

func (c *conn) addDialogueTools() {
	yes := true
	add(c, &mcp.Tool{
		Name: "dialogue_start", Title: "Start a coding agent",
		Description: "Start another coding agent (Claude Code, Codex, any ACP agent), give it a task, and answer what it says. It answers earlier when the agent asks for a permission: go on with dialogue_respond.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}, c.dialogueStart)
	add(c, &mcp.Tool{
		Name: "dialogue_send", Title: "Talk with a coding agent",
		Description: "Give an agent a message and answer what it says and does, when it is done or asks something. Without text: wait for an agent that works. Returns after 50 s at the latest: call it again.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}, c.dialogueSend)
	add(c, &mcp.Tool{
		Name: "dialogue_respond", Title: "Answer a coding agent's request",
		Description: "Allow or deny what an agent asks for, or answer its questions; then as dialogue_send.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}, c.dialogueRespond)
	add(c, &mcp.Tool{
		Name: "dialogue_read", Title: "Read a dialogue",
		Description: "Read all that was said and done in a dialogue, from an offset or from the end. list shows the dialogues.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, c.dialogueRead)
	add(c, &mcp.Tool{
		Name: "dialogue_stop", Title: "Stop a coding agent",
		Description: "End an agent and everything it started, or only interrupt it. What was said can still be read.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true},
	}, c.dialogueStop)
}

func (c *conn) dialogueStart(ctx call, in dialogueStartInput) (string, error) {
	info, err := c.startAgent(ctx, in)
	if err != nil {
		if said, ok := api.AsError(err).Details["stderr"].(string); ok && said != "" {
			err = api.Errorf(api.AsError(err).Code, "%s\n[stderr]\n%s", err, cut(said, 2000, ""))
		}
		return "", err
	}
	c.mu.Lock()
	c.dialogue = info.DialogueID
	c.heard[info.DialogueID] = info.Seq
	gone := c.gone
	if in.Name == "" && in.Resume == "" {
		c.ownDialogues = append(c.ownDialogues, info.DialogueID)
	}
	c.mu.Unlock()
	if gone {
		c.destroyOwn()
		return "", errGone
	}
	if in.Prompt == "" {
		return c.tell(ctx, info, "", 0, in.MaxBytes)
	}
	return c.say(ctx, info.DialogueID, in.Prompt, in.TimeoutS, in.MaxBytes)
}

func (c *conn) startAgent(ctx call, in dialogueStartInput) (api.DialogueInfo, error) {
	if in.Resume != "" {
		return c.Service.DialogueResume(ctx, api.DialogueResumeParams{DialogueID: in.Resume, Env: in.Env})
	}
	p := api.DialogueCreateParams{
		Agent: cmp.Or(in.Agent, "claude"), Argv: in.Program, WorkingDir: cmp.Or(in.Dir, c.homeDir(ctx)), Model: in.Model,
		PermissionMode: in.Mode, Env: in.Env, Name: in.Name, Tags: []string{"mcp"},
	}
	for _, rule := range in.Allow {
		tool, pattern, _ := strings.Cut(strings.TrimSuffix(rule, ")"), "(")
		if p.Policy == nil {
			p.Policy = &api.DialoguePolicy{}
		}
		p.Policy.Rules = append(p.Policy.Rules, api.DialogueRule{Tool: tool, Pattern: pattern, Action: "allow"})
	}
	return c.Service.DialogueCreate(ctx, p)
}

func (c *conn) dialogueSend(ctx call, in dialogueSendInput) (string, error) {
	id, err := c.dialogueOf(in.Dialogue)
	if err != nil {
		return "", err
	}
	if in.Text != "" {
		return c.say(ctx, id, in.Text, in.TimeoutS, in.MaxBytes)
	}
	info, err := c.Service.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: id})
	if err != nil {
		return "", err
	}
	return c.follows(ctx, info, in.TimeoutS, in.MaxBytes)
}

// say gives the agent a message and tells what comes of it.
func (c *conn) say(ctx call, id, text string, timeoutS float64, limit int64) (string, error) {
	sent, err := c.Service.DialogueSend(ctx, api.DialogueSendParams{DialogueID: id, Text: text})
	if err != nil {
		return "", err
	}
	info, err := c.Service.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: id})
	if err != nil {
		return "", err
	}
	info.State, info.Seq = api.DialogueRunning, sent.Seq // what was before is no answer
	answer, err := c.follows(ctx, info, timeoutS, limit)
	if ctx.Err() != nil { // the client does not want it any more
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
	p := api.DialogueRespondParams{
		DialogueID: id, RequestID: in.Request, Decision: in.Decision, Message: in.Message, Answers: in.Answers, Option: in.Option,
	}
	if in.Input != nil {
		if p.Input, err = json.Marshal(in.Input); err != nil {
			return "", err
		}
	}
	if p.RequestID == "" {
		open, err := c.openRequests(ctx, id)
		if err != nil {
			return "", err
		}
		if len(open) != 1 {
			return "", api.Errorf(api.CodeConflict, "dialogue %q: %d requests wait for an answer: name one by its request_id", id, len(open))
		}
		p.RequestID = open[0].RequestID
	}
	info, err := c.Service.DialogueRespond(ctx, p)
	if err != nil {
		return "", err
	}
	return c.follows(ctx, info, in.TimeoutS, in.MaxBytes)
}

func (c *conn) dialogueStop(ctx call, in dialogueStopInput) (string, error) {
	id, err := c.dialogueOf(in.Dialogue)
	if err != nil {
		return "", err
	}
	if in.Interrupt {
		info, err := c.Service.DialogueInterrupt(ctx, api.DialogueInterruptParams{DialogueID: id})
		if err != nil {
			return "", err
		}
		return c.follows(ctx, info, 0, 0)
	}
	info, err := c.Service.DialogueTerminate(ctx, api.DialogueTerminateParams{DialogueID: id})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("ended %s; dialogue_start {\"resume\": %q} goes on with it", info.DialogueID, info.DialogueID), nil
}

// dialogueOf is the dialogue that is meant: without a name the one that was started last.
func (c *conn) dialogueOf(name string) (id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id = cmp.Or(name, c.dialogue); id == "" {
		return "", api.Errorf(api.CodeDialogueNotFound, "there is no dialogue yet: dialogue_start makes one")
	}
	return id, nil
}

// follows waits for an agent that works, within the client's patience, and tells what
// happened since the model last looked.
func (c *conn) follows(ctx call, info api.DialogueInfo, timeoutS float64, limit int64) (string, error) {
	patience := c.Patience
	if timeoutS > 0 {
		patience = min(patience, time.Duration(timeoutS*float64(time.Second)))
	}
	began := time.Now()
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.mu.Lock()
	after, known := c.heard[info.DialogueID]
	c.mu.Unlock()
	if !known { // what others talked about is for dialogue_read
		after = info.Seq
	}
	var d digest
	stop := c.progress(ctx, d.glance)
	seq, err := c.hear(wait, info, after, &d)
	stop()
	if err != nil && (wait.Err() == nil || ctx.Err() != nil) {
		return "", err
	}
	c.mu.Lock()
	c.heard[info.DialogueID] = max(c.heard[info.DialogueID], seq)
	c.mu.Unlock()
	now, err := c.Service.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: info.DialogueID})
	if err != nil {
		return "", err
	}
	return c.tell(ctx, now, d.text(), time.Since(began), limit)
}

// hear takes in the events behind after: of an agent that works until it does not, of
// another those that there are. It returns the number of the last.
func (c *conn) hear(ctx context.Context, info api.DialogueInfo, after int64, d *digest) (seq int64, err error) {
	working := info.State == api.DialogueRunning || info.State == api.DialogueStarting
	if !working && info.Seq <= after {
		return after, nil
	}
	s, err := c.Service.DialogueEvents(ctx, api.DialogueEventsParams{DialogueID: info.DialogueID, AfterSeq: after, NoDeltas: true, NoFollow: !working})
	if err != nil {
		return after, err
	}
	defer s.Close()
	for {
		push, err := s.Recv()
		if errors.Is(err, io.EOF) || err == nil && push.Type == api.EventEnd {
			return max(after, push.Seq), nil
		}
		if err != nil {
			return after, err
		}
		if push.Event == nil {
			continue
		}
		after = push.Seq
		d.add(*push.Event)
		if !working || push.Seq <= info.Seq || push.Event.Type != api.ToldState {
			continue
		}
		switch push.Event.State {
		case api.DialogueIdle, api.DialogueError, api.DialogueEnded:
			return after, nil
		case api.DialogueRequiresAction: // unless a rule has answered already
			now, err := c.Service.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: info.DialogueID})
			if err != nil {
				return after, err
			}
			if now.Requests > 0 {
				// It may be a later one that waits: what came before it is to be told, too.
				now.State = api.DialogueRequiresAction
				return c.hear(ctx, now, after, d)
			}
		}
	}
}

// tell makes an answer: the news, and where the dialogue is.
func (c *conn) tell(ctx call, info api.DialogueInfo, news string, waited time.Duration, limit int64) (string, error) {
	id := info.DialogueID
	var b strings.Builder
	b.WriteString(cut(news, bytesOr(limit), fmt.Sprintf("dialogue_read {\"dialogue\": %q, \"tail\": %d}", id, len(news))))
	if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
		b.WriteByte('\n')
	}
	switch info.State {
	case api.DialogueRequiresAction:
		open, err := c.openRequests(ctx, id)
		if err != nil {
			return "", err
		}
		for _, r := range open {
			b.WriteString(requestText(id, r))
		}
		fmt.Fprintf(&b, "[%s waits for your answer]", id)
	case api.DialogueRunning, api.DialogueStarting:
		fmt.Fprintf(&b, "[%s still works after %s; go on with dialogue_send {\"dialogue\": %q}, or stop it with dialogue_stop]", id, waited.Round(time.Second/10), id)
	case api.DialogueError:
		fmt.Fprintf(&b, "[%s cannot be reached", id)
		if info.Error != nil {
			fmt.Fprintf(&b, ": %s", info.Error.Message)
		}
		b.WriteByte(']')
	case api.DialogueEnded:
		fmt.Fprintf(&b, "[%s has ended; dialogue_start {\"resume\": %q} goes on with it]", id, id)
	default:
		fmt.Fprintf(&b, "[%s is %s]", id, info.State)
	}
	return b.String(), nil
}

func (c *conn) openRequests(ctx context.Context, id string) (open []api.DialogueRequest, err error) {
	tr, err := c.Service.DialogueTranscript(ctx, api.DialogueTranscriptParams{DialogueID: id})
	for _, r := range tr.Requests {
		if r.How == "" {
			open = append(open, r)
		}
	}
	return open, err
}
