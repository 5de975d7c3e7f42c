// Package acp drives any program that speaks the Agent Client Protocol, version 1, on its stdin
// and stdout.
//
// Start reading at protocol (acp.go); Notification (updates.go) and Request (tools.go) handle
// the messages of the agent.
package acp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/jsonrpc"
)

// Agent is any program that speaks ACP. TRL offers it no file system and no terminals, because an
// agent has its own.
type Agent struct{}

// Command implements agent.Agent. The caller gives the arguments that make the program speak ACP.
func (Agent) Command(o agent.Options) ([]string, map[string]string, error) {
	if len(o.Argv) == 0 {
		return nil, nil, api.InvalidParam("argv", "is required for agent acp, such as [\"opencode\", \"acp\"]")
	}
	return slices.Clone(o.Argv), nil, nil
}

// needs are those of the known programs, by a part of their command.
var needs = []struct {
	program string
	config  string // the variable that names another directory for its configuration
	api.Isolation
}{
	{"gemini", "", api.Isolation{Writable: []string{"~/.gemini"}, Allow: []string{"generativelanguage.googleapis.com:443", "cloudcode-pa.googleapis.com:443", "oauth2.googleapis.com:443"}}},
	{"opencode", "", api.Isolation{Writable: []string{"~/.config/opencode", "~/.local/share/opencode", "~/.local/state/opencode", "~/.cache/opencode", "~/.opencode"}, Allow: []string{"opencode.ai:443", "models.dev:443"}}},
	{"goose", "", api.Isolation{Writable: []string{"~/.config/goose", "~/.local/share/goose", "~/.local/state/goose"}}},
	{"claude", "CLAUDE_CONFIG_DIR", api.Isolation{Writable: []string{"~/.claude", "~/.claude.json"}, Allow: []string{"api.anthropic.com:443"}}},
	{"codex", "CODEX_HOME", api.Isolation{Writable: []string{"~/.codex"}, Allow: []string{"api.openai.com:443", "chatgpt.com:443", "auth.openai.com:443"}}},
}

// Needs implements agent.Agent. It knows a few programs by their names. The services of a program that
// can use several are those whose URLs are in its environment.
func (Agent) Needs(o agent.Options, getenv func(string) string) api.Isolation {
	i := api.Isolation{Readable: agent.Installed()}
	command := strings.Join(o.Argv, " ")
	for _, n := range needs {
		if strings.Contains(command, n.program) {
			i = i.Over(n.Isolation)
			if dir := getenv(n.config); path.IsAbs(dir) {
				i.Writable = append(i.Writable, dir)
			}
		}
	}
	for _, name := range []string{"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"} {
		i.Allow = append(i.Allow, agent.HostOf(getenv(name))...)
	}
	return i
}

// New implements agent.Agent.
func (Agent) New(o agent.Options) agent.Protocol {
	return &protocol{Conn: jsonrpc.New("2.0", o.Epoch), options: o}
}

// protocol is the conversation with one program, in one session.
type protocol struct {
	jsonrpc.Conn
	options agent.Options
	opened  api.DialogueOpened
	told    *agent.Setting // the settings of the session, as published last
	session string         // empty until the agent has opened it
	agent   agentInfo
	config  sessionConfig
	// loading says that the agent repeats the session before this process.
	loading  bool
	ready    bool
	prompts  []*prompt         // the first one runs; the agent takes one at a time
	turns    int               // how many turns have begun
	saying   *growingText      // the text that the agent is writing; nil for none
	plan     string            // the item of the last plan
	planOf   string            // its turn
	tools    []*tool           // oldest first
	requests []*request        // open requests
	usage    api.DialogueUsage // of this process
	running  bool              // the state, as published last
	// costBefore is the cost of the session before this process; nil until it is known.
	costBefore *float64
}

// prompt is a message that was sent and is not done.
type prompt struct {
	agent.Message
	turn        string // our id of its turn; empty while it waits
	interrupted bool
	text        string // the last text of the agent in the turn
	denials     []string
	used        api.DialogueUsage // reported so far
}

// agentInfo is the answer to initialize.
type agentInfo struct {
	ProtocolVersion   json.Number
	AgentInfo         struct{ Name, Version string }
	AuthMethods       []struct{ ID, Name string }
	AgentCapabilities struct {
		LoadSession         bool
		PromptCapabilities  struct{ Image, Audio, EmbeddedContext bool }
		SessionCapabilities map[string]json.RawMessage
	}
}

// sessionConfig is the configuration of the session. Agents report modes and models in one of
// two ways.
type sessionConfig struct {
	SessionID string
	Modes     *sessionModes
	Models    *struct {
		CurrentModelID  string
		AvailableModels []struct{ ModelID string }
	}
	ConfigOptions []configOption
}

