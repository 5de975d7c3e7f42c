package transcript

import (
	"cmp"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/recent"
)

// mostClosed is how many closed turns, requests and calls, and how many lost tasks, a
// Tracker remembers of each.
const mostClosed = 1000

// Tracker knows the open turns, items, tool calls, tasks, requests and messages of a dialogue, and
// the figures in its DialogueInfo. It needs memory only for open things and the newest closed
// ones. It is used by one goroutine at a time.
type Tracker struct {
	progress
	opened   api.DialogueOpened
	activity time.Time
	first    string // the beginning of the first message
	last     string // the beginning of the agent's last text

	items    open[*item]
	turns    open[api.DialogueTurn]
	tasks    open[api.DialogueTask] // running
	requests open[api.DialogueRequest]
	messages open[string] // the states of messages that are not done

	begun int // number of turns
	// The newest closed ones.
	turnsClosed    *recent.Map[struct{}]            // so that each turn is counted once
	requestsClosed *recent.Map[api.DialogueRequest] // with their answers
	callsClosed    *recent.Map[string]              // scopes of calls with a sub-transcript, which may continue
	tasksLost      *recent.Map[api.DialogueTask]    // a later process may report how they ended

	finished finished // the things that the last event closed
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

// Apply applies the next event.
func (t *Tracker) Apply(ev api.DialogueEvent) {
	t.finished = finished{}
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
		t.finished.idle = ev.State == api.DialogueIdle
	case ev.Type == api.DialogueEventTurnStarted && ev.Turn != nil:
		t.turnStarted(*ev.Turn)
	case ev.Type == api.DialogueEventTurnEnded && ev.Turn != nil:
		t.turnEnded(*ev.Turn)
	case ev.Type == api.DialogueEventItem && ev.Item != nil:
		t.upsert(ev.Scope, *ev.Item)
		t.quote(ev.Scope, *ev.Item)
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
		t.requests.put(ev.Request.RequestID, openRequest(*ev.Request, ev.At))
	case ev.Type == api.DialogueEventRequestClosed && ev.Request != nil:
		t.requestClosed(*ev.Request, ev.At)
	case ev.Type == api.DialogueEventMessage && ev.Message != nil:
		t.message(*ev.Message)
	}
}

// learn applies facts about the agent. Absent facts do not change.
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
		Modes:          was.Modes,
		Capabilities:   was.Capabilities,
		Title:          cmp.Or(o.Title, was.Title),
	}
	if len(o.Modes) > 0 {
		t.opened.Modes = o.Modes
	}
	if len(o.Capabilities) > 0 {
		t.opened.Capabilities = o.Capabilities
	}
	if len(o.Commands) > 0 {
		t.opened.Commands = o.Commands
	}
	if len(o.Models) > 0 {
		t.opened.Models = o.Models
	}
}

// quote remembers the beginning of the first message and of the agent's last text, for people who
// look at a list of dialogues.
func (t *Tracker) quote(scope string, it api.DialogueItem) {
	switch {
	case scope != "" || it.Synthetic:
	case it.Kind == "user" && t.first == "":
		t.first = quoted(it)
	case it.Kind == kindAgent && it.Status != statusStreaming:
		t.last = cmp.Or(quoted(it), t.last)
	}
}

// mostQuoted is the length of a quotation, in characters.
const mostQuoted = 120

// quoted returns the beginning of an item's text, on one line.
func quoted(it api.DialogueItem) string {
	for _, part := range it.Parts {
		text := part.Text[:min(len(part.Text), 8*mostQuoted)] // enough, and cheap
		if words := strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " "); words != "" {
			if letters := []rune(words); len(letters) > mostQuoted {
				return string(letters[:mostQuoted-1]) + "…"
			}
			return words
		}
	}
	return ""
}

// Opened returns the agent's description of itself, as far as it is known.
func (t *Tracker) Opened() api.DialogueOpened { return t.opened }

