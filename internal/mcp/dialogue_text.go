package mcp

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"github.com/trl-dev/trl/api"
)

const (
	// shortLine is the most bytes of a line that stands among others.
	shortLine = 160
	// shortOutput is the most bytes of a tool's output in dialogue_read, unless the model asks for
	// all.
	shortOutput = 1000
)

// digest turns events into text for a model: the agent's text, and one line per tool call. It is
// safe for concurrent use.
type digest struct {
	mu   sync.Mutex
	b    strings.Builder // guarded by mu
	last string          // guarded by mu; the last line
	// written are the ids of the items that are in the text; guarded by mu.
	written map[string]bool
}

func (d *digest) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.b.String()
}

// status describes in one line what the agent did last.
func (d *digest) status() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cmp.Or(d.last, "working")
}

func (d *digest) add(ev api.DialogueEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch ev.Type {
	case api.DialogueEventItem:
		d.addItem(ev.Scope, *ev.Item)
	case api.DialogueEventTurnEnded:
		if ev.Turn.Outcome != "completed" {
			d.note("the turn is %s%s", ev.Turn.Outcome, colon(ev.Turn.Text))
		}
	case api.DialogueEventRequestClosed:
		if ev.Request.By == "policy" && ev.Request.Decision == "deny" {
			d.note("denied by a rule%s", colon(requestTitle(*ev.Request)))
		}
	case api.DialogueEventRetry:
		d.note("the agent calls its model again, try %d%s", ev.Retry.Attempt, colon(ev.Retry.Cause))
	case api.DialogueEventNotice:
		if ev.Notice.Level != "info" {
			d.note("%s", ev.Notice.Text)
		}
	case api.DialogueEventTask:
		if t := ev.Task; t.Background && t.Status != "running" {
			d.note("in the background: %s %s%s", t.Name, t.Status, colon(t.Summary))
		}
	case api.DialogueEventEnded:
		d.note("the agent has ended: %s%s", ev.Ended.Cause, colon(lastOf(ev.Ended.StderrTail, 500)))
	}
}

func (d *digest) addItem(scope string, it api.DialogueItem) {
	if scope != "" || it.Status == "streaming" || d.written[it.ItemID] {
		return
	}
	if d.written == nil {
		d.written = map[string]bool{}
	}
	switch {
	case it.Kind == "agent" || it.Kind == "plan":
		text := strings.TrimSpace(plainText(it.Parts))
		if text == "" {
			return
		}
		d.b.WriteString(text + "\n")
		d.last = firstLine(text)
	case it.Tool != nil && it.Tool.Status == "running":
		d.last = strings.TrimSpace(it.Tool.Name + " " + firstLine(it.Tool.Subject))
		return
	case it.Tool != nil && finished(it.Tool):
		d.b.WriteString(toolLine(it.Tool) + "\n")
	default:
		return
	}
	d.written[it.ItemID] = true
}

func (d *digest) note(format string, args ...any) {
	fmt.Fprintf(&d.b, "[%s]\n", fmt.Sprintf(format, args...))
}

func finished(t *api.DialogueToolCall) bool {
	return t.Status == "completed" || t.Status == "failed" || t.Status == "cancelled" || t.Status == "lost"
}

// toolLine describes a tool call in one line.
func toolLine(t *api.DialogueToolCall) string {
	how := t.Status
	if t.ExitCode != nil {
		how = fmt.Sprintf("exit code %d", *t.ExitCode)
	}
	output := strings.TrimSpace(plainText(t.Output))
	if n := strings.Count(output, "\n") + 1; output != "" && n > 1 {
		how += fmt.Sprintf(", %d lines", n)
	} else {
		how += colon(firstLine(output))
	}
	return fmt.Sprintf("[%s%s → %s]", t.Name, colon(firstLine(cmp.Or(t.Subject, t.Title))), how)
}

