package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/recent"
)

var _ = register("claude", claude{})

// claude is Claude Code, spoken to in stream-json: a JSON object a line, in both
// directions, on pipes. It is written for what versions 2.1.197 and 2.1.325 do.
type claude struct{}

// Command gives only flags that old versions know too: one they do not know ends them.
// What is newer is asked for in the first step, where they overlook it.
func (claude) Command(o Options) (argv []string, env map[string]string, err error) {
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

func (claude) New(o Options) Protocol {
	return &claudeProtocol{
		options:  o,
		ids:      NewIDs(o.Epoch),
		waits:    map[string]func(claudeAnswer){},
		requests: map[string]*claudeRequest{},
		messages: map[string]*claudeMessage{},
		partials: map[string]*claudePartials{},
		tools:    map[string]*claudeTool{},
		tasks:    map[string]api.DialogueTask{},

		seen:      recent.New[bool](claudeMemorySize),
		asked:     recent.New[string](claudeMemorySize),
		finished:  recent.New[bool](claudeMemorySize),
		blocks:    recent.New[int](claudeMemorySize),
		callTurn:  recent.New[string](claudeMemorySize),
		made:      recent.New[[]string](claudeMemorySize),
		tasksOver: recent.New[api.DialogueTask](claudeMemorySize),
		taskOf:    recent.New[string](claudeMemorySize),
		taskIDs:   recent.New[string](claudeMemorySize),
		calls: claudeCalls{
			last:    recent.New[string](claudeMemorySize),
			inside:  recent.New[string](claudeMemorySize),
			agents:  recent.New[string](claudeMemorySize),
			awaited: recent.New[string](claudeMemorySize),
			native:  recent.New[string](claudeMemorySize),
			inputs:  recent.New[json.RawMessage](claudeMemorySize),
		},
	}
}

// claudeProtocol is the conversation with one process of Claude Code. What is open is in
// maps; what has ended, and may still be spoken of, in memories, which forget.
type claudeProtocol struct {
	options Options
	ids     IDs
	step    Step              // what follows from the line or call that is being taken
	line    claudeLine        // the line that is being taken; empty in a call
	room    fields            // for the fields of the next line
	seen    *recent.Map[bool] // the lines that were taken
	ready   bool
	context int64 // tokens of the last call of the model, of its window
	window  int64 // how many that holds

	controls int                           // control requests made until now
	waits    map[string]func(claudeAnswer) // what follows from their answers, by id
	asked    *recent.Map[string]           // the program's own, by its id: the last as it came
	requests map[string]*claudeRequest     // those of them that wait for an answer, by our id
	waiting  []string                      // their ids, oldest first

	about   api.DialogueOpened // what was told of the program last
	session string             // the id of the conversation, as the last line had it

	state      api.DialogueState         // that was told last
	ownState   string                    // the state in the program's words, once it tells any
	turn       *claudeTurn               // the open one
	turns      int                       // begun until now
	messages   map[string]*claudeMessage // those that are not done
	unfinished []string                  // their ids, oldest first
	finished   *recent.Map[bool]         // those that are
	lifecycle  bool                      // the program tells what becomes of messages
	hushed     bool                      // all was stopped, and nothing was sent since
	used       api.DialogueUsage         // by this process
	totals     api.DialogueUsage         // that were told last, by a version that tells only them
	usedBefore api.DialogueUsage         // what is to be added to them; less than 0 when they began with more
	renamed    bool                      // the conversation got another id since

	blocks    *recent.Map[int]           // finished blocks, by the model's message
	partials  map[string]*claudePartials // what is being written, by scope
	tools     map[string]*claudeTool     // tool calls that something may still happen to
	toolOrder []string
	calls     claudeCalls
	callTurn  *recent.Map[string]           // the turn of a tool call, and of what is below it
	made      *recent.Map[[]string]         // the items that a line made, by its uuid
	tasks     map[string]api.DialogueTask   // by the program's id; without those that ended before this turn
	taskOrder []string                      // the program's ids
	tasksOver *recent.Map[api.DialogueTask] // those
	taskOf    *recent.Map[string]           // the task of a tool call
	taskIDs   *recent.Map[string]           // our ids of tasks, by the program's
	agents    int                           // subagents that work
	reporting bool                          // a task in the background has ended, and the turn that reports it has not begun
}

// Start asks for the newer features and for the version. The answer to the first says that
// the program can be spoken to: it prints nothing before it is spoken to.
func (p *claudeProtocol) Start() Step {
	p.begin(claudeLine{})
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

func (p *claudeProtocol) initialized(a claudeAnswer) {
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
	p.tellAbout(api.DialogueOpened{Version: r.Version, PermissionMode: r.Mode, Models: models})
	if p.options.Resume != "" && claudeOlder(r.Version, claudeTellsSince) { // the oldest do not tell it here
		p.askTotals()
	}
}

// versioned takes the version of the program. An old one does not know the question.
func (p *claudeProtocol) versioned(a claudeAnswer) {
	var r struct {
		Version string `json:"version"`
	}
	lenient(a.response, &r)
	p.tellAbout(api.DialogueOpened{Version: r.Version})
}

// Do takes a call.
func (p *claudeProtocol) Do(c Call) Step {
	p.begin(claudeLine{})
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

func (p *claudeProtocol) send(call string, m *Message) {
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
	p.tell(api.DialogueEvent{Type: api.DialogueEventItem, Item: &api.DialogueItem{ItemID: m.ID, Kind: "user", Parts: parts, Status: "final"}})
	p.messages[m.ID] = &claudeMessage{}
	p.unfinished = append(p.unfinished, m.ID)
	p.hushed = false
	p.moveMessage(m.ID, "sent")
	p.answer(call, nil)
}

// interrupt stops the turn. What runs in the background is stopped one by one: the program
// spares it, because Start said that it can be.
func (p *claudeProtocol) interrupt(call string, all bool) {
	request := map[string]any{"subtype": "interrupt"}
	if all {
		request["cancel_queued"] = true
	}
	p.control(request, func(a claudeAnswer) { p.answer(call, a.err(api.CodeAgentFailed, "interrupt")) })
	if !all {
		return
	}
	p.hushed = true
	for _, id := range p.taskOrder {
		if t := p.tasks[id]; t.Status == "running" && t.Background {
			p.control(map[string]any{"subtype": "stop_task", "task_id": id}, func(claudeAnswer) {})
		}
	}
}

// set asks for each change by itself, and is answered when all are; the first error counts.
func (p *claudeProtocol) set(call string, s Setting) {
	var open int
	var failed *api.Error
	change := func(request map[string]any, done func(claudeAnswer)) {
		open++
		p.control(request, func(a claudeAnswer) {
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
		change(map[string]any{"subtype": "set_model", "model": s.Model}, func(a claudeAnswer) {
			var r struct {
				Model string `json:"model"`
			}
			lenient(a.response, &r)
			p.tellAbout(api.DialogueOpened{Model: cmp.Or(r.Model, s.Model)})
		})
	}
	if s.PermissionMode != "" {
		change(map[string]any{"subtype": "set_permission_mode", "mode": s.PermissionMode}, func(a claudeAnswer) {
			var r struct {
				Mode string `json:"mode"`
			}
			lenient(a.response, &r)
			p.tellAbout(api.DialogueOpened{PermissionMode: cmp.Or(r.Mode, s.PermissionMode)})
		})
	}
	if open == 0 {
		p.answer(call, api.Errorf(api.CodeInvalidParams, "call %s: sets nothing", call))
	}
}

// control makes a control request. The answer may come after those to later ones.
func (p *claudeProtocol) control(request map[string]any, done func(claudeAnswer)) {
	p.controls++
	id := fmt.Sprintf("trl-%d", p.controls)
	p.waits[id] = done
	p.write(map[string]any{"type": "control_request", "request_id": id, "request": request})
}

func (p *claudeProtocol) answered(l *claudeLine) {
	r := readFields(l.raw("response"))
	id := r.text("request_id")
	done, mine := p.waits[id]
	if !mine {
		return
	}
	delete(p.waits, id)
	a := claudeAnswer{response: r.raw("response")}
	if r.text("subtype") != "success" {
		a.failed = cmp.Or(r.wording("error"), "the program refused")
	}
	done(a)
}

// claudeAnswer is the answer to a control request.
type claudeAnswer struct {
	response []byte
	failed   string // why it was refused
}

func (a claudeAnswer) err(code api.Code, what string) *api.Error {
	if a.failed == "" {
		return nil
	}
	return api.Errorf(code, "%s: claude: %s", what, a.failed)
}

func (p *claudeProtocol) begin(l claudeLine) {
	p.step, p.line = Step{}, l
}

// end closes a step: what the state is now follows from all of it.
func (p *claudeProtocol) end() Step {
	p.tellState()
	s := p.step
	p.step, p.line = Step{}, claudeLine{}
	clear(p.room) // the line is not ours to keep
	return s
}

func (p *claudeProtocol) tell(ev api.DialogueEvent) {
	ev.NativeID = p.line.UUID
	p.step.Events = append(p.step.Events, ev)
}

func (p *claudeProtocol) notice(level, code, text string) {
	p.tell(api.DialogueEvent{Type: api.DialogueEventNotice, Notice: &api.DialogueNotice{Level: level, Code: code, Text: text}})
}

func (p *claudeProtocol) answer(call string, err *api.Error) {
	p.step.Answers = append(p.step.Answers, Answer{ID: call, Err: err})
}

// write adds a line for the program. It is always marshalled: a line that is not JSON ends it.
func (p *claudeProtocol) write(v any) {
	b, err := json.Marshal(v)
	if err != nil { // only an input that is not JSON, which is checked before
		p.notice("error", "internal", "a line for the agent could not be made: "+err.Error())
		return
	}
	p.step.Write = append(p.step.Write, append(b, '\n'))
}
