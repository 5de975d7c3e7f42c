package ui

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// Markdown shows Markdown on a terminal as it comes, a line at a time. It never takes a line back,
// so it supports no element that depends on a later line; those stay as they are. One goroutine
// uses it.
type Markdown struct {
	Out   *Printer // whose colours and width it uses
	fence string   // ends the current block of code; "" outside code
	diff  bool     // the code is a diff

	part   string // the beginning of an incomplete line
	inside bool   // the beginning of that line was shown
	hang   string // blanks before the further parts of that line, which is an item
}

// These are compiled at their first use: most commands never show Markdown.
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

// line formats one line, without its newline.
func (m *Markdown) line(s string) string {
	if fence := mdFence().FindStringSubmatch(s); fence != nil && (m.fence == "" || strings.HasPrefix(fence[1], m.fence) && fence[2] == "") {
		if m.fence == "" {
			m.fence, m.diff = fence[1], fence[2] == "diff" || fence[2] == "patch"
		} else {
			m.fence = ""
		}
		return m.Out.Paint(Dim, s)
	}
	switch {
	case m.fence != "" && m.diff:
		return DiffLine(m.Out, s)
	case m.fence != "":
		return m.Out.Paint(Cyan, s)
	case mdRule().MatchString(s):
		return m.Out.Paint(Dim, strings.Repeat("─", min(m.Out.Width(), 40)))
	}
	if h := mdHeading().FindStringSubmatch(s); h != nil {
		return m.Out.Paint(Bold, h[1])
	}
	margin := ""
	if q := mdQuote().FindStringSubmatch(s); q != nil {
		margin, s = m.Out.Paint(Dim, "│ "), q[1]
	}
	if it := mdItem().FindStringSubmatch(s); it != nil {
		mark := it[2]
		if len(mark) == 1 {
			mark = "•"
		}
		m.hang = it[1] + strings.Repeat(" ", utf8.RuneCountInString(mark)+1)
		return margin + it[1] + mark + " " + m.inline(it[3])
	}
	return margin + m.inline(s)
}

// inline formats the marks inside a line.
func (m *Markdown) inline(s string) string {
	if !m.Out.Colour {
		return s // without colours, the marks stay
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
			b.WriteString(m.Out.Paint(Cyan, group(2)))
		case group(1) != "":
			b.WriteString(group(0))
		case group(4) != "":
			b.WriteString(m.Out.Paint(Bold, group(4)))
		case group(5) != "":
			b.WriteString(m.Out.Paint(Italic, group(5)))
		default:
			b.WriteString(m.Out.Paint(Underline, group(6)) + m.Out.Paint(Dim, " ("+group(7)+")"))
		}
		s = s[at[1]:]
	}
}

// DiffLine paints one line of a diff.
func DiffLine(p *Printer, s string) string {
	switch {
	case strings.HasPrefix(s, "+"):
		return p.Paint(Green, s)
	case strings.HasPrefix(s, "-"):
		return p.Paint(Red, s)
	case strings.HasPrefix(s, "@@"):
		return p.Paint(Dim, s)
	}
	return s
}

// Columns counts the columns of a text on a terminal; escape sequences have none.
func Columns(p []byte) int {
	n := 0
	for len(p) > 0 {
		size, width := glyph(p)
		n += width
		p = p[size:]
	}
	return n
}

// Fitting returns how many bytes of a text fit into cols columns, up to a blank if there is one;
// at least one character.
func Fitting(p []byte, cols int) int {
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

// glyph returns the length and the width of the first character or escape sequence.
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

// Feed takes more text and returns what can be shown now: whole lines, and as much of a long
// line as fills the width.
func (m *Markdown) Feed(text string) string {
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

// Rest returns the last line, which has no newline.
func (m *Markdown) Rest() string {
	line := m.part
	m.part = ""
	if line == "" {
		return ""
	}
	return m.piece(line)
}

// piece formats a line, or the next part of a long one.
func (m *Markdown) piece(s string) string {
	if m.inside && m.fence == "" {
		return m.hang + m.inline(s)
	}
	m.hang = ""
	return m.line(s)
}

// cut returns where an incomplete line can be broken, at a blank. It returns 0 if the line must
// wait for more text: it is short, is code, or has a mark without its end.
func (m *Markdown) cut(line string) int {
	width := m.Out.Width()
	if m.inside {
		width = max(width-len(m.hang), 1)
	}
	if m.fence != "" || Columns([]byte(line)) <= width {
		return 0
	}
	at := Fitting([]byte(line), width)
	if line[at] != ' ' {
		return 0
	}
	if open := strings.Count(line[:at], "`")%2 + strings.Count(line[:at], "**")%2 + strings.Count(line[:at], "[") - strings.Count(line[:at], "]"); open != 0 && len(line) < 4*width {
		return 0
	}
	return at
}
