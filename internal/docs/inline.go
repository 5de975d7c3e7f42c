package docs

import (
	"html"
	"strings"
)

// inline renders the marks inside a paragraph. A mark without its end is text.
func (r *renderer) inline(s string) string {
	var b strings.Builder
	for s != "" {
		at := strings.IndexAny(s, "\\`![*<")
		if at < 0 {
			break
		}
		b.WriteString(html.EscapeString(s[:at]))
		s = s[at:]
		text, n := r.mark(s)
		if n == 0 {
			text, n = html.EscapeString(s[:1]), 1
		}
		b.WriteString(text)
		s = s[n:]
	}
	return b.String() + html.EscapeString(s)
}

// mark renders the mark that s begins with, and returns its length; 0 if there is none.
func (r *renderer) mark(s string) (text string, n int) {
	switch {
	case s[0] == '\\' && len(s) > 1 && strings.ContainsRune("\\`*_{}[]()<>#+-.!|", rune(s[1])):
		return html.EscapeString(s[1:2]), 2
	case s[0] == '`':
		return codeSpan(s)
	case strings.HasPrefix(s, "!["):
		if alt, target, n := linkParts(s[1:]); n > 0 {
			return `<img src="` + html.EscapeString(r.link(target)) + `" alt="` + html.EscapeString(plainText(r.inline(alt))) + `">`, n + 1
		}
	case s[0] == '[':
		if label, target, n := linkParts(s); n > 0 {
			return `<a href="` + html.EscapeString(r.link(target)) + `">` + r.inline(label) + "</a>", n
		}
	case strings.HasPrefix(s, "<https://"):
		if end := strings.IndexAny(s, "> "); end > 0 && s[end] == '>' {
			address := html.EscapeString(s[1:end])
			return `<a href="` + address + `">` + address + "</a>", end + 1
		}
	case strings.HasPrefix(s, "**"):
		if end := strings.Index(s[2:], "**"); end > 0 && s[2] != ' ' {
			return "<strong>" + r.inline(s[2:2+end]) + "</strong>", end + 4
		}
	case s[0] == '*':
		if end := strings.IndexByte(s[1:], '*'); end > 0 && s[1] != ' ' && s[end] != ' ' {
			return "<em>" + r.inline(s[1:1+end]) + "</em>", end + 2
		}
	}
	return "", 0
}

// codeSpan renders code between two rows of equally many backquotes.
func codeSpan(s string) (text string, n int) {
	ticks := s[:len(s)-len(strings.TrimLeft(s, "`"))]
	for from := len(ticks); ; {
		at := strings.Index(s[from:], ticks)
		if at < 0 {
			return html.EscapeString(ticks), len(ticks)
		}
		end := from + at
		after := end + len(ticks)
		if after < len(s) && s[after] == '`' { // a longer row
			from = len(s) - len(strings.TrimLeft(s[end:], "`"))
			continue
		}
		code := s[len(ticks):end]
		if strings.HasPrefix(code, " ") && strings.HasSuffix(code, " ") && strings.TrimSpace(code) != "" {
			code = code[1 : len(code)-1]
		}
		return "<code>" + html.EscapeString(code) + "</code>", after
	}
}

// linkParts splits [label](target), which s begins with. n is 0 if it is none.
func linkParts(s string) (label, target string, n int) {
	depth, end := 0, 0
	for i := 0; i < len(s) && end == 0; i++ {
		switch s[i] {
		case '\\':
			i++
		case '`':
			if _, n := codeSpan(s[i:]); n > 0 {
				i += n - 1
			}
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				end = i
			}
		}
	}
	if end == 0 || end+1 >= len(s) || s[end+1] != '(' {
		return "", "", 0
	}
	length := strings.IndexAny(s[end+2:], ") ")
	if length <= 0 || s[end+2+length] != ')' {
		return "", "", 0
	}
	return s[1:end], s[end+2 : end+2+length], end + 3 + length
}

// plainText returns the text of HTML that this package has made.
func plainText(markup string) string {
	var b strings.Builder
	for {
		before, tag, found := strings.Cut(markup, "<")
		b.WriteString(before)
		if !found {
			return html.UnescapeString(b.String())
		}
		_, markup, _ = strings.Cut(tag, ">")
	}
}
