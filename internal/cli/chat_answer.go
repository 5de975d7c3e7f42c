package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// nobody is what an agent is told that asks where nobody is to be asked.
const nobody = "This was not allowed, and nobody is here to be asked."

// answer prints the agent's answer to the prompt, for a program.
func (ch *chat) answer() (err error) {
	ctx, cancel := context.WithCancel(ch.cmd.Context())
	defer cancel()
	signals, stop := chatSignals()
	defer stop()
	interrupted, err := ch.openFor(ctx, signals)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := ch.closeFor(ctx, signals, func() {}); err == nil {
			err = closeErr
		}
	}()
	if interrupted {
		return ui.ExitWith(api.ExitCancelled)
	}
	ch.sayWhich()
	r := ch.newReply()
	events, err := ch.follow(ctx, ch.info.Seq, !ch.app.Stdout.TTY && !ch.flags.json)
	if err != nil {
		return err
	}
	id := newMessageID()
	r.expect(id)
	r.out.own[id], r.err.own[id] = true, true
	if err := ch.deliver(ctx, id, ch.prompt); err != nil {
		return err
	}
	return r.wait(ctx, events, signals)
}

// sayWhich tells where the answer comes from, to who wants to know, or needs it to go on.
func (ch *chat) sayWhich() {
	if ch.app.verbose || ch.flags.keep {
		ch.app.Stderr.Linef("trl: dialogue %s", ch.info.DialogueID)
	}
	if ch.info.Requests > 0 {
		ch.sayWaits()
	}
}

// sayWaits tells of a request that is for others to answer.
func (ch *chat) sayWaits() {
	ch.app.Stderr.Linef("trl: dialogue %s: waits for the answer to an earlier request (see `trl dialogue show %[1]s`)", ch.info.DialogueID)
}

// reply is one answer on its way to a program.
type reply struct {
	*chat
	course
	out, err *dialogueView       // what the agent says; what else is to be told
	held     []api.DialogueEvent // of a turn of which it is not clear yet whether it is our answer
	waits    bool                // for work in the background, and said so
	pending  bool                // a request of another turn may wait, and no note about it was printed
}

func (ch *chat) newReply() *reply {
	r := &reply{chat: ch, course: course{state: ch.info.State}}
	r.out, r.err = newDialogueView(ch.app.Stdout), newDialogueView(ch.app.Stderr)
	r.out.work, r.out.notes = false, false
	r.err.answers, r.err.work, r.err.full = false, ch.app.verbose, ch.app.verbose
	return r
}

// wait prints the answer as it comes, until the agent is at rest.
func (r *reply) wait(ctx context.Context, events <-chan told, signals <-chan os.Signal) error {
	var late <-chan time.Time
	if s := r.flags.timeout.Value; s != nil && *s > 0 {
		timer := time.NewTimer(time.Duration(*s * float64(time.Second)))
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
				continue // nothing is missing then
			}
			if done, err := r.take(ctx, t.push); done || err != nil {
				if err == nil && stopped {
					err = ui.ExitWith(api.ExitCancelled)
				}
				return err
			}
			if ev := t.push.Event; ev != nil {
				r.attend(ctx, *ev, looks)
			}
		case <-quiet.C:
			go r.look(ctx, looks)
		case info := <-looks:
			quiet.Reset(lookEvery)
			if r.pending && info.State == api.DialogueRequiresAction {
				r.pending = false
				r.sayWaits()
			}
			if err := r.troubled(info.Error); err != nil {
				return err
			}
		case <-late:
			r.out.endLine()
			r.app.Stderr.Linef("trl: dialogue %s: no answer after %s", r.info.DialogueID, ui.Seconds(*r.flags.timeout.Value))
			r.interrupt(ctx)
			return ui.ExitWith(api.ExitTimedOut)
		case <-signals:
			if stopped {
				return ui.ExitWith(api.ExitCancelled)
			}
			stopped = true
			go r.interrupt(ctx) // its outcome is an event
		}
	}
}

