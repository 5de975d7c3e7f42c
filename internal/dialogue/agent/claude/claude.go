// Package claude drives Claude Code in its stream-json mode: one JSON object per line, in both
// directions, on pipes. It is written for the behaviour of versions 2.1.197 to 2.1.325.
//
// Start reading at protocol (claude.go); Line (lines.go) takes each line of the program to the
// file of its subject.
package claude

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/recent"
)

// claude is Claude Code, spoken to in stream-json: a JSON object a line, in both
// directions, on pipes. It is written for what versions 2.1.197 and 2.1.325 do.
type Agent struct{}

// Command gives only flags that old versions know too: one they do not know ends them.
// What is newer is asked for in the first step, where they overlook it.
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
	// It makes the program tell when it works and when it rests. What does not know it is
	// understood without.
	return argv, map[string]string{"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}, nil
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

// protocol is the conversation with one process of Claude Code. What is open is in
// maps; what has ended, and may still be spoken of, in memories, which forget.
type protocol struct {
	options agent.Options
	ids     agent.IDs
	step    agent.Step        // what follows from the line or call that is being taken
	line    wireLine          // the line that is being taken; empty in a call
	room    fields            // for the fields of the next line
	seen    *recent.Map[bool] // the lines that were taken
	ready   bool
	context int64 // tokens of the last call of the model, of its window
	window  int64 // how many that holds

	controls int                            // control requests made until now
	waits    map[string]func(controlAnswer) // what follows from their answers, by id
	asked    *recent.Map[string]            // the program's own, by its id: the last as it came
	requests map[string]*openRequest        // those of them that wait for an answer, by our id
	waiting  []string                       // their ids, oldest first

	about   api.DialogueOpened // what was told of the program last
	session string             // the id of the conversation, as the last line had it

	state      api.DialogueState       // that was told last
	ownState   string                  // the state in the program's words, once it tells any
	turn       *turn                   // the open one
	turns      int                     // begun until now
	messages   map[string]*sentMessage // those that are not done
	unfinished []string                // their ids, oldest first
	finished   *recent.Map[bool]       // those that are
	lifecycle  bool                    // the program tells what becomes of messages
	hushed     bool                    // all was stopped, and nothing was sent since
	used       api.DialogueUsage       // by this process
	totals     api.DialogueUsage       // that were told last, by a version that tells only them
	usedBefore api.DialogueUsage       // what is to be added to them; less than 0 when they began with more
	renamed    bool                    // the conversation got another id since

	blocks        *recent.Map[int]     // finished blocks, by the model's message
	partials      map[string]*partials // what is being written, by scope
	tools         map[string]*tool     // tool calls that something may still happen to
	toolOrder     []string
	calls         callIndex
	callTurn      *recent.Map[string]           // the turn of a tool call, and of what is below it
	made          *recent.Map[[]string]         // the items that a line made, by its uuid
	tasks         map[string]api.DialogueTask   // by the program's id; without those that ended before this turn
	taskOrder     []string                      // the program's ids
	finishedTasks *recent.Map[api.DialogueTask] // those
	taskOf        *recent.Map[string]           // the task of a tool call
	taskIDs       *recent.Map[string]           // our ids of tasks, by the program's
	agents        int                           // subagents that work
	reporting     bool                          // a task in the background has ended, and the turn that reports it has not begun
}

// Start asks for the newer features and for the version. The answer to the first says that
// the program can be spoken to: it prints nothing before it is spoken to.
func (p *protocol) Start() agent.Step {
	p.begin(wireLine{})
	p.control(map[string]any{
		"subtype": "initialize",
		// What subagents say is told, not only what they do.
		"forwardSubagentText": true,
		// An interrupt leaves subagents in the background alone: they can be stopped by themselves.
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
	if p.options.Resume != "" && isOlder(r.Version, usageSinceVersion) { // the oldest do not tell it here
		p.askTotals()
	}
}

// versioned takes the version of the program. An old one does not know the question.
func (p *protocol) versioned(a controlAnswer) {
	var r struct {
		Version string `json:"version"`
	}
	lenient(a.response, &r)
	p.publishAbout(api.DialogueOpened{Version: r.Version})
}

// Do takes a call.
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
	default:
		p.answer(c.ID, api.Errorf(api.CodeInvalidParams, "call %s: has no content", c.ID))
	}
	return p.end()
}

func (p *protocol) send(call string, m *agent.Message) {
	if p.ours(m.ID) {
		p.answer(call, api.Errorf(api.CodeConflict, "message %s: was sent before", m.ID))
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

// interrupt stops the turn. What runs in the background is stopped one by one: the program
// spares it, because Start said that it can be.
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

// set asks for each change by itself, and is answered when all are; the first error counts.
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

// control makes a control request. The answer may come after those to later ones.
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
	failed   string // why it was refused
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

// end closes a step: what the state is now follows from all of it.
func (p *protocol) end() agent.Step {
	p.publishState()
	s := p.step
	p.step, p.line = agent.Step{}, wireLine{}
	clear(p.room) // the line is not ours to keep
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

// write adds a line for the program. It is always marshalled: a line that is not JSON ends it.
func (p *protocol) write(v any) {
	b, err := json.Marshal(v)
	if err != nil { // only an input that is not JSON, which is checked before
		p.notice("error", "internal", "a line for the agent could not be made: "+err.Error())
		return
	}
	p.step.Write = append(p.step.Write, append(b, '\n'))
}
