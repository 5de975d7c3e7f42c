package chat

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// view shows the events of a dialogue as they come: the agent's text unchanged, each tool call
// as one line with another for its result, and the work of subagents below the call that started
// them. One goroutine uses it.
type view struct {
	out     *ui.Printer
	answers bool // show the agent's text
	work    bool // show thoughts, tool calls, tasks, and messages of other clients
	notes   bool // show notes and problems
	full    bool // fold nothing

	items map[string]*shownItem
	// requests are the opened ones, to name them when they are closed.
	requests map[string]api.DialogueRequest

	own     map[string]bool // messages that the person typed here, which are not shown again
	open    string          // the item whose text is incomplete on the screen; "" for none
	text    *ui.Markdown    // formats the text of that item; nil for none
	midLine bool            // the output does not end with a newline
	written int             // number of writes
	last    string          // kind of the last block: text, tool, note
	tool    string          // the tool call whose line was shown last
	scope   string          // of the last item
	answer  string          // the last text of the agent
}

// shownItem is an item, and how much of it was shown.
type shownItem struct {
	kind, scope string
	title       string // of a tool call
	printed     string // the part of its text that was shown
	held        string // the part that waits for the text of another item
	line        bool   // the line of a tool call was shown
	edited      bool   // the line about its changed input was shown
	result      bool   // the line of its result was shown
}

func newView(out *ui.Printer) *view {
	return &view{
		out: out, answers: true, work: true, notes: true,
		items: map[string]*shownItem{}, own: map[string]bool{}, requests: map[string]api.DialogueRequest{},
	}
}

// event shows the next event. It does not show requests: asker does.
func (v *view) event(ev api.DialogueEvent) {
	switch ev.Type {
	case api.DialogueEventItem:
		v.item(ev.Scope, *ev.Item)
	case api.DialogueEventDelta:
		v.delta(ev.Scope, *ev.Delta)
	case api.DialogueEventRetracted:
		for _, id := range ev.Retracted {
			v.retract(id)
		}
	case api.DialogueEventTurnEnded:
		v.turn(*ev.Turn)
	case api.DialogueEventTask:
		v.task(*ev.Task)
	case api.DialogueEventRequestOpened:
		v.requests[ev.Request.RequestID] = *ev.Request
	case api.DialogueEventRequestClosed:
		v.closed(*ev.Request)
	case api.DialogueEventNotice:
		v.notice(*ev.Notice)
	case api.DialogueEventCompacted:
		v.note(ui.Dim, "the agent has compacted its context"+colon(ev.Notice.Text))
	case api.DialogueEventReset:
		v.note(ui.Dim, "the agent begins a new conversation"+colon(ev.Opened.Why))
	case api.DialogueEventRetry:
		v.retry(*ev.Retry)
	case api.DialogueEventUnparsed:
		if v.full {
			v.note(ui.Dim, fmt.Sprintf("a line that TRL does not understand (%s): %s", ev.Unparsed.Why, ui.Shorten(ui.Printable(ev.Unparsed.Text), 200)))
		}
	case api.DialogueEventEnded:
		v.ended(*ev.Ended)
	}
}

// tree shows the items of a transcript, with the items of subagents below their tool calls.
func (v *view) tree(scope string, items []api.DialogueItem) {
	for _, it := range items {
		if it.Tool == nil {
			v.item(scope, it)
			continue
		}
		begun, running := it, *it.Tool
		begun.Tool, running.Status = &running, "running"
		v.item(scope, begun)
		v.tree(it.ItemID, it.Tool.Items)
		v.item(scope, it)
	}
}

// item shows a new item, or what changed in a known one.
func (v *view) item(scope string, it api.DialogueItem) {
	known := v.knownItem(it.ItemID, scope)
	known.kind = it.Kind
	switch {
	case it.Tool != nil:
		v.toolCall(it, known)
	case it.Kind == "user":
		v.said(it, known)
	case !v.shows(known):
		known.printed = partsText(it.Parts)
	case it.Status == "streaming" && !v.out.TTY: // a program gets final text only
	case it.Status == "streaming":
		v.more(it.ItemID, known, strings.TrimPrefix(partsText(it.Parts), known.printed+known.held))
	default:
		v.whole(it, known)
	}
	if it.Error != "" && it.Status != "streaming" && (v.full || len(it.Parts) == 0) { // the end of the turn shows it otherwise
		v.note(ui.Red, it.Error)
	}
}

func (v *view) knownItem(id, scope string) *shownItem {
	if v.items[id] == nil {
		v.items[id] = &shownItem{scope: scope}
	}
	return v.items[id]
}