type sessionModes struct {
	CurrentModeID  string
	AvailableModes []struct{ ID string }
}

type configOption struct {
	ID, Category string
	CurrentValue json.RawMessage
}

type params map[string]any

// Start implements agent.Protocol.
func (a *protocol) Start() agent.Step {
	a.Ask("initialize", params{
		"protocolVersion":    1,
		"clientCapabilities": params{"fs": params{"readTextFile": false, "writeTextFile": false}, "terminal": false},
		"clientInfo":         params{"name": "trl", "title": "TRL", "version": "1"},
	}, a.initialized)
	return a.TakeStep()
}

func (a *protocol) initialized(result json.RawMessage, err *jsonrpc.Error) {
	if err != nil {
		a.Step.Failed = "acp initialize: " + err.Text()
		return
	}
	json.Unmarshal(result, &a.agent) // a field of an unexpected shape counts as absent
	if v := a.agent.ProtocolVersion; v != "1" {
		a.Step.Failed = fmt.Sprintf("acp initialize: the agent speaks version %q of the protocol, and TRL version 1", v.String())
		return
	}
	can := a.agent.AgentCapabilities
	a.opened.Agent, a.opened.Version, a.opened.WorkingDir = "acp", a.agent.AgentInfo.Version, a.options.WorkingDir
	for _, c := range []struct {
		name string
		has  bool
	}{{"load_session", can.LoadSession}, {"image", can.PromptCapabilities.Image}, {"audio", can.PromptCapabilities.Audio}, {"embedded_context", can.PromptCapabilities.EmbeddedContext}} {
		if c.has {
			a.opened.Capabilities = append(a.opened.Capabilities, c.name)
		}
	}
	a.open(can.LoadSession, jsonrpc.NotNull(can.SessionCapabilities["resume"]) != nil)
}

// open starts a session, or continues an earlier one. An agent that loads a session repeats all
// of it; one that resumes it does not, which suits a dialogue that has it in its record.
func (a *protocol) open(canLoad, canResume bool) {
	method := "session/new"
	if a.options.Resume != "" {
		switch {
		case canResume && (a.options.Epoch > 1 || !canLoad):
			method = "session/resume"
		case canLoad:
			method = "session/load"
		default:
			a.Step.Failed = "acp: the agent cannot resume an earlier session: it declares neither loadSession nor session resume"
			return
		}
	}
	a.openBy(method, canLoad)
}

// openBy opens a session with one method. An agent may declare that it can resume sessions and
// then fail, because another version or process made the session; openBy then loads it if the
// agent can.
func (a *protocol) openBy(method string, canLoad bool) {
	p := params{"cwd": cmp.Or(a.options.WorkingDir, "/"), "mcpServers": []any{}}
	if a.options.Resume != "" {
		p["sessionId"] = a.options.Resume
	}
	a.loading = method == "session/load"
	a.Ask(method, p, func(result json.RawMessage, err *jsonrpc.Error) {
		a.finishText("final")
		a.closeTools()
		a.loading = false
		if err != nil && method == "session/resume" && canLoad && err.Code != codeSignIn {
			a.openBy("session/load", canLoad)
			return
		}
		if err != nil {
			a.Step.Failed = "acp " + method + ": " + a.why(err)
			return
		}
		json.Unmarshal(result, &a.config)
		a.session = cmp.Or(a.config.SessionID, a.options.Resume)
		if a.session == "" {
			a.Step.Failed = "acp " + method + ": the answer names no session"
			return
		}
		a.setUp()
	})
}

// codeSignIn is the error code of an agent that needs the user to sign in.
const codeSignIn = -32000

// why is an error for people. If the user has to sign in, it lists the ways that the agent offers.
func (a *protocol) why(err *jsonrpc.Error) string {
	if err.Code != codeSignIn {
		return err.Text()
	}
	var ways []string
	for _, m := range a.agent.AuthMethods {
		ways = append(ways, cmp.Or(m.Name, m.ID))
	}
	text := "the agent wants to be signed in, which TRL does not do; sign in with its own program first"
	if len(ways) > 0 {
		text += " (it offers: " + strings.Join(ways, ", ") + ")"
	}
	return text + ": " + err.Text()
}

// setUp sets the mode and the model of the options. Then the agent is ready.
func (a *protocol) setUp() {
	want := agent.Setting{Model: a.options.Model, PermissionMode: a.options.PermissionMode}
	a.change(want, func(err *api.Error) {
		if err != nil {
			a.Step.Failed = err.Message
			return
		}
		a.opened.NativeSession = a.session
		a.ready, a.Step.Ready = true, true
		a.configured()
		a.Publish(api.DialogueEvent{Type: api.DialogueEventState, State: api.DialogueIdle})
		a.next()
	})
}

