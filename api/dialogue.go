package api

import (
	"encoding/json"
	"slices"
	"strings"
)

// TagDialogue marks every session that belongs to a dialogue; the dialogue's id is a second
// tag. Other callers need force to write to such a session or to end it.
const TagDialogue = "agent-dialogue"

// Owner returns the id of the dialogue that the session belongs to, or "".
func (s SessionInfo) Owner() string {
	if slices.Contains(s.Tags, TagDialogue) {
		for _, tag := range s.Tags {
			if strings.HasPrefix(tag, "d-") {
				return tag
			}
		}
	}
	return ""
}

// DialogueState is the current state of a dialogue. An ended dialogue can be resumed.
type DialogueState string

// The states of a dialogue.
const (
	DialogueStarting       DialogueState = "starting"        // the agent has not answered yet
	DialogueIdle           DialogueState = "idle"            // the agent waits for a message
	DialogueRunning        DialogueState = "running"         // the agent is working
	DialogueRequiresAction DialogueState = "requires_action" // the agent waits for the answer to a request
	DialogueError          DialogueState = "error"           // the agent cannot be reached; see DialogueInfo.Error and dialogue.retry
	DialogueEnded          DialogueState = "ended"           // the agent's process has ended; see dialogue.resume
)

// DialogueStates lists the states.
var DialogueStates = []DialogueState{DialogueStarting, DialogueIdle, DialogueRunning, DialogueRequiresAction, DialogueError, DialogueEnded}

var dialogueMoves = map[DialogueState][]DialogueState{
	DialogueStarting:       {DialogueIdle, DialogueRunning, DialogueRequiresAction, DialogueError, DialogueEnded},
	DialogueIdle:           {DialogueRunning, DialogueRequiresAction, DialogueError, DialogueEnded},
	DialogueRunning:        {DialogueIdle, DialogueRequiresAction, DialogueError, DialogueEnded},
	DialogueRequiresAction: {DialogueIdle, DialogueRunning, DialogueError, DialogueEnded},
	DialogueError:          {DialogueIdle, DialogueRunning, DialogueRequiresAction, DialogueEnded},
	DialogueEnded:          {DialogueStarting},
}

// CanBecome reports whether a dialogue in state s may move to next.
func (s DialogueState) CanBecome(next DialogueState) bool { return contains(dialogueMoves[s], next) }

// DialogueCreateParams asks for a conversation with a coding agent. The call returns after
// the agent's program has started and answered.
type DialogueCreateParams struct {
	// Agent selects the protocol to drive the program with: claude, codex or acp.
	Agent string `json:"agent"`
	// Argv is the program and its own arguments; TRL adds the arguments that the protocol
	// needs. Default: claude or codex on PATH; required for acp.
	Argv []string `json:"argv,omitempty"`
	// Model is the model for the agent to use; empty: the agent's default.
	Model string `json:"model,omitempty"`
	// PermissionMode is one of the agent's own modes, such as acceptEdits or plan; empty: the
	// agent's default.
	PermissionMode string `json:"permission_mode,omitempty"`
	// WorkingDir is the directory the agent works in, an absolute path; empty: the home directory,
	// or in a container or pod the directory that the image names.
	WorkingDir string `json:"working_dir,omitempty"`
	// Env is added to the environment of the runtime.
	Env map[string]string `json:"env,omitempty"`
	// Runtime is the place where the agent runs, as in session.create, or remote for the daemon
	// given in remote, which is another way to write trl:ADDRESS. Empty: the daemon's
	// default_runtime.
	Runtime string `json:"runtime,omitempty"`
	// Place overrides options of the place, as in session.create.
	Place *PlaceOptions `json:"place,omitempty"`
	// CreateID is chosen by the caller and is in the session.progress events of this creation.
	CreateID string `json:"create_id,omitempty"`
	// Remote is the daemon that runs the session, for runtime remote.
	Remote *DialogueRemote `json:"remote,omitempty"`
	// Resume is the agent's own id of an earlier conversation to continue.
	Resume string `json:"resume,omitempty"`
	// Name is a handle for people, unique among the dialogues that have not ended.
	Name string `json:"name,omitempty"`
	// Tags are free-form labels; the dialogue's session gets them too.
	Tags   []string `json:"tags,omitempty"`
	Prompt string   `json:"prompt,omitempty"` // the first message
	// Policy answers the agent's requests without a client.
	Policy *DialoguePolicy `json:"policy,omitempty"`
	// StallS is the number of seconds that a working agent may stay silent before TRL reports
	// it as stalled. Absent: the daemon's dialogue_stall_s; 0: never.
	StallS *float64 `json:"stall_s,omitempty"`
	// LingerS ends the dialogue when no client has followed its events for this many seconds,
	// for clients that may die. Background work finishes first. Absent: the dialogue stays.
	LingerS *float64 `json:"linger_s,omitempty"`
	// LifetimeS ends the agent this many seconds after it was started, even if it works; again
	// after dialogue.resume. Absent: the daemon's lifetime_s; 0: never.
	LifetimeS  *float64   `json:"lifetime_s,omitempty"`
	Limits     *Limits    `json:"limits,omitempty"`      // what the agent and its processes may use; see session.create
	LimitsMode LimitsMode `json:"limits_mode,omitempty"` // require or best-effort; see session.create
	Isolation  *Isolation `json:"isolation,omitempty"`   // what the agent and its processes may touch; see session.create
	// IsolationMode is require or best-effort; see session.create.
	IsolationMode LimitsMode `json:"isolation_mode,omitempty"`
}

