package chat

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// denial is the answer to a request of the agent when no person can be asked.
const denial = "This was not allowed, and there is no person to ask."

// Answer sends the prompt and prints the agent's answer, for a program. It denies every request
// of the agent that no rule answers.
func Answer(ctx context.Context, s ui.Streams, c *client.Client, o Options) (err error) {
	ch := &conversation{Options: o, streams: s, client: c}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals, stop := catchSignals()
	defer stop()
	interrupted, err := ch.beginOrInterrupt(ctx, signals)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := ch.closeOrInterrupt(ctx, signals, func() {}); err == nil {
			err = closeErr
		}
	}()
	if interrupted {
		return ui.ExitWith(api.ExitCancelled)
	}
	ch.announce()
	r := ch.newReply()
	events, err := ch.follow(ctx, ch.info.Seq, !ch.streams.Stdout.TTY && !ch.JSON)
	if err != nil {
		return err
	}
	id := messageID()
	r.expect(id)
	r.out.own[id], r.err.own[id] = true, true
	if err := ch.deliver(ctx, id, ch.Prompt); err != nil {
		return err
	}
	return r.wait(ctx, events, signals)
}

// announce prints the id of the dialogue if the caller asked for details or needs the id later,
// and a note if the dialogue already waits for a person.
func (ch *conversation) announce() {
	if ch.Verbose || ch.Keep {
		ch.streams.Stderr.Linef("trl: dialogue %s", ch.info.DialogueID)
	}
	if ch.info.Requests > 0 {
		ch.noteWaiting()
	}
}

// noteWaiting prints that a request waits for an answer from another client.
func (ch *conversation) noteWaiting() {
	ch.streams.Stderr.Linef("trl: dialogue %s: waits for the answer to an earlier request (see `trl dialogue show %[1]s`)", ch.info.DialogueID)
}

// reply follows the dialogue until the agent has answered one message.
type reply struct {
	*conversation
	progress
	out, err    *view               // of stdout, for the agent's text; of stderr, for everything else
	held        []api.DialogueEvent // of a turn that may or may not answer our message
	saidWaiting bool                // a note about tasks in the background was printed
	pending     bool                // a request of another turn may be waiting, without a note about it so far
}

func (ch *conversation) newReply() *reply {
	r := &reply{conversation: ch, progress: progress{state: ch.info.State}}
	r.out, r.err = newView(ch.streams.Stdout), newView(ch.streams.Stderr)
	r.out.work, r.out.notes = false, false
	r.err.answers, r.err.work, r.err.full = false, ch.Verbose, ch.Verbose
	return r
}

// wait prints the answer as it comes, until the agent has finished.
func (r *reply) wait(ctx context.Context, events <-chan update, signals <-chan os.Signal) error {
	var late <-chan time.Time
	if r.Timeout > 0 {
		timer := time.NewTimer(r.Timeout)
		defer timer.Stop()
		late = timer.C
	}
	stopped := false
	looks, quiet := make(chan api.DialogueInfo), time.NewTimer(lookEvery)
	defer quiet.Stop()
	for {
		select {
		case t := <-events:
			quiet.Reset(lookEvery)
			if t.err != nil {
				return fmt.Errorf("dialogue %s: %w", r.info.DialogueID, t.err)
			}
			if t.away != nil || t.back {
				continue // the stream resumes without a gap
			}
			if done, err := r.handle(ctx, t.push); done || err != nil {
				if err == nil && stopped {
					err = ui.ExitWith(api.ExitCancelled)
				}
				return err
			}
			if ev := t.push.Event; ev != nil {
				r.react(ctx, *ev, looks)
			}
		case <-quiet.C:
			go r.inspect(ctx, looks)
		case info := <-looks:
			quiet.Reset(lookEvery)
			if r.pending && info.State == api.DialogueRequiresAction {
				r.pending = false
				r.noteWaiting()
			}
			if err := r.reportFault(info.Error); err != nil {
				return err
			}
		case <-late:
			r.out.endLine()
			r.streams.Stderr.Linef("trl: dialogue %s: no answer after %s", r.info.DialogueID, r.Timeout)
			r.interrupt(ctx)
			return ui.ExitWith(api.ExitTimedOut)
		case <-signals:
			if stopped {
				return ui.ExitWith(api.ExitCancelled)
			}
			stopped = true
			go r.interrupt(ctx) // the turn ends with an event
		}
	}
}