// change changes the settings of the session: first the mode, then the model.
func (a *protocol) change(s agent.Setting, then func(*api.Error)) {
	kind, value := "mode", s.PermissionMode
	if value == "" {
		kind, value = "model", s.Model
	}
	if value == "" {
		then(nil)
		return
	}
	p, method := params{"sessionId": a.session}, "session/set_"+kind
	option := slices.IndexFunc(a.config.ConfigOptions, func(o configOption) bool { return o.Category == kind })
	switch {
	case option >= 0 && (kind == "model" || a.config.Modes == nil):
		method = "session/set_config_option"
		p["configId"], p["value"] = a.config.ConfigOptions[option].ID, value
	default:
		p[kind+"Id"] = value
	}
	a.Ask(method, p, func(result json.RawMessage, err *jsonrpc.Error) {
		if err != nil {
			then(api.Errorf(api.CodeInvalidParams, "acp %s %.80q: %s", method, value, err.Text()))
			return
		}
		switch {
		case kind == "mode":
			a.opened.PermissionMode, s.PermissionMode = value, ""
			if a.config.Modes != nil {
				a.config.Modes.CurrentModeID = value
			}
		default:
			a.opened.Model, s.Model = value, ""
			if a.config.Models != nil {
				a.config.Models.CurrentModelID = value
			}
		}
		var r struct{ ConfigOptions []configOption }
		if json.Unmarshal(result, &r); len(r.ConfigOptions) > 0 {
			a.config.ConfigOptions = r.ConfigOptions
		}
		a.change(s, then)
	})
}

// configured publishes changed settings of the session.
func (a *protocol) configured() {
	for _, o := range a.config.ConfigOptions {
		var value string
		json.Unmarshal(o.CurrentValue, &value)
		switch o.Category {
		case "mode":
			a.opened.PermissionMode = cmp.Or(value, a.opened.PermissionMode)
		case "model":
			a.opened.Model = cmp.Or(value, a.opened.Model)
		}
	}
	if m := a.config.Modes; m != nil {
		a.opened.PermissionMode = cmp.Or(m.CurrentModeID, a.opened.PermissionMode)
		if len(m.AvailableModes) > 0 {
			a.opened.Modes = nil
		}
		for _, each := range m.AvailableModes {
			a.opened.Modes = append(a.opened.Modes, each.ID)
		}
	}
	if m := a.config.Models; m != nil {
		a.opened.Model = cmp.Or(m.CurrentModelID, a.opened.Model)
		if len(m.AvailableModels) > 0 {
			a.opened.Models = nil
		}
		for _, each := range m.AvailableModels {
			a.opened.Models = append(a.opened.Models, each.ModelID)
		}
	}
	mode := agent.Setting{Model: a.opened.Model, PermissionMode: a.opened.PermissionMode}
	if now := a.opened; a.ready && (a.told == nil || *a.told != mode) {
		a.told = &mode
		a.Publish(api.DialogueEvent{Type: api.DialogueEventOpened, NativeID: a.session, Opened: &now})
	}
}

// Line implements agent.Protocol.
func (a *protocol) Line(line []byte) agent.Step {
	a.Receive(line, a)
	return a.TakeStep()
}

// Do implements agent.Protocol.
func (a *protocol) Do(call agent.Call) agent.Step {
	switch {
	case call.Send != nil:
		a.send(*call.Send)
		a.Answer(call.ID, nil)
	case call.Interrupt != nil:
		a.interrupt(call.Interrupt.All)
		a.Answer(call.ID, nil)
	case call.Respond != nil:
		a.Answer(call.ID, a.respond(*call.Respond))
	case call.Set != nil:
		a.change(*call.Set, func(err *api.Error) {
			a.configured() // one of two changes may have succeeded
			a.Answer(call.ID, err)
		})
	case call.Unsend != nil:
		a.Answer(call.ID, a.unsend(call.Unsend.MessageID))
	}
	return a.TakeStep()
}

// Describe implements agent.Agent. An agent can only change what it has listed.
func (Agent) Describe(o *api.DialogueOpened) {
	can := []string{agent.CanRemember, agent.CanUnsend}
	if slices.Contains(o.Capabilities, "image") {
		can = append(can, agent.CanImages)
	}
	if len(o.Models) > 0 {
		can = append(can, agent.CanSetModel)
	}
	if len(o.Modes) > 0 {
		can = append(can, agent.CanSetMode)
	}
	o.Capabilities = can
}
