// Package claude drives Claude Code in its stream-json mode: one JSON object per line, in both
// directions, on pipes. It is written for versions 2.1.197 and 2.1.325.
//
// Start reading at protocol (claude.go); Line (lines.go) takes each line of the program to the
// file of its subject.
package claude

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/recent"
)

// Agent is Claude Code.
type Agent struct{}

// Command uses only flags that old versions know, because a version exits at an unknown flag.
// Start asks for newer features, which old versions ignore there.
func (Agent) Command(o agent.Options) (argv []string, env map[string]string, err error) {
	argv = slices.Clone(o.Argv)
	if len(argv) == 0 {
		argv = []string{"claude"}
	}
	argv = append(argv, "-p",
		"--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
		"--permission-prompt-tool", "stdio",
		"--include-partial-messages", "--replay-user-messages")
	if o.Model != "" {
		argv = append(argv, "--model", o.Model)
	}
	if o.PermissionMode != "" {
		argv = append(argv, "--permission-mode", o.PermissionMode)
	}
	if o.Resume != "" {
		argv = append(argv, "--resume", o.Resume)
	}
	// The variable makes the program report when it works and when it is idle. For a version
	// that does not know it, publishState derives the state.
	return argv, map[string]string{"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}, nil
}

// Needs implements agent.Agent.
func (Agent) Needs(_ agent.Options, getenv func(string) string) api.Isolation {
	i := api.Isolation{
		Writable: []string{"~/.claude", "~/.claude.json", "~/.cache/claude-cli-nodejs", "~/.local/state/claude"},
		Readable: agent.Installed(),
		Allow:    []string{"api.anthropic.com:443", "platform.claude.com:443", "console.anthropic.com:443", "claude.ai:443"},
	}
	if dir := getenv("CLAUDE_CONFIG_DIR"); path.IsAbs(dir) {
		i.Writable = append(i.Writable, dir)
	}
	i.Allow = append(i.Allow, agent.HostOf(getenv("ANTHROPIC_BASE_URL"))...)
	return i
}

// New implements agent.Agent.
func (Agent) New(o agent.Options) agent.Protocol {
	return &protocol{
		options:  o,
		ids:      agent.NewIDs(o.Epoch),
		waits:    map[string]func(controlAnswer){},
		requests: map[string]*openRequest{},
		messages: map[string]*sentMessage{},
		partials: map[string]*partials{},
		tools:    map[string]*tool{},
		tasks:    map[string]api.DialogueTask{},

		seen:          recent.New[bool](memorySize),
		asked:         recent.New[string](memorySize),
		finished:      recent.New[bool](memorySize),
		blocks:        recent.New[int](memorySize),
		callTurn:      recent.New[string](memorySize),
		made:          recent.New[[]string](memorySize),
		finishedTasks: recent.New[api.DialogueTask](memorySize),
		taskOf:        recent.New[string](memorySize),
		taskIDs:       recent.New[string](memorySize),
		calls: callIndex{
			last:    recent.New[string](memorySize),
			inside:  recent.New[string](memorySize),
			agents:  recent.New[string](memorySize),
			awaited: recent.New[string](memorySize),
			native:  recent.New[string](memorySize),
			inputs:  recent.New[json.RawMessage](memorySize),
		},
	}
}

// protocol is the conversation with one process of Claude Code. Maps hold the open turns,
// messages, tool calls, tasks and requests; a recent.Map holds closed ones, to which the program
// may still refer.
type protocol struct {
	options agent.Options
	ids     agent.IDs
	step    agent.Step        // the step of the current line or call
	line    wireLine          // the current line; empty in a call
	room    fields            // memory for the fields of the next line
	seen    *recent.Map[bool] // lines that were handled, by type and uuid
	ready   bool
	context int64 // tokens in the context after the model's last answer
	window  int64 // size of the context in tokens

	controls int                            // number of TRL's last control request
	waits    map[string]func(controlAnswer) // handlers of the answers to TRL's control requests, by id
	asked    *recent.Map[string]            // hashes of the program's control requests, by the program's id
	requests map[string]*openRequest        // requests that wait for an answer, by our id
	waiting  []string                       // the ids of requests, oldest first

	about   api.DialogueOpened // facts about the program, as published last
	session string             // the id of the conversation in the last line

	state      api.DialogueState       // as published last
	ownState   string                  // the state that the program reported last; empty if it never did
	turn       *turn                   // the open turn; nil between turns
	turns      int                     // how many turns have begun
	messages   map[string]*sentMessage // messages that are not done
	unfinished []string                // the ids of messages, oldest first
	finished   *recent.Map[bool]       // the ids of messages that are done
	lifecycle  bool                    // the program reports the progress of messages
	hushed     bool                    // everything was interrupted, and no message was sent since
	used       api.DialogueUsage       // by this process
	totals     api.DialogueUsage       // the last totals, of a version that reports no differences
	usedBefore api.DialogueUsage       // added to totals; negative if the process began with totals above 0
	renamed    bool                    // the conversation got another id since the last totals

	blocks        *recent.Map[int]     // number of finished blocks, by the model's message
	partials      map[string]*partials // blocks that the model is writing, by scope
	tools         map[string]*tool     // tool calls that may still change, by our id
	toolOrder     []string             // the ids of tools, oldest first
	calls         callIndex
	callTurn      *recent.Map[string]           // the turn of a tool call and of its subagent's items
	made          *recent.Map[[]string]         // the items of a line, by its uuid
	tasks         map[string]api.DialogueTask   // by the program's id, except finishedTasks
	taskOrder     []string                      // the ids of tasks, oldest first
	finishedTasks *recent.Map[api.DialogueTask] // tasks that ended before this turn, kept for late references
	taskOf        *recent.Map[string]           // the task of a tool call
	taskIDs       *recent.Map[string]           // our ids of tasks, by the program's
	agents        int                           // number of subagents that work
	reporting     bool                          // a background task has ended, and the turn that reports it has not begun
}

// Start asks for newer features and for the version. The program prints nothing before this
// first input; its answer shows that it takes messages.
func (p *protocol) Start() agent.Step {
	p.begin(wireLine{})
	p.control(map[string]any{
		"subtype": "initialize",
		// Forward the texts of subagents, not only their tool calls.
		"forwardSubagentText": true,
		// An interrupt spares background subagents, because TRL can stop each by its id.
		"perTaskStopAffordance": true,
	}, p.initialized)
	p.control(map[string]any{"subtype": "get_binary_version"}, p.versioned)
	return p.end()
}

func (p *protocol) initialized(a controlAnswer) {
	if a.failed != "" {
		p.step.Failed = "initialize: " + a.failed
		return
	}
	var r struct {
		Version string `json:"claude_code_version"`
		Mode    string `json:"current_permission_mode"`
		Models  []struct{ Value string }
	}
	lenient(a.response, &r)
	p.ready, p.step.Ready = true, true
	var models []string
	for _, m := range r.Models {
		if m.Value != "" {
			models = append(models, m.Value)
		}
	}
	p.publishAbout(api.DialogueOpened{Version: r.Version, PermissionMode: r.Mode, Models: models})
	if p.options.Resume != "" && isOlder(r.Version, usageSinceVersion) { // also if the version is unknown: the oldest do not report it
		p.askTotals()
	}
}

// versioned handles the version of the program. An old version does not know the question.
func (p *protocol) versioned(a controlAnswer) {
	var r struct {
		Version string `json:"version"`
	}
	lenient(a.response, &r)
	p.publishAbout(api.DialogueOpened{Version: r.Version})
}

// Do implements agent.Protocol.
func (p *protocol) Do(c agent.Call) agent.Step {
	p.begin(wireLine{})
	switch {
	case c.Send != nil:
		p.send(c.ID, c.Send)
	case c.Interrupt != nil:
		p.interrupt(c.ID, c.Interrupt.All)
	case c.Respond != nil:
		p.answer(c.ID, p.respond(c.Respond))
	case c.Set != nil:
		p.set(c.ID, *c.Set)
	case c.Unsend != nil:
		p.unsend(c.ID, c.Unsend.MessageID)
	default:
		p.answer(c.ID, api.Errorf(api.CodeInvalidParams, "call %s: has no content", c.ID))
	}
	return p.end()
}

func (p *protocol) send(call string, m *agent.Message) {
	if p.ours(m.ID) {
		p.answer(call, api.Errorf(api.CodeConflict, "message %s: was already sent", m.ID))
		return
	}
	content := make([]any, len(m.Content))
	parts := make([]api.DialoguePart, len(m.Content))
	for i, c := range m.Content {
		if c.Type == "image" {
			content[i] = map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": c.MediaType, "data": c.DataBase64}}
			parts[i] = api.DialoguePart{Type: "image", MediaType: c.MediaType, DataBase64: c.DataBase64}
		} else {
			content[i] = map[string]any{"type": "text", "text": c.Text}
			parts[i] = api.DialoguePart{Type: "text", Text: c.Text}
		}
	}
	p.write(map[string]any{
		"type": "user", "uuid": m.ID, "session_id": "", "parent_tool_use_id": nil,
		"message": map[string]any{"role": "user", "content": content},
	})
	p.publish(api.DialogueEvent{Type: api.DialogueEventItem, Item: &api.DialogueItem{ItemID: m.ID, Kind: "user", Parts: parts, Status: "final"}})
	p.messages[m.ID] = &sentMessage{}
	p.unfinished = append(p.unfinished, m.ID)
	p.hushed = false
	p.moveMessage(m.ID, "sent")
	p.answer(call, nil)
}

// interrupt stops the turn. With all it also stops the background tasks, one by one, because
// the program spares them (see perTaskStopAffordance in Start).
func (p *protocol) interrupt(call string, all bool) {
	request := map[string]any{"subtype": "interrupt"}
	if all {
		request["cancel_queued"] = true
	}
	p.control(request, func(a controlAnswer) { p.answer(call, a.err(api.CodeAgentFailed, "interrupt")) })
	if !all {
		return
	}
	p.hushed = true
	for _, id := range p.taskOrder {
		if t := p.tasks[id]; t.Status == "running" && t.Background {
			p.control(map[string]any{"subtype": "stop_task", "task_id": id}, func(controlAnswer) {})
		}
	}
}

// unsend takes a message out of the program's queue.
func (p *protocol) unsend(call, id string) {
	if p.messages[id] == nil {
		p.answer(call, agent.NotUnsent(id, "it is no longer queued: the agent has processed it, or it was cancelled or lost"))
		return
	}
	p.control(map[string]any{"subtype": "cancel_async_message", "message_uuid": id}, func(a controlAnswer) {
		var r struct {
			Cancelled bool `json:"cancelled"`
		}
		lenient(a.response, &r)
		switch {
		case a.failed != "":
			p.answer(call, agent.NotUnsent(id, a.failed))
		case !r.Cancelled:
			p.answer(call, agent.NotUnsent(id, "the agent has already started to process it"))
		default:
			if p.messages[id] != nil { // else its own report came first
				p.moveMessage(id, "cancelled")
			}
			p.answer(call, nil)
		}
	})
}

// set requests each change separately, and answers the call after the last of them, with the
// first error.
func (p *protocol) set(call string, s agent.Setting) {
	var open int
	var failed *api.Error
	change := func(request map[string]any, done func(controlAnswer)) {
		open++
		p.control(request, func(a controlAnswer) {
			if err := a.err(api.CodeInvalidParams, "set"); err == nil {
				done(a)
			} else if failed == nil {
				failed = err
			}
			if open--; open == 0 {
				p.answer(call, failed)
			}
		})
	}
	if s.Model != "" {
		change(map[string]any{"subtype": "set_model", "model": s.Model}, func(a controlAnswer) {
			var r struct {
				Model string `json:"model"`
			}
			lenient(a.response, &r)
			p.publishAbout(api.DialogueOpened{Model: cmp.Or(r.Model, s.Model)})
		})
	}
	if s.PermissionMode != "" {
		change(map[string]any{"subtype": "set_permission_mode", "mode": s.PermissionMode}, func(a controlAnswer) {
			var r struct {
				Mode string `json:"mode"`
			}
			lenient(a.response, &r)
			p.publishAbout(api.DialogueOpened{PermissionMode: cmp.Or(r.Mode, s.PermissionMode)})
		})
	}
	if open == 0 {
		p.answer(call, api.Errorf(api.CodeInvalidParams, "call %s: sets nothing", call))
	}
}

// control sends a control request. Answers may come in another order.
func (p *protocol) control(request map[string]any, done func(controlAnswer)) {
	p.controls++
	id := fmt.Sprintf("trl-%d", p.controls)
	p.waits[id] = done
	p.write(map[string]any{"type": "control_request", "request_id": id, "request": request})
}

func (p *protocol) answered(l *wireLine) {
	r := readFields(l.raw("response"))
	id := r.text("request_id")
	done, mine := p.waits[id]
	if !mine {
		return
	}
	delete(p.waits, id)
	a := controlAnswer{response: r.raw("response")}
	if r.text("subtype") != "success" {
		a.failed = cmp.Or(r.wording("error"), "the program refused")
	}
	done(a)
}

// controlAnswer is the answer to a control request.
type controlAnswer struct {
	response []byte
	failed   string // the reason of a refusal; empty for success
}

func (a controlAnswer) err(code api.Code, what string) *api.Error {
	if a.failed == "" {
		return nil
	}
	return api.Errorf(code, "%s: claude: %s", what, a.failed)
}

func (p *protocol) begin(l wireLine) {
	p.step, p.line = agent.Step{}, l
}

// end closes the step. It publishes the state last, because the whole step determines it.
func (p *protocol) end() agent.Step {
	p.publishState()
	s := p.step
	p.step, p.line = agent.Step{}, wireLine{}
	clear(p.room) // it refers to the line, which belongs to the caller
	return s
}

func (p *protocol) publish(ev api.DialogueEvent) {
	ev.NativeID = p.line.UUID
	p.step.Events = append(p.step.Events, ev)
}

func (p *protocol) notice(level, code, text string) {
	p.publish(api.DialogueEvent{Type: api.DialogueEventNotice, Notice: &api.DialogueNotice{Level: level, Code: code, Text: text}})
}

func (p *protocol) answer(call string, err *api.Error) {
	p.step.Answers = append(p.step.Answers, agent.Answer{ID: call, Err: err})
}

// write adds a line for the program. It always encodes JSON, because any other line ends the
// program.
func (p *protocol) write(v any) {
	b, err := json.Marshal(v)
	if err != nil { // a RawMessage that is not JSON, which respond has checked
		p.notice("error", "internal", "a message to the agent could not be encoded: "+err.Error())
		return
	}
	p.step.Write = append(p.step.Write, append(b, '\n'))
}

// Describe implements agent.Agent. The modes are those of claude --permission-mode.
func (Agent) Describe(o *api.DialogueOpened) {
	o.Capabilities = []string{agent.CanEdit, agent.CanRemember, agent.CanImages, agent.CanSetModel, agent.CanSetMode, agent.CanUnsend}
	o.Modes = []string{"default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"}
}
