package docs

import (
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// A section is what a heading is about: the unit of the search.
type section struct {
	Heading string // "" for the text before the first heading below the title
	Anchor  string // of the heading
	Level   int
	Text    string // without marks
}

// renderer turns the Markdown of our documents into HTML. It knows what they use: headings,
// paragraphs, lists, tables, quotes, rules, code, links, pictures and emphasis. HTML in a document
// is shown as text, and comments are left out. One goroutine uses it.
//
// It is not goldmark, which adds 0.7 MB to the program and, with the tables of its packages, 3,500
// allocations to the start of every command. Nor could its parser serve ui.Markdown, which shows a
// line before the next one exists; goldmark parses whole documents.
type renderer struct {
	link     func(target string) string // the address of a link or a picture
	out      strings.Builder
	title    string // the first heading of level 1
	sections []section
	anchors  map[string]int // how often each anchor was used
}

// render returns a page in HTML. The texts of its sections are in r.sections afterwards.
func (r *renderer) render(text string) string {
	r.anchors = map[string]int{}
	r.sections = []section{{}}
	r.blocks(strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), false)
	return r.out.String()
}

// The patterns are compiled at their first use, because most commands show no document.
var (
	headingLine = pattern(`^(#{1,6}) +(.*?)(?: +#+)? *$`)
	fenceLine   = pattern("^ {0,3}(```+|~~~+) *([A-Za-z0-9_+-]*) *$")
	itemLine    = pattern(`^( {0,3})([-*+]|\d{1,9}[.)])( +)\S`)
	ruleLine    = pattern(`^ {0,3}(?:-{3,}|\*{3,}|_{3,}) *$`)
)

func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// blocks renders lines. In a tight list item, the first paragraph has no tags of its own.
func (r *renderer) blocks(lines []string, tight bool) {
	for first := true; len(lines) > 0; {
		n := 1
		line := lines[0]
		switch {
		case strings.TrimSpace(line) == "":
			lines = lines[1:]
			continue
		case strings.HasPrefix(line, "<!--"):
			for n < len(lines) && !strings.Contains(lines[n-1], "-->") {
				n++
			}
		case fenceLine().MatchString(line):
			n = r.code(lines)
		case headingLine().MatchString(line):
			r.heading(line)
		case ruleLine().MatchString(line):
			r.out.WriteString("<hr>\n")
		case isTable(lines):
			n = r.table(lines)
		case itemLine().MatchString(line):
			n = r.list(lines)
		case strings.HasPrefix(line, ">"):
			var quoted []string
			for n = 0; n < len(lines) && strings.HasPrefix(lines[n], ">"); n++ {
				quoted = append(quoted, strings.TrimPrefix(strings.TrimPrefix(lines[n], ">"), " "))
			}
			r.out.WriteString("<blockquote>\n")
			r.blocks(quoted, false)
			r.out.WriteString("</blockquote>\n")
		default:
			for n < len(lines) && !interrupts(lines[n:]) {
				n++
			}
			text := r.inline(joined(lines[:n]))
			r.index(text)
			if tight && first {
				r.out.WriteString(text + "\n")
			} else {
				r.out.WriteString("<p>" + text + "</p>\n")
			}
		}
		lines, first = lines[n:], false
	}
}

// interrupts reports whether the first of the lines ends a paragraph.
func interrupts(lines []string) bool {
	line := lines[0]
	if m := itemLine().FindStringSubmatch(line); m != nil {
		return len(m[2]) == 1 || strings.Trim(m[2], ".)") == "1" // another number may begin a line by chance
	}
	return strings.TrimSpace(line) == "" || fenceLine().MatchString(line) || headingLine().MatchString(line) ||
		isTable(lines) || strings.HasPrefix(line, ">") || strings.HasPrefix(line, "<!--")
}

// joined returns the lines of a paragraph as one.
func joined(lines []string) string {
	words := make([]string, len(lines))
	for i, line := range lines {
		words[i] = strings.TrimSpace(line)
	}
	return strings.Join(words, " ")
}

func (r *renderer) heading(line string) {
	m := headingLine().FindStringSubmatch(line)
	text := r.inline(m[2])
	level, plain := len(m[1]), plainText(text)
	anchor := slug(plain)
	if n := r.anchors[anchor]; n > 0 {
		r.anchors[anchor]++
		anchor += "-" + strconv.Itoa(n)
	}
	r.anchors[anchor]++
	if level == 1 && r.title == "" {
		r.title = plain
		fmt.Fprintf(&r.out, "<h1 id=\"%s\">%s</h1>\n", html.EscapeString(anchor), text)
		return
	}
	r.sections = append(r.sections, section{Heading: plain, Anchor: anchor, Level: level})
	fmt.Fprintf(&r.out, "<h%d id=\"%s\">%s <a class=\"anchor\" href=\"#%s\" aria-label=\"Link to this section\">#</a></h%d>\n",
		level, html.EscapeString(anchor), text, html.EscapeString(anchor), level)
}

