package transcript

import (
	"slices"

	"github.com/trl-dev/trl/api"
)

// mostNotices is how many notices a transcript has at most. It keeps the last ones.
const mostNotices = 1000

// Tree builds the transcript. It needs as much memory as the transcript, and applying an event
// takes time in proportion to the event. It is used by one goroutine at a time.
type Tree struct {
	progress
	turns    list[api.DialogueTurn]
	tasks    list[api.DialogueTask]
	requests list[api.DialogueRequest]
	notices  []api.DialogueNotice
	started  []*item // messages that the agent has started with

	items map[string]*item
	// order has all items, by their first event. below has the items of each scope, even if
	// the tool call with that id has not appeared. Both still have retracted items, which
	// are no longer in items.
	order []*item
	below map[string][]*item
	gone  int // number of retracted items in order
	// shape is the outline of the items; nil after a change.
	shape *outline
}

// list is a list with an index by id.
type list[T any] struct {
	at  map[string]int
	all []T
}

// entry returns the entry with that id; it adds one if there is none.
func (l *list[T]) entry(id string) *T {
	if l.at == nil {
		l.at = map[string]int{}
	}
	i, ok := l.at[id]
	if !ok {
		i = len(l.all)
		l.at[id] = i
		l.all = append(l.all, *new(T))
	}
	return &l.all[i]
}

// NewTree makes a Tree for a dialogue without events.
func NewTree() *Tree {
	return &Tree{items: map[string]*item{}, below: map[string][]*item{}}
}

// Apply applies the next event.
func (t *Tree) Apply(ev api.DialogueEvent) {
	if !t.take(ev) {
		return
	}
	switch {
	case ev.Type == api.DialogueEventItem && ev.Item != nil:
		t.upsert(ev.Scope, *ev.Item)
	case ev.Type == api.DialogueEventDelta && ev.Delta != nil:
		if it := t.items[ev.Delta.ItemID]; it != nil {
			it.write(*ev.Delta)
		}
	case ev.Type == api.DialogueEventRetracted:
		for _, id := range ev.Retracted {
			t.retract(id)
		}
	case ev.Type == api.DialogueEventTurnStarted && ev.Turn != nil:
		turn := t.turns.entry(ev.Turn.TurnID)
		*turn = startTurn(*turn, *ev.Turn)
	case ev.Type == api.DialogueEventTurnEnded && ev.Turn != nil:
		turn := t.turns.entry(ev.Turn.TurnID)
		*turn = endTurn(*turn, *ev.Turn)
		t.answered(turn.Messages)
	case ev.Type == api.DialogueEventTask && ev.Task != nil:
		task := t.tasks.entry(ev.Task.TaskID)
		*task = updateTask(*task, *ev.Task)
	case ev.Request != nil:
		t.request(ev)
	case ev.Type == api.DialogueEventMessage && ev.Message != nil:
		t.message(*ev.Message)
	case ev.Notice != nil:
		t.notice(*ev.Notice)
	}
}

func (t *Tree) upsert(scope string, told api.DialogueItem) {
	it := t.items[told.ItemID]
	if it == nil || it.call() != (told.Tool != nil) {
		t.shape = nil
	}
	if it == nil {
		it = &item{scope: scope}
		t.items[told.ItemID] = it
		t.order = append(t.order, it)
		t.below[scope] = append(t.below[scope], it)
	}
	it.replace(told)
}

// retract removes an item, and the items below it.
func (t *Tree) retract(id string) {
	t.shape = nil
	for rest := []string{id}; len(rest) > 0; {
		id, rest = rest[0], rest[1:]
		if t.items[id] != nil {
			delete(t.items, id)
			t.gone++
		}
		if id == "" {
			continue // the root stays
		}
		for _, child := range t.below[id] {
			if !t.retracted(child) {
				rest = append(rest, child.whole.ItemID)
			}
		}
	}
	// Sweep rarely, so that retracting stays cheap on average.
	if t.gone > 100 && t.gone > len(t.order)/2 {
		t.sweep()
	}
}

// sweep removes retracted items from order and below.
func (t *Tree) sweep() {
	t.order = slices.DeleteFunc(t.order, t.retracted)
	for scope, items := range t.below {
		if items = slices.DeleteFunc(items, t.retracted); len(items) == 0 {
			delete(t.below, scope)
		} else {
			t.below[scope] = items
		}
	}
	t.gone = 0
}

