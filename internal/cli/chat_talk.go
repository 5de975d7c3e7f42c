package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

const (
	// twice is how soon after another a Ctrl-C leaves, also when the agent still works.
	twice = 2 * time.Second
	// askAfter is how long a request must have been open before the person is asked: those
	// that a rule answers are closed by then, unless the machine is busy.
	askAfter = 50 * time.Millisecond
)

// talk is a person who talks with an agent. The goroutine that calls run does all that
// touches the person's terminal.
//
// Goroutines: one that receives, one that sends what was typed, in order, one for each
// interrupt and each look at what is wrong, one that starts a daemon, and one that reads what
// is typed. All end with run, but the last two: a read of a file that is no terminal cannot be
// ended, the end of the program ends it.
type talk struct {
	*chat
	course
	view             *dialogueView
	editor           *editor // nil where a person types whole lines
	asking           *asker
	asked            string // what the person was asked above the line where they answer
	usage            api.DialogueUsage
	knowing          sync.Mutex
	commands, models []string // guarded by knowing; of the agent
	begun            string   // lines that end with a backslash
	shown            int      // what the view had written when the prompt was shown; -1 when it is not there
	ask              *time.Timer
	outage           ui.Outage

	answering *api.DialogueRequest // whose answer is on its way
	held      []typed              // what was typed since

	pressed time.Time // when Ctrl-C was pressed last; zero when something was typed since
	leaving bool      // nothing more is typed

	calls    chan call
	outcomes chan func() // what came of them, for the goroutine of run
	unsent   int         // calls whose outcome is not known yet
}

// call is something that is sent, and what is to be done with its outcome.
type call struct {
	send func(context.Context) error
	then func(error)
}

// talk lets a person talk with the agent until they leave, or it ends.
func (ch *chat) talk() error {
	ctx, cancel := context.WithCancel(ch.cmd.Context())
	defer cancel()
	signals, stop := chatSignals()
	defer stop()
	first := ch.prompt
	ch.client.ReconnectFor = ui.InteractiveSearchTime
	interrupted, err := ch.openFor(ctx, signals)
	if err != nil {
		return err
	}
	if interrupted {
		return errors.Join(ch.closeFor(ctx, signals, func() {}), ui.ExitWith(api.ExitCancelled))
	}
	t := &talk{
		chat: ch, course: course{state: ch.info.State}, view: newDialogueView(ch.app.Stdout),
		shown: -1, ask: time.NewTimer(time.Hour), outage: ui.NewOutage(), calls: make(chan call, 64), outcomes: make(chan func(), 64),
	}
	t.commands, t.models = ch.info.Commands, ch.info.Models
	t.usage = ch.info.Usage
	t.view.full = ch.app.verbose
	t.ask.Stop()
	if err := t.edit(); err != nil {
		return errors.Join(err, ch.close(ctx))
	}
	defer t.closeEditor() // also when this panics
	t.hello()
	err = t.run(ctx, signals, first)
	t.view.endLine()
	t.closeEditor()
	return t.leave(ctx, signals, err)
}

// hello says who the person talks to.
func (t *talk) hello() {
	i := t.info
	about := []string{i.Agent}
	for _, s := range []string{i.Version, i.Model, i.PermissionMode, i.WorkingDir} {
		if s != "" {
			about = append(about, ui.Printable(s))
		}
	}
	t.view.line(t.app.Stdout.Paint(ui.Dim, fmt.Sprintf("%s  %s", t.handle(), strings.Join(about, " · "))))
	t.view.last = "text"
}

// errLeaves says that the person leaves.
var errLeaves = errors.New("left")

func (t *talk) run(ctx context.Context, signals <-chan os.Signal, first string) error {
	after, err := t.catchUp(ctx)
	if err != nil {
		return err
	}
	t.troubled(t.info.Error)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := t.follow(ctx, after, false)
	if err != nil {
		return err
	}
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	looks, asks, quiet := make(chan api.DialogueInfo), make(chan api.DialogueInfo), time.NewTimer(lookEvery)
	defer quiet.Stop()
	typed := make(chan typed)
	var interrupts <-chan struct{}
	if t.editor != nil {
		interrupts = t.editor.interrupts
		go t.editor.lines(ctx, typed)
	} else {
		go readTyped(ctx, t.app.Stdin, typed)
	}
	go t.send(ctx)
	if first != "" {
		t.say(first)
	}
	for !t.leaving || t.unsent > 0 { // who leaves knows that all that was typed is sent
		t.invite()
		select {
		case e := <-events:
			quiet.Reset(lookEvery)
			if done, err := t.told(e); done || err != nil {
				return err
			}
			if t.course.state == api.DialogueError && t.course.fault == nil {
				go t.look(ctx, looks)
			}
		case <-quiet.C:
			if t.busy() {
				go t.look(ctx, looks)
			} else {
				quiet.Reset(lookEvery)
			}
		case info := <-looks:
			quiet.Reset(lookEvery)
			t.troubled(info.Error)
		case line, ok := <-typed:
			if !ok {
				t.leaving, typed = true, nil
				continue
			}
			t.line(line)
		case s := <-signals:
			if err := t.signal(ctx, s); err != nil {
				return err
			}
		case <-interrupts:
			if err := t.signal(ctx, unix.SIGINT); err != nil {
				return err
			}
		case <-continued: // after Ctrl-Z others have written to the terminal
			t.view.midLine, t.shown = false, -1
		case <-t.ask.C:
			go t.look(ctx, asks)
		case info := <-asks:
			// A request that no longer waits was answered by a rule: that event is on its way.
			if info.DialogueID != "" && info.Requests < len(t.course.requests) {
				t.ask.Reset(askAfter)
				continue
			}
			t.askNext()
		case <-t.outage.Notice.C:
			t.view.note(ui.Yellow, "the daemon is away; it is looked for")
		case <-t.outage.Stopped.C:
			return ui.ErrStopped
		case outcome := <-t.outcomes:
			t.unsent--
			outcome()
		}
		if err := t.app.Stdout.Err; err != nil {
			return err
		}
	}
	return errLeaves
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
			t.course.turns = map[string]whose{turn.TurnID: others}
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
		case c := <-t.calls:
			err := c.send(ctx)
			select {
			case t.outcomes <- func() { c.then(err) }:
			case <-ctx.Done():
			}
		case <-ctx.Done():
			return
		}
	}
}