// handle prints one push. done reports that it was the last of the answer.
func (r *reply) handle(ctx context.Context, push api.StreamEvent) (done bool, err error) {
	if r.JSON {
		if err := r.streams.Stdout.JSONLine(push); err != nil {
			return true, err
		}
	}
	if push.Event == nil {
		if push.Type == api.EventEnd {
			return true, ui.ExitWith(ui.ExitBroken)
		}
		return false, nil
	}
	ev := *push.Event
	r.progress.apply(ev)
	r.sift(ctx, ev)
	if err := r.streams.Stdout.Err; err != nil {
		return true, err
	}
	switch {
	case r.progress.end != nil:
		r.out.endLine()
		return true, ui.ExitWith(ui.ExitBroken)
	case r.settled():
		r.out.endLine()
		return true, ui.ExitWith(r.status())
	case r.done && !r.busy() && r.running() > 0 && !r.saidWaiting:
		r.saidWaiting = true
		r.err.note(ui.Dim, "waits for "+ui.Plural(r.running(), "task", "tasks")+" in the background; Ctrl-C twice leaves and ends them")
	}
	return false, nil
}

// sift shows the events that belong to our message. In a joined dialogue, the agent may still
// work on an earlier message; that answer is not ours.
func (r *reply) sift(ctx context.Context, ev api.DialogueEvent) {
	switch {
	case ev.Type == api.DialogueEventNotice || ev.Type == api.DialogueEventUnparsed || ev.Type == api.DialogueEventEnded: // these belong to no turn
		r.show(ctx, ev)
	case ev.Type == api.DialogueEventMessage && ev.Message.MessageID == r.awaited && !r.taken && r.done:
		r.err.note(ui.Yellow, "the agent did not process the message: "+ev.Message.State)
	case r.lastParty == unclear:
		r.held = append(r.held, ev)
	case r.lastParty == ours:
		for _, held := range r.held {
			r.show(ctx, held)
		}
		r.held = nil
		r.show(ctx, ev)
	default:
		r.held = nil
	}
}

// show prints an event, and denies a request.
func (r *reply) show(ctx context.Context, ev api.DialogueEvent) {
	if !r.JSON {
		r.out.event(ev)
	}
	r.err.event(ev)
	switch ev.Type {
	case api.DialogueEventRequestOpened:
		go r.deny(ctx, *ev.Request)
	case api.DialogueEventRequestClosed:
		if _, asked := r.err.requests[ev.Request.RequestID]; asked && ev.Request.By == "client" && ev.Request.Decision == "deny" {
			r.err.note(ui.Yellow, "denied, because there is no person to ask: "+RequestTitle(r.err.opened(*ev.Request)))
		}
	}
}

// react acts on an event after it was printed.
func (r *reply) react(ctx context.Context, ev api.DialogueEvent, looks chan<- api.DialogueInfo) {
	if r.recovers(ev) {
		r.err.note(ui.Dim, "the dialogue continues")
	}
	if ev.Type != api.DialogueEventState {
		return
	}
	// A request that a rule answers is closed right away. Only one that still waits when inspect
	// asks is for a person.
	r.pending = ev.State == api.DialogueRequiresAction && r.lastParty == others
	if r.pending || ev.State == api.DialogueError {
		go r.inspect(ctx, looks)
	}
}

// reportFault prints why the dialogue does not go on, if there is a fault. It waits for a fault
// that ends by itself. If the agent cannot be reached, it returns an error and leaves the agent
// running, so that `trl dialogue retry` can find it again.
func (r *reply) reportFault(why *api.DialogueFault) error {
	if why == nil || !r.setFault(*why) {
		return nil
	}
	if why.Code == recordFailed {
		r.err.note(ui.Yellow, r.faultError(*why).Error())
		return nil
	}
	r.out.endLine()
	r.ours = false
	return r.faultError(*why)
}

// deny denies a request. It ignores errors: a rule or another client may have answered first.
func (r *reply) deny(ctx context.Context, q api.DialogueRequest) {
	_, _ = r.client.DialogueRespond(ctx, api.DialogueRespondParams{
		DialogueID: r.info.DialogueID, RequestID: q.RequestID, Decision: "deny", Message: denial,
	})
}
