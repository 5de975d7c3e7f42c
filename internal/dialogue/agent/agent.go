// Package agent defines what a dialogue needs from a coding agent: the command that starts its
// program, and the protocol that the program speaks. Each agent is a package below this one,
// listed in the table of package dialogue (agents.go).
//
// A Protocol is a state machine without a clock, randomness or I/O: its output depends only
// on its input, in order. So the same lines and calls, replayed, produce the same events;
// that is how a dialogue is recovered after a restart.
package agent

import (
	"net"
	"net/url"

	"github.com/trl-dev/trl/api"
)

// Options are the settings of one process of an agent.
type Options struct {
	// Argv is the program and its first arguments, from the caller; nil for the default program.
	Argv           []string
	Model          string
	PermissionMode string
	WorkingDir     string
	// Resume is the agent's own id of the conversation to continue; empty for a new one.
	Resume string
	// Epoch counts the processes of the dialogue, from 1. It makes ids unique that the agent
	// repeats in its next process.
	Epoch int
	// Tasks are the tasks of earlier processes that never reported an end, oldest first. A
	// process that resumes the conversation may report it.
	Tasks []api.DialogueTask `json:",omitempty"`
	// ModelList allows the protocol to ask the agent for its models. An older daemon did not
	// ask, and a replay must write the same lines as the first time.
	ModelList bool `json:",omitempty"`
}

// Agent is one kind of agent.
type Agent interface {
	// Command returns the program with its arguments, and the variables that it needs in its
	// environment.
	Command(o Options) (argv []string, env map[string]string, err error)
	// Needs returns what the program needs in isolation, beside its working directory: paths that it
	// reads and writes, and the hosts of its service. getenv reads the environment of the program.
	Needs(o Options, getenv func(string) string) api.Isolation
	// New makes the protocol of one process.
	New(o Options) Protocol
	// Describe adds to the agent's description of itself what it does not report: the capabilities
	// in the words of DialogueInfo, which replace its own, and the modes that it knows.
	Describe(o *api.DialogueOpened)
}

// The capabilities of agents, in DialogueInfo.
const (
	CanEdit     = "editable"  // an answer may replace the input of a tool
	CanRemember = "remember"  // an answer may hold from now on
	CanImages   = "images"    // messages may have images
	CanSetModel = "set_model" // dialogue.set may change the model
	CanSetMode  = "set_mode"  // dialogue.set may change the permission mode
	CanUnsend   = "unsend"    // dialogue.unsend may take back a message that is queued
)

// Protocol is the conversation with one process. It is used by one goroutine at a time.
type Protocol interface {
	// Start is the first step: it opens the conversation.
	Start() Step
	// Line handles the next line of the program's stdout, without its line end. The line may
	// be anything, and is valid only during the call.
	Line(line []byte) Step
	// Do handles a call from a client or from the policy.
	Do(c Call) Step
}

// Call is a request to the agent. Exactly one of the pointers is set.
type Call struct {
	// ID is unique in the dialogue. The Answer repeats it.
	ID        string     `json:"id"`
	Send      *Message   `json:"send,omitempty"`
	Interrupt *Interrupt `json:"interrupt,omitempty"`
	Respond   *Response  `json:"respond,omitempty"`
	Set       *Setting   `json:"set,omitempty"`
	Unsend    *Unsend    `json:"unsend,omitempty"`
}

// Unsend takes back a message that the agent has not started with. If it succeeds, an event says that
// the message is cancelled; otherwise the answer is a conflict.
type Unsend struct {
	MessageID string `json:"message_id"`
}

// NotUnsent is the answer to an Unsend that comes too late, or that the agent refuses.
func NotUnsent(id, why string) *api.Error {
	return api.Errorf(api.CodeConflict, "message %.100s: cannot be taken back: %s", id, why)
}

// Message is a message to the agent. Its step has a user item and a message event.
type Message struct {
	ID      string                `json:"id"` // a UUID
	Content []api.DialogueContent `json:"content"`
}

// Interrupt stops the turn; with All also the queued messages and the background tasks.
type Interrupt struct {
	All bool `json:"all,omitempty"`
}

// Response answers an open request. Its step has the event request_closed.
type Response struct {
	api.DialogueRespondParams
	By string `json:"by"` // client or policy
	// AnsweredBy is the client; nil for a policy.
	AnsweredBy *api.DialogueAnswerer `json:"answered_by,omitempty"`
}

// Setting changes how the agent works.
type Setting struct {
	Model          string `json:"model,omitempty"`
	PermissionMode string `json:"permission_mode,omitempty"`
}

// Step is the result of a line or a call.
type Step struct {
	// Events go into the record. The protocol sets Type, Scope, NativeID and the body, and
	// the dialogue the rest. A state is running or idle; the dialogue derives
	// requires_action from the open requests.
	Events []api.DialogueEvent
	// Write has whole lines for the program's stdin, with their line ends.
	Write [][]byte
	// Answers are the results of calls.
	Answers []Answer
	// Ready reports that the program has answered the first step and takes messages.
	Ready bool
	// Failed is the reason why the conversation cannot be opened.
	Failed string
	// Ignored names the kind of a line that has no events. A line always has one or the other.
	Ignored string
}

// Answer is the result of a call. Every call gets one, in its own step or in a later one.
type Answer struct {
	ID  string
	Err *api.Error // nil for success
}

// Installed are directories below the home in which programs for the user alone are installed.
func Installed() []string {
	return []string{"~/.local/bin", "~/.local/lib", "~/.local/share/claude", "~/.nvm", "~/.npm-global", "~/.volta", "~/.fnm", "~/.bun", "~/.cargo/bin", "~/.deno"}
}

// HostOf returns the host and port of a URL as an entry of isolation.allow; nothing if it has none.
func HostOf(text string) []string {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "http" || u.Scheme == "ws":
		port = "80"
	default:
		port = "443"
	}
	return []string{net.JoinHostPort(u.Hostname(), port)}
}
