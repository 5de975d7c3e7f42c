package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// A printer writes for a person when its file is a terminal (tables, colours) and
// for a program when it is not (tabs, no header, no colours).
type printer struct {
	f      *os.File
	tty    bool
	colour bool
	err    error     // the first write that failed
	muted  bool      // nothing is printed any more
	above  io.Writer // where it is written instead while a line is edited below; else nil
}

func newPrinter(f *os.File) *printer {
	tty := term.IsTerminal(int(f.Fd()))
	// https://no-color.org: present and not empty.
	colour := tty && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return &printer{f: f, tty: tty, colour: colour}
}

// Write passes b on and remembers the first error, so that a caller that prints
// many lines may look once, at the end.
func (p *printer) Write(b []byte) (int, error) {
	if p.muted {
		return len(b), nil
	}
	var to io.Writer = p.f
	if p.above != nil {
		to = p.above
	}
	n, err := to.Write(b)
	if err != nil && p.err == nil {
		p.err = err
	}
	return n, err
}

// mute is for a terminal that takes nothing: a write to it would never return.
func (p *printer) mute() { p.muted = p.muted || p.tty }

func (p *printer) line(s string) { _, _ = p.Write([]byte(s + "\n")) }

func (p *printer) linef(format string, args ...any) { p.line(fmt.Sprintf(format, args...)) }

// json prints v: one line for a program, indented for a person.
func (p *printer) json(v any) error {
	enc := json.NewEncoder(p)
	enc.SetEscapeHTML(false)
	if p.tty {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// A style is the number of an ANSI rendition.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"

	italic    style = "3"
	underline style = "4"
)

func (p *printer) paint(st style, s string) string {
	if !p.colour || st == plain || s == "" {
		return s
	}
	return "\x1b[" + string(st) + "m" + s + "\x1b[0m"
}

// A cell is one field of a table.
type cell struct {
	text  string
	style style
}

func text(s string) cell { return cell{text: s} }

// A table is rows of cells below a header.
type table struct {
	header []string
	rows   [][]cell
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// table prints aligned columns on a terminal, no wider than its window, and lines of tab-separated fields without a header elsewhere.
func (p *printer) table(t table) {
	var b strings.Builder
	if !p.tty {
		for _, row := range t.rows {
			for i, c := range row {
				if i > 0 {
					b.WriteByte('\t')
				}
				b.WriteString(orDash(printable(c.text)))
			}
			b.WriteByte('\n')
		}
		_, _ = p.Write([]byte(b.String()))
		return
	}
	rows := make([][]cell, 0, len(t.rows)+1)
	head := make([]cell, len(t.header))
	for i, name := range t.header {
		head[i] = cell{name, bold}
	}
	rows = append(rows, head)
	for _, row := range t.rows {
		clean := make([]cell, len(row))
		for i, c := range row {
			clean[i] = cell{orDash(printable(c.text)), c.style}
		}
		rows = append(rows, clean)
	}
	widths := make([]int, len(t.header))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	fit(widths, t.header, p.width())
	for _, row := range rows {
		b.WriteString(p.row(row, widths))
	}
	_, _ = p.Write([]byte(b.String()))
}

// row is one line of a table. Columns without a width are left out.
func (p *printer) row(cells []cell, widths []int) string {
	var b strings.Builder
	gap := ""
	for i, c := range cells {
		if widths[i] == 0 {
			continue
		}
		c.text = shorten(c.text, widths[i])
		b.WriteString(gap + p.paint(c.style, c.text))
		gap = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2)
	}
	return b.String() + "\n"
}

// leastColumn is how narrow a column may become.
const leastColumn = 8

// fit makes a table as wide as the window at most: the widest columns give way first, and
// when that is not enough, columns are left out, from the one before the last. The first two
// stay, and so do ids, which are of use only as a whole.
func fit(widths []int, header []string, window int) {
	total := func() int {
		n := -2
		for _, w := range widths {
			if w > 0 {
				n += w + 2
			}
		}
		return n
	}
	for total() > window {
		widest := -1
		for i, w := range widths {
			if header[i] != "ID" && w > leastColumn && (widest < 0 || w >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	for i := len(widths) - 2; i > 1 && total() > window; i-- {
		widths[i] = 0
	}
}

func (p *printer) width() int {
	if w, _, err := term.GetSize(int(p.f.Fd())); err == nil && w > 0 {
		return w
	}
	return 80
}

// facts prints names and values one below the other.
func (p *printer) facts(list [][2]string) {
	t := table{}
	width := 0
	for _, f := range list {
		width = max(width, len(f[0]))
	}
	if !p.tty {
		for _, f := range list {
			t.add(text(f[0]), text(f[1]))
		}
		p.table(t)
		return
	}
	for _, f := range list {
		p.linef("%s  %s", p.paint(bold, f[0])+strings.Repeat(" ", width-len(f[0])), orDash(printable(f[1])))
	}
}

// shorten cuts s to n characters, the last of which then shows that it was cut.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// printable keeps s on one line and its control characters from the terminal: a
// command or a directory may hold anything.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError && size == 1, !unicode.IsPrint(r):
			for _, c := range []byte(s[i : i+size]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// when tells a time: how long ago for a person, RFC 3339 for a program.
func (p *printer) when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	if !p.tty {
		return t.UTC().Format(time.RFC3339)
	}
	ago := time.Since(t)
	if ago < time.Second {
		return "now"
	}
	return span(ago.Truncate(time.Second)) + " ago"
}

// span writes a duration with the one or two units that matter.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second != 0:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// seconds writes a number of seconds as people write it: 90s, 1.5s; 0 is none.
func seconds(s float64) string {
	if s == 0 {
		return "none"
	}
	return time.Duration(s * float64(time.Second)).String()
}

// bytesText writes a number of bytes with a unit.
func bytesText(n float64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%.0f B", n)
	}
	i := -1
	for n >= 1024 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") + " " + units[i:i+1] + "iB"
}
