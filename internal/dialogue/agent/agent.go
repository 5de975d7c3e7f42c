// Package agent defines what a dialogue needs from a coding agent: the command that starts its
// program, and the protocol that the program speaks. Each agent is a package below this one,
// listed in the table of package dialogue (agents.go).
//
// A Protocol is a state machine without a clock, randomness or I/O: its output depends only
// on its input, in order. So the same lines and calls, replayed, produce the same events;
// that is how a dialogue is recovered after a restart.
package agent

import (
	"github.com/trl-dev/trl/api"
)

// Options is what a process of an agent is started with.
type Options struct {
	// Argv is the program and arguments of its own; nil for the default.
	Argv           []string
	Model          string
	PermissionMode string
	WorkingDir     string
	// Resume is the agent's own id of the conversation to go on with.
	Resume string
	// Epoch counts the processes of the dialogue, from 1. Ids that the agent would repeat
	// in its next process are made unique with it.
	Epoch int
	// Tasks are those of earlier processes whose end was never heard, oldest first. A process
	// that goes on with the conversation may report it.
	Tasks []api.DialogueTask `json:",omitempty"`
	// ModelList says that the agent may be asked which models there are. A process that an
	// older daemon started was not asked, and a protocol that is wound again has to write what
	// was written to it.
	ModelList bool `json:",omitempty"`
}

// Agent is one kind of agent.
type Agent interface {
	// Command is the program, its arguments, and what has to be in its environment.
	Command(o Options) (argv []string, env map[string]string, err error)
	// New makes the protocol for one process.
	New(o Options) Protocol
}

// Protocol is the conversation with one process. It is used by one goroutine at a time.
type Protocol interface {
	// Start is the first step: what opens the conversation.
	Start() Step
	// Line takes the next line of the program's stdout, without its end. It may be anything.
	Line(line []byte) Step
	// Do takes a call of whoever drives the dialogue.
	Do(c Call) Step
}

// Call is something the agent is to be told. Exactly one of the pointers is set.
type Call struct {
	// ID is what an Answer names. It is unique in the dialogue.
	ID        string     `json:"id"`
	Send      *Message   `json:"send,omitempty"`
	Interrupt *Interrupt `json:"interrupt,omitempty"`
	Respond   *Response  `json:"respond,omitempty"`
	Set       *Setting   `json:"set,omitempty"`
}

// Message is a message to the agent. It makes a user item and a message event at once.
type Message struct {
	ID      string                `json:"id"` // a UUID
	Content []api.DialogueContent `json:"content"`
}

// Interrupt stops the turn; with All also what is queued and runs in the background.
type Interrupt struct {
	All bool `json:"all,omitempty"`
}

// Response answers a request that is open. It makes the event request_closed at once.
type Response struct {
	api.DialogueRespondParams
	By string `json:"by"` // client or policy
}

// Setting changes how the agent works.
type Setting struct {
	Model          string `json:"model,omitempty"`
	PermissionMode string `json:"permission_mode,omitempty"`
}

// Step is what follows from a line or a call.
type Step struct {
	// Events are to be appended to the record. Type, Scope, NativeID and the body are set;
	// the rest is added by the dialogue. The state they tell is running or idle: that an
	// open request requires action is derived by the dialogue.
	Events []api.DialogueEvent
	// Write are whole lines, with their ends, for the program's stdin.
	Write [][]byte
	// Answers say what became of calls.
	Answers []Answer
	// Ready says that the program has answered the first step: messages can be sent.
	Ready bool
	// Failed says why the conversation cannot be opened.
	Failed string
	// Ignored names what a line was that made no event and answers nothing.
	Ignored string
}

// Answer is what became of a call. Every call has one, in its own step or a later one.
type Answer struct {
	ID  string
	Err *api.Error // nil when it was done
}
