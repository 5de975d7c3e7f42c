package api

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// TagDialogue is on every session that belongs to a dialogue, beside the dialogue's id.
// Who is not the dialogue can write to such a session, or end it, only with force.
const TagDialogue = "agent-dialogue"

// Owner is the dialogue that a session belongs to, by its id; empty when to none.
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

// DialogueState is what a dialogue does now. It is resumed from ended.
type DialogueState string

// The states of a dialogue.
const (
	DialogueStarting       DialogueState = "starting"        // the agent has not answered yet
	DialogueIdle           DialogueState = "idle"            // the agent waits for a message
	DialogueRunning        DialogueState = "running"         // the agent works
	DialogueRequiresAction DialogueState = "requires_action" // the agent waits for the answer to a request
	DialogueError          DialogueState = "error"           // the agent cannot be reached; see DialogueInfo.Error and dialogue.retry
	DialogueEnded          DialogueState = "ended"           // its process is gone; see dialogue.resume
)

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

// DialogueCreateParams asks for a conversation with a coding agent. It is answered when
// the agent's program runs and has answered.
type DialogueCreateParams struct {
	// Agent is how the program is spoken to: claude, codex or acp.
	Agent string `json:"agent"`
	// Argv is the program and arguments of its own; those that the protocol needs are
	// added. By default it is claude or codex on PATH; for acp it is required.
	Argv []string `json:"argv,omitempty"`
	// Model is the model the agent is to use; its own default when empty.
	Model string `json:"model,omitempty"`
	// PermissionMode is in the words of the agent, such as acceptEdits or plan; its own default when empty.
	PermissionMode string `json:"permission_mode,omitempty"`
	// WorkingDir is where the agent works, an absolute path; the home directory when empty.
	WorkingDir string `json:"working_dir,omitempty"`
	// Env is added to the environment of the runtime.
	Env map[string]string `json:"env,omitempty"`
	// Runtime is where the agent runs: host, or remote for the daemon that remote names.
	Runtime string `json:"runtime,omitempty"`
	// Remote is the daemon that has the session, for runtime remote.
	Remote *DialogueRemote `json:"remote,omitempty"`
	// Resume is the agent's own id of an earlier conversation to go on with.
	Resume string `json:"resume,omitempty"`
	// Name is a handle for people, unique among the dialogues that have not ended.
	Name string `json:"name,omitempty"`
	// Tags are free words to tell dialogues apart; the session has them too.
	Tags []string `json:"tags,omitempty"`
	// Prompt is the first message.
	Prompt string `json:"prompt,omitempty"`
	// Policy says what answers the agent's requests when nobody does.
	Policy *DialoguePolicy `json:"policy,omitempty"`
	// StallS is for how many seconds an agent that works may say nothing before that is
	// told. Absent: the daemon's dialogue_stall_s; 0: for ever.
	StallS *float64 `json:"stall_s,omitempty"`
	// LingerS ends the dialogue when nobody has followed its events for that many seconds:
	// whoever made it has died. Work in the background is finished first. Absent: it lives on.
	LingerS *float64 `json:"linger_s,omitempty"`
}

// DialogueRemote is another daemon, reached over gRPC. Secrets are in files.
type DialogueRemote struct {
	Address    string `json:"address"`               // such as grpcs://box.example:7331
	TokenFile  string `json:"token_file,omitempty"`  // the file with the token, of this machine
	CAFile     string `json:"ca_file,omitempty"`     // certificates that the daemon's is checked against
	CertFile   string `json:"cert_file,omitempty"`   // certificate that is shown to the daemon
	KeyFile    string `json:"key_file,omitempty"`    // its private key
	ServerName string `json:"server_name,omitempty"` // name in the daemon's certificate, if it is not that of the address
}

// DialoguePolicy answers requests of the agent. The first rule that fits answers at once.
type DialoguePolicy struct {
	Rules []DialogueRule `json:"rules,omitempty"` // in the order in which they are tried
	// DenyAfterS denies what no rule fits when nobody has followed the dialogue for that
	// many seconds. Absent: it waits for ever.
	DenyAfterS *float64 `json:"deny_after_s,omitempty"`
}

