// Package codex drives the app server of Codex, which speaks JSON-RPC on its stdin and stdout.
// It is written for version 0.166.0.
//
// Start reading at protocol (codex.go); Notification (lines.go) and Request (requests.go) take
// the messages of the app server.
package codex

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
	"github.com/trl-dev/trl/internal/recent"
)

// codex drives the app server of Codex, which speaks JSON-RPC over its stdin and stdout.
type Agent struct{}

// Command implements Agent.
func (Agent) Command(o agent.Options) ([]string, map[string]string, error) {
	if _, _, err := parseMode(o.PermissionMode); err != nil {
		return nil, nil, err
	}
	argv := o.Argv
	if len(argv) == 0 {
		argv = []string{"codex"}
	}
	return append(slices.Clone(argv), "app-server"), nil, nil
}

// New implements Agent.
func (Agent) New(o agent.Options) agent.Protocol {
	return &protocol{
		Conn: jsonrpc.New("", o.Epoch), options: o, warned: jsonrpc.NewSeen(), lines: jsonrpc.NewSeen(),
		turnIDs: recent.New[string](memorySize), taskIDs: recent.New[string](memorySize),
	}
}

// memorySize is how many of Codex's ids of turns and threads a protocol remembers.
const memorySize = 1 << 13

// parseMode reads a permission mode: when Codex asks (untrusted, on-request or never), what
// its commands may touch (read-only, workspace-write or danger-full-access), or both with a
// slash between, as in on-request/workspace-write. What is left out is Codex's own default.
func parseMode(mode string) (approval, sandbox string, err *api.Error) {
	if mode == "" {
		return "", "", nil
	}
	for _, word := range strings.Split(mode, "/") {
		switch word {
		case "untrusted", "on-request", "never":
			approval = word
		case "read-only", "workspace-write", "danger-full-access":
			sandbox = word
		default:
			return "", "", api.Errorf(api.CodeInvalidParams, "permission_mode %.80q: codex knows untrusted, on-request, never; read-only, workspace-write, danger-full-access; or one of each, as in on-request/workspace-write", mode)
		}
	}
	return approval, sandbox, nil
}

// protocol is the conversation with one app server. The dialogue is one thread of it;
// subagents are threads of their own, which are heard in the scope of the call that made them.
type protocol struct {
	jsonrpc.Conn
	options  agent.Options
	opened   api.DialogueOpened
	main     *thread   // nil until it is there
	threads  []*thread // main, and those of subagents
	messages []*sentMessage
	requests []*request // that wait
	context  int64      // tokens of the last call of the model, of its window
	window   int64      // how many that holds
	// override is told to Codex with the next turn.
	override agent.Setting
	// interrupts are calls that wait for the turn to begin that they are to stop.
	interrupts []string
	running    bool              // as told last
	told       bool              // that anything was told of the state
	usage      api.DialogueUsage // as told last
	forgotten  api.DialogueUsage // of threads that are no longer in threads
	warned     jsonrpc.Seen      // texts that are repeated with every turn, and told once
	lines      jsonrpc.Seen      // that begin or end a turn or an item
	// turnIDs and taskIDs are our ids of turns, and of the tasks that threads are.
	turnIDs, taskIDs *recent.Map[string]
}

// sentMessage is a message that was sent and is not done.
type sentMessage struct {
	agent.Message
	turn    string // that takes it up, once it is known
	started bool
	asked   bool // it was written to Codex
	refused bool // the turn that ran did not take it
}

type params map[string]any

// set puts into the parameters of a thread, or of a turn, how it is to work.
func (p params) set(s agent.Setting, turn bool) {
	if s.Model != "" {
		p["model"] = s.Model
	}
	approval, sandbox, _ := parseMode(s.PermissionMode)
	if approval != "" {
		p["approvalPolicy"] = approval
	}
	switch {
	case sandbox == "":
	case turn:
		p["sandboxPolicy"] = sandboxes[sandbox]
	default:
		p["sandbox"] = sandbox
	}
}

// Start implements Protocol.
func (c *protocol) Start() agent.Step {
	c.Ask("initialize", params{
		"clientInfo": params{"name": "trl", "title": "TRL", "version": "1"},
		// Without it Codex refuses to end commands that an interrupt leaves running.
		"capabilities": params{"experimentalApi": true, "requestAttestation": false},
	}, c.initialized)
	return c.TakeStep()
}

