// Package codex drives the app server of Codex, which speaks JSON-RPC on its stdin and stdout.
// It is written for version 0.166.0.
//
// Start reading at protocol (codex.go); Notification (lines.go) and Request (requests.go) handle
// the messages of the app server.
package codex

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
	"github.com/trl-dev/trl/internal/recent"
)

// Agent is Codex.
type Agent struct{}

// Command implements agent.Agent.
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

// Needs implements agent.Agent. A provider in config.toml has a host of its own, which TRL does not
// know.
func (Agent) Needs(_ agent.Options, getenv func(string) string) api.Isolation {
	i := api.Isolation{
		Writable: []string{"~/.codex"},
		Readable: agent.Installed(),
		Allow:    []string{"api.openai.com:443", "auth.openai.com:443", "chatgpt.com:443"},
	}
	if dir := getenv("CODEX_HOME"); path.IsAbs(dir) {
		i.Writable = append(i.Writable, dir)
	}
	i.Allow = append(i.Allow, agent.HostOf(getenv("OPENAI_BASE_URL"))...)
	return i
}

// New implements agent.Agent.
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
// slash between, as in on-request/workspace-write. An empty result means Codex's own default.
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

// protocol is the conversation with one app server. The dialogue is one of its threads. Each
// subagent has a thread of its own, whose items are in the scope of the call that started it.
type protocol struct {
	jsonrpc.Conn
	options  agent.Options
	opened   api.DialogueOpened
	main     *thread   // nil until Codex has opened it
	threads  []*thread // main, and the threads of subagents
	messages []*sentMessage
	requests []*request // open requests
	context  int64      // tokens in the context after the model's last answer
	window   int64      // size of the context in tokens
	// override is sent to Codex with the next turn.
	override agent.Setting
	// interrupts are the ids of calls that interrupt a turn which has not begun yet.
	interrupts []string
	running    bool              // the state, as published last
	told       bool              // the state was published
	usage      api.DialogueUsage // as published last
	forgotten  api.DialogueUsage // usage of threads that were dropped from threads
	warned     jsonrpc.Seen      // warnings, which Codex repeats with every turn
	lines      jsonrpc.Seen      // requests, and lines that begin or end a turn or an item
	// turnIDs and taskIDs are our ids of turns and of subagents, by Codex's ids of turns and
	// threads.
	turnIDs, taskIDs *recent.Map[string]
}

// sentMessage is a message that was sent and is not done.
type sentMessage struct {
	agent.Message
	turn    string // Codex's id of the turn that answers it; empty until known
	started bool
	asked   bool // turn/start was sent
	refused bool // the running turn takes no messages
}

type params map[string]any

// set adds settings to the parameters of a thread or of a turn.
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

// Start implements agent.Protocol.
func (c *protocol) Start() agent.Step {
	c.Ask("initialize", params{
		"clientInfo": params{"name": "trl", "title": "TRL", "version": "1"},
		// endCommands uses methods of the experimental API.
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
	// The user agent begins with TRL's name and Codex's version: trl/0.166.0 (…).
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

// threadSettings are the settings of a thread, as Codex reports them at its start and later.
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
	json.Unmarshal(result, &r) // a field of an unexpected shape counts as absent
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

// modelsThere publishes the models that a user can choose. There is no list of slash commands,
// because those belong to Codex's own terminal program.
func (c *protocol) modelsThere(result json.RawMessage, err *jsonrpc.Error) {
	if err != nil {
		return // an old version does not know the question
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

// settings publishes changed settings of the main thread.
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

// Line implements agent.Protocol.
func (c *protocol) Line(line []byte) agent.Step {
	c.Receive(line, c)
	return c.TakeStep()
}

// Do implements agent.Protocol.
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
	case call.Unsend != nil:
		c.Answer(call.ID, c.unsend(call.Unsend.MessageID))
	}
	c.settle()
	return c.TakeStep()
}

// send sends a message. Codex adds a message that arrives during a turn to that turn, at its
// next step.
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
			// The turn takes no messages, such as a review. turnCompleted sends it again.
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
		if !m.started && c.main.turn != "" && m.turn == c.main.turn { // the running turn takes it at its next step
			c.PublishMessage(m.ID, "queued")
		}
		c.overridden(override)
	})
}

// overridden publishes the settings that a turn has changed, because Codex does not report them.
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

// sandboxes are the sandboxes as the parameters of a turn. A thread takes just the word.
var sandboxes = map[string]params{
	"read-only":          {"type": "readOnly", "networkAccess": false},
	"workspace-write":    {"type": "workspaceWrite", "writableRoots": []string{}, "networkAccess": false, "excludeTmpdirEnvVar": false, "excludeSlashTmp": false},
	"danger-full-access": {"type": "dangerFullAccess"},
}

// set keeps settings for the next turn, because Codex takes them only when a turn starts.
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

// interrupt stops the turn; all also stops the turns of subagents and background commands.
// Codex needs the id of the turn, so the interrupt of a turn that has not begun waits for its
// start.
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
				c.interruptAgent(t)
			}
			t.unwanted = t.starts
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
		c.Answer(call, nil) // nothing runs
	}
}

// interruptAgent stops the turn of a subagent.
func (c *protocol) interruptAgent(t *thread) {
	c.Ask("turn/interrupt", params{"threadId": t.id, "turnId": t.turn}, func(json.RawMessage, *jsonrpc.Error) {})
}

// unsend drops a message that Codex does not have yet. Codex gives none back.
func (c *protocol) unsend(id string) *api.Error {
	i := slices.IndexFunc(c.messages, func(m *sentMessage) bool { return m.ID == id })
	if i < 0 {
		return agent.NotUnsent(id, "it is no longer queued: the agent has processed it, or it was cancelled or lost")
	}
	if c.messages[i].asked {
		return agent.NotUnsent(id, "Codex has already received it")
	}
	c.messages = slices.Delete(c.messages, i, i+1)
	c.PublishMessage(id, "cancelled")
	return nil
}

// interruptLater makes the waiting interrupts, once a turn has begun or none will.
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

// Describe implements agent.Agent. A mode may also be one of each, as in on-request/workspace-write.
func (Agent) Describe(o *api.DialogueOpened) {
	o.Capabilities = []string{agent.CanRemember, agent.CanImages, agent.CanSetModel, agent.CanSetMode}
	o.Modes = []string{"untrusted", "on-request", "never", "read-only", "workspace-write", "danger-full-access"}
}
