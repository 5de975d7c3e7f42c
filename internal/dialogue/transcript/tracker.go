package transcript

import (
	"cmp"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/recent"
)

// mostClosed is how many closed turns, requests and calls, and how many lost tasks, a
// Tracker remembers of each.
const mostClosed = 1000

// Tracker knows what is open in a dialogue: the turn, items that are being written, tool
// calls, tasks, requests, messages; and the figures that listings tell. Its size is that of
// what is open: an item is kept until it is whole. It is used by one goroutine at a time.
type Tracker struct {
	course
	opened   api.DialogueOpened
	activity time.Time

	items    open[*item]
	turns    open[api.DialogueTurn]
	tasks    open[api.DialogueTask] // that run
	requests open[api.DialogueRequest]
	messages open[string] // their states, until they are done

	begun int // turns
	// Of what was closed the last ones are known: turns, to count each once; requests, to
	// say how they were closed; the scopes of tool calls that have a sub-transcript, which
	// may go on; and tasks that were lost.
	turnsClosed    *recent.Map[struct{}]
	requestsClosed *recent.Map[api.DialogueRequest]
	callsClosed    *recent.Map[string]
	tasksLost      *recent.Map[api.DialogueTask] // a later process may report how they ended

	over over // with the last event
}

// NewTracker makes a Tracker for a dialogue without events.
func NewTracker() *Tracker {
	return &Tracker{
		turnsClosed:    recent.New[struct{}](mostClosed),
		requestsClosed: recent.New[api.DialogueRequest](mostClosed),
		callsClosed:    recent.New[string](mostClosed),
		tasksLost:      recent.New[api.DialogueTask](mostClosed),
	}
}

// Apply takes the next event.
func (t *Tracker) Apply(ev api.DialogueEvent) {
	t.over = over{}
	if !t.take(ev) {
		return
	}
	if !ev.At.IsZero() {
		t.activity = ev.At
	}
	switch {
	case ev.Opened != nil:
		t.learn(*ev.Opened)
	case ev.Type == api.DialogueEventState:
		t.over.idle = ev.State == api.DialogueIdle
	case ev.Type == api.DialogueEventTurnStarted && ev.Turn != nil:
		t.turnStarted(*ev.Turn)
	case ev.Type == api.DialogueEventTurnEnded && ev.Turn != nil:
		t.turnEnded(*ev.Turn)
	case ev.Type == api.DialogueEventItem && ev.Item != nil:
		t.upsert(ev.Scope, *ev.Item)
	case ev.Type == api.DialogueEventDelta && ev.Delta != nil:
		if it, ok := t.items.get(ev.Delta.ItemID); ok {
			it.write(*ev.Delta)
		}
	case ev.Type == api.DialogueEventRetracted:
		t.retract(ev.Retracted)
	case ev.Type == api.DialogueEventTask && ev.Task != nil:
		t.task(*ev.Task)
	case ev.Type == api.DialogueEventRequestOpened && ev.Request != nil:
		t.requestsClosed.Delete(ev.Request.RequestID)
		t.requests.put(ev.Request.RequestID, opens(*ev.Request))
	case ev.Type == api.DialogueEventRequestClosed && ev.Request != nil:
		t.requestClosed(*ev.Request)
	case ev.Type == api.DialogueEventMessage && ev.Message != nil:
		t.message(*ev.Message)
	}
}

// learn takes what the agent tells of itself. What it leaves out stays.
func (t *Tracker) learn(o api.DialogueOpened) {
	was := t.opened
	t.opened = api.DialogueOpened{
		Version:        cmp.Or(o.Version, was.Version),
		NativeSession:  cmp.Or(o.NativeSession, was.NativeSession),
		Model:          cmp.Or(o.Model, was.Model),
		PermissionMode: cmp.Or(o.PermissionMode, was.PermissionMode),
		WorkingDir:     cmp.Or(o.WorkingDir, was.WorkingDir),
		Commands:       was.Commands,
		Models:         was.Models,
	}
	if len(o.Commands) > 0 {
		t.opened.Commands = o.Commands
	}
	if len(o.Models) > 0 {
		t.opened.Models = o.Models
	}
}

func (t *Tracker) turnStarted(told api.DialogueTurn) {
	turn, _ := t.turns.get(told.TurnID)
	t.count(told.TurnID)
	t.turns.put(told.TurnID, begins(turn, told))
}

func (t *Tracker) turnEnded(told api.DialogueTurn) {
	turn, _ := t.turns.get(told.TurnID)
	turn = ends(turn, told)
	t.count(told.TurnID)
	t.turns.drop(told.TurnID)
	t.turnsClosed.Put(told.TurnID, struct{}{})
	t.answered(turn.Messages)
	if turn.Outcome != turnCompleted {
		t.over.turn = &turn.TurnID
	} else {
		t.over.done = turn.TurnID
	}
}

// count counts a turn that is new.
func (t *Tracker) count(id string) {
	_, open := t.turns.get(id)
	if !open && !t.turnsClosed.Has(id) {
		t.begun++
	}
}

func (t *Tracker) message(m api.DialogueMessage) {
	switch m.State {
	case "done", "cancelled", statusLost:
		t.messages.drop(m.MessageID)
	default:
		t.messages.put(m.MessageID, m.State)
	}
}

