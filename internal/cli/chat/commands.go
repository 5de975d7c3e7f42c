package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// ownCommands are the commands of trl. All others are for the agent.
var ownCommands = []string{"/exit", "/help", "/model", "/quit", "/retry"}

// command runs a line that begins with one of ownCommands. It reports whether the line did.
func (t *talk) command(line string) bool {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch name {
	case "/retry":
		t.retry()
	case "/model":
		t.setModel(rest)
	case "/exit", "/quit":
		if rest != "" || slices.Contains(t.commands, name) { // an agent may have such a command itself
			return false
		}
		t.leaving = true
	case "/help":
		t.view.note(ui.Dim, "/retry tries again to reach the agent; /model NAME changes the model; /exit, /quit and Ctrl-D leave; /help prints this. All other lines go to the agent.")
		if len(t.commands) > 0 {
			t.view.note(ui.Dim, "commands of the agent: "+strings.Join(t.commands, " "))
		}
	default:
		return false
	}
	return true
}

// retry tries again to reach the agent.
func (t *talk) retry() {
	if t.progress.state != api.DialogueError && t.progress.fault == nil {
		t.view.note(ui.Dim, "there is nothing to retry: no error is known")
		return
	}
	t.view.note(ui.Dim, "trying again to reach the agent")
	var now api.DialogueInfo
	t.call(func(ctx context.Context) (err error) {
		now, err = t.client.DialogueRetry(ctx, api.DialogueRetryParams{DialogueID: t.info.DialogueID})
		return err
	}, func(err error) {
		if err != nil {
			t.problem(err)
			return
		}
		was := t.progress.fault
		t.progress.fault = nil
		if t.reportFault(now.Error); now.Error == nil && was != nil { // unless an event has already said so
			t.view.note(ui.Dim, "the dialogue continues")
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

// completions returns the lines that a line may become: commands, and after /model the models.
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