// slug returns the anchor of a heading, the same as on GitHub.
func slug(heading string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case unicode.IsLetter(c) || unicode.IsDigit(c) || c == '-' || c == '_':
			return unicode.ToLower(c)
		case c == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(heading))
}

// code renders a fenced block and returns the number of its lines.
func (r *renderer) code(lines []string) int {
	open := fenceLine().FindStringSubmatch(lines[0])
	n := fenced(lines)
	text := strings.Join(lines[1:n], "\n") + "\n"
	if last := strings.TrimSpace(lines[n-1]); n > 1 && strings.HasPrefix(last, open[1]) { // the end
		text = strings.TrimSuffix(text, lines[n-1]+"\n")
	}
	class := ""
	if open[2] != "" {
		class = " class=\"" + html.EscapeString(open[2]) + "\""
	}
	r.out.WriteString("<pre" + class + " tabindex=\"0\"><code>" + html.EscapeString(text) + "</code></pre>\n")
	r.index(html.EscapeString(text))
	return n
}

// list renders the items of a list and returns the number of their lines.
func (r *renderer) list(lines []string) int {
	m := itemLine().FindStringSubmatch(lines[0])
	tag, mark := "ul", m[2]
	if len(mark) > 1 {
		tag = "ol"
		mark = mark[len(mark)-1:]
		if first := strings.Trim(m[2], ".)"); first != "1" {
			r.out.WriteString("<ol start=\"" + first + "\">\n")
		} else {
			r.out.WriteString("<ol>\n")
		}
	} else {
		r.out.WriteString("<ul>\n")
	}
	n := 0
	for n < len(lines) {
		m := itemLine().FindStringSubmatch(lines[n])
		if m == nil || !strings.HasSuffix(m[2], mark) || ruleLine().MatchString(lines[n]) {
			break
		}
		indent := len(m[1]) + len(m[2]) + len(m[3])
		item := []string{lines[n][indent:]}
		for n++; n < len(lines); n++ {
			line, blank := lines[n], strings.TrimSpace(lines[n]) == ""
			switch {
			case !blank && strings.HasPrefix(line, strings.Repeat(" ", indent)):
				item = append(item, line[indent:])
				continue
			case blank && n+1 < len(lines) && strings.HasPrefix(lines[n+1], strings.Repeat(" ", indent)):
				item = append(item, "")
				continue
			case !blank && item[len(item)-1] != "" && !interrupts(lines[n:]) && !itemLine().MatchString(line): // a paragraph goes on without indentation
				item = append(item, strings.TrimSpace(line))
				continue
			}
			break
		}
		r.out.WriteString("<li>")
		r.blocks(item, true)
		r.out.WriteString("</li>\n")
		for n+1 < len(lines) && strings.TrimSpace(lines[n]) == "" && itemLine().MatchString(lines[n+1]) {
			n++ // a blank line between two items
		}
	}
	r.out.WriteString("</" + tag + ">\n")
	return n
}

// isTable reports whether the lines begin with a row and the rule below it.
func isTable(lines []string) bool {
	return len(lines) > 1 && strings.HasPrefix(lines[0], "|") && strings.HasPrefix(lines[1], "|") && strings.Trim(lines[1], "|-: ") == ""
}

// table renders a table and returns the number of its lines.
func (r *renderer) table(lines []string) int {
	r.out.WriteString("<div class=\"table\" tabindex=\"0\"><table>\n")
	n := 0
	for ; n < len(lines) && strings.HasPrefix(lines[n], "|"); n++ {
		if n == 1 {
			continue // the rule
		}
		tag := "td"
		if n == 0 {
			tag = "th"
		}
		r.out.WriteString("<tr>")
		for _, cell := range cells(lines[n]) {
			text := r.inline(cell)
			r.index(text)
			r.out.WriteString("<" + tag + ">" + text + "</" + tag + ">")
		}
		r.out.WriteString("</tr>\n")
	}
	r.out.WriteString("</table></div>\n")
	return n
}

// cells splits a row; \| is a bar inside a cell.
func cells(row string) []string {
	row = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(row), "|"), "|")
	list := strings.Split(strings.ReplaceAll(row, `\|`, "\x00"), "|")
	for i, cell := range list {
		list[i] = strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|")
	}
	return list
}

// index adds text, which is HTML, to the current section.
func (r *renderer) index(text string) {
	s := &r.sections[len(r.sections)-1]
	s.Text = strings.TrimSpace(s.Text + " " + strings.Join(strings.Fields(plainText(text)), " "))
}
