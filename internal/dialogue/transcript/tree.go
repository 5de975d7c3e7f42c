package transcript

import (
	"slices"

	"github.com/trl-dev/trl/api"
)

// mostNotices is how many notices a transcript has: the last ones.
const mostNotices = 1000

// Tree builds the transcript. Its size is that of the transcript, and taking an event costs
// what the event is long. It is used by one goroutine at a time.
type Tree struct {
	course
	turns    list[api.DialogueTurn]
	tasks    list[api.DialogueTask]
	requests list[api.DialogueRequest]
	notices  []api.DialogueNotice

	items map[string]*item
	// order has all items as they appeared first, and below those of each scope, whether
	// or not the tool call of that name has shown. Both may have items that were
	// retracted: those are no longer in items.
	order []*item
	below map[string][]*item
	gone  int // of the items in order
}

// list is a list whose entries are found by id.
type list[T any] struct {
	at  map[string]int
	all []T
}

// entry returns the entry with that id, which is new when there is none.
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

// Apply takes the next event.
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
		*turn = begins(*turn, *ev.Turn)
	case ev.Type == api.DialogueEventTurnEnded && ev.Turn != nil:
		turn := t.turns.entry(ev.Turn.TurnID)
		*turn = ends(*turn, *ev.Turn)
	case ev.Type == api.DialogueEventTask && ev.Task != nil:
		task := t.tasks.entry(ev.Task.TaskID)
		*task = updates(*task, *ev.Task)
	case ev.Request != nil:
		t.request(ev)
	case ev.Notice != nil:
		t.notice(*ev.Notice)
	}
}

func (t *Tree) upsert(scope string, told api.DialogueItem) {
	it := t.items[told.ItemID]
	if it == nil {
		it = &item{scope: scope}
		t.items[told.ItemID] = it
		t.order = append(t.order, it)
		t.below[scope] = append(t.below[scope], it)
	}
	it.replace(told)
}

// retract removes an item, and what is below it.
func (t *Tree) retract(id string) {
	for rest := []string{id}; len(rest) > 0; {
		id, rest = rest[0], rest[1:]
		if t.items[id] != nil {
			delete(t.items, id)
			t.gone++
		}
		if id == "" {
			continue // that is the root
		}
		for _, child := range t.below[id] {
			if !t.retracted(child) {
				rest = append(rest, child.whole.ItemID)
			}
		}
	}
	// Now and then, so that it costs little in all.
	if t.gone > 100 && t.gone > len(t.order)/2 {
		t.sweep()
	}
}

// sweep forgets the items that were retracted.
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

func (t *Tree) request(ev api.DialogueEvent) {
	r := t.requests.entry(ev.Request.RequestID)
	switch ev.Type {
	case api.DialogueEventRequestOpened:
		*r = opens(*ev.Request)
	case api.DialogueEventRequestClosed:
		*r = closes(*r, *ev.Request)
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

// Result is the transcript until now. It stays as it is when more is applied.
func (t *Tree) Result() api.DialogueTranscriptResult {
	return api.DialogueTranscriptResult{
		Seq:      t.seq,
		State:    t.state(t.waiting()),
		Turns:    append([]api.DialogueTurn{}, t.turns.all...),
		Items:    t.grow(),
		Tasks:    append([]api.DialogueTask{}, t.tasks.all...),
		Requests: append([]api.DialogueRequest{}, t.requests.all...),
		Notices:  append([]api.DialogueNotice{}, lastNotices(t.notices)...),
		Usage:    t.usage.total(),
		Ended:    t.ended,
	}
}

// grow puts the items of each scope below their tool call. Those whose tool call has not
// shown, and those that no tool call of the root leads to in maxDepth steps, are the last
// of the root, with what is below them.
func (t *Tree) grow() []api.DialogueItem {
	placed := make(map[*item]bool, len(t.items))
	items := t.branch("", 0, placed)
	for _, it := range t.order {
		if !placed[it] && !t.retracted(it) {
			items = append(items, t.place(it, 0, placed))
		}
	}
	return items
}

func (t *Tree) branch(scope string, depth int, placed map[*item]bool) []api.DialogueItem {
	items := make([]api.DialogueItem, 0, len(t.below[scope]))
	for _, it := range t.below[scope] {
		if !placed[it] && !t.retracted(it) {
			items = append(items, t.place(it, depth, placed))
		}
	}
	return items
}

func (t *Tree) place(it *item, depth int, placed map[*item]bool) api.DialogueItem {
	placed[it] = true
	told := it.told()
	if told.Tool != nil && told.ItemID != "" && depth < maxDepth {
		if items := t.branch(told.ItemID, depth+1, placed); len(items) > 0 {
			told.Tool.Items = items
		}
	}
	return told
}
