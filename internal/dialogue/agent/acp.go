package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
)

var _ = register("acp", acp{})

// acp drives any program that speaks the Agent Client Protocol, version 1, over its stdin
// and stdout. It gives the agent no file system and no terminals: an agent has its own.
type acp struct{}

// Command implements Agent. The arguments that make a program speak ACP are its own.
func (acp) Command(o Options) ([]string, map[string]string, error) {
	if len(o.Argv) == 0 {
		return nil, nil, api.Errorf(api.CodeInvalidParams, "argv: is required for agent acp, such as [\"opencode\", \"acp\"]")
	}
	return slices.Clone(o.Argv), nil, nil
}

// New implements Agent.
func (acp) New(o Options) Protocol {
	return &acpProtocol{rpc: newRPC("2.0", o.Epoch), options: o}
}

// acpProtocol is the conversation with one program, which holds one session.
type acpProtocol struct {
	rpc
	options Options
	opened  api.DialogueOpened
	told    *Setting // how the session works, as it was told last
	session string   // empty until it is there
	agent   acpAgent
	config  acpConfig
	// loading says that the agent tells again what was before.
	loading  bool
	ready    bool
	prompts  []*acpPrompt      // the first one runs; the agent takes one at a time
	turns    int               // begun until now
	saying   *acpText          // what is being said
	plan     string            // the item of the last plan
	planOf   string            // its turn
	tools    []*acpTool        // in the order in which they began
	requests []*acpRequest     // that wait
	usage    api.DialogueUsage // of this process
	running  bool              // as told last
	// costBefore is what the session had cost when this process began; nil when that is
	// not known yet.
	costBefore *float64
}

// acpPrompt is a message that was sent and is not done.
type acpPrompt struct {
	Message
	turn        string // once it runs
	interrupted bool
	text        string // what was said last
	denials     []string
	used        api.DialogueUsage // as told until now
}

// acpAgent is what the program tells of itself.
type acpAgent struct {
	ProtocolVersion   json.Number
	AgentInfo         struct{ Name, Version string }
	AuthMethods       []struct{ ID, Name string }
	AgentCapabilities struct {
		LoadSession         bool
		PromptCapabilities  struct{ Image, Audio, EmbeddedContext bool }
		SessionCapabilities map[string]json.RawMessage
	}
}

// acpConfig is the configuration of the session. Agents report modes and models in one of
// two ways.
type acpConfig struct {
	SessionID string
	Modes     *struct{ CurrentModeID string }
	Models    *struct {
		CurrentModelID  string
		AvailableModels []struct{ ModelID string }
	}
	ConfigOptions []acpOption
}

type acpOption struct {
	ID, Category string
	CurrentValue json.RawMessage
}

type acpParams map[string]any

// Start implements Protocol.
func (a *acpProtocol) Start() Step {
	a.ask("initialize", acpParams{
		"protocolVersion":    1,
		"clientCapabilities": acpParams{"fs": acpParams{"readTextFile": false, "writeTextFile": false}, "terminal": false},
		"clientInfo":         acpParams{"name": "trl", "title": "TRL", "version": "1"},
	}, a.initialized)
	return a.take()
}