// answered notes the messages that are done with the end of a turn: those that it names, and
// those that were taken up.
func (t *Tracker) answered(named []string) {
	for _, id := range named {
		t.messages.drop(id)
	}
	for id, state := range t.messages.each() {
		if state == "started" {
			t.messages.drop(id)
		}
	}
}

func (t *Tracker) upsert(scope string, told api.DialogueItem) {
	it, was := t.items.get(told.ItemID)
	if !was {
		it = &item{scope: scope}
		if first, known := t.callsClosed.Get(told.ItemID); known {
			it.scope = first
		}
	}
	it.replace(told)
	if above, open := t.items.get(it.scope); open {
		above.parent = true
	}
	if it.open() {
		t.items.put(told.ItemID, it)
		return
	}
	t.items.drop(told.ItemID)
	if it.call() && (it.parent || it.whole.Tool.Kind == kindAgent || it.whole.Tool.TaskID != "") {
		t.callsClosed.Put(told.ItemID, it.scope)
		if was {
			t.over.scope = told.ItemID
		}
	}
}

// retract forgets items, and what is below them.
func (t *Tracker) retract(ids []string) {
	gone := make(map[string]bool, len(ids))
	for _, id := range ids {
		gone[id] = true
	}
	below := func(scope string) bool {
		for above := range t.above(scope) {
			if gone[above] {
				return true
			}
		}
		return false
	}
	var items, calls []string
	for id, it := range t.items.each() {
		if gone[id] || below(it.scope) {
			items = append(items, id)
		}
	}
	for id, scope := range t.callsClosed.All() {
		if gone[id] || below(scope) {
			calls = append(calls, id)
		}
	}
	for _, id := range items {
		t.items.drop(id)
	}
	for _, id := range calls {
		t.callsClosed.Delete(id)
	}
}

func (t *Tracker) task(told api.DialogueTask) {
	task, _ := t.tasks.get(told.TaskID)
	task = updates(task, told)
	t.tasksLost.Delete(task.TaskID)
	if task.Status == taskRunning {
		t.tasks.put(task.TaskID, task)
		return
	}
	if task.Status == statusLost {
		t.tasksLost.Put(task.TaskID, task)
	}
	t.tasks.drop(task.TaskID)
	t.over.scope = task.ToolCallID
}

// requestClosed keeps who closed it and how, and forgets what it was about.
func (t *Tracker) requestClosed(told api.DialogueRequest) {
	if t.requestsClosed.Has(told.RequestID) {
		return
	}
	r, _ := t.requests.get(told.RequestID)
	t.requests.drop(told.RequestID)
	r = closes(r, told)
	t.requestsClosed.Put(r.RequestID, api.DialogueRequest{
		RequestID: r.RequestID, Kind: r.Kind, Tool: r.Tool, ToolCallID: r.ToolCallID, TaskID: r.TaskID,
		How: r.How, Decision: r.Decision, By: r.By,
	})
}

// Busy reports whether anything is under way: a turn, an item, a tool call, a task or a request.
func (t *Tracker) Busy() bool {
	return t.turns.len()+t.items.len()+t.tasks.len()+t.requests.len() > 0
}

// IsOpen reports whether an item, a task or a request of that id is open.
func (t *Tracker) IsOpen(id string) bool {
	_, item := t.items.get(id)
	_, task := t.tasks.get(id)
	_, request := t.requests.get(id)
	return item || task || request
}

// Background is how many tasks run that do not end with a turn.
func (t *Tracker) Background() (n int) {
	for _, task := range t.tasks.each() {
		if task.Background {
			n++
		}
	}
	return n
}

// LostTasks are the tasks whose end was never told, oldest first: the last 1,000.
func (t *Tracker) LostTasks() (lost []api.DialogueTask) {
	for _, task := range t.tasksLost.All() {
		lost = append(lost, task)
	}
	return lost
}

// Request returns a request by its id, open or closed. Of one that was closed only the
// names and how are known, and that of the last 1,000.
func (t *Tracker) Request(id string) (r api.DialogueRequest, known bool) {
	if r, known = t.requests.get(id); known {
		return r, true
	}
	return t.requestsClosed.Get(id)
}

// Pending returns the open requests, oldest first.
func (t *Tracker) Pending() []api.DialogueRequest {
	pending := make([]api.DialogueRequest, 0, t.requests.len())
	for _, r := range t.requests.each() {
		pending = append(pending, r)
	}
	return pending
}

// Describe fills in what the events tell: state, version, native session, model, mode,
// working directory, epoch, seq, turns, requests, tasks, usage, last activity, ended. What
// they do not tell stays as it is.
func (t *Tracker) Describe(info *api.DialogueInfo) {
	info.Version = cmp.Or(t.opened.Version, info.Version)
	info.NativeSession = cmp.Or(t.opened.NativeSession, info.NativeSession)
	info.Model = cmp.Or(t.opened.Model, info.Model)
	info.PermissionMode = cmp.Or(t.opened.PermissionMode, info.PermissionMode)
	info.WorkingDir = cmp.Or(t.opened.WorkingDir, info.WorkingDir)
	info.Commands, info.Models = t.opened.Commands, t.opened.Models
	info.State = t.state(t.requests.len())
	info.Epoch, info.Seq = t.epoch, t.seq
	info.Turns, info.Requests, info.Tasks = t.begun, t.requests.len(), t.tasks.len()
	info.BackgroundTasks = t.Background()
	info.Usage = t.usage.total()
	if !t.activity.IsZero() {
		info.LastActivity = t.activity
	}
	info.Ended = t.ended
}