// requestText describes a request of the agent, and how to answer it.
func requestText(id string, r api.DialogueRequest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[asks (%s)%s; dialogue_respond {\"dialogue\": %q, \"request_id\": %q, ", r.Kind, colon(requestTitle(r)), id, r.RequestID)
	if len(r.Questions) == 0 {
		b.WriteString("\"decision\": \"allow\" or \"deny\"}]\n")
		if r.Reason != "" {
			fmt.Fprintf(&b, "  %s\n", firstLine(r.Reason))
		}
		if len(r.Input) > 0 {
			fmt.Fprintf(&b, "  %s: %s\n", inputTitle(r), shorten(string(r.Input), shortOutput, ""))
		}
		for _, o := range furtherOptions(r.Options) {
			fmt.Fprintf(&b, "  or \"option\": %q: %s%s\n", o.ID, o.Label, colon(firstLine(o.Description)))
		}
		return b.String()
	}
	b.WriteString("\"answers\": {question: answer}}]\n")
	for _, q := range r.Questions {
		several := ""
		if q.Multiple {
			several = " (several answers, with commas between)"
		}
		fmt.Fprintf(&b, "  question%s: %s\n", several, q.Question)
		for _, o := range q.Options {
			fmt.Fprintf(&b, "    - %s%s\n", o.Label, colon(o.Description))
		}
	}
	return b.String()
}

// inputTitle introduces the input of a request, and says whether it can be changed.
func inputTitle(r api.DialogueRequest) string {
	switch {
	case r.Editable:
		return "input, which \"input\" may replace"
	case r.Kind == "elicitation":
		return "give \"input\" as this schema says"
	}
	return "input"
}

// furtherOptions returns the options other than a plain allow or deny.
func furtherOptions(options []api.DialogueOption) (list []api.DialogueOption) {
	plain := map[string]bool{}
	for _, o := range options {
		if (o.Kind == "allow" || o.Kind == "deny") && !plain[o.Kind] {
			plain[o.Kind] = true
			continue
		}
		list = append(list, o)
	}
	return list
}

// faultNote says why a dialogue cannot go on, and what to do about it.
func faultNote(info api.DialogueInfo) string {
	id, f := info.DialogueID, info.Error
	if f == nil {
		f = &api.DialogueFault{}
	}
	switch f.Reason {
	case "disk":
		return fmt.Sprintf("%s waits, as its record cannot be written%s; it continues by itself when the disk has room", id, colon(f.Message))
	case "session_gone":
		return fmt.Sprintf("the agent of %s has ended%s; dialogue_start {\"resume\": %q} starts it again", id, colon(f.Message), id)
	case "auth_rejected":
		return fmt.Sprintf("%s cannot be reached, as its credentials are rejected%s; replace them in the files of its remote, then dialogue_send tries again", id, colon(f.Message))
	}
	return fmt.Sprintf("%s cannot be reached%s; dialogue_send tries again", id, colon(f.Message))
}

func requestTitle(r api.DialogueRequest) string {
	return strings.TrimSpace(r.Tool + " " + firstLine(cmp.Or(r.Subject, r.Title)))
}

// plainText returns the text of parts. Other parts are only named.
func plainText(parts []api.DialoguePart) string {
	var b strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "text":
			b.WriteString(p.Text)
		case "diff":
			fmt.Fprintf(&b, "[diff of %s]\n", p.Path)
		default:
			fmt.Fprintf(&b, "[%s]\n", strings.TrimSpace(p.Type+" "+cmp.Or(p.Path, p.MediaType)))
		}
	}
	return b.String()
}

// shorten omits the middle of a text that is longer than limit. how is the call that reads it.
func shorten(text string, limit int64, how string) string {
	n := int64(len(text))
	if n <= limit {
		return text
	}
	head, tail := limit/3, limit-limit/3
	return fmt.Sprintf("%s\n[%s of %s bytes left out%s]\n%s", strings.ToValidUTF8(text[:head], ""), number(n-limit), number(n), colon(how),
		strings.ToValidUTF8(text[n-tail:], ""))
}

func lastOf(s string, n int) string {
	s = strings.TrimSpace(s)
	return strings.ToValidUTF8(s[max(len(s)-n, 0):], "")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if len(line) > shortLine {
		line = strings.ToValidUTF8(line[:shortLine], "") + "…"
	}
	return line
}

func colon(s string) string {
	if s = strings.TrimSpace(s); s == "" {
		return ""
	}
	return ": " + s
}

// listDialogues lists the live dialogues and the latest ended ones.
func listDialogues(b *strings.Builder, all []api.DialogueInfo) {
	var ended []api.DialogueInfo
	line := func(d api.DialogueInfo) {
		fmt.Fprintf(b, "%s %s %s in %s, %d turns", d.DialogueID, d.State, d.Agent, d.WorkingDir, d.Turns)
		if d.Name != "" {
			fmt.Fprintf(b, ", name %q", d.Name)
		}
		b.WriteByte('\n')
	}
	for _, d := range all {
		if d.State == api.DialogueEnded {
			ended = append(ended, d)
			continue
		}
		line(d)
	}
	if n := len(ended) - listed; n > 0 {
		fmt.Fprintf(b, "(%d older dialogues)\n", n)
		ended = ended[n:]
	}
	for _, d := range ended {
		line(d)
	}
}
