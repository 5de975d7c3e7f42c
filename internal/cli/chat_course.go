package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// whose says whom something in a dialogue is for.
type whose int

const (
	others  whose = iota // another message, or what an earlier one has left behind
	unclear              // the agent has not said yet which message it answers
	ours                 // the awaited message
)

// course follows how far a dialogue is: whether the agent works, how its last turn ended,
// what it asks. It is used by one goroutine.
type course struct {
	state    api.DialogueState
	turns    map[string]whose // that have begun and not ended
	awaited  string           // the message whose answer is waited for
	noticed  bool             // it is in the record
	begun    bool             // the agent has stirred since
	taken    bool             // the agent works on it, or has
	done     bool             // a turn that answers it has ended, or the agent is done with it
	outcome  string           // of the last turn that is ours
	tasks    map[string]whose // that run
	worked   bool             // a task of ours has run: a turn that the agent begins by itself reports it
	last     whose            // the event that was taken last
	requests []api.DialogueRequest
	fault    *api.DialogueFault // why it does not go on
	end      *api.DialogueEnd
}

// take follows one event.
func (c *course) take(ev api.DialogueEvent) {
	ended := others
	switch ev.Type {
	case api.DialogueEventState:
		c.state, c.begun = ev.State, c.noticed
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
	c.last = c.now()
	switch {
	case ev.Type == api.DialogueEventTurnEnded:
		c.last = ended
	case ev.Type == api.DialogueEventRequestOpened:
		if w, runs := c.tasks[ev.Request.TaskID]; runs { // a task asks, whatever the turn
			c.last = w
		}
	}
}

// now is whom the agent works for.
func (c *course) now() whose {
	if len(c.turns) == 0 && c.taken {
		return ours
	}
	w := others
	for _, t := range c.turns {
		w = max(w, t)
	}
	return w
}

func (c *course) turnStarted(t api.DialogueTurn) {
	if c.turns == nil {
		c.turns = map[string]whose{}
	}
	c.begun = c.noticed
	w := others
	switch {
	case slices.Contains(t.Messages, c.awaited):
		w, c.taken = ours, true
	case len(t.Messages) > 0:
	case t.Trigger == "user" && c.noticed: // an old Claude Code tells the messages at the end
		w = unclear
	case t.Trigger != "user" && c.worked:
		w = ours
	}
	c.turns[t.TurnID] = w
}

func (c *course) turnEnded(t api.DialogueTurn) whose {
	w := c.turns[t.TurnID]
	delete(c.turns, t.TurnID)
	c.begun = c.noticed
	switch {
	case slices.Contains(t.Messages, c.awaited):
		w, c.taken = ours, true
	case w == unclear:
		w = others
	}
	c.clear(w)
	if w == ours {
		c.outcome, c.done = t.Outcome, true
	}
	return w
}

func (c *course) task(t api.DialogueTask) {
	if c.tasks == nil {
		c.tasks = map[string]whose{}
	}
	if t.Status != "running" {
		delete(c.tasks, t.TaskID)
		return
	}
	if _, known := c.tasks[t.TaskID]; !known {
		c.tasks[t.TaskID] = c.now()
	}
	c.worked = c.worked || c.tasks[t.TaskID] == ours
}

// clear says whose the tasks are of a turn of which that was unclear.
func (c *course) clear(w whose) {
	for id, t := range c.tasks {
		if t == unclear {
			c.tasks[id] = w
			c.worked = c.worked || w == ours
		}
	}
}

// running is how many tasks of ours run.
func (c *course) running() (n int) {
	for _, w := range c.tasks {
		if w == ours {
			n++
		}
	}
	return n
}

// stops is told why the dialogue does not go on. It reports whether that is news.
func (c *course) stops(why api.DialogueFault) bool {
	news := c.fault == nil || c.fault.Code != why.Code
	c.fault = &why
	return news
}

// goesOn reports whether an event shows that what it was stopped by is over.
func (c *course) goesOn(ev api.DialogueEvent) bool {
	if c.fault == nil || c.fault.Code != recordFailed && (ev.Type != api.DialogueEventState || ev.State == api.DialogueError) {
		return false
	}
	c.fault = nil
	return true
}

// expect says that a message is given to the agent, whose answer is waited for.
func (c *course) expect(id string) {
	c.awaited, c.noticed, c.begun, c.taken, c.done = id, false, false, false, false
}

func (c *course) message(m api.DialogueMessage) {
	if m.MessageID != c.awaited {
		return
	}
	switch m.State {
	case "sent":
		c.noticed = true
	case "started":
		c.begun, c.taken = true, true
		for id := range c.turns { // a turn that runs may take it in
			c.turns[id] = ours
		}
		c.clear(ours)
	case "done":
		c.begun, c.taken, c.done = true, true, true
	case "cancelled":
		c.begun, c.done, c.outcome = true, true, cmp.Or(c.outcome, "interrupted")
	case "lost":
		c.begun, c.done, c.outcome = true, true, cmp.Or(c.outcome, "lost")
	}
}

// unsure reports whether a message was given to the agent, and it has not stirred yet.
func (c *course) unsure() bool { return c.awaited != "" && !c.begun }

// settled reports whether the agent has answered and nothing more is to come: work in the
// background ends with another turn. In state error nobody knows what it does.
func (c *course) settled() bool {
	return c.done && !c.busy() && c.running() == 0 && c.state != api.DialogueError
}

// busy reports whether the agent works, or waits for an answer to a request.
func (c *course) busy() bool {
	return c.end == nil && (c.unsure() || len(c.turns) > 0 || c.state != api.DialogueIdle && c.state != api.DialogueError)
}

// free reports whether the agent waits for a message, be it that something runs in the
// background.
func (c *course) free() bool {
	return !c.busy() || (c.awaited == "" || c.done) && len(c.turns) == 0 && len(c.tasks) > 0
}

// status is the exit status for how the last turn ended.
func (c *course) status() int {
	switch c.outcome {
	case "", "completed":
		return ui.ExitOK
	case "interrupted":
		return api.ExitCancelled
	}
	return ui.ExitBroken
}

// told is what the receiver of a stream passes on.
type told struct {
	push api.StreamEvent
	err  error // of the stream, which has ended
	away error // the daemon is lost, and looked for; nothing else is set
	back bool  // it is there again; nothing else is set
}

// follow passes on what happens in the dialogue after an event. The goroutine ends with
// the stream, or with ctx.
func (ch *chat) follow(ctx context.Context, after int64, noDeltas bool) (<-chan told, error) {
	s, err := ch.client.DialogueEvents(ctx, api.DialogueEventsParams{DialogueID: ch.info.DialogueID, AfterSeq: after, NoDeltas: noDeltas})
	if err != nil {
		return nil, err
	}
	events := make(chan told, 64)
	tell := func(t told) bool {
		select {
		case events <- t:
			return true
		case <-ctx.Done():
			return false
		}
	}
	s.(*client.Stream).Watch(func(lost error) { tell(told{away: lost, back: lost == nil}) })
	go func() {
		defer s.Close()
		for {
			push, err := s.Recv()
			if !tell(told{push: push, err: err}) || err != nil {
				return
			}
		}
	}()
	return events, nil
}

// openFor is open for somebody who may not want to wait: a signal is told as interrupted
// when the agent is there, so that it can be ended, and a second one leaves at once.
func (ch *chat) openFor(ctx context.Context, signals <-chan os.Signal) (interrupted bool, err error) {
	opened := make(chan error, 1)
	go func() { opened <- ch.open(ctx) }()
	for {
		select {
		case err := <-opened:
			return interrupted, err
		case s := <-signals:
			if interrupted {
				return true, ui.ExitBySignal(s)
			}
			interrupted = true
		}
	}
}

// closeFor is close for somebody who may not want to wait, and is told when there is
// something to wait for.
func (ch *chat) closeFor(ctx context.Context, signals <-chan os.Signal, tell func()) error {
	closed := make(chan error, 1)
	go func() { closed <- ch.close(ctx) }()
	late := time.NewTimer(ui.NoticeTime)
	defer late.Stop()
	for {
		select {
		case err := <-closed:
			return err
		case <-late.C:
			tell()
		case s := <-signals:
			return ui.ExitBySignal(s)
		}
	}
}

// chatSignals are those that end a talk, but not the ones that are meant for others. From
// now on a write to a closed pipe is an error that we see, not our end.
func chatSignals() (signals chan os.Signal, stop func()) {
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	signals = make(chan os.Signal, 4)
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals, func() { signal.Stop(signals) }
}

// deliver gives the agent a message.
func (ch *chat) deliver(ctx context.Context, id, text string) error {
	_, err := ch.client.DialogueSend(ctx, api.DialogueSendParams{DialogueID: ch.info.DialogueID, Text: text, MessageID: id})
	return err
}

// newMessageID makes an id for a message: a UUID of version 4.
func newMessageID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
