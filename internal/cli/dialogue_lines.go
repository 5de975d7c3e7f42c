package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// begin makes room for a block of a kind: a text stands alone, lines of tools and notes
// stand together.
func (v *dialogueView) begin(kind string) {
	v.endLine()
	if v.last != "" && (kind == "text" || kind == "tool" && v.last == "text") {
		v.write("\n")
	}
	v.last = kind
	v.tool = ""
}

// under names the tool call that what follows belongs to, when something else is between.
func (v *dialogueView) under(scope string) {
	v.endLine()
	if scope != "" && scope != v.scope && v.tool != scope {
		if call := v.items[scope]; call != nil && call.title != "" {
			v.begin("tool")
			v.line(v.margin(call.scope) + v.out.Paint(ui.Dim, "┆ "+ui.Shorten(call.title, 60)))
		}
	}
	v.scope = scope
}

// margin is the indentation of what is in a scope.
func (v *dialogueView) margin(scope string) string {
	depth := 0
	for ; scope != "" && depth < 16; depth++ {
		call := v.items[scope]
		if call == nil {
			scope = ""
			continue
		}
		scope = call.scope
	}
	return strings.Repeat("    ", depth)
}

// note shows a word about what happens.
func (v *dialogueView) note(st ui.Style, text string) {
	if v.notes && text != "" {
		v.always(st, text)
	}
}

func (v *dialogueView) always(st ui.Style, text string) {
	v.endLine()
	mark := "! "
	if st == ui.Dim {
		mark = "· "
	}
	v.line(v.out.Paint(st, mark+ui.Shorten(ui.Printable(strings.TrimSpace(text)), 500)))
	v.last, v.tool = "note", ""
}

// block shows some lines with a margin.
func (v *dialogueView) block(margin, text string, st ui.Style) {
	for _, l := range ui.Lines(text) {
		v.line(margin + v.out.Paint(st, l))
	}
}

// endLine ends the text that is being written.
func (v *dialogueView) endLine() {
	if v.text != nil {
		v.write(v.text.rest())
		v.text = nil
	}
	if v.midLine {
		v.write("\n")
	}
	v.open = ""
}

func (v *dialogueView) line(s string) { v.write(s + "\n") }

func (v *dialogueView) writeText(it *shownItem, text string) {
	text = v.out.Text(text)
	if it.kind != "reasoning" && v.out.Colour {
		if v.text == nil {
			v.text = &markdown{out: v.out}
		}
		v.write(v.text.feed(text))
		return
	}
	if it.kind != "reasoning" {
		v.write(text)
		return
	}
	// Each line has its own colour: another writer may come between two.
	for piece := range strings.Lines(text) {
		body, end := strings.TrimSuffix(piece, "\n"), ""
		if body != piece {
			end = "\n"
		}
		v.write(v.out.Paint(ui.Dim, body) + end)
	}
}

func (v *dialogueView) write(s string) {
	if s == "" {
		return
	}
	_, _ = v.out.Write([]byte(s)) // the printer remembers an error
	v.midLine = !strings.HasSuffix(s, "\n")
	v.written++
}

// requestTitle names a request in one line.
func requestTitle(r api.DialogueRequest) string {
	about := r.Subject
	if about == "" {
		about = r.Title
	}
	if about == "" && len(r.Questions) > 0 {
		about = r.Questions[0].Question
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s", ui.Printable(cmp.Or(r.Tool, r.Kind)), ui.Printable(strings.TrimSpace(about))))
}

// colon joins what is said about something to it.
func colon(why string) string { return ui.Prefixed(": ", strings.TrimSpace(why)) }