func (a *acpProtocol) initialized(result json.RawMessage, err *rpcError) {
	if err != nil {
		a.step.Failed = "acp initialize: " + err.text()
		return
	}
	json.Unmarshal(result, &a.agent) // A field of another shape than we know is as if it were absent.
	if v := a.agent.ProtocolVersion; v != "1" {
		a.step.Failed = fmt.Sprintf("acp initialize: the agent speaks version %q of the protocol, and TRL version 1", v.String())
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
	a.open(can.LoadSession, rpcNotNull(can.SessionCapabilities["resume"]) != nil)
}

// open starts a session, or finds one again. To load one makes the agent tell all that was;
// to resume it does not, which is what a dialogue wants that has heard it.
func (a *acpProtocol) open(canLoad, canResume bool) {
	method := "session/new"
	if a.options.Resume != "" {
		switch {
		case canResume && (a.options.Epoch > 1 || !canLoad):
			method = "session/resume"
		case canLoad:
			method = "session/load"
		default:
			a.step.Failed = "acp: the agent cannot go on with an earlier session: it declares neither loadSession nor session resume"
			return
		}
	}
	a.openBy(method, canLoad)
}

// openBy starts or finds a session in one way. An agent may declare that it can resume a
// session, and then not be able to (of another version, or in another process): if it can
// load one, it is to do that.
func (a *acpProtocol) openBy(method string, canLoad bool) {
	p := acpParams{"cwd": cmp.Or(a.options.WorkingDir, "/"), "mcpServers": []any{}}
	if a.options.Resume != "" {
		p["sessionId"] = a.options.Resume
	}
	a.loading = method == "session/load"
	a.ask(method, p, func(result json.RawMessage, err *rpcError) {
		a.finishText("final")
		a.closeTools()
		a.loading = false
		if err != nil && method == "session/resume" && canLoad && err.Code != acpSignIn {
			a.openBy("session/load", canLoad)
			return
		}
		if err != nil {
			a.step.Failed = "acp " + method + ": " + a.why(err)
			return
		}
		json.Unmarshal(result, &a.config)
		a.session = cmp.Or(a.config.SessionID, a.options.Resume)
		if a.session == "" {
			a.step.Failed = "acp " + method + ": the answer names no session"
			return
		}
		a.setUp()
	})
}

// acpSignIn is the code of an agent that wants to be signed in.
const acpSignIn = -32000

// why is what went wrong, for people. An agent that wants to be signed in says how.
func (a *acpProtocol) why(err *rpcError) string {
	if err.Code != acpSignIn {
		return err.text()
	}
	var ways []string
	for _, m := range a.agent.AuthMethods {
		ways = append(ways, cmp.Or(m.Name, m.ID))
	}
	text := "the agent wants to be signed in, which TRL does not do; sign in with its own program first"
	if len(ways) > 0 {
		text += " (it offers: " + strings.Join(ways, ", ") + ")"
	}
	return text + ": " + err.text()
}

// setUp asks for the mode and the model of the options; then the agent is ready.
func (a *acpProtocol) setUp() {
	want := Setting{Model: a.options.Model, PermissionMode: a.options.PermissionMode}
	a.change(want, func(err *api.Error) {
		if err != nil {
			a.step.Failed = err.Message
			return
		}
		a.opened.NativeSession = a.session
		a.ready, a.step.Ready = true, true
		a.configured()
		a.tell(api.DialogueEvent{Type: api.DialogueEventState, State: api.DialogueIdle})
		a.next()
	})
}

// change asks the agent to work in another way: the mode, then the model.
func (a *acpProtocol) change(s Setting, then func(*api.Error)) {
	kind, value := "mode", s.PermissionMode
	if value == "" {
		kind, value = "model", s.Model
	}
	if value == "" {
		then(nil)
		return
	}
	p, method := acpParams{"sessionId": a.session}, "session/set_"+kind
	option := slices.IndexFunc(a.config.ConfigOptions, func(o acpOption) bool { return o.Category == kind })
	switch {
	case option >= 0 && (kind == "model" || a.config.Modes == nil):
		method = "session/set_config_option"
		p["configId"], p["value"] = a.config.ConfigOptions[option].ID, value
	default:
		p[kind+"Id"] = value
	}
	a.ask(method, p, func(result json.RawMessage, err *rpcError) {
		if err != nil {
			then(api.Errorf(api.CodeInvalidParams, "acp %s %.80q: %s", method, value, err.text()))
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
		var r struct{ ConfigOptions []acpOption }
		if json.Unmarshal(result, &r); len(r.ConfigOptions) > 0 {
			a.config.ConfigOptions = r.ConfigOptions
		}
		a.change(s, then)
	})
}

// configured tells how the session works, when that is not what was told last.
func (a *acpProtocol) configured() {
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
	mode := Setting{Model: a.opened.Model, PermissionMode: a.opened.PermissionMode}
	if now := a.opened; a.ready && (a.told == nil || *a.told != mode) {
		a.told = &mode
		a.tell(api.DialogueEvent{Type: api.DialogueEventOpened, NativeID: a.session, Opened: &now})
	}
}

// Line implements Protocol.
func (a *acpProtocol) Line(line []byte) Step {
	a.line(line, a)
	return a.take()
}

// Do implements Protocol.
func (a *acpProtocol) Do(call Call) Step {
	switch {
	case call.Send != nil:
		a.send(*call.Send)
		a.answered(call.ID, nil)
	case call.Interrupt != nil:
		a.interrupt(call.Interrupt.All)
		a.answered(call.ID, nil)
	case call.Respond != nil:
		a.answered(call.ID, a.respond(*call.Respond))
	case call.Set != nil:
		a.change(*call.Set, func(err *api.Error) {
			a.configured() // One of two may have been done.
			a.answered(call.ID, err)
		})
	}
	return a.take()
}
