package ui

import (
	"cmp"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// unicodeTerminal reports whether the locale says that the person's terminal shows UTF-8.
func unicodeTerminal() bool {
	name := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(name, "utf-8") || strings.Contains(name, "utf8")
}

// asciiWriter writes for a terminal that does not show UTF-8. It replaces each character that
// is not ASCII by as many ASCII characters as it has columns, so that everything else stays in
// its place. Each Write must have whole characters.
type asciiWriter struct{ to io.Writer }

func (a asciiWriter) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRune(p[i:])
		i += n
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
			continue
		}
		for range vt.RuneWidth(r) {
			out = append(out, likeASCII(r))
		}
	}
	if _, err := a.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// likeASCII returns the ASCII character that looks most like r.
func likeASCII(r rune) byte {
	switch {
	case r == 0xa0:
		return ' '
	case r == '─' || r == '━' || r == '═' || r == '╌' || r == '╍' || r == '┄' || r == '┅' || r >= 0x2010 && r <= 0x2015:
		return '-'
	case r == '│' || r == '┃' || r == '║' || r == '╎' || r == '╏' || r == '┆' || r == '┇':
		return '|'
	case r >= 0x2500 && r < 0x2580:
		return '+'
	case r >= 0x2580 && r < 0x25a0:
		return '#'
	case r == '‘' || r == '’':
		return '\''
	case r == '“' || r == '”':
		return '"'
	case r == '•' || r == '·' || r == '●':
		return '*'
	}
	return '?'
}

// InLocale returns a writer for text: if the locale is not UTF-8, it replaces characters that
// are not ASCII. Each Write must have whole characters.
func (o *TerminalWriter) InLocale() io.Writer {
	if unicodeTerminal() {
		return o
	}
	return asciiWriter{o}
}
