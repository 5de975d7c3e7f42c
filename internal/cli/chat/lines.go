package chat

import (
	"strings"

	"github.com/trl-dev/trl/internal/cli/ui"
)

// begin begins a block of a kind. A blank line separates texts from everything else; lines of
// tools and notes stand together.
func (v *view) begin(kind string) {
	v.endLine()
	if v.last != "" && (kind == "text" || kind == "tool" && v.last == "text") {
		v.write("\n")
	}
	v.last = kind
	v.tool = ""
}

// under names the tool call to which the next lines belong, if other output came between.
func (v *view) under(scope string) {
	v.endLine()
	if scope != "" && scope != v.scope && v.tool != scope {
		if call := v.items[scope]; call != nil && call.title != "" {
			v.begin("tool")
			v.line(v.margin(call.scope) + v.out.Paint(ui.Dim, "┆ "+ui.Shorten(call.title, 60)))
		}
	}
	v.scope = scope
}

// margin returns the indentation of a scope.
func (v *view) margin(scope string) string {
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

// note shows a note, if notes are shown.
func (v *view) note(st ui.Style, text string) {
	if v.notes && text != "" {
		v.always(st, text)
	}
}

// always shows a note.
func (v *view) always(st ui.Style, text string) {
	v.endLine()
	mark := "! "
	if st == ui.Dim {
		mark = "· "
	}
	v.line(v.out.Paint(st, mark+ui.Shorten(ui.Printable(strings.TrimSpace(text)), 500)))
	v.last, v.tool = "note", ""
}

// block shows lines with a margin.
func (v *view) block(margin, text string, st ui.Style) {
	for _, l := range ui.Lines(text) {
		v.line(margin + v.out.Paint(st, l))
	}
}

// endLine ends the incomplete text or line.
func (v *view) endLine() {
	if v.text != nil {
		v.write(v.text.Rest())
		v.text = nil
	}
	if v.midLine {
		v.write("\n")
	}
	v.open = ""
}

func (v *view) line(s string) { v.write(s + "\n") }

func (v *view) writeText(it *shownItem, text string) {
	text = v.out.Text(text)
	if it.kind != "reasoning" && v.out.Colour {
		if v.text == nil {
			v.text = &ui.Markdown{Out: v.out}
		}
		v.write(v.text.Feed(text))
		return
	}
	if it.kind != "reasoning" {
		v.write(text)
		return
	}
	// Each line is painted separately: another writer may write between two lines.
	for piece := range strings.Lines(text) {
		body, end := strings.TrimSuffix(piece, "\n"), ""
		if body != piece {
			end = "\n"
		}
		v.write(v.out.Paint(ui.Dim, body) + end)
	}
}

func (v *view) write(s string) {
	if s == "" {
		return
	}
	_, _ = v.out.Write([]byte(s)) // the printer remembers an error
	v.midLine = !strings.HasSuffix(s, "\n")
	v.written++
}

// colon returns a reason after a colon, "" for none.
func colon(why string) string { return ui.Prefixed(": ", strings.TrimSpace(why)) }