// DialogueRule answers the requests it fits.
type DialogueRule struct {
	// Tool is the name of the tool, such as Bash; * stands for anything.
	Tool string `json:"tool"`
	// Pattern is how the subject of the request must look: a command, a path, an address.
	// * stands for anything. In a rule that allows it does not stand for what joins commands,
	// leads out of a directory, or names another site, unless the pattern is * alone. Empty:
	// anything.
	Pattern string `json:"pattern,omitempty"`
	// Action is allow, deny or ask; ask leaves it to people.
	Action string `json:"action"`
	// Message is told to the agent when it is denied.
	Message string `json:"message,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p DialogueCreateParams) Check() error {
	switch {
	case p.Agent == "":
		return invalid("agent", "is required")
	case p.Name != "" && (!validName(p.Name) || strings.HasPrefix(p.Name, "d-")):
		return invalid("name", "%.100q: must be 1 to 64 of A-Z a-z 0-9 . _ -, begin with a letter or digit, and not with \"s-\", \"x-\" or \"d-\"", p.Name)
	case p.Argv != nil && (len(p.Argv) == 0 || p.Argv[0] == ""):
		return invalid("argv", "must begin with the program")
	case p.Runtime != "" && p.Runtime != "host" && p.Runtime != "remote":
		return invalid("runtime", "%.40q is not one of host, remote", p.Runtime)
	case p.Runtime == "remote" && (p.Remote == nil || p.Remote.Address == ""):
		return invalid("remote", "is required for runtime remote, with its address")
	case p.Runtime != "remote" && p.Remote != nil:
		return invalid("remote", "is for runtime remote")
	case slices.Contains(p.Tags, TagDialogue) || slices.ContainsFunc(p.Tags, func(t string) bool { return strings.HasPrefix(t, "d-") }):
		return invalid("tags", "%s, and what begins with d-, are TRL's own", TagDialogue)
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
	return SessionCreateParams{Kind: KindProgram, Command: []string{"x"}, WorkingDir: p.WorkingDir, Env: p.Env, Tags: p.Tags}.Check()
}

func (p *DialoguePolicy) check() error {
	if p == nil {
		return nil
	}
	if len(p.Rules) > 1000 {
		return invalid("policy", "at most 1000 rules")
	}
	for _, r := range p.Rules {
		switch {
		case r.Tool == "":
			return invalid("policy", "a rule needs a tool; * is any")
		case r.Action != "allow" && r.Action != "deny" && r.Action != "ask":
			return invalid("policy", "%.40q is not one of allow, deny, ask", r.Action)
		}
	}
	return checkSeconds("policy.deny_after_s", p.DenyAfterS)
}

// DialogueInfo is a snapshot of one dialogue.
type DialogueInfo struct {
	DialogueID string         `json:"dialogue_id"`     // d-…; never used again
	Name       string         `json:"name"`            // empty when none was given
	Agent      string         `json:"agent"`           // how it is spoken to
	Version    string         `json:"version"`         // of the agent's program, once it is known
	State      DialogueState  `json:"state"`           // what it does now
	Error      *DialogueFault `json:"error,omitempty"` // why it is in state error
	SessionID  string         `json:"session_id"`      // the session that it owns, or had last
	// NativeSession is the agent's own id of the conversation. It may change.
	NativeSession  string   `json:"native_session"`
	Model          string   `json:"model"`              // as the agent told it last
	PermissionMode string   `json:"permission_mode"`    // as the agent told it last
	WorkingDir     string   `json:"working_dir"`        // where the agent works
	Runtime        string   `json:"runtime"`            // host or remote
	Commands       []string `json:"commands,omitempty"` // that the agent takes as messages, such as /compact, once it has told them
	Models         []string `json:"models,omitempty"`   // that dialogue.set takes, once the agent has told them
	Tags           []string `json:"tags"`               // as given
	Epoch          int      `json:"epoch"`              // how many processes the agent has had, with this one
	Seq            int64    `json:"seq"`                // of the last event
	Turns          int      `json:"turns"`              // begun until now
	Requests       int      `json:"requests"`           // that wait for an answer
	Tasks          int      `json:"tasks"`              // that run now
	// BackgroundTasks are those of them that run on when the agent rests, such as a command
	// that it started. They end with the dialogue.
	BackgroundTasks int           `json:"background_tasks"`
	Usage           DialogueUsage `json:"usage"`         // over all turns, as the agent reported it
	CreatedAt       time.Time     `json:"created_at"`    // UTC
	LastActivity    time.Time     `json:"last_activity"` // when the last event was
	// StalledAt is since when an agent that works has said nothing, when that is too long.
	StalledAt *time.Time `json:"stalled_at,omitempty"`
	// LostAt is since when the daemon that has the agent cannot be reached and is looked for.
	LostAt *time.Time `json:"lost_at,omitempty"`
	// Ended says how its process ended, when it has.
	Ended *DialogueEnd `json:"ended,omitempty"`
}

// DialogueFault is why a dialogue cannot go on.
type DialogueFault struct {
	Code   string `json:"code"`   // reconnect_failed or record_failed
	Reason string `json:"reason"` // session_gone, auth_rejected, unreachable, refused or disk
	// Retry says that dialogue.retry may help as things are. After auth_rejected it does
	// only with other credentials; after session_gone only dialogue.resume does. What could
	// not be written to the disk is tried again every second anyway.
	Retry   bool   `json:"retry"`
	Message string `json:"message"` // for people
}

// DialogueListParams filters dialogue.list.
type DialogueListParams struct {
	Tags  []string      `json:"tags,omitempty"`  // that must all be on a dialogue
	State DialogueState `json:"state,omitempty"` // only those in that state
}

// DialogueListResult is what dialogue.list answers, oldest first.
type DialogueListResult struct {
	Dialogues []DialogueInfo `json:"dialogues"` // those that have ended included, as long as they are kept
}

// DialogueInfoParams names one dialogue.
type DialogueInfoParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
}

// DialogueSendParams gives the agent a message. One that comes while it works is taken
// up as the agent does it: at the next step of the turn, or after it.
type DialogueSendParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
	// Text is the message.
	Text string `json:"text,omitempty"`
	// Content is a message of several blocks, in place of text.
	Content []DialogueContent `json:"content,omitempty"`
	// MessageID makes a repetition harmless: a second message with the same id is not sent.
	// A UUID; one is made when it is absent.
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

// Blocks is the message as blocks.
func (p DialogueSendParams) Blocks() []DialogueContent {
	if p.Text != "" {
		return []DialogueContent{{Type: "text", Text: p.Text}}
	}
	return p.Content
}

// Check reports the first parameter that cannot be.
func (p DialogueSendParams) Check() error {
	switch {
	case p.DialogueID == "":
		return invalid("dialogue_id", "is required")
	case (p.Text == "") == (len(p.Content) == 0):
		return invalid("text", "one of text and content must be given")
	case p.MessageID != "" && !validUUID(p.MessageID):
		return invalid("message_id", "%.60q is not a UUID in lower case", p.MessageID)
	}
	for _, c := range p.Content {
		switch {
		case c.Type == "text" && c.Text != "":
		case c.Type == "image" && c.DataBase64 != "" && strings.HasPrefix(c.MediaType, "image/"):
			if err := checkBase64("content", c.DataBase64); err != nil {
				return err
			}
		default:
			return invalid("content", "a block is a text with its text, or an image with data_base64 and media_type")
		}
	}
	return nil
}

// DialogueSendResult tells what became of a message.
type DialogueSendResult struct {
	MessageID string `json:"message_id"` // of the message
	// Seq is the number of the event that tells of it; what follows from it comes later.
	Seq      int64 `json:"seq"`
	Repeated bool  `json:"repeated"` // it was sent before, and nothing was done
}

// DialogueInterruptParams stops what the agent does now; the dialogue goes on.
type DialogueInterruptParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
}

// DialogueRespondParams answers a request of the agent.
type DialogueRespondParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
	RequestID  string `json:"request_id"`  // as in the request
	// Decision is allow or deny. It may be left out when answers or option are given.
	Decision string `json:"decision,omitempty"`
	// Message is told to the agent when it is denied.
	Message string `json:"message,omitempty"`
	// Interrupt also ends the turn when it is denied.
	Interrupt bool `json:"interrupt,omitempty"`
	// Input takes the place of the input of the tool that is allowed.
	Input json.RawMessage `json:"input,omitempty"`
	// Remember allows the same from now on, where the agent offers it.
	Remember bool `json:"remember,omitempty"`
	// Option is the id of one of the request's options.
	Option string `json:"option,omitempty"`
	// Answers are those to a question, by its text or id.
	Answers map[string]string `json:"answers,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p DialogueRespondParams) Check() error {
	switch {
	case p.DialogueID == "":
		return invalid("dialogue_id", "is required")
	case p.RequestID == "":
		return invalid("request_id", "is required")
	case p.Decision == "" && len(p.Answers) == 0 && p.Option == "":
		return invalid("decision", "is required, or answers, or option")
	case p.Decision != "" && p.Decision != "allow" && p.Decision != "deny":
		return invalid("decision", "%.40q is not one of allow, deny", p.Decision)
	case p.Decision == "deny" && (p.Input != nil || p.Remember || len(p.Answers) > 0):
		return invalid("decision", "what is denied has no input and no answers, and is not remembered")
	case p.Input != nil && (len(p.Input) == 0 || p.Input[0] != '{'):
		return invalid("input", "must be an object")
	}
	return nil
}