func (c *protocol) initialized(result json.RawMessage, err *jsonrpc.Error) {
	if err != nil {
		c.Step.Failed = "codex initialize: " + err.Text()
		return
	}
	var r struct{ UserAgent string }
	json.Unmarshal(result, &r)
	// It begins with our own name and the version of Codex: trl/0.166.0 (…).
	if agent, _, _ := strings.Cut(r.UserAgent, " "); strings.HasPrefix(agent, "trl/") {
		c.opened.Version = strings.TrimPrefix(agent, "trl/")
	}
	c.Notify("initialized", nil)
	p := params{}
	if c.options.WorkingDir != "" {
		p["cwd"] = c.options.WorkingDir
	}
	p.set(agent.Setting{Model: c.options.Model, PermissionMode: c.options.PermissionMode}, false)
	method := "thread/start"
	if c.options.Resume != "" {
		method = "thread/resume"
		p["threadId"] = c.options.Resume
		p["excludeTurns"] = true
	}
	c.Ask(method, p, func(result json.RawMessage, err *jsonrpc.Error) { c.threadThere(method, result, err) })
}

// threadSettings is how a thread works, as its start and changes to it tell.
type threadSettings struct {
	Model          string
	Cwd            string
	ApprovalPolicy json.RawMessage
	Sandbox        struct{ Type string }
	SandboxPolicy  struct{ Type string }
}

func (c *protocol) threadThere(method string, result json.RawMessage, err *jsonrpc.Error) {
	if err != nil {
		c.Step.Failed = "codex " + method + ": " + err.Text()
		return
	}
	var r struct {
		threadSettings
		Thread struct{ ID, CLIVersion string }
	}
	json.Unmarshal(result, &r) // A field of another shape than we know is as if it were absent.
	if r.Thread.ID == "" {
		c.Step.Failed = "codex " + method + ": the answer names no thread"
		return
	}
	c.main = &thread{id: r.Thread.ID}
	c.threads = append([]*thread{c.main}, c.threads...)
	if c.opened.Version == "" {
		c.opened.Version = r.Thread.CLIVersion
	}
	c.opened.Agent, c.opened.NativeSession = "codex", r.Thread.ID
	c.settings(r.threadSettings)
	c.Step.Ready = true
	for _, m := range c.messages {
		c.turnStart(m)
	}
	c.settle()
	if c.options.ModelList {
		c.Ask("model/list", params{}, c.modelsThere)
	}
}

// modelsThere takes the models that can be chosen. Codex has no other lists for people: its
// slash commands are those of its own terminal program.
func (c *protocol) modelsThere(result json.RawMessage, err *jsonrpc.Error) {
	if err != nil {
		return // an old one does not know the question
	}
	var r struct {
		Data []struct {
			Model  string
			Hidden bool
		}
	}
	json.Unmarshal(result, &r)
	for _, m := range r.Data {
		if m.Model != "" && !m.Hidden {
			c.opened.Models = append(c.opened.Models, m.Model)
		}
	}
	if now := c.opened; len(now.Models) > 0 {
		c.Publish(api.DialogueEvent{Type: api.DialogueEventOpened, NativeID: now.NativeSession, Opened: &now})
	}
}

// settings tells how the thread works when that has changed.
func (c *protocol) settings(s threadSettings) {
	before := c.opened
	if s.Model != "" {
		c.opened.Model = s.Model
	}
	if s.Cwd != "" {
		c.opened.WorkingDir = s.Cwd
	}
	var approval string
	if json.Unmarshal(s.ApprovalPolicy, &approval) != nil {
		approval = "granular"
	}
	sandbox := map[string]string{"readOnly": "read-only", "workspaceWrite": "workspace-write", "dangerFullAccess": "danger-full-access", "externalSandbox": "external-sandbox"}
	if mode := sandbox[s.Sandbox.Type+s.SandboxPolicy.Type]; approval != "" && mode != "" {
		c.opened.PermissionMode = approval + "/" + mode
	}
	if now := c.opened; now.Model != before.Model || now.WorkingDir != before.WorkingDir || now.PermissionMode != before.PermissionMode || !c.told {
		c.Publish(api.DialogueEvent{Type: api.DialogueEventOpened, NativeID: now.NativeSession, Opened: &now})
	}
}

// Line implements Protocol.
func (c *protocol) Line(line []byte) agent.Step {
	c.Receive(line, c)
	return c.TakeStep()
}

// Do implements Protocol.
func (c *protocol) Do(call agent.Call) agent.Step {
	switch {
	case call.Send != nil:
		c.send(*call.Send)
		c.Answer(call.ID, nil)
	case call.Interrupt != nil:
		c.interrupt(call.ID, call.Interrupt.All)
	case call.Respond != nil:
		c.Answer(call.ID, c.respond(*call.Respond))
	case call.Set != nil:
		c.Answer(call.ID, c.set(*call.Set))
	}
	c.settle()
	return c.TakeStep()
}

// send gives Codex a message. While a turn runs, Codex adds it to that turn, at its next step.
func (c *protocol) send(m agent.Message) {
	c.PublishSent(m)
	message := &sentMessage{Message: m}
	c.messages = append(c.messages, message)
	if c.main != nil {
		c.turnStart(message)
	}
}