// take prints one push. done says that it was the last of the answer.
func (r *reply) take(ctx context.Context, push api.StreamEvent) (done bool, err error) {
	if r.flags.json {
		if err := r.app.Stdout.JSONLine(push); err != nil {
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
	r.course.take(ev)
	r.sift(ctx, ev)
	if err := r.app.Stdout.Err; err != nil {
		return true, err
	}
	switch {
	case r.course.end != nil:
		r.out.endLine()
		return true, ui.ExitWith(ui.ExitBroken)
	case r.settled():
		r.out.endLine()
		return true, ui.ExitWith(r.status())
	case r.done && !r.busy() && r.running() > 0 && !r.waits:
		r.waits = true
		r.err.note(ui.Dim, "waits for "+ui.Plural(r.running(), "task", "tasks")+" in the background; Ctrl-C twice leaves and ends them")
	}
	return false, nil
}

// sift shows what is about our message. In a dialogue that goes on, the agent may still
// work for another one, whose answer would be a wrong one here.
func (r *reply) sift(ctx context.Context, ev api.DialogueEvent) {
	switch {
	case ev.Type == api.DialogueEventNotice || ev.Type == api.DialogueEventUnparsed || ev.Type == api.DialogueEventEnded: // of no turn
		r.show(ctx, ev)
	case ev.Type == api.DialogueEventMessage && ev.Message.MessageID == r.awaited && !r.taken && r.done:
		r.err.note(ui.Yellow, "the agent has not taken up the message: "+ev.Message.State)
	case r.last == unclear:
		r.held = append(r.held, ev)
	case r.last == ours:
		for _, held := range r.held {
			r.show(ctx, held)
		}
		r.held = nil
		r.show(ctx, ev)
	default:
		r.held = nil
	}
}

// show prints an event, and answers a request.
func (r *reply) show(ctx context.Context, ev api.DialogueEvent) {
	if !r.flags.json {
		r.out.event(ev)
	}
	r.err.event(ev)
	switch ev.Type {
	case api.DialogueEventRequestOpened:
		go r.deny(ctx, *ev.Request)
	case api.DialogueEventRequestClosed:
		if _, asked := r.err.requests[ev.Request.RequestID]; asked && ev.Request.By == "client" && ev.Request.Decision == "deny" {
			r.err.note(ui.Yellow, "denied, as nobody is here to be asked: "+requestTitle(r.err.opened(*ev.Request)))
		}
	}
}

// attend does what an event asks for.
func (r *reply) attend(ctx context.Context, ev api.DialogueEvent, looks chan<- api.DialogueInfo) {
	if r.goesOn(ev) {
		r.err.note(ui.Dim, "it goes on")
	}
	if ev.Type != api.DialogueEventState {
		return
	}
	// A rule answers a request before anybody can see that it waits: only what waits when it
	// is looked at is for a person.
	r.pending = ev.State == api.DialogueRequiresAction && r.last == others
	if r.pending || ev.State == api.DialogueError {
		go r.look(ctx, looks)
	}
}

// troubled tells why the dialogue does not go on, if anything is wrong. What gets over by itself is waited for;
// an agent that cannot be reached is left alone, for whoever looks for it again.
func (r *reply) troubled(why *api.DialogueFault) error {
	if why == nil || !r.stops(*why) {
		return nil
	}
	if why.Code == recordFailed {
		r.err.note(ui.Yellow, r.stuck(*why).Error())
		return nil
	}
	r.out.endLine()
	r.ours = false
	return r.stuck(*why)
}

// deny answers for somebody who is not there. A rule, or another client, may have answered before.
func (r *reply) deny(ctx context.Context, q api.DialogueRequest) {
	_, _ = r.client.DialogueRespond(ctx, api.DialogueRespondParams{
		DialogueID: r.info.DialogueID, RequestID: q.RequestID, Decision: "deny", Message: nobody,
	})
}

// interruptTime bounds the waiting for an agent to hear that it is to stop.
const interruptTime = 2 * time.Second

// interrupt stops the agent. One that has ended, or does nothing, is as good.
func (ch *chat) interrupt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, interruptTime)
	defer cancel()
	_, _ = ch.client.DialogueInterrupt(ctx, api.DialogueInterruptParams{DialogueID: ch.info.DialogueID})
}

// recordFailed is the code of a fault that gets over by itself, when there is room on the
// disk again.
const recordFailed = "record_failed"

// lookEvery is how often it is looked why nothing happens: that the record cannot be
// written is no event, which would have to be written.
const lookEvery = 2 * time.Second

// look finds out why the dialogue does not go on. Of an error the stream tells what there is
// to say.
func (ch *chat) look(ctx context.Context, looks chan<- api.DialogueInfo) {
	info, _ := ch.client.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: ch.info.DialogueID})
	select {
	case looks <- info:
	case <-ctx.Done():
	}
}

// stuck is the error of a dialogue that cannot go on.
func (ch *chat) stuck(why api.DialogueFault) error {
	id := ch.info.DialogueID
	if why.Code == recordFailed {
		return &ui.Failure{Err: fmt.Errorf("dialogue %s: its record cannot be written: %s; it continues when the disk has room", id, why.Message), Status: ui.ExitBroken}
	}
	hint := fmt.Sprintf("`trl dialogue retry %s` looks for it again", id)
	switch why.Reason {
	case "auth_rejected":
		hint = fmt.Sprintf("renew the credentials, then `trl dialogue retry %s`", id)
	case "session_gone":
		hint = fmt.Sprintf("`trl chat --resume %s` starts the agent again", id)
	}
	return &ui.Failure{Err: fmt.Errorf("dialogue %s: the agent cannot be reached: %s", id, why.Message), Status: ui.ExitBroken, Hint: hint}
}
