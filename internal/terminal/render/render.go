// Package render turns what a terminal shows into pages that stand alone: HTML to read and copy from, SVG to look at.
//
// Nothing in the output is fetched from anywhere and no script is in it. All text is escaped, and of hyperlinks only those to
// web pages and mail addresses become links.
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
}

// page is one rendering as it is written.
type page struct {
	*bufio.Writer
	t          *vt.Terminal
	opts       Options
	first      int // the topmost row
	cols, rows int
	runs       []vt.Run
}

func newPage(w io.Writer, t *vt.Terminal, opts Options) *page {
	p := &page{Writer: bufio.NewWriter(w), t: t, opts: opts}
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

// row gives the pieces of a row: runs, cut where the width of characters changes and around the cursor.
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

// piece is text of one style whose characters are all of the same width.
type piece struct {
	text     string
	x, width int
	wide     bool // one character of two columns
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
		if w == 2 || x <= cursor && cursor < x+w {
			flush()
			pieces = append(pieces, piece{text: rest[:size], x: x, width: w, wide: w == 2, cursor: x <= cursor && cursor < x+w, style: run.Style})
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
