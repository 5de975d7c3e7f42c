package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
)

const (
	// twice is how soon after another a Ctrl-C leaves, also when the agent still works.
	twice = 2 * time.Second
	// askAfter is how long a request must have been open before the person is asked: most
	// that a rule answers are closed by then.
	askAfter = 50 * time.Millisecond
)

// talk is a person who talks with an agent. The goroutine that calls run does all that
// touches the person's terminal.
//
// Goroutines: one that receives, one that sends what was typed, in order, one for each
// interrupt, one that starts a daemon, and one that reads what is typed. All end with run,
// but the last two: a read of a terminal cannot be ended, the end of the program ends it.
type talk struct {
	*chat
	course
	view   *dialogueView
	asking *asker
	begun  string // lines that end with a backslash
	shown  int    // what the view had written when the prompt was shown; -1 when it is not there
	ask    *time.Timer
	outage outage

	pressed time.Time // when Ctrl-C was pressed last; zero when something was typed since

	calls  chan func(context.Context) error // what is to be sent
	failed chan error                       // what came of it
}

// talk lets a person talk with the agent until they leave, or it ends.
func (ch *chat) talk() error {
	ctx, cancel := context.WithCancel(ch.cmd.Context())
	defer cancel()
	signals, stop := chatSignals()
	defer stop()
	first := ch.prompt
	ch.client.ReconnectFor = attachFor
	interrupted, err := ch.openFor(ctx, signals)
	if err != nil {
		return err
	}
	if interrupted {
		return errors.Join(ch.closeFor(ctx, signals, func() {}), exitWith(api.ExitCancelled))
	}
	t := &talk{
		chat: ch, course: course{state: ch.info.State}, view: newDialogueView(ch.app.stdout),
		shown: -1, ask: time.NewTimer(time.Hour), outage: newOutage(), calls: make(chan func(context.Context) error, 64), failed: make(chan error, 64),
	}
	t.view.full = ch.app.verbose
	t.ask.Stop()
	t.hello()
	err = t.run(ctx, signals, first)
	t.view.endLine()
	return t.leave(ctx, signals, err)
}

// hello says who the person talks to.
func (t *talk) hello() {
	i := t.info
	about := []string{i.Agent}
	for _, s := range []string{i.Version, i.Model, i.PermissionMode, i.WorkingDir} {
		if s != "" {
			about = append(about, printable(s))
		}
	}
	t.view.line(t.app.stdout.paint(dim, fmt.Sprintf("%s  %s", t.handle(), strings.Join(about, " · "))))
	t.view.last = "text"
}

// errLeaves says that the person leaves.
var errLeaves = errors.New("left")

