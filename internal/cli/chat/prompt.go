package chat

import (
	"fmt"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// edit gives the person a line editor, if their terminal can show one.
func (t *talk) edit() error {
	tty, ok := t.streams.Terminal()
	if !ok || ui.CheckWindow("", "") != nil {
		return nil
	}
	e, err := newEditor(tty)
	if err != nil {
		return err
	}
	t.editor, t.streams.Stdout.Above = e, e
	e.complete = func(line string) []string {
		t.mu.Lock()
		defer t.mu.Unlock()
		return completions(line, t.commands, t.models)
	}
	return nil
}

// closeEditor restores the terminal. It may be called more than once.
func (t *talk) closeEditor() {
	if t.editor != nil {
		t.editor.close()
		t.streams.Stdout.Above = nil
	}
}

// inviteEditor shows the prompt in the editor. A line that the person began before a question
// came is a message; the question follows once that line is sent.
func (t *talk) inviteEditor() {
	p := t.streams.Stdout
	begun := t.editor.typing()
	switch {
	case t.leaving || t.progress.end != nil:
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
	case t.unfinished != "":
		t.editor.remember(true) // a question may have come between two lines of the message
		t.editor.setPrompt(p.Paint(ui.Bold, ". "))
	default:
		t.editor.remember(true)
		st := ui.Dim
		if t.free() {
			st = ui.Bold
		}
		t.editor.setPrompt(p.Paint(st, t.contextUse()+"> "))
	}
}

// contextUse returns how full the agent's context window is, for the prompt; "" if the agent does
// not report it.
func (t *talk) contextUse() string {
	u := t.usage
	if u.ContextTokens <= 0 || u.ContextWindow <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%% ", min(100, (100*u.ContextTokens+u.ContextWindow/2)/u.ContextWindow))
}

// learn notes the commands and models of the agent, and its usage.
func (t *talk) learn(ev api.DialogueEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
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

// invite shows the prompt: for an answer to a question, or for a message if the agent waits for
// one. It shows the prompt again if other output has followed it.
func (t *talk) invite() {
	if t.editor != nil {
		t.inviteEditor()
		return
	}
	switch {
	case t.promptAt == t.view.written || t.view.open != "" || t.progress.end != nil || t.leaving:
	case t.asking != nil:
		t.view.endLine()
		t.put(t.asking.prompt(t.streams.Stdout))
	case t.answering == nil && t.free():
		t.view.begin("text")
		t.put(t.streams.Stdout.Paint(ui.Bold, "> "))
	}
}

// put shows a prompt.
func (t *talk) put(prompt string) {
	t.view.write(prompt)
	t.promptAt = t.view.written
}
