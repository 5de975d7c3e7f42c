package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean keeps the lines and tabs of a text that somebody else wrote and makes the rest of
// its control characters visible: an agent must not move the cursor of the person's
// terminal, set its title, or turn its lines around.
func clean(s string) string {
	if strings.IndexFunc(s, unclean) < 0 && utf8.ValidString(s) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !unclean(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// unclean reports whether a character does something else than to show itself. Those that
// join or vary others, as in emoji, do not.
func unclean(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r == '\u200c', r == '\u200d':
		return false
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// text is what a printer may show of a text of somebody else: on a terminal it is made
// clean, elsewhere it is passed on as it is.
func (p *printer) text(s string) string {
	if p.tty {
		return clean(s)
	}
	return s
}

// indent puts a margin before each line.
func indent(margin, s string) string {
	if margin == "" || s == "" {
		return s
	}
	return margin + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n"+margin)
}

// firstLine is the first line of a text that has anything in it.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}

// countLines is how many lines a text has; the last may have no end.
func countLines(s string) int {
	if s = strings.TrimSuffix(s, "\n"); s == "" {
		return 0
	}
	return strings.Count(s, "\n") + 1
}
