package cli

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

// markdown shows the Markdown of an agent on a terminal as it comes, a line at a time: what
// is shown is never taken back, so it knows nothing that would need a later line. What it does
// not know stays as it is. It is used by one goroutine.
type markdown struct {
	out   *ui.Printer
	fence string // what ends the code that is being shown; "" outside
	diff  bool   // the code is a diff

	part   string // of a line that is not complete
	inside bool   // the beginning of that line was shown
}

// Made when they are first needed: most commands never show Markdown.
var (
	mdHeading = pattern(`^ {0,3}#{1,6} +(.*?) *#*$`)
	mdFence   = pattern("^ {0,3}(```+|~~~+) *([A-Za-z0-9_+-]*)")
	mdItem    = pattern(`^( *)([-*+]|\d+[.)]) +(.*)$`)
	mdQuote   = pattern(`^ {0,3}> ?(.*)$`)
	mdRule    = pattern(`^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$`)
	mdInline  = pattern("(`+)(.+?)(`+)|\\*\\*(.+?)\\*\\*|\\*([^* ][^*]*)\\*|\\[([^\\]]+)\\]\\(([^) ]+)\\)")
)

func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// line is one line as it is shown, without its end.
func (m *markdown) line(s string) string {
	if fence := mdFence().FindStringSubmatch(s); fence != nil && (m.fence == "" || strings.HasPrefix(fence[1], m.fence) && fence[2] == "") {
		if m.fence == "" {
			m.fence, m.diff = fence[1], fence[2] == "diff" || fence[2] == "patch"
		} else {
			m.fence = ""
		}
		return m.out.Paint(ui.Dim, s)
	}
	switch {
	case m.fence != "" && m.diff:
		return diffLine(m.out, s)
	case m.fence != "":
		return m.out.Paint(ui.Cyan, s)
	case mdRule().MatchString(s):
		return m.out.Paint(ui.Dim, strings.Repeat("─", min(m.out.Width(), 40)))
	}
	if h := mdHeading().FindStringSubmatch(s); h != nil {
		return m.out.Paint(ui.Bold, h[1])
	}
	margin := ""
	if q := mdQuote().FindStringSubmatch(s); q != nil {
		margin, s = m.out.Paint(ui.Dim, "│ "), q[1]
	}
	if it := mdItem().FindStringSubmatch(s); it != nil {
		mark := it[2]
		if len(mark) == 1 {
			mark = "•"
		}
		return margin + it[1] + mark + " " + m.inline(it[3])
	}
	return margin + m.inline(s)
}

// inline shows what is marked inside a line.
func (m *markdown) inline(s string) string {
	if !m.out.Colour {
		return s // nothing takes the place of the marks
	}
	var b strings.Builder
	for {
		at := mdInline().FindStringSubmatchIndex(s)
		if at == nil {
			return b.String() + s
		}
		group := func(i int) string {
			if at[2*i] < 0 {
				return ""
			}
			return s[at[2*i]:at[2*i+1]]
		}
		b.WriteString(s[:at[0]])
		switch {
		case group(1) != "" && group(1) == group(3):
			b.WriteString(m.out.Paint(ui.Cyan, group(2)))
		case group(1) != "":
			b.WriteString(group(0))
		case group(4) != "":
			b.WriteString(m.out.Paint(ui.Bold, group(4)))
		case group(5) != "":
			b.WriteString(m.out.Paint(ui.Italic, group(5)))
		default:
			b.WriteString(m.out.Paint(ui.Underline, group(6)) + m.out.Paint(ui.Dim, " ("+group(7)+")"))
		}
		s = s[at[1]:]
	}
}

// diffLine is one line of a diff in its colour.
func diffLine(p *ui.Printer, s string) string {
	switch {
	case strings.HasPrefix(s, "+"):
		return p.Paint(ui.Green, s)
	case strings.HasPrefix(s, "-"):
		return p.Paint(ui.Red, s)
	case strings.HasPrefix(s, "@@"):
		return p.Paint(ui.Dim, s)
	}
	return s
}

// columns is how many columns a text takes on a terminal, sequences not counted.
func columns(p []byte) int {
	n := 0
	for len(p) > 0 {
		size, width := glyph(p)
		n += width
		p = p[size:]
	}
	return n
}

// fitting is how many bytes of a text fit into that many columns, up to a blank if there is
// one; at least one character.
func fitting(p []byte, cols int) int {
	n, blank := 0, 0
	for used := 0; n < len(p); {
		size, width := glyph(p[n:])
		if used+width > cols && n > 0 {
			break
		}
		if p[n] == ' ' {
			blank = n
		}
		used += width
		n += size
	}
	if blank > 0 && n < len(p) {
		return blank
	}
	return n
}

// glyph is the length and the width of the first character, or of a sequence of colours.
func glyph(p []byte) (size, width int) {
	if p[0] == 0x1b && len(p) > 1 && p[1] == '[' {
		for i := 2; i < len(p); i++ {
			if p[i] >= 0x40 && p[i] <= 0x7e {
				return i + 1, 0
			}
		}
		return len(p), 0
	}
	r, n := utf8.DecodeRune(p)
	return n, max(vt.RuneWidth(r), 0)
}

// feed takes more of the text and returns what can be shown of it now: whole lines, and of a
// long one as much as fills the width.
func (m *markdown) feed(text string) string {
	var b strings.Builder
	m.part += text
	for {
		line, rest, whole := strings.Cut(m.part, "\n")
		if whole {
			b.WriteString(m.piece(line) + "\n")
			m.part, m.inside = rest, false
			continue
		}
		cut := m.cut(line)
		if cut == 0 {
			return b.String()
		}
		b.WriteString(m.piece(line[:cut]) + "\n")
		m.part, m.inside = line[cut+1:], true
	}
}

// rest returns what is left at the end of the text.
func (m *markdown) rest() string {
	line := m.part
	m.part = ""
	if line == "" {
		return ""
	}
	return m.piece(line)
}

// piece is a line, or the next part of a long one.
func (m *markdown) piece(s string) string {
	if m.inside && m.fence == "" {
		return m.inline(s)
	}
	return m.line(s)
}

// cut is where a line that is being written can be broken, at a blank; 0 when it is to wait
// for more: it is short, is code, or something is marked whose end is not there yet.
func (m *markdown) cut(line string) int {
	width := m.out.Width()
	if m.fence != "" || columns([]byte(line)) <= width {
		return 0
	}
	at := fitting([]byte(line), width)
	if line[at] != ' ' {
		return 0
	}
	if open := strings.Count(line[:at], "`")%2 + strings.Count(line[:at], "**")%2 + strings.Count(line[:at], "[") - strings.Count(line[:at], "]"); open != 0 && len(line) < 4*width {
		return 0
	}
	return at
}