// call has something sent, behind what was to be sent before.
func (t *talk) call(send func(context.Context) error, then func(error)) {
	select {
	case t.calls <- call{send, then}:
		t.unsent++
	default:
		then(errors.New("the daemon does not answer; this was not sent"))
	}
}

// invite shows the prompt: that of a question, or the one for a message when the agent
// waits for one. What was written since it was shown has taken its place.
func (t *talk) invite() {
	if t.editor != nil {
		t.inviteEditor()
		return
	}
	switch {
	case t.shown == t.view.written || t.view.open != "" || t.course.end != nil || t.leaving:
	case t.asking != nil:
		t.view.endLine()
		t.put(t.asking.prompt(t.app.Stdout))
	case t.answering == nil && t.free():
		t.view.begin("text")
		t.put(t.app.Stdout.Paint(ui.Bold, "> "))
	}
}

// put shows a prompt.
func (t *talk) put(prompt string) {
	t.view.write(prompt)
	t.shown = t.view.written
}

// told takes what the receiver tells. done says that the dialogue has ended.
func (t *talk) told(e told) (done bool, err error) {
	switch {
	case e.err != nil:
		return true, e.err
	case e.away != nil:
		t.outage.Begin(e.away)
	case e.back:
		if t.outage.End() {
			t.view.note(ui.Dim, "it is back")
		}
	case e.push.Type == api.EventEnd:
		return true, nil
	case e.push.Event != nil:
		t.happen(*e.push.Event)
	}
	return false, nil
}

// happen shows one event.
func (t *talk) happen(ev api.DialogueEvent) {
	if t.goesOn(ev) {
		t.view.note(ui.Dim, "it goes on")
	}
	t.course.take(ev)
	t.know(ev)
	t.view.event(ev)
	switch {
	case ev.Type == api.DialogueEventRequestOpened:
		t.ask.Reset(askAfter)
	case ev.Type == api.DialogueEventRequestClosed:
		t.answered(*ev.Request)
	}
}

// line takes what the person typed. An answer is typed at a question: what was typed
// before one came is a message, and what is typed while an answer is on its way waits until
// it is known whether the question is over.
func (t *talk) line(l typed) {
	t.pressed = time.Time{}
	early := t.asking != nil && l.at.Before(t.asking.shown)
	if !early && t.editor == nil {
		t.view.midLine, t.shown = false, -1 // the terminal has ended the line
	}
	line := l.text
	switch {
	case l.cut:
		t.problem(ui.WithHint(fmt.Errorf("the line is longer than a terminal can take: it was not sent"),
			"put it into a file: trl dialogue send %s < FILE", t.handle()))
		return
	case t.answering != nil:
		t.held = append(t.held, l)
		return
	case early && t.asking.again:
		t.notSent(line)
		return
	case t.asking != nil && !early:
		t.reply(line)
		return
	}
	if more, ok := strings.CutSuffix(line, `\`); ok {
		t.begun += more + "\n"
		if t.editor == nil {
			t.put(t.app.Stdout.Paint(ui.Bold, ". "))
		}
		return
	}
	line, t.begun = t.begun+line, ""
	if strings.TrimSpace(line) != "" && !t.command(line) {
		t.say(line)
	}
}

// notUTF8 is told of what no message can carry.
const notUTF8 = "this is not UTF-8, and was not sent"

// say gives the agent a message.
func (t *talk) say(text string) {
	if !utf8.ValidString(text) {
		t.view.note(ui.Red, notUTF8)
		return
	}
	id := newMessageID()
	t.view.own[id] = true
	t.expect(id)
	t.call(func(ctx context.Context) error { return t.deliver(ctx, id, text) }, func(err error) {
		if err == nil {
			return
		}
		t.problem(err)
		if t.awaited == id { // there is nothing to wait for
			t.expect("")
		}
	})
}

// problem tells what went wrong. The person goes on.
func (t *talk) problem(err error) {
	t.view.note(ui.Red, err.Error())
	if hint := ui.HintFor(err); hint != "" {
		t.view.note(ui.Dim, "hint: "+hint)
	}
}

// troubled tells why the dialogue does not go on, if anything is wrong.
func (t *talk) troubled(why *api.DialogueFault) {
	if why != nil && t.stops(*why) {
		t.problem(t.stuck(*why))
		if why.Code != recordFailed && why.Reason != "session_gone" {
			t.view.note(ui.Dim, "here, /retry does")
		}
	}
}
