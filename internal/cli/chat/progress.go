package chat

import (
	"cmp"
	"slices"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// party says for which message the agent works.
type party int

const (
	others  party = iota // for another message, or a task of an earlier one
	unclear              // unknown until the agent names the message
	ours                 // for the awaited message
)

// progress follows how far the agent is: whether it works and for which message, how its last
// turn ended, and its open requests. One goroutine uses it.
type progress struct {
	state     api.DialogueState
	turns     map[string]party // that run, by id
	awaited   string           // id of the message whose answer we wait for; "" for none
	recorded  bool             // the awaited message is in the record
	stirred   bool             // the agent has done something since then
	taken     bool             // the agent works on the message, or has
	done      bool             // a turn that answers the message has ended, or the agent has finished with it
	outcome   string           // of our last turn
	tasks     map[string]party // that run, by id
	hadTask   bool             // a task of ours has run; a turn that the agent begins on its own reports its end
	lastParty party            // of the last event
	requests  []api.DialogueRequest
	fault     *api.DialogueFault // why the dialogue does not go on
	end       *api.DialogueEnd
}

// apply takes the next event into account.
func (c *progress) apply(ev api.DialogueEvent) {
	ended := others
	switch ev.Type {
	case api.DialogueEventState:
		c.state, c.stirred = ev.State, c.recorded
	case api.DialogueEventTurnStarted:
		c.turnStarted(*ev.Turn)
	case api.DialogueEventTurnEnded:
		ended = c.turnEnded(*ev.Turn)
	case api.DialogueEventTask:
		c.task(*ev.Task)
	case api.DialogueEventMessage:
		c.message(*ev.Message)
	case api.DialogueEventRequestOpened:
		c.requests = append(c.requests, *ev.Request)
	case api.DialogueEventRequestClosed:
		c.requests = slices.DeleteFunc(c.requests, func(r api.DialogueRequest) bool { return r.RequestID == ev.Request.RequestID })
	case api.DialogueEventEnded:
		c.end = ev.Ended
	}
	c.lastParty = c.current()
	switch {
	case ev.Type == api.DialogueEventTurnEnded:
		c.lastParty = ended
	case ev.Type == api.DialogueEventRequestOpened:
		if w, runs := c.tasks[ev.Request.TaskID]; runs { // a task asks, whichever turn runs
			c.lastParty = w
		}
	}
}

// current returns for which message the agent works now.
func (c *progress) current() party {
	if len(c.turns) == 0 && c.taken {
		return ours
	}
	w := others
	for _, t := range c.turns {
		w = max(w, t)
	}
	return w
}

func (c *progress) turnStarted(t api.DialogueTurn) {
	if c.turns == nil {
		c.turns = map[string]party{}
	}
	c.stirred = c.recorded
	w := others
	switch {
	case slices.Contains(t.Messages, c.awaited):
		w, c.taken = ours, true
	case len(t.Messages) > 0:
	case t.Trigger == "user" && c.recorded: // an old Claude Code names the messages only at the end
		w = unclear
	case t.Trigger != "user" && c.hadTask:
		w = ours
	}
	c.turns[t.TurnID] = w
}

func (c *progress) turnEnded(t api.DialogueTurn) party {
	w := c.turns[t.TurnID]
	delete(c.turns, t.TurnID)
	c.stirred = c.recorded
	switch {
	case slices.Contains(t.Messages, c.awaited):
		w, c.taken = ours, true
	case w == unclear:
		w = others
	}
	c.settleTasks(w)
	if w == ours {
		c.outcome, c.done = t.Outcome, true
	}
	return w
}

func (c *progress) task(t api.DialogueTask) {
	if c.tasks == nil {
		c.tasks = map[string]party{}
	}
	if t.Status != "running" {
		delete(c.tasks, t.TaskID)
		return
	}
	if _, known := c.tasks[t.TaskID]; !known {
		c.tasks[t.TaskID] = c.current()
	}
	c.hadTask = c.hadTask || c.tasks[t.TaskID] == ours
}

// settleTasks assigns the tasks of a turn whose party was unclear.
func (c *progress) settleTasks(w party) {
	for id, t := range c.tasks {
		if t == unclear {
			c.tasks[id] = w
			c.hadTask = c.hadTask || w == ours
		}
	}
}

// running counts our tasks that run.
func (c *progress) running() (n int) {
	for _, w := range c.tasks {
		if w == ours {
			n++
		}
	}
	return n
}

// setFault notes why the dialogue does not go on. It reports whether the fault is new.
func (c *progress) setFault(why api.DialogueFault) bool {
	news := c.fault == nil || c.fault.Code != why.Code
	c.fault = &why
	return news
}

// recovers reports whether an event shows that the fault is over.
func (c *progress) recovers(ev api.DialogueEvent) bool {
	if c.fault == nil || c.fault.Code != recordFailed && (ev.Type != api.DialogueEventState || ev.State == api.DialogueError) {
		return false
	}
	c.fault = nil
	return true
}

// expect begins the wait for the answer to a message.
func (c *progress) expect(id string) {
	c.awaited, c.recorded, c.stirred, c.taken, c.done = id, false, false, false, false
}

func (c *progress) message(m api.DialogueMessage) {
	if m.MessageID != c.awaited {
		return
	}
	switch m.State {
	case "sent":
		c.recorded = true
	case "started":
		c.stirred, c.taken = true, true
		for id := range c.turns { // a running turn may take the message in
			c.turns[id] = ours
		}
		c.settleTasks(ours)
	case "done":
		c.stirred, c.taken, c.done = true, true, true
	case "cancelled":
		c.stirred, c.done, c.outcome = true, true, cmp.Or(c.outcome, "interrupted")
	case "lost":
		c.stirred, c.done, c.outcome = true, true, cmp.Or(c.outcome, "lost")
	}
}

// unsure reports whether the agent has done nothing since our message.
func (c *progress) unsure() bool { return c.awaited != "" && !c.stirred }

// settled reports whether the agent has answered and has finished: a task in the background
// leads to another turn. In state error, the state of the agent is unknown.
func (c *progress) settled() bool {
	return c.done && !c.busy() && c.running() == 0 && c.state != api.DialogueError
}

// busy reports whether the agent works, or waits for an answer to a request.
func (c *progress) busy() bool {
	return c.end == nil && (c.unsure() || len(c.turns) > 0 || c.state != api.DialogueIdle && c.state != api.DialogueError)
}

// free reports whether the agent waits for a message, even if a task runs in the background.
func (c *progress) free() bool {
	return !c.busy() || (c.awaited == "" || c.done) && len(c.turns) == 0 && len(c.tasks) > 0
}

// status returns the exit status for the outcome of our last turn.
func (c *progress) status() int {
	switch c.outcome {
	case "", "completed":
		return ui.ExitOK
	case "interrupted":
		return api.ExitCancelled
	}
	return ui.ExitBroken
}