func (t *Tracker) turnStarted(told api.DialogueTurn) {
	turn, _ := t.turns.get(told.TurnID)
	t.count(told.TurnID)
	t.turns.put(told.TurnID, startTurn(turn, told))
}

func (t *Tracker) turnEnded(told api.DialogueTurn) {
	turn, _ := t.turns.get(told.TurnID)
	turn = endTurn(turn, told)
	t.count(told.TurnID)
	t.turns.drop(told.TurnID)
	t.turnsClosed.Put(told.TurnID, struct{}{})
	t.answered(turn.Messages)
	if turn.Outcome != turnCompleted {
		t.finished.turn = &turn.TurnID
	} else {
		t.finished.done = turn.TurnID
	}
}

// count counts a new turn.
func (t *Tracker) count(id string) {
	_, open := t.turns.get(id)
	if !open && !t.turnsClosed.Has(id) {
		t.begun++
	}
}

func (t *Tracker) message(m api.DialogueMessage) {
	switch m.State {
	case messageDone, "cancelled", statusLost:
		t.messages.drop(m.MessageID)
	default:
		t.messages.put(m.MessageID, m.State)
	}
}

// answered drops the messages that are done at the end of a turn: the ones that the turn names,
// and the ones that the agent has started.
func (t *Tracker) answered(named []string) {
	for _, id := range named {
		t.messages.drop(id)
	}
	for id, state := range t.messages.each() {
		if state == messageStarted {
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
			t.finished.scope = told.ItemID
		}
	}
}

// retract drops items, and the items below them.
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
	task = updateTask(task, told)
	t.tasksLost.Delete(task.TaskID)
	if task.Status == taskRunning {
		t.tasks.put(task.TaskID, task)
		return
	}
	if task.Status == statusLost {
		t.tasksLost.Put(task.TaskID, task)
	}
	t.tasks.drop(task.TaskID)
	t.finished.scope = task.ToolCallID
}

// requestClosed keeps the answer of a request, and drops its content.
func (t *Tracker) requestClosed(told api.DialogueRequest, at time.Time) {
	if t.requestsClosed.Has(told.RequestID) {
		return
	}
	r, _ := t.requests.get(told.RequestID)
	t.requests.drop(told.RequestID)
	r = closeRequest(r, told, at)
	t.requestsClosed.Put(r.RequestID, api.DialogueRequest{
		RequestID: r.RequestID, Kind: r.Kind, Tool: r.Tool, ToolCallID: r.ToolCallID, TaskID: r.TaskID,
		How: r.How, Decision: r.Decision, By: r.By, AnsweredBy: r.AnsweredBy, AnsweredAt: r.AnsweredAt,
	})
}

// Busy reports whether a turn, an item, a tool call, a task or a request is open.
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

// Background is the number of running background tasks, which do not end with a turn.
func (t *Tracker) Background() (n int) {
	for _, task := range t.tasks.each() {
		if task.Background {
			n++
		}
	}
	return n
}

// LostTasks are the last 1,000 tasks whose end was never reported, oldest first.
func (t *Tracker) LostTasks() (lost []api.DialogueTask) {
	for _, task := range t.tasksLost.All() {
		lost = append(lost, task)
	}
	return lost
}

// Request returns a request by its id, open or closed. Of the last 1,000 closed requests it knows
// the ids and the answer; of older ones nothing.
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

// Describe fills in the fields of info that follow from the events: state, version, native
// session, model, mode, working directory, epoch, seq, turns, requests, tasks, usage, last
// activity, ended, title, preview, context. Other fields do not change.
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
	if info.Context = nil; info.Usage.ContextTokens > 0 {
		info.Context = &api.DialogueContext{Used: info.Usage.ContextTokens, Window: info.Usage.ContextWindow}
	}
	info.Title, info.Preview = cmp.Or(t.opened.Title, t.first), t.last
	if !t.activity.IsZero() {
		info.LastActivity = t.activity
	}
	info.Ended = t.ended
}