// DialoguePolicy answers requests of the agent. The first matching rule answers at once.
type DialoguePolicy struct {
	Rules []DialogueRule `json:"rules,omitempty"` // tried in this order
	// DenyAfterS denies a request that no rule matches when no client has followed the
	// dialogue for this many seconds. Absent: the request waits.
	DenyAfterS *float64 `json:"deny_after_s,omitempty"`
}

// DialogueRule answers the requests that match it.
type DialogueRule struct {
	// Tool is the name of the tool, such as Bash; * matches any text.
	Tool string `json:"tool"`
	// Pattern must match the subject of the request: a command, a path or an address. A *
	// matches any text. In an allow rule, * does not match text that joins commands, leaves
	// a directory or names another site, unless the whole pattern is *. Empty: any subject.
	Pattern string `json:"pattern,omitempty"`
	// Action is allow, deny or ask; ask leaves the request to people.
	Action string `json:"action"`
	// Message is sent to the agent with a denial.
	Message string `json:"message,omitempty"`
}

// Check reports the first invalid parameter.
func (p DialogueCreateParams) Check() error {
	switch {
	case p.Agent == "":
		return InvalidParam("agent", "is required")
	case p.Name != "" && (!validName(p.Name) || strings.HasPrefix(p.Name, "d-")):
		return InvalidParam("name", "%.100q: must be 1 to 64 of A-Z a-z 0-9 . _ -, begin with a letter or digit, and not with \"s-\", \"x-\" or \"d-\"", p.Name)
	case p.Argv != nil && (len(p.Argv) == 0 || p.Argv[0] == ""):
		return InvalidParam("argv", "must begin with the program")
	case slices.Contains(p.Tags, TagDialogue) || slices.ContainsFunc(p.Tags, func(t string) bool { return strings.HasPrefix(t, "d-") }):
		return InvalidParam("tags", "%s and tags that begin with d- are reserved", TagDialogue)
	}
	if err := p.checkPlace(); err != nil {
		return err
	}
	for _, s := range p.Argv {
		if err := noNUL("argv", s); err != nil {
			return err
		}
	}
	for _, c := range []struct{ field, value string }{{"model", p.Model}, {"permission_mode", p.PermissionMode}, {"resume", p.Resume}} {
		if err := noFlag(c.field, c.value); err != nil {
			return err
		}
	}
	if err := p.Policy.check(); err != nil {
		return err
	}
	if err := checkSeconds("linger_s", p.LingerS); err != nil {
		return err
	}
	if err := checkSeconds("stall_s", p.StallS); err != nil {
		return err
	}
	return SessionCreateParams{Kind: KindProgram, Command: []string{"x"}, WorkingDir: p.WorkingDir, Env: p.Env, Tags: p.Tags, LifetimeS: p.LifetimeS, Limits: p.Limits, LimitsMode: p.LimitsMode, Isolation: p.Isolation, IsolationMode: p.IsolationMode}.Check()
}

