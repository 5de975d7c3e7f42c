package chat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// PrintTranscript prints a transcript for a person.
func PrintTranscript(out *ui.Printer, tr api.DialogueTranscriptResult, full bool) {
	v := newView(out)
	v.full = full
	items := tr.Items
	if !full {
		items = slices.DeleteFunc(slices.Clone(items), func(it api.DialogueItem) bool { return it.Kind == "reasoning" })
	}
	// The end of a turn is shown after its last item.
	last := map[string]int{}
	for i, it := range items {
		last[it.TurnID] = i
	}
	for i, it := range items {
		v.tree("", []api.DialogueItem{it})
		n := slices.IndexFunc(tr.Turns, func(t api.DialogueTurn) bool { return t.TurnID == it.TurnID && t.Outcome != "" })
		if n >= 0 && last[it.TurnID] == i {
			v.turn(tr.Turns[n])
		}
	}
	for _, t := range tr.Tasks {
		if t.Status == "running" {
			v.note(ui.Yellow, "runs in the background: "+t.Name)
		}
	}
	v.endLine()
	for _, r := range tr.Requests {
		if r.How == "" {
			v.line(fmt.Sprintf("%s %s  %s", out.Paint(ui.Yellow, "?"), ui.Printable(r.RequestID), RequestTitle(r)))
		}
	}
	if tr.Ended != nil {
		v.ended(*tr.Ended)
	}
}

// editedText says that the input of a tool was changed.
func editedText(effective json.RawMessage) string {
	if effective == nil {
		return ""
	}
	return "(input changed to " + string(effective) + ")"
}

// EventText returns the content of an event in one line.
func EventText(ev api.DialogueEvent) string {
	var words []string
	switch {
	case ev.Opened != nil:
		o := ev.Opened
		words = []string{o.Agent, o.Version, o.Model, o.PermissionMode, o.NativeSession, o.Why}
	case ev.Type == api.DialogueEventState:
		words = []string{string(ev.State)}
	case ev.Turn != nil:
		words = []string{ev.Turn.TurnID, ev.Turn.Trigger, ev.Turn.Outcome, ev.Turn.Text}
	case ev.Item != nil && ev.Item.Tool != nil:
		words = []string{ev.Item.ItemID, ev.Item.Kind, ev.Item.Tool.Status, ev.Item.Tool.Name, ev.Item.Tool.Subject, editedText(ev.Item.Tool.EffectiveInput)}
	case ev.Item != nil:
		words = []string{ev.Item.ItemID, ev.Item.Kind, ev.Item.Status, partsText(ev.Item.Parts)}
	case ev.Delta != nil:
		words = []string{ev.Delta.ItemID, ev.Delta.Field, ev.Delta.Text}
	case ev.Retracted != nil:
		words = ev.Retracted
	case ev.Task != nil:
		words = []string{ev.Task.TaskID, ev.Task.Kind, ev.Task.Status, ev.Task.Name}
	case ev.Request != nil:
		words = []string{ev.Request.RequestID, ev.Request.Kind, ev.Request.How, ev.Request.Decision, ev.Request.By, ev.Request.Tool, ev.Request.Subject, editedText(ev.Request.EffectiveInput)}
	case ev.Message != nil:
		words = []string{ev.Message.MessageID, ev.Message.State}
	case ev.Notice != nil:
		words = []string{ev.Notice.Level, ev.Notice.Code, ev.Notice.Text}
	case ev.Unparsed != nil:
		words = []string{ev.Unparsed.Why, ev.Unparsed.Text}
	case ev.Ended != nil:
		words = []string{ev.Ended.Cause, EndedText(*ev.Ended)}
	case ev.Retry != nil:
		words = []string{fmt.Sprintf("attempt %d of %d", ev.Retry.Attempt, ev.Retry.Most), ev.Retry.Cause}
	case ev.Usage != nil:
		b, _ := json.Marshal(ev.Usage) // plain figures
		words = []string{string(b)}
	}
	if ev.Scope != "" {
		words = append([]string{"in " + ev.Scope + ":"}, words...)
	}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
}

// RequestTitle names a request in one line.
func RequestTitle(r api.DialogueRequest) string {
	about := r.Subject
	if about == "" {
		about = r.Title
	}
	if about == "" && len(r.Questions) > 0 {
		about = r.Questions[0].Question
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s", ui.Printable(cmp.Or(r.Tool, r.Kind)), ui.Printable(strings.TrimSpace(about))))
}

// EndedText says how the program of an agent ended.
func EndedText(e api.DialogueEnd) string {
	text := map[string]string{
		"closed": "the agent has ended, as requested", "exited": "the agent has ended",
		"unexpected_exit": "the agent has ended unexpectedly", "session_destroyed": "the session of the agent was ended",
	}[e.Cause]
	if text == "" {
		text = "the agent has ended: " + ui.Printable(e.Cause)
	}
	if e.Cause == "session_destroyed" && e.Text != "" {
		return text + ": " + ui.Printable(e.Text)
	}
	switch {
	case e.Signal != "":
		text += ", by " + e.Signal
	case e.ExitCode != nil:
		text += fmt.Sprintf(", with status %d", *e.ExitCode)
	}
	return text
}
