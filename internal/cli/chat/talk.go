package chat

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
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
)

const (
	// twice is how soon a second Ctrl-C must follow the first to leave while the agent works.
	twice = 2 * time.Second
	// askAfter is how long a request must be open before trl asks the person: by then, a rule
	// has usually closed the requests that it answers.
	askAfter = 50 * time.Millisecond
)

// talk is a conversation with a person. Only the goroutine that calls run touches the person's
// terminal.
//
// Goroutines: one follows the dialogue, one sends messages and answers in order, one reads what
// the person types, and one runs for each interrupt and each inspect. All end with run, except
// the reader where there is no editor: a read of a file cannot be ended, so the end of the
// program ends it.
type talk struct {
	*conversation
	progress
	view             *view
	editor           *editor // nil if the terminal cannot show one; the person then types whole lines
	asking           *asker
	asked            string // the question that is shown above the prompt of the editor
	usage            api.DialogueUsage
	mu               sync.Mutex
	commands, models []string // guarded by mu; of the agent
	unfinished       string   // the lines so far of a message whose last line ended with a backslash
	promptAt         int      // view.written when the prompt was shown; -1 if it is not shown
	askTimer         *time.Timer
	outage           ui.Outage

	answering *api.DialogueRequest // the request whose answer is on its way; nil for none
	held      []typedLine          // typed since then

	pressed time.Time // when Ctrl-C was pressed; zero if the person has typed a line since
	leaving bool      // the person has closed the input

	calls    chan call
	outcomes chan func() // of the calls, for the goroutine of run
	unsent   int         // calls without an outcome so far
}

// call is a request to the daemon, and what run does with its outcome.
type call struct {
	send func(context.Context) error
	then func(error)
}

// Talk lets a person talk with the agent until the person leaves or the agent ends.
func Talk(ctx context.Context, s ui.Streams, c *client.Client, o Options) error {
	ch := &conversation{Options: o, streams: s, client: c}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals, stop := catchSignals()
	defer stop()
	ch.client.ReconnectFor = ui.InteractiveSearchTime
	interrupted, err := ch.beginOrInterrupt(ctx, signals)
	if err != nil {
		return err
	}
	if interrupted {
		return errors.Join(ch.closeOrInterrupt(ctx, signals, func() {}), ui.ExitWith(api.ExitCancelled))
	}
	t := &talk{
		conversation: ch, progress: progress{state: ch.info.State}, view: newView(ch.streams.Stdout),
		promptAt: -1, askTimer: time.NewTimer(time.Hour), outage: ui.NewOutage(), calls: make(chan call, 64), outcomes: make(chan func(), 64),
	}
	t.commands, t.models = ch.info.Commands, ch.info.Models
	t.usage = ch.info.Usage
	t.view.full = ch.Verbose
	t.askTimer.Stop()
	if err := t.edit(); err != nil {
		return errors.Join(err, ch.close(ctx))
	}
	defer t.closeEditor() // also when this panics
	t.hello()
	err = t.run(ctx, signals, o.Prompt)
	t.view.endLine()
	t.closeEditor()
	return t.leave(ctx, signals, err)
}

// hello prints which agent the person talks to.
func (t *talk) hello() {
	i := t.info
	about := []string{i.Agent}
	for _, s := range []string{i.Version, i.Model, i.PermissionMode, i.WorkingDir} {
		if s != "" {
			about = append(about, ui.Printable(s))
		}
	}
	t.view.line(t.streams.Stdout.Paint(ui.Dim, fmt.Sprintf("%s  %s", t.dialogueName(), strings.Join(about, " · "))))
	t.view.last = "text"
}

// errLeaves is the result of run when the person leaves.
var errLeaves = errors.New("left")

func (t *talk) run(ctx context.Context, signals <-chan os.Signal, first string) error {
	after, err := t.catchUp(ctx)
	if err != nil {
		return err
	}
	t.reportFault(t.info.Error)
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
	typed := make(chan typedLine)
	var interrupts <-chan struct{}
	if t.editor != nil {
		interrupts = t.editor.interrupts
		t.invite() // the library draws the first prompt when it begins to read, and does not redraw an empty one
		go t.editor.lines(ctx, typed)
	} else {
		go readTyped(ctx, t.streams.Stdin, typed)
	}
	go t.send(ctx)
	if first != "" {
		t.sendMessage(first)
	}
	for !t.leaving || t.unsent > 0 { // everything that was typed is sent before leaving
		t.invite()
		select {
		case e := <-events:
			quiet.Reset(lookEvery)
			if done, err := t.handle(e); done || err != nil {
				return err
			}
			if t.progress.state == api.DialogueError && t.progress.fault == nil {
				go t.inspect(ctx, looks)
			}
		case <-quiet.C:
			if t.busy() {
				go t.inspect(ctx, looks)
			} else {
				quiet.Reset(lookEvery)
			}
		case info := <-looks:
			quiet.Reset(lookEvery)
			t.reportFault(info.Error)
		case line, ok := <-typed:
			if !ok {
				t.leaving, typed = true, nil
				continue
			}
			t.handleLine(line)
		case s := <-signals:
			if err := t.signal(ctx, s); err != nil {
				return err
			}
		case <-interrupts:
			if err := t.signal(ctx, unix.SIGINT); err != nil {
				return err
			}
		case <-continued: // after Ctrl-Z, other programs may have written to the terminal
			t.view.midLine, t.promptAt = false, -1
		case <-t.askTimer.C:
			go t.inspect(ctx, asks)
		case info := <-asks:
			// A rule has answered a request that no longer waits; its event is on its way.
			if info.DialogueID != "" && info.Requests < len(t.progress.requests) {
				t.askTimer.Reset(askAfter)
				continue
			}
			t.askNext()
		case <-t.outage.Notice.C:
			t.view.note(ui.Yellow, "the daemon is away; reconnecting")
		case <-t.outage.Stopped.C:
			return ui.ErrStopped
		case outcome := <-t.outcomes:
			t.unsent--
			outcome()
		}
		if err := t.streams.Stdout.Err; err != nil {
			return err
		}
	}
	return errLeaves
}