func (p *DialoguePolicy) check() error {
	if p == nil {
		return nil
	}
	if len(p.Rules) > 1000 {
		return InvalidParam("policy", "at most 1000 rules")
	}
	for _, r := range p.Rules {
		switch {
		case r.Tool == "":
			return InvalidParam("policy", "a rule needs a tool; * matches any tool")
		case r.Action != "allow" && r.Action != "deny" && r.Action != "ask":
			return InvalidParam("policy", "%.40q is not one of allow, deny, ask", r.Action)
		}
	}
	return checkSeconds("policy.deny_after_s", p.DenyAfterS)
}

// DialogueListParams filters dialogue.list.
type DialogueListParams struct {
	Tags  []string      `json:"tags,omitempty"`  // only dialogues that have all of these tags
	State DialogueState `json:"state,omitempty"` // only dialogues in this state
	// States selects only the dialogues in one of these states.
	States []DialogueState `json:"states,omitempty"`
	Page
}

// Check reports the first invalid parameter.
func (p DialogueListParams) Check() error {
	if err := checkStates(p.State, p.States, DialogueStates...); err != nil {
		return err
	}
	return p.Page.check()
}

// Selects reports whether the list has dialogues of this state.
func (p DialogueListParams) Selects(state DialogueState) bool {
	return selects(p.State, p.States, state)
}

// DialogueListResult lists the dialogues, oldest first.
type DialogueListResult struct {
	Dialogues []DialogueInfo `json:"dialogues"` // includes ended dialogues that are still kept
	// Next continues the list, as after. Absent: there are no more.
	Next string `json:"next,omitempty"`
}

// DialogueInfoParams names one dialogue.
type DialogueInfoParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
}

// DialogueSendParams sends the agent a message. The agent decides when it reads a message
// that arrives while it works: at the next step of the turn, or after the turn.
type DialogueSendParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
	// Text is the message.
	Text string `json:"text,omitempty"`
	// Content is a message of several blocks, instead of text.
	Content []DialogueContent `json:"content,omitempty"`
	// MessageID makes a repeated call safe: TRL does not send a second message with the same
	// id. It is a UUID; TRL generates one if it is absent.
	MessageID string `json:"message_id,omitempty"`
}

// DialogueContent is one block of a message.
type DialogueContent struct {
	Type string `json:"type"`           // text or image
	Text string `json:"text,omitempty"` // for type text
	// DataBase64 and MediaType are for type image.
	DataBase64 string `json:"data_base64,omitempty"`
	MediaType  string `json:"media_type,omitempty"` // such as image/png
}

// Blocks returns the message as blocks.
func (p DialogueSendParams) Blocks() []DialogueContent {
	if p.Text != "" {
		return []DialogueContent{{Type: "text", Text: p.Text}}
	}
	return p.Content
}

// Check reports the first invalid parameter.
func (p DialogueSendParams) Check() error {
	switch {
	case p.DialogueID == "":
		return InvalidParam("dialogue_id", "is required")
	case (p.Text == "") == (len(p.Content) == 0):
		return InvalidParam("text", "one of text and content must be given")
	case p.MessageID != "" && !validUUID(p.MessageID):
		return InvalidParam("message_id", "%.60q is not a UUID in lower case", p.MessageID)
	}
	for _, c := range p.Content {
		switch {
		case c.Type == "text" && c.Text != "":
		case c.Type == "image" && c.DataBase64 != "" && strings.HasPrefix(c.MediaType, "image/"):
			if err := checkBase64("content", c.DataBase64); err != nil {
				return err
			}
		default:
			return InvalidParam("content", "a block is a text with its text, or an image with data_base64 and media_type")
		}
	}
	return nil
}

// DialogueSendResult identifies the message that was sent.
type DialogueSendResult struct {
	MessageID string `json:"message_id"` // id of the message
	// Seq is the number of the message's event; all of its consequences have higher numbers.
	Seq      int64 `json:"seq"`
	Repeated bool  `json:"repeated"` // true if the message had been sent before and was not sent again
}

// DialogueInterruptParams stops the agent's current turn; the dialogue goes on.
type DialogueInterruptParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
}