// shows reports whether the text of an item is for the reader.
func (v *view) shows(it *shownItem) bool {
	if it.scope == "" && it.kind == "agent" {
		return v.answers
	}
	return v.work
}

func (v *view) delta(scope string, d api.DialogueDelta) {
	known := v.knownItem(d.ItemID, scope)
	if d.Field == "text" && known.kind != "tool_call" && known.kind != "" && v.shows(known) && v.out.TTY {
		v.more(d.ItemID, known, d.Text)
	}
}

// more writes more of a text. It writes one text at a time: the texts of other items and of
// subagents wait.
func (v *view) more(id string, it *shownItem, text string) {
	it.held += text
	if it.held == "" || it.scope != "" || v.open != "" && v.open != id {
		return
	}
	if v.open == "" {
		v.begin("text")
		v.open = id
		if it.kind == "reasoning" && it.printed == "" {
			v.write(v.out.Paint(ui.Dim, "✻ "))
		}
	}
	v.writeText(it, it.held)
	it.printed, it.held = it.printed+it.held, ""
}

// whole shows the rest of a final text. If the text differs from what was shown so far, it shows
// all of it again.
func (v *view) whole(it api.DialogueItem, known *shownItem) {
	text := partsText(it.Parts)
	if known.scope == "" && known.kind == "agent" {
		v.answer = text
	}
	switch {
	case text == known.printed && v.open != it.ItemID:
		return
	case known.scope != "":
		v.below(known, text)
		known.printed, known.held = text, ""
		return
	case !strings.HasPrefix(text, known.printed):
		v.endLine()
		known.printed = ""
	}
	if v.open != it.ItemID {
		v.endLine()
	}
	known.held = ""
	v.more(it.ItemID, known, strings.TrimPrefix(text, known.printed))
	v.endLine()
}

// below shows the text of a subagent: its first line or, with full, all of it.
func (v *view) below(known *shownItem, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	v.under(known.scope)
	margin := v.margin(known.scope)
	if !v.full {
		text = ui.FirstLine(text)
		text = ui.Shorten(ui.Printable(text), max(v.out.Width()-len(margin), 20))
	}
	st := ui.Plain
	if known.kind == "reasoning" {
		st = ui.Dim
	}
	v.line(ui.Indent(margin, v.out.Paint(st, v.out.Text(text))))
}

// said shows a message to the agent that the person did not type here.
func (v *view) said(it api.DialogueItem, known *shownItem) {
	text := strings.TrimSpace(partsText(it.Parts))
	if known.line || v.own[it.ItemID] || !v.work || text == "" || known.scope != "" && !v.full {
		return
	}
	known.line = true
	if known.scope != "" {
		v.under(known.scope)
		v.line(ui.Indent(v.margin(known.scope)+"> ", v.out.Text(text)))
		return
	}
	if it.Synthetic && !v.full && strings.HasPrefix(text, "[Request interrupted") { // the end of the turn shows it
		return
	}
	v.begin("text")
	if it.Synthetic {
		v.line(v.out.Paint(ui.Dim, v.out.Text(text)))
		return
	}
	for _, l := range ui.Lines(v.out.Text(text)) {
		v.line(v.out.Paint(ui.Bold, "> "+l))
	}
}

// toolCall shows the line of a tool call once its input is complete, and its result.
func (v *view) toolCall(it api.DialogueItem, known *shownItem) {
	name, about := toolTitle(it.Tool)
	known.title = strings.TrimSpace(name + " " + about)
	if !v.work || it.Status == "streaming" && !toolDone(it.Tool) {
		return
	}
	margin := v.margin(known.scope)
	if !known.line {
		known.line = true
		v.under(known.scope)
		v.begin("tool")
		room := max(v.out.Width()-len(margin)-len(name)-4, 20)
		v.line(margin + toolMark + v.out.Paint(ui.Bold, name) + ui.Prefixed("  ", ui.Shorten(about, room)))
		if v.full {
			v.block(margin+"    ", inputText(it.Tool.Input, 0, it.Tool.Subject), ui.Dim)
		}
		v.tool = it.ItemID
	}
	if it.Tool.EffectiveInput != nil && !known.edited {
		known.edited = true
		v.under(known.scope)
		v.begin("tool")
		v.line(margin + "  " + resultMark + v.out.Paint(ui.Yellow, "input was changed: "+ui.Shorten(cmp.Or(about, "see below"), 100)))
		if v.full {
			v.block(margin+"    ", inputText(it.Tool.EffectiveInput, 0), ui.Dim)
		}
		v.tool = it.ItemID
	}
	if known.result || !toolDone(it.Tool) {
		return
	}
	known.result = true
	words, st := toolOutcome(it.Tool, v.full)
	if v.tool != it.ItemID { // another line came between
		words = ui.Shorten(known.title, 40) + ": " + words
	}
	v.under(known.scope)
	v.begin("tool")
	v.line(margin + "  " + v.out.Paint(ui.Dim, resultMark) + v.out.Paint(st, words))
	if most := shownDiff; v.full || v.out.Colour {
		if v.full {
			most = 0
		}
		for _, l := range ui.Lines(diffText(changes(it.Tool), most)) {
			v.line(margin + "    " + ui.DiffLine(v.out, l))
		}
	}
	if v.full {
		v.block(margin+"    ", v.out.Text(partsText(textParts(it.Tool.Output))), ui.Plain)
	}
	v.tool = ""
}