func (c *protocol) turnStart(m *sentMessage) {
	input := []params{}
	for _, block := range m.Content {
		if block.Type == "image" {
			input = append(input, params{"type": "image", "url": "data:" + block.MediaType + ";base64," + block.DataBase64})
		} else {
			input = append(input, params{"type": "text", "text": block.Text, "text_elements": []any{}})
		}
	}
	p := params{"threadId": c.main.id, "clientUserMessageId": m.ID, "input": input}
	override := c.override
	c.override = agent.Setting{}
	p.set(override, true)
	m.asked = true
	c.Ask("turn/start", p, func(result json.RawMessage, err *jsonrpc.Error) {
		switch {
		case err != nil && c.main.turn != "" && !m.refused:
			// A turn that takes no messages, such as a review: it is for the next one.
			m.asked, m.refused = false, true
			c.PublishMessage(m.ID, "queued")
			return
		case err != nil:
			c.messages = slices.DeleteFunc(c.messages, func(o *sentMessage) bool { return o == m })
			c.PublishMessage(m.ID, "cancelled")
			c.Notice("error", "send_refused", "codex turn/start: "+err.Text())
			c.interruptLater()
			c.settle()
			return
		}
		var r struct{ Turn struct{ ID string } }
		json.Unmarshal(result, &r)
		if m.turn == "" {
			m.turn = r.Turn.ID
		}
		if !m.started && c.main.turn != "" && m.turn == c.main.turn { // it is taken up at the next step of a turn that runs
			c.PublishMessage(m.ID, "queued")
		}
		c.overridden(override)
	})
}

// overridden tells how the thread works after a turn took our changes: Codex does not.
func (c *protocol) overridden(s agent.Setting) {
	wasApproval, wasSandbox, _ := strings.Cut(c.opened.PermissionMode, "/")
	approval, sandbox, _ := parseMode(s.PermissionMode)
	before := c.opened
	c.opened.Model = cmp.Or(s.Model, before.Model)
	c.opened.PermissionMode = strings.Trim(cmp.Or(approval, wasApproval)+"/"+cmp.Or(sandbox, wasSandbox), "/")
	if now := c.opened; now.Model != before.Model || now.PermissionMode != before.PermissionMode {
		c.Publish(api.DialogueEvent{Type: api.DialogueEventOpened, NativeID: now.NativeSession, Opened: &now})
	}
}

// sandboxes are the sandboxes as a turn wants them; a thread is content with the word.
var sandboxes = map[string]params{
	"read-only":          {"type": "readOnly", "networkAccess": false},
	"workspace-write":    {"type": "workspaceWrite", "writableRoots": []string{}, "networkAccess": false, "excludeTmpdirEnvVar": false, "excludeSlashTmp": false},
	"danger-full-access": {"type": "dangerFullAccess"},
}

// set is for the next turn: Codex takes such changes only with the start of one.
func (c *protocol) set(s agent.Setting) *api.Error {
	if _, _, err := parseMode(s.PermissionMode); err != nil {
		return err
	}
	if s.Model != "" {
		c.override.Model = s.Model
	}
	if s.PermissionMode != "" {
		c.override.PermissionMode = s.PermissionMode
	}
	return nil
}

// interrupt stops the turn; all stops those of subagents too, and commands in the
// background. Codex wants to be told which turn, so the one that was asked for and has not
// begun is waited for.
func (c *protocol) interrupt(call string, all bool) {
	if all {
		for _, t := range c.threads {
			var commands []*openItem
			for _, o := range t.open {
				if o.background {
					commands = append(commands, o)
				}
			}
			c.endCommands(t, commands)
			if t != c.main && t.turn != "" {
				c.Ask("turn/interrupt", params{"threadId": t.id, "turnId": t.turn}, func(json.RawMessage, *jsonrpc.Error) {})
			}
		}
	}
	switch {
	case c.main != nil && c.main.turn != "":
		turn := c.main.turn
		c.Ask("turn/interrupt", params{"threadId": c.main.id, "turnId": turn}, func(_ json.RawMessage, err *jsonrpc.Error) {
			if err != nil && c.main.turn == turn {
				c.Answer(call, api.Errorf(api.CodeConflict, "codex turn %s: %s", turn, err.Text()))
				return
			}
			c.Answer(call, nil)
		})
	case len(c.messages) > 0:
		c.interrupts = append(c.interrupts, call)
	default:
		c.Answer(call, nil) // Nothing runs: that is what was asked for.
	}
}

// interruptLater takes up the interrupts that waited, when a turn has begun or none will.
func (c *protocol) interruptLater() {
	if c.main.turn == "" && len(c.messages) > 0 {
		return
	}
	waited := c.interrupts
	c.interrupts = nil
	for _, call := range waited {
		c.interrupt(call, false)
	}
}