// DialogueRespondParams answers a request of the agent.
type DialogueRespondParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
	RequestID  string `json:"request_id"`  // as in the request
	// Decision is allow or deny. It is optional with answers or option.
	Decision string `json:"decision,omitempty"`
	// Message is sent to the agent with a denial.
	Message string `json:"message,omitempty"`
	// Interrupt also ends the turn, after a denial.
	Interrupt bool `json:"interrupt,omitempty"`
	// Input replaces the input of the tool that is allowed.
	Input json.RawMessage `json:"input,omitempty"`
	// Remember allows such requests from now on, if the agent offers that.
	Remember bool `json:"remember,omitempty"`
	// Option is the id of one of the request's options.
	Option string `json:"option,omitempty"`
	// Answers are the answers to questions, keyed by the question's text or id.
	Answers map[string]string `json:"answers,omitempty"`
}

// Check reports the first invalid parameter.
func (p DialogueRespondParams) Check() error {
	switch {
	case p.DialogueID == "":
		return InvalidParam("dialogue_id", "is required")
	case p.RequestID == "":
		return InvalidParam("request_id", "is required")
	case p.Decision == "" && len(p.Answers) == 0 && p.Option == "":
		return InvalidParam("decision", "is required, or answers, or option")
	case p.Decision != "" && p.Decision != "allow" && p.Decision != "deny":
		return InvalidParam("decision", "%.40q is not one of allow, deny", p.Decision)
	case p.Decision == "deny" && (p.Input != nil || p.Remember || len(p.Answers) > 0):
		return InvalidParam("decision", "deny cannot be combined with input, answers or remember")
	case p.Input != nil && (len(p.Input) == 0 || p.Input[0] != '{'):
		return InvalidParam("input", "must be an object")
	}
	return nil
}

// DialogueUnsendParams takes back a message that the agent has not started with.
type DialogueUnsendParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
	MessageID  string `json:"message_id"`  // as in dialogue.send
}

// Check reports the first invalid parameter.
func (p DialogueUnsendParams) Check() error {
	switch {
	case p.DialogueID == "":
		return InvalidParam("dialogue_id", "is required")
	case p.MessageID == "":
		return InvalidParam("message_id", "is required")
	}
	return nil
}

// DialogueSetParams changes how the agent works.
type DialogueSetParams struct {
	DialogueID     string `json:"dialogue_id"`               // id or name
	Model          string `json:"model,omitempty"`           // takes effect at the next step; with Codex, like the mode, at the next turn
	PermissionMode string `json:"permission_mode,omitempty"` // one of the agent's own modes
	// Policy replaces the dialogue's policy.
	Policy *DialoguePolicy `json:"policy,omitempty"`
}

// Check reports the first invalid parameter.
func (p DialogueSetParams) Check() error {
	switch {
	case p.DialogueID == "":
		return InvalidParam("dialogue_id", "is required")
	case p.Model == "" && p.PermissionMode == "" && p.Policy == nil:
		return InvalidParam("model", "is required, or permission_mode, or policy")
	}
	if err := noFlag("model", p.Model); err != nil {
		return err
	}
	if err := noFlag("permission_mode", p.PermissionMode); err != nil {
		return err
	}
	return p.Policy.check()
}

// noFlag rejects a value that an agent's program would read as a flag.
func noFlag(field, value string) error {
	if strings.HasPrefix(value, "-") {
		return InvalidParam(field, "must not begin with -")
	}
	return noNUL(field, value)
}

// DialogueTerminateParams ends the agent's program and everything it started.
type DialogueTerminateParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
	// Force kills the agent at once, without the grace time.
	Force bool `json:"force,omitempty"`
	// Forget also deletes the record of the dialogue.
	Forget bool `json:"forget,omitempty"`
}

// DialogueResumeParams starts the agent again, in the same dialogue.
type DialogueResumeParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
	// Env is added to the environment of the runtime. TRL does not keep the environment of
	// the previous process.
	Env map[string]string `json:"env,omitempty"`
	// Prompt is the first message.
	Prompt string `json:"prompt,omitempty"`
}

// Check reports the first invalid parameter.
func (p DialogueResumeParams) Check() error {
	if p.DialogueID == "" {
		return InvalidParam("dialogue_id", "is required")
	}
	return checkEnv(p.Env)
}

// DialogueRetryParams tries again to reach the agent of a dialogue in state error.
type DialogueRetryParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
}

func validUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range s {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !strings.ContainsRune("0123456789abcdef", c) {
			return false
		}
	}
	return true
}