// retract notes that the agent took back an item. The text on the screen stays.
func (v *view) retract(id string) {
	it := v.items[id]
	if it == nil {
		return
	}
	delete(v.items, id)
	if it.printed != "" && v.shows(it) || it.line {
		v.endLine()
		v.always(ui.Dim, "(the agent has retracted this)")
	}
}

func (v *view) turn(t api.DialogueTurn) {
	v.endLine()
	if v.answer == "" && t.Outcome == "completed" && t.Text != "" && v.answers {
		v.begin("text")
		v.line(v.out.Text(strings.TrimSuffix(t.Text, "\n")))
	}
	why := t.Text
	if strings.TrimSpace(why) == strings.TrimSpace(v.answer) { // already shown
		why = ""
	}
	switch t.Outcome {
	case "failed":
		v.note(ui.Red, "failed"+colon(why))
	case "limit":
		v.note(ui.Yellow, "stopped at a limit"+colon(cmp.Or(t.Native, why)))
	case "interrupted", "lost":
		v.note(ui.Yellow, t.Outcome)
	}
	if v.full {
		v.note(ui.Dim, turnFigures(t))
	}
	v.answer = ""
}

// turnFigures returns the duration and the usage of a turn.
func turnFigures(t api.DialogueTurn) string {
	parts := []string{"turn " + ui.Printable(t.TurnID)}
	if t.DurationMS > 0 {
		parts = append(parts, ui.Span(time.Duration(t.DurationMS)*time.Millisecond))
	}
	if t.Steps > 0 {
		parts = append(parts, ui.Plural(t.Steps, "step", "steps"))
	}
	if u := t.Usage; u != nil {
		parts = append(parts, fmt.Sprintf("%d tokens in", u.InputTokens+u.CacheReadTokens+u.CacheWriteTokens), fmt.Sprintf("%d out", u.OutputTokens))
	}
	return strings.Join(parts, " · ")
}

func (v *view) task(t api.DialogueTask) {
	if !t.Background && t.Status != "lost" || t.Status == "running" || !v.work {
		return
	}
	v.note(ui.Dim, strings.TrimSpace("in the background: "+t.Name+" "+t.Status)+colon(ui.FirstLine(t.Summary)))
}

// closed shows that a rule answered a request.
func (v *view) closed(r api.DialogueRequest) {
	if r.By == "policy" && r.Decision == "deny" {
		v.note(ui.Yellow, "denied by a rule: "+RequestTitle(v.opened(r)))
	} else if r.By == "policy" && v.full {
		v.note(ui.Dim, "allowed by a rule: "+RequestTitle(v.opened(r)))
	}
}

// opened returns a request as it was opened.
func (v *view) opened(r api.DialogueRequest) api.DialogueRequest {
	if known, ok := v.requests[r.RequestID]; ok {
		return known
	}
	return r
}

func (v *view) notice(n api.DialogueNotice) {
	switch {
	case n.Level == "error":
		v.note(ui.Red, n.Text)
	case n.Level == "warning":
		v.note(ui.Yellow, n.Text)
	case v.full:
		v.note(ui.Dim, n.Text)
	}
}

func (v *view) retry(r api.DialogueRetry) {
	text := fmt.Sprintf("the agent calls its model again, try %d", r.Attempt)
	if r.Most > 0 {
		text += fmt.Sprintf(" of %d", r.Most)
	}
	if r.DelayMS > 0 {
		text += " in " + ui.Span(time.Duration(r.DelayMS)*time.Millisecond)
	}
	v.note(ui.Yellow, text+colon(r.Cause))
}

func (v *view) ended(e api.DialogueEnd) {
	v.endLine()
	if e.Cause == "closed" {
		return
	}
	v.note(ui.Red, EndedText(e))
	if tail := strings.TrimSpace(e.StderrTail); tail != "" && v.notes {
		all := ui.Lines(ui.Clean(tail))
		v.block("  ", strings.Join(all[max(0, len(all)-10):], "\n"), ui.Dim)
	}
}