// catchUp shows a joined dialogue from its last message on, with its open requests. It returns
// the sequence number to continue after.
func (t *talk) catchUp(ctx context.Context) (after int64, err error) {
	if !t.Joined {
		return t.info.Seq, nil
	}
	tr, err := t.client.DialogueTranscript(ctx, api.DialogueTranscriptParams{DialogueID: t.info.DialogueID})
	if err != nil {
		return 0, err
	}
	for _, turn := range tr.Turns {
		if turn.Outcome == "" {
			t.progress.turns = map[string]party{turn.TurnID: others}
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
			t.progress.requests = append(t.progress.requests, r)
			t.askTimer.Reset(0)
		}
	}
	t.progress.state = tr.State
	return tr.Seq, nil
}

// send makes the calls, one after the other.
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

// call queues a call behind the earlier ones.
func (t *talk) call(send func(context.Context) error, then func(error)) {
	select {
	case t.calls <- call{send, then}:
		t.unsent++
	default:
		then(errors.New("the daemon does not answer; this was not sent"))
	}
}

// handle handles an update of the dialogue. done reports that the dialogue has ended.
func (t *talk) handle(e update) (done bool, err error) {
	switch {
	case e.err != nil:
		return true, e.err
	case e.away != nil:
		t.outage.Begin(e.away)
	case e.back:
		if t.outage.End() {
			t.view.note(ui.Dim, "the daemon is back")
		}
	case e.push.Type == api.EventEnd:
		return true, nil
	case e.push.Event != nil:
		t.handleEvent(*e.push.Event)
	}
	return false, nil
}

// handleEvent shows one event and acts on it.
func (t *talk) handleEvent(ev api.DialogueEvent) {
	if t.recovers(ev) {
		t.view.note(ui.Dim, "the dialogue continues")
	}
	t.progress.apply(ev)
	t.learn(ev)
	t.view.event(ev)
	switch {
	case ev.Type == api.DialogueEventRequestOpened:
		t.askTimer.Reset(askAfter)
	case ev.Type == api.DialogueEventRequestClosed:
		t.answered(*ev.Request)
	}
}

// handleLine takes a line that the person typed. It is an answer if the person began it after
// the question was shown, otherwise a message. A line that comes while an answer is on its way
// waits for the outcome of that answer.
func (t *talk) handleLine(l typedLine) {
	t.pressed = time.Time{}
	early := t.asking != nil && l.at.Before(t.asking.shown)
	if !early && t.editor == nil {
		t.view.midLine, t.promptAt = false, -1 // the terminal has ended the line
	}
	line := l.text
	switch {
	case l.cut:
		t.problem(ui.WithHint(fmt.Errorf("the line is longer than the terminal accepts, and was not sent"),
			"put it into a file: trl dialogue send %s < FILE", t.dialogueName()))
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
		t.unfinished += more + "\n"
		if t.editor == nil {
			t.put(t.streams.Stdout.Paint(ui.Bold, ". "))
		}
		return
	}
	line, t.unfinished = t.unfinished+line, ""
	if strings.TrimSpace(line) != "" && !t.command(line) {
		t.sendMessage(line)
	}
}

// notUTF8 is the note about a line that no message can carry.
const notUTF8 = "this is not UTF-8, and was not sent"

// sendMessage sends the agent a message.
func (t *talk) sendMessage(text string) {
	if !utf8.ValidString(text) {
		t.view.note(ui.Red, notUTF8)
		return
	}
	id := messageID()
	t.view.own[id] = true
	t.expect(id)
	t.call(func(ctx context.Context) error { return t.deliver(ctx, id, text) }, func(err error) {
		if err == nil {
			return
		}
		t.problem(err)
		if t.awaited == id { // no answer will come
			t.expect("")
		}
	})
}

// problem shows an error. The conversation goes on.
func (t *talk) problem(err error) {
	t.view.note(ui.Red, err.Error())
	if hint := ui.HintFor(err); hint != "" {
		t.view.note(ui.Dim, "hint: "+hint)
	}
}

// reportFault shows why the dialogue does not go on, if there is a fault.
func (t *talk) reportFault(why *api.DialogueFault) {
	if why != nil && t.setFault(*why) {
		t.problem(t.faultError(*why))
		if why.Code != recordFailed && why.Reason != "session_gone" {
			t.view.note(ui.Dim, "in this chat, /retry does the same")
		}
	}
}
