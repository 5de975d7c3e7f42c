package cli

import (
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
)

// course follows how far a dialogue is: whether the agent works, how its last turn ended,
// what it asks. It is used by one goroutine.
type course struct {
	state    api.DialogueState
	turns    map[string]bool // that have begun and not ended
	awaited  string          // the message whose answer is waited for
	noticed  bool            // it is in the record: what follows is about it
	begun    bool            // the agent has taken notice of it
	done     bool            // a turn has ended since, or it is done with
	outcome  string          // of the last turn
	tasks    map[string]bool // that run
	requests []api.DialogueRequest
	fault    *api.DialogueFault // why it does not go on
	end      *api.DialogueEnd
}

// take follows one event.
func (c *course) take(ev api.DialogueEvent) {
	switch ev.Type {
	case api.ToldState:
		c.state, c.begun = ev.State, c.noticed
	case api.ToldTurnStarted:
		if c.turns == nil {
			c.turns = map[string]bool{}
		}
		c.turns[ev.Turn.TurnID] = true
		c.begun = c.noticed
	case api.ToldTurnEnded:
		delete(c.turns, ev.Turn.TurnID)
		c.outcome, c.begun, c.done = ev.Turn.Outcome, c.noticed, c.noticed
	case api.ToldTask:
		if c.tasks == nil {
			c.tasks = map[string]bool{}
		}
		if delete(c.tasks, ev.Task.TaskID); ev.Task.Status == "running" {
			c.tasks[ev.Task.TaskID] = true
		}
	case api.ToldMessage:
		c.message(*ev.Message)
	case api.ToldRequestOpened:
		c.requests = append(c.requests, *ev.Request)
	case api.ToldRequestClosed:
		c.requests = slices.DeleteFunc(c.requests, func(r api.DialogueRequest) bool { return r.RequestID == ev.Request.RequestID })
	case api.ToldEnded:
		c.end = ev.Ended
	}
}

// stops is told why the dialogue does not go on. It reports whether that is news.
func (c *course) stops(why api.DialogueFault) bool {
	news := c.fault == nil || c.fault.Code != why.Code
	c.fault = &why
	return news
}

// goesOn reports whether an event shows that what it was stopped by is over.
func (c *course) goesOn(ev api.DialogueEvent) bool {
	if c.fault == nil || c.fault.Code != recordFailed && (ev.Type != api.ToldState || ev.State == api.DialogueError) {
		return false
	}
	c.fault = nil
	return true
}

// expect says that a message is given to the agent, whose answer is waited for.
func (c *course) expect(id string) { c.awaited, c.noticed, c.begun, c.done = id, false, false, false }

func (c *course) message(m api.DialogueMessage) {
	if m.MessageID != c.awaited {
		return
	}
	switch m.State {
	case "sent":
		c.noticed = true
	case "started":
		c.begun = true
	case "done", "cancelled", "lost":
		c.begun, c.done = true, true
	}
}

// unsure reports whether a message was given to the agent, and it has not stirred yet.
func (c *course) unsure() bool { return c.awaited != "" && !c.begun }

// settled reports whether the agent has answered and nothing more is to come: work in the
// background ends with another turn. In state error nobody knows what it does.
func (c *course) settled() bool {
	return c.done && !c.busy() && len(c.tasks) == 0 && c.state != api.DialogueError
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
		return exitOK
	case "interrupted":
		return api.ExitCancelled
	}
	return exitBroken
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
				return true, exitBySignal(s)
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
	late := time.NewTimer(noticeTime)
	defer late.Stop()
	for {
		select {
		case err := <-closed:
			return err
		case <-late.C:
			tell()
		case s := <-signals:
			return exitBySignal(s)
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