// DialogueSetParams changes how the agent works.
type DialogueSetParams struct {
	DialogueID     string `json:"dialogue_id"`               // id or name
	Model          string `json:"model,omitempty"`           // from the next step on; with Codex, as the mode, from the next turn on
	PermissionMode string `json:"permission_mode,omitempty"` // in the words of the agent
	// Policy replaces the one of dialogue.create.
	Policy *DialoguePolicy `json:"policy,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p DialogueSetParams) Check() error {
	switch {
	case p.DialogueID == "":
		return invalid("dialogue_id", "is required")
	case p.Model == "" && p.PermissionMode == "" && p.Policy == nil:
		return invalid("model", "is required, or permission_mode, or policy")
	}
	if err := noFlag("model", p.Model); err != nil {
		return err
	}
	if err := noFlag("permission_mode", p.PermissionMode); err != nil {
		return err
	}
	return p.Policy.check()
}

// noFlag refuses what an agent's program would not take for a value.
func noFlag(field, value string) error {
	if strings.HasPrefix(value, "-") {
		return invalid(field, "must not begin with -")
	}
	return noNUL(field, value)
}

// DialogueEventsParams asks for what happens in a dialogue.
type DialogueEventsParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
	// AfterSeq is the last event the reader has; 0 for all.
	AfterSeq int64 `json:"after_seq,omitempty"`
	// NoFollow ends the stream behind what is there, instead of waiting for more.
	NoFollow bool `json:"no_follow,omitempty"`
	// NoDeltas leaves out the pieces of what is still being written.
	NoDeltas bool `json:"no_deltas,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p DialogueEventsParams) Check() error {
	if p.DialogueID == "" {
		return invalid("dialogue_id", "is required")
	}
	if p.AfterSeq < 0 {
		return invalid("after_seq", "must not be negative")
	}
	return nil
}