func (t *talk) run(ctx context.Context, signals <-chan os.Signal, first string) error {
	after, err := t.catchUp(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := t.follow(ctx, after, false)
	if err != nil {
		return err
	}
	typed := make(chan typed)
	go readTyped(ctx, t.app.stdin, typed)
	go t.send(ctx)
	if first != "" {
		t.say(first)
	}
	for {
		t.invite()
		select {
		case e := <-events:
			if e.err != nil {
				return e.err
			}
			if e.away != nil {
				t.outage.begins(e.away)
			} else if e.back && t.outage.ends() {
				t.view.note(dim, "it is back")
			}
			if done, err := t.happen(ctx, e.push); done || err != nil {
				return err
			}
		case line, ok := <-typed:
			if !ok {
				t.view.endLine()
				return errLeaves
			}
			t.line(line)
		case s := <-signals:
			if err := t.signal(ctx, s); err != nil {
				return err
			}
		case <-t.ask.C:
			t.askNext()
		case <-t.outage.notice.C:
			t.view.note(yellow, "the daemon is away; it is looked for")
		case <-t.outage.restart.C:
			if t.outage.stopped {
				return errStopped
			}
			if start := t.app.another(t.cmd); start != nil {
				go start()
			}
		case err := <-t.failed:
			t.problem(err)
		}
		if err := t.app.stdout.err; err != nil {
			return err
		}
	}
}

// catchUp shows what came of the last message of a dialogue, and asks what waits for an
// answer. It returns the event after which to go on.
func (t *talk) catchUp(ctx context.Context) (after int64, err error) {
	if t.flags.join == "" {
		return t.info.Seq, nil
	}
	tr, err := t.client.DialogueTranscript(ctx, api.DialogueTranscriptParams{DialogueID: t.info.DialogueID})
	if err != nil {
		return 0, err
	}
	for _, turn := range tr.Turns {
		if turn.Outcome == "" {
			t.course.turns = map[string]bool{turn.TurnID: true}
		}
	}
	from := 0
	for i, it := range tr.Items {
		if it.Kind == "user" && !it.Synthetic {
			from = i
		}
	}
	t.view.tree("", tr.Items[from:])
	for _, r := range tr.Requests {
		if r.How == "" {
			t.course.requests = append(t.course.requests, r)
			t.ask.Reset(0)
		}
	}
	t.course.state = tr.State
	return tr.Seq, nil
}

// send does what is to be sent, one after the other.
func (t *talk) send(ctx context.Context) {
	for {
		select {
		case call := <-t.calls:
			if err := call(ctx); err != nil && ctx.Err() == nil {
				t.failed <- err
			}
		case <-ctx.Done():
			return
		}
	}
}

// call has something sent, behind what was to be sent before.
func (t *talk) call(f func(context.Context) error) {
	select {
	case t.calls <- f:
	default:
		t.problem(errors.New("the daemon does not answer; this was not sent"))
	}
}

// invite shows the prompt when the agent waits for a message.
func (t *talk) invite() {
	if t.shown == t.view.written || t.asking != nil || !t.free() || t.view.open != "" || t.course.end != nil {
		return
	}
	t.view.begin("text")
	t.put("> ")
}

// put shows a prompt.
func (t *talk) put(prompt string) {
	t.view.write(t.app.stdout.paint(bold, prompt))
	t.shown = t.view.written
}

// happen shows one push. done says that the dialogue has ended.
func (t *talk) happen(ctx context.Context, push api.StreamEvent) (done bool, err error) {
	if push.Type == api.EventEnd {
		return true, nil
	}
	if push.Event == nil {
		return false, nil
	}
	ev := *push.Event
	t.course.take(ev)
	t.view.event(ev)
	switch {
	case ev.Type == api.ToldRequestOpened:
		t.ask.Reset(askAfter)
	case ev.Type == api.ToldRequestClosed:
		t.answered(*ev.Request)
	case ev.Type == api.ToldState && ev.State == api.DialogueError:
		t.problem(t.unreachable(ctx))
	}
	return false, nil
}

// answered ends the asking when somebody else was faster, or the agent does not ask any more.
func (t *talk) answered(r api.DialogueRequest) {
	if t.asking == nil || t.asking.request.RequestID != r.RequestID {
		return
	}
	t.asking = nil
	how := map[string]string{"withdrawn": "the agent does not ask any more", "expired": "it took too long", "lost": "the agent is gone"}[r.How]
	if how == "" {
		how = "somebody else has answered: " + r.Decision
	}
	t.view.note(dim, how)
	t.ask.Reset(0)
}

// askNext asks the person about the request that has waited longest.
func (t *talk) askNext() {
	if t.asking != nil || len(t.course.requests) == 0 {
		return
	}
	t.asking = &asker{request: t.course.requests[0]}
	t.view.begin("text")
	t.view.write(t.asking.text(t.app.stdout))
	t.view.write(t.asking.prompt(t.app.stdout))
}

// line takes what the person typed.
func (t *talk) line(l typed) {
	t.view.midLine, t.shown, t.pressed = false, -1, time.Time{} // the terminal has ended the line
	line := l.text
	if l.cut {
		t.problem(withHint(fmt.Errorf("the line is longer than a terminal can take: it was not sent"),
			"put it into a file: trl dialogue send %s < FILE", t.handle()))
		return
	}
	if t.asking != nil {
		t.reply(line)
		return
	}
	if more, ok := strings.CutSuffix(line, `\`); ok {
		t.begun += more + "\n"
		t.put(". ")
		return
	}
	line, t.begun = t.begun+line, ""
	if strings.TrimSpace(line) != "" {
		t.say(line)
	}
}

// reply takes an answer to what is asked.
func (t *talk) reply(line string) {
	p, done, problem := t.asking.answer(line)
	if problem != "" {
		t.view.note(red, problem)
	}
	if !done {
		t.view.write(t.asking.prompt(t.app.stdout))
		return
	}
	p.DialogueID = t.info.DialogueID
	id := p.RequestID
	t.asking = nil
	t.course.take(api.DialogueEvent{Type: api.ToldRequestClosed, Request: &api.DialogueRequest{RequestID: id}})
	t.call(func(ctx context.Context) error {
		_, err := t.client.DialogueRespond(ctx, p)
		return err
	})
	t.ask.Reset(0)
}

// say gives the agent a message.
func (t *talk) say(text string) {
	if err := checkText("message", text); err != nil {
		t.problem(err)
		return
	}
	id := newMessageID()
	t.view.own[id] = true
	t.expect(id)
	t.call(func(ctx context.Context) error {
		_, err := t.client.DialogueSend(ctx, api.DialogueSendParams{DialogueID: t.info.DialogueID, Text: text, MessageID: id})
		return err
	})
}

// problem tells what went wrong. The person goes on.
func (t *talk) problem(err error) {
	t.view.note(red, err.Error())
	if hint := hintFor(err); hint != "" {
		t.view.note(dim, "hint: "+hint)
	}
	t.expect("") // it may not have been sent
}

// signal takes Ctrl-C: the first interrupts the agent, a second one leaves.
func (t *talk) signal(ctx context.Context, s os.Signal) error {
	if s != unix.SIGINT {
		return exitBySignal(s)
	}
	again := !t.pressed.IsZero() && (time.Since(t.pressed) < twice || !t.busy())
	t.pressed = time.Now()
	t.view.midLine = true // the terminal shows ^C
	t.view.endLine()
	t.shown, t.begun = -1, ""
	switch {
	case again:
		return errLeaves
	case t.busy():
		t.view.note(dim, "interrupting; Ctrl-C again leaves")
		go t.interrupt(ctx)
	default:
		t.view.note(dim, "Ctrl-C again leaves")
	}
	return nil
}

// leave ends the agent, unless it stays, and tells how to go on.
func (t *talk) leave(ctx context.Context, signals <-chan os.Signal, cause error) error {
	if t.course.end != nil || cause == nil || errors.Is(cause, io.EOF) {
		if e := t.course.end; e != nil && e.Cause != "closed" && e.Cause != "exited" {
			cause = exitWith(exitBroken)
		} else {
			cause = nil
		}
		t.ours = false
	}
	if errors.Is(cause, errLeaves) {
		cause = nil
	}
	if errors.Is(cause, errStopped) {
		return withHint(fmt.Errorf("dialogue %s: %w", t.handle(), cause), "the agent has ended with it: `trl chat --resume %s` goes on", t.info.DialogueID)
	}
	if errors.Is(cause, api.ErrRuntimeUnavailable) {
		return withHint(fmt.Errorf("dialogue %s: %w", t.handle(), cause), "the agent goes on: `trl chat --dialogue %s` when there is a daemon", t.handle())
	}
	next := "--resume"
	if !t.ours && t.course.end == nil {
		next = "--dialogue"
	}
	err := t.closeFor(ctx, signals, func() { t.view.note(dim, "the agent is being ended; Ctrl-C does not wait for it") })
	t.app.stderr.line(t.app.stderr.paint(dim, fmt.Sprintf("trl: to go on: trl chat %s %s", next, t.info.DialogueID)))
	if cause != nil {
		return cause
	}
	return err
}
