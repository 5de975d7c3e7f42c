// Package render turns a terminal's screen into self-contained pages: HTML to read and copy from, SVG to look at.
//
// The output loads nothing and has no scripts. All text is escaped, and only hyperlinks to web pages and mail addresses become
// links.
package render

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// Options say what of a terminal is rendered.
type Options struct {
	Scrollback int    // lines above the screen, at most; -1 for all
	Title      string // of the page; the terminal's when empty
	Cursor     bool   // show where the cursor is, if it is visible
	Theme      Theme
}

// page is one rendering as it is written.
type page struct {
	*bufio.Writer
	t          *vt.Terminal
	opts       Options
	first      int // the topmost row
	cols, rows int
	runs       []vt.Run
	scheme
}

func newPage(w io.Writer, t *vt.Terminal, opts Options) *page {
	p := &page{Writer: bufio.NewWriter(w), t: t, opts: opts, scheme: newScheme(t, opts.Theme)}
	p.cols, p.rows = t.Size()
	kept := t.ScrollbackLen()
	if opts.Scrollback >= 0 {
		kept = min(kept, opts.Scrollback)
	}
	p.first = -kept
	if p.opts.Title == "" {
		p.opts.Title = t.Title()
	}
	return p
}

func (p *page) say(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// row gives the pieces of a row: runs, cut around characters that a font may give another width than their columns, and around the cursor.
func (p *page) row(y int) []piece {
	p.runs = p.t.RowRuns(y, p.runs[:0])
	cursor := -1
	if c := p.t.Cursor(); p.opts.Cursor && c.Visible && c.Y == y {
		cursor = min(c.X, p.cols-1)
	}
	var pieces []piece
	end := 0
	for _, run := range p.runs {
		pieces = appendPieces(pieces, run, cursor)
		end = run.X + run.Width
	}
	if cursor >= end {
		if cursor > end {
			pieces = append(pieces, piece{text: strings.Repeat(" ", cursor-end), x: end, width: cursor - end})
		}
		pieces = append(pieces, piece{text: " ", x: cursor, width: 1, cursor: true})
	}
	return pieces
}

// piece is text of one style that begins in column x. It is one character when alone, else
// characters that every font for terminals gives one column each.
type piece struct {
	text     string
	x, width int
	alone    bool
	cursor   bool
	style    vt.Style
}

// shown is the style with the cursor in it.
func (piece piece) shown() vt.Style {
	s := piece.style
	if piece.cursor {
		s.Inverse = !s.Inverse
	}
	return s
}

// appendPieces cuts a run. A character and what combines with it stay together.
func appendPieces(pieces []piece, run vt.Run, cursor int) []piece {
	x := run.X
	rest := run.Text
	var text []byte
	start := x
	flush := func() {
		if x > start {
			pieces = append(pieces, piece{text: string(text), x: start, width: x - start, style: run.Style})
		}
		text, start = text[:0], x
	}
	for len(rest) > 0 {
		size, w := cell(rest)
		here := x <= cursor && cursor < x+w
		if alone := w == 2 || !everywhere(rest[:size]); alone || here {
			flush()
			pieces = append(pieces, piece{text: rest[:size], x: x, width: w, alone: alone, cursor: here, style: run.Style})
			x += w
			start = x
		} else {
			text = append(text, rest[:size]...)
			x += w
		}
		rest = rest[size:]
	}
	flush()
	return pieces
}

// everywhere reports whether fonts for terminals have a character, as wide as all others:
// Latin, Greek and Cyrillic letters, the usual punctuation, lines and blocks. Others, such as
// braille, symbols and emoji, come from another font, and the text after them would not be in
// its column.
func everywhere(char string) bool {
	r, n := utf8.DecodeRuneInString(char)
	return n == len(char) && (r < 0x0300 || r >= 0x0370 && r < 0x0482 || r >= 0x2010 && r <= 0x2027 || r >= 0x2500 && r < 0x25a0)
}

// cell is the length of the first character of text with what combines with it, and its width.
func cell(text string) (size, width int) {
	r, size := utf8.DecodeRuneInString(text)
	width = max(vt.RuneWidth(r), 1)
	for size < len(text) {
		r, n := utf8.DecodeRuneInString(text[size:])
		if vt.RuneWidth(r) > 0 {
			break
		}
		size += n
	}
	return size, width
}

// link is the address of a link that may be followed, and whether it is one.
func link(uri string) (string, bool) {
	scheme, _, ok := strings.Cut(uri, ":")
	switch strings.ToLower(scheme) {
	case "http", "https", "mailto":
		return uri, ok
	}
	return "", false
}

// escape makes text safe in the text and in the quoted attributes of HTML and XML. What XML cannot contain at all is replaced, and marks that
// would turn the order of the columns around are left out.
func escape(text string) string {
	if !strings.ContainsFunc(text, special) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		switch r {
		case '&':
			out.WriteString("&amp;")
		case '<':
			out.WriteString("&lt;")
		case '>':
			out.WriteString("&gt;")
		case '"':
			out.WriteString("&#34;")
		case '\'':
			out.WriteString("&#39;")
		default:
			if turns(r) {
				continue
			}
			if special(r) {
				r = utf8.RuneError
			}
			out.WriteRune(r)
		}
	}
	return out.String()
}

// turns says whether r is one of the invisible marks that set the direction of text.
func turns(r rune) bool { return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 }

func special(r rune) bool {
	return turns(r) || strings.ContainsRune("&<>\"'", r) || r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff || r == utf8.RuneError
}