func (t *Tree) retracted(it *item) bool { return t.items[it.whole.ItemID] != it }

// message notes the state of a message, which became an item before.
func (t *Tree) message(m api.DialogueMessage) {
	it := t.items[m.MessageID]
	if it == nil {
		return
	}
	if it.message = m.State; m.State == messageStarted {
		t.started = append(t.started, it)
	}
}

// answered ends the messages that are done at the end of a turn, as Tracker.answered does.
func (t *Tree) answered(named []string) {
	for _, id := range named {
		if it := t.items[id]; it != nil && (it.message == "sent" || it.message == "queued") {
			it.message = messageDone
		}
	}
	for _, it := range t.started {
		if it.message == messageStarted {
			it.message = messageDone
		}
	}
	t.started = nil
}

func (t *Tree) request(ev api.DialogueEvent) {
	r := t.requests.entry(ev.Request.RequestID)
	switch ev.Type {
	case api.DialogueEventRequestOpened:
		*r = openRequest(*ev.Request, ev.At)
	case api.DialogueEventRequestClosed:
		*r = closeRequest(*r, *ev.Request, ev.At)
	}
}

func (t *Tree) waiting() (n int) {
	for _, r := range t.requests.all {
		if r.How == "" {
			n++
		}
	}
	return n
}

func (t *Tree) notice(n api.DialogueNotice) {
	t.notices = append(t.notices, n)
	if len(t.notices) >= 2*mostNotices {
		t.notices = append([]api.DialogueNotice{}, lastNotices(t.notices)...)
	}
}

func lastNotices(all []api.DialogueNotice) []api.DialogueNotice {
	return all[max(0, len(all)-mostNotices):]
}

// Result is the transcript so far. Later events do not change the result.
func (t *Tree) Result() api.DialogueTranscriptResult {
	o := t.outline()
	root := o.grow(o.root, -1)
	return api.DialogueTranscriptResult{
		Seq:      t.seq,
		State:    t.state(t.waiting()),
		Turns:    append([]api.DialogueTurn{}, t.turns.all...),
		Items:    root,
		Tasks:    append([]api.DialogueTask{}, t.tasks.all...),
		Requests: append([]api.DialogueRequest{}, t.requests.all...),
		Notices:  append([]api.DialogueNotice{}, lastNotices(t.notices)...),
		Usage:    t.usage.total(),
		Ended:    t.ended,
	}
}

// outline is how the items of a Tree lie below each other.
type outline struct {
	root  []*item
	below map[*item][]*item
}

// outline puts the items of each scope below their tool call. Items whose tool call has not
// appeared, and items deeper than maxDepth, go to the end of the root, with the items below them.
func (t *Tree) outline() *outline {
	if t.shape != nil {
		return t.shape
	}
	o := &outline{below: map[*item][]*item{}}
	placed := make(map[*item]bool, len(t.items))
	o.root = t.branch("", 0, placed, o)
	for _, it := range t.order {
		if !placed[it] && !t.retracted(it) {
			t.place(it, 0, placed, o)
			o.root = append(o.root, it)
		}
	}
	t.shape = o
	return o
}

func (t *Tree) branch(scope string, depth int, placed map[*item]bool, o *outline) []*item {
	items := make([]*item, 0, len(t.below[scope]))
	for _, it := range t.below[scope] {
		if !placed[it] && !t.retracted(it) {
			t.place(it, depth, placed, o)
			items = append(items, it)
		}
	}
	return items
}

func (t *Tree) place(it *item, depth int, placed map[*item]bool, o *outline) {
	placed[it] = true
	if it.call() && it.whole.ItemID != "" && depth < maxDepth {
		if items := t.branch(it.whole.ItemID, depth+1, placed, o); len(items) > 0 {
			o.below[it] = items
		}
	}
}

// grow returns items with the items below them, at most depth levels; -1: all.
func (o *outline) grow(items []*item, depth int) []api.DialogueItem {
	grown := make([]api.DialogueItem, 0, len(items))
	for _, it := range items {
		told := it.current()
		if below := o.below[it]; len(below) > 0 {
			if depth == 0 {
				told.Tool.ItemsCount = o.count(below)
			} else {
				told.Tool.Items = o.grow(below, depth-1)
			}
		}
		grown = append(grown, told)
	}
	return grown
}

// count counts items and the items below them.
func (o *outline) count(items []*item) int {
	n := len(items)
	for _, it := range items {
		n += o.count(o.below[it])
	}
	return n
}
