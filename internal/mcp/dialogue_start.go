package mcp

import (
	"cmp"
	"context"
	"strings"

	"github.com/trl-dev/trl/api"
)

func (c *conn) dialogueStart(ctx call, in dialogueStartInput) (string, error) {
	info, fresh, err := c.startAgent(ctx, in)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	c.dialogue = info.DialogueID
	c.reported[info.DialogueID] = info.Seq
	gone := c.disconnected
	if fresh && in.Name == "" {
		c.ownDialogues = append(c.ownDialogues, info.DialogueID)
	}
	c.mu.Unlock()
	if gone {
		c.destroyOwn()
		return "", errDisconnected
	}
	var text string
	if in.Prompt == "" {
		text, err = c.dialogueAnswer(ctx, info, dialogueNews{})
	} else {
		text, err = c.sendAndFollow(ctx, info.DialogueID, in.Prompt, in.TimeoutS, in.MaxBytes)
	}
	return c.unenforcedIn(ctx, info.SessionID).lines() + text, err
}

// startAgent starts the agent, in a new dialogue or in one that has ended.
func (c *conn) startAgent(ctx call, in dialogueStartInput) (info api.DialogueInfo, fresh bool, err error) {
	policy, err := in.policy()
	if err != nil {
		return info, false, err
	}
	p := api.DialogueCreateParams{
		Agent: cmp.Or(in.Agent, "claude"), Argv: in.Program, WorkingDir: in.Dir, Model: in.Model, PermissionMode: in.Mode,
		Env: in.Env, Name: in.Name, Tags: []string{"mcp"}, Policy: policy, Resume: in.Resume, Limits: in.sessionLimits(),
	}
	if p.Isolation, err = c.isolation(in.Isolate); err != nil {
		return info, false, err
	}
	if in.Resume != "" {
		was, err := c.Service.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: in.Resume})
		if err == nil {
			info, err = c.resume(ctx, was, in)
			return info, false, err
		}
		if api.AsError(err).Code != api.CodeDialogueNotFound || strings.HasPrefix(in.Resume, "d-") {
			return info, false, err
		}
	}
	if in.Remote != nil {
		p.Runtime, p.Remote = "remote", in.Remote
	} else {
		p.Runtime, p.Env = in.Runtime, c.envWith(in.Runtime, in.Env)
		p.WorkingDir = cmp.Or(p.WorkingDir, c.dirFor(ctx, in.Runtime))
	}
	info, err = c.Service.DialogueCreate(ctx, p)
	if err != nil && in.Resume != "" {
		err = api.Errorf(api.AsError(err).Code, "%q is not a dialogue (list shows them), and as a conversation of the agent's own: %s", in.Resume, err)
	}
	return info, true, err
}

// resume starts the agent of an ended dialogue again.
func (c *conn) resume(ctx call, was api.DialogueInfo, in dialogueStartInput) (api.DialogueInfo, error) {
	id := was.DialogueID
	gone := was.Error != nil && was.Error.Reason == "session_gone"
	switch {
	case was.State != api.DialogueEnded && !gone:
		return was, api.Errorf(api.CodeConflict, "%s has not ended, it is %s: continue with dialogue_send {\"dialogue\": %q}", id, was.State, id)
	case in.Program != nil, in.Remote != nil, in.Agent != "" && in.Agent != was.Agent, in.Dir != "" && in.Dir != was.WorkingDir, in.Name != "" && in.Name != was.Name,
		in.Isolate != "", in.limitsInput != limitsInput{}:
		return was, api.Errorf(api.CodeInvalidParams, "%s keeps its settings: leave out agent, program, working_dir, remote, name, isolate and limits", id)
	}
	settings, err := in.changes(id)
	if err != nil {
		return was, err
	}
	info, err := c.Service.DialogueResume(ctx, api.DialogueResumeParams{DialogueID: id, Env: c.envWith(was.Runtime, in.Env)})
	if err != nil {
		return info, err
	}
	if err = c.checkIsolation(ctx, info.SessionID); err == nil && in.given() {
		info, err = c.set(ctx, settings)
	}
	if err != nil {
		_, _ = c.Service.DialogueTerminate(api.WithConn(context.WithoutCancel(ctx), c.life), api.DialogueTerminateParams{DialogueID: id})
	}
	return info, err
}

func (s dialogueSettings) given() bool {
	return s.Model != "" || s.Mode != "" || s.Rules != nil || s.DenyAfterS != nil
}

// String names the settings that were given.
func (s dialogueSettings) String() string {
	var list []string
	if s.Model != "" {
		list = append(list, "model "+s.Model)
	}
	if s.Mode != "" {
		list = append(list, "permission_mode "+s.Mode)
	}
	if s.Rules != nil {
		list = append(list, "rules")
	}
	return strings.Join(list, ", ")
}

// policy returns the policy that the rules describe; nil if there are none.
func (s dialogueSettings) policy() (*api.DialoguePolicy, error) {
	if s.Rules == nil && s.DenyAfterS == nil {
		return nil, nil
	}
	p := &api.DialoguePolicy{DenyAfterS: s.DenyAfterS}
	for _, text := range s.Rules {
		action, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		tool, pattern, brackets := strings.Cut(strings.TrimSpace(rest), "(")
		pattern, closed := strings.CutSuffix(pattern, ")")
		if action != "allow" && action != "deny" && action != "ask" || tool == "" || brackets != closed || strings.Contains(tool, ")") {
			return nil, api.Errorf(api.CodeInvalidParams, "rules: %.100q: write allow, deny or ask, then a tool (* is any), and in parentheses a pattern for its subject: allow Bash(git *)", text)
		}
		p.Rules = append(p.Rules, api.DialogueRule{Tool: tool, Pattern: pattern, Action: action})
	}
	return p, nil
}

// changes returns the parameters that apply the settings to a dialogue.
func (s dialogueSettings) changes(id string) (p api.DialogueSetParams, err error) {
	if s.Rules == nil && s.DenyAfterS != nil {
		return p, api.Errorf(api.CodeInvalidParams, "deny_after_s: needs rules, [] for none: both replace the earlier policy")
	}
	p = api.DialogueSetParams{DialogueID: id, Model: s.Model, PermissionMode: s.Mode}
	p.Policy, err = s.policy()
	return p, err
}

// set changes the settings of an agent.
func (c *conn) set(ctx call, p api.DialogueSetParams) (api.DialogueInfo, error) {
	return askAgent(ctx, func(ctx context.Context) (api.DialogueInfo, error) { return c.Service.DialogueSet(ctx, p) })
}
