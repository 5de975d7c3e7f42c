package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// ownCommands are those that a person gives to trl, not to the agent.
var ownCommands = []string{"/help", "/model", "/retry"}

// command does what a line that begins with one of ownCommands says. It reports whether the
// line was one.
func (t *talk) command(line string) bool {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch name {
	case "/retry":
		t.retry()
	case "/model":
		t.setModel(rest)
	case "/help":
		t.view.note(ui.Dim, "/retry looks again for an agent that cannot be reached; /model NAME changes the model; /help is this. Other lines are for the agent.")
		if len(t.commands) > 0 {
			t.view.note(ui.Dim, "the agent's own: "+strings.Join(t.commands, " "))
		}
	default:
		return false
	}
	return true
}

// retry looks again for an agent that could not be reached.
func (t *talk) retry() {
	if t.course.state != api.DialogueError && t.course.fault == nil {
		t.view.note(ui.Dim, "nothing is wrong")
		return
	}
	t.view.note(ui.Dim, "looking for the agent again")
	var now api.DialogueInfo
	t.call(func(ctx context.Context) (err error) {
		now, err = t.client.DialogueRetry(ctx, api.DialogueRetryParams{DialogueID: t.info.DialogueID})
		return err
	}, func(err error) {
		if err != nil {
			t.problem(err)
			return
		}
		was := t.course.fault
		t.course.fault = nil
		if t.troubled(now.Error); now.Error == nil && was != nil { // unless an event has told it before
			t.view.note(ui.Dim, "it goes on")
		}
	})
}

// setModel changes the model.
func (t *talk) setModel(name string) {
	if name == "" {
		t.view.note(ui.Dim, fmt.Sprintf("the model is %s; /model NAME changes it", ui.OrDash(t.info.Model)))
		return
	}
	t.call(func(ctx context.Context) error {
		_, err := t.client.DialogueSet(ctx, api.DialogueSetParams{DialogueID: t.info.DialogueID, Model: name})
		return err
	}, func(err error) {
		if err != nil {
			t.problem(err)
			return
		}
		t.view.note(ui.Dim, "the model is "+ui.Printable(name)+" from now on")
	})
}

// completions is what a line may go on to: the commands, and behind /model the models.
func completions(line string, commands, models []string) []string {
	var found []string
	words, prefix := slices.Concat(ownCommands, commands), ""
	if strings.HasPrefix(line, "/model ") {
		words, prefix = models, "/model "
	} else if !strings.HasPrefix(line, "/") {
		return nil
	}
	for _, w := range words {
		if w = prefix + w; strings.HasPrefix(w, line) {
			found = append(found, w)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// edit gives the person a line editor, where their terminal can show one.
func (t *talk) edit() error {
	tty, ok := t.app.Terminal()
	if !ok || ui.CheckWindow("", "") != nil {
		return nil
	}
	e, err := newEditor(tty)
	if err != nil {
		return err
	}
	t.editor, t.app.Stdout.Above = e, e
	e.complete = func(line string) []string {
		t.knowing.Lock()
		defer t.knowing.Unlock()
		return completions(line, t.commands, t.models)
	}
	return nil
}

// closeEditor gives the terminal back. It may be called more than once.
func (t *talk) closeEditor() {
	if t.editor != nil {
		t.editor.close()
		t.app.Stdout.Above = nil
	}
}

// inviteEditor shows the prompt that fits. A line that was begun before a question came stays
// a message until it is sent: the question is answered behind it.
func (t *talk) inviteEditor() {
	p := t.app.Stdout
	begun := t.editor.typing()
	switch {
	case t.leaving || t.course.end != nil:
		t.editor.setPrompt("")
	case t.asking != nil && t.answering == nil && (begun.IsZero() || begun.After(t.asking.shown)):
		above, prompt := "", t.asking.prompt(p)
		if at := strings.LastIndexByte(prompt, '\n'); at >= 0 {
			above, prompt = prompt[:at+1], prompt[at+1:]
		}
		if key := t.asking.request.RequestID + above; above != "" && key != t.asked {
			t.asked = key
			t.view.endLine()
			t.view.write(above)
		}
		t.editor.remember(false)
		t.editor.setPrompt(prompt)
	case t.begun != "":
		t.editor.setPrompt(p.Paint(ui.Bold, ". "))
	default:
		t.editor.remember(true)
		st := ui.Dim
		if t.free() {
			st = ui.Bold
		}
		t.editor.setPrompt(p.Paint(st, t.context()+"> "))
	}
}

// context is how full the agent's memory is, for the prompt; "" when it does not tell.
func (t *talk) context() string {
	u := t.usage
	if u.ContextTokens <= 0 || u.ContextWindow <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%% ", min(100, (100*u.ContextTokens+u.ContextWindow/2)/u.ContextWindow))
}

// know takes what the agent can do, and how much it remembers.
func (t *talk) know(ev api.DialogueEvent) {
	t.knowing.Lock()
	defer t.knowing.Unlock()
	if o := ev.Opened; o != nil {
		if len(o.Commands) > 0 {
			t.commands = o.Commands
		}
		if len(o.Models) > 0 {
			t.models = o.Models
		}
	}
	if ev.Type == api.DialogueEventUsage && ev.Usage != nil {
		t.usage = *ev.Usage
	}
}