// DialogueTranscriptParams asks for the transcript.
type DialogueTranscriptParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
}

// DialogueRawParams reads what the agent's program wrote, byte for byte.
type DialogueRawParams struct {
	DialogueID string `json:"dialogue_id"`      // id or name
	Epoch      int    `json:"epoch,omitempty"`  // which process; the last one when 0
	Stream     string `json:"stream,omitempty"` // stdout, or stdin for what was sent to it; stdout when empty
	Offset     int64  `json:"offset,omitempty"` // first byte
	// Limit bounds the bytes of the answer. Absent: 1 MiB; at most 4 MiB.
	Limit *int64 `json:"limit,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p DialogueRawParams) Check() error {
	switch {
	case p.DialogueID == "":
		return invalid("dialogue_id", "is required")
	case p.Stream != "" && p.Stream != EventStdout && p.Stream != "stdin":
		return invalid("stream", "must be stdout or stdin")
	case p.Offset < 0 || p.Epoch < 0:
		return invalid("offset", "must not be negative, and neither must epoch")
	case p.Limit != nil && (*p.Limit < 1 || *p.Limit > 4<<20):
		return invalid("limit", "must be 1 to 4194304")
	}
	return nil
}

// DialogueRawResult is a piece of the raw stream.
type DialogueRawResult struct {
	DialogueID string `json:"dialogue_id"`           // its id, also when a name was given
	Epoch      int    `json:"epoch"`                 // which process
	Offset     int64  `json:"offset"`                // of the first byte
	Data       string `json:"data"`                  // the bytes
	DataBase64 string `json:"data_base64,omitempty"` // only when data is not UTF-8
	Total      int64  `json:"total"`                 // bytes there are now
	Complete   bool   `json:"complete"`              // nothing follows, now or later
}

// DialogueTerminateParams ends the agent's program and everything it started.
type DialogueTerminateParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
	// Force kills at once.
	Force bool `json:"force,omitempty"`
	// Forget also removes everything that is kept of the dialogue.
	Forget bool `json:"forget,omitempty"`
}

// DialogueResumeParams starts the agent again, in the same dialogue.
type DialogueResumeParams struct {
	DialogueID string `json:"dialogue_id"` // id or name
	// Env is added to the environment of the runtime: that of before is not kept.
	Env map[string]string `json:"env,omitempty"`
	// Prompt is the first message.
	Prompt string `json:"prompt,omitempty"`
}

// Check reports the first parameter that cannot be.
func (p DialogueResumeParams) Check() error {
	if p.DialogueID == "" {
		return invalid("dialogue_id", "is required")
	}
	return checkEnv(p.Env)
}

// DialogueRetryParams looks again for an agent that could not be reached.
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
